"""What a query would read, and which way the planner takes."""

from __future__ import annotations

import json

import numpy as np
import pytest
import zarr

import cfagg
from cfagg.accumulation import adding
from cfagg.accumulation.adding import cells_of
from cfagg.accumulation.explain import explain
from cfagg.accumulation.integrity import read_stored
from cfagg.accumulation.ranges import Request, Runs
from cfagg.display.sizes import size_text
from tests.accumulation.test_sums import write

DIMS = ("time", "latitude", "longitude")
ALL = slice(None)


@pytest.fixture(scope="module")
def group(tmp_path_factory):
    """Return the accumulation of an array of 80 x 18 x 12 cells in chunks of 10 x 6 x 6, not compressed."""
    raw = np.ones((80, 18, 12), "f4")
    combinations = [("time",), ("latitude",), ("latitude", "longitude")]
    return write(tmp_path_factory.mktemp("explain"), raw, DIMS, (10, 6, 6), combinations)


def steps(found):
    return {step.array.rpartition("/")[2]: step for step in found.steps}


def test_an_aligned_map_reads_two_samples_and_no_cell(group):
    found = explain(group, Request({0: Runs([20], [60], [0])}, {1: ALL, 2: ALL}), "mean")
    assert list(steps(found)) == ["acc_time"]
    assert found.elements == 2 * 18 * 12


def test_an_unaligned_map_reads_the_cells_between_its_ends_and_the_nearest_samples(group):
    found = steps(explain(group, Request({0: Runs([22], [67], [0])}, {1: ALL, 2: ALL}), "mean"))
    assert found["tas"].terms == ("edge time",)
    assert found["tas"].elements == (2 + 3) * 18 * 12
    assert found["tas"].chunks == 12
    assert found["tas"].bytes == (2 + 3) * 18 * 12 * 4


def test_a_short_range_is_read_from_the_array_alone(group):
    found = steps(explain(group, Request({0: Runs([23], [26], [0])}, {1: ALL, 2: ALL}), "mean"))
    assert list(found) == ["tas"]


def test_sums_that_are_not_stored_are_done_without(group):
    found = steps(explain(group, Request({2: Runs([0], [12], [0])}, {0: ALL, 1: ALL}), "sum"))
    assert list(found) == ["tas"]
    assert found["tas"].terms == ("whole longitude",)


def test_both_ends_of_a_box_are_read_with_the_sums_of_the_other_dimension(group):
    found = explain(group, Request({1: Runs([1], [17], [0]), 2: Runs([0], [12], [0])}, {0: ALL}), "sum")
    assert {"acc_latitude_longitude", "acc_latitude"} & set(steps(found))
    assert found.elements < found.instead.elements / 4


def test_counts_of_a_complete_array_read_nothing(group):
    found = explain(group, Request({0: Runs([3], [77], [0])}, {1: ALL, 2: ALL}), "count")
    assert (found.steps, found.bytes) == ((), 0)


def test_what_would_be_read_without_the_accumulation_is_told(group):
    found = explain(group, Request({0: Runs([22], [67], [0])}, {1: slice(0, 6), 2: ALL}), "mean")
    assert (found.instead.chunks, found.instead.elements) == (5 * 1 * 2, 45 * 6 * 12)


def test_bytes_of_compressed_chunks_are_those_of_their_files(tmp_path):
    raw = np.random.default_rng(0).normal(size=(40, 50))
    made = write(tmp_path, raw, DIMS[:2], (10, 50), [("time",)], compressors="auto")
    found = steps(explain(made, Request({0: Runs([2], [40], [0])}, {1: ALL}), "mean"))
    assert found["tas"].bytes == (tmp_path / "tas/c/0/0").stat().st_size


def test_the_table_and_the_json_say_the_same(group):
    found = explain(group, Request({0: Runs([22], [67], [0])}, {1: ALL, 2: ALL}), "mean")
    told = json.loads(json.dumps(found.as_dict()))
    assert (told["bytes"], told["elements"], told["chunks"]) == (found.bytes, found.elements, found.chunks)
    lines = str(found).splitlines()
    assert lines[0] == "mean of tas"
    assert lines[-2].split() == ["all", str(found.chunks), f"{found.elements:,}", *size_text(found.bytes).split()]
    assert len({len(line) for line in lines[1:]}) == 1


def test_a_statistic_that_does_not_follow_from_sums_is_explained_by_statistics_and_cells(group):
    found = explain(group, Request({0: Runs.whole(80)}, {1: ALL, 2: ALL}), "max")
    assert {step.role for step in found.steps} <= {"max", "count", "cells"}
    assert found.proven


def doubtful(tmp_path, values):
    zarr.create_array(tmp_path / "s", name="tas", data=values, chunks=4, dimension_names=["time"])
    cfagg.accumulate(tmp_path / "s", "tas", ["time"])
    acc = cfagg.open_accumulated(tmp_path / "s", "tas")
    return acc.mean(isel={"time": slice(20, 36)}, explain=True), acc


def test_an_answer_that_sums_give_for_sure_is_told(tmp_path):
    found, _ = doubtful(tmp_path, np.arange(1.0, 41))
    assert found.proven
    assert found.as_dict()["proven"]
    assert "as well" not in str(found)


@pytest.mark.parametrize("lost", [False, True])
def test_cells_that_may_be_read_besides_are_told(tmp_path, monkeypatch, lost):
    values = np.full(40, 1e16) if lost else np.arange(1.0, 41)
    values[20:36] = 1e-3 if lost else values[20:36]
    values[3] = np.nan
    found, acc = doubtful(tmp_path, values)
    assert not found.proven
    assert {s.array for s in found.steps} == {"tas_accumulation_group/acc_time", "tas_accumulation_group/acc_wt_time"}
    assert "its cells are read as well" in str(found)
    assert "its cells are read as well" in found._repr_html_()
    read = []
    monkeypatch.setattr(adding, "cells_of", lambda *a: read.append(a) or cells_of(*a))
    assert acc.mean(isel={"time": slice(20, 36)}).item() == pytest.approx(values[20:36].mean())
    assert bool(read) == lost


def test_counts_that_are_read_beside_weights_are_told(tmp_path, monkeypatch):
    values = np.arange(40.0)
    values[3] = np.nan
    zarr.create_array(tmp_path / "s", name="tas", data=values, chunks=4, dimension_names=["time"])
    cfagg.accumulate(tmp_path / "s", "tas", ["time"], weights=np.arange(1.0, 41))
    acc = cfagg.open_accumulated(tmp_path / "s", "tas")
    told = acc.mean(isel={"time": slice(4, 36)}, explain=True)
    read = set()
    monkeypatch.setattr(adding, "read_stored", lambda array, *a: read.add(array.path) or read_stored(array, *a))
    acc.mean(isel={"time": slice(4, 36)})
    assert {step.array for step in told.steps} == read
    assert len(read) == 3


def test_integers_need_no_proof(tmp_path):
    assert doubtful(tmp_path, np.arange(40))[0].proven
