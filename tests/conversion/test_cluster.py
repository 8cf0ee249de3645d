"""Conversions whose chunks are written by the workers of a Dask cluster."""

import os
import pickle
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import dask
import numpy as np
import pytest
import zarr
from distributed import Client, LocalCluster, WorkerPlugin

from cfagg.conversion import cluster as tasks
from cfagg.conversion import convert
from cfagg.conversion.places import Files
from cfagg.errors import FragmentNotFoundError, OptionError, TargetError
from tests.conversion import killing


@pytest.fixture(scope="module")
def cluster():
    with LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, memory_limit=None
    ) as made:
        yield made


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """An aggregation, and what threads make of it."""
    folder = tmp_path_factory.mktemp("cluster")
    path, values = killing.source(folder)
    convert(path, folder / "whole.zarr", chunks={"time": 1})
    return path, values, killing.contents(folder / "whole.zarr")


@pytest.fixture
def small_tasks(monkeypatch):
    monkeypatch.setattr(tasks, "_BATCH", 40_000)


def test_a_cluster_writes_what_threads_write(cluster, made, tmp_path, small_tasks):
    path, values, whole = made
    seen = []
    with Client(cluster) as client:
        report = convert(
            path,
            tmp_path / "out.zarr",
            chunks={"time": 1},
            client=client,
            memory="300KiB",
            progress=lambda done, total: seen.append((done, total)),
        )
    assert killing.contents(tmp_path / "out.zarr") == whole
    assert report.chunks == 3 * len(values) + 2
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert len(seen) >= 8
    assert seen[-1][0] == seen[-1][1] == report.bytes
    assert [p.name for p in tmp_path.iterdir()] == ["out.zarr"]


def test_the_address_of_a_scheduler_will_do_and_shards_are_tasks(cluster, made, tmp_path):
    path, values, _ = made
    address = cluster.scheduler_address
    convert(path, tmp_path / "out.zarr", chunks={"time": 1}, shards={"time": 5}, client=address, verify=True)
    np.testing.assert_array_equal(zarr.open_group(tmp_path / "out.zarr", mode="r")["tas"][:], values)


def test_an_error_of_a_worker_is_raised_here(cluster, made, tmp_path, small_tasks):
    path = made[0]
    (path.parent / "part7.nc").rename(path.parent / "away.nc")
    options = {"chunks": {"time": 1}, "packing": "decode", "memory": "300KiB"}
    try:
        with Client(cluster) as client, pytest.raises(FragmentNotFoundError, match=r"part7\.nc"):
            convert(path, tmp_path / "out.zarr", client=client, **options)
    finally:
        (path.parent / "away.nc").rename(path.parent / "part7.nc")
    assert not (tmp_path / "out.zarr").exists()


def test_what_makes_no_sense_with_a_cluster_is_refused(made, tmp_path):
    path, _, _ = made
    with pytest.raises(OptionError, match="give one of them"):
        convert(path, tmp_path / "out.zarr", client="tcp://127.0.0.1:1", workers=2)
    with pytest.raises(OptionError, match=r"give a distributed\.Client"):
        convert(path, tmp_path / "out.zarr", client=5)
    assert not list(tmp_path.iterdir())


def _empty(path, target, **options):
    """A store as a conversion makes it, whose `tas` has no values yet."""
    convert(path, target, **options)
    zarr.open_group(target, mode="r+")["tas"][:] = 0


def test_a_part_of_a_store_is_written_by_a_cluster(cluster, made, tmp_path, small_tasks):
    path, values, whole = made
    target = tmp_path / "out.zarr"
    _empty(path, target, chunks={"time": 1})
    left = target / ".cfagg-region-0"  # of a run that was killed
    left.mkdir()
    options = {"region": {"time": slice(0, 40)}, "client": cluster.scheduler_address, "memory": "300KiB"}
    plan = convert(path, target, dry_run=True, variables=["tas"], **options)
    report = convert(path, target, variables=["tas"], **options)
    assert killing.contents(target).keys() == whole.keys()
    np.testing.assert_array_equal(zarr.open_group(target, mode="r")["tas"][:], values)
    assert (plan.chunks, plan.workers) == (report.chunks, 1) == (len(values) + report.chunks - 40, 1)
    assert [p.name for p in target.iterdir() if p.name.startswith(".")] == []


