"""Statistics of a whole from those of its parts equal those taken of the whole."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cfagg.kernels.statistics import Statistics, exact_sum, merge, pyramid
from tests import oracles, strategies
from tests.effort import examples

ROOM = settings(max_examples=examples(50))


def leaves(values, valid, weights):
    """Statistics of single values."""
    count = valid.astype("i8")
    zero = np.where(valid, values, values.dtype.type(0))
    wide = zero.astype("i8" if values.dtype.kind in "iu" and weights is None else "f8")
    if weights is None:
        return Statistics(count, zero, zero, wide, np.zeros(values.shape))
    heavy = np.where(valid, weights, 0.0)
    return Statistics(count, zero, zero, wide * heavy, np.zeros(values.shape), heavy)


@st.composite
def grids(draw):
    """Values, where they count, weights or None, in up to three dimensions."""
    shape = tuple(draw(st.lists(st.sampled_from([1, 2, 3, 8, 9, 17]), min_size=1, max_size=3)))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    values = (rng.normal(draw(st.sampled_from([0.0, 1e6])), 1.0, shape) * 8).astype(
        draw(st.sampled_from(["f4", "f8", "i2", "i8"])) if draw(st.booleans()) else "f4"
    )
    valid = rng.random(shape) < draw(st.sampled_from([1.0, 0.5, 0.0]))
    weights = rng.integers(0, 3, shape) / 2 if draw(st.booleans()) else None
    return values, valid, weights


def check_cells(found, values, valid, weights, box_of):
    """Compare each cell with statistics taken of the values in its box."""
    for at, n in np.ndenumerate(found.count):
        box = box_of(at)
        kept = valid[box].ravel()
        x = values[box].ravel()[kept].tolist()
        w = [1.0] * len(x) if weights is None else weights[box].ravel()[kept].tolist()
        assert n == len(x)
        assert found.minimum[at] == min(x, default=0)
        assert found.maximum[at] == max(x, default=0)
        assert found.sum[at] == pytest.approx(math.fsum(a * b for a, b in zip(x, w, strict=True)), rel=1e-12, abs=1e-9)
        exact = oracles.centred_squares(x, w)
        assert found.m2[at] == pytest.approx(exact, rel=1e-9, abs=1e-6)
        if weights is not None:
            assert found.weights[at] == sum(w)


@ROOM
@given(data=st.data())
def test_merged_statistics_are_those_of_all_values(data):
    values, valid, weights = data.draw(grids())
    axes = data.draw(strategies.axes_sets(values.ndim, 1).map(lambda s: s[0] if s else ()))
    found = merge(leaves(values, valid, weights), axes)
    assert found.count.shape == tuple(n for a, n in enumerate(values.shape) if a not in axes)

    def box_of(at):
        rest = iter(at)
        return tuple(slice(None) if a in axes else next(rest) for a in range(values.ndim))

    check_cells(found, values, valid, weights, box_of)


@ROOM
@given(data=st.data())
def test_each_level_of_the_pyramid_is_that_of_eight_cells_along_each_axis(data):
    values, valid, weights = data.draw(grids())
    axes = data.draw(strategies.axes_sets(values.ndim, 1).map(lambda s: s[0] if s else ()))
    found = pyramid(leaves(values, valid, weights), axes)
    assert found.count.shape == tuple(math.ceil(n / 8) if a in axes else n for a, n in enumerate(values.shape))

    def box_of(at):
        return tuple(slice(8 * k, 8 * k + 8) if a in axes else k for a, k in enumerate(at))

    check_cells(found, values, valid, weights, box_of)


def test_two_levels_equal_one_of_the_square_fan_out():
    rng = np.random.default_rng(0)
    foot = leaves(rng.normal(1e5, 1.0, (130, 70)), rng.random((130, 70)) < 0.7, None)
    twice, once = pyramid(pyramid(foot, [0, 1]), [0, 1]), pyramid(foot, [0, 1], fan_out=64)
    assert twice.count.tolist() == once.count.tolist()
    assert np.allclose(twice.m2, once.m2, rtol=1e-10, atol=0)


def test_small_spread_about_a_large_mean_survives():
    values = 1e9 + np.tile([0.0, 1e-3], 4096)
    found = pyramid(pyramid(leaves(values, np.ones(8192, bool), None), [0]), [0])
    exact = oracles.centred_squares(values[:64].tolist(), [1.0] * 64)
    assert found.m2 == pytest.approx(np.full(128, exact), rel=1e-6)


@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 2)])
def test_no_cells_merge_into_nothing(shape):
    empty = leaves(np.zeros(shape, "f4"), np.zeros(shape, bool), np.ones(shape))
    assert merge(empty, range(len(shape))).count == 0
    assert pyramid(empty, range(len(shape))).m2.size == 0


def test_a_pyramid_whose_sums_overflow_is_refused():
    parts = leaves(np.full(9, 2**60), np.ones(9, bool), None)
    with pytest.raises(OverflowError, match=f"beyond int64: {2**63}"):
        pyramid(parts, [0])


@ROOM
@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=9))
def test_integer_sums_are_exact_or_refused(values):
    array = np.array(values, "i8")
    if -(2**63) <= sum(values) < 2**63:
        assert exact_sum(array, 0) == sum(values)
    else:
        with pytest.raises(OverflowError, match=f"beyond int64: {sum(values)}$"):
            exact_sum(array, 0)


@pytest.mark.parametrize("fan_out", [1, 0, -8])
def test_a_level_of_fewer_than_two_cells_each_is_refused(fan_out):
    one = np.ones(4, "i8")
    with pytest.raises(ValueError, match=f"found {fan_out}"):
        pyramid(Statistics(one, one, one, one, np.zeros(4)), [0], fan_out)
