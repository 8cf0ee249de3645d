"""Entries of an index against runs of rows."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cfagg.observations.checking_rows import EntryCheck, compare_part, runs_of
from cfagg.observations.indexes.protocol import Joining
from tests.effort import examples

seconds = st.lists(st.integers(0, 3 * 86400), max_size=30).map(sorted)


def rows_of(epochs):
    epochs = np.asarray(epochs, np.int64)
    return np.stack([epochs // 86400, epochs % 86400], axis=1).astype("f4")


def entries_of(epochs):
    found, starts, lengths = np.unique(np.asarray(epochs, np.int64), return_index=True, return_counts=True)
    return np.stack([found, starts, lengths], axis=1).astype(np.int64)


def cut(array, cuts):
    edges = [0, *sorted(min(c, len(array)) for c in cuts), len(array)]
    return [(a, array[a:b]) for a, b in itertools.pairwise(edges)]


def checked(entries, epochs, cuts=(), entry_cuts=()):
    blocks = (tuple(part.T) for _, part in cut(entries, entry_cuts))
    check, runs = EntryCheck(blocks), Joining()
    for start, part in cut(rows_of(epochs), cuts):
        check.feed(runs.feed(runs_of(part, start)))
    check.feed(runs.close())
    check.close()
    return check


@settings(max_examples=examples(50))
@given(seconds, st.lists(st.integers(0, 30), max_size=4), st.lists(st.integers(0, 30), max_size=3))
def test_runs_and_entries_agree_however_both_are_cut(epochs, cuts, entry_cuts):
    np.testing.assert_array_equal(runs_of(rows_of(epochs), 0), entries_of(epochs))
    assert checked(entries_of(epochs), epochs, cuts, entry_cuts).problem == ""


@settings(max_examples=examples(50))
@given(seconds.filter(bool), st.data())
def test_any_changed_entry_is_found(epochs, data):
    entries = entries_of(epochs)
    i = data.draw(st.integers(0, len(entries) - 1))
    wrong = entries.copy()
    wrong[i, data.draw(st.integers(0, 2))] += data.draw(st.sampled_from([-1, 1, 1000]))
    check = checked(wrong, epochs, data.draw(st.lists(st.integers(0, 30), max_size=3)))
    assert check.row == entries[i, 1]
    assert f"rows {entries[i, 1]:,} to" in check.problem


def test_entries_that_lack_or_go_beyond_the_rows_are_found():
    epochs = [5, 5, 7, 9]
    assert (
        "the rows have an entry (1970-01-01T00:00:09, rows 3 to 3), but the index has none"
        in checked(entries_of(epochs)[:2], epochs).problem
    )
    beyond = np.concatenate([entries_of(epochs), [[11, 4, 2]]])
    assert checked(beyond, epochs).problem.endswith("but the rows have none")


def test_rows_with_senseless_dates_have_some_run():
    rows = np.array([[np.nan, 3], [np.inf, np.nan], [1e30, 0], [1, 1]], "f4")
    assert runs_of(rows, 0)[:, 1].tolist() == [0, 1, 3]
    assert runs_of(rows[:0], 5).shape == (0, 3)


class Table:
    """An index that is a plain table."""

    def __init__(self, entries):
        self.entries = entries

    def entries_between(self, lo, hi):
        return tuple(self.entries[(self.entries[:, 0] >= lo) & (self.entries[:, 0] < hi)].T)


@settings(max_examples=examples(50))
@given(seconds, st.tuples(st.integers(0, 30), st.integers(0, 30)).map(sorted))
def test_a_part_of_the_rows_agrees_with_its_entries(epochs, ends):
    start, stop = (min(e, len(epochs)) for e in ends)
    runs = runs_of(rows_of(epochs)[start:stop], start)
    whole = {"whole_start": start == 0, "whole_end": stop == len(epochs)}
    check = compare_part(Table(entries_of(epochs)), runs, **whole)
    assert check is None or not check.problem


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        ([[5, 0, 2], [7, 2, 1], [9, 3, 2]], "the index has (1970-01-01T00:00:09, rows 3 to 4)"),
        ([[5, 0, 2], [9, 3, 1]], "the index has (1970-01-01T00:00:09, rows 3 to 3)"),
        ([[5, 0, 2], [7, 2, 1]], "the index has none"),
        ([[5, 0, 2], [6, 2, 1], [7, 3, 1], [9, 4, 1]], "the index has (1970-01-01T00:00:06, rows 2 to 2)"),
    ],
)
def test_entries_that_differ_from_a_part_are_told(entries, said):
    runs = runs_of(rows_of([5, 5, 7, 9]), 0)
    check = compare_part(Table(np.array(entries)), runs, whole_start=True, whole_end=True)
    assert check.problem.endswith(said)
    assert check.row in (2, 3)
