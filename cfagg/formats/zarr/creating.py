"""Zarr metadata documents of new groups and arrays, and consolidated ones: what zarr-python writes, without loading it.

Sources: the Zarr v2 and v3 core specifications; the extensions ``rectilinear``, ``vlen-utf8`` and consolidated metadata
as zarr-python writes them.
"""

from __future__ import annotations

import base64
import math
import unicodedata
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np

__all__ = ["NewArray", "array_documents", "consolidated", "group_documents"]

#: Documents of a node by file name.
Documents = dict[str, dict[str, Any]]

#: Kinds of types that both versions of the format have, with the sizes of an element; text of any length is `object`.
_TYPES = {"b": {1}, "i": {1, 2, 4, 8}, "u": {1, 2, 4, 8}, "f": {2, 4, 8}, "S": {1}, "O": {4, 8}}


class NewArray(NamedTuple):
    """What an array will be.

    Parameters
    ----------
    dims, shape : tuple
        Names and sizes of the dimensions.
    dtype : numpy.dtype
        Type of the elements; `object` is text of any length.
    chunks : tuple of int, or tuple of sequences of int
        Lengths of a chunk; or, per dimension, the lengths of all chunks, which a rectilinear grid has.
    fill : object
        Fill value: a number, bytes or text; `None`, in version 2 only, is none.
    codec : str
        ``"zstd"``, ``"blosc"`` (zstd, shuffled), ``"gzip"`` or ``"none"``.
    level : int
        Its level.
    attributes : mapping
        Attributes as JSON has them.
    """

    dims: tuple[str, ...]
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    chunks: Sequence[int] | Sequence[Sequence[int]]
    fill: Any
    codec: str
    level: int
    attributes: Mapping[str, Any]


def array_documents(array: NewArray, zarr_format: int) -> Documents:
    """Return the metadata documents of an array by file name.

    Raises
    ------
    TypeError
        Its type has no name in Zarr.

    Examples
    --------
    >>> new = NewArray(("x",), (5,), np.dtype("f4"), (4,), np.float32("nan"), "zstd", 1, {"units": "K"})
    >>> found = array_documents(new, 2)
    >>> found[".zarray"]["fill_value"], found[".zarray"]["compressor"], found[".zattrs"]
    ('NaN', {'id': 'zstd', 'level': 1}, {'units': 'K', '_ARRAY_DIMENSIONS': ['x']})
    """
    dtype = array.dtype
    if dtype.itemsize not in _TYPES.get(dtype.kind, ()):
        raise TypeError(f"type {dtype.name} has no name there")
    return _version_2(array) if zarr_format == 2 else _version_3(array)


def _version_2(array: NewArray) -> Documents:
    blosc = {"cname": "zstd", "clevel": array.level, "shuffle": 1, "blocksize": 0}
    compressor = {"id": array.codec, **(blosc if array.codec == "blosc" else {"level": array.level})}
    document = {
        "shape": list(array.shape),
        "chunks": list(array.chunks),
        "dtype": "|O" if array.dtype.kind == "O" else array.dtype.newbyteorder("<").str,
        "fill_value": None if array.fill is None else _fill(array.fill, array.dtype),
        "order": "C",
        "filters": [{"id": "vlen-utf8"}] if array.dtype.kind == "O" else None,
        "dimension_separator": ".",
        "compressor": None if array.codec == "none" else compressor,
        "zarr_format": 2,
    }
    return {".zarray": document, ".zattrs": {**array.attributes, "_ARRAY_DIMENSIONS": list(array.dims)}}


def _version_3(array: NewArray) -> Documents:
    names: dict[str, Any] = {"S": {"name": "null_terminated_bytes", "configuration": {"length_bytes": 1}}}
    document = {
        "shape": list(array.shape),
        "data_type": names.get(array.dtype.kind, "string" if array.dtype.kind == "O" else array.dtype.name),
        "chunk_grid": _grid(array.chunks),
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": _fill(array.fill, array.dtype),
        "codecs": _codecs(array),
        "attributes": dict(array.attributes),
        **({"dimension_names": list(array.dims)} if array.dims else {}),
        "zarr_format": 3,
        "node_type": "array",
        "storage_transformers": [],
    }
    return {"zarr.json": document}


