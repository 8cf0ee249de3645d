"""The two layouts of a store of observations: the metadata of an array, and the encoding of a chunk of rows.

``zarr2`` is that of the published software: Zarr v2, keys with dots, Blosc.  ``cfagg`` is Zarr v3 with
small chunks in shards, so that a window needs few of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from cfagg.errors import ConventionError, LimitError
from cfagg.formats.zarr.creating import Documents, NewArray, array_documents, chunk_key, document_bytes
from cfagg.formats.zarr.encoding import shard_index
from cfagg.formats.zarr.written_codecs import Codec
from cfagg.runtime.files import write_whole
from cfagg.runtime.publishing import refusals_of

__all__ = ["FORMATS", "DataLayout", "array_files", "dumped", "write_bytes", "write_document", "zarr_format"]

FORMATS = ("zarr2", "cfagg")

#: Bytes of a chunk of rows (`zarr2`) by default.
CHUNK_BYTES = 64 << 20
#: Rows of a shard, and of a chunk in it (`cfagg`).
SHARD_ROWS, INNER_ROWS = 1 << 18, 1 << 11
#: Largest number of bytes that Blosc compresses at once.
_MOST = 2**31 - 17

Rows = npt.NDArray[np.float32]


@dataclass(frozen=True)
class DataLayout:
    """The chunks and the compression of the array ``data``."""

    format: str
    rows: int
    columns: int
    #: Number of rows of a stored object, a chunk or a shard.
    chunk: int
    #: Number of rows that are compressed together, `chunk` if there are no shards.
    inner: int

    @classmethod
    def choose(cls, format: str, rows: int, columns: int, rows_per_chunk: int | None = None) -> DataLayout:  # noqa: A002
        """Return the layout of an array, by default with chunks of 64 MiB, or shards of 262,144 rows."""
        chunk = full_chunk(format, columns, rows_per_chunk)
        if format == "cfagg":
            inner = min(chunk, INNER_ROWS)
            return cls(format, rows, columns, chunk, inner)
        chunk = max(1, min(chunk, rows))
        return cls(format, rows, columns, chunk, chunk)

    @property
    def count(self) -> int:
        """Number of stored objects."""
        return -(-self.rows // self.chunk)

    @property
    def item(self) -> int:
        """Bytes of an element for Blosc (`cfagg`): a row, or an equal part of a long row."""
        # This groups the same bytes of one column, which compresses better and decompresses faster than grouping the
        # bytes of single values from all columns.
        parts = next(n for n in range(1, self.columns + 1) if self.columns % n == 0 and 4 * self.columns // n <= 255)
        return 4 * self.columns // parts

    def key(self, number: int) -> str:
        """Return the key of a stored object."""
        return chunk_key("data", (number, 0), zarr_format(self.format))

    def extent(self, number: int) -> tuple[int, int]:
        """Return the range of rows in a stored object."""
        return number * self.chunk, min((number + 1) * self.chunk, self.rows)

    def encode(self, rows: Rows) -> bytes:
        """Return the bytes of a stored object: the same rows always give the same bytes."""
        # Blosc guarantees this except in the main thread, where it may start several threads: call it from a worker
        # thread.
        if self.format == "zarr2":
            return bytes(self.codec.encoder()(_filled(rows, self.chunk)))
        pack = self.codec.encoder()
        item = np.dtype(f"V{self.item}")
        starts = range(0, len(rows), self.inner)
        parts = [bytes(pack(_filled(rows[a : a + self.inner], self.inner).reshape(-1).view(item))) for a in starts]
        places = list(zip(accumulate(map(len, parts), initial=0), map(len, parts), strict=False))
        absent = [None] * (self.chunk // self.inner - len(parts))
        return b"".join([*parts, shard_index([*places, *absent])])

    @property
    def codec(self) -> Codec:
        """The codec of chunks, or of chunks within shards."""
        return Codec("blosc", 3, "zstd", "bitshuffle") if self.format == "zarr2" else Codec("blosc", 5, "lz4")

    def documents(self) -> Documents:
        """Return the metadata documents of the array by file name."""
        new = NewArray(
            # The published software does not name the dimensions of this array.
            dims=None if self.format == "zarr2" else ("row", "column"),
            shape=(self.rows, self.columns),
            dtype=np.dtype("f4"),
            chunks=(self.chunk, self.columns),
            fill=0,
            codec=self.codec,
            attributes={},
            inner=None if self.format == "zarr2" else (self.inner, self.columns),
            item=self.item,
        )
        return array_documents(new, zarr_format(self.format))


def zarr_format(format: str) -> Literal[2, 3]:  # noqa: A002
    """Return the version of the Zarr format of a layout."""
    return 2 if format == "zarr2" else 3


def full_chunk(format: str, columns: int, rows_per_chunk: int | None) -> int:  # noqa: A002
    """Return the rows of a full stored object of an array; see `DataLayout.choose`."""
    if format not in FORMATS:
        raise ConventionError(f"{format!r} is not a layout of a store; choose one of {', '.join(FORMATS)}")
    if rows_per_chunk is not None and rows_per_chunk < 1:
        raise ConventionError(f"rows_per_chunk is {rows_per_chunk}; it must be 1 or more")
    if format == "cfagg":
        chunk = SHARD_ROWS if rows_per_chunk is None else rows_per_chunk
        if chunk > INNER_ROWS:
            chunk = -(-chunk // INNER_ROWS) * INNER_ROWS
    else:
        chunk = max(1, round(CHUNK_BYTES / (4 * columns))) if rows_per_chunk is None else rows_per_chunk
    if 4 * columns * chunk > _MOST:
        raise LimitError(
            f"a chunk of {chunk:,} rows of {columns} columns has {4 * columns * chunk:,} bytes, more than the "
            f"{_MOST:,} that Blosc packs at once; give a smaller rows_per_chunk"
        )
    return chunk


def array_files(format: str, values: npt.NDArray[Any]) -> dict[str, bytes]:  # noqa: A002
    """Return the files of a small array of one dimension, its metadata and its only chunk, by name."""
    raw = np.ascontiguousarray(values, "<i8" if values.dtype.kind in "iu" else "<f8")
    codec = Codec("blosc", inner="lz4") if format == "zarr2" else Codec("none")
    new = NewArray(("variable",), raw.shape, raw.dtype, (max(raw.size, 1),), 0, codec, {})
    files = {name: dumped(document) for name, document in array_documents(new, zarr_format(format)).items()}
    if raw.size:
        files["0" if format == "zarr2" else "c/0"] = bytes(codec.encoder()(raw))
    return files


def dumped(document: Mapping[str, Any]) -> bytes:
    """Return a JSON document in the form of the published software, sorted and indented."""
    return document_bytes(document, published=True)


def write_document(path: Path, document: Mapping[str, Any]) -> None:
    """Write a JSON document atomically."""
    write_bytes(path, dumped(document))


def write_bytes(path: Path, data: bytes | memoryview) -> None:
    """Write a file atomically."""
    with refusals_of(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, data)


def _filled(rows: Rows, length: int) -> Rows:
    """Return rows padded with zeros, as in a chunk beyond the end of an array."""
    if len(rows) == length:
        return np.ascontiguousarray(rows)
    whole = np.zeros((length, rows.shape[1]), np.float32)
    whole[: len(rows)] = rows
    return whole
