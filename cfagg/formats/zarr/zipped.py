"""Zarr stores in Zip files: members of bounded size, and chunks that are decoded here.

Each member that is read goes into a file without a name, once; from there its chunks are located and decoded as those
of a directory are, within the bounds of `cfagg.formats.codecs`.
"""

from __future__ import annotations

import os
import tempfile
import zipfile
import zlib
from typing import Any

import zarr
from zarr.abc.store import ByteRequest
from zarr.core.buffer import Buffer, BufferPrototype
from zarr.storage import ZipStore

from cfagg.conventions import limits
from cfagg.errors import CfaggError, ConventionError, FragmentReadError, SourceError, UnsupportedError
from cfagg.formats.codecs import check_chunk
from cfagg.formats.zarr.checked_store import METADATA, cut, refuse_code
from cfagg.formats.zarr.chunks import stored_chunk
from cfagg.formats.zarr.documents import MAX_DOCUMENT, parse
from cfagg.formats.zarr.metadata import ZarrArray, array_of
from cfagg.formats.zarr.plain import described
from cfagg.formats.zarr.settings import unequal_chunks
from cfagg.storage.files import close_read

__all__ = ["CheckedZip", "zipped_array"]

_PIECE = 1 << 20

#: What Zip files raise that are damaged, encrypted, or packed in a way that is not known.
_ERRORS = (zipfile.BadZipFile, RuntimeError, NotImplementedError, OSError, EOFError, ValueError, zlib.error)


class CheckedZip(ZipStore):
    """A Zip file that holds a store, whose metadata may not name a codec that runs code."""

    def __init__(self, path: str) -> None:
        super().__init__(path, mode="r")

    def __dask_tokenize__(self) -> tuple[str, float]:
        return str(self.path), os.stat(str(self.path)).st_mtime  # noqa: PTH116

    def member(self, key: str) -> tuple[int, os.stat_result] | None:
        """Return an open file with what is stored under a key, and its status; `None` where there is nothing.

        Raises
        ------
        LimitError
            It is larger than any chunk may be.
        FragmentReadError
            The Zip file is damaged.
        """
        where = f"{self.path}: {key}"
        with self._lock:
            if not self._is_open:
                self._sync_open()
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
                        while piece := packed.read(_PIECE):
                            file.write(piece)
                    file.flush()
                except _ERRORS as error:
                    raise FragmentReadError(
                        f"{where} cannot be read: the Zip file is damaged; copy it again"
                    ) from error
                fd = os.dup(file.fileno())
        return fd, os.fstat(fd)

    def data(self, key: str) -> bytes | None:
        """Return what is stored under a key."""
        opened = self.member(key)
        if opened is None:
            return None
        fd, status = opened
        try:
            found = os.pread(fd, status.st_size, 0)
        finally:
            close_read(fd)
        name = key.rpartition("/")[2]
        if name in METADATA and name != ".zattrs":
            refuse_code(parse(found, f"{self.path}/{key}"), f"{self.path}/{key}")
        return found

    def part(self, key: str, byte_range: ByteRequest | None) -> Any:
        """Return the bytes under a key, or a part of them, `None` where there are none."""
        found = self.data(key)
        return None if found is None else cut(found, byte_range)

    async def get(self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None) -> Buffer | None:
        """Return the value of a key or a part of it."""
        found = self.part(key, byte_range)
        return None if found is None else prototype.buffer.from_bytes(found)


class _PlainZip(CheckedZip):
    """A Zip file one array of which is not compressed to those who read it."""

    def __init__(self, path: str, array: ZarrArray) -> None:
        super().__init__(path)
        self._array = array

    def part(self, key: str, byte_range: ByteRequest | None) -> Any:
        """Return what zarr-python is given under a key."""
        array = self._array
        home, _, name = key.rpartition("/")
        if home != array.path or name == ".zattrs":
            return super().part(key, byte_range)
        if name in METADATA:
            return super().part(key, byte_range) if self.data(key) is None else cut(described(array), byte_range)
        chunk = stored_chunk(array, [int(n) for n in name.split(".")] if array.ndim else ())
        return None if chunk is None else cut(memoryview(chunk), byte_range)


def zipped_array(store: CheckedZip, path: str, zarr_format: int | None) -> Any:
    """Return an array of a Zip file for reading by zarr-python, its chunks decoded here; `None` where they are not.

    Raises
    ------
    SourceError
        Its metadata are damaged.
    """
    try:
        array = array_of(str(store.path), path, store.data, _opens(store))
    except (UnsupportedError, ConventionError):
        return None
    if array.decoder is None:
        return None
    form: Any = zarr_format
    try:
        with unequal_chunks():
            return zarr.open_array(_PlainZip(str(store.path), array), path=path, mode="r", zarr_format=form)
    except CfaggError:
        raise
    except Exception as error:  # as many kinds as there are ways to damage metadata
        raise SourceError(
            f"{store.path}: array {path!r} has metadata that break the Zarr specification; write it again"
        ) from error


def _opens(store: CheckedZip) -> Any:
    """Return what opens a member by its path behind that of the Zip file; the last one is kept for its next chunk."""
    begin = len(str(store.path)) + 1
    kept: list[tuple[str, int]] = []

    def opens(path: str) -> tuple[int, os.stat_result] | None:
        with store._lock:
            if not kept or kept[0][0] != path:
                found = store.member(path[begin:])
                if found is None:
                    return None
                while kept:
                    close_read(kept.pop()[1])
                kept.append((path, found[0]))
            fd = os.dup(kept[0][1])
        return fd, os.fstat(fd)

    return opens
