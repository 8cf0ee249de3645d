"""Terms applied to single chunks, by each of the ways in which segments are summed."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cfagg.accumulation import contract
from cfagg.accumulation.contract import contract_pair, contract_raw, contract_stored, locate, multiply_exactly
from cfagg.accumulation.ranges import Pick, Runs, fold, split
from cfagg.kernels.cumulative.mask import Mask
from cfagg.model import Regular
from tests import strategies as s
from tests.effort import examples
from tests.oracles import fold_memberships

#: Every combination of segments at once; axis by axis, each segment by a call; axis by axis, all segments by one call.
WAYS = {"together": (10**9, 0), "one by one": (1, 0), "in rows": (1, 10**9)}

ways = pytest.mark.parametrize("way", WAYS)


@st.composite
def terms(draw):
    """A shape, what is taken of one chunk of it, and the matrix that takes it along each axis."""
    shape = tuple(draw(st.lists(st.integers(1, 7), min_size=1, max_size=3)))
    term, matrices = [], []
    for n in shape:
        if draw(st.booleans()):
            core, edge = split(draw(s.runs(n)), draw(s.samples(n)))
            parts = [p for p in (core, edge) if len(p)]
            if parts:
                part = draw(st.sampled_from(parts))
                term += locate(part, Regular(n, n), n)
                matrices.append(fold_memberships(part, n)[np.arange(part.groups)[term[-1].target]])
                continue
        at = draw(st.lists(st.integers(0, n - 1), min_size=1, max_size=4))
        term += locate(Pick(np.array(at)), Regular(n, n), n)
        matrices.append(np.eye(n, dtype=int)[np.array(at)[term[-1].target]])
    return shape, term, matrices


def applied(values, matrices):
    for axis, matrix in enumerate(matrices):
        values = np.moveaxis(np.tensordot(matrix.astype(values.dtype), values, (1, axis)), 0, axis)
    return values


def cut(values, term):
    """Return what is needed of a chunk."""
    return values[tuple(slice(t.low, t.high) for t in term)]


@pytest.fixture
def forced(monkeypatch, request):
    few, long = WAYS[request.getfixturevalue("way")]
    monkeypatch.setattr(contract, "_FEW", few)
    monkeypatch.setattr(contract, "_LONG", long)


@ways
@pytest.mark.usefixtures("forced")
@settings(max_examples=examples(60))
@given(terms(), st.sampled_from(["i8", "f8", "f4"]))
def test_stored_sums_are_added_with_their_signs(way, made, dtype):
    shape, term, matrices = made
    values = np.random.default_rng(0).integers(-99, 99, shape).astype(dtype)
    found = contract_stored(cut(values, term), term, integer=dtype == "i8")
    assert found.dtype == ("i8" if dtype == "i8" else "f8")
    np.testing.assert_array_equal(found, applied(values, matrices))


@ways
@pytest.mark.usefixtures("forced")
@settings(max_examples=examples(60))
@given(terms(), st.booleans(), st.sampled_from(["i2", "f4"]), st.booleans())
def test_cells_are_added_where_they_are_valid(way, made, weighted, dtype, masked):
    shape, term, matrices = made
    rng = np.random.default_rng(1)
    values = rng.integers(-9, 9, shape).astype(dtype)
    mask = Mask.of(values.dtype, [3]) if masked else None
    valid = mask.valid(values) if masked else np.ones(shape, bool)
    weights = rng.integers(0, 5, [n if k % 2 else 1 for k, n in enumerate(shape)]).astype("f8") if weighted else None
    cells = (
        None
        if weights is None
        else weights[
            tuple(slice(t.low, t.high) if n > 1 else slice(None) for t, n in zip(term, weights.shape, strict=True))
        ]
    )
    total, weight, count = contract_raw(cut(values, term), term, mask, cells, integer=dtype == "i2" and not weighted)
    w = np.broadcast_to(1.0 if weights is None else weights, shape)
    np.testing.assert_array_equal(total, applied(np.where(valid, values, 0) * w, matrices))
    np.testing.assert_array_equal(count, applied(valid.astype("i8"), matrices))
    if weighted:
        np.testing.assert_array_equal(weight, applied(valid * w, matrices))


@given(terms(), st.booleans())
def test_pairs_of_numbers_are_added_with_twice_the_digits(made, with_low):
    shape, term, matrices = made
    rng = np.random.default_rng(2)
    high = rng.normal(size=shape) * 10.0 ** rng.integers(-3, 8, shape)
    low = high * rng.normal(size=shape) * 1e-17 if with_low else None
    exact = np.array([Fraction(x) for x in high.flat], object).reshape(shape)
    if with_low:
        exact = exact + np.array([Fraction(x) for x in low.flat], object).reshape(shape)
    wanted = applied(exact, [m.astype(object) for m in matrices])
    size = applied(np.abs(high), [np.abs(m) for m in matrices])
    found = contract_pair(cut(high, term), None if low is None else cut(low, term), term)
    for a, b, x, scale in zip(found[0].flat, found[1].flat, wanted.flat, size.flat, strict=True):
        assert abs(Fraction(a) + Fraction(b) - x) <= Fraction(scale) * 1000 / 2**104


@given(st.floats(-1e150, 1e150), st.integers(-(2**25), 2**25))
def test_a_product_and_its_error_are_exact(value, factor):
    if 0 < abs(value) < 1e-150:
        value *= 1e200
    product, error = multiply_exactly(np.array(value), float(factor))
    assert Fraction(float(product)) + Fraction(float(error)) == Fraction(value) * factor


def test_pairs_of_numbers_that_count_several_times_keep_their_digits():
    high = np.random.default_rng(0).normal(size=9)
    term = locate(fold(Runs([2] * 5, [8] * 5, [0] * 5)), Regular(9, 9), 9)
    found = contract_pair(high[2:8], None, term)
    exact = 5 * sum(map(Fraction, high[2:8].tolist()))
    assert abs(Fraction(float(found[0][0])) + Fraction(float(found[1][0])) - exact) <= Fraction(1, 2**98)
