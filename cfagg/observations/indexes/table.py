"""Tables of 64-bit integers in a Zarr store: read a few rows at a time, and written a chunk at a time."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from cfagg.errors import AccessError, CfaggError, SourceError, TargetError
from cfagg.formats.zarr.creating import NewArray, array_documents, write_documents
from cfagg.formats.zarr.written_codecs import Codec
from cfagg.observations.arrays import open_stored, read_json
from cfagg.observations.indexes.protocol import Int64
from cfagg.observations.rows import Rows
from cfagg.runtime.files import NewFolder
from cfagg.runtime.publishing import public_name, put, reason, sync_tree

if TYPE_CHECKING:
    from cfagg.storage.store import Source

__all__ = ["Table", "TableWriter", "ZarrFormat", "aside", "is_there", "new_table"]

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


@contextmanager
def aside(group: str | os.PathLike[str], name: str) -> Iterator[Path]:
    """Give a new directory, which takes its name, and the place of one that is there, when the block ends well."""
    target = Path(group) / name
    folder: NewFolder | None = None
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        folder = NewFolder(target)
        path = folder.path / "file"
        path.mkdir()
        yield path
        sync_tree(path)
        # Another process may do the same at the same time.
        for left in reversed(range(100)):
            try:
                put(path, target, folder.path / "former")
                break
            except (FileExistsError, FileNotFoundError):
                if not left or not path.is_dir():
                    raise
        folder.remove(done=True)
    except CfaggError:  # some of them are also OSError
        raise
    except OSError as error:
        raise TargetError(f"{public_name(target)} cannot be written: {reason(error, target)}") from error
    finally:
        if folder is not None:
            folder.remove(done=False)


@contextmanager
def new_table(
    group: str | os.PathLike[str],
    name: str,
    columns: int,
    chunk_rows: int,
    dims: tuple[str, str],
    zarr_format: ZarrFormat,
) -> Iterator[TableWriter]:
    """Give a new table of int64 with two dimensions, as a Zarr array that grows by rows."""
    # In a thread other than the main one, Blosc uses that thread alone: the same rows always give the same bytes.
    with ThreadPoolExecutor(1, "cfagg-index") as thread, aside(group, name) as path:
        yield TableWriter(path, thread, (chunk_rows, columns), dims, zarr_format)


class TableWriter:
    """Writes a table by chunks, whose shape is given."""

    def __init__(
        self, path: Path, thread: ThreadPoolExecutor, chunk: tuple[int, int], dims: tuple[str, str], form: ZarrFormat
    ) -> None:
        self._path, self._thread, self._dims, self._format = path, thread, dims, form
        self._codec = Codec("blosc", inner="lz4")
        self._encode = self._codec.encoder()
        self._buffer = np.zeros(chunk, "<i8")
        self._used = 0
        #: Rows so far.
        self.rows = 0

    def append(self, table: Int64) -> None:
        """Add rows."""
        done, size = 0, len(self._buffer)
        while done < len(table):
            n = min(len(table) - done, size - self._used)
            self._buffer[self._used : self._used + n] = table[done : done + n]
            done, self._used, self.rows = done + n, self._used + n, self.rows + n
            if self._used == size:
                self._write(self.rows // size - 1)

    def finish(self, attributes: Mapping[str, Any], least_rows: int = 0) -> None:
        """Write what is left and the metadata, of at least `least_rows` rows, the last of which are zero."""
        size, columns = self._buffer.shape
        if self._used:
            self._write(self.rows // size)
        shape = (max(self.rows, least_rows), columns)
        new = NewArray(self._dims, shape, self._buffer.dtype, (size, columns), 0, self._codec, attributes)
        write_documents(self._path, array_documents(new, self._format), published=True)

    def _write(self, number: int) -> None:
        """Write the buffer as a chunk and empty it."""
        path = self._path / (f"{number}.0" if self._format == 2 else f"c/{number}/0")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(self._thread.submit(self._encode, self._buffer).result())
        self._buffer[:] = 0
        self._used = 0
