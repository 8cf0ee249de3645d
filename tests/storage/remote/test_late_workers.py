"""Workers that are late, because their run was killed, change nothing of what another run writes in the same place."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

import cfagg
from cfagg.errors import TargetError, TargetExistsError
from cfagg.runtime import object_publishing
from cfagg.runtime.object_publishing import Fenced, NewStore
from cfagg.storage.objects import ObjectStore
from cfagg.writing.zarr import region_mark
from cfagg.writing.zarr.new_store import ObjectKeys
from cfagg.writing.zarr.object_place import who

pytest.importorskip("obstore", reason="object stores are written by obstore, which is not installed")


def begun(objects: ObjectStore) -> NewStore:
    """Begin to write a store, in the place of whatever is there."""
    store = NewStore(objects, overwrite=True)
    store.begin()
    return store


@pytest.mark.filterwarnings("ignore:.*is removed before")
def test_a_late_object_replaces_none_of_the_next_run_and_appears_nowhere_when_that_has_ended(cloud, monkeypatch):
    objects = cloud[2]
    first = begun(objects)
    late = first.fenced
    late.put("v/c/0", b"of the first")
    late.put("v/c/0", b"again")  # a task that another worker does once more
    assert objects.read("v/c/0") == b"again"
    second = begun(objects)
    assert objects.read("v/c/0") is None
    second.fenced.put("v/c/0", b"of the second")
    # As if the worker had looked for the mark just before.
    monkeypatch.setattr(object_publishing, "_BELIEVED", 1e9)
    with pytest.raises(TargetExistsError, match="taken over by another run, or this run has ended"):
        late.put("v/c/0", b"late")
    assert objects.read("v/c/0") == b"of the second"
    second.publish({"zarr.json": b"{}"})
    monkeypatch.setattr(object_publishing, "_BELIEVED", 0.0)
    with pytest.raises(TargetExistsError, match="this run has ended"):
        late.put("v/c/1", b"late")
    assert sorted(objects.listed()) == ["v/c/0", "zarr.json"]


def test_what_a_late_worker_wrote_first_is_replaced_by_the_run_that_goes_on(cloud):
    objects = cloud[2]
    first, second = begun(objects), begun(objects)
    objects.put("v/c/0", b"late")
    second.fenced.put("v/c/0", b"right")
    assert objects.read("v/c/0") == b"right"
    with pytest.raises(TargetExistsError, match="taken over"):
        first.record(b"journal")


@pytest.mark.filterwarnings("ignore:.*is removed before")
def test_an_object_done_again_is_not_replaced_where_another_run_came_after_the_mark_was_looked_at(cloud, monkeypatch):
    objects, check = cloud[2], Fenced.check
    late = begun(objects).fenced
    late.put("v/c/0", b"of the first")

    def overtaken(fenced: Fenced) -> None:
        check(fenced)
        monkeypatch.setattr(Fenced, "check", check)
        begun(objects).fenced.put("v/c/0", b"of the second")

    monkeypatch.setattr(Fenced, "check", overtaken)
    monkeypatch.setattr(object_publishing, "_BELIEVED", 1e9)
    with pytest.raises(TargetExistsError, match="taken over by another run"):
        late.put("v/c/0", b"again")
    assert objects.read("v/c/0") == b"of the second"


def test_the_mark_is_not_asked_for_with_each_object(cloud, monkeypatch):
    monkeypatch.setattr(object_publishing, "_BELIEVED", 1e9)
    fenced, asked = begun(cloud[2]).fenced, []
    read = ObjectStore.read
    monkeypatch.setattr(ObjectStore, "read", lambda self, key: asked.append(key) or read(self, key))
    for number in range(5):
        fenced.put(f"v/c/{number}", b"values")
    assert asked == [".cfagg-partial"]


@pytest.mark.filterwarnings("ignore:.*is removed before")
def test_a_late_run_moves_and_removes_nothing_that_the_next_one_wrote_aside(cloud, monkeypatch):
    objects = cloud[2]
    late = ObjectKeys(begun(objects).fenced)
    late.put("__blocks/v/0", b"the same of both")
    second = begun(objects)
    second.fenced.put("__blocks/v/0", b"the same of both")
    monkeypatch.setattr(object_publishing, "_BELIEVED", 0.0)  # as after a second
    for work in (lambda: late.move("__blocks/v/0", "v/c/5"), lambda: late.end("__blocks")):
        with pytest.raises(TargetExistsError, match="taken over by another run"):
            work()
    assert sorted(objects.listed()) == [".cfagg-partial", "__blocks/v/0"]
    keys = ObjectKeys(second.fenced)
    keys.move("__blocks/v/0", "v/c/0")
    keys.end("__blocks")
    assert sorted(objects.listed()) == [".cfagg-partial", "v/c/0"]


def gone() -> dict[str, object]:
    """What a process said of itself that is no more."""
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        ended.wait()
    return {**who(), "process": ended.pid}


@pytest.mark.parametrize("workers", [True, False])
def test_a_worker_of_a_killed_run_replaces_nothing_of_a_part_that_was_written_since(cloud, monkeypatch, workers):
    objects, part = cloud[2], {"x": (0, 20)}
    objects.put("v/c/0", b"of before")
    with monkeypatch.context() as patch:
        patch.setattr(region_mark, "who", gone)
        killed = region_mark.fenced(objects, part, workers=True)
        late = killed.__enter__()
        late.put("v/c/0", b"of the first")
    monkeypatch.setattr(object_publishing, "_BELIEVED", 1e9)
    with region_mark.fenced(objects, {"x": (10, None)}, workers=workers) as mark:
        put = objects.put if mark is None else mark.put
        put("v/c/0", b"of the second")
        with pytest.raises(TargetExistsError, match="taken over by another run"):
            late.put("v/c/0", b"late")
    assert objects.read("v/c/0") == b"of the second"
    assert list(objects.listed()) == ["v/c/0"]
    killed.gen.close()  # its thread


def test_a_part_is_not_written_while_a_run_that_may_live_writes_into_it_and_another_part_is(cloud):
    objects = cloud[2]
    with region_mark.fenced(objects, {"x": (0, 20), "y": (0, 5)}, workers=True) as first:
        with region_mark.fenced(objects, {"x": (20, None)}, workers=True) as other:
            other.put("v/c/2", b"2")
        for workers in (True, False):
            with (
                pytest.raises(TargetError, match=r"into the same part of it \(process \d+ of .*; wait for it"),
                region_mark.fenced(objects, {"y": (4, 9)}, workers=workers),
            ):
                pass
        first.put("v/c/0", b"0")
    assert sorted(objects.listed()) == ["v/c/0", "v/c/2"]


CLIENT = """
import sys, json, cfagg
cfagg.convert(sys.argv[1], sys.argv[2], client=sys.argv[3], target_options=json.loads(sys.argv[4]), **eval(sys.argv[5]))
"""


def hold(folder: str) -> None:
    """Let this process, a worker, be late with one chunk: until it is told to go on."""
    put, place = ObjectStore.put, Path(folder)

    def late(self, key, data, **how):
        if key != "v/c/7" or (place / "go").exists():
            return put(self, key, data, **how)
        (place / "waits").touch()
        while not (place / "go").exists():
            time.sleep(0.05)
        return put(self, key, data, **how)

    ObjectStore.put = late


def is_idle(dask_worker) -> bool:
    """Whether a worker has nothing more to do."""
    return not dask_worker.state.executing_count and not dask_worker.state.ready


@pytest.mark.full
@pytest.mark.filterwarnings("ignore:.*is removed before")
@pytest.mark.parametrize("region", [False, True])
def test_a_worker_of_a_killed_client_is_late_with_a_chunk_of_the_run_that_came_after(
    bucket, tmp_path, monkeypatch, region
):
    from distributed import Client, LocalCluster

    for name, value in bucket.environment.items():
        monkeypatch.setenv(name, value)  # workers are sent no secrets
    url, options = f"s3://{bucket.name}/late.zarr", {"endpoint": bucket.endpoint}
    for name, seed in (("old", 1), ("new", 2)):
        values = np.random.default_rng(seed).normal(size=120)
        xr.DataArray(values, dims="x", name="v").to_netcdf(tmp_path / f"{name}.nc")
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        client.run(hold, str(tmp_path))
        how = {"region": {"x": slice(0, 120)}} if region else {"chunks": {"x": 10}}
        if region:
            xr.DataArray(np.zeros(120), dims="x", name="v").to_netcdf(tmp_path / "zeros.nc")
            cfagg.convert(tmp_path / "zeros.nc", url, chunks={"x": 10}, overwrite=True, target_options=options)
        arguments = [str(tmp_path / "old.nc"), url, cluster.scheduler_address, json.dumps(options), repr(how)]
        with subprocess.Popen([sys.executable, "-c", CLIENT, *arguments]) as killed:
            while not (tmp_path / "waits").exists():
                assert killed.poll() is None
                time.sleep(0.05)
            killed.send_signal(signal.SIGKILL)
        if region:
            cfagg.convert(tmp_path / "new.nc", url, target_options=options, **how)
        else:
            small = {"chunks": {"x": 10}, "target_options": options}
            with pytest.raises(TargetExistsError, match="incomplete"):
                cfagg.convert(tmp_path / "new.nc", url, **small)
            cfagg.convert(tmp_path / "new.nc", url, overwrite=True, **small)
        whole = sorted(bucket.keys("late.zarr"))
        (tmp_path / "go").touch()
        while not all(client.run(is_idle).values()):
            time.sleep(0.1)
    found = cfagg.read(url, storage_options=options).load()
    np.testing.assert_array_equal(found.v, xr.open_dataset(tmp_path / "new.nc").v)
    assert sorted(bucket.keys("late.zarr")) == whole
