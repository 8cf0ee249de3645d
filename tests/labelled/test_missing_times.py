"""Missing times in calendars that NumPy lacks, and missing integers in units of time, which xarray gives as numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cftime
import netCDF4
import numpy as np
import pytest
import xarray as xr

import cfagg
from cfagg.errors import CalendarError


def made(path: Path, dtype: str, fill: float, values: list[float], calendar: str = "360_day") -> Path:
    with netCDF4.Dataset(path, "w") as file:
        file.createDimension("x", len(values))
        when = file.createVariable("when", dtype, ("x",), fill_value=fill)
        when.setncatts({"units": "days since 2000-01-01", "calendar": calendar})
        when[:] = values
        file.createVariable("v", "f4", ("x",))[:] = np.arange(len(values))
        file["v"].coordinates = "when"
    return path


def days(dates: Any) -> list[str | None]:
    return [None if isinstance(one, float) else one.strftime("%d") for one in np.ravel(dates)]


CASES = [
    ("f8", np.nan, [1, np.nan, 3]),
    ("f4", 1e20, [1e20, 1, 1e20]),
    ("i4", -999, [-999, 1, 2]),
    ("f8", 1.5, [1.5] * 2),
]


@pytest.mark.parametrize(("dtype", "fill", "values"), CASES)
def test_they_are_missing_however_they_are_stored(tmp_path: Path, dtype: str, fill: float, values: list[float]) -> None:
    path = made(tmp_path / "a.nc", dtype, fill, values)
    expected = [None if np.isnan(v) or v == fill else f"{int(v) + 1:02}" for v in values]
    cfagg.convert(path, tmp_path / "a.zarr")
    for found in (
        cfagg.read(path),
        cfagg.read(path, chunks={}),
        cfagg.read(path, decode_times=xr.coders.CFDatetimeCoder(use_cftime=True)),
        cfagg.aggregate([path]),
        cfagg.read(tmp_path / "a.zarr"),
    ):
        assert days(found.when.values) == expected
        assert found.when.isnull().values.tolist() == [one is None for one in expected]


def test_other_options_of_decoding_and_calendars_are_as_in_xarray(tmp_path: Path) -> None:
    path = made(tmp_path / "a.nc", "f8", np.nan, [1, np.nan, 3])
    for options in ({"decode_times": False}, {"decode_times": {"when": False}}, {"mask_and_scale": False}):
        given: Any = options
        if "mask_and_scale" in given:
            assert days(cfagg.read(path, **given).when.values) == ["02", None, "04"]
        else:
            xr.testing.assert_identical(cfagg.read(path, **given), xr.open_dataset(path, **given))
    usual = made(tmp_path / "b.nc", "f8", np.nan, [1, np.nan, 3], "standard")
    xr.testing.assert_identical(cfagg.read(usual), xr.open_dataset(usual))
    assert cfagg.read(usual, decode_times=xr.coders.CFDatetimeCoder(time_unit="s")).when.dtype == "M8[s]"


@pytest.mark.parametrize(("dtype", "fill", "values"), CASES)
def test_they_are_missing_in_what_is_written(tmp_path: Path, dtype: str, fill: float, values: list[float]) -> None:
    found = cfagg.read(made(tmp_path / "a.nc", dtype, fill, values))
    cfagg.write(found, tmp_path / "b.nc")
    again = cfagg.read(tmp_path / "b.nc")
    assert days(again.when.values) == days(found.when.values)
    with netCDF4.Dataset(tmp_path / "b.nc") as file:
        assert (file["when"].dtype, file["when"].calendar) == (np.dtype(dtype), "360_day")


def test_durations_have_the_unit_in_which_they_are_stored_as_in_xarray(tmp_path: Path) -> None:
    durations = np.array([1, 2], "m8[s]")
    xr.Dataset({"step": ("x", durations)}).to_netcdf(tmp_path / "a.nc")
    assert cfagg.read(tmp_path / "a.nc").step.dtype == xr.open_dataset(tmp_path / "a.nc").step.dtype == "m8[s]"


@pytest.mark.parametrize("calendar", ["standard", "noleap"])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_reals_that_were_never_written_are_missing(tmp_path: Path, dtype: str, calendar: str) -> None:
    path = unwritten(tmp_path / "a.nc", dtype, calendar)
    cfagg.convert(path, tmp_path / "a.zarr")
    coder = xr.coders.CFDatetimeCoder(use_cftime=True)
    for found in (
        cfagg.read(path),
        cfagg.read(path, chunks={}),
        cfagg.read(path, decode_times=coder),
        cfagg.aggregate([path]),
        cfagg.read(tmp_path / "a.zarr"),
    ):
        for name in ("first", "middle", "last"):
            dates = found[name]
            assert dates.isnull().values.tolist() == [name == "first", name == "middle", name == "last"]
            assert dates.dropna("x").dt.day.values.tolist() == [2, 3]
        assert found.none.isnull().all()
    cfagg.write(cfagg.read(path).load(), tmp_path / "b.zarr")
    again = cfagg.read(tmp_path / "b.zarr")
    assert again.middle.isnull().values.tolist() == [False, True, False]


def unwritten(path: Path, dtype: str, calendar: str) -> Path:
    with netCDF4.Dataset(path, "w") as file:
        file.createDimension("x", 3)
        for name, places in {"first": [1, 2], "middle": [0, 2], "last": [0, 1], "none": []}.items():
            dates = file.createVariable(name, dtype, ("x",))
            dates.setncatts({"units": "days since 2000-01-01", "calendar": calendar})
            for day, place in enumerate(places, 1):
                dates[place] = day
    return path


def test_integers_that_were_never_written_are_an_error_that_names_them(tmp_path: Path) -> None:
    path = unwritten(tmp_path / "a.nc", "i4", "standard")
    found = cfagg.read(path, drop_variables=["first", "last", "none"])
    with pytest.raises(
        CalendarError, match=r"a\.nc: variable 'middle': the value -2147483647 is no time .* _FillValue"
    ):
        found.middle.load()


def test_a_real_that_was_never_written_is_not_blamed_for_other_times(tmp_path: Path) -> None:
    path = unwritten(tmp_path / "a.nc", "f8", "standard")
    with netCDF4.Dataset(path, "a") as file:
        file.createVariable("wrong", "f8", ("x",)).units = "days since 2000-02-30"
    with pytest.raises(CalendarError, match="variable 'wrong': the date '2000-02-30'"):
        cfagg.read(path)


def test_missing_integers_in_units_of_time_are_nan(tmp_path: Path) -> None:
    path = tmp_path / "a.nc"
    with netCDF4.Dataset(path, "w") as file:
        file.createDimension("x", 3)
        file.createVariable("since_rain", "i2", ("x",), fill_value=-1).units = "hours"
        file["since_rain"][:] = np.ma.masked_equal([5, -1, 7], -1)
    cfagg.convert(path, tmp_path / "a.zarr")
    coder = xr.coders.CFTimedeltaCoder()
    for found in (
        cfagg.read(path),
        cfagg.read(path, decode_timedelta=coder),
        cfagg.aggregate([path]),
        cfagg.read(tmp_path / "a.zarr"),
    ):
        np.testing.assert_array_equal(found.since_rain, [5, np.nan, 7])
    assert cfagg.read(path, decode_timedelta=True).since_rain.dtype == "m8[ns]"
    cfagg.write(cfagg.read(path), tmp_path / "b.nc")
    assert cfagg.open_aggregation(tmp_path / "b.nc", "since_rain").partitions.file_name(0) == "a.nc"


@pytest.mark.filterwarnings("ignore:Unable to decode time axis")
@pytest.mark.parametrize("dtype", ["i4", "i8", "f4", "f8"])
@pytest.mark.parametrize("far", [-182621, 2900000])
def test_dates_that_nanoseconds_do_not_reach_are_right_beside_missing_ones(
    tmp_path: Path, dtype: str, far: int
) -> None:
    path = made(tmp_path / "a.nc", dtype, -999, [0, -999, far, 3], "proleptic_gregorian")
    cfagg.convert(path, tmp_path / "a.zarr")
    expected = cftime.num2date([0, far, 3], "days since 2000-01-01", "proleptic_gregorian")
    cfagg.convert(path, tmp_path / "b.nc", to="CF-1.13")
    opened = cfagg.read(path), cfagg.read(tmp_path / "a.zarr"), xr.open_dataset(tmp_path / "b.nc", engine="cfagg")
    for found in (*opened, cfagg.aggregate([path])):
        dates = found.when.values
        assert found.when.isnull().values.tolist() == [False, True, False, False]
        assert [dates[0], *dates[2:]] == expected.tolist()


@pytest.mark.filterwarnings("ignore:Unable to decode time axis")
def test_parts_of_dates_that_nanoseconds_do_not_reach_are_refused(tmp_path: Path) -> None:
    path = made(tmp_path / "a.nc", "i4", -999, [0, 1, -182621, 3], "proleptic_gregorian")
    said = r"'when': the date 1500-01-01 .* is out of the range of datetime64\[ns\]"
    with pytest.raises(CalendarError, match=said):
        cfagg.read(path).chunk(x=2).when.compute()
    with pytest.raises(CalendarError, match=said):
        cfagg.read(path).when[2:].load()
    seconds = cfagg.read(path, decode_times=xr.coders.CFDatetimeCoder(time_unit="s")).chunk(x=2).when.values
    assert seconds[2] == np.datetime64("1500-01-01")


@pytest.mark.parametrize("calendar", ["standard", "360_day"])
@pytest.mark.parametrize("fill", [2**64 - 1, 2**63, 7])
def test_unsigned_times_with_large_fill_values_are_missing(tmp_path: Path, calendar: str, fill: int) -> None:
    path = made(tmp_path / "a.nc", "u8", fill, [1, fill, 3], calendar)
    stores = [tmp_path / f"{n}.zarr" for n in (2, 3)]
    for n, store in enumerate(stores, 2):
        cfagg.convert(path, store, zarr_format=n)
    for found in (cfagg.read(path), cfagg.read(path, chunks={}), cfagg.aggregate([path]), *map(cfagg.read, stores)):
        assert found.when.isnull().values.tolist() == [False, True, False]
        assert found.when.encoding["_FillValue"] == fill