def _grid(chunks: Sequence[Any]) -> dict[str, Any]:
    """Return a chunk grid; of an irregular one, a run of equal lengths is a pair of length and number."""
    if all(isinstance(c, int) for c in chunks):
        return {"name": "regular", "configuration": {"chunk_shape": list(chunks)}}
    shapes = []
    for lengths in chunks:
        runs = [(int(n), len(list(same))) for n, same in groupby(lengths)]
        shapes.append([[n, count] if count > 1 else n for n, count in runs])
    return {"name": "rectilinear", "configuration": {"kind": "inline", "chunk_shapes": shapes}}


def _codecs(array: NewArray) -> list[dict[str, Any]]:
    """Return the codecs of version 3: to bytes, and compression."""
    size = 1 if array.dtype.kind == "O" else array.dtype.itemsize
    first: dict[str, Any] = {"name": "bytes"}
    if array.dtype.kind == "O":
        first = {"name": "vlen-utf8", "configuration": {}}
    elif size > 1:
        first = {"name": "bytes", "configuration": {"endian": "little"}}
    if array.codec == "none":
        return [first]
    configuration: dict[str, Any] = {"level": array.level}
    if array.codec == "zstd":
        configuration["checksum"] = False
    elif array.codec == "blosc":
        configuration = {
            "typesize": size, "cname": "zstd", "clevel": array.level, "shuffle": "shuffle", "blocksize": 0
        }  # fmt: skip
    return [first, {"name": array.codec, "configuration": configuration}]


def _fill(value: Any, dtype: np.dtype[Any]) -> Any:
    """Return a fill value as JSON has it."""
    if dtype.kind == "O":
        return str(value)
    if dtype.kind == "S":
        # What is too long for the type is cut off.
        return base64.standard_b64encode(bytes(value)[: dtype.itemsize]).decode("ascii")
    number = dtype.type(value).item()
    if dtype.kind == "f" and not math.isfinite(number):
        return "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"
    return number


def group_documents(attributes: Mapping[str, Any], zarr_format: int) -> Documents:
    """Return the metadata documents of a group by file name, the one that makes it a group first."""
    if zarr_format == 2:
        return {".zgroup": {"zarr_format": 2}, ".zattrs": dict(attributes)}
    return {"zarr.json": {"attributes": dict(attributes), "zarr_format": 3, "node_type": "group"}}


def consolidated(nodes: Mapping[str, Documents], zarr_format: int) -> Documents:
    """Return the documents of the root of a store with those of all nodes below it.

    Parameters
    ----------
    nodes : mapping
        Documents by file name, of every group and array by path within the store; ``""`` is the root.
    zarr_format : {2, 3}
        Version of the Zarr format.
    """
    root = nodes[""]
    below = sorted((p for p in nodes if p), key=lambda p: (p.count("/"), unicodedata.normalize("NFKC", p).casefold()))
    nothing = {"metadata": {}, "must_understand": False, "kind": "inline"}
    held: dict[str, Any]
    if zarr_format == 2:
        held = {name: root[name] for name in (".zgroup", ".zattrs")}
        for path in below:
            for name, document in sorted(nodes[path].items(), reverse=".zgroup" not in nodes[path]):
                more = {"consolidated_metadata": nothing} if name == ".zgroup" else {}
                held[f"{path}/{name}"] = {**document, **more}
        return {**root, ".zmetadata": {"metadata": held, "zarr_consolidated_format": 1}}
    held = {}
    for path in below:
        document = nodes[path]["zarr.json"]
        more = {"consolidated_metadata": nothing} if document["node_type"] == "group" else {}
        held[path] = {**document, **more}
    return {"zarr.json": {**root["zarr.json"], "consolidated_metadata": {**nothing, "metadata": held}}}
