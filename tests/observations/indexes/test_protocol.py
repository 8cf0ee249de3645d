"""What entries have to be."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cfagg.errors import ConventionError
from cfagg.observations.indexes.protocol import checked
from tests import strategies as s
from tests.effort import examples
from tests.observations.indexes.made import cut, even


@settings(max_examples=examples(30))
@given(s.index_entries(most=100), st.integers(1, 5))
def test_good_entries_pass_unchanged(entries, pieces):
    places = np.linspace(0, len(entries[0]), pieces + 1, dtype=int)[1:-1]
    found = list(checked(cut(entries, *places), "index", int(entries[2].sum()), strict=False))
    for i, column in enumerate(entries):
        assert [x for block in found for x in block[i].tolist()] == column.tolist()


@pytest.mark.parametrize(
    ("column", "value", "expected"),
    [
        (
            0,
            6,
            "entry 7 is wrong: it has epoch 6, start 7 and length 1, expected an epoch after 6, start 7 and a ",
        ),
        (0, 5, "expected an epoch after 6"),
        (1, 8, "start 8 and length 1, expected an epoch after 6, start 7"),
        (2, 0, "length 0, expected"),
        (2, 4, "length 4, expected an epoch after 6, start 7 and a length of 1 to 3"),
    ],
)
@pytest.mark.parametrize("pieces", [1, 10])
def test_the_first_wrong_entry_is_named(column, value, expected, pieces):
    entries = even(10)
    entries[column][7] = value
    with pytest.raises(ConventionError, match=expected):
        list(checked(cut(entries, *range(1, pieces)), "index", 10))


def test_several_entries_of_one_epoch_pass_if_allowed():
    entries = ([5, 5], [0, 1], [1, 1])
    assert len(list(checked(cut(entries), "index", 2, strict=False))) == 1
    with pytest.raises(ConventionError, match="entry 1"):
        list(checked(cut(entries), "index", 2))


def test_entries_that_end_early_are_refused():
    with pytest.raises(ConventionError, match="3 entries end at row 3 of 9"):
        list(checked(cut(even(3)), "index", 9))


def test_columns_of_other_lengths_are_refused():
    with pytest.raises(ConventionError, match="columns of entries have the shapes"):
        list(checked([(np.arange(3), np.arange(3), np.ones(2, int))], "index"))


def test_epochs_are_within_what_differences_can_have():
    with pytest.raises(ConventionError, match="entry 0"):
        list(checked([(np.array([2**62]), np.array([0]), np.array([1]))], "index"))
    with pytest.raises(ConventionError, match="entry 0"):
        list(checked([(np.array([-(2**62)]), np.array([0]), np.array([1]))], "index"))
