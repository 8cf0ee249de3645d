"""Statistics of columns, whatever the parts and their order."""

import itertools
import math
import subprocess
import sys
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from cfagg.errors import ConventionError, FragmentReadError, LimitError, ModelError
from cfagg.observations.statistics import NAMES, Accumulator, over_rows
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
    assert merged.to_bytes() == of(block).to_bytes()
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


@settings(max_examples=examples(30))
@given(tables, tables)
def test_what_is_stored_goes_on_as_if_never_stopped(first, second):
    second = np.resize(second, (len(second), first.shape[1])).astype("f4")
    before = of(first)
    after = Accumulator.from_bytes(before.to_bytes())
    for found in (before, after):
        found.accumulate(second)
    assert bits(before.result()) == bits(after.result())


def test_a_file_holds_what_is_accumulated(tmp_path):
    found = of(np.array([[1, 2], [3, np.nan]], "f4"))
    found.save(tmp_path / "statistics")
    assert bits(Accumulator.load(tmp_path / "statistics").result()) == bits(found.result())
    assert [p.name for p in tmp_path.iterdir()] == ["statistics"]


@pytest.mark.parametrize(
    "damage", [lambda b: b[:-1], lambda b: b[:60] + b"\xff" + b[61:], lambda b: b"", lambda b: b[:9]]
)
def test_damaged_bytes_are_refused(damage, tmp_path):
    data = damage(of(np.ones((2, 2), "f4")).to_bytes())
    with pytest.raises(ConventionError, match="damaged"):
        Accumulator.from_bytes(data)
    (tmp_path / "s").write_bytes(data)
    with pytest.raises(FragmentReadError, match=str(tmp_path / "s")):
        Accumulator.load(tmp_path / "s")


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


@dataclass
class Piece:
    start: int
    stop: int
    statistics: Accumulator


@settings(max_examples=examples(50))
@given(tables, st.data())
def test_rows_of_pieces_are_not_read_again(block, data):
    n = len(block)
    cuts = sorted(data.draw(st.lists(st.integers(0, n), max_size=5)))
    pieces = [Piece(a, b, of(block[a:b])) for a, b in itertools.pairwise(cuts)]
    start, stop = sorted(data.draw(st.tuples(st.integers(0, n), st.integers(0, n))))
    covered = {r for p in pieces if start <= p.start and p.stop <= stop for r in range(p.start, p.stop)}
    seen = []

    def read(a, b):
        seen.extend(range(a, b))
        return block[a:b]

    found = over_rows(block.shape[1], start, stop, read, data.draw(st.permutations(pieces)), block=3)
    assert bits(found.result()) == bits(of(block[start:stop]).result())
    assert sorted(seen) == sorted(set(range(start, stop)) - covered)


def test_small_statistics_load_no_compiler():
    code = (
        "import sys, numpy as np; from cfagg.observations.statistics import Accumulator as A; a = A(1);"
        "a.accumulate(np.ones((5, 1), 'f4')); print(a.result()['mean'][0], 'numba' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["1.0", "False"]
