"""Writing the chunks: slabs are read, conformed, encoded and written by a few threads, each a whole slab at a time.

While one thread waits for the disk or the library, the others compute; all heavy steps run outside Python's lock.
Memory is bounded by construction: as many slabs are in flight as there are threads, and a slab is cut to its share.
On a Dask cluster the threads are those of its workers.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from typing import Any

from cfagg.conversion.cluster import run_workers
from cfagg.conversion.journal import Chunk, Journal
from cfagg.conversion.plan import Array
from cfagg.conversion.slab_writer import Job, SlabWriter, Task
from cfagg.conversion.slabs import Slabs, choose_slabs
from cfagg.errors import LimitError
from cfagg.runtime.threads import run_threads

__all__ = ["cut", "run"]

#: A slab, what it was decoded from, and the encoded chunk are in memory together; this many times the slab at most.
_COPIES = 2.5

#: With shards, whose encoded chunks are collected before they are joined.
_COPIES_SHARDS = 3.5

Progress = Callable[[int, int], None]


def cut(arrays: Sequence[Array], memory: int, workers: int) -> tuple[list[Slabs], int]:
    """Return the slabs of every array and the number of threads that fit in memory with them."""
    slabs, largest = [], 0
    for a in arrays:
        itemsize = 64 if a.dtype.kind == "O" else a.dtype.itemsize + (a.stored.itemsize if a.unpack else 0)
        copies = _COPIES if a.inner is None else _COPIES_SHARDS
        made = choose_slabs(a.grid, a.cells, itemsize, int(memory / copies / workers))
        size = int(made.largest * itemsize * copies)
        if size > memory:
            what = "chunk" if a.inner is None else "shard"
            raise LimitError(
                f"variable {a.path!r}: a {what} of shape {tuple(max(s, default=0) for s in a.grid.sizes)} takes "
                f"{size:,} bytes to convert, more than memory={memory:,}; give more memory or smaller {what}s"
            )
        slabs.append(made)
        largest = max(largest, size)
    return slabs, max(1, min(workers, memory // max(1, largest)))


def run(job: Job, journal: Journal, workers: int, progress: Progress | None, client: Any = None) -> None:
    """Write every chunk that the journal does not have yet, by threads or by the workers of a Dask cluster.

    The first error of any thread is raised; the others stop after the chunk they are at.
    """
    total = sum(a.nbytes for a in job.arrays)
    todo = _tasks(job.slabs, journal)
    left = total
    if any(done.written.any() for done in journal.done):
        left = sum(map(job.nbytes, _tasks(job.slabs, journal)))
    written = total - left
    if progress is not None:
        progress(written, total)
    with closing(_results(job, todo, workers, client)) as results:
        for task, chunks in results:
            journal.add(task.array, chunks)
            written += job.nbytes(task)
            if progress is not None:
                progress(written, total)
    journal.sync()


def _results(job: Job, todo: Iterator[Task], workers: int, client: Any) -> Any:
    """Return an iterator of tasks and what was written by them, as they are done."""
    if client is not None:
        return run_workers(job, todo, client)
    stop = threading.Event()
    writer = SlabWriter(job, stop)

    def work(task: Task) -> tuple[Task, list[Chunk]]:
        return task, writer.write(task)

    return run_threads(work, todo, workers, "convert", stop)


def _tasks(slabs: Sequence[Slabs], journal: Journal) -> Iterator[Task]:
    """Yield the slabs in which a chunk is still to be written."""
    for i, (s, done) in enumerate(zip(slabs, journal.done, strict=True)):
        if done.written.all():
            continue
        untouched = not done.written.any()
        written = done.written.reshape(s.grid.matrix_shape)
        for k in range(len(s)):
            if untouched or not written[tuple(slice(r.start, r.stop) for r in s.chunks(k))].all():
                yield Task(i, k)
