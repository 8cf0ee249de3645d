"""Kerchunk reference files: Zarr version 2 with chunks in other files or inline, as JSON or Parquet.

Source: the specification of kerchunk references, version 1, and the layout that fsspec's `LazyReferenceMapper` reads.
"""

from __future__ import annotations

import base64
import json
import math
import operator
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.errors import UnsupportedError
from cfagg.formats.zarr.attributes import variable_attributes
from cfagg.formats.zarr.creating import NewArray, array_documents
from cfagg.formats.zarr.written_codecs import Codec
from cfagg.storage.urls import Url, is_url
from cfagg.writing.exports.codecs import version_2
from cfagg.writing.exports.planned import Node, Planned

__all__ = ["INLINE", "NOTE", "documents", "encoded", "json_bytes", "write_parquet"]

#: Number of references in one Parquet file.
RECORD = 10_000

#: The metadata that pandas writes for a frame; without it, fastparquet turns integers into floats.
_PANDAS = {
    "columns": [
        {"name": name, "field_name": name, "pandas_type": kind, "numpy_type": type_, "metadata": None}
        for name, kind, type_ in (
            ("path", "unicode", "object"),
            ("offset", "int64", "int64"),
            ("size", "int64", "int64"),
            ("raw", "bytes", "object"),
        )
    ],
    "column_indexes": [],
    "index_columns": [],
    "pandas_version": "2",
}

#: The compressors, which follow the filters.
_COMPRESSORS = ("zlib", "zstd", "blosc", "bz2")

#: Maximum size in bytes of values of one array that are written inline instead of as references.
INLINE = 1 << 20

NOTE = "kerchunk's references do not show whether a file has changed since they were written"


def documents(root: Node) -> dict[str, Any]:
    """Return the metadata documents of a tree by key."""
    found: dict[str, Any] = {}
    for node in root.walk():
        prefix = f"{node.path}/" if node.path else ""
        found[f"{prefix}.zgroup"] = {"zarr_format": 2}
        found[f"{prefix}.zattrs"] = dict(node.attributes)
        for array in node.arrays:
            found[f"{array.path}/.zarray"] = _document(array)
            found[f"{array.path}/.zattrs"] = {
                **variable_attributes(array.attributes, array.dtype), "_ARRAY_DIMENSIONS": list(array.dims)
            }  # fmt: skip
    return found


def _document(array: Planned) -> dict[str, Any]:
    text = array.dtype.kind in "OUT"
    dtype = np.dtype(object) if text else array.dtype
    chunks = array.grid.whole((0,) * array.grid.ndim)
    new = NewArray(None, array.shape, dtype, chunks, array.unstored, Codec("none"), {})
    found = array_documents(new, 2)[".zarray"]
    if not text:
        filters = version_2(array.codecs)
        compressor = filters.pop() if filters and filters[-1]["id"] in _COMPRESSORS else None
        found.update(dtype=dtype.str, filters=filters or None, compressor=compressor)
    return found


def encoded(array: Planned, cell: int) -> bytes:
    """Return an inline chunk as encoded by its codecs."""
    return _encoded(array, array.chunk(cell))


def _unstored(array: Planned) -> bytes | None:
    """Return a chunk of the value that represents chunks that are not stored, or `None` if all are stored."""
    if array.references.cell.size + array.written.size == array.grid.size:
        return None
    values = np.zeros(array.grid.whole((0,) * array.grid.ndim), array.dtype)
    values[...] = array.unstored
    return _encoded(array, values)


def _encoded(array: Planned, values: npt.NDArray[Any]) -> bytes:
    import numcodecs

    if values.dtype.kind in "OUT":
        return bytes(numcodecs.VLenUTF8().encode(values.astype(object)))
    made: Any = np.ascontiguousarray(values.astype(array.dtype, copy=False))
    for given in version_2(array.codecs):
        made = numcodecs.get_codec(given).encode(made)
    return bytes(made) if not isinstance(made, np.ndarray) else made.tobytes()


def _name(place: str) -> str:
    """Return the name of a file as used in references."""
    try:
        place.encode()
    except UnicodeEncodeError as error:
        raise UnsupportedError(f"{place!r} cannot be referred to: its name is not UTF-8; rename the file") from error
    if "{{" in place:
        raise UnsupportedError(f"{place!r} cannot be referred to: readers take '{{{{' as a template; rename the file")
    return str(place) if isinstance(place, Url) or is_url(place) else f"file://{place}"


def _references(array: Planned) -> Iterator[tuple[int, Any]]:
    """Yield the stored cells, each with its place or its bytes."""
    references = array.references
    names = [_name(key.path) for key in references.files]
    for cell, file, offset, length in zip(
        references.cell.tolist(),
        references.file.tolist(),
        references.offset.tolist(),
        references.length.tolist(),
        strict=True,
    ):
        yield cell, [names[file], offset, length]
    for cell in array.written.tolist():
        yield cell, encoded(array, cell)


def json_bytes(root: Node) -> bytes:
    """Return a version 1 reference file."""
    refs: dict[str, Any] = {key: json.dumps(found) for key, found in documents(root).items()}
    for node in root.walk():
        for array in node.arrays:
            for cell, found in _references(array):
                key = ".".join(map(str, array.grid.index(cell))) or "0"
                held = isinstance(found, bytes)
                refs[f"{array.path}/{key}"] = f"base64:{base64.b64encode(found).decode()}" if held else found
    return json.dumps({"version": 1, "refs": refs}).encode()


def write_parquet(root: Node, folder: Path) -> tuple[str, ...]:
    """Write the directory of Parquet files into an existing folder."""
    import pyarrow as pa
    from pyarrow import parquet

    numbers = (pa.field(name, pa.int64(), nullable=False) for name in ("offset", "size"))
    schema = pa.schema([pa.field("path", pa.string()), *numbers, pa.field("raw", pa.binary())])
    schema = schema.with_metadata({"pandas": json.dumps(_PANDAS)})
    for node in root.walk():
        for array in node.arrays:
            count = math.prod(array.grid.matrix_shape)
            held = sorted(_references(array), key=operator.itemgetter(0))
            unstored = _unstored(array)
            at = 0
            for record in range(-(-count // RECORD)):
                paths: list[str | None] = [None] * RECORD
                # With pandas 3, readers fail on chunks with neither a place nor bytes, even those not stored.
                raws: list[bytes | None] = [unstored] * min(RECORD, count - record * RECORD)
                raws += [None] * (RECORD - len(raws))
                columns = np.zeros((2, RECORD), np.int64)
                while at < len(held) and held[at][0] < (record + 1) * RECORD:
                    cell, found = held[at]
                    i, at = cell - record * RECORD, at + 1
                    if isinstance(found, bytes):
                        raws[i] = found
                    else:
                        paths[i], columns[:, i], raws[i] = found[0], found[1:], None
                place = folder / array.path
                place.mkdir(parents=True, exist_ok=True)
                columns_of = [pa.array(paths, pa.string()), *map(pa.array, columns), pa.array(raws, pa.binary())]
                table = pa.table(columns_of, schema=schema)
                parquet.write_table(table, place / f"refs.{record}.parq", compression="zstd", write_statistics=False)
    table_of = {"metadata": documents(root), "record_size": RECORD}
    (folder / ".zmetadata").write_bytes(json.dumps(table_of).encode())
    return (NOTE,)
