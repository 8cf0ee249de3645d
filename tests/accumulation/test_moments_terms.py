"""Terms of a chunk reduced to extremes and moments, against plain loops."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cfagg.accumulation.contract import folds_of, locate, place_of, taken
from cfagg.accumulation.ranges import Pick, fold
from cfagg.accumulation.spread import extremes_of, joined, merged, segments_of
from cfagg.model import Regular
from tests import strategies as s
from tests.effort import examples


@st.composite
def terms(draw):
    """A block that is one chunk, and what a request takes of it."""
    shape = draw(st.lists(st.integers(1, 9), min_size=1, max_size=3))
    request = draw(s.requests(tuple(shape))).resolve(shape)
    parts = [fold(request.reduced[a]) if a in request.reduced else Pick(request.kept[a]) for a in range(len(shape))]
    locals_ = [locate(p, Regular(n, n), n) for p, n in zip(parts, shape, strict=True)]
    values = np.random.default_rng(draw(st.integers(0, 99))).normal(size=shape)
    if not all(locals_):
        return values, None
    term = tuple(x[0] for x in locals_)
    return values[tuple(slice(t.low, t.high) for t in term)], term


def members(local, n):
    """Elements of the block behind each element of the result along an axis, with repeats."""
    if local.take is not None:
        return [[i] for i in np.arange(n)[local.take]]
    out = [[] for _ in range(local.width)]
    for segment, target, coefficient in local.entries:
        out[target] += list(range(local.starts[segment], local.stops[segment])) * coefficient
    return out


def cells(values, term):
    along = [members(local, n) for local, n in zip(term, values.shape, strict=True)]
    for index in np.ndindex(*map(len, along)):
        yield index, values[np.ix_(*(m[i] for m, i in zip(along, index, strict=True)))]


@settings(max_examples=examples(80))
@given(terms(), st.sampled_from(["minimum", "maximum"]))
def test_extremes_of_groups(made, name):
    values, term = made
    if term is None:
        return
    ufunc = getattr(np, name)
    found = extremes_of(taken(values, term), term, ufunc)
    assert found.shape == tuple(local.width for local in term)
    for index, inside in cells(values, term):
        assert found[index] == ufunc.reduce(inside, axis=None)


@settings(max_examples=examples(80))
@given(terms())
def test_moments_of_groups(made):
    values, term = made
    if term is None:
        return
    one = taken(values, term)
    found = merged((np.ones(one.shape), one, np.zeros(one.shape)), term, folds_of(term))
    for index, inside in cells(values, term):
        wanted = inside.size, inside.mean(), ((inside - inside.mean()) ** 2).sum()
        assert [f[index] for f in found] == pytest.approx(wanted, abs=1e-12)


@settings(max_examples=examples(40))
@given(terms())
def test_boxes_of_segments_are_all_products(made):
    values, term = made
    if term is None:
        return
    folds = folds_of(term)
    number = int(np.prod([len(term[a].starts) for a in folds]))
    found = segments_of(term, number)
    assert segments_of(term, number - 1) is None
    assert len({index for _, index in found}) == number
    covered = sum(np.zeros(values.shape)[box].size for box, _ in found)
    lengths = [
        sum(b - a for a, b in zip(t.starts, t.stops, strict=True)) if a in folds else n
        for a, (t, n) in enumerate(zip(term, values.shape, strict=True))
    ]
    assert covered == np.prod(lengths)


def test_two_samples_join_into_one():
    rng = np.random.default_rng(0)
    a, b = rng.normal(5, 1, (7, 3)), rng.normal(-5, 2, (11, 3))

    def of(x):
        return np.full(3, float(len(x))), x.mean(0), ((x - x.mean(0)) ** 2).sum(0)

    for found, wanted in zip(joined(of(a), of(b)), of(np.concatenate([a, b])), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-13)


def test_no_values_change_nothing_when_they_join():
    empty, some = (np.zeros(1),) * 3, (np.array([2.0]), np.array([7.0]), np.array([3.0]))
    for pair in ((empty, some), (some, empty)):
        assert [x.item() for x in joined(*pair)] == [2.0, 7.0, 3.0]


def test_places_of_scattered_positions_cross():
    term = [locate(Pick(np.array([3, 1])), Regular(4, 4), 4)[0], locate(Pick(np.array([0, 2])), Regular(4, 4), 4)[0]]
    assert np.zeros((2, 2))[place_of(term)].shape == (2, 2)
