"""Numbers of samples."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cfagg.errors import SelectionError
from cfagg.observations.dates import sample_numbers
from tests.effort import examples
from tests.strategies import slices

KEYS = st.one_of(slices(7), st.lists(st.integers(-9, 9), max_size=5), st.lists(st.booleans(), min_size=1, max_size=8))


@given(KEYS, st.sampled_from([list, np.array, tuple]))
@settings(max_examples=examples(50))
def test_several_samples_are_those_that_numpy_selects(key, kind) -> None:
    if isinstance(key, list) and (key or kind is not np.array):
        key = kind(key)
    try:
        expected = np.arange(7)[key if isinstance(key, slice) else np.array(key, int if not len(key) else None)]
    except IndexError:
        with pytest.raises(SelectionError):
            sample_numbers(key, 7)
        return
    assert sample_numbers(key, 7).tolist() == expected.tolist()


@given(st.integers(-9, 9), st.sampled_from([int, np.int8, np.int64, np.array]))
@settings(max_examples=examples(50))
def test_one_sample_is_that_which_a_list_selects(number, kind) -> None:
    try:
        expected = range(7)[number]
    except IndexError:
        with pytest.raises(SelectionError, match="there are 7"):
            sample_numbers(kind(number), 7)
        return
    assert sample_numbers(kind(number), 7) == expected


@pytest.mark.parametrize(
    "key", [True, np.False_, 1.0, "1", None, [[1]], [[1], [2, 3]], ["a"], {1: 2}, ..., np.array(1.5)]
)
def test_what_is_no_number_raises(key) -> None:
    with pytest.raises(SelectionError, match="selects no"):
        sample_numbers(key, 7)


@pytest.mark.parametrize("key", [0, -1, [0]])
def test_there_is_no_sample_of_none(key) -> None:
    with pytest.raises(SelectionError):
        sample_numbers(key, 0)


def test_nothing_of_nothing_is_nothing() -> None:
    assert [len(sample_numbers(key, 0)) for key in ([], slice(None), slice(3, None, -1), np.zeros(0, bool))] == [0] * 4
