"""Tasks of builds on a cluster whose workers die."""

from __future__ import annotations

import os
import signal

import pytest

from cfagg.observations.tasks import Pool

distributed = pytest.importorskip("distributed")


def _sum(value: list[int], more: int) -> int:
    return sum(value) + more


@pytest.mark.full
def test_what_tasks_share_outlives_the_workers_that_hold_it() -> None:
    options = {"n_workers": 1, "threads_per_worker": 1, "processes": True, "dashboard_address": None}
    with distributed.LocalCluster(**options) as cluster, Pool(1, cluster.scheduler_address) as pool:
        shared = pool.share([1, 2, 3])
        distributed.wait(shared, 300)
        (pid,) = pool._client.run(os.getpid).values()
        os.kill(pid, signal.SIGKILL)
        assert sorted(pool.run((_sum, (shared, n)) for n in range(4))) == [6, 7, 8, 9]
