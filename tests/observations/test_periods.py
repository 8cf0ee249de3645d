"""Dates of a recipe and the parts of a build."""

from __future__ import annotations

import itertools
from datetime import UTC, date, datetime, timedelta, timezone

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from cfagg.errors import LimitError, OptionError
from cfagg.observations.dates import Period, as_date, as_duration, first_second, last_second, parse_frequency
from tests.effort import examples

DAY = timedelta(days=1)


@pytest.mark.parametrize(
    ("value", "hours"),
    [
        (6, 6),
        ("6", 6),
        ("6h", 6),
        ("+6H", 6),
        ("2d", 48),
        ("1w", 168),
        ("90m", 1.5),
        ("90min", 1.5),
        ("1800s", 0.5),
        ("1:30", 1.5),
        ("1:30:36", 1.51),
        ("1 day, 2:00:00", 26),
        ("PT1H30M", 1.5),
        ("P1DT6H", 30),
        ("P2W", 336),
        (timedelta(minutes=1), 1 / 60),
    ],
)
def test_durations_are_read_in_the_published_forms(value: object, hours: float) -> None:
    assert as_duration(value) == timedelta(hours=hours)


@pytest.mark.parametrize("value", ["", "h", "6 x", "P", "PT", "0h", 0, "-3h", -1, 1.5, True, None, "1e3h", "9" * 40])
def test_what_is_no_positive_duration_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match="duration"):
        as_duration(value)


@pytest.mark.parametrize(
    ("value", "end", "expected"),
    [
        (date(2020, 1, 31), True, datetime(2020, 1, 31)),
        ("2020-01-31", True, datetime(2020, 1, 31)),
        ("2020-01-31 06:30", False, datetime(2020, 1, 31, 6, 30)),
        ("20200131T0630", False, datetime(2020, 1, 31, 6, 30)),
        ("2020-01-31T06:00:00Z", False, datetime(2020, 1, 31, 6)),
        ("2020-01-31T01:00+02:00", False, datetime(2020, 1, 30, 23)),
        (datetime(2020, 1, 31, 1, tzinfo=timezone(timedelta(hours=2))), False, datetime(2020, 1, 30, 23)),
        (datetime(2020, 1, 31, tzinfo=UTC), False, datetime(2020, 1, 31)),
        (1979, False, datetime(1979, 1, 1)),
        (1979, True, datetime(1979, 12, 31, 23, 59, 59)),
        ("1979-02", True, datetime(1979, 2, 28, 23, 59, 59)),
        ("1979-12", True, datetime(1979, 12, 31, 23, 59, 59)),
    ],
)
def test_dates_are_read_in_utc(value: object, end: bool, expected: datetime) -> None:
    found = as_date(value, end=end)
    assert (found, found.tzinfo) == (expected, None)


@pytest.mark.parametrize("value", ["", "yesterday", "2020-13", "2020-02-30", 20201, 1.5, True, None, "0000"])
def test_what_is_no_date_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match="is not a date"):
        as_date(value)


def test_the_period_ends_one_step_after_the_last_date() -> None:
    period = Period(datetime(2021, 6, 28), datetime(2021, 6, 29, 23), timedelta(hours=1))
    assert period.stop == datetime(2021, 6, 30)
    assert len(period) == 48


@pytest.mark.parametrize(
    ("group_by", "edges"),
    [
        ("daily", [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]),
        ("MMDD", [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]),
        ("weekly", [1, 6, 11]),  # 6 January 2020 is a Monday
        ("monthly", [1, 11]),
        ("yearly", [1, 11]),
        (None, [1, 11]),
        (4, [1, 5, 9, 11]),
        ("3d", [1, 4, 7, 10, 11]),
        ("36h", [1, 3, 5, 7, 9, 11]),
        (1000, [1, 11]),
    ],
)
def test_dates_are_grouped_as_the_recipe_says(group_by: object, edges: list[int]) -> None:
    parts = Period(datetime(2020, 1, 1), datetime(2020, 1, 10), DAY).parts(group_by)
    assert [p[0].day for p in parts] + [parts[-1][1].day] == edges
    assert all(a[1] == b[0] for a, b in itertools.pairwise(parts))


def test_a_group_starts_at_a_date_even_if_the_calendar_does_not() -> None:
    parts = Period(datetime(2020, 1, 30, 12), datetime(2020, 2, 2, 12), DAY).parts("monthly")
    assert parts == [
        (datetime(2020, 1, 30, 12), datetime(2020, 2, 1, 12)),
        (datetime(2020, 2, 1, 12), datetime(2020, 2, 3, 12)),
    ]


def test_missing_dates_are_in_no_part() -> None:
    gaps = ((datetime(2020, 1, 1), datetime(2020, 1, 2)), (datetime(2020, 1, 3), datetime(2020, 1, 5)))
    parts = Period(datetime(2020, 1, 1), datetime(2020, 1, 5), DAY, gaps).parts("monthly")
    assert parts == [
        (datetime(2020, 1, 2), datetime(2020, 1, 3)),
        (datetime(2020, 1, 5), datetime(2020, 1, 6)),
    ]


