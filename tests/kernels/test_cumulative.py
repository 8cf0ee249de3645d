"""Partial sums of blocks equal exact arithmetic for all types, layouts and sets of axes, compiled or not."""

import math
import threading
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cfagg.kernels.cumulative import partial_sums
from tests import oracles, strategies

ROOM = settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow])
U = 2.0**-53

# Each combination of type, weights and low parts is compiled apart; the others run in the soak suite.
CASES = [
    ("f4", False, False),
    ("f4", True, False),
    ("f4", False, True),
    ("f8", True, True),
    ("i2", False, False),
    ("u1", False, False),
    ("u8", False, False),
]
OTHERS = [
    (t, w, d) for t in strategies.REAL_TYPES for w in (False, True) for d in (False, True) if (t, w, d) not in CASES
]

SHAPES = [(), (1,), (7,), (1, 1), (1, 5), (5, 1), (3, 4), (2, 1, 3), (3, 2, 4), (2, 1, 3, 1, 2), (2, 3, 2, 1, 2, 2)]
EMPTY = [(0,), (3, 0), (0, 1, 2)]
LARGE = [(2000,), (3, 4000), (2000, 3), (1, 40, 50), (70, 1, 40), (9, 20, 30), (5, 4, 3, 30), (3, 2, 2, 2, 2, 40)]


def near(found, exact, slack):
    """Compare arrays of numbers with exact ones, each within its own slack."""
    found = np.asarray(found)
    assert found.shape == np.shape(exact)
    for x, y, s in zip(found.ravel(), np.ravel(exact), np.broadcast_to(slack, found.shape).ravel(), strict=True):
        assert abs(Fraction(float(x)) - Fraction(y)) <= Fraction(s) if found.dtype.kind == "f" else int(x) == y


def check_sums(sums, low, summands, axes):
    """Compare the sums of real numbers with exact ones, to the stated error."""
    n = math.prod(summands.shape[a] for a in axes)
    exact = oracles.reduced(summands, axes, lambda v: sum(map(Fraction, v), Fraction(0)), object)
    size = oracles.reduced(np.abs(summands), axes, math.fsum, "f8")
    if low is None:
        near(sums, exact, (n + 2) * U * size)
        return
    rest = 8 * (n + 2) ** 2 * U**2 * size
    near(sums, exact, U * np.abs(exact.astype("f8")) + rest)
    both = np.array([Fraction(float(h)) + Fraction(float(e)) for h, e in zip(sums.ravel(), low.ravel(), strict=True)])
    for x, y, s in zip(both, exact.ravel(), rest.ravel(), strict=True):
        assert abs(x - y) <= s


def check_statistics(found, block, valid, weights, axes):
    """Compare statistics with exact ones."""
    heavy = valid * (1.0 if weights is None else weights)
    count = oracles.reduced(valid, axes, sum, "i8")
    assert found.count.tolist() == count.tolist()
    pairs = np.stack([np.where(valid, block, block.dtype.type(0)).astype(object), heavy.astype(object), valid], -1)
    for at, n in np.ndenumerate(count):
        kept = iter(at)
        cell = pairs[tuple(slice(None) if a in axes else next(kept) for a in range(block.ndim))].reshape(-1, 3)
        values, w = [v for v, _, k in cell if k], [float(x) for _, x, k in cell if k]
        total, most = sum(w), max(map(abs, values), default=0)
        assert found.minimum[at] == (min(values) if n else 0)
        assert found.maximum[at] == (max(values) if n else 0)
        size = math.fsum(abs(v) * x for v, x in zip(values, w, strict=True))
        exact = sum((Fraction(v) * Fraction(x) for v, x in zip(values, w, strict=True)), Fraction(0))
        slack = (n + 2) * U * size
        assert abs(Fraction(found.sum[at].item()) - exact) <= (Fraction(slack) if found.sum.dtype.kind == "f" else 0)
        if weights is not None:
            assert found.weights[at] == pytest.approx(total, rel=n * 2 * U)
        exact = oracles.centred_squares(values, w)
        shift = 4 * (n + 2) * U * most
        slack = 8 * (n + 2) * U * exact + 2 * math.sqrt(total * exact) * shift + total * shift**2
        assert abs(found.m2[at] - exact) <= slack


def check_partials(data, shape, dtype, weighted, double_double, compiled):
    block, arguments = data.draw(strategies.number_blocks(dtype, shape))
    sets, wanted = (data.draw(strategies.axes_sets(len(shape), k)) for k in (4, 2))
    weights = None
    if weighted:
        spans = [n if data.draw(st.booleans()) else 1 for n in shape]
        weights = np.random.default_rng(0).random(spans[data.draw(st.integers(0, len(spans))) :])
        weights[weights < 0.2] = 0.0
    found = partial_sums(
        block,
        sets,
        **arguments,
        weights=weights,
        double_double=double_double,
        statistics=wanted,
        compiled=compiled,
    )
    valid = oracles.counted(block, **arguments)
    everywhere = None if weights is None else np.broadcast_to(weights, shape)
    assert found.missing == (~valid).sum()
    assert found.nonfinite == sum(math.isinf(v) for v in block.ravel().tolist())
    values = np.where(valid, block, block.dtype.type(0))
    integer = values.dtype.kind != "f" and weights is None
    summands = values.astype(object) if integer else values.astype("f8")
    if weighted:
        summands = summands * everywhere
    assert set(found.sums) == set(sets)
    assert (found.counts is None) == (found.missing == 0)
    assert (found.low is None) == (integer or not double_double)
    assert (found.weights is None) == (not weighted)
    assert (found.weights_low is None) == (not (weighted and double_double))
    for t in sets:
        if integer:
            assert found.sums[t].dtype == np.int64
            assert found.sums[t].tolist() == oracles.reduced(summands, t, sum, object).tolist()
        else:
            check_sums(found.sums[t], found.low and found.low[t], summands, t)
        if found.counts is not None:
            assert found.counts[t].tolist() == oracles.reduced(valid, t, sum, "i8").tolist()
            assert found.counts[t].dtype == np.int64
        if weighted:
            check_sums(found.weights[t], found.weights_low and found.weights_low[t], valid * everywhere, t)
    for t in wanted:
        assert found.statistics[t].minimum.dtype == block.dtype.newbyteorder("=")
        check_statistics(found.statistics[t], block, valid, everywhere, t)


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize(("dtype", "weighted", "double_double"), CASES)
@ROOM
@given(data=st.data())
def test_sums_counts_and_statistics_of_small_blocks_are_exact(dtype, weighted, double_double, compiled, data):
    check_partials(data, data.draw(st.sampled_from(SHAPES + EMPTY)), dtype, weighted, double_double, compiled)


@pytest.mark.parametrize(("dtype", "weighted", "double_double"), CASES[:5])
@settings(ROOM, max_examples=8)
@given(data=st.data())
def test_sums_counts_and_statistics_of_blocks_of_many_tiles_are_exact(dtype, weighted, double_double, data):
    check_partials(data, data.draw(st.sampled_from(LARGE)), dtype, weighted, double_double, compiled=True)


@pytest.mark.soak
@pytest.mark.parametrize(("dtype", "weighted", "double_double"), OTHERS)
@settings(ROOM, max_examples=100)
@given(data=st.data())
def test_sums_counts_and_statistics_of_every_type_are_exact(dtype, weighted, double_double, data):
    check_partials(data, data.draw(st.sampled_from(SHAPES + LARGE)), dtype, weighted, double_double, compiled=True)
