"""Index files: Parquet with an additional checksum, so that damage is detected before anything is parsed.

The checksum is between the last column and the footer, where Parquet allows any bytes, so that every Parquet reader can
read the file.
"""

from __future__ import annotations

import hashlib
import itertools
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.arrays.index.decoding import DamagedIndexError, index_of
from cfagg.arrays.index.rows import UNKNOWN, Ragged
from cfagg.arrays.index.schema import COLUMNS, FORMAT, VERSION
from cfagg.arrays.index.table import Index
from cfagg.errors import CfaggError, SourceError
from cfagg.errors.arguments import a_path
from cfagg.formats.parquet_pages import UNPACKED, VALUES, check_pages
from cfagg.runtime.files import write_aside
from cfagg.runtime.object_files import object_at
from cfagg.runtime.publishing import refusals_of
from cfagg.storage.handles import handles
from cfagg.storage.urls import Url, is_url

__all__ = ["DamagedIndexError", "index_bytes", "open_index", "write_index"]

Int64 = npt.NDArray[np.int64]

#: The mark before the checksum, and the bytes of the checksum.
_SEAL, _DIGEST = b"CFAGGSUM", 32
_END = b"PAR1"

#: Bytes of the largest index.
_LARGEST = 2**32

#: Most values, and decompressed bytes, per byte of an index, and for the smallest ones.  Real ones have up to 5 and 25.
#: An index that exceeds this is written without compression, and then has less than one.
_VALUES, _FEW_VALUES = 16, 2**20
_UNPACKED, _FEW_BYTES = 128, 2**25

#: Values of a row group, and those of a file in addition to its variables and chunks.
_GROUP, _COST = 2**16, 8

#: Columns of texts and bytes, of which equal ones are kept once.
_TEXTS = tuple(c.name for c in COLUMNS if c.type in ("string", "binary"))


#: Arrow's errors are derived from one of these, depending on the cause.
_ERRORS = (
    ArithmeticError, AttributeError, LookupError, MemoryError, OSError, RuntimeError, TypeError, ValueError,
)  # fmt: skip


def write_index(index: Index, path: str | os.PathLike[str], *, create: bool = False, match: str | None = None) -> None:
    """Write an index completely or not at all; paths in it are relative to its directory.

    In an object store, `create` and `match` are the conditions of `ObjectStore.put`.
    """
    if isinstance(path, Url):
        objects, name = object_at(path)
        objects.put(name, index_bytes(index, path.place[0]), create=create, match=match)
        return
    target = a_path(path)
    real = os.path.realpath(target)  # follows a link, so that the file is replaced and not the link
    data = index_bytes(index, os.path.dirname(real))  # noqa: PTH120
    with refusals_of(target):
        write_aside(Path(real), data)


def index_bytes(index: Index, home: str) -> bytes:
    """Return the bytes of an index for a directory."""
    data = _encoded(index, home)
    try:
        _check(data)
    except SourceError:
        data = _encoded(index, home, "none")
    return _sealed(data)


def _check(data: bytes) -> None:
    """Raise an error if a Parquet file would need more memory than an index of its size."""
    size = len(data)
    check_pages(data, min(VALUES, _FEW_VALUES + _VALUES * size), min(UNPACKED, _FEW_BYTES + _UNPACKED * size))


def _encoded(index: Index, home: str, compression: str = "zstd") -> bytes:
    """Return an index as Parquet."""
    import pyarrow as pa
    from pyarrow import parquet

    metadata = {FORMAT: str(VERSION), "aggregation": index.aggregation or ""}
    kinds = {"string": pa.string(), "int64": pa.int64(), "binary": pa.binary(), "list<int64>": pa.list_(pa.int64())}
    schema = pa.schema([pa.field(c.name, kinds[c.type], c.nullable) for c in COLUMNS], metadata)
    sink = pa.BufferOutputStream()
    with parquet.ParquetWriter(
        sink,
        schema,
        compression=compression,
        use_dictionary=["path", "etag", "digest", "variable", "header"],
        write_statistics=False,
    ) as writer:
        # As many files at once as need little memory.
        weight = np.cumsum(_COST + np.diff(index.bounds) + np.diff(index.offset.bounds[index.bounds]))
        cuts = np.searchsorted(weight, np.arange(0, int(weight[-1]) if weight.size else 0, _GROUP)).tolist()
        for begin, end in itertools.pairwise([*dict.fromkeys(cuts), len(index)]):
            part = index if end - begin == len(index) else index.take(np.arange(begin, end))
            columns = _columns(part, home, index.shared if not begin else None)
            writer.write_table(pa.table([columns[c.name] for c in COLUMNS], schema=schema))
    return bytes(sink.getvalue())


