"""Partial sums of blocks equal exact arithmetic for all types, layouts and sets of axes, compiled or not."""

import math
import threading
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from cfagg.kernels.cumulative import partial_sums, partial_sums_each
from tests import oracles, strategies
from tests.effort import examples, types

ROOM = settings(max_examples=examples(40), suppress_health_check=[HealthCheck.too_slow])
U = 2.0**-53

# Each combination of type, weights and low parts is compiled apart; the others run in the soak suite.
CASES = [
    ("f4", False, False),
    ("f4", True, False),
    ("f8", True, True),
    ("i2", False, False),
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


@pytest.mark.few(1)
@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize(("dtype", "weighted", "double_double"), CASES)
@ROOM
@given(data=st.data())
def test_sums_counts_and_statistics_of_small_blocks_are_exact(dtype, weighted, double_double, compiled, data):
    check_partials(data, data.draw(st.sampled_from(SHAPES + EMPTY)), dtype, weighted, double_double, compiled)


@pytest.mark.few(1)
@pytest.mark.parametrize(("dtype", "weighted", "double_double"), CASES[:4])
@settings(ROOM, max_examples=examples(8))
@given(data=st.data())
def test_sums_counts_and_statistics_of_blocks_of_many_tiles_are_exact(dtype, weighted, double_double, data):
    check_partials(data, data.draw(st.sampled_from(LARGE)), dtype, weighted, double_double, compiled=True)


@pytest.mark.soak
@pytest.mark.parametrize(("dtype", "weighted", "double_double"), OTHERS)
@settings(ROOM, max_examples=examples(100))
@given(data=st.data())
def test_sums_counts_and_statistics_of_every_type_are_exact(dtype, weighted, double_double, data):
    check_partials(data, data.draw(st.sampled_from(SHAPES + LARGE)), dtype, weighted, double_double, compiled=True)


def test_a_block_that_is_read_only_and_repeats_itself_is_summed():
    block = np.broadcast_to(np.float32(1.5), (30, 40))
    assert partial_sums(block, [(0, 1)]).sums[0, 1] == 1800.0


def test_the_block_is_not_changed():
    block = np.array([[1, 9, 2], [9, 9, 9]], ">i2")
    before = block.tobytes()
    partial_sums(block, [(0,), (1,)], fills=[9], statistics=[(0, 1)])
    assert block.tobytes() == before


def test_float16_is_summed_in_float64_and_keeps_its_type_for_extremes():
    block = np.array([60000, 60000, -60000, np.inf], "f2")
    found = partial_sums(block, [(0,)], statistics=[(0,)])
    assert found.sums[0,] == 60000.0
    assert (found.statistics[0,].minimum.dtype, found.statistics[0,].maximum) == (np.float16, 60000)


@pytest.mark.parametrize("dtype", ["c8", "S2", "M8[s]", "O", "g"])
def test_other_types_are_refused_by_name(dtype):
    with pytest.raises(TypeError, match=str(np.dtype(dtype)).replace("[", r"\[").replace("|", r"\|")):
        partial_sums(np.zeros(3, dtype), [(0,)])


@pytest.mark.parametrize("axes", [(), (2,), (-1,), (1, 0), (0, 0)])
def test_sets_of_axes_that_the_block_does_not_have_are_refused(axes):
    with pytest.raises(ValueError, match=r"2 dimensions; found \("):
        partial_sums(np.zeros((2, 3)), [(0,), axes])


def test_weights_that_do_not_broadcast_are_refused():
    with pytest.raises(ValueError, match="broadcast"):
        partial_sums(np.zeros((2, 3)), [(0,)], weights=np.ones(2))


@pytest.mark.few(2)
@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("weights", [None, 0.5])
def test_cells_where_everything_is_missing_have_exact_zeros(compiled, weights):
    block = np.where(np.arange(60).reshape(3, 4, 5) % 5 == 2, np.nan, 0.1).astype("f4")
    found = partial_sums(
        block, [(0,), (0, 1)], weights=weights, double_double=True, statistics=[(0, 1)], compiled=compiled
    )
    cell = found.statistics[0, 1]
    assert (found.sums[0, 1][2], found.low[0, 1][2], found.counts[0, 1][2]) == (0, 0, 0)
    assert (cell.count[2], cell.sum[2], cell.m2[2], cell.minimum[2], cell.maximum[2]) == (0, 0, 0, 0, 0)
    assert weights is None or (found.weights[0, 1][2], found.weights_low[0, 1][2], cell.weights[2]) == (0, 0, 0)


def test_infinities_are_counted_apart_whatever_else_excludes_them():
    block = np.array([np.inf, -np.inf, np.nan, 1e20, 2.0, 3.0, 99.0], "f4")
    found = partial_sums(block, [(0,)], fills=[1e20, np.inf], valid_max=50)
    assert (found.missing, found.nonfinite, found.sums[0,], found.counts[0,]) == (5, 2, 5.0, 2)


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("dtype", ["i8", "u8"])
def test_a_sum_of_integers_beyond_int64_is_refused(dtype, compiled):
    block = np.full((2, 300), 2**62 // 150, dtype)
    assert partial_sums(block, [(1,)], compiled=compiled).sums[1,].tolist() == [2**62 // 150 * 300] * 2
    with pytest.raises(OverflowError, match=f"beyond int64: {2**62 // 150 * 600}"):
        partial_sums(block, [(0, 1)], compiled=compiled)
    block[0, 0] += 2**62
    with pytest.raises(OverflowError, match="beyond int64"):
        partial_sums(block, [(1,)], compiled=compiled)


@pytest.mark.parametrize("compiled", [True, False])
def test_large_integers_that_cancel_are_summed_exactly(compiled):
    most = 2**63 - 1
    block = np.array([[most, -most, most, -most], [-most - 1, most, 5, 7]])
    found = partial_sums(block, [(1,), (0, 1)], compiled=compiled)
    assert found.sums[1,].tolist() == [0, 11]
    assert found.sums[0, 1] == 11


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("fills", [[], [5], [5, 7], [5, 7, 9], [-(2**15)]])
def test_the_least_integer_of_a_type_counts_unless_it_is_a_fill(fills, compiled):
    found = partial_sums(np.array([[-(2**15), 1], [2, 3]], "i2"), [(0, 1)], fills=fills, compiled=compiled)
    least = -(2**15)
    assert (found.missing, found.sums[0, 1]) == ((1, 6) if least in fills else (0, least + 6))


@pytest.mark.parametrize("compiled", [True, False])
def test_an_unsigned_value_beyond_int64_is_refused_unless_it_is_missing(compiled):
    block = np.array([1, 2**64 - 2, 2**63 - 9], "u8")
    found = partial_sums(block, [(0,)], fills=[2**64 - 2], statistics=[(0,)], compiled=compiled)
    assert (found.sums[0,], found.missing) == (2**63 - 8, 1)
    assert (found.statistics[0,].maximum, found.statistics[0,].maximum.dtype) == (2**63 - 9, np.uint64)
    with pytest.raises(OverflowError, match=str(2**64 - 2)):
        partial_sums(block, [(0,)], compiled=compiled)


@pytest.mark.parametrize("compiled", [False, pytest.param(True, marks=pytest.mark.full)])
def test_an_unsigned_value_beyond_int64_has_a_weighted_sum(compiled):
    block = np.array([1, 2**64 - 2, 2**63 - 9], "u8")
    assert partial_sums(block, [(0,)], weights=[1, 0, 0], compiled=compiled).sums[0,] == 1.0


@pytest.mark.parametrize("compiled", [False, pytest.param(True, marks=pytest.mark.full)])
def test_weighted_integers_are_summed_in_float64(compiled):
    found = partial_sums(np.array([[1, 2], [3, 4]], "i2"), [(0,)], weights=[[0.5], [2.0]], compiled=compiled)
    assert found.sums[0,].tolist() == [6.5, 9.0]
    assert found.weights[0,].tolist() == [2.5, 2.5]


def test_values_so_large_that_their_sum_overflows_do_not_hide_missing_ones():
    block = np.array([1.7e308, 1.7e308, np.nan, -1.7e308, -1.7e308, 1.0])
    found = partial_sums(block.reshape(1, 6), [(0,)], statistics=[(0, 1)])
    assert found.missing == 1
    assert found.sums[0,].tolist() == [1.7e308, 1.7e308, 0.0, -1.7e308, -1.7e308, 1.0]


def test_threads_on_the_same_block_give_the_same_bits():
    block = np.random.default_rng(0).normal(size=(40, 50, 60)).astype("f4")
    results = []

    def run():
        results.append(partial_sums(block, [(0,), (1, 2)], statistics=[(0, 1, 2)]))

    threads = [threading.Thread(target=run) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (
        len({r.sums[0,].tobytes() + r.sums[1, 2].tobytes() + r.statistics[0, 1, 2].m2.tobytes() for r in results}) == 1
    )


# What other tests compile too: a type, with weights or without, and whether sums have low parts.
KINDS = [("f4", True, False), ("i2", False, False), ("f8", False, True)]
OTHER_KINDS = [*product(["i2", "u8"], [False, True], [False]), *product(["f4", "f8"], [False, True], [True])]


@ROOM
@given(
    shape=hnp.array_shapes(min_dims=1, max_dims=4, max_side=7),
    count=st.integers(1, 4),
    kind=st.sampled_from(types(*KINDS, *OTHER_KINDS, daily=len(KINDS))),
    missing=st.sampled_from([0.0, 0.2, 1.0]),
    compiled=st.booleans(),
    turned=st.booleans(),
    seed=st.integers(0, 2**32),
)
def test_blocks_reduced_together_have_the_bits_of_those_reduced_alone(
    shape, count, kind, missing, compiled, turned, seed
):
    dtype, weighted, double_double = kind
    random = np.random.default_rng(seed)
    # Unsigned integers have no negative values: casting one gives a number beyond what is summed.
    blocks = np.abs(random.normal(9, 3, (count, *shape))).astype(dtype)
    blocks[random.random(blocks.shape) < missing * (np.arange(count) % 2).reshape(-1, *[1] * len(shape))] = 77
    if turned:
        blocks = np.ascontiguousarray(blocks.transpose(0, *range(1, blocks.ndim)[::-1]))
        blocks = blocks.transpose(0, *range(1, blocks.ndim)[::-1])
    weights = random.random((count, *(n if random.random() < 0.5 else 1 for n in shape))) if weighted else None
    whole = tuple(range(len(shape)))
    options = {"fills": [77], "double_double": double_double, "statistics": [whole], "compiled": compiled}
    found = partial_sums_each(blocks, [(0,), whole], weights=weights, **options)
    for k in range(count):
        one = partial_sums(blocks[k], [(0,), whole], weights=None if weights is None else weights[k], **options)
        assert (found.missing[k], found.nonfinite[k]) == (one.missing, one.nonfinite)
        for name in ("sums", "low", "weights", "weights_low") + (("counts",) if one.missing else ()):
            for axes, array in (getattr(one, name) or {}).items():
                assert getattr(found, name)[axes][k].tobytes() == array.tobytes(), name
        for name in ("count", "minimum", "maximum", "sum", "m2"):
            both = (getattr(s.statistics[whole], name) for s in (found, one))
            assert next(both)[k].tobytes() == next(both).tobytes(), name


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("axes", [(0,), (1,), (0, 1)])
def test_weights_of_0_leave_the_spread_known_of_values_whose_squares_overflow(compiled, axes):
    block = np.full((70, 90), 2.0**664)  # its sums and their means are exact
    weights = np.ones(block.shape)
    block[::3], weights[:, ::4] = 5.0, 0.0
    weights[::3] = 0.0
    found = partial_sums(block, [], weights=weights, statistics=[axes], compiled=compiled).statistics[axes]
    assert not found.m2.any()
