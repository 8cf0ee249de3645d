"""Writing the chunks: a few threads read, conform, encode and write slabs, each a whole slab at a time.

While one thread waits for the disk or the library, the others compute; all heavy steps run outside Python's lock.
Memory is bounded by construction: there is one slab in memory per thread, and slabs are limited to their share.
On a Dask cluster the threads are those of its workers.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from typing import Any

from cfagg.conversion.cluster import run_workers
from cfagg.conversion.journal import Chunk, Records
from cfagg.conversion.plan import Array
from cfagg.conversion.scratch import ScratchReader
from cfagg.conversion.slab_writer import Job, SlabWriter, Task
from cfagg.runtime.threads import run_threads

__all__ = ["run"]

Progress = Callable[[int, int], None]


def run(job: Job, journal: Records, workers: int, progress: Progress | None, client: Any = None) -> None:
    """Write every chunk that the journal does not have yet, by threads or by the workers of a Dask cluster.

    The first error of any thread is raised; the other threads stop after their current chunk.
    """
    for array, done in zip(job.arrays, journal.done, strict=True):
        if array.absent is not None:
            done.written |= array.absent
    total = sum(a.nbytes for a in job.arrays)
    left = total
    if any(done.written.any() for done in journal.done):
        left = sum(map(job.nbytes, _tasks(job, journal, range(len(job.arrays)))))
    written = total - left
    if progress is not None:
        progress(written, total)
    for numbers in _steps(job):
        with closing(_results(job, _tasks(job, journal, numbers), workers, client)) as results:
            for task, chunks in results:
                journal.add(task.array, chunks)
                written += job.nbytes(task)
                if progress is not None:
                    progress(written, total)
    journal.sync()


def _results(job: Job, todo: Iterator[Task], workers: int, client: Any) -> Any:
    """Return an iterator of tasks and what they wrote, as they complete."""
    if client is not None:
        return run_workers(job, todo, client)
    stop = threading.Event()
    writer = SlabWriter(job, stop)

    def work(task: Task) -> tuple[Task, list[Chunk]]:
        return task, writer.write(task)

    return run_threads(work, todo, workers, "convert", stop)


def _steps(job: Job) -> Iterator[list[int]]:
    """Yield the numbers of the arrays that are written together, so that arrays read by others are completed first."""
    for level in range(3):
        numbers = [i for i, a in enumerate(job.arrays) if _level(a) == level]
        if numbers:
            yield numbers


def _level(array: Array) -> int:
    """Return the stage of an array: first intermediate, second intermediate, or final."""
    return 2 if array.feeds is None else int(isinstance(array.reader, ScratchReader))


def _tasks(job: Job, journal: Records, numbers: Sequence[int]) -> Iterator[Task]:
    """Yield the slabs that contain chunks still to be written."""
    complete = {a.path for a, done in zip(job.arrays, journal.done, strict=True) if done.written.all()}
    for i in numbers:
        slabs, done = job.slabs[i], journal.done[i]
        if done.written.all() or job.arrays[i].feeds in complete:
            continue
        for k in slabs.holding(~done.written).tolist():
            yield Task(i, k)
