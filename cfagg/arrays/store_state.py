"""The state of a Zarr store: of the metadata, and of the chunks of some arrays, that were read from it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from typing import Any

from cfagg.formats.metadata.stores import LocalStore
from cfagg.formats.metadata.url import store_at
from cfagg.storage.access import Seen
from cfagg.storage.urls import Url

__all__ = ["Documents", "state_now"]


class Documents:
    """A Zarr store that records which metadata were read from it."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self._read: dict[str, bytes] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def read(self, key: str) -> bytes | None:
        """Return a document, or `None` if it does not exist."""
        found: bytes | None = self._store.read(key)
        if found is not None:
            self._read[key] = found
        return found

    def state(self, arrays: Sequence[str]) -> tuple[Seen, int, str] | None:
        """Return what was read of metadata and arrays, and size and digest of it; `None` if metadata have changed."""
        if not self._store.is_remote and any(self._store.read(key) != found for key, found in self._read.items()):
            return None
        return (tuple(self._read), tuple(arrays)), *_state(self._store, self._read, arrays)


def state_now(place: str, links: Iterable[str], seen: Seen) -> tuple[int, str] | None:
    """Return the present size and digest of what was read of a store, or `None` if all its metadata are gone."""
    store = store_at(place) if isinstance(place, Url) else LocalStore(place, links)
    documents, arrays = seen
    if any(".." in path.split("/") for path in arrays):  # of an index that leads out of the store
        return None
    found = {key: raw for key in documents if (raw := store.read(key)) is not None}
    return _state(store, found, arrays) if found else None


def _state(store: Any, found: Mapping[str, bytes], arrays: Sequence[str]) -> tuple[int, str]:
    """Return size and digest of metadata and, in a directory, of the chunks of arrays."""
    digest, size = sha256(), 0
    for key, raw in found.items():
        size += len(raw)
        digest.update(b"%b\0%d\0%b" % (key.encode("utf-8", "surrogatepass"), len(raw), raw))
    for path in [] if store.is_remote else arrays:
        for folder, folders, names in os.walk(f"{store.path}/{path.lstrip('/')}"):
            folders.sort()
            for name in sorted(names):
                state = ""
                with suppress(OSError):  # such as for a link to nothing
                    status = os.stat(f"{folder}/{name}")  # noqa: PTH116 - Path costs more
                    state = f"{status.st_size}\0{status.st_mtime_ns}\0{status.st_ino}"
                own = f"{folder.removeprefix(store.path)}/{name}\0{state}\n"
                digest.update(own.encode("utf-8", "surrogatepass"))
    return size, digest.hexdigest()
