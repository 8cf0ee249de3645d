"""Writing a table of 64-bit integers as a Zarr array, a chunk at a time.

All is written into a directory beside the array's, which takes its name when everything is there.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

import numpy as np

from cfagg.errors import TargetError
from cfagg.formats.zarr.creating import Documents, NewArray, array_documents, write_documents
from cfagg.formats.zarr.written_codecs import Codec
from cfagg.observations.indexes.protocol import Int64
from cfagg.runtime.files import NewFolder
from cfagg.runtime.publishing import public_name, put, reason, sync_tree

__all__ = ["Aside", "TableWriter", "ZarrFormat", "describe"]

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
