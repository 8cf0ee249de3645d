"""Fragments that stand in the aggregation file itself: indexed or not, they are read as the file is now."""

from __future__ import annotations

import os
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np
import numpy.testing as npt
import pytest

import cfagg
from cfagg.arrays.index import SUFFIX, open_index
from tests import nca_files

VALUES = np.arange(24, dtype="f4").reshape(6, 4)


def inside(folder: Path, values: Any, *, time: int | None = None) -> Path:
    """Write an aggregation of three fragments: a variable of its own file, the same by its name, and another file."""
    folder.mkdir(exist_ok=True)
    nca_files.fragment(folder / "part.nc", "tas", VALUES[4:], ("x", "y"))
    said = [{"ncvar": "first"}, {"file": "agg.nca", "ncvar": "second"}, {"file": "part.nc", "ncvar": "tas"}]

    def describe(index: tuple[int, ...], _: Any) -> dict[str, Any]:
        return {"data": {**said[index[0]], "shape": [2, 4]}, "format": "netCDF"}

    content = nca_files.array(["x", "y"], [[0, 2, 4, 6], [0, 4]], describe)
    private = {name: (("two", "y"), values[k : k + 2], {}, None) for name, k in (("first", 0), ("second", 2))}
    path = folder / "agg.nca"
    path.unlink(missing_ok=True)
    nca_files.aggregation(
        path, "tas", "f4", {"x": 6, "y": 4}, content, {"units": "K"}, dims=["x", "y"], private=private
    )
    if time is not None:
        os.utime(path, ns=(time, time))
    return path


def read(path: Path, **how: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with cfagg.read(path, **how) as found:
            return found["tas"].values


def changed(path: Path) -> Path:
    """Change values in the file; the netCDF library of this process, which may have it open, changes a copy."""
    other = Path(shutil.copy(path, path.with_name("copy.nc")))
    with netCDF4.Dataset(other, "a") as file:
        file["first"][:], file["second"][:] = -file["first"][:], -file["second"][:]
    path.write_bytes(other.read_bytes())
    return path


def moved(path: Path) -> Path:
    changed(path)
    return Path(shutil.move(path.parent, path.parent.with_name("elsewhere"))) / path.name


def replaced(path: Path) -> Path:
    """Put another file of the same size and time in its place."""
    before = path.stat()
    other = inside(path.parent.with_name("other"), -VALUES, time=before.st_mtime_ns)
    assert other.stat().st_size == before.st_size
    other.replace(path)
    return path


def rewritten(path: Path) -> Path:
    """Write other bytes over it, in the same file with the same time."""
    before = path.stat()
    other = inside(path.parent.with_name("other"), -VALUES)
    path.write_bytes(other.read_bytes())
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    return path


@pytest.mark.parametrize("change", [changed, moved, replaced, rewritten])
def test_values_in_the_aggregation_file_are_those_that_it_has_now(
    tmp_path: Path, change: Callable[[Path], Path]
) -> None:
    path = inside(tmp_path / "here", VALUES)
    cfagg.index(path)
    npt.assert_array_equal(read(path), VALUES)
    now = change(path)
    expected = np.concatenate([-VALUES[:4], VALUES[4:]])
    for how in ({}, {"index": False}):
        npt.assert_array_equal(read(now, **how), expected)
    cfagg.index(now)
    npt.assert_array_equal(read(now), expected)


def test_what_the_aggregation_file_holds_has_rows_where_it_is_named(tmp_path: Path) -> None:
    path = inside(tmp_path / "here", VALUES)
    cfagg.index(path)
    assert sorted(open_index(f"{path}{SUFFIX}").path) == ["agg.nca", "part.nc"]


def test_a_moved_aggregation_file_is_read_by_its_index_as_it_stands(tmp_path: Path) -> None:
    path = inside(tmp_path / "here", VALUES)
    cfagg.index(path)
    now = Path(shutil.move(path.parent, tmp_path / "there")) / path.name
    npt.assert_array_equal(read(now), VALUES)


def test_variables_of_an_output_that_are_no_aggregations_are_not_read_by_the_index(tmp_path: Path) -> None:
    names = []
    for k in range(2):
        with netCDF4.Dataset(tmp_path / f"{k}.nc", "w") as file:
            file.createDimension("time", 2)
            time = file.createVariable("time", "f8", ("time",))
            time.setncatts({"standard_name": "time", "units": "days since 2000-01-01"})
            time[:] = [2 * k, 2 * k + 1]
            height = file.createVariable("height", "f8", ())
            height.setncatts({"standard_name": "height", "units": "m"})
            height[...] = 2.0
            data = file.createVariable("tas", "f4", ("time",))
            data.setncatts({"standard_name": "air_temperature", "units": "K", "coordinates": "height"})
            data[:] = k
        names.append(tmp_path / f"{k}.nc")
    output = tmp_path / "all.nc"
    cfagg.aggregate(names, output=output)
    with netCDF4.Dataset(output, "a") as file:
        file["height"][...], file["time"][:] = 10.0, [0, 1, 2, 9]
    with cfagg.read(output, decode_times=False) as found:
        assert found["height"].item() == 10.0
        npt.assert_array_equal(found["time"].values, [0, 1, 2, 9])
        npt.assert_array_equal(found["tas"].values, [0, 0, 1, 1])