def test_workers_do_not_write_what_an_append_writes_again(cluster, made, tmp_path):
    path, values, _ = made
    target = tmp_path / "out.zarr"
    _empty(path, target, chunks={"time": 30})
    options = {"region": {"time": slice(None)}, "variables": ["tas"]}
    with pytest.raises(OptionError, match=r"'tas': the part ends in a chunk that is not full.* without client="):
        convert(path, target, client=cluster.scheduler_address, **options)
    assert not zarr.open_group(target, mode="r")["tas"][:].any()
    convert(path, target, **options)
    np.testing.assert_array_equal(zarr.open_group(target, mode="r")["tas"][:], values)


def _held(path):
    """What the branch of a repository holds of `tas`, and how many commits it has."""
    icechunk = pytest.importorskip("icechunk")
    repository = icechunk.Repository.open(icechunk.local_filesystem_storage(str(path)))
    group = zarr.open_group(repository.readonly_session("main").store, mode="r")
    return group["tas"][...], len(list(repository.ancestry(branch="main")))


@pytest.mark.full
def test_workers_write_one_commit_of_icechunk(cluster, made, tmp_path, small_tasks):
    pytest.importorskip("icechunk")
    path, values, _ = made
    target = tmp_path / "out.icechunk"
    with Client(cluster) as client:
        report = convert(path, target, chunks={"time": 1}, client=client, memory="300KiB", verify=True)
        found, commits = _held(target)
        np.testing.assert_array_equal(found, values)
        assert (commits, report.chunks) == (2, 3 * len(values) + 2)
    assert [p.name for p in tmp_path.iterdir()] == ["out.icechunk"]


@pytest.mark.full
def test_a_worker_that_dies_changes_nothing_of_a_commit_and_a_run_that_fails_makes_none(made, tmp_path, small_tasks):
    pytest.importorskip("icechunk")
    path, values, _ = made
    target = tmp_path / "out.icechunk"
    convert(path, target, variables=["lat"])
    options = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": None}
    with LocalCluster(**options) as several, Client(several) as client:
        killed = []

        def kill(done, total):
            if done > total / 4 and not killed:
                killed.append(min(client.run(os.getpid).values()))
                os.kill(killed[0], signal.SIGKILL)

        asked = {"chunks": {"time": 1}, "memory": "300KiB", "overwrite": True, "client": client}
        convert(path, target, progress=kill, **asked)
        assert killed
        found, commits = _held(target)
        np.testing.assert_array_equal(found, values)
        assert commits == 3
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 0}),
        LocalCluster(**options | {"n_workers": 1}) as one,
        Client(one) as client,
    ):
        client.register_plugin(_Deadly())
        with pytest.raises(TargetError, match="were lost repeatedly"):
            convert(path, target, **asked | {"client": client})
    assert _held(target)[1] == 3


def test_one_netcdf_file_is_not_written_by_several_processes(made, tmp_path):
    with pytest.raises(OptionError, match=r"one process writes: leave out client=.* convert to Zarr with client="):
        convert(made[0], tmp_path / "out.nc", client="tcp://127.0.0.1:1")
    assert not list(tmp_path.iterdir())


