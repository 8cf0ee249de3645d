"""Plans of conversions, against what these then do."""

import json
import os
import tracemalloc

import numpy as np
import pytest
import zarr

from cfagg.cli.main import main
from cfagg.conversion import convert
from cfagg.errors import LimitError, OptionError, TargetExistsError
from tests.conversion import killing


def test_a_plan_counts_what_is_then_written_and_leaves_nothing(floats, tmp_path):
    path = floats[0]
    before = sorted(tmp_path.iterdir())
    plan = convert(path, tmp_path / "out.zarr", chunks={"time": 5}, dry_run=True)
    assert sorted(tmp_path.iterdir()) == before
    report = convert(path, tmp_path / "out.zarr", chunks={"time": 5})
    assert (plan.bytes_out, plan.chunks, plan.variables) == (report.bytes, report.chunks, report.variables)
    # Chunks of 5 steps cross those of 2 of the files, in slabs that hold all.
    assert plan.bytes_in == report.bytes
    assert plan.bytes_between == 0
    assert "would be written" in str(plan)


def test_what_is_decoded_again_counts_again(tmp_path):
    group = zarr.open_group(tmp_path / "a.zarr", mode="w")
    group.create_array("v", shape=(8, 8), chunks=(1, 8), dtype="f8", dimension_names=("x", "y"))[...] = np.eye(8)
    plan = convert(
        tmp_path / "a.zarr", tmp_path / "b.zarr", chunks={"x": 8, "y": 4}, memory=700, workers=1, dry_run=True
    )
    assert (plan.bytes_in, plan.bytes_out, plan.tasks) == (2 * 512, 512, 2)
    assert plan.memory_per_worker == 640


def test_two_threads_more_than_processors_work_while_others_wait_for_the_disk(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2}, raising=False)
    zarr.open_group(tmp_path / "a.zarr", mode="w").create_array("v", shape=(8,), chunks=(1,), dtype="f8")
    assert convert(tmp_path / "a.zarr", tmp_path / "b.zarr", dry_run=True).workers == 5


def test_the_way_by_other_chunks_is_in_the_plan(tmp_path):
    group = zarr.open_group(tmp_path / "a.zarr", mode="w")
    made = group.create_array("v", shape=(500, 2000), chunks=(1, 2000), dtype="f4", dimension_names=("x", "y"))
    made[:] = 1
    options = {"chunks": {"x": 500, "y": 1}, "memory": "1MiB", "workers": 1}
    plan = convert(tmp_path / "a.zarr", tmp_path / "b.zarr", dry_run=True, **options)
    assert (plan.bytes_in, plan.bytes_between, plan.bytes_out) == (4_000_000,) * 3
    assert plan.memory_per_worker <= 1 << 20


def test_the_command_prints_a_plan_as_json(floats, tmp_path, capsys):
    path, _ = floats
    assert main(["convert", str(path), str(tmp_path / "out.zarr"), "--dry-run", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert {"bytes_in", "bytes_out", "tasks", "memory_per_worker"} <= told.keys()
    assert main(["convert", str(path), str(tmp_path / "out.zarr"), "--dry-run"]) == 0
    assert "of memory for values" in capsys.readouterr().out
    assert not (tmp_path / "out.zarr").exists()


def test_a_plan_of_what_would_be_refused_is_refused(floats, tmp_path):
    path, _ = floats
    with pytest.raises(LimitError, match="more than memory"):
        convert(path, tmp_path / "out.zarr", chunks={"time": -1}, memory=1000, dry_run=True)
    with pytest.raises(OptionError, match="leave out dry_run="):
        convert(path, tmp_path / "out.nca", dry_run=True)
    zarr.create_group(tmp_path / "out.zarr")
    with pytest.raises(TargetExistsError):
        convert(path, tmp_path / "out.zarr", dry_run=True)


def _declared(path, cells):
    """A store that says that its series has so many chunks of a thousand values, none of which is there."""
    group = zarr.open_group(path, mode="w")
    group.create_array("v", shape=(1000,), chunks=(1000,), dtype="f4", dimension_names=("time",))
    document = json.loads((path / "v" / "zarr.json").read_text())
    (path / "v" / "zarr.json").write_text(json.dumps({**document, "shape": [1000 * cells]}))
    return path


def test_chunks_of_the_source_take_a_few_bytes_each_to_plan(tmp_path):
    cells = 1_000_000
    path = _declared(tmp_path / "a.zarr", cells)
    tracemalloc.start()
    try:
        plan = convert(path, tmp_path / "b.zarr", dry_run=True)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (plan.bytes_out, plan.chunks) == (0, 0)  # nothing is stored
    assert peak < 20 * cells


def test_more_chunks_than_can_be_listed_are_refused_and_the_variable_is_named(tmp_path):
    path = _declared(tmp_path / "a.zarr", 10**12)
    with pytest.raises(LimitError, match=r"'v' is stored in 1,000,000,000,000 chunks along one dimension"):
        convert(path, tmp_path / "b.zarr", chunks={"time": 10**11}, memory=2**42)


@pytest.mark.full
def test_a_plan_for_a_cluster_counts_its_tasks(tmp_path):
    from distributed import Client

    path, _ = killing.source(tmp_path)
    with Client(n_workers=1, threads_per_worker=2, processes=False, dashboard_address=None) as client:
        plan = convert(path, tmp_path / "out.zarr", chunks={"time": 1}, client=client, memory="1MiB", dry_run=True)
    assert plan.workers == 2
    assert plan.tasks == 5
    assert plan.memory_per_worker <= 1 << 20
