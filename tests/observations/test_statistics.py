"""Statistics of columns, whatever the parts and their order."""

import math
import pickle
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from cfagg.errors import LimitError, ModelError
from cfagg.observations.statistics import NAMES, Accumulator
from tests import oracles
from tests.effort import examples

floats = st.floats(width=32, allow_nan=True, allow_infinity=False)
tables = hnp.arrays("f4", st.tuples(st.integers(0, 25), st.integers(1, 3)), elements=floats)


def of(block):
    found = Accumulator(block.shape[1])
    found.accumulate(block)
    return found


def bits(result):
    return {name: values.tobytes() for name, values in result.items()}


@settings(max_examples=examples(50))
@given(tables)
def test_results_are_the_nearest_to_the_true_ones(block):
    result = of(block).result()
    for j in range(block.shape[1]):
        mean, low, high, variance, nan = oracles.column_statistics(block[:, j])
        found = [result[name][j] for name in ("mean", "minimum", "maximum", "nan_count")]
        np.testing.assert_array_equal(found, [mean, low, high, nan])
        stdev = result["stdev"][j]
        if isinstance(variance, float):
            assert math.isnan(stdev)
            continue
        # No neighbour's square root is nearer: the true root is between the two middles.
        below, above = (Fraction(stdev) + Fraction(math.nextafter(stdev, end)) for end in (-math.inf, math.inf))
        assert below < 0 or (below / 2) ** 2 <= variance
        assert variance <= (above / 2) ** 2


@settings(max_examples=examples(50))
@given(tables, st.randoms(use_true_random=False), st.integers(1, 6))
def test_any_parts_in_any_order_give_the_same_bits(block, random, parts):
    order = list(range(len(block)))
    random.shuffle(order)
    pieces = [of(block[np.array(order[k::parts], int)]) for k in range(parts)]
    random.shuffle(pieces)
    merged = Accumulator(block.shape[1])
    for piece in pieces:
        merged.merge(piece)
    assert bits(merged.result()) == bits(of(block).result())
    assert pickle.dumps(merged) == pickle.dumps(of(block))
    assert merged.rows == len(block)


def test_nothing_cancels():
    block = np.array([[1e8], [1e8 + 8], [1e-30], [-1e8], [-1e8 - 8]], "f4")
    assert of(block).result()["mean"][0] == float(Fraction(float(np.float32(1e-30))) / 5)
    constant = np.full((1000, 1), 0.1, "f4")
    assert of(constant).result()["stdev"][0] == 0


def test_the_statistics_are_those_of_numpy_within_rounding():
    block = np.random.default_rng(0).normal(280, 10, (10_000, 4)).astype("f4")
    block[::7, 2] = np.nan
    result = of(block).result()
    wide = block.astype("f8")
    np.testing.assert_allclose(result["mean"], np.nanmean(wide, 0), rtol=1e-14)
    np.testing.assert_allclose(result["stdev"], np.nanstd(wide, 0), rtol=1e-12)
    np.testing.assert_array_equal(result["minimum"], np.nanmin(block, 0))
    np.testing.assert_array_equal(result["nan_count"], [0, 0, 1429, 0])
    assert list(result) == list(NAMES)
    assert {n: str(v.dtype) for n, v in result.items()} == dict.fromkeys(NAMES[:4], "float64") | {"nan_count": "int64"}


def test_a_variable_without_values_has_no_statistics():
    result = of(np.full((3, 1), np.nan, "f4")).result()
    assert all(np.isnan(result[name][0]) for name in NAMES[:4])
    assert result["nan_count"][0] == 3
    assert np.isnan(Accumulator(1).result()["mean"][0])


@pytest.mark.parametrize(
    ("values", "mean"), [([1, np.inf], np.inf), ([-np.inf, 2], -np.inf), ([-np.inf, np.inf], np.nan)]
)
def test_infinities_show(values, mean):
    result = of(np.array([values], "f4").T).result()
    np.testing.assert_array_equal(result["mean"], [mean])
    np.testing.assert_array_equal(result["maximum"], [max(values)])
    np.testing.assert_array_equal(result["minimum"], [min(values)])
    assert np.isnan(result["stdev"][0])


def test_blocks_of_another_kind_are_refused():
    found = Accumulator(2)
    for block in (np.zeros((3, 2)), np.zeros((3, 1), "f4"), np.zeros(3, "f4")):
        with pytest.raises(ModelError, match="expected float32"):
            found.accumulate(block)
    with pytest.raises(ModelError, match="cannot be merged"):
        found.merge(Accumulator(1))
    assert found.rows == 0


def test_more_rows_than_are_exact_are_refused():
    found, more = Accumulator(1), Accumulator(1)
    found.rows = 2**38
    more.accumulate(np.ones((1, 1), "f4"))
    with pytest.raises(LimitError, match="exactly"):
        found.merge(more)


def test_small_statistics_load_no_compiler():
    code = (
        "import sys, numpy as np; from cfagg.observations.statistics import Accumulator as A; a = A(1);"
        "a.accumulate(np.ones((5, 1), 'f4')); print(a.result()['mean'][0], 'numba' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["1.0", "False"]
