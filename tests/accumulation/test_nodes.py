"""Covers of ranges by whole chunks and single cells."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from cfagg.accumulation.explain import explain
from cfagg.accumulation.nodes import aligned, bounds_of, needs, plan_nodes
from cfagg.accumulation.ranges import Request, Runs
from tests import strategies as s
from tests.accumulation.test_sums import write
from tests.effort import examples


@settings(max_examples=examples(60))
@given(st.data(), s.edges())
def test_chunks_and_what_is_left_cover_each_cell_as_often_as_the_ranges(data, edges):
    runs = data.draw(s.runs(int(edges[-1])))
    inner, rim = aligned(runs, edges)
    found = np.zeros((runs.groups, edges[-1]), int)
    for a, b, g in zip(inner.start, inner.stop, inner.group, strict=True):
        found[g, edges[a] : edges[b]] += 1
    for a, b, g in zip(rim.start, rim.stop, rim.group, strict=True):
        found[g, a:b] += 1
        # No whole chunk is taken cell by cell.
        assert not (np.isin(edges[:-1], np.arange(a, b)) & (edges[1:] <= b)).any()
    wanted = np.zeros_like(found)
    for a, b, g in zip(runs.start, runs.stop, runs.group, strict=True):
        wanted[g, a:b] += 1
    np.testing.assert_array_equal(found, wanted)


def fields(store, **options):
    raw = np.random.default_rng(1).normal(size=(50, 6, 8)).astype("f4")
    return write(store, raw, ("time", "lat", "lon"), (5, 3, 4), [("time",)], options=options)


def terms(group, request, statistic="max"):
    return {step.array: step.terms for step in explain(group, request.resolve((50, 6, 8)), statistic).steps}


def test_a_box_of_whole_chunks_reads_no_cell(tmp_path):
    group = fields(tmp_path)
    box = Request({0: Runs([5], [45], [0]), 1: Runs([0], [3], [0]), 2: Runs.whole(8)})
    assert terms(group, box) == {"tas_accumulation_group/max_time_lat_lon": ("core time, core lat, core lon",)}


def test_a_map_is_read_from_statistics_along_time_where_there_are_some(tmp_path):
    request = Request({0: Runs([3], [45], [0])}, {1: slice(None), 2: slice(None)})
    assert terms(fields(tmp_path / "without"), request) == {"tas": ("whole time",)}
    assert terms(fields(tmp_path / "with", statistics=[("time",)]), request) == {
        "tas_accumulation_group/max_time": ("core time",),
        "tas": ("edge time",),
    }


def test_nothing_is_read_for_empty_ranges(tmp_path):
    request = Request({0: Runs([3], [3], [0])}, {1: slice(0), 2: slice(None)}).resolve((50, 6, 8))
    found = plan_nodes(fields(tmp_path), request, ("max",))
    assert (found.nodes, found.cells, found.cost) == ((), None, 0.0)


def test_counts_are_needed_where_values_are_missing(tmp_path):
    group = fields(tmp_path)
    assert needs(group, "min") == ("min",)
    raw = np.array([1.0, np.nan, 3.0])
    missing = write(tmp_path / "missing", raw, ("time",), (2,), [("time",)])
    assert needs(missing, "min") == ("min", "count")
    assert needs(missing, "var") == ("sum", "m2", "count")


def test_bounds_need_extremes_of_the_kind(tmp_path):
    group = fields(tmp_path)
    assert bounds_of(group, "max").arrays["max"].shape == (10, 2, 2)
    assert bounds_of(group, "median") is None
