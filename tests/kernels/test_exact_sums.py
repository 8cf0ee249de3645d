"""Exact sums, against fractions."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cfagg.kernels.exact_sums import add_values
from cfagg.observations import statistics
from tests.effort import examples

words = st.lists(st.integers(0, 2**32 - 1) | st.sampled_from([0, 1 << 31, 0x7F800000, 0xFF800000, 1, 0x80000001]))


def empty(columns):
    return (
        np.zeros((columns, 256, 3), "i8"),
        np.tile(np.array(statistics.NO_KEYS, "i8"), (columns, 1)),
        np.zeros((columns, 3), "i8"),
    )


@settings(max_examples=examples(50))
@given(words)
def test_totals_are_those_of_fractions(bits):
    bits = np.array(bits, "u4")[:, None]
    bins, keys, counts = empty(1)
    add_values(bits, bins, keys, counts)
    values = bits.view("f4")[:, 0]
    finite = [Fraction(float(v)) for v in values if np.isfinite(v)]
    total, squares = statistics.totals(bins[0])
    assert Fraction(total, 2**149) == sum(finite)
    assert Fraction(squares, 2**298) == sum(v * v for v in finite)
    assert counts[0].tolist() == [np.isnan(values).sum(), (values == np.inf).sum(), (values == -np.inf).sum()]
    present = values[~np.isnan(values)]
    ends = [present.min(), present.max()] if present.size else [np.nan, np.nan]
    np.testing.assert_array_equal([statistics.key_value(k) for k in keys[0]], ends)


@settings(max_examples=examples(30))
@given(words, st.integers(1, 3))
def test_the_kernel_and_numpy_fill_the_same_bins(bits, columns):
    block = np.resize(np.array(bits, "u4"), (len(bits) // columns, columns))
    one, other = empty(columns), empty(columns)
    add_values(block, *one)
    statistics._add_plainly(block, *other)
    for a, b in zip(one, other, strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_slice_of_columns_is_added_where_it_lies():
    rows = np.random.default_rng(1).normal(size=(50, 7)).astype("f4")
    one, other = empty(3), empty(3)
    add_values(rows[:, 4:].view("u4"), *one)
    add_values(np.ascontiguousarray(rows[:, 4:]).view("u4"), *other)
    for a, b in zip(one, other, strict=True):
        np.testing.assert_array_equal(a, b)


def test_minus_zero_and_zero_are_one_extreme():
    for values in ([-0.0, 0.0], [0.0, -0.0]):
        bins, keys, counts = empty(1)
        add_values(np.array(values, "f4")[:, None].view("u4"), bins, keys, counts)
        assert not np.signbit(statistics.key_value(keys[0, 0]))
        assert keys.tolist() == [[0, 0]]


@pytest.mark.parametrize("which", range(3))
def test_arrays_for_other_numbers_of_columns_are_refused(which):
    arrays = [empty(1 if k == which else 2)[k] for k in range(3)]
    with pytest.raises(ValueError, match=r"\(v, 256, 3\)"):
        add_values(np.ones((5, 2), "u4"), *arrays)
    assert not arrays[0].any()
