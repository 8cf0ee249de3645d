"""Dates of samples: what `start`, `end` and `frequency` mean."""

from __future__ import annotations

import datetime as dt
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cfagg.cf.instants import epoch_text
from cfagg.errors import LimitError, OptionError
from cfagg.observations.dates import (
    SampleDates,
    first_second,
    last_second,
    parse_frequency,
    sample_dates,
)
from tests.effort import examples
from tests.oracles import dates_of_samples

DAY = 86400


@pytest.mark.parametrize(
    ("value", "first", "last"),
    [
        (1979, "1979-01-01T00:00:00", "1979-12-31T23:59:59"),
        ("1980", "1980-01-01T00:00:00", "1980-12-31T23:59:59"),
        (197905, "1979-05-01T00:00:00", "1979-05-31T23:59:59"),
        ("1979-02", "1979-02-01T00:00:00", "1979-02-28T23:59:59"),
        ("2000-02", "2000-02-01T00:00:00", "2000-02-29T23:59:59"),
        ("1900-02", "1900-02-01T00:00:00", "1900-02-28T23:59:59"),
        (19790531, "1979-05-31T00:00:00", "1979-05-31T23:59:59"),
        ("1979-12-31", "1979-12-31T00:00:00", "1979-12-31T23:59:59"),
        (dt.date(1969, 12, 31), "1969-12-31T00:00:00", "1969-12-31T23:59:59"),
        (np.datetime64("1979"), "1979-01-01T00:00:00", "1979-12-31T23:59:59"),
        (np.datetime64("1979-05"), "1979-05-01T00:00:00", "1979-05-31T23:59:59"),
        (np.datetime64("1979-05-31"), "1979-05-31T00:00:00", "1979-05-31T23:59:59"),
        ("9999", "9999-01-01T00:00:00", "9999-12-31T23:59:59"),
    ],
)
def test_a_year_month_or_day_is_meant_whole(value, first, last) -> None:
    assert (epoch_text(first_second(value)), epoch_text(last_second(value))) == (first, last)


@pytest.mark.parametrize(
    ("value", "time"),
    [
        ("1979-05-31T06", "1979-05-31T06:00:00"),
        ("1979-05-31 06:30", "1979-05-31T06:30:00"),
        ("19790531T063000", "1979-05-31T06:30:00"),
        ("1979-05-31T06:30:15.000Z", "1979-05-31T06:30:15"),
        ("1979-05-31T06:30:15+02:00", "1979-05-31T04:30:15"),
        ("1979-05-31T06:30-0130", "1979-05-31T08:00:00"),
        ("1979-12-31T24:00:00", "1980-01-01T00:00:00"),
        (dt.datetime(1979, 5, 31, 6), "1979-05-31T06:00:00"),
        (dt.datetime(1979, 5, 31, 6, tzinfo=ZoneInfo("Europe/Madrid")), "1979-05-31T04:00:00"),
        (np.datetime64("1979-05-31T06"), "1979-05-31T06:00:00"),
        (np.datetime64("1979-05-31T06:00:00.000000000"), "1979-05-31T06:00:00"),
        (pd.Timestamp("1979-05-31 06:00"), "1979-05-31T06:00:00"),
        ("0001-01-01T00:00:00", "0001-01-01T00:00:00"),
    ],
)
def test_a_full_time_is_meant_to_the_second_as_start_and_as_end(value, time) -> None:
    assert epoch_text(first_second(value)) == epoch_text(last_second(value)) == time


@pytest.mark.parametrize(
    "value",
    ["", "79", "1979-13", "1979-02-29", "1979-05T06:00", "1979-05-31T25:00", "1979-05-31T06:60", "1979-05-31T24:00:01",
     "today", "1979-05-31T06:00 x", "0000", 0, 79, 12345, 1979053106, -1979, 1979.0, True, None, [1979],
     "1979-05-31T06:00:00.5", "1979-05-31T06:00:00.0000000001", "1979-05-31T06:00:00,0000001",
     pd.NaT, np.datetime64("NaT", "s"), np.datetime64("1979-05-31T06:00:00.5"),
     dt.datetime(1979, 5, 31, microsecond=1), pd.Timestamp("1979-05-31 00:00:00.000000001"), "1" * 100,
     "1979-00", "1979-05-00", 197900, "1979-W22", "1979-05-31+01:00", "19790531-0600",
     "1979-05-31T06:00+1:75", "1979-05-31T06:00+100", "1979-06-30T23:59:60",
     np.datetime64(12345, "Y"), np.datetime64(2**62, "D"),
     np.datetime64(-(2**62), "h"), np.datetime64(2**62, "s")],
)  # fmt: skip
def test_what_is_no_date_of_whole_seconds_raises(value) -> None:
    with pytest.raises(OptionError):
        first_second(value)


@given(st.datetimes())
@settings(max_examples=examples(50))
def test_text_of_any_time_is_read_as_datetime_reads_it(time) -> None:
    time = time.replace(microsecond=0)
    assert first_second(time.isoformat()) == first_second(time)
    assert epoch_text(first_second(time)) == time.isoformat()


@pytest.mark.parametrize(("value", "seconds"), [("6h", 21600), (6, 21600), ("1d", DAY), ("PT30M", 1800), (0.5, 1800)])
def test_frequencies_are_spans_of_time(value, seconds) -> None:
    assert parse_frequency(value) == seconds


@pytest.mark.parametrize("value", [0, "-6h", "0.5s", "P1M", "6x", None])
def test_a_frequency_that_is_not_positive_whole_seconds_raises(value) -> None:
    with pytest.raises(OptionError):
        parse_frequency(value)


@given(st.integers(-(10**6), 10**6), st.integers(0, 10**4), st.integers(1, 10**3))
@settings(max_examples=examples(50))
def test_the_dates_are_those_of_the_loop_that_defines_them(start, length, frequency) -> None:
    dates = SampleDates(start, start + length, frequency)
    expected = dates_of_samples(start, start + length, frequency)
    assert dates.epochs().tolist() == expected
    assert (len(dates), dates.last) == (len(expected), expected[-1])


def test_the_call_of_the_founding_text_ends_with_the_last_date_of_2020() -> None:
    dates = sample_dates(1979, 2020, "6h", None)
    assert epoch_text(dates.start) == "1979-01-01T00:00:00"
    assert epoch_text(dates.last) == "2020-12-31T18:00:00"
    assert len(dates) == (dates.end - dates.start) // 21600 + 1 == 61364


def test_an_end_that_is_a_year_admits_its_last_second_whatever_the_start() -> None:
    assert epoch_text(sample_dates("2020-01-01T05:59:59", 2020, "6h", None).last) == "2020-12-31T23:59:59"


def test_dates_left_out_are_those_of_the_first_and_last_observation() -> None:
    dates = sample_dates(None, None, "1h", (17, 7217))
    assert (dates.start, dates.end, len(dates)) == (17, 7217, 3)


@pytest.mark.parametrize(("start", "end"), [(None, 2020), (1979, None), (None, None)])
def test_dates_left_out_of_an_empty_store_raise(start, end) -> None:
    with pytest.raises(OptionError, match="no observation"):
        sample_dates(start, end, "6h", None)


def test_an_end_before_the_start_raises() -> None:
    with pytest.raises(OptionError, match="before the start"):
        sample_dates(2020, 1979, "6h", None)


def test_more_dates_than_an_array_may_hold_raise_and_cost_nothing_to_describe() -> None:
    dates = sample_dates("0001", 9999, "1s", None)
    assert len(dates) > 3 * 10**11
    with pytest.raises(LimitError):
        dates.epochs()
