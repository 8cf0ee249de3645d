"""Files that change in ways that hide it: by an index, values are always those that the files have now."""

from __future__ import annotations

import os
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import netCDF4
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cfagg
from cfagg.errors import CfaggError, StaleIndexWarning
from cfagg.storage.handles import handles
from tests.systems import needs_proc

COUNT = 6
KINDS = ({"format": "NETCDF3_CLASSIC"}, {"contiguous": True}, {"chunksizes": (1, 2, 3), "zlib": True})


def write(path: Path, day: int, seed: int, scale: float = 1.0) -> None:
    """Write a day; files of one kind have one size, whatever is in them, but for what is compressed."""
    how = dict(KINDS[day % 3])
    with netCDF4.Dataset(path, "w", format=how.pop("format", "NETCDF4")) as file:
        for dim, n, units, standard in (
            ("time", 1, "days since 2000-01-01", "time"),
            ("lat", 2, "degrees_north", "latitude"),
            ("lon", 3, "degrees_east", "longitude"),
        ):
            file.createDimension(dim, n)
            made = file.createVariable(dim, "f8", (dim,))
            made.setncatts({"units": units, "standard_name": standard})
            made[:] = np.arange(n) + (day if dim == "time" else 0)
        made = file.createVariable("tas", "i4", ("time", "lat", "lon"), **how)
        made.setncatts({"units": "K", "standard_name": "air_temperature", "scale_factor": np.float64(scale)})
        made.set_auto_maskandscale(False)
        made[:] = np.random.default_rng(seed).integers(0, 100, (1, 2, 3))


def put_aside(path: Path, day: int, seed: int, scale: float) -> None:
    """Replace a file by another one of the same times."""
    before = path.stat()
    write(path.with_suffix(".new"), day, seed, scale)
    os.utime(path.with_suffix(".new"), ns=(before.st_atime_ns, before.st_mtime_ns))
    path.with_suffix(".new").replace(path)


def put_over(path: Path, day: int, seed: int, scale: float) -> None:
    """Write other bytes into a file, with the inode and the times that it had."""
    before = path.stat()
    write(path.with_suffix(".new"), day, seed, scale)
    with path.open("r+b") as file:
        file.write(path.with_suffix(".new").read_bytes())
        file.truncate()
    path.with_suffix(".new").unlink()
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def put_again(path: Path, day: int, seed: int, scale: float) -> None:
    """Remove a file and write another one, which may get its inode."""
    before = path.stat()
    path.unlink()
    write(path, day, seed, scale)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def copy_over(path: Path, day: int, seed: int, scale: float) -> None:
    """Copy the same bytes and times to another inode."""
    shutil.copy2(path, path.with_suffix(".new"))
    path.with_suffix(".new").replace(path)


CHANGES: list[Callable[[Path, int, int, float], None]] = [put_aside, put_over, put_again, copy_over]


def expected(folder: Path) -> npt.NDArray[np.float64]:
    found = []
    for day in range(COUNT):
        with netCDF4.Dataset(folder / f"{day}.nc") as file:
            found.append(file["tas"][:].filled(np.nan))
    return np.concatenate(found)


def compare(path: Path) -> None:
    handles.shrink(0)
    own = expected(path.parent)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StaleIndexWarning)
        found = cfagg.read(path).tas
        np.testing.assert_array_equal(found[:, 1, 2].values, own[:, 1, 2])
        np.testing.assert_array_equal(found.values, own)


@needs_proc
@settings(max_examples=12)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(CHANGES), st.integers(0, COUNT - 1), st.integers(0, 9), st.sampled_from([1.0, 0.5, 2.0])
        ),
        min_size=1,
        max_size=4,
    )
)
def test_whatever_happened_to_the_files_values_are_those_of_now(
    changes: list[tuple[Callable[[Path, int, int, float], None], int, int, float]],
) -> None:
    with TemporaryDirectory() as name:
        folder = Path(name)
        for day in range(COUNT):
            write(folder / f"{day}.nc", day, day)
        path = folder / "all.nc"
        cfagg.aggregate([folder / f"{day}.nc" for day in range(COUNT)], output=path)
        compare(path)
        for change, day, seed, scale in changes:
            change(folder / f"{day}.nc", day, seed, scale)
            compare(path)


def test_files_that_changed_places_are_not_taken_for_each_other(tmp_path: Path) -> None:
    for day in range(COUNT):
        write(tmp_path / f"{day}.nc", day, day, 0.5 if day < 3 else 2.0)
        os.utime(tmp_path / f"{day}.nc", ns=(10**18, 10**18))
    path = tmp_path / "all.nc"
    cfagg.aggregate([tmp_path / f"{day}.nc" for day in range(COUNT)], output=path)
    for one, other in ((0, 3), (1, 4), (2, 5)):
        (tmp_path / f"{one}.nc").rename(tmp_path / "x")
        (tmp_path / f"{other}.nc").rename(tmp_path / f"{one}.nc")
        (tmp_path / "x").rename(tmp_path / f"{other}.nc")
    compare(path)


@pytest.mark.few(1)
@pytest.mark.parametrize("size", [0, 1, 100])
def test_a_file_that_became_shorter_is_an_error_and_no_values(tmp_path: Path, size: int) -> None:
    for day in range(COUNT):
        write(tmp_path / f"{day}.nc", day, day)
    path = tmp_path / "all.nc"
    cfagg.aggregate([tmp_path / f"{day}.nc" for day in range(COUNT)], output=path)
    before = (tmp_path / "1.nc").stat()
    os.truncate(tmp_path / "1.nc", size)
    os.utime(tmp_path / "1.nc", ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.warns(StaleIndexWarning), pytest.raises(CfaggError, match=r"1\.nc"):
        _ = cfagg.read(path).tas[:, 1, 2].values


def test_files_of_another_size_are_searched_though_what_describes_their_variables_is_the_same(tmp_path: Path) -> None:
    for day in range(COUNT):
        write(tmp_path / f"{day}.nc", day, day)
    path = tmp_path / "all.nc"
    cfagg.aggregate([tmp_path / f"{day}.nc" for day in range(COUNT)], output=path)
    for day in (1, 3):
        with (tmp_path / f"{day}.nc").open("ab") as file:
            file.write(b"x")
    with pytest.warns(StaleIndexWarning, match=r"[13]\.nc has changed") as told:
        found = cfagg.read(path).tas.values
    assert len(told) == 1
    assert np.array_equal(found, cfagg.read(path, index=False).tas.values)
