"""Decoded blocks of rows, cached in bounded memory that all datasets of a process share."""

from __future__ import annotations

import os
import threading
import uuid
import weakref
from collections import OrderedDict
from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.errors import LimitError
from cfagg.formats.zarr.codecs import DamagedError
from cfagg.observations.arrays import StoredArray, StoredObject, damaged, open_object
from cfagg.storage.store import Source

__all__ = ["BlockCache", "BlockReader", "Loading", "set_cache_size", "shared_cache"]

Block = npt.NDArray[np.uint8]

#: Largest total size in bytes of the decoded blocks of a process.
DEFAULT_BUDGET = 256 * 2**20


class Loading:
    """Blocks that one thread is loading while others wait for them."""

    __slots__ = ("done", "found")

    def __init__(self) -> None:
        self.done = threading.Event()
        self.found: dict[Hashable, Block] = {}


class BlockCache:
    """The most recently used blocks that fit into a number of bytes; a budget of 0 keeps none."""

    def __init__(self, budget: int = DEFAULT_BUDGET) -> None:
        self.budget = budget
        self.used = 0
        self._blocks: OrderedDict[Hashable, Block] = OrderedDict()
        self._loading: dict[Hashable, Loading] = {}
        self._lock = threading.Lock()
        with _registering:
            _caches.add(self)

    def claim(self, keys: Sequence[Hashable]) -> tuple[list[Block | Loading], list[int], Loading | None]:
        """Return the cached blocks, the positions that the caller must load, and its own `Loading`."""
        # The caller must `settle` what it loads, even if loading fails.
        held: list[Block | Loading] = []
        mine: list[int] = []
        own: Loading | None = None
        blocks = self._blocks
        with self._lock:
            for i, key in enumerate(keys):
                block = blocks.get(key)
                if block is not None:
                    blocks.move_to_end(key)
                    held.append(block)
                    continue
                other = self._loading.get(key)
                if other is None:
                    if own is None:
                        own = Loading()
                    self._loading[key] = other = own
                    mine.append(i)
                held.append(other)
        return held, mine, own

    def settle(self, loading: Loading | None, keys: Sequence[Hashable], blocks: dict[Hashable, Block]) -> None:
        """Store loaded blocks and wake waiting threads; `keys` without a block have failed."""
        if loading is None:
            return
        loading.found = blocks
        with self._lock:
            for key in keys:
                if self._loading.get(key) is loading:
                    del self._loading[key]
            for key, block in blocks.items():
                self._keep(key, block)
        loading.done.set()

    def _keep(self, key: Hashable, block: Block) -> None:
        if 2 * block.nbytes > self.budget:
            return
        old = self._blocks.pop(key, None)
        self.used += block.nbytes - (0 if old is None else old.nbytes)
        self._blocks[key] = block
        self._shrink()

    def _shrink(self) -> None:
        while self.used > self.budget:
            _, dropped = self._blocks.popitem(last=False)
            self.used -= dropped.nbytes

    def resize(self, budget: int) -> None:
        """Change the budget in bytes; blocks that no longer fit are dropped, the oldest first."""
        with self._lock:
            self.budget = budget
            self._shrink()

    def clear(self) -> None:
        """Drop all blocks."""
        with self._lock:
            self._blocks.clear()
            self.used = 0

    def __len__(self) -> int:
        return len(self._blocks)

    def _after_fork(self) -> None:
        # Threads that were loading do not exist in this process.
        self._loading = {}
        self._lock = threading.Lock()


_caches: weakref.WeakSet[BlockCache] = weakref.WeakSet()
_registering = threading.Lock()
_held: list[BlockCache] = []


def _before_fork() -> None:
    """Lock all caches, so that the new process finds them consistent."""
    _registering.acquire()
    _held[:] = list(_caches)
    for cache in _held:
        cache._lock.acquire()


def _in_parent() -> None:
    for cache in _held:
        cache._lock.release()
    _held.clear()
    _registering.release()


def _in_child() -> None:
    for cache in _held:
        cache._after_fork()
    _held.clear()
    _registering.release()


os.register_at_fork(before=_before_fork, after_in_parent=_in_parent, after_in_child=_in_child)

#: The cache of this process.
shared_cache = BlockCache()


def set_cache_size(nbytes: int) -> None:
    """Set how much memory the decoded rows of all observation datasets of this process may take.

    Parameters
    ----------
    nbytes : int
        Bytes; 0 keeps nothing.  The default is 256 MiB.  Forked workers start with it, spawned ones with the default.

    Raises
    ------
    LimitError
        If it is negative.

    Examples
    --------
    >>> set_cache_size(64 * 2**20)
    >>> set_cache_size(256 * 2**20)
    """
    size: Any = nbytes
    if isinstance(size, bool) or not isinstance(size, int) or size < 0:
        raise LimitError(f"the size of a cache must be a number of bytes, 0 or more; found {nbytes!r}")
    shared_cache.resize(size)


