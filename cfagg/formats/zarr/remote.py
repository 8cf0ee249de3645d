"""Stored objects of remote Zarr stores: their bytes, and tags that show whether they have been written."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from copy import copy
from typing import Any

from cfagg.errors import FragmentReadError, LimitError, StaleError
from cfagg.formats.zarr.refused import read_or_absent
from cfagg.storage.places import source_of
from cfagg.storage.store import State
from cfagg.storage.urls import Url

__all__ = [
    "EDGE",
    "RemoteObject",
    "identity_of",
    "key_of",
    "number_of",
    "one_look",
    "open_object",
    "read_object",
    "remote_source",
    "states",
]

#: Bytes of a shard that are read first, at the end with its index.
EDGE = 1 << 16

#: Contents of documents by path, while each is requested only once.
_seen: ContextVar[dict[str, bytes | None] | None] = ContextVar("seen", default=None)


def remote_source(store: Url) -> Any:
    """Return the store at a URL, with its open connections."""
    return source_of(store, store.rstrip("/"))


def key_of(store: Url, path: str) -> str:
    """Return the key of a path in a store."""
    return path[len(store.rstrip("/")) + 1 :]


def number_of(text: str | bytes) -> int:
    """Return a 63-bit number that represents a text."""
    raw = text.encode() if isinstance(text, str) else text
    return int.from_bytes(hashlib.blake2b(raw, digest_size=8).digest()) >> 1


def identity_of(text: bytes) -> tuple[int, int]:
    """Return the identity of a document, derived from its text."""
    return number_of(text), len(text)


@contextmanager
def one_look() -> Iterator[None]:
    """Request each document only once until the block ends, so that later changes are detected by comparison."""
    # Nested in another block, it restarts that one.
    if (seen := _seen.get()) is not None:
        seen.clear()
        yield
        return
    token = _seen.set({})
    try:
        yield
    finally:
        _seen.reset(token)


def read_object(store: Url, path: str, most: int) -> bytes | None:
    """Return all bytes of an object, or `None` if there is none."""
    seen = _seen.get()
    if seen is None or path not in seen:
        known = None if store.recent is None else store.recent.part(key_of(store, path))
        found = read_or_absent(remote_source(store).read, key_of(store, path)) if known is None else known.body
        if seen is not None:
            seen[path] = found
    else:
        found = seen[path]
    if found is not None and len(found) > most:
        raise LimitError(f"{path} has {len(found):,} bytes; at most {most:,} are read")
    return found


def states(store: Url, folder: str, names: Sequence[str]) -> list[State | None]:
    """Return the state of objects below a folder, `None` for missing ones."""
    within = key_of(store, folder)
    found: list[State | None] = remote_source(store).states(within, names)
    if store.recent is not None:
        for name, state in zip(names, found, strict=True):
            store.recent.look(f"{within}/{name}", state)
    return found


class RemoteObject:
    """One object, read by ranges; its first bytes are kept, and all answers are of the same state."""

    def __init__(self, source: Any, key: str, head: Any, start: int) -> None:
        self._source, self._key, self._head, self._start = source, key, head.body, start
        self.size, self._tag, self._settled = int(head.size), head.tag, bool(head.tag) and head.settled

    @property
    def identity(self) -> tuple[int, ...] | None:
        """A tag that distinguishes its state from later ones, or `None` if there is none."""
        return (number_of(self._tag or ""), self.size) if self._settled else None

    def without_head(self) -> RemoteObject:
        """Return the same state without the kept bytes, so that every read is a request to the server."""
        found = copy(self)
        found._head = b""
        return found

    def pread(self, count: int, offset: int) -> bytes:
        """Return bytes from `offset` on; fewer if it ends before."""
        count = min(count, self.size - offset)
        if count <= 0:
            return b""
        at = offset - self._start
        if at >= 0 and at + count <= len(self._head):
            return bytes(self._head[at : at + count])
        found = self._source.part(self._key, offset, count)
        if found is None or (found.size, found.tag) != (self.size, self._tag):
            raise StaleError(f"{self._source.path}/{self._key} was written while it was read; read it again")
        if len(found.body) != count:
            raise FragmentReadError(f"{self._source.path}/{self._key} ends before its size of {self.size:,} bytes")
        return bytes(found.body)


def open_object(store: Url, path: str, count: int | None, source: Any = None) -> RemoteObject | None:
    """Open an object and read its first `count` bytes, or some last ones for `None`; `None` if there is none."""
    # `source` is the store as `remote_source` returns it, which callers that open many objects ask once.
    source, key = remote_source(store) if source is None else source, key_of(store, path)
    known = None if store.recent is None else store.recent.part(key)
    if known is not None:
        return RemoteObject(source, key, known, 0)
    head = source.part(key, 0 if count is not None else None, max(count, 1) if count is not None else EDGE)
    if head is None:
        return None
    if store.recent is not None and len(head.body) == head.size:
        store.recent.keep(key, head.body, head.tag)
    return RemoteObject(source, key, head, 0 if count is not None else head.size - len(head.body))
