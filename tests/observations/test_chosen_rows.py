"""Rows of which statistics are taken."""

from bisect import bisect_left
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cfagg.errors import ConventionError
from cfagg.observations.chosen_statistics import ALL, Choice, parse_choice
from tests.effort import examples

DAY = 86400


def chosen(choice, dates):
    return parse_choice(choice).rows(
        len(dates),
        dates[0] if dates else 0,
        dates[-1] if dates else 0,
        lambda lo, hi: (bisect_left(dates, lo), bisect_left(dates, hi)),
    )


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, ALL),
        ("all", ALL),
        ({}, ALL),
        ("80% of records", Choice("records", Fraction(4, 5))),
        ("first 80 % of the rows", Choice("records", Fraction(4, 5))),
        ("33.3% of the period", Choice("period", Fraction(333, 1000))),
        ({"over": "period", "percent": 80}, Choice("period", Fraction(4, 5))),
        ({"over": "records", "percent": "12.5%"}, Choice("records", Fraction(1, 8))),
        ({"over": "all", "start": None}, ALL),
        ({"start": 1970, "end": "1970-01"}, Choice("dates", start=0, end=31 * DAY - 1)),
        ({"end": "1970-01-01T00:00:09"}, Choice("dates", end=9)),
    ],
)
def test_every_form_is_understood(value, expected):
    assert parse_choice(value) == expected


@pytest.mark.parametrize(
    ("value", "places"),
    [
        ("most", ["statistics.over"]),
        (7, []),
        ({"over": "records"}, ["statistics.percent"]),
        ({"over": "records", "percent": 0}, ["statistics.percent"]),
        ({"over": "records", "percent": 101}, ["statistics.percent"]),
        ({"over": "records", "percent": "1/0"}, ["statistics.percent"]),
        ({"over": "records", "percent": "1e-999999999"}, ["statistics.percent"]),
        ({"over": "80% of records", "percent": 3}, ["statistics.percent"]),
        ({"over": "all", "percent": 3}, ["statistics.percent"]),
        ({"percent": 3}, ["statistics.percent"]),
        ({"until": 3, "start": "soon"}, ["statistics.until", "statistics.start"]),
        ({"start": 1990, "end": 1980}, ["statistics.end"]),
        ({"over": "all", "start": 1990}, ["statistics"]),
    ],
)
def test_all_problems_are_told_at_once(value, places):
    with pytest.raises(ConventionError) as found:
        parse_choice(value)
    assert [p.where for p in found.value.problems] == places


def test_80_per_cent_of_two_days_is_more_than_a_row():
    dates = list(range(0, 2 * DAY, 3600))
    assert chosen("80% of period", dates) == (0, 38)
    assert chosen("80% of records", dates) == (0, 38)


def test_a_store_without_rows_has_none():
    for choice in ("all", "80% of records", "80% of period", {"start": 1990}):
        assert chosen(choice, []) == (0, 0)


@settings(max_examples=examples(50))
@given(st.lists(st.integers(-1000, 1000), min_size=1, max_size=30).map(sorted), st.integers(1, 1000))
def test_shares_are_those_of_the_definition(dates, thousandths):
    share = Fraction(thousandths, 1000)
    percent = f"{thousandths / 10}%"
    start, stop = chosen(f"{percent} of the period", dates)
    limit = dates[0] + share * (dates[-1] - dates[0])
    assert dates[start:stop] == [d for d in dates if d <= limit]
    start, stop = chosen(f"{percent} of records", dates)
    assert start == 0
    assert stop == max(1, len(dates) * thousandths // 1000)


@settings(max_examples=examples(30))
@given(st.lists(st.integers(0, 50), min_size=1).map(sorted), st.integers(-5, 55), st.integers(-5, 55))
def test_both_ends_of_dates_are_included(dates, start, end):
    if end < start:
        start, end = end, start
    found = Choice("dates", start=start, end=end)
    rows = found.rows(len(dates), dates[0], dates[-1], lambda lo, hi: (bisect_left(dates, lo), bisect_left(dates, hi)))
    assert dates[slice(*rows)] == [d for d in dates if start <= d <= end]


def test_a_choice_says_what_it_is():
    texts = [str(parse_choice(c)) for c in (None, "12.5% of records", {"end": 1970})]
    assert texts == ["all rows", "12.5% of the records", "rows to 1970-12-31T23:59:59"]
