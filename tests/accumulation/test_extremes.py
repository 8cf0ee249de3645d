"""Smallest and largest values over any ranges, against the cells of whole arrays."""

from __future__ import annotations

import tempfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cfagg.accumulation import spread as module
from cfagg.accumulation.explain import explain
from cfagg.accumulation.ranges import Request, Runs
from cfagg.accumulation.spread import extremes
from cfagg.errors import FragmentReadError, SelectionError
from tests import strategies as s
from tests.accumulation.comparing import threads
from tests.accumulation.reference import valid_cells
from tests.accumulation.test_sums import accumulations, write
from tests.effort import examples
from tests.oracles import requested_cells


def expected(raw, rules, options, request, which):
    """Return the extremes of real values from the whole array."""
    scale, offset = options.get("packing") or (1.0, 0.0)
    valid = valid_cells(raw, rules.get("fills", ()), None, rules.get("valid_max"))
    real = np.where(valid, raw, np.nan).astype(np.float64) * scale + offset
    request = request.resolve(raw.shape)
    out = np.full(request.lengths, np.nan)
    for index, cells in requested_cells(real, request):
        if not np.isnan(cells).all():
            out[index] = np.nanmin(cells) if which == "min" else np.nanmax(cells)
    return out.reshape(request.shape)


def draw_statistics(data, dims):
    """Combinations whose statistics are stored besides those of the whole chunk grid."""
    one = st.sets(st.sampled_from(dims), min_size=1).map(lambda c: tuple(d for d in dims if d in c))
    return data.draw(st.lists(one, max_size=3, unique=True))


@pytest.mark.full
@settings(max_examples=examples(24))
@given(st.data(), accumulations())
def test_extremes_are_those_of_the_whole_array(data, made):
    raw, dims, chunks, combinations, rules, options, compressors = made
    options["statistics"] = draw_statistics(data, dims)
    with tempfile.TemporaryDirectory() as store:
        group = write(store, raw, dims, chunks, combinations, rules, options, compressors)
        for which in ("min", "max"):
            request = data.draw(s.requests(raw.shape))
            with threads(data.draw(st.sampled_from([1, 2]))):
                found = extremes(group, request, which)
            assert found.dtype == np.float64
            wanted = expected(raw, rules, options, request, which)
            np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12)


def long(store, raw=None, statistics=(), **options):
    """Return an accumulation of 200 chunks of 3 steps: a pyramid of four levels along time."""
    raw = np.random.default_rng(3).normal(size=(600, 4)).astype("f4") if raw is None else raw
    made = {"statistics": statistics, **options}
    return raw, write(store, raw, ("time", "x"), (3, 2), [("time",)], options=made)


@pytest.mark.few(1)
@pytest.mark.parametrize("which", ["min", "max"])
@pytest.mark.parametrize("statistics", [(), (("time",),), (("x",),)])
@pytest.mark.parametrize("few", [0, 10**9])
def test_every_way_through_the_pyramid_gives_the_same(tmp_path, monkeypatch, which, statistics, few):
    monkeypatch.setattr("cfagg.accumulation.nodes._FEW", few)
    raw, group = long(tmp_path, statistics=statistics)
    runs = Runs([1, 100, 450], [5, 407, 600], [0, 1, 0], groups=2)
    for request in (Request({0: runs}, {1: slice(None)}), Request({0: runs, 1: Runs([0], [3], [0])})):
        np.testing.assert_array_equal(extremes(group, request, which), expected(raw, {}, {}, request, which))


def test_a_long_range_is_read_from_the_pyramid(tmp_path, monkeypatch):
    monkeypatch.setattr("cfagg.accumulation.nodes._FEW", 0)
    _, group = long(tmp_path, statistics=[("time",)])
    explained = explain(group, Request({0: Runs([1], [599], [0])}, {1: slice(None)}).resolve((600, 4)), "max").as_dict()
    elements = {step["array"].rpartition("/")[2]: step["elements"] for step in explained["steps"]}
    # Chunks 1 to 198: up to 8 and from 192 on singly, then up to 64 by eights, then by 64.
    assert elements == {"max_time": 4 * (7 + 7), "max_time_level1": 4 * 7, "max_time_level2": 4 * 2, "tas": 4 * (2 + 2)}
    assert explained["without_accumulation"]["elements"] == 4 * 598


def test_chunks_whose_bounds_cannot_win_are_not_read(tmp_path, monkeypatch):
    raw = np.arange(600 * 4, dtype="f4").reshape(600, 4)
    _, group = long(tmp_path, raw)
    read = []
    cells_of = module.cells_of
    monkeypatch.setattr(module, "cells_of", lambda *a: read.append(a[1]) or cells_of(*a))
    # The box cuts every chunk, so that nothing but cells can answer.
    request = Request({0: Runs([0], [600], [0]), 1: Runs([1], [3], [0])})
    with threads(1):
        assert extremes(group, request, "max") == raw[:, 1:3].max()
    assert read == [(199, 1)]


def test_a_chunk_that_lost_its_file_is_damage_in_the_statistics(tmp_path):
    _, group = long(tmp_path, statistics=[("time",)])
    (tmp_path / "tas_accumulation_group/max_time/c/0/0").unlink()
    with pytest.raises(FragmentReadError, match="max_time"):
        extremes(group, Request({0: Runs.whole(600)}, {1: slice(None)}), "max")


def test_absent_chunks_hold_the_fill_value(tmp_path):
    raw = np.arange(20, dtype="f4")
    raw[5:10] = -7
    group = write(tmp_path, raw, ("time",), (5,), [("time",)], fill_value=-7)
    (tmp_path / "tas/c/1").unlink()
    assert extremes(group, Request({0: Runs([7], [9], [0])}), "max") == -7


@pytest.mark.parametrize("value", [np.iinfo("i2").min, np.iinfo("i2").max])
def test_the_ends_of_a_type_are_values_like_others(tmp_path, value):
    raw = np.array([value, 3, value, 3, 3, 3], "i2")
    group = write(tmp_path, raw, ("time",), (3,), [("time",)], rules={"fills": (3,)})
    for which in ("min", "max"):
        assert extremes(group, Request({0: Runs([1], [4], [0])}), which) == value
        assert np.isnan(extremes(group, Request({0: Runs([3], [6], [0])}), which))


def test_a_range_beyond_the_array_is_refused(tmp_path):
    _, group = long(tmp_path)
    with pytest.raises(SelectionError, match="length 600"):
        extremes(group, Request({0: Runs([0], [601], [0])}, {1: slice(None)}), "min")
