"""Times of the standard and of the proleptic Gregorian calendar: one array from 15 October 1582 on, and not before."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cftime
import netCDF4
import numpy as np
import pytest

import cfagg

type Times = tuple[str, str | None, list[float]]


def write(path: Path, times: Times, bounds: list[list[float]] | None = None, reference: Times | None = None) -> str:
    """Write a file with one value for each time; the scalar `reference` is when a forecast began."""
    units, calendar, values = times
    with netCDF4.Dataset(path, "w") as file:
        file.createDimension("time", len(values))
        file.createDimension("two", 2)
        time = file.createVariable("time", "f8", ("time",))
        time.setncatts({"standard_name": "time", "units": units, **({"calendar": calendar} if calendar else {})})
        time[:] = values
        tas = file.createVariable("tas", "f4", ("time",))
        tas.setncatts({"standard_name": "air_temperature", "units": "K"})
        tas[:] = np.arange(len(values)) + 10 * len(path.stem)
        if bounds is not None:
            time.bounds = "ends"
            file.createVariable("ends", "f8", ("time", "two"))[:] = bounds
        if reference is not None:
            began = file.createVariable("began", "f8", ())
            began.setncatts({"standard_name": "forecast_reference_time", "units": reference[0]})
            began.calendar = reference[1]
            began[...] = reference[2][0]
            tas.coordinates = "began"
    return str(path)


def dates(units: str, calendar: str | None, values: Any) -> list[str]:
    """Return what cftime takes times for."""
    return [f"{date:%Y-%m-%d %H:%M:%S}" for date in np.ravel(cftime.num2date(values, units, calendar or "standard"))]


def joined(files: list[str], out: Path) -> tuple[list[str], list[str]]:
    """Return the dates and the ends of cells of an aggregation file, by its own units and calendar."""
    cfagg.aggregate(files, output=out)
    with netCDF4.Dataset(out) as file:
        time = file["time"]
        own = time.units, getattr(time, "calendar", None)
        ends = dates(*own, file[time.bounds][:]) if "bounds" in time.ncattrs() else []
        return dates(*own, time[:]), ends


OLD, NEW = "days since 2000-01-01", "hours since 2001-01-01 06:00:00"


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ((OLD, "standard", [0, 59.5]), (NEW, "proleptic_gregorian", [0, 6])),
        ((OLD, None, [0, 59.5]), (NEW, "proleptic_gregorian", [0, 6])),
        ((OLD, "gregorian", [-152000, 1]), ("days since 0001-01-01", "proleptic_gregorian", [730850, 730851])),
        ((OLD, "proleptic_gregorian", [0, 1]), ("days since 0001-01-01 00:00", "standard", [730850.25, 730851])),
        (
            (OLD, "standard", [0, 1]),
            ("seconds since 1582-10-14 23:59:59", "proleptic_gregorian", [86400 * 150000 + 1, 86400 * 150001 + 1]),
        ),
        (("days since 1582-10-15", "standard", [0, 1]), ("days since 1582-10-15", "proleptic_gregorian", [2, 3])),
        (("days since 1582-10-04", "standard", [1, 2]), ("days since 1582-10-04", "proleptic_gregorian", [13, 14])),
    ],
)
def test_late_times_of_both_calendars_are_one_array_with_the_dates_of_cftime(
    tmp_path: Path, first: Times, second: Times
) -> None:
    for one, other in ((first, second), (second, first)):
        files = [write(tmp_path / "a.nc", one), write(tmp_path / "bb.nc", other)]
        (tmp_path / "out.nc").unlink(missing_ok=True)
        assert joined(files, tmp_path / "out.nc")[0] == sorted(dates(*one) + dates(*other))
        ds = cfagg.read(tmp_path / "out.nc", decode_times=False)
        wanted = [20, 21, 10, 11] if dates(*other) < dates(*one) else [10, 11, 20, 21]
        assert ds.tas.values.tolist() == wanted


def test_bounds_go_with_their_coordinates(tmp_path: Path) -> None:
    first, second = (OLD, "standard", [0.5]), ("days since 0001-01-01", "proleptic_gregorian", [730850.5])
    ends = [[[0.0, 1.0]], [[730850.0, 730851.0]]]
    files = [write(tmp_path / "a.nc", first, ends[0]), write(tmp_path / "bb.nc", second, ends[1])]
    wanted = [date for (*own, _), end in zip((first, second), ends, strict=True) for date in dates(*own, end)]
    assert joined(files, tmp_path / "out.nc")[1] == wanted


def test_scalar_times_of_both_calendars_are_one_new_dimension(tmp_path: Path) -> None:
    began: list[Times] = [(OLD, "standard", [0]), ("days since 0001-01-01", "proleptic_gregorian", [730850])]
    files = [
        write(tmp_path / f"{'ab'[k]}.nc", (NEW, ["proleptic_gregorian", "standard"][k], [0, 6]), reference=reference)
        for k, reference in enumerate(began)
    ]
    ds = cfagg.aggregate(files, decode_times=False)
    assert dict(ds.tas.sizes) == {"began": 2, "time": 2}
    assert dates(ds.began.units, ds.began.calendar, ds.began.values) == [d for own in began for d in dates(*own)]


@pytest.mark.parametrize("early", [0, 1])
@pytest.mark.parametrize("of_bounds", [False, True])
def test_early_dates_of_either_keep_the_calendars_apart_with_a_reason(
    tmp_path: Path, early: int, of_bounds: bool
) -> None:
    # Ten days before the reform by the standard calendar is the day before by the other.
    times: list[Times] = [
        ("days since 1582-10-15", "standard", [0.5, 1.5]),
        ("days since 1582-10-15", "proleptic_gregorian", [2.5, 3.5]),
    ]
    ends = [np.stack([np.array(own[2]) - 0.5, np.array(own[2]) + 0.5], 1).tolist() for own in times]
    kept = [write(tmp_path / f"{'ab'[k]}.nc", own, ends[k]) for k, own in enumerate(times)]
    assert cfagg.aggregate(kept).tas.sizes == {"time": 4}
    ends[early][0][0] = -0.25
    if not of_bounds:
        times[early][2][0] = -0.125
    files = [write(tmp_path / f"{'cd'[k]}.nc", own, ends[k]) for k, own in enumerate(times)]
    reason = cfagg.aggregate(files).cfagg.report.why(*files)
    assert "a reference time of calendar proleptic_gregorian" in str(reason)
    assert "before 15 October 1582" in str(reason)


def test_other_calendars_and_data_that_are_times_stay_apart(tmp_path: Path) -> None:
    files = [write(tmp_path / "a.nc", (OLD, "standard", [0])), write(tmp_path / "b.nc", (OLD, "noleap", [1]))]
    assert "tas_1" in cfagg.aggregate(files)
    for path, calendar in zip(files, ("standard", "proleptic_gregorian"), strict=True):
        with netCDF4.Dataset(path, "a") as file:
            file["tas"].setncatts({"units": OLD, "calendar": calendar})
            file["time"].calendar = "standard"
    assert "tas_1" in cfagg.aggregate(files)


def test_files_of_the_other_calendar_are_added_to_what_is_there(tmp_path: Path) -> None:
    first, second = (OLD, "standard", [0, 1]), ("days since 0001-01-01", "proleptic_gregorian", [730850, 730851])
    out = tmp_path / "out.nc"
    cfagg.aggregate(write(tmp_path / "a.nc", first), output=out)
    cfagg.aggregate(write(tmp_path / "bb.nc", second), output=out, append=True)
    with netCDF4.Dataset(out) as file:
        assert dates(file["time"].units, file["time"].calendar, file["time"][:]) == dates(*first) + dates(*second)