def _most_memory():
    """Bytes of memory that this process had at most; what `resource` says counts those of who started it."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) * 1024


@pytest.mark.full
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="only Linux tells the peak of one process")
def test_memory_of_workers_is_bounded_whatever_the_size(cluster, tmp_path):
    n = 5000
    group = zarr.open_group(tmp_path / "rows.zarr", mode="w")
    array = group.create_array("v", shape=(n, n), chunks=(10, n), dtype="f4", dimension_names=("y", "x"))
    for i in range(0, n, 500):
        array[i : i + 500] = np.arange(i, i + 500)[:, None]
    with Client(cluster) as client:
        options = {"memory": "16MiB", "client": client}
        convert(tmp_path / "rows.zarr", tmp_path / "warm.zarr", chunks={"y": 500, "x": 500}, **options)
        before = client.run(_most_memory)
        convert(tmp_path / "rows.zarr", tmp_path / "columns.zarr", chunks={"y": -1, "x": 10}, **options)
        after = client.run(_most_memory)
    # 100 MB of values; what libraries keep for themselves is in both.
    assert max(after[w] - before[w] for w in after) < 32 << 20
    assert max(after.values()) < 400 << 20
    found = zarr.open_group(tmp_path / "columns.zarr", mode="r")["v"]
    np.testing.assert_array_equal(found[:, ::999], np.arange(n, dtype="f4")[:, None] + np.zeros((1, 6)))


class _Deadly(WorkerPlugin):
    """Has a worker die as soon as it is to write."""

    def transition(self, key, start, finish, **_):
        if finish == "executing" and str(key).startswith("cfagg-") and not str(key).startswith("cfagg-job"):
            os._exit(9)


@pytest.mark.full
def test_workers_that_die_each_time_are_an_error_and_what_is_done_is_kept(made, tmp_path, small_tasks):
    path, _, whole = made
    target = tmp_path / "out.zarr"
    options = {"n_workers": 1, "threads_per_worker": 1, "processes": True, "dashboard_address": None}
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 0}),
        LocalCluster(**options) as one,
        Client(one) as client,
    ):
        seen = []

        def poison(done, total):
            if done > total / 4 and not seen:
                seen.append(done)
                client.register_plugin(_Deadly())

        with pytest.raises(TargetError, match=r"were lost repeatedly .* enough memory; finished work is kept"):
            convert(path, target, chunks={"time": 1}, client=client, memory="300KiB", progress=poison)
    assert not target.exists()
    report = convert(path, target, chunks={"time": 1}, resume=True)
    assert report.resumed > 0
    assert killing.contents(target) == whole


def test_a_worker_that_is_left_over_from_a_run_can_change_nothing(tmp_path):
    (tmp_path / "aside").mkdir()
    left = pickle.loads(pickle.dumps(Files(tmp_path, tmp_path / "aside")))
    left("v/c/0", b"new")
    (tmp_path / "aside").rmdir()
    with pytest.raises(TargetError, match="or the run has ended"):
        left("v/c/0", b"late")
    assert (tmp_path / "v" / "c" / "0").read_bytes() == b"new"


def _dask(*command: str) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-m", "distributed.cli." + command[0], *command[1:]],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )


@pytest.mark.full
def test_workers_over_tcp_may_be_killed_and_others_finish(made, tmp_path, monkeypatch):
    path, _, whole = made
    monkeypatch.setattr(tasks, "_BATCH", 40_000)
    running = [_dask("dask_scheduler", "--port", "0", "--scheduler-file", str(tmp_path / "s.json"), "--no-dashboard")]
    try:
        worker = ("dask_worker", "--scheduler-file", str(tmp_path / "s.json"), "--nthreads", "1", "--no-nanny")
        running += [_dask(*worker, "--no-dashboard") for _ in range(2)]
        with Client(scheduler_file=str(tmp_path / "s.json"), timeout="600s") as client:
            client.wait_for_workers(2, timeout=600)
            killed = threading.Event()

            def kill(done: int, total: int) -> None:
                if not killed.is_set() and done > total / 4:
                    running[1].send_signal(signal.SIGKILL)
                    killed.set()
                time.sleep(0.02)

            convert(path, tmp_path / "out.zarr", chunks={"time": 1}, client=client, memory="300KiB", progress=kill)
        assert killed.is_set()
        assert killing.contents(tmp_path / "out.zarr") == whole
    finally:
        for process in running:
            process.kill()
            process.wait()


@pytest.mark.full
def test_a_run_on_a_cluster_that_is_killed_is_finished_by_resume(cluster, made, tmp_path, small_tasks):
    path, _, whole = made
    target = tmp_path / "out.zarr"
    code = (
        "import sys, time\nfrom cfagg.conversion import convert, cluster\ncluster._BATCH = 40_000\n"
        "convert(sys.argv[1], sys.argv[2], chunks={'time': 1}, client=sys.argv[3], memory=300_000, "
        "progress=lambda done, total: time.sleep(0.1 if done < total * 0.75 else 600))\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code, path, target, cluster.scheduler_address])
    journal = tmp_path / ".out.zarr.cfagg-partial" / "journal"
    while not journal.exists() or journal.read_text().count("\n") < 8:
        assert process.poll() is None
        time.sleep(0.02)
    process.kill()
    process.wait()
    report = convert(path, target, chunks={"time": 1}, client=cluster.scheduler_address, resume=True)
    assert report.resumed > 0
    assert killing.contents(target) == whole
