"""Values of HDF5 files of other writers are those that h5py, pyfive and netCDF4 read."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import h5py
import netCDF4
import numpy as np
import pyfive
import pytest

import cfagg
from cfagg.errors import CfaggError
from tests.checking.real.packages import PACKAGES, files, install
from tests.formats import hdf5_corpus

#: Files that stand beside the libraries that tests need.
BUNDLED = sorted(Path(h5py.__file__).parent.rglob("*.h5"))


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return hdf5_corpus.write(tmp_path_factory.mktemp("corpus"))


def datasets(path: Path) -> dict[str, h5py.Dataset]:
    """Return the arrays of numbers by their names; the file stays open as long as they are used."""
    found: dict[str, Any] = {}

    def visit(name: str, one: Any) -> None:
        if isinstance(one, h5py.Dataset) and one.dtype.kind in "iufb" and one.shape is not None:
            if one.attrs.get("NAME", b"").startswith(b"This is a netCDF dimension but not"):
                return
            found[name] = one

    h5py.File(path).visititems(visit)
    return found


def read(path: Path, name: str) -> np.ndarray[Any, Any]:
    """Return a variable's stored values as cfagg reads them."""
    group, _, variable = name.rpartition("/")
    with cfagg.read(path, group=group or None, variables=variable, mask_and_scale=False, decode_times=False) as opened:
        return np.asarray(opened[variable].values)


def compare(path: Path) -> dict[str, int]:
    """Compare all arrays of a file with every library, and return how many each could read."""
    counts = {"h5py": 0, "pyfive": 0, "netCDF4": 0}
    by_pyfive = pyfive.File(str(path)) if path.read_bytes()[:1] == b"\x89" else {}
    with netCDF4.Dataset(path) as by_netcdf:
        by_netcdf.set_auto_maskandscale(False)
        for name, dataset in datasets(path).items():
            found = read(path, name)
            # Where an unlimited dimension of netCDF has grown, HDF5 still has what was written.
            stored = found[tuple(map(slice, dataset.shape))]
            np.testing.assert_array_equal(stored, dataset[()], err_msg=f"{path}: {name}, h5py")
            counts["h5py"] += 1
            assert found.shape == dataset.shape or name in by_netcdf.variables
            try:
                other = by_pyfive[name][()]
            except (AssertionError, ImportError, KeyError, NotImplementedError, RuntimeError):
                pass  # pyfive does not read every filter and index
            else:
                np.testing.assert_array_equal(stored, other, err_msg=f"{path}: {name}, pyfive")
                counts["pyfive"] += 1
            if name in by_netcdf.variables and dataset.compression != "lzf":  # which netCDF does not have
                np.testing.assert_array_equal(found, by_netcdf[name][...], err_msg=f"{path}: {name}, netCDF4")
                counts["netCDF4"] += 1
    return counts


@pytest.mark.few(2)
@pytest.mark.parametrize("name", ["layouts", "filters", "types", "histories", "groups", "shapes", "attributes"])
@pytest.mark.parametrize("version", hdf5_corpus.VERSIONS)
def test_values_of_each_version_of_the_format_are_those_of_other_readers(
    corpus: dict[str, Path], name: str, version: str
) -> None:
    counts = compare(corpus[f"{name}, {version}"])
    assert counts["h5py"]


@pytest.mark.parametrize("name", ["NETCDF4", "NETCDF4_CLASSIC", "user block"])
def test_values_of_files_of_other_writers_are_those_of_other_readers(corpus: dict[str, Path], name: str) -> None:
    counts = compare(corpus[name])
    assert counts["netCDF4"] == counts["h5py"]


@pytest.mark.parametrize("path", BUNDLED, ids=lambda path: path.stem)
def test_files_that_come_with_h5py_are_read_or_refused(path: Path) -> None:
    with suppress(CfaggError):
        compare(path)


@pytest.mark.soak
@pytest.mark.parametrize("package", PACKAGES)
def test_values_of_packages_of_real_files_are_those_of_other_readers(package: str) -> None:
    install()
    hdf5 = [path for path in files(package) if path.read_bytes()[:4] == b"\x89HDF"]
    assert sum(compare(path)["h5py"] for path in hdf5) > 10
