"""Writing slabs with the workers of a Dask cluster, which read the source and write the target themselves.

A task is a few slabs of whole chunks (or shards), and is idempotent: if a worker dies, Dask runs its tasks on another
one. Few tasks are submitted at a time, so that the scheduler holds little.
"""

from __future__ import annotations

import math
import pickle
import threading
import uuid
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import islice
from typing import Any

from cfagg.conversion.journal import Chunk
from cfagg.conversion.plan import Array
from cfagg.conversion.request import Request
from cfagg.conversion.slab_writer import Job, SlabWriter, Task
from cfagg.conversion.slabs import Slabs
from cfagg.errors import TargetError
from cfagg.formats.values.locks import LIBRARY
from cfagg.runtime.clusters import answers, cluster_of, shared, threads_of

__all__ = ["on_cluster", "run_workers", "task_count"]

#: Size in bytes of the values of one task, large enough for the cost of sending it to be negligible.
_BATCH = 32 << 20

#: Number of tasks submitted at a time for each thread of the workers.
_AHEAD = 2

#: How often a task may lose its worker, beyond what Dask allows by itself.
_RETRIES = 3

#: The writers of this process as a worker, for the latest job only.
_writers: dict[str, SlabWriter] = {}
_making = threading.Lock()

#: The written chunks, and the object that wrote them if it has to be merged.
Written = tuple[list[tuple[Task, list[Chunk]]], Any]


@contextmanager
def on_cluster(request: Request, place: object) -> Iterator[Request]:
    """Yield a conversion to `place` as done by its cluster: with a client, and the number of threads of a worker.

    Places that cannot be sent to workers, such as those with secrets, are refused before anything is written.
    """
    if request.client is None:
        yield request
        return
    for sent in (request.source, place):
        pickle.dumps(sent)
    with cluster_of(request.client) as client:
        yield replace(request, client=client, workers=max(client.nthreads().values(), default=1))


def run_workers(job: Job, todo: Iterator[Task], client: Any) -> Generator[tuple[Task, list[Chunk]]]:
    """Yield tasks and what they wrote, as they complete; the first error is raised."""
    from distributed import as_completed

    token = uuid.uuid4().hex
    sent = shared(client, job)
    batches = _batches(job, todo)

    def submit(batch: list[Task]) -> Any:
        return client.submit(_write, sent, token, batch, pure=False, retries=_RETRIES, key=f"cfagg-{uuid.uuid4().hex}")

    ahead = [submit(b) for b in islice(batches, _AHEAD * threads_of(client))]
    pending = as_completed(ahead, with_results=True)
    try:
        kept = "" if hasattr(job.put, "forked") else "; finished work is kept"
        for _, (written, by) in answers(client, pending, TargetError, kept):
            if by is not None:
                job.put.merge(by)  # type: ignore[attr-defined]
            yield from written
            following = next(batches, None)
            if following is not None:
                pending.add(submit(following))
    finally:
        with suppress(OSError):
            client.cancel([sent], force=True)


def task_count(arrays: Sequence[Array], slabs: Sequence[Slabs], *, cluster: bool) -> int:
    """Return the number of slabs, or approximate number of cluster tasks, for arrays, without iterating over them."""
    count, batch = 0, _BATCH if cluster else 0
    for array, cuts in zip(arrays, slabs, strict=True):
        mean = array.nbytes / max(1, len(cuts))
        held = len(cuts) if array.absent is None else len(cuts.holding(~array.absent))
        count += -(-held // max(1, math.ceil(batch / max(1.0, mean))))
    return count


def _batches(job: Job, todo: Iterator[Task]) -> Iterator[list[Task]]:
    """Yield tasks in batches that are given to one worker."""
    batch: list[Task] = []
    size = 0
    for task in todo:
        batch.append(task)
        size += job.nbytes(task)
        if size >= _BATCH:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


@LIBRARY.keeping_files()
def _write(job: Job, token: str, batch: list[Task]) -> Written:
    """Write slabs, in a worker."""
    with _making:
        writer = _writers.get(token)
        if writer is None:
            _writers.clear()
            writer = _writers[token] = SlabWriter(job, threading.Event())
    # If writes are visible only to the session that made them, each task forks one and returns it.
    forked = getattr(job.put, "forked", None)
    put = None if forked is None else forked()
    return [(task, writer.write(task, put)) for task in batch], put
