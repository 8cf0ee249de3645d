"""Slabs written by the workers of a Dask cluster, which read the source and write the target themselves.

A task is a few slabs of whole chunks (or shards), and does the same whoever does it and however often: where a worker
dies, Dask gives what it had to another one.  Few tasks are given out at a time, so that the scheduler holds little.
"""

from __future__ import annotations

import math
import pickle
import threading
import uuid
import warnings
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
from cfagg.runtime.clusters import answers, cluster_of, threads_of

__all__ = ["on_cluster", "run_workers", "task_count"]

#: Bytes of values in one task: large enough that the way to the worker does not count.
_BATCH = 32 << 20

#: Tasks that are given out at a time, for each thread of the workers.
_AHEAD = 2

#: Times that a task may lose its worker, beyond what Dask allows by itself.
_RETRIES = 3

#: What this process, a worker, writes with; of the last job only.
_writers: dict[str, SlabWriter] = {}
_making = threading.Lock()

#: What was written, and by what where that has to be merged.
Written = tuple[list[tuple[Task, list[Chunk]]], Any]


@contextmanager
def on_cluster(request: Request, place: object) -> Iterator[Request]:
    """Give a conversion to `place` as its cluster does it: by a client, and as many threads as share a worker's memory.

    Places that would not be sent to workers, as those with secrets, are refused before anything is written.
    """
    if request.client is None:
        yield request
        return
    for sent in (request.source, place):
        pickle.dumps(sent)
    with cluster_of(request.client) as client:
        yield replace(request, client=client, workers=max(client.nthreads().values(), default=1))


def run_workers(job: Job, todo: Iterator[Task], client: Any) -> Generator[tuple[Task, list[Chunk]]]:
    """Yield tasks and what was written by them, as they are done; the first error is raised."""
    from distributed import as_completed

    token = uuid.uuid4().hex
    # By a task rather than scattered: what a worker took along when it died is made again.
    with warnings.catch_warnings():
        # Dask warns of tasks of some megabytes, which an aggregation of very many files is.
        warnings.simplefilter("ignore", UserWarning)
        sent = client.submit(_sent, job, key=f"cfagg-job-{token}")
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
    """Return by how many slabs, or about how many tasks of a cluster, arrays are written, without a look at each."""
    count, batch = 0, _BATCH if cluster else 0
    for array, cuts in zip(arrays, slabs, strict=True):
        mean = array.nbytes / max(1, len(cuts))
        held = len(cuts) if array.absent is None else len(cuts.holding(~array.absent))
        count += -(-held // max(1, math.ceil(batch / max(1.0, mean))))
    return count


def _batches(job: Job, todo: Iterator[Task]) -> Iterator[list[Task]]:
    """Yield tasks that are given to a worker together."""
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


def _sent(job: Job) -> Job:
    """Return a job as workers hold it."""
    return job


def _write(job: Job, token: str, batch: list[Task]) -> Written:
    """Write slabs, in a worker."""
    with _making:
        writer = _writers.get(token)
        if writer is None:
            _writers.clear()
            writer = _writers[token] = SlabWriter(job, threading.Event())
    # Where writes are seen by who made them only, each task makes its own, and gives them back.
    forked = getattr(job.put, "forked", None)
    put = None if forked is None else forked()
    return [(task, writer.write(task, put)) for task in batch], put
