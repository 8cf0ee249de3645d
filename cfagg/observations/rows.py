"""Rows of an array, read by decoding only the blocks that hold them."""

from __future__ import annotations

import os
import threading
import uuid
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.errors import FragmentReadError, SelectionError
from cfagg.observations.arrays import StoredArray
from cfagg.observations.cache import Block, BlockCache, Loading, shared_cache
from cfagg.observations.lanes import Lane, damaged, open_lane
from cfagg.observations.source import Source
from cfagg.zarrs.codecs import DamagedError

__all__ = ["Rows"]

Columns = slice | Sequence[int] | npt.NDArray[np.int64] | None

#: Directories of so many stored objects are kept.
_LANES = 4096
#: Two pieces are read by one call where at most so many bytes lie between them, on this machine and elsewhere.
_GAP, _REMOTE_GAP = 2**14, 2**18
#: What is decoded by one thread at a time; less than this is not worth a second thread.
_SHARE = 2**22


class Rows:
    """The rows of one array of a store.

    Parameters
    ----------
    source : Source
        The store.
    array : StoredArray
        An array of one or two dimensions.
    cache : BlockCache, optional
        Where decoded blocks are kept; that of the process by default.
    cached : bool
        Whether they are kept at all.
    """

    def __init__(
        self, source: Source, array: StoredArray, *, cache: BlockCache | None = None, cached: bool = True
    ) -> None:
        self.source = source
        self.array = array
        self._cached = cached
        self._token = uuid.uuid4().hex
        self._own_cache = cache
        self._prepare()

    def _prepare(self) -> None:
        array = self.array
        self.shape = array.shape
        self.dtype = array.dtype
        self._width = array.shape[1] if len(array.shape) > 1 else 1
        self._lane_width = array.chunk[1] if len(array.chunk) > 1 else 1
        self._lane_count = -(-self._width // self._lane_width)
        self._lane_rows = array.chunk[0] if array.decoder is None else array.held[0]
        decoder = array.decoder
        self._swap = decoder is not None and decoder.swap
        self._lanes: dict[tuple[int, int], Lane] = {}
        # An independent, empty cache where blocks are not to be kept: loading is the same then.
        self._cache = (self._own_cache or shared_cache) if self._cached else BlockCache(0)

    def __getstate__(self) -> dict[str, Any]:
        return {"source": self.source, "array": self.array, "cached": self._cached, "token": self._token}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.source, self.array = state["source"], state["array"]
        self._cached, self._token = state["cached"], state["token"]
        self._own_cache = None
        self._prepare()

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        return f"<Rows {self.source.path}/{self.array.path} {self.shape} {self.dtype.name}>"

    def read(
        self,
        start: int,
        stop: int,
        columns: Columns = None,
        out: npt.NDArray[Any] | None = None,
    ) -> npt.NDArray[Any]:
        """Return rows.

        Parameters
        ----------
        start, stop : int
            The first row, and the one after the last.
        columns : slice or sequence of int, optional
            Columns in the order wanted; all by default.
        out : numpy.ndarray, optional
            Where to write them: C-contiguous, of the shape and type of the result.

        Returns
        -------
        numpy.ndarray, shape (rows, columns) or (rows,)
            C-contiguous and the caller's own.

        Raises
        ------
        SelectionError
            Rows or columns that the array does not have, or `out` of another form.
        FragmentReadError
            A chunk is damaged or not readable.
        """
        start, stop = self._bounds(start, stop)
        picked = self._columns(columns)
        shape = (stop - start, *([self._width] if len(self.shape) > 1 else []))
        final = (
            shape
            if picked is None
            else (shape[0], len(range(*picked.indices(self._width))) if isinstance(picked, slice) else len(picked))
        )
        if out is not None and (
            out.shape != final or out.dtype != self.dtype or not out.flags.c_contiguous or not out.flags.writeable
        ):
            raise SelectionError(
                f"out= needs a C-contiguous, writeable {self.dtype.name} array of shape {final}; found {out.dtype.name} {out.shape}"
            )
        whole = out if out is not None and picked is None else np.empty(shape, self.dtype)
        self._run(self._tasks(start, stop, whole))
        if self._swap:
            whole.byteswap(inplace=True)
        if picked is None:
            return whole
        if out is None:
            return np.ascontiguousarray(whole[:, picked])
        out[...] = whole[:, picked]
        return out

    def read_many(self, ranges: npt.ArrayLike, columns: Columns = None) -> list[npt.NDArray[Any]]:
        """Return the rows of several ranges, decoded by several threads.

        Parameters
        ----------
        ranges : array of int, shape (m, 2)
            Start and stop of each range.
        columns : slice or sequence of int, optional
            As of `read`.

        Returns
        -------
        list of numpy.ndarray
            One array for each range.

        Raises
        ------
        SelectionError, FragmentReadError
            As of `read`.
        """
        pairs = [self._bounds(a, b) for a, b in np.asarray(ranges).reshape(-1, 2).tolist()]
        picked = self._columns(columns)
        shapes = [(b - a, *([self._width] if len(self.shape) > 1 else [])) for a, b in pairs]
        wholes = [np.empty(shape, self.dtype) for shape in shapes]
        self._run([task for (a, b), whole in zip(pairs, wholes, strict=True) for task in self._tasks(a, b, whole)])
        if self._swap:
            for whole in wholes:
                whole.byteswap(inplace=True)
        return wholes if picked is None else [np.ascontiguousarray(whole[:, picked]) for whole in wholes]

    def prefetch(self, ranges: npt.ArrayLike) -> None:
        """Begin to read and decode rows in the background, so that a later `read` finds them in the cache.

        What would fill more than half of the cache is left out; errors are told by the later `read`.

        Parameters
        ----------
        ranges : array of int, shape (m, 2)
            Start and stop of each range.
        """
        room = self._cache.budget // 2
        row = self._width * self.dtype.itemsize
        for a, b in np.asarray(ranges).reshape(-1, 2).tolist():
            start, stop = self._bounds(a, b)
            room -= (stop - start) * row
            if room < 0:
                return
            for task in self._tasks(start, stop, None):
                _background().submit(_quietly, task)

    def _bounds(self, start: Any, stop: Any) -> tuple[int, int]:
        try:
            a, b = start.__index__(), stop.__index__()
        except AttributeError:
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
        if (
            picked.ndim != 1
            or picked.dtype.kind not in "iu"
            or (picked.size and not (0 <= picked.min() and picked.max() < self._width))
        ):
            raise SelectionError(f"{self!r} has no columns {columns!r}; it has {self._width}")
        return picked.astype(np.int64)

    def _tasks(self, start: int, stop: int, whole: npt.NDArray[Any] | None) -> list[Callable[[], None]]:
        """Return functions that fill the rows of `whole`, each its part; with `None`, that only fill the cache."""
        found: list[Callable[[], None]] = []
        row_bytes = self._lane_width * self.dtype.itemsize
        step = max(1, _SHARE // row_bytes)
        at = start
        while at < stop:
            row = at // self._lane_rows
            first = row * self._lane_rows
            end = min(stop, first + self._lane_rows, at + 2 * step if stop - at > 2 * step else stop)
            for column in range(self._lane_count):
                found.append(_Part(self, row, column, at - first, end - first, at - start, whole))
            at = end
        return found

    def _run(self, tasks: list[Callable[[], None]]) -> None:
        if len(tasks) <= 1:
            for task in tasks:
                task()
            return
        for _ in _workers().map(lambda task: task(), tasks):
            pass

    def _lane(self, row: int, column: int) -> Lane:
        """Return the directory of a stored object."""
        # Without a lock, which a fork could leave locked: at worst two threads read the same directory.
        lanes = self._lanes
        lane = lanes.get((row, column))
        if lane is None:
            lane = open_lane(self.source, self.array, row, column)
            if len(lanes) >= _LANES:
                self._lanes = lanes = {}
            lanes[row, column] = lane
        return lane

    def _blocks(self, row: int, column: int, lane: Lane, first: int, last: int) -> list[Block]:
        """Return decoded units of a lane, from the cache or the store."""
        token = self._token
        keys = [(token, row, column, u) for u in range(first, last)]
        held, mine, loading = self._cache.claim(keys)
        if mine:
            wanted = [keys[i] for i in mine]
            found: dict[Any, Block] = {}
            try:
                for i, block in zip(mine, self._load(lane, [first + i for i in mine]), strict=True):
                    found[keys[i]] = block
                    held[i] = block
            finally:
                self._cache.settle(loading, wanted, found)
        blocks: list[Block] = []
        for i, entry in enumerate(held):
            if isinstance(entry, Loading):
                entry.done.wait()
                other = entry.found.get(keys[i])
                # Where the other thread has failed, this one finds its own reason.
                blocks.append(self._load(lane, [first + i])[0] if other is None else other)
            else:
                blocks.append(entry)
        return blocks

    def _load(self, lane: Lane, units: list[int]) -> list[Block]:
        """Return units, read from the store by few calls and decoded."""
        sizes = [min(lane.unit, lane.total - u * lane.unit) for u in units]
        if lane.starts is None or lane.stops is None:
            return [self._fill(n) for n in sizes]
        starts, stops = lane.starts[units].tolist(), lane.stops[units].tolist()
        order = sorted((i for i in range(len(units)) if starts[i] >= 0), key=starts.__getitem__)
        gap = _REMOTE_GAP if self.source.remote else _GAP
        runs: list[list[int]] = []
        end = 0
        for i in order:
            if runs and starts[i] - end <= gap:
                runs[-1].append(i)
            else:
                runs.append([i])
            end = max(end, stops[i])
        spans = [(starts[run[0]], max(stops[i] for i in run) - starts[run[0]]) for run in runs]
        out: list[Block | None] = [None] * len(units)
        for run, (begin, count), stored in zip(runs, spans, self.source.read_ranges(lane.key, spans), strict=True):
            if len(stored) != count:
                raise damaged(self.source, lane.key, f"it ends before byte {begin + count:,}")
            view = memoryview(stored)
            for i in run:
                try:
                    block = lane.decode(view[starts[i] - begin : stops[i] - begin], sizes[i])
                except DamagedError as error:
                    raise damaged(self.source, lane.key, f"unit {units[i]}: {error}") from error
                block.flags.writeable = False
                out[i] = block
        return [self._fill(n) if block is None else block for n, block in zip(sizes, out, strict=True)]

    def _fill(self, nbytes: int) -> Block:
        """Return what stands for elements that are not stored."""
        stored = self.dtype.newbyteorder() if self._swap else self.dtype
        return np.full(nbytes // self.dtype.itemsize, self.array.fill_value, stored).view(np.uint8)


class _Part:
    """One piece of work: some rows of one lane."""

    __slots__ = ("at", "column", "high", "low", "row", "rows", "whole")

    def __init__(
        self, rows: Rows, row: int, column: int, low: int, high: int, at: int, whole: npt.NDArray[Any] | None
    ) -> None:
        self.rows, self.row, self.column, self.low, self.high, self.at, self.whole = (
            rows,
            row,
            column,
            low,
            high,
            at,
            whole,
        )

    def __call__(self) -> None:
        rows = self.rows
        lane = rows._lane(self.row, self.column)
        row_bytes = rows._lane_width * rows.dtype.itemsize
        low, high = self.low * row_bytes, self.high * row_bytes
        first, last = low // lane.unit, -(-high // lane.unit)
        blocks = rows._blocks(self.row, self.column, lane, first, last)
        whole = self.whole
        if whole is None:
            return
        count = self.high - self.low
        if rows._lane_count == 1 and rows._lane_width == rows._width:
            start = self.at * row_bytes
            memory = whole.reshape(-1).view(np.uint8)[start : start + count * row_bytes]
            _copy(blocks, low - first * lane.unit, memory)
            return
        memory = np.empty(count * row_bytes, np.uint8)
        _copy(blocks, low - first * lane.unit, memory)
        left = self.column * rows._lane_width
        right = min(left + rows._lane_width, rows._width)
        values = memory.view(rows.dtype).reshape(count, -1)[:, : right - left]
        if whole.ndim == 1:
            whole[self.at : self.at + count] = values[:, 0]
        else:
            whole[self.at : self.at + count, left:right] = values


def _copy(blocks: Iterable[Block], skip: int, memory: Block) -> None:
    """Copy blocks one after another into memory, without the first `skip` bytes, as far as it goes."""
    at = 0
    for block in blocks:
        part = block[skip : skip + memory.size - at]
        memory[at : at + part.size] = part
        at += part.size
        skip = 0


def _quietly(task: Callable[[], None]) -> None:
    """Run a task of which nobody waits for the result; a damaged chunk is told when it is read."""
    try:
        task()
    except FragmentReadError:
        return


_pools: dict[str, ThreadPoolExecutor] = {}
_pools_lock = threading.Lock()


def _pool(name: str) -> ThreadPoolExecutor:
    with _pools_lock:
        pool = _pools.get(name)
        if pool is None:
            threads = min(8, max(2, os.process_cpu_count() or 2)) if hasattr(os, "process_cpu_count") else 2
            pool = _pools[name] = ThreadPoolExecutor(threads, f"cfagg-{name}")
        return pool


def _workers() -> ThreadPoolExecutor:
    """Return the threads that decode what a caller waits for."""
    return _pool("rows")


def _background() -> ThreadPoolExecutor:
    """Return the threads that decode ahead."""
    return _pool("ahead")


def _after_fork() -> None:
    """Forget threads that only the parent has."""
    global _pools_lock  # noqa: PLW0603
    _pools_lock = threading.Lock()
    _pools.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
