"""A Zarr store of references: its documents, and its chunks in other files, which the access policy must allow."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

from cfagg.conventions import limits
from cfagg.errors import AccessError, FragmentReadError, LimitError, SourceError, UnsupportedError
from cfagg.formats.codecs import check_chunk
from cfagg.formats.kerchunk import parquet
from cfagg.formats.kerchunk.references import MOST, Place, References, parse, unpacked
from cfagg.formats.metadata.stores import RemoteStore
from cfagg.storage.access import Access
from cfagg.storage.files import CONTEXT_SOURCE, Context, FileKey, Handle
from cfagg.storage.handles import handles
from cfagg.storage.tree import read_file
from cfagg.storage.urls import Url

__all__ = ["ReferenceStore", "ReferencedKeys", "is_directory", "local_name", "open_references", "references_of"]

_FILE = "file://"


def is_directory(path: str) -> bool:
    """Return whether a directory contains references in Parquet."""
    if not os.path.lexists(f"{path}/{parquet.MARK}") or os.path.lexists(f"{path}/.zgroup"):
        return False
    found = read_file(path, f"{path}/{parquet.MARK}", MOST)
    return found is not None and parquet.is_table(found[0])


class ReferencedKeys:
    """The objects of a store by key, like those of a remote store; pickled as the path of the references."""

    lists = True

    def __init__(self, path: str, table: References, allow: Iterable[str] = (), key: FileKey | None = None) -> None:
        self.path, self.table, self.allow, self._key = path, table, tuple(allow), key
        # Names in a Parquet directory are relative to the directory's location, like those in a JSON file.
        self.access = Access(path, self.allow)

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return _again, (self.path, self.allow, self._key)

    def __dask_tokenize__(self) -> tuple[Any, ...]:
        return self.path, self.allow, self._key

    def read(self, key: str) -> bytes | None:
        """Return all bytes of a key, or `None` if there are none."""
        found = self.opens(f"{self.path}/{key}")
        if found is None:
            return None
        return self._read(found[0], found[1], 0, key)

    def read_range(self, key: str, start: int, count: int) -> bytes:
        """Return some bytes of a key."""
        found = self.opens(f"{self.path}/{key}")
        if found is None:
            raise FragmentReadError(f"{self.path} has no reference {key!r}")
        return self._read(found[0], max(0, min(count, found[1] - start)), start, key)

    def _read(self, pread: Callable[[int, int], bytes], count: int, start: int, key: str) -> bytes:
        if count > 2 * limits.MAX_CHUNK:
            check_chunk(count, f"{self.path}: {key}")
        return bytes(pread(count, start))

    def children(self, path: str) -> Iterator[str]:
        """Yield the names in a group."""
        return self.table.children(path)

    def opens(self, path: str) -> tuple[Callable[[int, int], bytes], int, tuple[int, ...]] | None:
        """Return a read function for an object at a path below this one, its size, and a tag of its state."""
        key = path[len(self.path) + 1 :]
        found = self.table.get(key)
        if found is None:
            return None
        if isinstance(found, bytes):
            digest = int.from_bytes(hashlib.blake2b(found, digest_size=7).digest())
            return lambda count, start: found[start : start + count], len(found), (digest,)
        return self._place(found, key)

    def _place(self, place: Place, key: str) -> tuple[Callable[[int, int], bytes], int, tuple[int, ...]]:
        context = Context(f"file {self.path}, reference {key!r}", remedy="restore the file, or correct the reference")
        name = local_name(place.url)
        try:
            resolved = self.access.resolve(name)
            handle = handles.get(resolved, context)
            self.access.judge(handle.real, name)
        except (AccessError, UnsupportedError) as error:
            raise type(error)(f"{context.where}: {error.message}") from error
        length = handle.key.size - place.offset if place.length is None else place.length
        if length < 0 or place.offset + length > handle.key.size:
            raise context.damage(
                f"{handle.key.path} is truncated: it has {handle.key.size} bytes, and the reference reaches to byte "
                f"{place.offset + max(length, 0)}; restore the file, or write the references again"
            )
        return partial(_bytes, handle, place.offset, context), length, tuple(handle.key[1:5])


def _bytes(handle: Handle, offset: int, context: Context, count: int, start: int) -> bytes:
    return handle.exactly(count, offset + start, context)


def local_name(url: str) -> str:
    """Return the path of a local URL, and any other name unchanged.

    >>> local_name("file:///data/a b.nc"), local_name("a.nc"), local_name("s3://b/a.nc")
    ('/data/a b.nc', 'a.nc', 's3://b/a.nc')
    """
    for start in (f"{_FILE}localhost/", f"{_FILE}/"):
        if url.lower().startswith(start):
            return "/" + url[len(start) :]
    if url.lower().startswith("local://"):
        return url[len("local://") :]
    return url


class ReferenceStore(RemoteStore):
    """The documents and arrays of such a store."""

    # All its documents are in memory.
    is_remote = False

    def __init__(self, keys: ReferencedKeys) -> None:
        super().__init__(keys, keys.path)
        self.opens = keys.opens


def _again(path: str, allow: tuple[str, ...], key: FileKey | None) -> ReferencedKeys:
    """Return the keys of pickled references, if these have not changed."""
    found = open_references(path, allow)
    if key is not None and (found._key is None or not found._key.is_same_content(key)):
        raise SourceError(f"{path} has been written since it was opened; open it again")
    return found


def open_references(path: str, allow: Iterable[str] = ()) -> ReferencedKeys:
    """Return the keys of the references in a file or directory."""
    if not isinstance(path, Url) and os.path.isdir(path):  # noqa: PTH112
        found = read_file(path, f"{path}/{parquet.MARK}", MOST)
        if found is None or not parquet.is_table(found[0]):
            raise SourceError(f"{path} holds no references in Parquet")
        return ReferencedKeys(path, parquet.Records(found[0], path, partial(_file_of, path)), allow)
    return references_of(handles.get(path), allow)


def _file_of(folder: str, key: str) -> bytes | None:
    found = read_file(folder, f"{folder}/{key}", MOST)
    return None if found is None else found[0]


def references_of(handle: Handle, allow: Iterable[str] = ()) -> ReferencedKeys:
    """Return the keys of the references in an open file."""
    key = handle.key
    if key.size > MOST:
        raise LimitError(f"{key.path} has {key.size:,} bytes, up to {MOST:,} are read; write the references in Parquet")
    text = unpacked(handle.exactly(key.size, 0, CONTEXT_SOURCE), key.path)
    return ReferencedKeys(key.path, parse(text, key.path), allow, key)
