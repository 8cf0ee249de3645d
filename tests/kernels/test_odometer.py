"""The odometer and the linear offset against itertools and NumPy."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cfagg.kernels.odometer import (
    compute_linear_offset,
    odometer_indices,
    odometer_more,
    odometer_new,
    odometer_next,
)

#: The first example of a kernel pays for its compilation.

WHEELS = st.lists(st.tuples(st.integers(-3, 6), st.integers(-3, 6), st.integers(1, 4)), max_size=4)


def walk(wheels):
    """Return every reading of the odometer."""
    start, stop, stride = (np.array([w[k] for w in wheels], np.int64) for k in range(3))
    odometer = odometer_new(start, stop, stride)
    readings = []
    while odometer_more(odometer):
        readings.append(tuple(odometer_indices(odometer).tolist()))
        odometer_next(odometer)
    return readings


@given(WHEELS)
def test_the_odometer_reads_the_product_of_its_wheels_in_c_order(wheels):
    assert walk(wheels) == list(itertools.product(*(range(*w) for w in wheels)))


def test_any_empty_wheel_ends_the_odometer_at_once():
    for empty in range(3):
        assert walk([(0, 0 if d == empty else 2, 1) for d in range(3)]) == []


def test_an_odometer_without_wheels_reads_the_empty_combination_once():
    assert walk([]) == [()]


def test_indices_is_a_view_that_turns_with_the_odometer():
    odometer = odometer_new(*np.array([[0, 0], [2, 2], [1, 1]]))
    view = odometer_indices(odometer)
    odometer_next(odometer)
    assert view.tolist() == [0, 1]


@given(
    st.lists(st.integers(1, 5), max_size=4).flatmap(
        lambda s: st.tuples(st.just(s), st.tuples(*(st.integers(0, n - 1) for n in s)))
    )
)
def test_the_linear_offset_is_the_flat_position_in_c_order(case):
    shape, index = case
    got = compute_linear_offset(np.array(index, np.int64), np.array(shape, np.int64))
    assert got == np.arange(np.prod(shape, dtype=int)).reshape(shape)[index]


def test_readings_up_to_63_bits_do_not_wrap_around():
    most = 2**63 - 1
    assert walk([(0, most, 2**62), (most - 1, most, most)]) == [(0, most - 1), (2**62, most - 1)]


@pytest.mark.parametrize("wheels", [([0, 0], [2], [1, 1]), ([0], [2], []), ([0], [2], [0]), ([0, 0], [2, 2], [1, -1])])
def test_wheels_that_would_never_end_are_refused(wheels):
    with pytest.raises(ValueError, match="stride >= 1 per wheel"):
        odometer_new(*(np.array(column, np.int64) for column in wheels))


def test_an_index_of_another_rank_has_no_offset():
    for index in ([1], [1, 1, 1]):
        with pytest.raises(ValueError, match="one number per dimension"):
            compute_linear_offset(np.array(index), np.array([3, 4]))
