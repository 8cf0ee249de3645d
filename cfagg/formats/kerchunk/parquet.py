"""kerchunk's references in Parquet: a directory with the documents of a Zarr store, and for each array its chunks.

Source: the layout that fsspec's `LazyReferenceMapper` reads and kerchunk's ``refs_to_dataframe`` writes.
"""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from cfagg.errors import SourceError
from cfagg.formats.kerchunk.references import Place
from cfagg.formats.parquet_pages import check_pages

__all__ = ["MARK", "Records", "is_table"]

#: The metadata document of the directory.
MARK = ".zmetadata"

#: References in one file, and bytes of one.
_MOST, _BYTES = 1 << 24, 1 << 30

#: Most values, and decompressed bytes, per byte of a file, and of the smallest ones.
_VALUES, _FEW_VALUES = 16, 1 << 22
_UNPACKED, _FEW_BYTES = 128, 1 << 25

#: Arrow's errors are derived from one of these, depending on the cause.
_ERRORS = (ArithmeticError, LookupError, MemoryError, OSError, RuntimeError, TypeError, ValueError)

#: Files whose rows are cached.
_HELD = 16


class _Rows(NamedTuple):
    """The columns of one file; `None` for absent ones."""

    path: list[str | None] | None
    offset: Any
    size: Any
    raw: list[bytes | None] | None


def is_table(raw: bytes) -> bool:
    """Return whether the consolidated metadata of a directory are those of references."""
    try:
        found = json.loads(raw)
    except (ValueError, RecursionError):
        return False
    return isinstance(found, dict) and "record_size" in found and isinstance(found.get("metadata"), dict)


class Records:
    """References in a directory; `read` returns a file of it by its key, or `None`."""

    def __init__(self, raw: bytes, name: str, read: Callable[[str], bytes | None]) -> None:
        found = json.loads(raw)
        self._documents: Mapping[str, Any] = found["metadata"]
        self._size, self._name, self._read = found["record_size"], name, read
        if type(self._size) is not int or not 0 < self._size <= _MOST:
            raise SourceError(
                f"{name}: record_size {str(self._size)[:40]} is not a number of references; write it again"
            )
        self._below: dict[str, dict[str, None]] = {}
        for key in self._documents:
            home, _, last = key.rpartition("/")
            if home and last in (".zarray", ".zgroup"):
                above, _, own = home.rpartition("/")
                self._below.setdefault(above, {})[own] = None
        self._held: OrderedDict[tuple[str, int], _Rows | None] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: str) -> bytes | Place | None:
        """Return the bytes of a key, or their location."""
        if key in self._documents:
            found = self._documents[key]
            return json.dumps(found).encode()
        array, _, last = key.rpartition("/")
        document = self._documents.get(f"{array}/.zarray")
        number = _number(document, last) if isinstance(document, dict) else None
        if number is None:
            return None
        record, row = divmod(number, self._size)
        rows = self._rows(array, record)
        return None if rows is None else self._row(rows, row, key)

    def children(self, path: str) -> Iterator[str]:
        """Yield the names in a group."""
        yield from self._below.get(path, ())

    def _row(self, rows: _Rows, row: int, key: str) -> bytes | Place | None:
        columns = [c for c in rows if c is not None]
        if not columns or row >= len(columns[0]):
            return None
        raw = None if rows.raw is None else rows.raw[row]
        if raw is not None:
            return raw
        path = None if rows.path is None else rows.path[row]
        if path is None:
            return None
        offset, size = (0 if c is None else int(c[row]) for c in (rows.offset, rows.size))
        if offset < 0 or size < 0:
            raise SourceError(f"{self._name}: the reference {key!r} is damaged: a negative place; write it again")
        return Place(path) if (offset, size) == (0, 0) else Place(path, offset, size)

    def _rows(self, array: str, record: int) -> _Rows | None:
        """Return the rows of one file, read once, or `None` if there is no such file."""
        with self._lock:
            if (array, record) in self._held:
                self._held.move_to_end((array, record))
                return self._held[array, record]
        key = f"{array}/refs.{record}.parq"
        raw = self._read(key)
        found = None if raw is None else self._parsed(raw, key)
        with self._lock:
            self._held[array, record] = found
            while len(self._held) > _HELD:
                self._held.popitem(last=False)
        return found

    def _parsed(self, raw: bytes, key: str) -> _Rows:
        import pyarrow as pa
        from pyarrow import parquet

        where = f"{self._name}/{key}"
        try:
            size = len(raw)
            check_pages(raw, _FEW_VALUES + _VALUES * size, min(_BYTES, _FEW_BYTES + _UNPACKED * size))
        except SourceError as error:
            raise SourceError(f"{where} is damaged: {error.message}; write the references again") from error
        try:
            # Values stored once for many rows are kept as one copy.
            file = parquet.ParquetFile(pa.BufferReader(raw), read_dictionary=["path", "raw"])
            if file.metadata.num_rows > self._size:
                raise SourceError(f"{where} has {file.metadata.num_rows:,} references, expected {self._size:,} at most")
            names = set(file.schema_arrow.names)
            table = file.read(columns=[n for n in _Rows._fields if n in names])
            columns = {n: _plain(table.column(n), n) if n in names else None for n in _Rows._fields}
        except _ERRORS as error:
            if isinstance(error, SourceError):
                raise
            raise SourceError(f"{where} is damaged: {str(error)[:200]}; write the references again") from error
        return _Rows(**columns)


def _plain(column: Any, name: str) -> Any:
    """Return a column in its required type: names and bytes as lists, numbers as an array."""
    import pyarrow as pa

    if name in ("offset", "size"):
        return column.cast(pa.int64()).fill_null(0).to_numpy()
    if pa.types.is_null(column.type):
        return None
    found: list[Any] = []
    for chunk in column.chunks:
        packed = chunk if pa.types.is_dictionary(chunk.type) else chunk.dictionary_encode()
        values = packed.dictionary.cast(pa.string() if name == "path" else pa.binary()).to_pylist()
        found += [None if i is None else values[i] for i in packed.indices.to_pylist()]
    return found


def _counts(document: Mapping[str, Any]) -> tuple[int, ...] | None:
    """Return the number of chunks of an array along each dimension, or `None` if its document does not give it."""
    shape, chunks = document.get("shape"), document.get("chunks")
    if not isinstance(shape, list) or not isinstance(chunks, list) or len(shape) != len(chunks):
        return None
    if not all(type(n) is int and 0 <= n < 2**62 for n in (*shape, *chunks)) or 0 in chunks:
        return None
    return tuple(-(-n // c) for n, c in zip(shape, chunks, strict=True))


def _number(document: Mapping[str, Any], last: str) -> int | None:
    """Return the index of a chunk of an array by its key, or `None` if there is none."""
    counts = _counts(document)
    words = last.split(".")
    if counts is None or not all(w.isascii() and w.isdecimal() and len(w) < 19 for w in words):
        return None
    index = [int(w) for w in words]
    if not counts:
        return 0 if index == [0] else None
    if len(index) != len(counts) or any(i >= n for i, n in zip(index, counts, strict=True)):
        return None
    number = 0
    for i, n in zip(index, counts, strict=True):
        number = number * n + i
    return number
