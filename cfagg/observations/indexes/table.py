"""Tables of 64-bit integers in a Zarr store: read a few rows at a time, and written a chunk at a time."""

from __future__ import annotations

import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np

from cfagg.errors import AccessError, SourceError, TargetError
from cfagg.formats.zarr.creating import Documents, NewArray, array_documents, write_documents
from cfagg.formats.zarr.written_codecs import Codec
from cfagg.observations.arrays import open_stored, read_json
from cfagg.observations.indexes.protocol import Int64
from cfagg.observations.rows import Rows
from cfagg.runtime.files import NewFolder
from cfagg.runtime.publishing import public_name, put, reason, sync_tree

if TYPE_CHECKING:
    from cfagg.storage.store import Source

__all__ = ["Aside", "Table", "TableWriter", "ZarrFormat", "describe", "is_there"]

#: Columns of a table, of which a search reads whole rows.
_WIDEST = 1 << 20


def is_there(source: Source, key: str) -> bool:
    """Return whether a store has an object."""
    try:
        return source.size(key) is not None
    except AccessError:
        # What object stores also say of what is not there, to those who may not list the store.
        return False


class Table:
    """An array of int64 with two dimensions."""

    def __init__(self, source: Source, name: str) -> None:
        self.where = f"{source.path}: array {name!r}"
        array = open_stored(source, name)
        if array is None:
            raise SourceError(f"{source.path} has no array {name!r}")
        if array.dtype != np.int64 or len(array.shape) != 2:
            raise SourceError(f"{self.where} is {array.dtype} of shape {array.shape}, expected a table of int64")
        if array.shape[1] > _WIDEST:
            raise SourceError(f"{self.where} has {array.shape[1]:,} columns, expected at most {_WIDEST:,}")
        self.shape = (array.shape[0], array.shape[1])
        if array.zarr_format == 3:
            found = array.document.get("attributes")
        else:
            read = read_json(source, f"{name}/.zattrs")
            found = None if read is None else read[0]
        self.attributes: dict[str, Any] = found if isinstance(found, dict) else {}
        self._rows = Rows(source, array)

    def read(self, start: int, stop: int) -> Int64:
        """Return rows."""
        return self._rows.read(start, stop)


ZarrFormat = Literal[2, 3]


class Aside:
    """A new directory beside the one that it will become."""

    def __init__(self, group: str | os.PathLike[str], name: str) -> None:
        self.target = Path(group) / name
        try:
            self.target.parent.mkdir(parents=True, exist_ok=True)
            self._folder = NewFolder(self.target)
            self.path = self._folder.path / "file"
            self.path.mkdir()
        except OSError as error:
            raise TargetError(f"{public_name(self.target)} cannot be written: {reason(error, self.target)}") from error

    def commit(self) -> None:
        """Give the directory its name, in place of one that is there."""
        try:
            sync_tree(self.path)
            # Another process may do the same at the same time.
            for left in reversed(range(100)):
                try:
                    put(self.path, self.target, self._folder.path / "former")
                except (FileExistsError, FileNotFoundError):
                    if not left or not self.path.is_dir():
                        raise
                    continue
                break
        except OSError as error:
            raise TargetError(f"{public_name(self.target)} cannot be written: {reason(error, self.target)}") from error
        self._folder.remove(done=True)

    def discard(self) -> None:
        """Remove what was written, if it has not got its name."""
        self._folder.remove(done=False)


class TableWriter:
    """A table of int64 with two dimensions, as a Zarr array that grows by rows; for a ``with`` block."""

    def __init__(
        self,
        group: str | os.PathLike[str],
        name: str,
        columns: int,
        chunk_rows: int,
        dims: tuple[str, str],
        zarr_format: ZarrFormat,
    ) -> None:
        self._codec = Codec("blosc", inner="lz4")
        self._encode = self._codec.encoder()
        self._columns, self._chunk, self._dims, self._format = columns, chunk_rows, dims, zarr_format
        self._aside = Aside(group, name)
        # In a thread other than the main one, Blosc uses that thread alone: the same rows always give the same bytes.
        self._thread = ThreadPoolExecutor(1, "cfagg-index")
        self._buffer = np.zeros((chunk_rows, columns), "<i8")
        self._used = 0
        #: Rows so far.
        self.rows = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._thread.shutdown()
        self._aside.discard()

    def append(self, table: Int64) -> None:
        """Add rows."""
        done = 0
        while done < len(table):
            n = min(len(table) - done, self._chunk - self._used)
            self._buffer[self._used : self._used + n] = table[done : done + n]
            done, self._used, self.rows = done + n, self._used + n, self.rows + n
            if self._used == self._chunk:
                self._write(self.rows // self._chunk - 1)

    def finish(self, attributes: Mapping[str, Any], least_rows: int = 0) -> None:
        """Write what is left and the metadata, and give the array its name."""
        # Of at least `least_rows` rows, the last of which are zero.
        if self._used:
            self._write(self.rows // self._chunk)
        shape = (max(self.rows, least_rows), self._columns)
        chunk = (self._chunk, self._columns)
        new = NewArray(self._dims, shape, self._buffer.dtype, chunk, 0, self._codec, attributes)
        describe(self._aside.path, array_documents(new, self._format))
        self._aside.commit()

    def _write(self, number: int) -> None:
        """Write the buffer as a chunk and empty it."""
        path = self._aside.path / (f"{number}.0" if self._format == 2 else f"c/{number}/0")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(self._thread.submit(self._encode, self._buffer).result())
        except OSError as error:
            raise TargetError(f"{public_name(path)} cannot be written: {reason(error, path)}") from error
        self._buffer[:] = 0
        self._used = 0


def describe(folder: Path, documents: Documents) -> None:
    """Write the metadata of an array or group."""
    try:
        write_documents(folder, documents, published=True)
    except OSError as error:
        raise TargetError(f"{public_name(folder)} cannot be written: {reason(error, folder)}") from error
