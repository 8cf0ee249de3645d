"""Zarr stores of this machine as zarr-python may see them: checked files, and chunks that are decoded here.

zarr-python opens whatever is at a path, decodes without bounds, and runs any codec that metadata name, pickles among
them.  So it reads through a store that opens regular files within the directory only and refuses codecs that run code;
and the chunks of arrays that can be decoded here are handed to it as plain bytes.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
import uuid
from collections.abc import AsyncIterator, Iterable, Mapping
from pathlib import Path
from typing import Any

import zarr
from zarr.abc.store import ByteRequest, OffsetByteRequest, RangeByteRequest
from zarr.core.buffer import Buffer, BufferPrototype, default_buffer_prototype
from zarr.storage import LocalStore

from cfagg.conventions import limits
from cfagg.errors import (
    CfaggError,
    ConventionError,
    FragmentReadError,
    LimitError,
    SourceError,
    SourceNotFoundError,
    UnsupportedError,
)
from cfagg.formats.codecs import check_chunk
from cfagg.storage.files import Context, close_read
from cfagg.storage.tree import listed, open_file, prefixes, read_file
from cfagg.zarrs.chunks import stored_chunk
from cfagg.zarrs.documents import MAX_DOCUMENT, parse
from cfagg.zarrs.metadata import ZarrArray, open_array

__all__ = ["METADATA", "CheckedStore", "PlainStore", "cut", "described", "plain_array", "refuse_code"]

#: Names of documents.
METADATA = (".zarray", ".zgroup", ".zattrs", ".zmetadata", "zarr.json")

_NAMES = ("dimension_names", "_ARRAY_DIMENSIONS")

#: Codecs that run what they read.
_CODE = frozenset({"pickle", "numcodecs.pickle"})

#: How the netCDF library writes the type of characters, which have no order of bytes, and what zarr-python takes.
_ORDERED, _PLAIN = re.compile(rb'("dtype"\s*:\s*")[<>](S\d+")'), rb"\1|\2"

_CONTEXT = Context()


def refuse_code(found: Any, where: str) -> None:
    """Raise where metadata name a codec that runs code which the store holds.

    Raises
    ------
    UnsupportedError
        They do.
    """
    waiting = [found]
    while waiting:
        one = waiting.pop()
        if isinstance(one, Mapping):
            if any(isinstance(one.get(k), str) and one[k].lower() in _CODE for k in ("id", "name")):
                raise UnsupportedError(f"{where} uses the codec 'pickle', which executes what it reads: never used")
            waiting += [v for k, v in one.items() if k != "attributes" and not k.endswith(".zattrs")]
        elif isinstance(one, list):
            if any(isinstance(c, str) and c.lower() in _CODE for c in one):
                raise UnsupportedError(f"{where} uses the codec 'pickle', which executes what it reads: never used")
            waiting += one


class CheckedStore(LocalStore):
    """A directory that is only read, file by file as `cfagg.storage.tree` opens them.

    Parameters
    ----------
    root : path
        The store's directory.
    allow : iterable of path
        Where links in it may lead.
    """

    def __init__(self, root: str | Path, *, allow: Iterable[str | os.PathLike[str]] = ()) -> None:
        super().__init__(os.path.abspath(root), read_only=True)  # noqa: PTH100
        self.path = str(self.root)
        self.allow = prefixes(allow)
        # Two stores are never one to dask, which could take results of one for the other's after it was written.
        self._token = uuid.uuid4().hex

    def __dask_tokenize__(self) -> tuple[str, str]:
        return self.path, self._token

    def with_read_only(self, read_only: bool = False) -> CheckedStore:  # noqa: ARG002
        """Return the store itself: it is never written."""
        return self

    def part(self, key: str, byte_range: ByteRequest | None) -> Any:
        """Return the bytes under a key, or a part of them, `None` where there are none."""
        path = f"{self.path}/{key}"
        name = key.rpartition("/")[2]
        if name not in METADATA:
            return _range(self.path, path, byte_range, self.allow)
        found = read_file(self.path, path, MAX_DOCUMENT, self.allow, _CONTEXT)
        if found is None:
            return None
        data = found[0]
        if len(data) > MAX_DOCUMENT:
            raise LimitError(f"{path} has more than {MAX_DOCUMENT:,} bytes of metadata")
        if name != ".zattrs":
            refuse_code(parse(data, path), path)
        return cut(_ORDERED.sub(_PLAIN, data) if name == ".zarray" else data, byte_range)

    def get_sync(
        self, key: str, *, prototype: BufferPrototype | None = None, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        """Return the value of a key or a part of it."""
        data = self.part(key, byte_range)
        return None if data is None else (prototype or default_buffer_prototype()).buffer.from_bytes(data)

    async def get(
        self, key: str, prototype: BufferPrototype | None = None, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        """Return the value of a key or a part of it."""
        return await asyncio.to_thread(self.get_sync, key, prototype=prototype, byte_range=byte_range)

    async def get_partial_values(
        self, prototype: BufferPrototype, key_ranges: Iterable[tuple[str, ByteRequest | None]]
    ) -> list[Buffer | None]:
        """Return the values of several keys."""
        return [await self.get(key, prototype, part) for key, part in key_ranges]

    async def list_dir(self, prefix: str) -> AsyncIterator[str]:
        """Yield the names in a directory of the store."""
        folder = f"{self.path}/{prefix}".rstrip("/")
        if await asyncio.to_thread(listed, self.path, folder, self.allow, _CONTEXT) is not None:
            for name in await asyncio.to_thread(os.listdir, folder):
                yield name


class PlainStore(CheckedStore):
    """A store whose arrays are not compressed to those who read it; others are as they are."""

    def __init__(self, root: str | Path, *, allow: Iterable[str | os.PathLike[str]] = ()) -> None:
        super().__init__(root, allow=allow)
        self._arrays: dict[str, ZarrArray | None] = {}

    def array(self, path: str) -> ZarrArray | None:
        """Return an array whose chunks are decoded here, `None` where they are not."""
        if path not in self._arrays:
            try:
                found = open_array(self.path, path, allow=self.allow)
                self._arrays[path] = found if found.decoder is not None else None
            except (UnsupportedError, ConventionError):
                self._arrays[path] = None
            except SourceError as error:
                # Names of dimensions are nothing that chunks depend on.
                if not error.problems or not all(p.where.endswith(_NAMES) for p in error.problems):
                    raise
                self._arrays[path] = None
        return self._arrays[path]

    def part(self, key: str, byte_range: ByteRequest | None) -> Any:
        """Return what zarr-python is given under a key."""
        home, _, name = key.rpartition("/")
        if name in (".zarray", "zarr.json"):
            array = self.array(home)
            if array is not None and name == (".zarray" if array.zarr_format == 2 else "zarr.json"):
                return cut(described(array), byte_range)
        elif name not in METADATA and self._arrays.get(home) is not None:
            array = self._arrays[home]
            assert array is not None  # noqa: S101  (just seen)
            chunk = stored_chunk(array, [int(n) for n in name.split(".")] if array.ndim else ())
            return None if chunk is None else cut(memoryview(chunk), byte_range)
        return super().part(key, byte_range)


def plain_array(store: str, path: str, zarr_format: int | None, allow: Iterable[str | os.PathLike[str]] = ()) -> Any:
    """Return an array of a store for reading, opened with zarr-python.

    Raises
    ------
    SourceError
        Its metadata are damaged.
    """
    form: Any = zarr_format
    try:
        with zarr.config.set({"array.rectilinear_chunks": True}):
            return zarr.open_array(PlainStore(store, allow=allow), path=path, mode="r", zarr_format=form)
    except CfaggError:
        raise
    except FileNotFoundError as error:
        raise SourceNotFoundError(f"{os.fspath(store)} has no Zarr array {path!r}") from error
    except Exception as error:  # as many kinds as there are ways to damage metadata
        where = f"{os.fspath(store)}: array {path!r}"
        try:
            open_array(store, path, allow=allow)
        except UnsupportedError as ours:
            raise SourceError(f"{where} has metadata that are not understood: {ours}") from error
        raise SourceError(f"{where} has metadata that violate the Zarr specification; write it again") from error


def described(array: ZarrArray) -> bytes:
    """Return the metadata of an array as if its chunks were stored as they are, under keys with dots."""
    document = dict(array.document)
    if array.zarr_format == 2:
        plain = {"compressor": None, "filters": None, "order": "C", "dimension_separator": "."}
        return json.dumps({**document, **plain}).encode()
    assert array.decoder is not None  # noqa: S101  (others are not described)
    big = array.decoder.swap == (sys.byteorder == "little")
    document["codecs"] = [{"name": "bytes", "configuration": {"endian": "big" if big else "little"}}]
    document["chunk_key_encoding"] = {"name": "v2", "configuration": {"separator": "."}}
    if array.shards is not None:
        document["chunk_grid"] = {"name": "regular", "configuration": {"chunk_shape": list(array.shards.inner)}}
    return json.dumps(document).encode()


def _range(root: str, path: str, part: ByteRequest | None, allow: tuple[str, ...]) -> bytes | None:
    """Return a file of a store or a part of it."""
    if part is None:
        found = read_file(root, path, limits.MAX_CHUNK * 2, allow, _CONTEXT)
        if found is not None and len(found[0]) > limits.MAX_CHUNK * 2:
            check_chunk(len(found[0]), path)
        return None if found is None else found[0]
    opened = open_file(root, path, allow, _CONTEXT)
    if opened is None:
        return None
    fd, status = opened
    start, stop = _ends(status.st_size, part)
    try:
        return os.pread(fd, max(0, stop - start), start)
    except OSError as error:
        raise FragmentReadError(f"{path} cannot be read: {error.strerror or error}") from error
    finally:
        close_read(fd)


def cut(data: Any, part: ByteRequest | None) -> Any:
    """Return what zarr-python asked for of some bytes."""
    if part is None:
        return data
    start, stop = _ends(len(data), part)
    return data[start:stop]


def _ends(size: int, part: ByteRequest) -> tuple[int, int]:
    """Return where a part of so many bytes begins and ends."""
    if isinstance(part, RangeByteRequest):
        return min(part.start, size), min(part.end, size)
    if isinstance(part, OffsetByteRequest):
        return min(part.offset, size), size
    return max(0, size - part.suffix), size
