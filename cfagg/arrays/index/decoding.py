"""The columns of an index file as an index, whose contents are checked before use."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.arrays.index.rows import UNKNOWN, Ragged
from cfagg.arrays.index.schema import LONGEST, RANGES
from cfagg.arrays.index.table import Index
from cfagg.errors import SourceError

__all__ = ["DamagedIndexError", "index_of"]

Int64 = npt.NDArray[np.int64]

#: Most dimensions of a variable, as in the netCDF library.
_DIMENSIONS = 1024

#: Largest position in a file.
_PLACE = 2**62


class DamagedIndexError(SourceError):
    """A file that is not an index, is damaged, or has another version."""


class _Columns:
    """The columns of the table as NumPy arrays."""

    def __init__(self, table: Any) -> None:
        self._table = table
        self.rows: int = table.num_rows

    def _column(self, name: str) -> Any:
        column = self._table.column(name)
        return column.chunk(0) if column.num_chunks else column.combine_chunks()

    def numbers(self, name: str) -> Int64:
        """Return integers, -1 for null."""
        column = self._column(name)
        return np.asarray(column.fill_null(UNKNOWN).to_numpy(zero_copy_only=False), np.int64)

    def codes(self, name: str) -> tuple[Int64, list[Any]]:
        """Return the code of each text, -1 for null, and the texts."""
        column = self._column(name)
        codes = np.asarray(column.indices.fill_null(-1).to_numpy(zero_copy_only=False), np.int64)
        texts = column.dictionary.to_pylist()
        if codes.size and not -1 <= codes.min() <= codes.max() < len(texts):
            raise DamagedIndexError(f"its column {name!r} is damaged")
        return codes, texts

    def objects(self, name: str, rows: Int64) -> list[Any]:
        """Return bytes or texts of some rows, `None` for null."""
        codes, texts = self.codes(name)
        texts.append(None)  # the entry for -1
        return [texts[k] for k in codes[rows].tolist()]

    def lists(self, name: str, rows: Int64) -> Ragged:
        """Return lists of integers of some ascending rows; null is an empty list."""
        import pyarrow.compute as pc

        column = self._column(name)
        if len(rows) != len(column):
            column = column.take(_indices(rows))
        counts = np.asarray(pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False), np.int64)
        values = column.flatten()
        if values.null_count or len(values) != counts.sum():
            raise DamagedIndexError(f"its column {name!r} is damaged")
        bounds = np.zeros(len(counts) + 1, np.int64)
        np.cumsum(counts, out=bounds[1:])
        return Ragged(np.asarray(values.to_numpy(zero_copy_only=False), np.int64), bounds)


def _indices(rows: Int64) -> Any:
    import pyarrow as pa

    return pa.array(rows, pa.int64())


def index_of(table: Any, home: str, about: Mapping[bytes, bytes]) -> Index:
    """Return the index in a contiguous Arrow table, whose texts are dictionaries; `about`: its metadata."""
    columns = _Columns(table)
    codes, texts = columns.codes("path")
    begins = np.flatnonzero(np.diff(codes, prepend=-2))
    paths = [texts[k] for k in codes[begins].tolist()] if codes.size and codes.min() >= 0 else []
    if len(set(paths)) != len(begins) or not all(paths):
        raise DamagedIndexError("its rows are not in the order of its files")
    names, name_texts = columns.codes("variable")
    rows = np.flatnonzero(names >= 0)
    headers, header_texts = columns.codes("header")
    aggregation = about.get(b"aggregation", b"").decode("ascii", "replace")
    shared = columns.objects("shared", begins[:1])
    found = Index(
        base=home,
        path=tuple(paths),
        size=columns.numbers("size")[begins],
        mtime_ns=columns.numbers("mtime_ns")[begins],
        ctime_ns=columns.numbers("ctime_ns")[begins],
        inode=columns.numbers("inode")[begins],
        etag=tuple(columns.objects("etag", begins)),
        digest=tuple(columns.objects("digest", begins)),
        ranges=columns.lists("ranges", begins),
        description=tuple(columns.objects("description", begins)),
        file=np.searchsorted(begins, rows, "right") - 1,
        address=tuple(name_texts[k] for k in names[rows].tolist()),
        header=headers[rows],
        shape=columns.lists("shape", rows),
        chunks=columns.lists("chunks", rows),
        record=columns.numbers("record")[rows],
        cell=columns.lists("cell", rows),
        offset=columns.lists("offset", rows),
        length=columns.lists("length", rows),
        mask=columns.lists("mask", rows),
        headers=tuple(header_texts),
        shared=(shared[0] if shared else None) or b"",
        aggregation=aggregation or None,
    )
    for problem in _problems(found):
        raise DamagedIndexError(f"its columns are damaged: {problem}")
    return found


def _problems(found: Index) -> Iterator[str]:
    """Yield contents that cannot be in an index written by cfagg."""
    n = found.offset.counts
    if (found.size < 0).any() or (found.size > _PLACE).any():
        yield "a size"
    if (found.header < 0).any():
        yield "a variable without a header"
    for name, column, least in (
        ("shape", found.shape, 0),
        ("chunks", found.chunks, 1),
        ("cell", found.cell, 0),
        ("offset", found.offset, 0),
        ("length", found.length, 0),
        ("mask", found.mask, 0),
        ("ranges", found.ranges, 0),
    ):
        if column.values.size and not least <= column.values.min() <= column.values.max() < _PLACE:
            yield f"a value of {name!r}"
    if (found.record < 0).any() or (found.record > _PLACE).any():
        yield "a value of 'record'"
    if not np.array_equal(n, found.length.counts):
        yield "more offsets than lengths"
    for name, column, other in (
        ("cell", found.cell, n),
        ("mask", found.mask, n),
        ("chunks", found.chunks, found.shape.counts),
    ):
        if ((column.counts != 0) & (column.counts != other)).any():
            yield f"a list of {name!r} of another length"
    if (found.shape.counts > _DIMENSIONS).any():
        yield "a variable of too many dimensions"
    if any(one is not None and not n for one, n in zip(found.digest, found.ranges.counts.tolist(), strict=True)):
        yield "a digest of no bytes, which every file has"
    if (found.ranges.counts % 2).any():
        yield "a range without an end"
    if not (found.ranges.counts % 2).any():
        lengths = found.ranges.values[1::2] - found.ranges.values[::2]
        if (found.ranges.counts > 2 * RANGES).any() or (lengths <= 0).any() or (lengths > LONGEST).any():
            yield "more bytes to compare than a file can have"
    size = np.repeat(found.size[found.file], n)
    if not np.array_equal(n, found.length.counts) or (found.offset.values + found.length.values > size).any():
        yield "a chunk that is not in its file"
