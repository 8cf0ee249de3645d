"""Decoded blocks of rows, kept in bounded memory and shared by all datasets of a process.

A block that one thread decodes is not decoded by another at the same time: the other waits for it.  A forked process
starts with what its parent had (the system shares that memory until it is written to) and has its own budget from then
on.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections import OrderedDict
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.errors import LimitError

__all__ = ["BlockCache", "Loading", "set_cache_size", "shared_cache"]

Block = npt.NDArray[np.uint8]

#: Bytes that decoded blocks of a process may take together.
DEFAULT_BUDGET = 256 * 2**20


class Loading:
    """Blocks that one thread is loading at this moment; others wait for them."""

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
        """Return what there is of blocks, the positions that the caller loads, and its own `Loading`."""
        # What the caller loads it must `settle`, also where loading fails.
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
        """Take loaded blocks, and wake those who wait; `keys` without a block have failed."""
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
        """Change the budget in bytes; what does not fit any more is dropped, the oldest first."""
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
        # Threads that were loading are not in this process.
        self._loading = {}
        self._lock = threading.Lock()


_caches: weakref.WeakSet[BlockCache] = weakref.WeakSet()
_registering = threading.Lock()
_held: list[BlockCache] = []


def _before_fork() -> None:
    """Fork while no thread changes a cache, so that the new process finds it whole."""
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


if hasattr(os, "register_at_fork"):
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
        It is negative.

    Examples
    --------
    >>> set_cache_size(64 * 2**20)
    >>> set_cache_size(256 * 2**20)
    """
    size: Any = nbytes
    if isinstance(size, bool) or not isinstance(size, int) or size < 0:
        raise LimitError(f"the size of a cache is a number of bytes, 0 or more; found {nbytes!r}")
    shared_cache.resize(size)
