"""Reference datetimes as written, and the days of every calendar."""

from __future__ import annotations

import itertools

import cftime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cfagg.cf.calendars import parse, time_transform
from cfagg.cf.datetimes import (
    Datetime,
    day_number,
    days_in_month,
    leap_seconds_until,
    may_have_leap_second,
    parse_datetime,
    seconds_between,
)
from cfagg.errors import CalendarError
from tests.cf import udunits
from tests.effort import examples

CALENDARS = ["standard", "julian", "proleptic_gregorian", "noleap", "all_leap", "360_day"]


@st.composite
def dates(draw: st.DrawFn, calendar: str) -> tuple[int, int, int]:
    year = draw(st.sampled_from([1, 4, 100, 400, 1500, 1581, 1582, 1583, 1900, 2000]) | st.integers(1, 4000))
    month = draw(st.integers(1, 12))
    day = draw(st.integers(1, days_in_month(calendar, year, month)))
    gap = calendar == "standard" and (1582, 10, 4) < (year, month, day) < (1582, 10, 15)
    return (1582, 10, 15) if gap else (year, month, day)


@pytest.mark.parametrize("calendar", CALENDARS)
@settings(max_examples=examples(100), deadline=None)
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
    [
        ("Z", 0), ("UTC", 0), ("+0", 0), ("-6", -360), ("+5:30", 330), ("-0030", -30), ("0530", 330), ("EST", None),
        # No such zones, and text that is none.
        ("+1:75", None), ("+175", None), ("+0060", None), ("+24", None), ("-24:00", None), ("1:2:3", None),
    ],
)  # fmt: skip
def test_a_zone_is_minutes_ahead(zone: str, minutes: int | None) -> None:
    found = parse_datetime(f"2000-01-01 00:00:00 {zone}")
    assert found is not None
    assert found.offset == minutes


@settings(max_examples=examples(100), deadline=None)
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


def test_leap_seconds_are_those_that_were_announced_and_may_follow_half_a_year_later() -> None:
    june = {1972, 1981, 1982, 1983, 1985, 1992, 1993, 1994, 1997, 2012, 2015}
    december = {*range(1972, 1980), 1987, 1989, 1990, 1995, 1998, 2005, 2008, 2016}
    count = 0
    for year in range(1971, 2027):
        for month, day, years in ((6, 30, june), (12, 31, december)):
            assert leap_seconds_until(year, month, day) == count
            count += year in years
            assert may_have_leap_second(year, month, day) == (year in years)
        assert not may_have_leap_second(year, 6, 29)
        assert not may_have_leap_second(year, 12, 30)
    assert leap_seconds_until(2027, 1, 1) == count == 27
    # Nobody knows those that come.
    assert may_have_leap_second(2027, 6, 30)
    assert may_have_leap_second(2027, 12, 31)
    assert not may_have_leap_second(2027, 7, 1)


@pytest.mark.parametrize(
    ("text", "complete"), [("2000-01-31 12", True), ("2000-01", False), ("2000-01-31 12 x-y", False), ("2000", False)]
)
def test_a_datetime_is_complete_with_a_day_and_without_a_rest(text: str, complete: bool) -> None:
    found = parse_datetime(text)
    assert found is not None
    assert found.complete is complete


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2000-01-01 1200", Datetime("2000", "01", "01", " ", "12", "00")),
        ("2000-01-01T123015.5 +1", Datetime("2000", "01", "01", "T", "12", "30", "15.5", "+1")),
        ("200001T12", Datetime("2000", "01", None, "T", "12", packed=True)),
        ("20000131 0630", Datetime("2000", "01", "31", " ", "06", "30", packed=True)),
    ],
)
def test_clocks_and_dates_may_be_without_punctuation(text: str, expected: Datetime) -> None:
    assert parse_datetime(text) == expected


DATES = ["2000-01-31", "2000-1-1", "-1-1-1", "-4713-01-01", "2000-1", "2000", "20000131", "1582-10-15", "0001-12-31"]
CLOCKS = [" 12", " 1", " 1200", " 1230", "T1230", "T123015", " 12:30", " 1:2:3", "T12:30:15.25", " 23:59:59", "T00"]
ZONES = ["", "Z", " UTC", " GMT", " +5", " -5", " +05:30", "-0530", " 5", " 530", " 0:00", " +00", " +1:5", " -01:5"]


@pytest.mark.parametrize("date", DATES)
def test_udunits_and_both_uses_of_the_parser_mean_the_same_time(date: str) -> None:
    """Conversions and checks understand reference times as the UDUNITS library does."""
    for clock, zone in [("", ""), ("", "Z"), *itertools.product(CLOCKS, ZONES)]:
        text = f"{date}{clock}{zone}"
        expected = udunits.seconds(text)
        assert expected is not None, text
        ours = parse(f"seconds since {text}", "standard")
        start = parse("seconds since 2000-01-01", "standard")
        assert 86400 * (ours.day - start.day) + ours.second - start.second == pytest.approx(expected, abs=1e-5), text
        said = parse_datetime(text)
        assert said is not None
        assert -seconds_between("standard", said, (2000, 1, 1)) == pytest.approx(expected, abs=1e-5), text


@pytest.mark.parametrize("calendar", ["standard", "julian", "proleptic_gregorian", "noleap", "all_leap", "360_day"])
@pytest.mark.parametrize("year", [-4713, -401, -101, -5, -4, -1, 1, 4])
def test_years_before_1_are_those_of_cftime(calendar: str, year: int) -> None:
    then = cftime.datetime(year, 3, 1, calendar=calendar)
    expected = (cftime.datetime(2000, 1, 1, calendar=calendar) - then).days
    text = f"{year}-3-1"
    said = parse_datetime(text)
    assert said is not None
    assert seconds_between(calendar, said, (2000, 1, 1)) == 86400 * expected
    change = time_transform(f"days since {text}", calendar, "days since 2000-1-1", calendar)
    assert change == (1, -expected)


#: UDUNITS and cftime take the numbers after a date for a time of day and for a zone, and digits apart in two ways.
AMBIGUOUS = ["2000-01-01 -6", "2000-01-01 +05:30", "2000-01-01-06:00", "2000 +1", "12345", "2000101", "-20000101"]


@pytest.mark.parametrize(
    "text", ["2000-01-01 24:00", "2000-01-01 12:30 EST", "2000-13-01", "0-1-1", "2000-01-01 930", *AMBIGUOUS]
)
def test_what_is_no_time_of_the_standard_calendar_is_refused(text: str) -> None:
    with pytest.raises(CalendarError):
        parse(f"days since {text}", "standard")


@pytest.mark.parametrize("calendar", ["standard", "julian"])
def test_year_0_of_calendars_without_one_is_the_year_before_year_1(calendar):
    assert day_number(calendar, 1, 1, 1) - day_number(calendar, 0, 12, 31) == 1
    assert day_number(calendar, 0, 2, 29) == day_number(calendar, -1, 2, 29)
    assert days_in_month(calendar, 0, 2) == 29
