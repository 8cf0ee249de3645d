"""Builds whose chunks are read by the workers of a Dask cluster."""

import os
import signal

import numpy as np
import pytest
import zarr
from distributed import Client, LocalCluster, wait

from cfagg.accumulation import freshness, partials
from cfagg.accumulation.accumulating import accumulate
from cfagg.accumulation.opening import open_group
from cfagg.errors import FragmentReadError, SourceError, StaleError
from tests.accumulation import comparing, reference

DIMS = ("time", "lat", "lon")
COMBINATIONS = [("time",), ("lat",), ("lat", "lon")]
SHAPE, CHUNKS = (40, 6, 8), (3, 4, 8)


def values(dtype="f4"):
    raw = np.random.default_rng(3).normal(scale=9, size=SHAPE)
    raw[raw > 15] = np.nan if dtype == "f4" else 99
    return raw.astype(dtype)


@pytest.fixture(scope="module")
def cluster():
    with LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, memory_limit=None
    ) as made:
        yield made


@pytest.fixture
def store(tmp_path):
    path = tmp_path / "b.zarr"
    reference.write_source(path, "tas", values(), DIMS, CHUNKS, coordinates=False)
    return path


def test_a_cluster_builds_what_threads_build(cluster, store, tmp_path, monkeypatch):
    monkeypatch.setattr(partials, "_BATCH", 500)
    field = np.arange(6.0)
    options = {"weights": field, "weight_dims": ("lat",), "stride": {"time": 2}, "statistics": COMBINATIONS}
    expected = comparing.expect(
        tmp_path / "a.zarr", values(), DIMS, CHUNKS, COMBINATIONS, {"coordinates": False}, **options
    )
    seen = []
    with Client(cluster) as client:
        accumulate(
            store,
            "tas",
            COMBINATIONS,
            weights=field[:, None],
            stride={"time": 2},
            statistics=("min", "max", "std"),
            client=client,
            progress=lambda done, total: seen.append((done, total)),
        )
        comparing.assert_same(store, expected, "tas", scale=100.0 * 40)
        assert seen[-1] == (values().nbytes, values().nbytes)
        assert len(seen) > 10
        # It may be used again: it is the user's.
        assert client.submit(sum, [1, 2]).result() == 3


def test_a_cluster_may_be_named_by_its_address_and_append(cluster, store):
    accumulate(store, "tas", COMBINATIONS, client=cluster.scheduler_address)
    array = zarr.open_array(store / "tas", mode="r+")
    array.resize((50, 6, 8))
    array[40:] = 1
    assert accumulate(store, "tas", append=True, client=cluster.scheduler_address).action == "appended"
    freshness.check(open_group(store, "tas"))


@pytest.mark.full
def test_workers_that_die_with_what_tasks_share_are_replaced(store, tmp_path, monkeypatch):
    expected = comparing.expect(tmp_path / "a.zarr", values(), DIMS, CHUNKS, [("time",)], {"coordinates": False})
    given = partials.shared

    def killing(client, value):
        sent = given(client, value)
        wait(sent, 300)
        for pid in client.run(os.getpid).values():
            os.kill(pid, signal.SIGKILL)
        return sent

    monkeypatch.setattr(partials, "shared", killing)
    with LocalCluster(n_workers=1, threads_per_worker=1, processes=True, dashboard_address=None) as cluster:
        accumulate(store, "tas", [("time",)], client=cluster.scheduler_address)
    comparing.assert_same(store, expected, "tas", scale=100.0 * 40)


def test_an_error_of_a_worker_is_the_error_of_the_build(cluster, store):
    path = store / "tas" / "c" / "5" / "0" / "0"
    path.write_bytes(b"damaged")
    with Client(cluster) as client, pytest.raises(FragmentReadError, match=r"chunk \(5, 0, 0\)"):
        accumulate(store, "tas", COMBINATIONS, client=client)


def test_a_worker_that_sees_another_file_is_noticed(cluster, store, monkeypatch):
    real = partials.Pass._stamps
    monkeypatch.setattr(partials.Pass, "_stamps", lambda *a: real(*a) - [0, 1, 0, 0])
    with Client(cluster) as client, pytest.raises(StaleError, match="a Dask worker does not see it"):
        accumulate(store, "tas", COMBINATIONS, client=client)


def test_a_scheduler_that_is_not_there_is_told_before_anything_is_written(store):
    before = sorted(store.rglob("*"))
    with pytest.raises(SourceError, match="no Dask scheduler answers at nowhere"):
        accumulate(store, "tas", client="nowhere")
    assert sorted(store.rglob("*")) == before


@pytest.mark.full
def test_a_client_that_is_not_the_default_one_is_asked(cluster, store):
    with Client(cluster, set_as_default=False) as client:
        assert accumulate(store, "tas", ["time"], client=client).action == "built"
