"""Sources of the documents of a Zarr store: a directory, another machine, or an object in memory."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import Any, Protocol

from cfagg.errors import SourceError
from cfagg.formats.zarr.consolidated import is_growing
from cfagg.formats.zarr.documents import read_text
from cfagg.formats.zarr.metadata import Opens
from cfagg.formats.zarr.refused import read_or_absent
from cfagg.formats.zarr.settings import open_plainly
from cfagg.storage.tree import listed, prefixes

__all__ = ["AskedOnce", "LocalStore", "MemoryStore", "RemoteStore", "Store", "joined"]

#: Documents that describe a node of a store.
_DOCUMENTS = frozenset({".zarray", ".zattrs", ".zgroup", ".zmetadata", "zarr.json"})


class Store(Protocol):
    """The documents of a Zarr store."""

    #: Its name in messages.
    source: str
    #: Whether its contents can be listed.
    lists: bool
    #: Whether each document is a remote request, so that consolidated metadata are read first.
    is_remote: bool

    def read(self, key: str) -> bytes | None:
        """Return a document, or `None` if there is none."""

    def children(self, path: str) -> Iterator[str]:
        """Yield the names of possible groups and arrays in a group."""

    def array(self, path: str, format_: int) -> Any:
        """Return an array that is indexed by slices."""


def joined(path: str, name: str) -> str:
    """Return the key of a member of a group."""
    return f"{path}/{name}" if path else name


class LocalStore:
    """A store in a directory, in which links may point to allowed places."""

    lists, is_remote = True, False

    def __init__(self, path: str, allow: Iterable[str | os.PathLike[str]] = ()) -> None:
        self.source = path
        self.allow = prefixes(allow)
        self.path = path.rstrip("/") or "/"
        self._seen: set[tuple[int, int]] = set()

    @property
    def is_growing(self) -> bool:
        """Whether arrays may be ahead of what the root publishes."""
        return is_growing(self.path)

    def read(self, key: str) -> bytes | None:
        """Return a document, or `None` if there is none."""
        found = read_text(self.path, key, self.path, self.allow)
        return None if found is None else found[0]

    def children(self, path: str) -> Iterator[str]:
        """Yield the names of the directories in a group, except circular links."""
        folder = f"{self.path}/{path}" if path else self.path
        listed(self.path, folder, self.allow)
        try:
            status = os.stat(folder)  # noqa: PTH116
            if (status.st_dev, status.st_ino) in self._seen:
                return
            self._seen.add((status.st_dev, status.st_ino))
            with os.scandir(folder) as entries:
                names = sorted(e.name for e in entries if e.is_dir())
        except OSError as error:
            raise SourceError(f"{folder} cannot be listed: {error.strerror or error}") from error
        yield from names

    def array(self, path: str, format_: int) -> Any:
        """Return an array, opened with zarr-python."""
        from cfagg.formats.zarr.checked_store import CheckedStore
        from cfagg.formats.zarr.fallback import open_by_zarr

        return open_by_zarr(CheckedStore(self.path, allow=self.allow), path, format_)


class MemoryStore:
    """A store that zarr-python has opened, or the group in it to be checked."""

    lists, is_remote = True, False

    def __init__(self, store: Any, path: str, source: str) -> None:
        self.source = source
        self._store, self._path = store, path.strip("/")

    def read(self, key: str) -> bytes | None:
        """Return a document, or `None` if there is none."""
        from zarr.core.buffer import default_buffer_prototype
        from zarr.core.sync import sync

        found = sync(self._store.get(joined(self._path, key), default_buffer_prototype()))
        return None if found is None else bytes(found.to_bytes())

    def children(self, path: str) -> Iterator[str]:
        """Yield the names in a group."""
        from zarr.core.sync import sync

        async def names() -> list[str]:
            return [n async for n in self._store.list_dir("/".join(p for p in (self._path, path) if p))]

        yield from sorted(n.strip("/") for n in sync(names()))

    def keys(self, path: str) -> Iterator[str]:
        """Yield the keys of all objects below a node, relative to it."""
        from zarr.core.sync import sync

        begin = joined(self._path, path)
        begin = f"{begin}/" if begin else ""

        async def names() -> list[str]:
            return [n[len(begin) :] async for n in self._store.list_prefix(begin)]

        yield from sync(names())

    def array(self, path: str, format_: int) -> Any:
        """Return an array, opened with zarr-python."""
        from cfagg.formats.zarr.vetting import vetted

        name = "zarr.json" if format_ == 3 else ".zarray"
        raw = self.read(joined(path, name))
        if raw is not None:
            vetted(name, raw, joined(path, name))
        return open_plainly(self._store, "/".join(p for p in (self._path, path) if p), format_)


class AskedOnce:
    """A remote store in which each document and folder is requested once while it is opened."""

    def __init__(self, source: Any) -> None:
        self.source = source
        self._documents: dict[str, bytes | None] = {}
        self._children: dict[str, tuple[str, ...]] = {}

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "source":  # during unpickling
            raise AttributeError(name)
        return getattr(self.source, name)

    def read(self, key: str) -> bytes | None:
        """Return all bytes of a key."""
        if key.rpartition("/")[2] not in _DOCUMENTS:
            whole: bytes | None = self.source.read(key)
            return whole
        if key not in self._documents:
            self._documents[key] = self.source.read(key)
        return self._documents[key]

    def children(self, folder: str) -> Iterator[str]:
        """Yield the names of folders below a folder."""
        if folder not in self._children:
            self._children[folder] = tuple(self.source.children(folder))
        yield from self._children[folder]


class RemoteStore:
    """A remote store, whose contents are only known from consolidated metadata or object stores."""

    is_remote = True
    #: Opens the object at a path, if chunks are read and decoded here.
    opens: Opens | None = None

    def __init__(self, remote: Any, source: str) -> None:
        self.source = source
        self.remote = remote
        self.lists: bool = remote.lists

    def read(self, key: str) -> bytes | None:
        """Return a document, or `None` if there is none."""
        return read_or_absent(self.remote.read, key)

    def children(self, path: str) -> Iterator[str]:
        """Yield the names in a group; web servers do not list them."""
        yield from self.remote.children(path) if self.lists else ()

    def array(self, path: str, format_: int) -> Any:
        """Return an array, opened with zarr-python."""
        from cfagg.formats.metadata.remote_store import KeyStore

        return open_plainly(KeyStore(self.remote), path, format_)
