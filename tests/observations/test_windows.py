"""Windows: what text means, and which whole seconds lie in them."""

from __future__ import annotations

import datetime as dt
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cfagg.cf.durations import format_duration, parse_duration
from cfagg.errors import OptionError
from cfagg.observations.dates import Window, parse_window
from tests.effort import examples
from tests.oracles import in_window
from tests.strategies import offsets

HOUR = 3600


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("3", 3 * HOUR),
        ("+3", 3 * HOUR),
        ("-3", -3 * HOUR),
        ("1.5", 5400),
        (".5", 1800),
        ("1/2", 1800),
        ("1/3s", Fraction(1, 3)),
        ("1d", 86400),
        ("2W", 14 * 86400),
        ("1D12H", 36 * HOUR),
        ("1h 30min", 5400),
        ("90m", 5400),
        ("10s", 10),
        ("0.25s", Fraction(1, 4)),
        ("06:00", 6 * HOUR),
        ("-1:30", -5400),
        ("00:00:30.5", Fraction(61, 2)),
        ("1 day, 6:00:00", 30 * HOUR),
        (str(dt.timedelta(hours=-6)), -6 * HOUR),
        (str(dt.timedelta(days=-3, seconds=1)), -3 * 86400 + 1),
        ("P1DT6H", 30 * HOUR),
        ("-PT90M", -5400),
        ("PT0.5S", Fraction(1, 2)),
        ("P1W", 7 * 86400),
    ],
)
def test_text_of_a_span_of_time(text, seconds) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (6, 6 * HOUR),
        (0.1, 360),
        (np.int64(-2), -2 * HOUR),
        (Fraction(1, 7), Fraction(3600, 7)),
        (dt.timedelta(days=-1, microseconds=1), Fraction(-86400) + Fraction(1, 10**6)),
        (np.timedelta64(90, "m"), 5400),
        (np.timedelta64(1500, "ms"), Fraction(3, 2)),
        (np.timedelta64(1, "W"), 604800),
        (pd.Timedelta(1, "ns"), Fraction(1, 10**9)),
    ],
)
def test_numbers_and_objects_of_a_span_of_time(value, seconds) -> None:
    assert parse_duration(value) == seconds


@pytest.mark.parametrize(
    "value",
    ["", " ", "x", "3x", "1e3", "--3", "3 4", "6:60", "6:00:61", "P", "PT", "P1DT", "1h1h", "1s1h", "1/0", "٣", "nan",
     "9" * 200, True, None, float("nan"), float("inf"), np.timedelta64("NaT", "s"), [3], "40000000d"],
)  # fmt: skip
def test_what_is_no_span_of_time_raises(value) -> None:
    with pytest.raises(OptionError):
        parse_duration(value)


@pytest.mark.parametrize("value", ["P1M", "P1Y2M", "1y", "2 months", np.timedelta64(1, "M")])
def test_months_and_years_are_refused_for_having_no_fixed_length(value) -> None:
    with pytest.raises(OptionError, match="no fixed length"):
        parse_duration(value)


@given(st.fractions(-(10**7), 10**7, max_denominator=1000))
@settings(max_examples=examples(50))
def test_a_formatted_span_is_read_as_the_same(seconds) -> None:
    assert parse_duration(format_duration(seconds)) == seconds


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("(-3,+3]", (-3 * HOUR + 1, 3 * HOUR + 1)),
        ("[-3,+3]", (-3 * HOUR, 3 * HOUR + 1)),
        ("(-3,+3)", (-3 * HOUR + 1, 3 * HOUR)),
        ("[-3,+3)", (-3 * HOUR, 3 * HOUR)),
        ("(-1d,0]", (-86399, 1)),
        ("[0,0]", (0, 1)),
        ("(-1s,0]", (0, 1)),
        ("[-0.5s,0.5s]", (0, 1)),
        ("(1/3s,4/3s)", (1, 2)),
        (" [ 1 , 2 ] ", (HOUR, 2 * HOUR + 1)),
        ("[-PT90M,06:00)", (-5400, 6 * HOUR)),
    ],
)
def test_the_seconds_of_a_window_are_a_half_open_range(text, expected) -> None:
    assert parse_window(text).offsets == expected


@pytest.mark.parametrize(
    "text",
    ["", "-3,3", "(-3,3", "-3,3]", "(-3,3]x", "x(-3,3]", "(-3 3]", "(-3,3,4]", "(,3]", "(-3,]", "((-3,3]", "(-3,3]]",
     "(-3;3]", "[-P1M,0]", "(-3,3]" + " " * 300, None, 3, ("-3", "3")],
)  # fmt: skip
def test_what_is_no_window_raises(text) -> None:
    with pytest.raises(OptionError):
        parse_window(text)


@pytest.mark.parametrize("text", ["(3,-3]", "[1s,0]"])
def test_a_reversed_window_raises(text) -> None:
    with pytest.raises(OptionError, match="reversed"):
        parse_window(text)


@pytest.mark.parametrize("text", ["(0,0]", "[0,0)", "(0,0)", "(-1s,0)", "(0.2s,0.8s)", "[0.2s,0.8s]"])
def test_a_window_that_holds_no_second_raises(text) -> None:
    with pytest.raises(OptionError, match="empty"):
        parse_window(text)


@given(offsets(), offsets(), st.booleans(), st.booleans(), st.integers(-(10**10), 10**10))
@settings(max_examples=examples(50))
def test_a_window_holds_the_seconds_that_its_ends_admit(start, end, closed_start, closed_end, date) -> None:
    (before, first), (after, last) = start, end
    text = f"{'[' if closed_start else '('}{before},{after}{']' if closed_end else ')'}"
    probes = {date + int(s // 1) + d for s in (first, last) for d in (-2, -1, 0, 1, 2)}
    inside = {p for p in probes if in_window(p, date, first, last, closed_start, closed_end)}
    try:
        lo, hi = parse_window(text).epochs(date)
    except OptionError:
        assert not inside
        return
    assert {p for p in probes if lo <= p < hi} == inside


@given(offsets(), offsets(), st.booleans(), st.booleans())
@settings(max_examples=examples(50))
def test_the_text_of_a_window_is_read_as_the_same_window(start, end, closed_start, closed_end) -> None:
    try:
        window = Window(start[1], end[1], closed_start, closed_end)
    except OptionError:
        return
    assert parse_window(str(window)) == window
