"""Kernels on rows of observations, against plain NumPy."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cfagg.kernels import rows as kernel
from cfagg.observations.merging import sort_unique
from tests import oracles
from tests.effort import examples
from tests.strategies import observation_rows


def bits(rows):
    return rows.shape, rows.tobytes()


@settings(max_examples=examples(50))
@given(observation_rows())
def test_sorting_gives_each_row_once_in_the_order_of_all_columns(rows):
    assert bits(sort_unique(rows.copy())) == bits(oracles.sorted_rows(rows))


def test_many_rows_of_equal_keys_are_sorted_by_the_other_columns():
    chance = np.random.default_rng(0)
    rows = chance.integers(0, 3, (5000, 6)).astype("f4")
    rows[:, :3] = 1
    assert bits(sort_unique(rows.copy())) == bits(oracles.sorted_rows(rows))


def test_dates_far_apart_leave_room_for_little_of_the_latitude():
    rows = np.array([[2**24 - 1, 5, 1, 0], [-(2**24) + 1, 7, -90, 0], [2**24 - 1, 5, -1, 0], [0, 0, np.nan, 1]], "f4")
    assert bits(sort_unique(rows.copy())) == bits(oracles.sorted_rows(rows))


def test_few_rows_of_equal_keys_before_others_stay_before_them():
    rows = np.array([[2, 0, 0, 0], [1, 0, 0, 5], [1, 0, 0, 3], [1, 0, 0, 4], [2, 0, 0, 9]], "f4")
    assert bits(sort_unique(rows.copy())) == bits(oracles.sorted_rows(rows))


def test_dates_whose_seconds_have_31_bits_are_in_order():
    # 9 and 11 January 2004, on either side of 2**30 s, and the last day that 2**31 s reach.
    rows = np.array([[24855, 0, 0], [12429, 0, 0], [12427, 0, 0], [0, 0, 0]], "f4")
    for part in (rows, rows[:3], rows[1:3]):
        assert bits(sort_unique(part.copy())) == bits(oracles.sorted_rows(part))


def test_what_was_in_the_place_of_the_result_does_not_count_as_a_row():
    rows = np.array([[1, 0, 0], [2, 0, 0]], "f4")
    out = np.repeat(rows[:1], 2, axis=0)
    assert kernel.take_unique(rows, np.arange(2), out) == 2
    assert bits(out) == bits(rows)
    out[:] = rows[0]
    assert kernel.merge_runs(rows, np.array([0, 1, 2]), out) == 2
    assert bits(out) == bits(rows)


def test_rows_in_order_are_not_copied():
    rows = np.array([[1, 0, 0], [1, 1, 0]], "f4")
    assert sort_unique(rows) is rows


def test_every_nan_and_every_zero_gets_the_same_bits():
    rows = np.array([[0x7FC00001, 0xFFC00000, 0x80000000, 0x7FC00000]], "u4").view("f4")
    kernel.normalise(rows)
    assert rows.view("u4").tolist() == [[0x7FC00000, 0x7FC00000, 0, 0x7FC00000]]


@settings(max_examples=examples(50))
@given(observation_rows(), st.data())
def test_the_first_row_out_of_order_is_found(rows, data):
    rows = oracles.sorted_rows(rows)
    assert kernel.first_disorder(rows) == -1
    if len(rows):
        at = data.draw(st.integers(0, len(rows) - 1))
        # A row twice is as wrong as one too early.
        twice = np.insert(rows, at + 1, rows[at], axis=0)
        assert kernel.first_disorder(twice) == at + 1


@settings(max_examples=examples(50))
@given(observation_rows(), observation_rows(most=4))
def test_bounds_count_the_rows_before_and_those_up_to_a_row(rows, others):
    rows = oracles.sorted_rows(rows)
    for other in oracles.sorted_rows(others):
        without = [r for r in rows if r.tobytes() != other.tobytes()]
        both = oracles.sorted_rows([*rows, other])
        place = next(i for i, r in enumerate(both) if r.tobytes() == other.tobytes())
        for start in range(place + 1):
            assert kernel.lower_bound(rows, other[None], False, start) == place
            assert kernel.lower_bound(rows, other[None], True, start) == place + len(rows) - len(without)


def test_bounds_are_found_from_any_start_on():
    rows = np.arange(0, 24, 2, dtype="f4")[:, None]
    for value in range(-1, 25):
        bound = np.array([[value]], "f4")
        for after, side in ((False, "left"), (True, "right")):
            place = np.searchsorted(rows[:, 0], value, side)
            for start in range(place + 1):
                assert kernel.lower_bound(rows, bound, after, start) == place


@settings(max_examples=examples(50))
@given(st.lists(observation_rows(most=12), min_size=1, max_size=6))
def test_merging_runs_is_sorting_all_of_their_rows(runs):
    runs = [oracles.sorted_rows(r) for r in runs]
    rows = np.concatenate(runs)
    bounds = np.concatenate([[0], np.cumsum([len(r) for r in runs])]).astype("i8")
    out = np.empty_like(rows)
    count = kernel.merge_runs(rows, bounds, out)
    assert bits(out[:count]) == bits(oracles.sorted_rows(rows))


def test_arrays_that_do_not_fit_are_refused():
    rows, wide = np.zeros((4, 3), "f4"), np.zeros((4, 5), "f4")
    order, keys = np.arange(4), np.zeros(4, "i8")
    cases = [
        *((kernel.lower_bound, (rows, bound, False, start)) for bound, start in
          [(wide, 0), (rows[:0], 0), (rows, -1), (rows, 5)]),
        *((kernel.sort_keys, pair) for pair in [(rows[:, :2].copy(), keys), (rows, keys[:3])]),
        *((kernel.sort_order, (rows, k, o)) for k, o in [(keys[:3], order), (keys, order + 1), (keys, order - 1)]),
        *((kernel.take_unique, (rows, o, out)) for o, out in
          [(order, rows[:3].copy()), (order, wide), (order - 1, rows.copy()), (order + 1, rows.copy())]),
        *((kernel.merge_runs, (rows, np.array(bounds, "i8"), out)) for bounds, out in
          [([], rows), ([-1, 4], rows), ([0, 5], wide), ([0, 4], wide), ([0, 3, 2], rows), ([0, 4], rows[:3].copy())]),
    ]  # fmt: skip
    for function, arguments in cases:
        with pytest.raises(ValueError, match="do not fit together"):
            function(*arguments)
