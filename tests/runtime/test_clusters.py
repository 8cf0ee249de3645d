"""Clusters that work is given to."""

import threading

import dask.array
import pytest
from distributed import Client, LocalCluster, as_completed, default_client
from distributed.utils import LoopRunner

from cfagg.errors import OptionError, SourceError, TargetError
from cfagg.runtime import clusters
from cfagg.runtime.clusters import answers, cluster_of


@pytest.fixture(scope="module")
def cluster():
    with LocalCluster(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None) as made:
        yield made


def current():
    try:
        return default_client()
    except ValueError:
        return None


@pytest.mark.parametrize("address", ["nowhere", "", "tcp://"])
def test_a_scheduler_that_is_not_there_is_an_error_and_nobody_else_waits_for_it(address):
    with pytest.raises(SourceError, match="no Dask scheduler answers at"), cluster_of(address):
        pass
    assert current() is None
    assert dask.array.ones(3).sum().compute() == 3


def test_a_client_that_found_no_scheduler_leaves_no_thread_behind():
    before = set(threading.enumerate())
    with pytest.raises(SourceError), cluster_of("nowhere"):
        pass
    for thread in set(threading.enumerate()) - before:
        thread.join(60)
        assert not thread.is_alive()


def test_a_client_whose_thread_does_not_start_is_tried_once_more(cluster, monkeypatch):
    real, starts = LoopRunner.start, []

    def late(runner):
        starts.append(runner)
        if len(starts) == 1:
            raise AssertionError
        real(runner)

    monkeypatch.setattr(LoopRunner, "start", late)
    with cluster_of(cluster.scheduler_address) as client:
        assert client.submit(int, "7").result() == 7
    assert len(starts) == 2


def test_a_client_whose_thread_never_starts_is_an_error(monkeypatch):
    def never(runner):
        raise AssertionError

    monkeypatch.setattr(LoopRunner, "start", never)
    with pytest.raises(SourceError, match="the thread of a client did not start; try again"), cluster_of("nowhere"):
        pass


def test_a_client_made_for_an_address_is_the_current_one_only_inside(cluster):
    with cluster_of(cluster.scheduler_address) as client:
        assert current() is client
        assert client.submit(int, "7").result() == 7
    assert current() is None
    assert client.status == "closed"


def test_a_client_that_is_not_the_default_one_is_used_and_stays_open(cluster):
    with Client(cluster, set_as_default=False) as given:
        with cluster_of(given) as client:
            assert client is given
            assert current() is given
        assert current() is None
        assert given.submit(int, "7").result() == 7


def test_no_cluster_is_none():
    with cluster_of(None) as client:
        assert client is None


def test_what_is_no_client_is_refused_by_its_type():
    with pytest.raises(OptionError, match="client: found an object of type int"), cluster_of(5):
        pass


def test_tasks_do_not_wait_for_ever_for_a_worker(monkeypatch):
    monkeypatch.setattr(clusters, "PATIENCE", 0.3)
    with (
        LocalCluster(n_workers=0, threads_per_worker=1, processes=False, dashboard_address=None) as empty,
        Client(empty) as client,
        pytest.raises(SourceError, match=r"no worker for 0\.3 s; start some, .*wait_for_workers\(1\) first; again$"),
    ):
        list(answers(client, as_completed([client.submit(int, "7")], with_results=True), then="; again"))


forgotten = threading.Event()


def wait_until_forgotten():
    forgotten.wait(600)


def test_a_scheduler_that_forgot_the_tasks_is_an_error(cluster):
    with cluster_of(cluster.scheduler_address) as client:
        waiting = client.submit(wait_until_forgotten)
        pending = as_completed([waiting], with_results=True)
        client.cancel([waiting], force=True)
        with pytest.raises(TargetError, match="no longer answers"):
            list(answers(client, pending, TargetError))
        forgotten.set()


def test_answers_come_of_what_is_added_meanwhile_too(cluster):
    with cluster_of(cluster.scheduler_address) as client:
        pending = as_completed([client.submit(int, "7")], with_results=True)
        found = []
        for _, answer in answers(client, pending):
            found.append(answer)
            if len(found) < 3:
                pending.add(client.submit(int, str(len(found))))
    assert found == [7, 1, 2]
