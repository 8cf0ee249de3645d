"""The single pool of open files that all readers use, so that each file is opened once.

cfagg's own parsers read from a handle of the pool, and libraries open its `library_path`.  The pool only holds
references: a handle that is dropped while a thread still reads from it is closed when that thread is done.
"""

from __future__ import annotations

import os
import resource
import threading
from collections import OrderedDict

from cfagg.errors import CfaggError
from cfagg.storage.files import CONTEXT_SOURCE, Context, FileKey, Handle, absent, on_pressure, open_regular
from cfagg.storage.urls import Url

__all__ = ["Handles", "handles", "share_of_open_files"]


def share_of_open_files() -> int:
    """Return how many files one pool keeps open: an eighth of the open-file limit of the process, from 4 to 128."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return 128 if most == resource.RLIM_INFINITY else min(max(most // 8, 4), 128)


class Handles:
    """Open files, by default as many as `share_of_open_files`; the least recently used is dropped first.

    A child process inherits the descriptors and can keep using them, because all reads are positioned.
    """

    def __init__(self, limit: int | None = None) -> None:
        self._limit = limit
        self._held: OrderedDict[str, Handle] = OrderedDict()
        self._reset()
        os.register_at_fork(after_in_child=self._reset)
        on_pressure(self._halve)

    def _reset(self) -> None:
        # The lock may have been held by a thread that does not exist in the child.
        self._lock = threading.Lock()

    @property
    def limit(self) -> int:
        """Maximum number of files that are kept open."""
        if self._limit is None:
            self._limit = share_of_open_files()
        return self._limit

    @limit.setter
    def limit(self, limit: int) -> None:
        self._limit = max(int(limit), 1)
        self.shrink(self._limit)

    def __len__(self) -> int:
        return len(self._held)

    def get(self, path: str, context: Context = CONTEXT_SOURCE) -> Handle:
        """Return the file that is at `path` now; errors are those of `cfagg.storage.files.open_regular`."""
        handle = self._held.get(path)
        if isinstance(path, Url):
            return self._remote(path, handle, context)
        if handle is not None:
            try:
                found = os.stat(path)  # noqa: PTH116
            except (OSError, ValueError):
                found = None
            key = handle.key
            if found is not None and key[1:] == (
                found.st_dev,
                found.st_ino,
                found.st_size,
                found.st_mtime_ns,
                found.st_ctime_ns,
            ):
                return self._used(path, handle)
        return self._keep(path, open_regular(path, context))

    def of(self, key: FileKey, context: Context = CONTEXT_SOURCE) -> Handle:
        """Return the file whose key is `key`; ``context.broken`` is raised if it was written or replaced since."""
        handle = self._held.get(key.path)
        if handle is not None and handle.key.is_same_content(key):
            return self._used(key.path, handle)
        handle = self.get(key.path, context) if isinstance(key.path, Url) else open_regular(key.path, context)
        if not handle.key.is_same_content(key):
            handle.close()
            raise context.broken(
                context.said(f"{key.path} was written or replaced while it was read; read it again when it is complete")
            )
        return self._keep(key.path, handle)

    def _remote(self, url: Url, handle: Handle | None, context: Context) -> Handle:
        """Return a remote file in its current state."""
        from cfagg.storage.remote_file import RemoteHandle, open_remote

        if isinstance(handle, RemoteHandle) and handle.is_fresh():
            return self._used(url, handle)
        return self._keep(url, open_remote(url, context))

    def lacks(self, path: str) -> bool:
        """Return whether a file does not exist; one that cannot be reached counts as existing."""
        if not isinstance(path, Url):
            return absent(path)
        try:
            self.get(path)
        except FileNotFoundError:
            return True
        except CfaggError:
            return False
        return False

    def renew(self, url: Url, *, ahead: bool = False) -> Handle:
        """Return a remote file in its current state, requested again because the user is opening it now.

        A request made `ahead` of the actual opening also serves that opening.
        """
        from cfagg.storage.remote_file import RemoteHandle, open_remote

        held = self._held.get(url)
        if isinstance(held, RemoteHandle) and held.ahead and held.is_young():
            held.ahead = ahead
            return self._used(url, held)
        made = open_remote(url)
        made.ahead = ahead
        return self._keep(url, made)

    def apart(self, path: str) -> Handle:
        """Return a private handle of a file in its current state, for one reader that closes it."""
        if not isinstance(path, Url):
            return open_regular(path)
        from cfagg.storage.remote_file import RemoteHandle

        # Every response is compared with the state that was seen first, so what was read may be cached.
        found = self._remote(path, self._held.get(path), CONTEXT_SOURCE)
        return found.another() if isinstance(found, RemoteHandle) else found

    def _used(self, path: str, handle: Handle) -> Handle:
        with self._lock:
            if path in self._held:
                self._held.move_to_end(path)
        return handle

    def _keep(self, path: str, handle: Handle) -> Handle:
        limit = self.limit
        with self._lock:
            # Closed after the lock is released: a dropped handle is closed by its last reference.
            dropped = [self._held.pop(path, None)]
            while len(self._held) >= limit:
                dropped.append(self._held.popitem(last=False)[1])
            self._held[path] = handle
        del dropped
        return handle

    def shrink(self, limit: int) -> bool:
        """Drop files until at most `limit` are kept; return whether there were more."""
        with self._lock:
            dropped = [self._held.popitem(last=False)[1] for _ in range(len(self._held) - max(limit, 0))]
        return bool(dropped)

    def _halve(self) -> bool:
        """Halve the number of files that are kept from now on."""
        held = len(self._held)
        if held:
            self._limit = max(held // 2, 1)
        return self.shrink(held // 2)


#: The open files of this process.
handles = Handles()