def _columns(index: Index, home: str, known: bytes | None) -> dict[str, Any]:
    """Return the columns of an index; information that files share is in the very first row."""
    import pyarrow as pa

    counts = np.diff(index.bounds)
    # A file without variables has a row, too.
    file = np.repeat(np.arange(len(index)), np.maximum(counts, 1))
    first = np.zeros(len(file), np.bool_)
    first[np.cumsum(np.maximum(counts, 1)) - np.maximum(counts, 1)] = True
    row = np.full(len(file), -1)
    row[np.repeat(counts > 0, np.maximum(counts, 1))] = np.arange(len(index.address))
    there = row >= 0
    paths = [_relative(index.where(i), home) for i in range(len(index))]
    shared = [known, *[None] * (len(file) - 1)][: len(file)]

    def number(column: Int64) -> Any:
        values = column[file]
        return pa.array(values, pa.int64(), mask=values == UNKNOWN)

    def by_file(column: Sequence[Any], kind: Any) -> Any:
        return pa.array([column[i] for i in file.tolist()], kind)

    def lists(column: Ragged, rows: Int64) -> Any:
        taken = column if np.array_equal(rows, np.arange(len(column))) else _with_none(column).take(rows)
        wide = pa.LargeListArray.from_arrays(pa.array(taken.bounds, pa.int64()), pa.array(taken.values, pa.int64()))
        if (rows < 0).any():
            wide = pa.compute.if_else(pa.array(rows >= 0), wide, None)
        return wide.cast(pa.list_(pa.int64()))

    def texts(column: Sequence[str]) -> Any:
        return pa.array([column[k] if k >= 0 else None for k in row.tolist()], pa.string())

    return {
        "path": by_file(paths, pa.string()),
        "size": pa.array(index.size[file], pa.int64()),
        "mtime_ns": number(index.mtime_ns),
        "ctime_ns": number(index.ctime_ns),
        "inode": number(index.inode),
        "etag": by_file(index.etag, pa.string()),
        "digest": by_file(index.digest, pa.binary()),
        "ranges": lists(index.ranges, file),
        "description": pa.array(
            [index.description[i] if f else None for i, f in zip(file.tolist(), first.tolist(), strict=True)],
            pa.binary(),
        ),
        "shared": pa.array(shared, pa.binary()),
        "variable": texts(index.address),
        "header": pa.array(
            [index.headers[int(index.header[k])] if k >= 0 else None for k in row.tolist()], pa.string()
        ),
        "shape": lists(index.shape, row),
        "chunks": lists(index.chunks, row),
        "record": pa.array(np.where(there, index.record[row] if len(index.record) else 0, 0), mask=~there),
        "cell": lists(index.cell, row),
        "offset": lists(index.offset, row),
        "length": lists(index.length, row),
        "mask": lists(index.mask, row),
    }


def _with_none(column: Ragged) -> Ragged:
    """Return lists followed by an empty one, which is that for index -1."""
    return Ragged(column.values, np.append(column.bounds, column.values.size))


def _relative(path: str, home: str) -> str:
    if not is_url(path):
        return path if is_url(home) else os.path.relpath(path, home)
    inside = path.removeprefix(f"{home}/")
    return path if not inside or is_url(inside) or inside.startswith("/") else inside


def _sealed(data: bytes) -> bytes:
    """Return the bytes of a Parquet file with their checksum before the footer."""
    cut = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    return data[:cut] + _SEAL + hashlib.blake2b(data, digest_size=_DIGEST).digest() + data[cut:]


def _unsealed(data: bytes) -> bytes:
    """Return the bytes of the Parquet file, if its checksum is correct."""
    size = len(_SEAL) + _DIGEST
    cut = len(data) - 8 - int.from_bytes(data[-8:-4], "little") - size
    if data[-4:] != _END or cut < 4 or data[cut : cut + len(_SEAL)] != _SEAL:
        raise DamagedIndexError("it is not an index written by cfagg, or it is truncated")
    plain = data[:cut] + data[cut + size :]
    if hashlib.blake2b(plain, digest_size=_DIGEST).digest() != data[cut + len(_SEAL) : cut + size]:
        raise DamagedIndexError("its bytes are damaged: their checksum differs")
    return plain


def open_index(path: str | os.PathLike[str]) -> Index:
    """Return the index in a file, which is not trusted; a `SourceError` reports why it cannot be used."""
    name = path if isinstance(path, Url) else a_path(path)
    try:
        home = name.place[0] if isinstance(name, Url) else os.path.dirname(os.path.realpath(name))  # noqa: PTH120
        return _decoded(_unsealed(_read(name)), home)
    except DamagedIndexError as error:
        raise DamagedIndexError(f"{name}: {error.message}") from error
    except CfaggError:
        raise
    except _ERRORS as error:
        said = (str(error).splitlines() or [type(error).__name__])[0]
        raise DamagedIndexError(f"{name}: it is damaged: {said}") from error


def _read(name: str) -> bytes:
    """Return all bytes of an index that is not too large."""
    with handles.apart(name) as handle:
        if handle.key.size > _LARGEST:
            raise DamagedIndexError(f"it has {handle.key.size:,} bytes, expected at most {_LARGEST:,}")
        return handle.exactly(handle.key.size, 0)


def _decoded(plain: bytes, home: str) -> Index:
    import pyarrow as pa
    from pyarrow import parquet

    try:
        _check(plain)
    except SourceError as error:
        raise DamagedIndexError(error.message) from error
    file = parquet.ParquetFile(pa.BufferReader(plain), read_dictionary=list(_TEXTS))
    about = file.schema_arrow.metadata or {}
    version = about.get(FORMAT.encode(), b"").decode("ascii", "replace")
    if version != str(VERSION):
        raise DamagedIndexError(f"it is of version {version[:20] or 'unknown'}, expected {VERSION}: build it again")
    for one in COLUMNS:
        at = file.schema_arrow.get_field_index(one.name)
        found = "none" if at < 0 else _plain_type(file.schema_arrow.field(at).type)
        if found != one.type:
            raise DamagedIndexError(f"its column {one.name!r} is of type {found}, expected {one.type}")
    names = [c.name for c in COLUMNS]
    # Older versions of Arrow cannot read a file without a row group.
    table = file.read(names) if file.num_row_groups else file.schema_arrow.empty_table().select(names)
    return index_of(table.combine_chunks(), home, about)


def _plain_type(found: Any) -> str:
    """Return the name of a type as in the schema."""
    text = str(found)
    if text.startswith("dictionary<values="):
        return text.removeprefix("dictionary<values=").partition(",")[0]
    return "list<int64>" if text in ("list<element: int64>", "list<item: int64>") else text