#: Number of stored objects whose directories are cached.
_OBJECTS = 4096
#: Largest gap in bytes between two units that are read by one call, for local and for remote stores.
_GAP, _REMOTE_GAP = 2**14, 2**18


class BlockReader:
    """Reads ranges of the decoded bytes of an array's stored objects; many threads may use it."""

    # `token` identifies the units of this array in the cache.

    def __init__(
        self,
        source: Source,
        array: StoredArray,
        cache: BlockCache,
        token: str | None = None,
        *,
        complete: bool = False,
    ) -> None:
        self.source, self.array, self.cache, self.complete = source, array, cache, complete
        self.token = uuid.uuid4().hex if token is None else token
        self._objects: dict[tuple[int, int], StoredObject] = {}

    def at(self, row: int, column: int) -> StoredObject:
        """Return the directory of a stored object, by its number along the rows and its column of chunks."""
        # Without a lock, which a fork could leave locked; at worst two threads read the same directory.
        objects = self._objects
        obj = objects.get((row, column))
        if obj is None:
            obj = open_object(self.source, self.array, row, column)
            if len(objects) >= _OBJECTS:
                self._objects = objects = {}
            objects[row, column] = obj
        return obj

    def fill(self, row: int, column: int, start: int, stop: int, memory: Block | None) -> None:
        """Fill memory with bytes of a decoded object, in stored byte order; with `None` only fill the cache."""
        obj = self.at(row, column)
        if obj.plain is not None and not self.source.remote:
            # The operating system caches such bytes itself.
            if memory is not None:
                self._read_plain(obj, obj.plain + start, memory)
            return
        first, last = start // obj.unit, -(-stop // obj.unit)
        blocks = self._units(row, column, obj, first, last)
        if memory is not None:
            _copy(blocks, start - first * obj.unit, memory)

    def _units(self, row: int, column: int, obj: StoredObject, first: int, last: int) -> list[Block]:
        """Return decoded units, from the cache or the store."""
        token = self.token
        keys = [(token, row, column, u) for u in range(first, last)]
        held, mine, loading = self.cache.claim(keys)
        if mine:
            wanted = [keys[i] for i in mine]
            found: dict[Hashable, Block] = {}
            try:
                for i, block in zip(mine, self._load(obj, [first + i for i in mine]), strict=True):
                    found[keys[i]] = block
                    held[i] = block
            finally:
                self.cache.settle(loading, wanted, found)
        blocks: list[Block] = []
        for i, entry in enumerate(held):
            if isinstance(entry, Loading):
                entry.done.wait()
                other = entry.found.get(keys[i])
                # If the other thread has failed, this one tries again.
                blocks.append(self._load(obj, [first + i])[0] if other is None else other)
            else:
                blocks.append(entry)
        return blocks

    def _load(self, obj: StoredObject, units: list[int]) -> list[Block]:
        """Return decoded units, read from the store by few calls."""
        sizes = [min(obj.unit, obj.total - u * obj.unit) for u in units]
        if obj.starts is None or obj.stops is None:
            return [self._absent(obj, n) for n in sizes]
        starts, stops = obj.starts[units].tolist(), obj.stops[units].tolist()
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
        for run, (begin, count), stored in zip(runs, spans, self.source.read_ranges(obj.key, spans), strict=True):
            if len(stored) != count:
                raise damaged(self.source, obj.key, f"it ends before byte {begin + count:,}")
            view = memoryview(stored)
            for i in run:
                try:
                    block = obj.decode(view[starts[i] - begin : stops[i] - begin], sizes[i])
                except DamagedError as error:
                    raise damaged(self.source, obj.key, f"block {units[i]}: {error}") from error
                block.flags.writeable = False
                out[i] = block
        return [self._absent(obj, n) if block is None else block for n, block in zip(sizes, out, strict=True)]

    def _read_plain(self, obj: StoredObject, start: int, memory: Block) -> None:
        """Fill memory from an object whose elements are stored uncompressed."""
        stored = self.source.read_range(obj.key, start, memory.size)
        if len(stored) != memory.size:
            raise damaged(self.source, obj.key, f"it ends before byte {start + memory.size:,}")
        memory[:] = np.frombuffer(stored, np.uint8)

    def _absent(self, obj: StoredObject, nbytes: int) -> Block:
        """Return fill values for elements that are not stored, if they need not be."""
        if self.complete:
            raise damaged(self.source, obj.key, "it is absent, or a part of it is")
        array = self.array
        decoder = array.unit_decoder
        swap = decoder is not None and decoder.swap
        stored = array.dtype.newbyteorder() if swap else array.dtype
        return np.full(nbytes // array.dtype.itemsize, array.fill_value, stored).view(np.uint8)


def _copy(blocks: Iterable[Block], skip: int, memory: Block) -> None:
    """Fill memory from consecutive blocks, without their first `skip` bytes."""
    at = 0
    for block in blocks:
        part = block[skip : skip + memory.size - at]
        memory[at : at + part.size] = part
        at += part.size
        skip = 0
