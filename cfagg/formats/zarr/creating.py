"""Zarr metadata documents of new groups and arrays, as written by zarr-python, without loading it.

All code that writes a Zarr store creates its metadata here.  Sources: the Zarr v2 and v3 core specifications; the
extensions ``rectilinear`` and ``vlen-utf8`` as in zarr-python.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from cfagg.formats.zarr.grids import chunk_grid
from cfagg.formats.zarr.written_codecs import Codec
from cfagg.runtime.files import write_whole

__all__ = [
    "Documents",
    "NewArray",
    "_fill",
    "array_documents",
    "chunk_key",
    "document_bytes",
    "group_documents",
    "write_documents",
]

#: Documents of a node by file name.
Documents = dict[str, dict[str, Any]]

#: Kinds of types in both versions of the format, with the element sizes; text of any length is `object`.
_TYPES = {"b": {1}, "i": {1, 2, 4, 8}, "u": {1, 2, 4, 8}, "f": {2, 4, 8}, "O": {4, 8}}

#: Conversion of numbers to bytes, also for the index of a shard.
_LITTLE = {"name": "bytes", "configuration": {"endian": "little"}}


class NewArray(NamedTuple):
    """Description of a new array."""

    dims: tuple[str, ...] | None  # `None` if they are unnamed, or named in the attributes
    shape: tuple[int, ...]
    dtype: np.dtype[Any]  # `object` is text of any length
    # lengths of a chunk, or for a rectilinear grid those of all chunks per dimension: see `grids.chunk_grid`
    chunks: Sequence[int] | Sequence[Any]
    fill: Any  # a number, bytes or text; `None`, in version 2 only, for no fill value
    codec: Codec
    attributes: Mapping[str, Any]
    # in keys of chunks; by default "/" in version 3, and the implicit dot in version 2
    separator: str | None = None
    inner: Sequence[int] | None = None  # lengths of the chunks in a shard, whose own are `chunks`; version 3 only
    item: int | None = None  # element size for Blosc in version 3; by default that of the type


def array_documents(array: NewArray, zarr_format: int) -> Documents:
    """Return the metadata documents of an array by file name; a type without a name in Zarr raises `TypeError`."""
    dtype = array.dtype
    if dtype.itemsize not in _TYPES.get(dtype.kind, ()) and (dtype.kind != "S" or not dtype.itemsize):
        raise TypeError(f"type {dtype.name} has no name in Zarr")
    return _version_2(array) if zarr_format == 2 else _version_3(array)


def _version_2(array: NewArray) -> Documents:
    document = {
        "shape": list(array.shape),
        "chunks": list(array.chunks),
        "dtype": "|O" if array.dtype.kind == "O" else array.dtype.newbyteorder("<").str,
        "fill_value": None if array.fill is None else _fill(array.fill, array.dtype),
        "order": "C",
        "filters": [{"id": "vlen-utf8"}] if array.dtype.kind == "O" else None,
        **({"dimension_separator": array.separator} if array.separator else {}),
        "compressor": array.codec.version_2(),
        "zarr_format": 2,
    }
    attributes = {**array.attributes, **({} if array.dims is None else {"_ARRAY_DIMENSIONS": list(array.dims)})}
    return {".zarray": document, **({".zattrs": attributes} if attributes else {})}


def _version_3(array: NewArray) -> Documents:
    length = {"length_bytes": array.dtype.itemsize}
    names: dict[str, Any] = {"S": {"name": "null_terminated_bytes", "configuration": length}}
    document = {
        "shape": list(array.shape),
        "data_type": names.get(array.dtype.kind, "string" if array.dtype.kind == "O" else array.dtype.name),
        "chunk_grid": chunk_grid(array.chunks),
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": array.separator or "/"}},
        "fill_value": _fill(array.fill, array.dtype),
        "codecs": _codecs(array),
        "attributes": dict(array.attributes),
        **({"dimension_names": list(array.dims)} if array.dims else {}),
        "zarr_format": 3,
        "node_type": "array",
        "storage_transformers": [],
    }
    return {"zarr.json": document}


def _codecs(array: NewArray) -> list[dict[str, Any]]:
    """Return the codecs of version 3: to bytes, and compression, of chunks, also those in shards."""
    size = 1 if array.dtype.kind == "O" else array.dtype.itemsize
    first: dict[str, Any] = {"name": "bytes"}
    if array.dtype.kind == "O":
        first = {"name": "vlen-utf8", "configuration": {}}
    elif size > 1 and array.dtype.kind != "S":
        first = _LITTLE
    codecs = [first, *array.codec.version_3(array.item or size)]
    if array.inner is None:
        return codecs
    sharding = {
        "chunk_shape": list(array.inner),
        "codecs": codecs,
        "index_codecs": [_LITTLE, {"name": "crc32c"}],
        "index_location": "end",
    }
    return [{"name": "sharding_indexed", "configuration": sharding}]


def _fill(value: Any, dtype: np.dtype[Any]) -> Any:
    """Return a fill value for JSON."""
    if dtype.kind == "O":
        return str(value)
    if dtype.kind == "S":
        # Text that is too long for the type is truncated.
        return base64.standard_b64encode(bytes(value)[: dtype.itemsize]).decode("ascii")
    number = dtype.type(value).item()
    if dtype.kind == "f" and not math.isfinite(number):
        return "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"
    return number


def chunk_key(path: str, index: Sequence[int], zarr_format: int) -> str:
    """Return the key of a chunk within a store: ``tas/c/0/1`` in Zarr v3, ``tas/0.1`` in v2."""
    if zarr_format == 2:
        return f"{path}/{'.'.join(map(str, index)) or '0'}"
    return "/".join([path, "c", *map(str, index)])


def group_documents(attributes: Mapping[str, Any], zarr_format: int) -> Documents:
    """Return the metadata documents of a group by file name, with the one that makes it a group last."""
    if zarr_format == 2:
        return {".zattrs": dict(attributes), ".zgroup": {"zarr_format": 2}}
    return {"zarr.json": {"attributes": dict(attributes), "zarr_format": 3, "node_type": "group"}}


def document_bytes(document: Mapping[str, Any], *, published: bool = False) -> bytes:
    r"""Return a document as it is stored, in the form of zarr-python 3."""
    # If `published`, in that of zarr-python 2: sorted, indented by 4, and a `ValueError` for NaN and infinities.
    if published:
        return json.dumps(document, indent=4, sort_keys=True, allow_nan=False).encode()
    return json.dumps(document, indent=2).encode()


def write_documents(folder: Path, documents: Mapping[str, Mapping[str, Any]], *, published: bool = False) -> None:
    """Write the documents of a node in their order, each completely or not at all; see `document_bytes`."""
    for name, document in documents.items():
        write_whole(folder / name, document_bytes(document, published=published))
