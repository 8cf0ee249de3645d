"""Many files as one dataset, against xarray and NumPy on files written by the netCDF library."""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np
import numpy.testing as npt
import pytest
import xarray as xr

import cfagg

LAT = {"standard_name": "latitude", "units": "degrees_north"}
LON = {"standard_name": "longitude", "units": "degrees_east"}
TIME = {"standard_name": "time", "units": "days since 2000-01-01"}
TAS = {"standard_name": "air_temperature", "units": "K"}


def write(
    path: Path,
    dims: Mapping[str, tuple[Any, Mapping[str, Any]]],
    values: Any,
    attributes: Mapping[str, Any] = TAS,
    *,
    name: str = "tas",
    order: Sequence[str] | None = None,
    dtype: str | None = None,
    around: Mapping[str, Any] | None = None,
) -> str:
    """Write a file with one variable; `dims` gives coordinates with their attributes, a bare number is a scalar."""
    with netCDF4.Dataset(path, "w") as file:
        file.setncatts({"Conventions": "CF-1.8", **(around or {})})
        scalars = []
        for dim, (coordinate, own) in dims.items():
            spans = (dim,) if np.ndim(coordinate) else ()
            if spans:
                file.createDimension(dim, len(coordinate))
            else:
                scalars.append(dim)
            made = file.createVariable(dim, "f8", spans)
            made.setncatts(own)
            made[...] = coordinate
        spans = tuple(order or (d for d in dims if d not in scalars))
        values = np.asarray(values)
        own = dict(attributes)
        made = file.createVariable(name, dtype or values.dtype, spans, fill_value=own.pop("_FillValue", None))
        made.set_auto_maskandscale(False)
        made.setncatts(own)
        if scalars:
            made.coordinates = " ".join(scalars)
        made[...] = values
    return str(path)


def series(folder: Path, count: int = 4, each: int = 3) -> tuple[list[str], np.ndarray]:
    """Write files that follow each other in time; return them and the whole array."""
    whole = np.random.default_rng(1).normal(size=(count * each, 4, 5)).astype("f4")
    files = []
    for k in range(count):
        own = slice(k * each, (k + 1) * each)
        dims = {
            "time": (np.arange(own.start, own.stop), TIME),
            "lat": (np.arange(4.0), LAT),
            "lon": (np.arange(5.0), LON),
        }
        files.append(write(folder / f"{k}.nc", dims, whole[own], around={"title": "a title", "history": str(k)}))
    return files, whole


def test_files_that_follow_each_other_are_one_array_as_xarray_has_it(tmp_path: Path) -> None:
    files, whole = series(tmp_path)
    found = cfagg.aggregate(files)
    with xr.open_mfdataset(files, combine="by_coords", combine_attrs="drop_conflicts") as expected:
        xr.testing.assert_identical(found.load(), expected.load())
    npt.assert_array_equal(found.tas.values, whole)


def test_the_order_of_the_files_is_of_no_account(tmp_path: Path) -> None:
    files, whole = series(tmp_path)
    npt.assert_array_equal(cfagg.aggregate(files[::-1]).tas.values, whole)


@pytest.mark.parametrize("how", ["list", "pattern", "generator"])
def test_read_opens_several_files_as_aggregate_does(tmp_path: Path, how: str) -> None:
    files, whole = series(tmp_path)
    named = {"list": files, "pattern": str(tmp_path / "*.nc"), "generator": iter(files)}[how]
    npt.assert_array_equal(cfagg.read(named, variables="tas").tas.values, whole)


def test_selections_and_negative_steps_are_those_of_numpy(tmp_path: Path) -> None:
    files, whole = series(tmp_path)
    tas = cfagg.aggregate(files).tas
    npt.assert_array_equal(tas[::-2, 1, [3, 0]].values, whole[::-2, 1][:, [3, 0]])
    npt.assert_array_equal(tas[7:2:-1].values, whole[7:2:-1])
    npt.assert_array_equal(tas.isel(time=-1).values, whole[-1])


def test_chunks_of_dask_follow_the_files(tmp_path: Path) -> None:
    files, whole = series(tmp_path)
    tas = cfagg.aggregate(files, chunks={}).tas
    assert tas.chunks == ((3, 3, 3, 3), (4,), (5,))
    npt.assert_array_equal(tas.data.compute(scheduler="synchronous"), whole)


def test_a_lazy_dataset_may_be_pickled(tmp_path: Path) -> None:
    files, whole = series(tmp_path)
    again = pickle.loads(pickle.dumps(cfagg.aggregate(files)))
    npt.assert_array_equal(again.tas.values, whole)


def test_scalar_coordinates_that_differ_become_a_new_dimension(tmp_path: Path) -> None:
    whole = np.arange(24.0).reshape(2, 3, 4)
    height = {"standard_name": "height", "units": "m"}
    files = [
        write(
            tmp_path / f"{a}{t}.nc",
            {"lat": (np.arange(4.0), LAT), "time": (float(t), TIME), "height": (float(a), height)},
            whole[a, t],
        )
        for t in range(3)
        for a in range(2)
    ]
    found = cfagg.aggregate(files).tas
    npt.assert_array_equal(found.transpose("height", "time", "lat").values, whole)
    assert found.height.values.tolist() == [0, 1]
    assert found.time.dt.day.values.tolist() == [1, 2, 3]


def test_variables_that_do_not_join_are_numbered(tmp_path: Path) -> None:
    one = write(tmp_path / "a.nc", {"lat": (np.arange(4.0), LAT)}, np.arange(4.0))
    two = write(tmp_path / "b.nc", {"lon": (np.arange(5.0), LON)}, np.arange(5.0))
    found = cfagg.aggregate([one, two])
    assert list(found.data_vars) == ["tas", "tas_1"]
    npt.assert_array_equal(found.tas_1.values, np.arange(5.0))
    assert found.tas_1.dims == ("lon",)
