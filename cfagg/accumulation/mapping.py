"""The pass over the data: every chunk is read once and its partial sums are kept, by threads or by Dask workers."""

from __future__ import annotations

import itertools
import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.accumulation.journal import Journal
from cfagg.accumulation.partials import ChunkSums, Recipe, compute
from cfagg.accumulation.scratch import Scratch
from cfagg.errors import LimitError

__all__ = ["Progress", "map_by_dask", "map_by_threads", "threads_that_fit"]

Progress = Callable[[int, int], None]

#: A chunk as stored, decoded, and its partial sums are in memory together; so many times the chunk at most.
_COPIES = 3

#: Bytes of the array in one task of Dask: large enough that the way to the worker does not count.
_BATCH = 64 << 20


def threads_that_fit(recipe: Recipe, memory: int, workers: int) -> int:
    """Return the number of threads whose chunks fit in memory together; refuse a chunk that does not fit."""
    array, largest = recipe.window.array, recipe.window.array.dtype.itemsize
    for lengths in recipe.window.lengths:
        largest *= int(lengths.max(initial=0))
    need = largest * _COPIES
    if need > memory:
        raise LimitError(
            f"{array.store}: a chunk of array {array.path!r} has {largest:,} bytes and takes some {need:,} to sum, "
            f"more than memory={memory:,}; give more memory (--memory) or make smaller chunks"
        )
    return max(1, min(workers, memory // max(1, need)))


def map_by_threads(
    recipe: Recipe,
    todo: npt.NDArray[np.int64],
    stamps: npt.NDArray[np.int64],
    scratch: Scratch,
    journal: Journal,
    workers: int,
    progress: Progress | None,
) -> None:
    """Read chunks and keep their partial sums; the first error of any thread stops the others."""
    tally = _Tally(recipe, todo, progress)
    objects = recipe.window.objects

    def work(number: int) -> int:
        _keep(compute(recipe, number, _stamp(stamps, objects, number)), scratch, journal)
        return number

    if workers == 1 or len(todo) == 1:
        for number in todo.tolist():
            tally.add([work(number)])
        return
    for done in run_threads(work, iter(todo.tolist()), workers):
        tally.add([done])


def run_threads[T, R](work: Callable[[T], R], tasks: Iterator[T], workers: int) -> Iterator[R]:
    """Yield the results of tasks that a few threads share; the first error stops all of them and is raised."""
    results: queue.SimpleQueue[tuple[bool, Any]] = queue.SimpleQueue()
    drawing, stop = threading.Lock(), threading.Event()
    end = object()

    def loop() -> None:
        try:
            while not stop.is_set():
                with drawing:
                    task: Any = next(tasks, end)
                if task is end:
                    break
                results.put((True, work(task)))
            results.put((True, end))
        except BaseException as error:  # noqa: BLE001  it is raised again by the thread that waits
            results.put((False, error))

    threads = [threading.Thread(target=loop, name=f"cfagg-accumulate-{i}", daemon=True) for i in range(workers)]
    for t in threads:
        t.start()
    try:
        running = workers
        while running:
            good, outcome = results.get()
            if not good:
                raise outcome
            if outcome is end:
                running -= 1
            else:
                yield outcome
    finally:
        stop.set()
        for t in threads:
            t.join()


def map_by_dask(
    recipe: Recipe,
    todo: npt.NDArray[np.int64],
    stamps: npt.NDArray[np.int64],
    scratch: Scratch,
    journal: Journal,
    client: Any,
    progress: Progress | None,
) -> None:
    """Read chunks on the workers of a Dask cluster, which see the store by the same path; see `map_by_threads`."""
    from distributed import as_completed

    tally = _Tally(recipe, todo, progress)
    objects = recipe.window.objects
    batches = _batches(recipe, todo)
    # Sent once to every worker, not with every task.
    sent = client.scatter(recipe, broadcast=True, hash=False)

    def submit(numbers: list[int]) -> Any:
        seen = [_stamp(stamps, objects, n) for n in numbers]
        return client.submit(_compute_batch, sent, numbers, seen, pure=False)

    ahead = 2 * max(1, sum(client.nthreads().values()))
    pending = as_completed([submit(b) for b in itertools.islice(batches, ahead)], with_results=True, raise_errors=True)
    for future, batch in pending:
        for found in batch:
            _keep(found, scratch, journal)
        tally.add([int(f.record["number"]) for f in batch])
        future.release()
        following = next(batches, None)
        if following is not None:
            pending.add(submit(following))


def _compute_batch(recipe: Recipe, numbers: Sequence[int], stamps: Sequence[tuple[int, ...]]) -> list[ChunkSums]:
    """Return the partial sums of some chunks; runs on a worker."""
    return [compute(recipe, n, s, look=True) for n, s in zip(numbers, stamps, strict=True)]


def _batches(recipe: Recipe, todo: npt.NDArray[np.int64]) -> Iterator[list[int]]:
    """Yield numbers of chunks for one task each."""
    window = recipe.window
    mean = window.elements * window.array.dtype.itemsize / max(1, window.size)
    length = max(1, int(_BATCH // max(1.0, mean)))
    for i in range(0, len(todo), length):
        yield todo[i : i + length].tolist()


def _stamp(stamps: npt.NDArray[np.int64], objects: npt.NDArray[np.int64], number: int) -> tuple[int, ...]:
    return tuple(stamps[objects[number]].tolist())


def _keep(found: ChunkSums, scratch: Scratch, journal: Journal) -> None:
    """Write the partial sums of a chunk, then its record."""
    number = int(found.record["number"])
    for field, piece in found.pieces:
        scratch.write(field, number, memoryview(piece.reshape(-1).view(np.uint8)))
    journal.add(found.record)


class _Tally:
    """Counts bytes of chunks that are done."""

    def __init__(self, recipe: Recipe, todo: npt.NDArray[np.int64], progress: Progress | None) -> None:
        self._progress = progress
        if progress is None:
            return
        self._sizes = recipe.window.sizes(()) * recipe.window.array.dtype.itemsize
        self._total = int(self._sizes.sum())
        self._done = self._total - int(self._sizes[todo].sum())
        progress(self._done, self._total)

    def add(self, numbers: Sequence[int]) -> None:
        """Count chunks."""
        if self._progress is not None:
            self._done += int(sum(self._sizes[n] for n in numbers))
            self._progress(self._done, self._total)
