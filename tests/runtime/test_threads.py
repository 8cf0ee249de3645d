"""Tasks that a few threads share."""

from __future__ import annotations

import threading
import time
from contextlib import closing

import pytest

from cfagg.runtime.threads import run_threads


def test_each_task_is_done_once_by_any_of_the_threads() -> None:
    assert sorted(run_threads(lambda n: n * n, iter(range(50)), 3, "test")) == [n * n for n in range(50)]


def test_the_first_error_of_work_or_of_the_tasks_is_raised_and_stops_the_rest() -> None:
    done = []

    def work(n: int) -> None:
        if n == 3:
            raise ValueError("three")
        done.append(n)
        time.sleep(0.0005)

    with pytest.raises(ValueError, match="three"):
        list(run_threads(work, iter(range(100_000)), 2, "test"))
    assert len(done) < 90_000  # the other thread goes on until this one has told
    with pytest.raises(ZeroDivisionError):
        list(run_threads(work, (1 // 0 for _ in range(2)), 2, "test"))


def test_work_is_told_when_nothing_more_is_wanted_and_no_thread_is_left() -> None:
    stop = threading.Event()

    def work(n: int) -> int:
        if n:
            assert stop.wait(600)
        return n

    with closing(run_threads(work, iter([0, 1]), 2, "told", stop)) as results:
        assert next(results) == 0
    assert stop.is_set()
    assert not [t for t in threading.enumerate() if t.name.startswith("cfagg-told")]
