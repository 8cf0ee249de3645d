"""Zarr stores in Zip files: members of bounded size, and chunks that cfagg decodes.

Each member that is read is copied once to an anonymous file, from which its chunks are located and decoded like those
of a directory, within the bounds of `cfagg.formats.codecs`.
"""

from __future__ import annotations

import os
import tempfile
import threading
import zipfile
import zlib
from contextlib import nullcontext
from typing import Any

from zarr.abc.store import ByteRequest
from zarr.core.buffer import Buffer, BufferPrototype
from zarr.storage import ZipStore

from cfagg.conventions import limits
from cfagg.errors import ConventionError, FragmentReadError, UnsupportedError
from cfagg.formats.codecs import check_chunk
from cfagg.formats.zarr.checked_store import METADATA, cut
from cfagg.formats.zarr.documents import MAX_DOCUMENT
from cfagg.formats.zarr.metadata import ZarrArray, array_of
from cfagg.formats.zarr.vetting import vetted
from cfagg.storage.files import close_read
from cfagg.storage.locks import forkable
from cfagg.storage.positioned import read_at

__all__ = ["CheckedZip"]

_BLOCK = 1 << 20

_OPENING = forkable()

#: Errors from Zip files that are damaged.
_ERRORS = (zipfile.BadZipFile, OSError, EOFError, ValueError, zlib.error)


class CheckedZip(ZipStore):
    """A Zip file with a store, whose metadata may not name a codec that executes code."""

    def __init__(self, path: str) -> None:
        super().__init__(path, mode="r")

    def __dask_tokenize__(self) -> tuple[str | int, ...]:
        # The time alone may be that of another file, which was copied with it.
        status = os.stat(str(self.path))  # noqa: PTH116
        return str(self.path), status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino

    def member(self, key: str) -> tuple[int, os.stat_result] | None:
        """Return an open file with the value of a key, and its status, or `None` if there is none."""
        where = f"{self.path}: {key}"
        # zarr-python before 3.4 gives a store its own lock when it is opened.
        with _OPENING, getattr(self, "_lock", nullcontext()):
            if not self._is_open:
                self._sync_open()
        with self._lock:
            try:
                found = self._zf.getinfo(key)
            except KeyError:
                return None
            most = MAX_DOCUMENT if key.rpartition("/")[2] in METADATA else 2 * limits.MAX_CHUNK
            if found.file_size > most:
                check_chunk(max(found.file_size, limits.MAX_CHUNK + 1), where)
            with tempfile.TemporaryFile() as file:
                try:
                    with self._zf.open(found) as packed:
                        while block := packed.read(_BLOCK):
                            file.write(block)
                    file.flush()
                except RuntimeError as error:  # also those about methods of compression
                    raise FragmentReadError(
                        f"{where} cannot be read: {error}; pack the store again without encryption, stored or deflated"
                    ) from error
                except _ERRORS as error:
                    raise FragmentReadError(
                        f"{where} cannot be read: the Zip file is damaged; copy it again"
                    ) from error
                fd = os.dup(file.fileno())
        return fd, os.fstat(fd)

    def data(self, key: str) -> bytes | None:
        """Return the value of a key; metadata are not yet vetted for zarr-python."""
        opened = self.member(key)
        if opened is None:
            return None
        fd, status = opened
        try:
            return read_at(fd, status.st_size, 0)
        finally:
            close_read(fd)

    def decoded(self, path: str) -> ZarrArray | None:
        """Return an array whose chunks are decoded here, or `None`; damaged metadata raise an error."""
        try:
            found = array_of(str(self.path), path, self.data, _Members(self))
        except (UnsupportedError, ConventionError):
            return None
        return None if found.decoder is None else found

    def part(self, key: str, byte_range: ByteRequest | None) -> Any:
        """Return the bytes of a key, or a part of them, or `None` if there are none."""
        found = self.data(key)
        name = key.rpartition("/")[2]
        if found is not None and name in METADATA:
            found = vetted(name, found, f"{self.path}/{key}", coarse=True)
        return None if found is None else cut(found, byte_range)

    async def get(self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None) -> Buffer | None:
        """Return the value of a key or a part of it."""
        found = self.part(key, byte_range)
        return None if found is None else prototype.buffer.from_bytes(found)


class _Members:
    """Opens members by their path after that of the Zip file; the last one is kept for its next chunk."""

    def __init__(self, store: CheckedZip) -> None:
        self._store = store
        # Not the store's own, as `CheckedZip.member` takes another one first.
        self._lock = threading.Lock()
        self._kept: list[tuple[str, int]] = []

    def __reduce__(self) -> tuple[type[_Members], tuple[CheckedZip]]:
        return _Members, (self._store,)

    def __del__(self) -> None:
        for _, fd in self._kept:
            close_read(fd)

    def __call__(self, path: str) -> tuple[int, os.stat_result] | None:
        with self._lock:
            if not self._kept or self._kept[0][0] != path:
                found = self._store.member(path[len(str(self._store.path)) + 1 :])
                if found is None:
                    return None
                while self._kept:
                    close_read(self._kept.pop()[1])
                self._kept.append((path, found[0]))
            fd = os.dup(self._kept[0][1])
        return fd, os.fstat(fd)
