"""Means and centred sums of squares over any ranges, against the cells of whole arrays."""

from __future__ import annotations

import math
import tempfile
from unittest.mock import patch

import numpy as np
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st

from cfagg.accumulation import spread
from cfagg.accumulation.accumulated import open_accumulated
from cfagg.accumulation.accumulating import accumulate
from cfagg.accumulation.ranges import Request, Runs
from cfagg.accumulation.spread import moments
from tests import strategies as s
from tests.accumulation.comparing import threads
from tests.accumulation.reference import valid_cells
from tests.accumulation.test_extremes import draw_statistics, long
from tests.accumulation.test_sums import accumulations, write
from tests.effort import examples
from tests.oracles import requested_cells


def expected(raw, dims, rules, options, request):
    """Return weights, means and centred squares of real values from the whole array."""
    scale, offset = options.get("packing") or (1.0, 0.0)
    valid = valid_cells(raw, rules.get("fills", ()), None, rules.get("valid_max"))
    real = np.where(valid, raw, 0).astype("f8") * scale + offset
    wide = [n if d in options.get("weight_dims", ()) else 1 for d, n in zip(dims, raw.shape, strict=True)]
    weights = np.broadcast_to(np.reshape(options.get("weights", np.ones(())), wide), raw.shape) * valid
    request = request.resolve(raw.shape)
    out = np.zeros((3, *request.lengths))
    both = zip(requested_cells(real, request), requested_cells(weights, request), strict=True)
    for (index, x), (_, w) in both:
        if w.sum():
            mean = (w * x).sum() / w.sum()
            out[(slice(None), *index)] = w.sum(), mean, (w * (x - mean) ** 2).sum()
    return out.reshape(3, *request.shape)


@pytest.mark.full
@settings(max_examples=examples(24))
@given(st.data(), accumulations())
def test_moments_are_those_of_the_whole_array(data, made):
    raw, dims, chunks, combinations, rules, options, compressors = made
    options["statistics"] = draw_statistics(data, dims)
    with tempfile.TemporaryDirectory() as store:
        group = write(store, raw, dims, chunks, combinations, rules, options, compressors)
        for _ in range(2):
            request = data.draw(s.requests(raw.shape))
            box = data.draw(st.sampled_from([1, spread._BOX]))
            with threads(data.draw(st.sampled_from([1, 2]))), patch.object(spread, "_BOX", box):
                found = moments(group, request)
            weight, mean, m2 = expected(raw, dims, rules, options, request)
            np.testing.assert_allclose(found[0], weight, rtol=1e-12)
            np.testing.assert_allclose(found[1], mean, rtol=1e-10, atol=1e-10)
            np.testing.assert_allclose(found[2], m2, rtol=1e-9, atol=1e-9 * raw.size)


@pytest.mark.few(1)
@pytest.mark.parametrize("statistics", [(), (("time",),)])
@pytest.mark.parametrize("few", [0, 10**9])
def test_every_way_through_the_pyramid_gives_the_same(tmp_path, monkeypatch, statistics, few):
    monkeypatch.setattr("cfagg.accumulation.nodes._FEW", few)
    raw, group = long(tmp_path, statistics=statistics)
    runs = Runs([1, 100, 450], [5, 407, 600], [0, 1, 0], groups=2)
    request = Request({0: runs}, {1: slice(None)})
    for found, wanted in zip(moments(group, request), expected(raw, ("time", "x"), {}, {}, request), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-12)


@pytest.mark.few(1)
@pytest.mark.parametrize(("groups", "box"), [(1, 1), (24, 1), (24, 2048)])
def test_a_small_spread_about_a_large_mean_keeps_its_digits(tmp_path, monkeypatch, groups, box):
    monkeypatch.setattr(spread, "_BOX", box)
    raw = 1e8 + np.random.default_rng(5).normal(0, 1e-3, 5000)
    group = write(tmp_path, raw, ("time",), (100,), [("time",)])
    at = np.arange(13, 4987)
    _, mean, m2 = moments(group, Request({0: Runs.of_positions(at, at % groups, groups, keep=True)}))
    for g in range(groups):
        cells = raw[at[at % groups == g]]
        centre = math.fsum(cells) / len(cells)
        exact = math.fsum((cells - centre) ** 2) - len(cells) * (math.fsum(cells - centre) / len(cells)) ** 2
        assert mean[g] == pytest.approx(centre, rel=1e-15)
        # Means have steps of 1.5e-8, a 67,000th of the spread; sums of squares have steps of 2, a million times it.
        assert m2[g] == pytest.approx(exact, rel=1e-5)


def test_equal_values_have_no_spread(tmp_path):
    group = write(tmp_path, np.full((40, 3), 0.1), ("time", "x"), (7, 3), [("time",)], options={"packing": (3.0, 1e9)})
    weight, _, m2 = moments(group, Request({0: Runs([3], [33], [0])}, {1: slice(None)}))
    assert weight.tolist() == [30, 30, 30]
    assert (m2 >= 0).all()
    assert (m2 < 1e-28).all()


def spread_of(folder, values, weights, statistics):
    """Accumulate a series in chunks of two, and return its standard deviations from the first, second and third on."""
    data = xr.Dataset({"v": ("x", values)})
    data.to_zarr(folder / "a.zarr", encoding={"v": {"chunks": (2,)}}, consolidated=False)
    if weights is not None:
        weights = xr.DataArray(weights, dims="x")
    accumulate(folder / "a.zarr", "v", weights=weights, statistics=statistics)
    with open_accumulated(folder / "a.zarr", "v") as found:
        return [float(found.std("x", isel={"x": slice(k, None)})) for k in range(3)]


@pytest.mark.parametrize("weights", [None, [1.0, 0, 2, 1, 3, 1]])
@pytest.mark.parametrize("statistics", ["none", "chunks", ("min", "max", "std")])
def test_cells_without_weight_leave_the_spread_known_of_values_whose_squares_overflow(tmp_path, statistics, weights):
    assert spread_of(tmp_path, [1e200, np.nan, 1e200, 1e200, np.nan, 1e200], weights, statistics) == [0, 0, 0]


@pytest.mark.parametrize("weights", [None, [1.0, 2, 1, 1, 3, 1]])
@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning")
def test_a_spread_that_overflows_is_infinite(tmp_path, weights):
    assert spread_of(tmp_path, [1.0, 3e200, 2.0, -4e200, 5.0, 6.0], weights, "chunks") == [np.inf] * 3
