"""Checking many sources, several at a time in processes of their own; the order is kept.

Results are handed on as they come and never gathered, so that memory does not grow with the number of sources.
"""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

from cfagg.checking.checking import check_or_tell, could_not
from cfagg.checking.options import Options
from cfagg.checking.report import Checked
from cfagg.checking.suppressions import Suppression

__all__ = ["Job", "check_many", "processes"]

#: A process of its own pays only from so many small files on.
_FEW = 12

#: So many results of each process may wait for their turn.
_AHEAD = 4


class Job(NamedTuple):
    """One source and how it is checked."""

    source: Any
    options: Options
    suppressions: Sequence[Suppression] = ()
    drawn: bool = False


def processes(count: int, *, heavy: bool, wanted: int | None = None) -> int:
    """Return how many processes are used for so many sources.

    Parameters
    ----------
    count : int
        Number of sources, or any that is large enough.
    heavy : bool
        Whether more than metadata is read.
    wanted : int, optional
        What the user asks for.
    """
    if wanted is not None:
        return max(1, min(wanted, count))
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(available, count if heavy else count // _FEW))


def check_many(jobs_of: Iterable[Any], *, jobs: int = 1, fork: bool = False) -> Iterator[Checked]:
    """Check sources one after another, or several at a time.

    Parameters
    ----------
    jobs_of : iterable of Job
        What is checked, or tuples of the same members.
    jobs : int
        Number of processes.
    fork : bool
        Start them as copies of this one, where the system can.  That is fast, and only safe while this process has
        no other threads and no files open.

    Yields
    ------
    Checked
        In the order of the jobs; sources that could not be checked have a `failure`.
    """
    waiting = (Job(*job) for job in jobs_of)
    if jobs <= 1:
        for job in waiting:
            yield check_or_tell(job.source, job.options, job.suppressions, drawn=job.drawn)
        return
    yield from _side_by_side(waiting, jobs, fork=fork)


def _side_by_side(waiting: Iterator[Job], jobs: int, *, fork: bool) -> Iterator[Checked]:
    from concurrent.futures.process import BrokenProcessPool

    while True:
        pool = _pool(jobs, fork=fork)
        sent: deque[tuple[Job, Any]] = deque()
        broken = False
        try:
            for job in islice(waiting, jobs * _AHEAD):
                sent.append((job, pool.submit(_in_process, job)))
            while sent:
                try:
                    result = sent[0][1].result()
                except BrokenProcessPool:
                    broken = True
                    break
                sent.popleft()
                yield result
                for job in islice(waiting, 1):
                    sent.append((job, pool.submit(_in_process, job)))
        finally:
            pool.shutdown(wait=not broken, cancel_futures=True)
        if not broken:
            return
        # A library crashed on one of those under way: one by one, so that the others are not blamed.  The threads of
        # the broken pool may still be ending, so that copies of this process are no longer safe.
        fork = False
        for job, _ in sent:
            yield _alone(job)


def _alone(job: Job) -> Checked:
    from concurrent.futures.process import BrokenProcessPool

    with _pool(1, fork=False) as pool:
        try:
            result: Checked = pool.submit(_in_process, job).result()
        except BrokenProcessPool:
            return could_not(job.source, "the process that checked it crashed, so the file is most likely damaged")
    return result


def _pool(jobs: int, *, fork: bool) -> Any:
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    copies = fork and sys.platform.startswith("linux")
    method = "fork" if copies else "spawn"
    if copies:
        _warm_up()
    return ProcessPoolExecutor(jobs, multiprocessing.get_context(method), _begin)


def _warm_up() -> None:
    """Load once what every copy of this process would load."""
    from cfagg.checking.rule import registered

    registered()


def _begin() -> None:
    """Prepare a process: an interrupt ends it without a word, and bars are drawn by the one that started it."""
    import signal

    from cfagg.checking import progress

    signal.signal(signal.SIGINT, signal.SIG_DFL)
    progress.forget()


def _in_process(job: Job) -> Checked:
    return check_or_tell(job.source, job.options, job.suppressions, drawn=job.drawn)
