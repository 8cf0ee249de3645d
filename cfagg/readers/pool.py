"""Files kept open between reads: a bounded number, the least recently used is closed first."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from cfagg.readers import counters
from cfagg.readers.files import FileKey
from cfagg.readers.locks import LIBRARY

__all__ = ["Pool", "close_files", "open_files", "set_open_files"]

_pools: list[Pool] = []


class Pool:
    """Open files of one library; used only while the library lock is held.

    Parameters
    ----------
    opens : callable
        Opens a path.
    closes : callable
        Closes what `opens` gave.
    """

    def __init__(self, opens: Callable[[str], Any], closes: Callable[[Any], None]) -> None:
        self.opens = opens
        self.closes = closes
        self.limit = 64
        self.held: OrderedDict[FileKey, Any] = OrderedDict()
        self.inherited: list[Any] = []
        self.process = os.getpid()
        _pools.append(self)

    def get(self, key: FileKey) -> Any:
        """Return the open file, opening it where it is not."""
        if self.process != os.getpid():
            # A child shares file positions with its parent: it opens anew, and does not close what is not its own.
            self.inherited.append(self.held)
            self.held, self.process = OrderedDict(), os.getpid()
        if key in self.held:
            self.held.move_to_end(key)
            return self.held[key]
        self.shrink(self.limit - 1)
        # A file that was replaced is another file, and the handle of the old one is of no use any more.
        for old in [k for k in self.held if k.path == key.path]:
            self.closes(self.held.pop(old))
        opened = self.opens(key.path)
        counters.add(files=1)
        self.held[key] = opened
        return opened

    def shrink(self, limit: int) -> None:
        """Close files until at most `limit` are open."""
        while len(self.held) > max(limit, 0):
            self.closes(self.held.popitem(last=False)[1])


def set_open_files(limit: int) -> None:
    """Set how many files each library keeps open between reads, 64 at first and at least 1.

    Examples
    --------
    >>> set_open_files(16)
    >>> set_open_files(64)
    """
    with LIBRARY:
        for pool in _pools:
            pool.limit = max(int(limit), 1)
            pool.shrink(pool.limit)


def close_files() -> None:
    """Close the files kept open; a later read opens them again.

    Examples
    --------
    >>> close_files()
    >>> open_files()
    0
    """
    with LIBRARY:
        for pool in _pools:
            pool.shrink(0)


def open_files() -> int:
    """Return how many files are open now."""
    return sum(len(pool.held) for pool in _pools)
