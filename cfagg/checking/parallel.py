"""Checking many sources in their order, several at a time in separate processes.

Results are passed on as they arrive and never collected, so that memory does not grow with the number of sources.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

from cfagg.checking.options import Options
from cfagg.checking.report import SourceReport
from cfagg.checking.single import check_or_report, could_not
from cfagg.checking.suppressions import Suppression
from cfagg.formats.values.locks import LIBRARY
from cfagg.runtime.budget import processors

__all__ = ["Job", "check_many", "processes"]

#: Seconds of work that justify starting a process; a second one starts if twice as much is left.
_WORTH = 0.5

#: A first source that takes more seconds is slow itself, since loading the rules takes less.
_SLOW = 2.0

#: Number of results of each process that may wait for their turn.
_AHEAD = 4


class Job(NamedTuple):
    """One source and the options of its check."""

    source: Any
    options: Options
    suppressions: Sequence[Suppression] = ()
    drawn: bool = False


def processes(wanted: int | None = None) -> int:
    """Return the largest number of processes: the number wanted, or one per processor."""
    return processors() if wanted is None else max(1, wanted)


def check_many(
    jobs_of: Iterable[Any], *, jobs: int = 1, fork: bool = False, count: int | None = None, patient: bool = False
) -> Iterator[SourceReport]:
    """Check sources one after another, or several at a time, and yield the results in their order.

    `fork` starts processes as copies of this one if the system supports it. That is fast, but only safe while this
    process has no other threads, no open files and no connections. `patient` checks the first sources in this process
    and then starts as many others as the remaining sources justify, out of `count` if that is known.
    """
    waiting = (Job(*job) for job in jobs_of)
    jobs = jobs if count is None else min(jobs, count)
    if jobs <= 1 or patient:
        spent: list[float] = []
        for job in waiting:
            started = time.monotonic()
            result = check_or_report(job.source, job.options, job.suppressions, drawn=job.drawn)
            spent.append(time.monotonic() - started)
            yield result
            worth = _worth(spent, count - len(spent)) if count is not None else 1
            if min(jobs, worth) > 1:
                jobs = min(jobs, worth)
                break
        else:
            return
    yield from _side_by_side(waiting, jobs, fork=fork)


def _worth(spent: Sequence[float], left: int) -> int:
    """Return the number of processes that the remaining sources justify, given the seconds that each took so far."""
    # The first one also loads the rules, so its time does not predict that of the others.
    known = spent[1:] if spent[0] < _SLOW else spent
    return int(sum(known) / len(known) * left / _WORTH) if known else 1


def _side_by_side(waiting: Iterator[Job], jobs: int, *, fork: bool) -> Iterator[SourceReport]:
    while True:
        pool = _pool(jobs, fork=fork)
        sent: deque[tuple[Job, Any]] = deque()
        try:
            for job in islice(waiting, jobs * _AHEAD):
                sent.append((job, _submitted(pool, job)))
            while sent:
                result = _result(sent[0][1])
                if result is None:
                    break
                sent.popleft()
                yield result
                for job in islice(waiting, 1):
                    sent.append((job, _submitted(pool, job)))
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
        if not sent:
            return
        # A library crashed on one of the running sources. They are checked one by one, so that the others are not
        # blamed. Only the first pool forks, since remains of a broken pool may interfere.
        fork = False
        for job, _ in sent:
            yield _alone(job)


def _submitted(pool: Any, job: Job) -> Any:
    """Return the future of a job, or `None` if the processes have ended."""
    from concurrent.futures import Future
    from concurrent.futures.process import BrokenProcessPool

    if not isinstance(job.source, str | os.PathLike):
        # Objects in memory are checked here, since they would have to be copied, which is not always possible.
        done: Future[SourceReport] = Future()
        done.set_result(_in_process(job))
        return done
    try:
        return pool.submit(_in_process, job)
    except BrokenProcessPool:
        return None


def _result(future: Any) -> SourceReport | None:
    """Return the result of a job, or `None` if its process has ended."""
    from concurrent.futures.process import BrokenProcessPool

    try:
        found: SourceReport | None = None if future is None else future.result()
    except BrokenProcessPool:
        return None
    return found


def _alone(job: Job) -> SourceReport:
    with _pool(1, fork=False) as pool:
        result = _result(_submitted(pool, job))
    if result is None:
        return could_not(job.source, "the process that checked it crashed, so the file is most likely damaged")
    return result


def _pool(jobs: int, *, fork: bool) -> Any:
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    # Threads of NumPy's linear algebra end before a fork and start again; others would be missing in the copy.
    copies = fork and sys.platform.startswith("linux") and threading.active_count() == 1
    method = "fork" if copies else "spawn"
    if copies:
        _warm_up()
    return ProcessPoolExecutor(jobs, multiprocessing.get_context(method), _begin)


def _warm_up() -> None:
    """Load once what every copy of this process would load."""
    from cfagg.checking.registry import registered

    registered()


def _begin() -> None:
    """Prepare a process: an interrupt ends it silently, and the parent draws the progress bars."""
    import signal

    from cfagg.runtime import progress

    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    progress.forget()


@LIBRARY.keeping_files()
def _in_process(job: Job) -> SourceReport:
    return check_or_report(job.source, job.options, job.suppressions, drawn=job.drawn)
