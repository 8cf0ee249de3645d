"""Files that libraries keep open between reads: a bounded number, of which the least recently used is closed first."""

from __future__ import annotations

import errno
import os
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from cfagg.formats.values.locks import LIBRARY
from cfagg.storage import counters
from cfagg.storage.files import FileKey, Handle, close_read, on_pressure, relieve
from cfagg.storage.handles import handles, share_of_open_files
from cfagg.storage.urls import is_url

__all__ = ["Pool", "close_files", "open_files", "set_open_files"]


class Pool:
    """Open files of one library; used only while the library lock is held."""

    def __init__(self, opens: Callable[[Handle], Any], closes: Callable[[Any], None]) -> None:
        self.opens = opens
        self.closes = closes
        self._limit: int | None = None
        self.held: OrderedDict[FileKey, Any] = OrderedDict()
        #: Who holds each file, see `cfagg.formats.values.holding`.
        self.holders: dict[FileKey, set[object]] = {}
        self.inherited: list[Any] = []
        self.process = os.getpid()
        LIBRARY.pools.append(self)

    @property
    def limit(self) -> int:
        """Number of files that are kept open."""
        if self._limit is None:
            self._limit = max(share_of_open_files() // 2, 2)
        return self._limit

    @limit.setter
    def limit(self, limit: int) -> None:
        self._limit = max(limit, 1)
        self.shrink(self._limit)

    def has(self, handle: Handle) -> bool:
        """Return whether the library has a file open."""
        if self.process != os.getpid():
            # A child process shares file positions with its parent: it opens files again, and leaves the others open.
            self.inherited.append(self.held)
            self.held, self.holders, self.process = OrderedDict(), {}, os.getpid()
        return handle.key in self.held

    def get(self, handle: Handle) -> Any:
        """Return the library's object for a file, which is opened if necessary."""
        key = handle.key
        if self.has(handle):
            self.held.move_to_end(key)
            return self.held[key]
        self.shrink(self.limit - 1)
        # A file that was replaced is another file, and the handle of the old one is no longer useful.
        for old in [k for k in self.held if k.path == key.path]:
            self.closes(self.held.pop(old))
        opened = self._open(handle)
        counters.add(files=1)
        self.held[key] = opened
        return opened

    def _open(self, handle: Handle) -> Any:
        while True:
            try:
                opened = self.opens(handle)
                break
            except (OSError, RuntimeError) as error:
                if not (_is_exhausted(error, handle) and relieve()):
                    raise
        if not handle.is_unchanged():
            self.closes(opened)
            raise OSError(errno.ESTALE, "it was written or replaced while it was opened")
        return opened

    def drop(self, handle: Handle) -> None:
        """Close a file, if the library has it open."""
        if self.has(handle):
            self.closes(self.held.pop(handle.key))

    def close_local(self) -> None:
        """Close what is not held; files on servers, which nobody locks, would cost requests to open again."""
        if self.process == os.getpid():
            for key in [k for k in self.held if not (self.holders.get(k) or is_url(k.path))]:
                self.holders.pop(key, None)
                self.closes(self.held.pop(key))

    def shrink(self, limit: int) -> bool:
        """Close files until at most `limit` are open; return whether there were more."""
        more = len(self.held) > max(limit, 0)
        while len(self.held) > max(limit, 0):
            self.closes(self.held.popitem(last=False)[1])
        return more


def _is_exhausted(error: OSError | RuntimeError, handle: Handle) -> bool:
    """Return whether a library failed because the process has too many open files; not every library reports this."""
    if getattr(error, "errno", None) in (errno.EMFILE, errno.ENFILE):
        return True
    if handle.data is not None:
        return False
    spare: list[int] = []
    try:
        # The number of files that a library opens for one.
        spare.extend(os.dup(handle.fd) for _ in range(3))
    except OSError as found:
        return found.errno in (errno.EMFILE, errno.ENFILE)
    finally:
        for fd in spare:
            close_read(fd)
    return False


def _relieve() -> bool:
    """Close half of the files that libraries keep open, and lower the limit; the last used may be in use."""
    with LIBRARY:
        held = [(pool, len(pool.held)) for pool in LIBRARY.pools if pool.process == os.getpid()]
        for pool, n in held:
            if n > 1:
                pool.limit = n // 2
        return any(len(pool.held) < n for pool, n in held)


on_pressure(_relieve)


def set_open_files(limit: int) -> None:
    """Set how many files stay open between reads, and how many of them by each library; at least 1."""
    handles.limit = limit
    with LIBRARY:
        for pool in LIBRARY.pools:
            pool.limit = int(limit)


def close_files() -> None:
    """Close all files that are kept open; a later read opens them again."""
    with LIBRARY:
        for pool in LIBRARY.pools:
            pool.shrink(0)
    handles.shrink(0)


def open_files() -> int:
    """Return the number of files kept open; a file that libraries also have open counts once for each."""
    return len(handles) + sum(len(pool.held) for pool in LIBRARY.pools)
