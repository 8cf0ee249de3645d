"""Reference datetimes as written, and the days of every calendar."""

from __future__ import annotations

import cftime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cfagg.checking.datetimes import (
    Datetime,
    day_number,
    days_in_month,
    leap_seconds_until,
    parse_datetime,
    seconds_between,
)

CALENDARS = ["standard", "julian", "proleptic_gregorian", "noleap", "all_leap", "360_day"]


@st.composite
def dates(draw: st.DrawFn, calendar: str) -> tuple[int, int, int]:
    year = draw(st.sampled_from([1, 4, 100, 400, 1500, 1581, 1582, 1583, 1900, 2000]) | st.integers(1, 4000))
    month = draw(st.integers(1, 12))
    day = draw(st.integers(1, days_in_month(calendar, year, month)))
    gap = calendar == "standard" and (1582, 10, 4) < (year, month, day) < (1582, 10, 15)
    return (1582, 10, 15) if gap else (year, month, day)


@pytest.mark.parametrize("calendar", CALENDARS)
@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_days_are_counted_as_by_cftime(calendar: str, data: st.DataObject) -> None:
    date, other = data.draw(dates(calendar)), data.draw(dates(calendar))
    expected = cftime.datetime(*date, calendar=calendar) - cftime.datetime(*other, calendar=calendar)
    assert day_number(calendar, *date) - day_number(calendar, *other) == expected.days


@pytest.mark.parametrize("calendar", ["julian", "standard", "proleptic_gregorian"])
def test_year_zero_is_a_leap_year_before_year_one(calendar: str) -> None:
    assert day_number(calendar, 1, 1, 1) - day_number(calendar, 0, 1, 1) == 366


def test_the_standard_calendar_has_no_gap_in_its_days() -> None:
    assert day_number("standard", 1582, 10, 15) == day_number("standard", 1582, 10, 4) + 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1990-1-1", Datetime("1990", "1", "1")),
        ("1990-01-01 12:30:15.5", Datetime("1990", "01", "01", " ", "12", "30", "15.5")),
        ("1992-10-8 15:15:42.5 -6:00", Datetime("1992", "10", "8", " ", "15", "15", "42.5", "-6:00")),
        ("1992-10-8 15:15:42-6", Datetime("1992", "10", "8", " ", "15", "15", "42", "-6")),
        ("2000-01-01T00:00Z", Datetime("2000", "01", "01", "T", "00", "00", None, "Z")),
        ("2000-01-01 +01:00", Datetime("2000", "01", "01", zone="+01:00")),
        ("-4713-1-1", Datetime("-4713", "1", "1")),
        ("20000131", Datetime("2000", "01", "31", packed=True)),
        ("2000-01", Datetime("2000", "01")),
        ("12:00:00", Datetime("12", rest=":00:00")),
        (
            "2000-01-01 00:00:00 nowhere in time",
            Datetime("2000", "01", "01", " ", "00", "00", "00", "nowhere", "in time"),
        ),
    ],
)
def test_a_datetime_is_taken_apart(text: str, expected: Datetime) -> None:
    assert parse_datetime(text) == expected


@pytest.mark.parametrize("text", ["", "noon", "since 2000", "- 1"])
def test_a_text_without_a_number_in_front_is_no_datetime(text: str) -> None:
    assert parse_datetime(text) is None


@pytest.mark.parametrize(
    ("zone", "minutes"),
    [("Z", 0), ("UTC", 0), ("+0", 0), ("-6", -360), ("+5:30", 330), ("-0030", -30), ("0530", 330), ("EST", None)],
)
def test_a_zone_is_minutes_ahead(zone: str, minutes: int | None) -> None:
    found = parse_datetime(f"2000-01-01 00:00:00 {zone}")
    assert found is not None
    assert found.offset == minutes


@settings(max_examples=100, deadline=None)
@given(st.text("0123456789-+:.TZ ab", max_size=40))
def test_any_text_is_taken_apart_or_refused(text: str) -> None:
    found = parse_datetime(text)
    if found is not None:
        assert isinstance(found.clock[2], float)
        assert found.offset is None or isinstance(found.offset, int)


def test_leap_seconds_count_in_utc_alone() -> None:
    start = parse_datetime("2016-12-31")
    assert start is not None
    assert seconds_between("utc", start, (2017, 1, 1)) == 86401
    assert seconds_between("tai", start, (2017, 1, 1)) == 86400


def test_there_were_27_leap_seconds_up_to_2017() -> None:
    assert leap_seconds_until(1972, 1, 1) == 0
    assert leap_seconds_until(2025, 1, 1) == 27
