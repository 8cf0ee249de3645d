"""Chunks shorter than their Fletcher-32 checksum, on which the HDF5 library crashes."""

import subprocess
import sys

import h5py
import netCDF4
import numpy as np
import pytest

import cfagg
from cfagg.checking.opening import open_dataset

VALUES = np.arange(24.0).reshape(4, 6)


def write(path, **options):
    with netCDF4.Dataset(path, "w") as file:
        file.createDimension("x", 4)
        file.createDimension("y", 6)
        file.createVariable("v", "f8", ("x", "y"), chunksizes=(2, 3), fletcher32=True, **options)[:] = VALUES
    return path


def shorten(path):
    """Let the index of chunks say that the first one has two bytes."""
    with h5py.File(path) as file:
        info = file["v"].id.get_chunk_info(0)
    data = bytearray(path.read_bytes())
    # A key of the tree: bytes, filters left out, and the place of the chunk in the dataset.
    key = info.size.to_bytes(4, "little") + bytes(4) + bytes(24)
    at = data.find(key)
    assert at > 0
    assert data.count(key) == 1
    data[at : at + 4] = (2).to_bytes(4, "little")
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("options", [{}, {"zlib": True}, {"zlib": True, "shuffle": True}])
def test_whole_chunks_read_as_before(tmp_path, options):
    path = write(tmp_path / "a.nc", **options)
    np.testing.assert_array_equal(cfagg.read(path)["v"].values, VALUES)
    np.testing.assert_array_equal(cfagg.read(path)["v"][1:4:2, 5:1:-2].values, VALUES[1:4:2, 5:1:-2])
    assert not [f for f in cfagg.check(path, data=True).findings if f.code.startswith("INT")]


def test_short_ones_are_an_error_of_convert(tmp_path):
    shorten(write(tmp_path / "a.nc"))
    done = subprocess.run(
        [sys.executable, "-m", "cfagg", "convert", "a.nc", "-o", "a.zarr"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "damaged" in done.stderr


def test_short_ones_are_an_error_of_checks(tmp_path):
    shorten(write(tmp_path / "a.nc"))
    code = (
        "import sys; from cfagg.checking.opening import open_dataset; from cfagg.errors import FragmentReadError\n"
        "try: open_dataset(sys.argv[1]).variables[0].values()\n"
        "except FragmentReadError as error: print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "a.nc")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "damaged" in done.stdout


def test_checks_read_whole_ones_behind_a_user_block(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w", userblock_size=512) as file:
        file.create_dataset("v", data=VALUES, chunks=(2, 3), fletcher32=True)
    with open_dataset(tmp_path / "a.h5") as dataset:
        np.testing.assert_array_equal(dataset.variables[0].values(), VALUES)
