"""The index of one aggregation file, opened on demand, and its information on unchanged files."""

from __future__ import annotations

import os
import threading
import time
import warnings
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any

from cfagg.arrays.index import SUFFIX
from cfagg.arrays.index.digests import digest_of, state_of
from cfagg.arrays.index.rows import FileState
from cfagg.arrays.index.table import Index
from cfagg.errors import CfaggError, SourceError, SourceNotFoundError, StaleIndexWarning
from cfagg.formats.values.storage import StoredVariable
from cfagg.storage.files import Context, FileKey, Handle, look
from cfagg.storage.handles import handles
from cfagg.storage.urls import Url, a_place, absolute

__all__ = ["IndexLookup", "OpenedIndex", "lookup_for"]

#: Number of indexes that a process caches.
_KEPT = 4

#: First bytes of an index, and most missing indexes that are remembered.
_BEGIN, _MOST_ABSENT = b"PAR1", 1024

#: Seconds until a server is asked again after it had no index, and after it failed.
_TRUST, _SPARED = 2.0, 60.0

#: Time after which to request an index again.
_absent: dict[str, float] = {}
_lock = threading.Lock()
_opened: OrderedDict[FileKey, OpenedIndex] = OrderedDict()


@dataclass
class OpenedIndex:
    """An index, or none if it is damaged, and what has been found out about its files."""

    index: Index | None
    #: States of files that proved to have the same description, by file number.
    states: dict[int, FileState] = field(default_factory=dict)
    has_warned: bool = False


class IndexLookup:
    """Lookup of fragments in an index; it is pickled as the name of its file, or with an index that has no file."""

    def __init__(self, path: str, index: Index | None = None) -> None:
        self.path = path
        self._mine = None if index is None else OpenedIndex(index)

    def __getstate__(self) -> dict[str, Any]:
        return {"path": self.path, "index": None if self._mine is None else self._mine.index}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.path = state["path"]
        self._mine = None if state["index"] is None else OpenedIndex(state["index"])

    def __repr__(self) -> str:
        return f"<IndexLookup of {self.path}>"

    @property
    def name(self) -> str | None:
        """The file of the index, or `None` for an index in memory."""
        return self.path if self._mine is None else None

    @property
    def opened(self) -> OpenedIndex:
        """The index as currently in its file."""
        return self._mine or _open(self.path)

    def stored(self, handle: Handle, path: str, address: str, group: str) -> StoredVariable | None:
        """Return a variable of an open file, at a path or URL, or `None` if the index does not have it."""
        opened = self.opened
        index = opened.index
        i = None if index is None else index.files.get(path)
        if index is None or i is None:
            return None
        k = index.row(i, address)
        if k < 0 or not self.is_fresh(opened, i, handle):
            return None
        return index.stored(k, handle.key, address, group)

    def is_fresh(self, opened: OpenedIndex, i: int, handle: Handle) -> bool:
        """Return whether an open file is the one that the index describes."""
        index = opened.index
        if index is None:
            return False
        now = state_of(handle)
        if handle.data is not None and not now.etag:
            return False
        if now in (index.state(i), opened.states.get(i)):
            return True
        # A copy has other times and another inode, so the metadata of its variables are compared.
        digest = index.digest[i]
        is_alike = digest is not None and handle.data is None and now.size == int(index.size[i])
        if is_alike and digest_of(handle, index.ranges[i].tolist(), Context(handle.key.path)) == digest:
            opened.states[i] = now
            return True
        self.warn(opened, i)
        return False

    def warn(self, opened: OpenedIndex, i: int) -> None:
        """Warn once that files have changed."""
        if opened.has_warned or opened.index is None:
            return
        opened.has_warned = True
        warnings.warn(
            f"{opened.index.where(i)} has changed since the index {self.path} was built; changed files are read "
            "without the index: refresh it with cfagg index",
            StaleIndexWarning,
            stacklevel=2,
        )


def _open(path: str) -> OpenedIndex:
    """Return the index in a file, from the cache if the file is unchanged."""
    if _is_absent(path):
        return OpenedIndex(None)
    try:
        key = handles.get(path).key if isinstance(path, Url) else look(path)
    except CfaggError as error:
        # It may have been removed since the reader was made, or its server fails.
        _forgo(path, error)
        return OpenedIndex(None)
    with _lock:
        found = _opened.get(key)
    if found is None:
        from cfagg.arrays.index.parquet import DamagedIndexError, open_index

        try:
            found = OpenedIndex(open_index(path))
        except CfaggError as error:
            if not isinstance(error, DamagedIndexError):
                _forgo(path, error)
            warnings.warn(
                f"{error.message}; the index is not used: rebuild it with cfagg index",
                StaleIndexWarning,
                stacklevel=2,
            )
            found = OpenedIndex(None)
    with _lock:
        found = _opened.setdefault(key, found)
        _opened.move_to_end(key)
        while len(_opened) > _KEPT:
            _opened.popitem(last=False)
    return found


def _is_there(name: str) -> bool:
    """Return whether there is an index; if not, servers may return a page, or an access error."""
    if not isinstance(name, Url):
        return os.path.isfile(name)  # noqa: PTH113
    if _is_absent(name):
        return False
    try:
        found = handles.get(name).some(len(_BEGIN), 0) == _BEGIN
    except CfaggError as error:
        _forgo(name, error)
        return False
    if not found:
        _forgo(name)
    return found


def _is_absent(name: str) -> bool:
    return time.monotonic() < _absent.get(name, 0)


def _forgo(name: str, error: CfaggError | None = None) -> None:
    """Do not request a remote index for a while, since each attempt with a failing server takes seconds."""
    if not isinstance(name, Url):
        return
    if len(_absent) >= _MOST_ABSENT:
        _absent.clear()
    failed = isinstance(error, SourceError) and not isinstance(error, SourceNotFoundError)
    _absent[name] = time.monotonic() + (_SPARED if failed else _TRUST)


def _reset() -> None:
    global _lock  # noqa: PLW0603
    _lock = threading.Lock()  # it may have been held by a thread that does not exist in a forked child


os.register_at_fork(after_in_child=_reset)


def lookup_for(path: str, index: bool | str | os.PathLike[str] | Index | IndexLookup) -> IndexLookup | None:
    """Return the index for the aggregations in a file: the one named, or with `True` the one next to it, if any."""
    if isinstance(index, IndexLookup):
        return index
    if isinstance(index, Index):
        return IndexLookup(path, index)
    if index is False:
        return None
    name: str
    if index is True:
        name = path.beside(f"{path}{SUFFIX}") if isinstance(path, Url) else f"{path}{SUFFIX}"
    else:
        name = absolute(a_place(index, expected="name an index"))
        _absent.pop(name, None)  # it may just have been written
    if not _is_there(name):
        if index is True:
            return None
        raise SourceNotFoundError(f"there is no index {name}; build it with cfagg index")
    return IndexLookup(name)
