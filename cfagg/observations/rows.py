"""Rows of an array, read by decoding only the blocks that contain them."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.errors import CfaggError, LimitError, SelectionError
from cfagg.formats.codecs import check_chunk
from cfagg.observations.arrays import StoredArray
from cfagg.observations.cache import BlockCache, BlockReader, shared_cache
from cfagg.runtime.budget import processors
from cfagg.storage.store import Source

__all__ = ["MAX_SMALL", "Rows", "ahead", "read_small", "workers"]

#: Largest size in bytes of an array that is read whole, such as statistics.
MAX_SMALL = 2**26

Columns = slice | Sequence[int] | npt.NDArray[np.int64] | None

#: Decoded bytes per thread; for fewer, a second thread costs more than it saves.
_SHARE = 2**22


class Rows:
    """The rows of one array of a store; picklable, and safe to read from several threads."""

    def __init__(
        self,
        source: Source,
        array: StoredArray,
        *,
        cache: BlockCache | None = None,
        cached: bool = True,
        complete: bool = False,
    ) -> None:
        # If `complete`, an absent chunk is an error, else its rows are fill values.
        if len(array.shape) not in (1, 2):
            raise SelectionError(
                f"{source.path}: array {array.path!r} has the shape {array.shape}; rows have one or two dimensions"
            )
        self.source, self.array = source, array
        self.shape, self.dtype = array.shape, array.dtype
        self._cached, self._complete = cached, complete
        self._prepare(cache, None)

    def _prepare(self, cache: BlockCache | None, token: str | None) -> None:
        array = self.array
        # If blocks are not to be kept, a cache of size 0 lets reading take the same path.
        used = (shared_cache if cache is None else cache) if self._cached else BlockCache(0)
        self._reader = BlockReader(self.source, array, used, token, complete=self._complete)
        self._width = array.shape[1] if len(array.shape) > 1 else 1
        self._part_width = array.chunk[1] if len(array.chunk) > 1 else 1
        self._parts = -(-self._width // self._part_width)
        self._object_rows = array.chunk[0] if array.unit_decoder is None else array.held[0]
        # A thread takes whole chunks, unless it can decode parts of them.
        chunk = 1 if array.blosc or (array.unit_decoder is not None and array.unit_decoder.plain) else array.chunk[0]
        share = _SHARE // (self._part_width * self.dtype.itemsize)
        self._step = max(1, share // chunk) * chunk

    def __getstate__(self) -> dict[str, Any]:
        return {
            "source": self.source, "array": self.array, "cached": self._cached, "complete": self._complete,
            "token": self._reader.token,
        }  # fmt: skip

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.source, self.array = state["source"], state["array"]
        self._cached, self._complete = state["cached"], state["complete"]
        self.shape, self.dtype = self.array.shape, self.array.dtype
        self._prepare(None, state["token"])

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        return f"<Rows of {self.source.path}/{self.array.path} {self.shape} {self.dtype.name}>"

    def read(self, start: int, stop: int, columns: Columns = None) -> npt.NDArray[Any]:
        """Return a C-contiguous copy of rows, with all or some columns."""
        start, stop = self._bounds(start, stop)
        picked = self._columns(columns)
        whole = self._empty(stop - start)
        self._run(self._tasks(start, stop, whole), whole.nbytes)
        return self._finished(whole, picked)

    def read_many(self, ranges: npt.ArrayLike, columns: Columns = None) -> list[npt.NDArray[Any]]:
        """Return the rows of several ranges, int (m, 2), decoded by several threads."""
        pairs = self._pairs(ranges)
        picked = self._columns(columns)
        wholes = [self._empty(b - a) for a, b in pairs]
        tasks = [task for (a, b), whole in zip(pairs, wholes, strict=True) for task in self._tasks(a, b, whole)]
        self._run(tasks, sum(whole.nbytes for whole in wholes))
        return [self._finished(whole, picked) for whole in wholes]

    def prefetch(self, ranges: npt.ArrayLike) -> None:
        """Start reading and decoding rows in the background, so that a later `read` finds them in the cache."""
        # Ranges that would fill more than half of the cache are left out, from the first such on, and so are those
        # beyond a long queue.  Errors are raised by the later `read`.
        room = self._reader.cache.budget // 2
        for start, stop in self._pairs(ranges):
            room -= (stop - start) * self._width * self.dtype.itemsize
            if room < 0:
                return
            for task in self._tasks(start, stop, None):
                if not ahead(partial(_quietly, task)):
                    return

    def _pairs(self, ranges: npt.ArrayLike) -> list[tuple[int, int]]:
        found = np.asarray(ranges)
        if found.size == 0:
            return []
        if found.ndim != 2 or found.shape[1] != 2 or found.dtype.kind not in "iu":
            raise SelectionError(
                f"ranges of rows are whole numbers of shape (m, 2); found {found.dtype.name} of shape {found.shape}"
            )
        return [self._bounds(a, b) for a, b in found.tolist()]

    def _bounds(self, start: Any, stop: Any) -> tuple[int, int]:
        try:
            a, b = start.__index__(), stop.__index__()
        except (AttributeError, TypeError):
            raise SelectionError(f"rows are selected by whole numbers; found {start!r} to {stop!r}") from None
        if not 0 <= a <= b <= self.shape[0]:
            raise SelectionError(f"{self!r} has no rows {a} to {b}; it has {self.shape[0]:,}")
        return a, b

    def _columns(self, columns: Columns) -> slice | npt.NDArray[np.int64] | None:
        if columns is None:
            return None
        if len(self.shape) < 2:
            raise SelectionError(f"{self!r} has no columns to select")
        if isinstance(columns, slice):
            return columns
        picked = np.asarray(columns)
        if picked.ndim != 1 or (picked.size and picked.dtype.kind not in "iu"):
            raise SelectionError(f"columns are selected by a slice or a sequence of whole numbers; found {columns!r}")
        if picked.size and (picked.min() < 0 or picked.max() >= self._width):
            raise SelectionError(f"{self!r} has no columns {picked.tolist()}; it has {self._width}")
        return picked.astype(np.int64)

    def _empty(self, rows: int) -> npt.NDArray[Any]:
        return np.empty((rows, self._width) if len(self.shape) > 1 else (rows,), self.dtype)

    def _finished(self, whole: npt.NDArray[Any], picked: slice | npt.NDArray[np.int64] | None) -> npt.NDArray[Any]:
        """Convert the stored byte order to the native one, and return a copy of the columns."""
        decoder = self.array.unit_decoder
        if decoder is not None and decoder.swap:
            whole.byteswap(inplace=True)
        if picked is None:
            return whole
        if isinstance(picked, slice):
            return np.ascontiguousarray(whole[:, picked])
        # The mode "clip" avoids another check of every number.
        return np.take(whole, picked, axis=1, mode="clip")

    def _tasks(self, start: int, stop: int, whole: npt.NDArray[Any] | None) -> list[Callable[[], None]]:
        """Return functions that each fill a part of `whole`, or only the cache if it is `None`."""
        found: list[Callable[[], None]] = []
        at = start
        while at < stop:
            row, within = divmod(at, self._object_rows)
            first = at - within
            # Parts end at the ends of chunks, so that no chunk is decoded twice.
            end = min(stop, first + self._object_rows, first + (within // self._step + 1) * self._step)
            found += [
                partial(self._fill, row, column, within, end - first, at - start, whole)
                for column in range(self._parts)
            ]
            at = end
        return found

    def _fill(self, row: int, column: int, low: int, high: int, at: int, whole: npt.NDArray[Any] | None) -> None:
        """Fill rows of `whole` from `at` on with the rows `low` to `high` of one stored object."""
        size = self._part_width * self.dtype.itemsize
        count = high - low
        if whole is None:
            self._reader.fill(row, column, low * size, high * size, None)
        elif self._part_width == self._width:
            memory = whole.reshape(-1).view(np.uint8)[at * size : (at + count) * size]
            self._reader.fill(row, column, low * size, high * size, memory)
        else:
            check_chunk(count * size, f"{self.source.path}: a chunk of array {self.array.path!r}")
            memory = np.empty(count * size, np.uint8)
            self._reader.fill(row, column, low * size, high * size, memory)
            left = column * self._part_width
            right = min(left + self._part_width, self._width)
            whole[at : at + count, left:right] = memory.view(self.dtype).reshape(count, -1)[:, : right - left]

    def _run(self, tasks: list[Callable[[], None]], nbytes: int) -> None:
        """Run all tasks, by several threads if that is faster."""
        if len(tasks) < 2 or (nbytes < _SHARE and not self.source.remote):
            for task in tasks:
                task()
            return
        begun = [workers().submit(task) for task in tasks]
        # Wait even if one fails, since nothing may be written to the caller's memory after this returns.
        wait(begun)
        for done in begun:
            done.result()


def _quietly(task: Callable[[], None]) -> None:
    """Run a task whose result nobody waits for; the later read reports damage."""
    try:
        task()
    except CfaggError:
        return


def read_small(source: Source, array: StoredArray) -> npt.NDArray[Any]:
    """Return a small one-dimensional array, such as one statistic, whole."""
    size = math.prod(array.shape) * array.dtype.itemsize
    if size > MAX_SMALL:
        raise LimitError(f"{source.path}: array {array.path!r} has {size:,} bytes; at most {MAX_SMALL:,} are read")
    return Rows(source, array, cached=False).read(0, array.shape[0])


_MOST = 8
#: Largest number of queued tasks that nobody waits for.
_QUEUE = 512

_pools: dict[str, ThreadPoolExecutor] = {}
_lock = threading.Lock()
_room = threading.Semaphore(_QUEUE)


def workers() -> ThreadPoolExecutor:
    """Return the threads that decode for a waiting caller."""
    return _pool("rows")


def ahead(task: Callable[[], None]) -> bool:
    """Queue a task that nobody waits for; return whether the queue had room for it."""
    room = _room
    if not room.acquire(blocking=False):
        return False

    def run() -> None:
        try:
            task()
        finally:
            room.release()

    _pool("ahead").submit(run)
    return True


def _pool(name: str) -> ThreadPoolExecutor:
    with _lock:
        pool = _pools.get(name)
        if pool is None:
            pool = _pools[name] = ThreadPoolExecutor(min(_MOST, max(2, processors())), f"cfagg-{name}")
        return pool


def _after_fork() -> None:
    """Forget the parent's threads, which do not exist in this process."""
    global _lock, _room  # noqa: PLW0603
    _lock = threading.Lock()
    _room = threading.Semaphore(_QUEUE)
    _pools.clear()


os.register_at_fork(after_in_child=_after_fork)
