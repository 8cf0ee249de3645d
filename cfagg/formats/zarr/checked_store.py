"""A Zarr store for zarr-python in which every object is opened and checked according to the access policy."""

from __future__ import annotations

import asyncio
import json
import os
import uuid
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any

from zarr.abc.store import ByteRequest, OffsetByteRequest, RangeByteRequest
from zarr.core.buffer import Buffer, BufferPrototype, default_buffer_prototype
from zarr.storage import LocalStore

from cfagg.conventions import limits
from cfagg.errors import FragmentReadError, LimitError
from cfagg.formats.codecs import check_chunk
from cfagg.formats.zarr.consolidated import without_nodes
from cfagg.formats.zarr.documents import MAX_DOCUMENT
from cfagg.formats.zarr.metadata import ZarrArray, decoded_array
from cfagg.formats.zarr.vetting import vetted
from cfagg.storage.files import Context, close_read
from cfagg.storage.positioned import read_at
from cfagg.storage.tree import listed, open_file, prefixes, read_file

__all__ = ["METADATA", "CheckedStore", "cut"]

#: Names of documents.
METADATA = (".zarray", ".zgroup", ".zattrs", ".zmetadata", "zarr.json")

_CONTEXT = Context()


class CheckedStore(LocalStore):
    """A read-only directory whose files are opened by `cfagg.storage.tree`; links may point to `allow`.

    `coarse` is as for `vetted`; nodes whose paths are `hidden` are never opened.
    """

    def __init__(
        self,
        root: str | Path,
        *,
        allow: Iterable[str | os.PathLike[str]] = (),
        coarse: bool = False,
        hidden: Iterable[str] = (),
    ) -> None:
        super().__init__(os.path.abspath(root), read_only=True)  # noqa: PTH100
        self.path = str(self.root)
        self.allow, self.coarse, self.hidden = prefixes(allow), coarse, frozenset(hidden)
        # Stores always differ for dask, which otherwise could reuse results from before a write.
        self._token = uuid.uuid4().hex

    def __dask_tokenize__(self) -> tuple[str, str]:
        return self.path, self._token

    def with_read_only(self, read_only: bool = False) -> CheckedStore:  # noqa: ARG002
        """Return the store itself: it is never written."""
        return self

    def decoded(self, path: str) -> ZarrArray | None:
        """Return an array whose chunks are decoded here, like `decoded_array`."""
        return decoded_array(self.path, path, self.allow)

    def part(self, key: str, byte_range: ByteRequest | None) -> Any:
        """Return the bytes of a key, or a part of them, or `None` if there are none."""
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
        safe = vetted(name, data, path, coarse=self.coarse)
        if self.hidden and name in ("zarr.json", ".zmetadata"):
            safe = json.dumps(without_nodes(json.loads(safe), key.rpartition("/")[0], self.hidden)).encode()
        return cut(safe, byte_range)

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
                if f"{prefix}/{name}".lstrip("/") not in self.hidden:
                    yield name


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
        # A part may also be of any size: the index of a shard gives it, and a file may have more bytes than its disk.
        if stop - start > limits.MAX_CHUNK * 2:
            check_chunk(stop - start, path)
        return read_at(fd, max(0, stop - start), start)
    except OSError as error:
        raise FragmentReadError(f"{path} cannot be read: {error.strerror or error}") from error
    finally:
        close_read(fd)


def cut(data: Any, part: ByteRequest | None) -> Any:
    """Return the part of bytes that zarr-python requests."""
    if part is None:
        return data
    start, stop = _ends(len(data), part)
    return data[start:stop]


def _ends(size: int, part: ByteRequest) -> tuple[int, int]:
    """Return start and end of a part of `size` bytes."""
    if isinstance(part, RangeByteRequest):
        return min(part.start, size), min(part.end, size)
    if isinstance(part, OffsetByteRequest):
        return min(part.offset, size), size
    return max(0, size - part.suffix), size