def test_too_many_parts_are_refused() -> None:
    with pytest.raises(LimitError, match="more than 1000000 parts"):
        Period(datetime(1900, 1, 1), datetime(2020, 1, 1), timedelta(seconds=1)).parts(1)


def test_a_century_of_seconds_is_cut_into_months_without_listing_them() -> None:
    assert len(Period(datetime(1920, 1, 1), datetime(2019, 12, 31, 23, 59, 59), timedelta(seconds=1)).parts()) == 1200


def test_a_period_may_end_with_the_calendar() -> None:
    last = datetime(9999, 12, 30)
    assert Period(datetime(9999, 11, 30), last, DAY).parts("yearly")[-1][1] == last + DAY


@settings(max_examples=examples(50))
@given(
    st.datetimes(datetime(1950, 1, 1), datetime(2050, 1, 1)),
    st.integers(1, 400),
    st.sampled_from([timedelta(minutes=30), timedelta(hours=1), timedelta(hours=6), DAY, timedelta(days=3)]),
    st.sampled_from(["daily", "weekly", "monthly", "yearly", None, 1, 7, "5h", "10d"]),
    st.sets(st.integers(0, 399), max_size=5),
)
def test_parts_cover_all_dates_but_the_missing_once(
    start: datetime, count: int, step: timedelta, group_by: object, missing: set[int]
) -> None:
    assume(any(i not in missing for i in range(count)))
    gaps = tuple((start + i * step, start + (i + 1) * step) for i in sorted(missing) if i < count)
    period = Period(start, start + (count - 1) * step, step, gaps)
    parts = period.parts(group_by)
    covered = [d for a, b in parts for d in range((a - start) // step, (b - start) // step)]
    assert covered == [i for i in range(count) if i not in missing]
    assert all(a < b and not (a - start) % step and not (b - start) % step for a, b in parts)


# ---------------------------------------------------------------------------------------------------------------------
# Dates and spans of time in recipes, and those of opened stores: one parser

EPOCH = datetime(1970, 1, 1)
FORMS = [
    "%Y",
    "%Y-%m",
    "%Y%m",
    "%Y-%m-%d",
    "%Y%m%d",
    "%Y-%m-%dT%H:%M:%S",
    "%Y-%m-%d %H:%M",
    "%Y-%m-%dT%H:%M+01:30",
    "%Y%m%dT%H%M",
]


@given(st.datetimes(datetime(1000, 1, 1), datetime(9999, 12, 31)), st.sampled_from(FORMS))
def test_a_date_means_the_same_in_a_recipe_and_to_an_opened_store(time, form):
    text = time.strftime(form)
    for value in [text, int(text)] if text.isdecimal() else [text]:
        assert as_date(value) == EPOCH + timedelta(seconds=first_second(value))
        if "%d" not in form or "%H" in form:
            assert as_date(value, end=True) == EPOCH + timedelta(seconds=last_second(value))
        else:  # a recipe's day is its midnight, also as the end
            assert as_date(value, end=True) == as_date(value)


@given(
    st.integers(1, 10**6),
    st.sampled_from(["{}", "{}h", "{}H", "{} h", "{}min", "{}m", "{}s", "{}d", "{}:30", "PT{}H", "PT{}M", "P{}D"]),
)
def test_a_duration_means_the_same_in_a_recipe_and_to_an_opened_store(number, form):
    text = form.format(number)
    assert as_duration(text) == timedelta(seconds=parse_frequency(text))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("2020-W05-1", datetime(2020, 1, 27)),
        ("2020-01-31T24:00", datetime(2020, 2, 1)),
        ("2020-01-31T06:00:00.123456789", datetime(2020, 1, 31, 6, 0, 0, 123456)),
        ("1969-12-31T23:59:59.5", datetime(1969, 12, 31, 23, 59, 59, 500000)),
        (np.datetime64("2020-01-31T06"), datetime(2020, 1, 31, 6)),
        (np.datetime64("1969-12-31T23:59:59.500"), datetime(1969, 12, 31, 23, 59, 59, 500000)),
    ],
)
def test_rarer_forms_of_dates_are_read(value, expected):
    assert as_date(value) == expected


@pytest.mark.parametrize("value", ["2020-01-31T06:00+25:00", "2020-01-31T06:00+01:99", "0001-01-01T00:00+05:00"])
def test_time_zones_and_dates_that_there_are_not_are_refused(value):
    with pytest.raises(ValueError, match="is not a date"):
        as_date(value)


@pytest.mark.parametrize("value", [10**400, -(10**400)])
def test_a_number_beyond_all_durations_is_refused_in_words(value):
    with pytest.raises(OptionError, match="100,000 years"):
        parse_frequency(value)


def test_the_last_year_ends():
    assert as_date(9999, end=True) == datetime(9999, 12, 31, 23, 59, 59)
