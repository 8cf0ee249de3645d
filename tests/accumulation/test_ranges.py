"""Ranges along a dimension."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cfagg.accumulation.ranges import Runs
from cfagg.errors import SelectionError
from tests import strategies as s
from tests.oracles import memberships


@given(st.data(), st.integers(0, 20))
def test_a_slice_gives_the_positions_that_numpy_takes(data, length):
    chosen = data.draw(s.slices(length))
    taken = np.bincount(np.arange(length)[chosen], minlength=length)
    assert memberships(Runs.of_slice(chosen, length), length).tolist() == [taken[:length].tolist()]


@given(st.lists(st.tuples(st.integers(0, 15), st.integers(-1, 3)), max_size=30))
def test_positions_count_in_their_groups_as_often_as_they_stand(pairs):
    expected = np.zeros((4, 16), int)
    for position, code in pairs:
        if code >= 0:
            expected[code, position] += 1
    found = Runs.of_positions([p for p, _ in pairs], [c for _, c in pairs], 4)
    assert (memberships(found, 16) == expected).all()
    assert found.sizes.tolist() == expected.sum(1).tolist()


def test_neighbouring_positions_become_one_range():
    found = Runs.of_positions([5, 3, 4, 9])
    assert (found.start.tolist(), found.stop.tolist()) == ([3, 9], [6, 10])


def test_empty_ranges_are_dropped():
    assert len(Runs([3, 4], [3, 6], [0, 0])) == 1


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (([0], [1, 2], [0]), "columns of one length"),
        (([5], [4], [0]), r"range 0 \(5:4\) ends before it starts"),
        (([-1], [4], [0]), "starts before 0"),
        (([0], [4], [1]), r"groups must be in 0..0; found \[1\]"),
    ],
)
def test_ranges_that_cannot_be_are_refused(columns, message):
    with pytest.raises(SelectionError, match=message):
        Runs(*columns)


@pytest.mark.parametrize(("groups", "keep", "stays"), [(1, False, False), (1, True, True), (2, False, True)])
def test_a_dimension_stays_with_several_groups_or_on_demand(groups, keep, stays):
    assert Runs([0], [1], [0], groups, keep).stays is stays


def test_ranges_are_read_only_and_survive_pickling():
    found = pickle.loads(pickle.dumps(Runs([0, 5], [2, 8], [1, 0], 2)))
    assert found.sizes.tolist() == [3, 2]
    with pytest.raises(ValueError, match="read-only"):
        Runs([0], [2], [0]).start[0] = 1
