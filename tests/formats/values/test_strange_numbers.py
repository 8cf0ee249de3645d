"""Numbers of HDF5 that netCDF does not have: the netCDF library takes them for strings, and crashes on them."""

import subprocess
import sys

import h5py
import numpy as np
import pytest

import cfagg
from cfagg.errors import UnsupportedError
from cfagg.formats.values.netcdf import opened

VALUES = np.array([0, 1.5, -2, 65504])


@pytest.fixture(params=["f2", ">f2", "g"])
def path(tmp_path, request):
    """A file with them, one dataset with a fill value of its own, and an ordinary dataset beside."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("filled", data=VALUES.astype(request.param), fillvalue=1.5)
        file.create_dataset("packed", data=VALUES.astype(request.param), chunks=(2,), compression="gzip")
        file["plain"] = VALUES.astype("f4")
    return tmp_path / "a.h5"


def test_they_are_read_as_the_hdf5_library_reads_them(path):
    found = cfagg.read(path)
    with h5py.File(path) as file:
        for name in ("filled", "packed", "plain"):
            assert found[name].dtype == file[name].dtype.newbyteorder("=")
            np.testing.assert_array_equal(found[name].values, file[name][...])


@pytest.mark.few(4)
@pytest.mark.parametrize("words", ["show", "check --data", "convert -o out.zarr"])
def test_the_command_survives_them(path, tmp_path, words):
    verb, *rest = words.split()
    done = subprocess.run(
        [sys.executable, "-m", "cfagg", verb, str(path), *rest],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    # Zarr has no long doubles.
    assert done.returncode in (0, 1, 2), done.stderr
    assert "unexpected" not in done.stderr


def test_the_netcdf_library_does_not_get_the_file(path):
    with pytest.raises(UnsupportedError, match="numbers that netCDF does not have"), opened(str(path)):
        pass
