"""Times of files as dates."""

from __future__ import annotations

from datetime import datetime, timedelta

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cfagg.errors import CalendarError
from cfagg.observations.sources.tables import dates_of_numbers
from tests.effort import examples


@pytest.mark.parametrize(
    ("value", "units", "calendar", "date"),
    [
        (67204.0, "days since 1800-01-01 00:00:00.0", "gregorian", "1984-01-01"),
        (0.1, "days since 1970-01-01", None, "1970-01-01T02:24"),
        (1.5, "hours since 1970-01-01 00:30 +1:00", None, "1970-01-01T01:00"),
        (-1, "seconds since 1970-01-01", "standard", "1969-12-31T23:59:59"),
        (36524.25, "days since 1900-01-01", "proleptic_gregorian", "2000-01-01T06:00"),
        (59, "days since 2000-01-01", "noleap", "2000-03-01"),
        (29, "days since 2000-01-01", "360_day", "2000-01-30"),
        (0, "days since 1582-10-04", "standard", "1582-10-04"),
        (1, "days since 1582-10-04", "standard", "1582-10-15"),
        (2.5e9, "microseconds since 2020-01-01", None, "2020-01-01T00:41:40"),
    ],
)
def test_times_follow_their_calendar(value: float, units: str, calendar: str | None, date: str) -> None:
    found = dates_of_numbers(np.array([value]), units, calendar, "a.nc")
    assert found[0] == np.datetime64(date)


@pytest.mark.parametrize("calendar", ["utc", "tai"])
@pytest.mark.parametrize("units", ["seconds since 2016-12-31T23:59:59", "seconds since 1970-01-01"])
def test_times_that_count_leap_seconds_are_refused(units: str, calendar: str) -> None:
    with pytest.raises(CalendarError, match=rf"a\.nc: times of calendar {calendar} count leap seconds"):
        dates_of_numbers(np.array([2]), units, calendar, "a.nc")


def test_dates_that_only_their_calendar_has_are_refused() -> None:
    with pytest.raises(CalendarError, match=r"^a\.nc: the date 2001-02-29 .*: leave such times out of the file$"):
        dates_of_numbers(np.array([59.5]), "days since 2001-01-01", "all_leap", "a.nc")


def test_missing_times_are_nat() -> None:
    assert np.isnat(dates_of_numbers(np.array([np.nan]), "days since 2000-01-01", None, "a.nc")).all()


@pytest.mark.parametrize("value", [1e300, -1e300, np.inf, 2**62, 1.6e8, -1.6e8])
def test_times_too_far_away_are_refused(value: float) -> None:
    with pytest.raises(CalendarError, match=r"a\.nc: the time .* is not a date"):
        dates_of_numbers(np.array([value]), "days since 2000-01-01", None, "a.nc")


@pytest.mark.parametrize("units", ["", "days", "months since 2000-01-01", "metres since 2000-01-01"])
def test_units_that_are_no_times_are_refused(units: str) -> None:
    with pytest.raises(ValueError, match="units"):
        dates_of_numbers(np.array([1]), units, None, "a.nc")


@settings(max_examples=examples(50))
@given(
    st.lists(st.integers(-(10**12), 10**12), min_size=1, max_size=9),
    st.sampled_from([("seconds", 1), ("minutes", 60), ("hours", 3600), ("days", 86400)]),
)
def test_whole_numbers_become_exact_dates(values: list[int], unit: tuple[str, int]) -> None:
    seconds = np.array(values) // unit[1]
    found = dates_of_numbers(seconds, f"{unit[0]} since 2020-02-29", "proleptic_gregorian", "a.nc")
    assert found.tolist() == [
        (datetime(2020, 2, 29) + timedelta(seconds=int(s) * unit[1]))
        if -62 * 10**9 < int(s) * unit[1] < 250 * 10**9
        else f
        for s, f in zip(seconds, found.tolist(), strict=True)
    ]
