"""Rules for rows."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cfagg.observations.checking_rows import NAMED, RowRules, compared
from tests.effort import examples


def good(n=20):
    rows = np.zeros((n, 6), "f4")
    rows[:, 0] = np.arange(n) // 5
    rows[:, 1] = np.arange(n) % 5 * 1000
    rows[:, 2:4] = 45
    return rows


def broken(rows, cuts=()):
    rules = RowRules()
    edges = [0, *cuts, len(rows)]
    for a, b in itertools.pairwise(edges):
        rules.check(rows[a:b], a, rows[a - 1 : a] if a else None)
    assert rules.checked == len(rows)
    return {code: (t.count, t.rows, t.texts) for code, t in rules.tallies.items() if t.count}


def test_good_rows_break_no_rule():
    assert broken(good()) == {}
    assert broken(good()[:0]) == {}


@pytest.mark.parametrize(
    ("column", "value", "code"),
    [
        (0, 1.5, "OBS013"),
        (0, np.nan, "OBS013"),
        (0, 2.0**24, "OBS013"),
        (1, 86400, "OBS014"),
        (1, -1, "OBS014"),
        (1, 0.5, "OBS014"),
        (1, np.nan, "OBS014"),
        (2, 90.00001, "OBS015"),
        (2, -91, "OBS015"),
        (2, np.nan, "OBS015"),
        (3, 360, "OBS016"),
        (3, -1e-7, "OBS016"),
        (3, np.nan, "OBS016"),
    ],
)
def test_a_value_that_cannot_be_is_named_with_its_row(column, value, code):
    rows = good()
    rows[7, column] = value
    count, at, texts = broken(rows)[code]
    assert (count, at, texts) == (1, [7], [str(np.float32(value))])


@pytest.mark.parametrize("value", [0, -0.0, 359.99997])
def test_longitudes_up_to_360_are_right(value):
    rows = good()
    rows[:, 3] = value
    assert broken(rows) == {}


@pytest.mark.parametrize("cuts", [(), (7,), (8,), (1, 7, 8, 9)])
def test_rows_out_of_order_and_duplicates_are_found_across_blocks(cuts):
    rows = good()
    rows[8] = rows[7]
    rows[13, 1] = 0
    assert broken(rows, cuts) == {
        "OBS011": (1, [13], ["it sorts before row 12"]),
        "OBS012": (1, [8], ["it equals row 7"]),
    }


def test_only_the_first_rows_are_named():
    rows = good()
    rows[:, 3] = 400
    count, at, texts = broken(rows, (3, 4))["OBS016"]
    assert count == 20
    assert at == list(range(NAMED))
    assert len(texts) == NAMED


small = st.sampled_from([-1.0, -0.0, 0.0, 1.0, np.nan])


@settings(max_examples=examples(50))
@given(st.lists(st.tuples(*[st.tuples(small, small, small)] * 2), max_size=8))
def test_comparing_is_that_of_sorted_tuples(pairs):
    rows, before = (np.array([p[k] for p in pairs], "f4").reshape(-1, 3) for k in (0, 1))
    keys = [
        [tuple((bool(np.isnan(v)), 0.0 if np.isnan(v) else v) for v in r) for r in part.tolist()]
        for part in (rows, before)
    ]
    assert compared(rows, before).tolist() == [(a > b) - (a < b) for a, b in zip(*keys, strict=True)]
