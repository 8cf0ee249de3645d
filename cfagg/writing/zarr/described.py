"""The metadata documents of the arrays of a new store, and the arrays they describe before these exist."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from cfagg.errors import OptionError, UnsupportedError
from cfagg.formats.zarr.attributes import encoded_fill, fill_of, variable_attributes
from cfagg.formats.zarr.consolidated import consolidated
from cfagg.formats.zarr.creating import NewArray, array_documents, document_bytes, group_documents
from cfagg.formats.zarr.metadata import ZarrArray, array_of
from cfagg.formats.zarr.written_codecs import Codec
from cfagg.model import Grid, Regular
from cfagg.runtime.object_publishing import DOCUMENTS
from cfagg.writing.zarr.forms import Form

__all__ = ["as_regular", "described", "fit", "is_regular", "named", "planned", "store_documents"]

#: Size in bytes of chunks for an array without suitable ones, and the maximum up to which chunks of a source are kept.
_CHUNK, _MOST = 2**22, 2**28


def named(given: Mapping[Any, Any], what: str) -> dict[str, Any]:
    """Return a mapping with its keys as text, each checked to be a name that an array of a store can have."""
    found: dict[str, Any] = {}
    for key, value in given.items():
        name = str(key)
        if (
            not name or name in DOCUMENTS or name.startswith((".", "__")) or not {"/", "\\", "\0"}.isdisjoint(name)
            or (not name.isascii() and any("\ud800" <= c <= "\udfff" for c in name))
        ):  # fmt: skip
            raise OptionError(f"{what}: {name!r} cannot be the name of an array in a Zarr store; give it another one")
        if name in found:
            raise OptionError(f"{what}: two have the name {name!r}; give one of them another")
        found[name] = value
    return found


def described(
    name: str,
    dims: Sequence[str],
    dtype: np.dtype[Any],
    grid: Grid,
    attributes: Mapping[str, Any],
    form: Form | None,
) -> dict[str, Any]:
    """Return the ``zarr.json`` of an array, in its form or else with the default compression of cfagg."""
    if name in DOCUMENTS or name.startswith("__"):
        raise UnsupportedError(f"variable {name!r} has a name that Zarr reserves; rename it")
    declared = fill_of(attributes, dtype, f"variable {name!r}")
    fill = declared
    if fill is None:
        fill = {"O": "", "S": b""}.get(dtype.kind, 0)
    more = variable_attributes(attributes, dtype)
    encoded = encoded_fill(declared, dtype, attributes)
    if encoded is not None:
        more["_FillValue"] = encoded
    new = NewArray(tuple(dims), grid.shape, dtype, _lengths(grid), fill, Codec("zstd"), more)
    try:
        document: dict[str, Any] = array_documents(new, 3)["zarr.json"]
        document_bytes(document)  # fail before anything is computed
    except (TypeError, ValueError) as error:
        raise UnsupportedError(f"variable {name!r} cannot be described in Zarr v3: {error}") from error
    if form is not None:
        document |= {"data_type": form.data_type, "codecs": form.all_codecs, "fill_value": form.fill}
    return document


def planned(name: str, document: Mapping[str, Any]) -> ZarrArray:
    """Return an array that does not exist yet, from its document; its type may be text."""
    known = document
    if document["data_type"] == "string" or not isinstance(document["data_type"], str):
        known = {**document, "data_type": "uint8", "fill_value": 0}
    text = document_bytes(known)
    made = array_of("the new store", name, {f"{name}/zarr.json": text}.get, None)
    if known is document:
        return made
    if document["data_type"] == "string":
        return replace(made, dtype=np.dtype(object), fill_value="", document=document)
    length = document["data_type"]["configuration"]["length_bytes"]
    return replace(made, dtype=np.dtype(f"S{length}"), fill_value=b"", document=document)


def store_documents(
    arrays: Mapping[str, Mapping[str, Any]], attributes: Mapping[str, Any], *, consolidate: bool = True
) -> dict[str, bytes]:
    """Return the documents of a store by key; with `consolidate`, the root document also contains all others."""
    nodes = {"": group_documents(attributes, 3), **{name: {"zarr.json": dict(d)} for name, d in arrays.items()}}
    documents = {f"{name}/zarr.json": document_bytes(d) for name, d in arrays.items()}
    root = consolidated(nodes, 3) if consolidate else nodes[""]
    return {**documents, "zarr.json": document_bytes(root["zarr.json"])}


def as_regular(grid: Grid, dimensions: Collection[int] | None = None) -> Grid:
    """Return a grid of equal chunks, except for shorter last ones, as a regular grid; return any other unchanged."""
    # Only `dimensions` are considered, by default all.
    axes = [
        _as_regular(axis, n) if dimensions is None or d in dimensions else axis
        for d, (axis, n) in enumerate(zip(grid.axes, grid.shape, strict=True))
    ]
    return Grid(axes, grid.shape) if all(isinstance(axis, Regular) for axis in axes) else grid


def is_regular(grid: Grid) -> bool:
    """Return whether all chunks are equal."""
    return all(isinstance(axis, Regular) for axis in grid.axes)


def fit(grid: Grid, dtype: np.dtype[Any]) -> Grid:
    """Return a grid, replaced by one of small chunks if its own are too large to be read at once."""
    itemsize = max(dtype.itemsize, 1)
    lengths = [a.chunk if isinstance(a, Regular) else int(np.diff(a).max()) for a in grid.axes]
    if math.prod(lengths) * itemsize <= _MOST:
        return grid
    chunks = [min(c, n) for c, n in zip(lengths, grid.shape, strict=True)]
    for d in range(len(chunks)):
        rest = math.prod(chunks[d + 1 :]) * itemsize * math.prod(chunks[:d])
        chunks[d] = min(chunks[d], max(1, _CHUNK // max(rest, 1)))
    return Grid.regular(grid.shape, chunks)


def _as_regular(axis: Any, size: int) -> Any:
    if isinstance(axis, Regular):
        return axis
    lengths = np.diff(axis)
    if not len(lengths):
        return Regular(size, max(size, 1))
    first = int(lengths[0])
    if (lengths[:-1] == first).all() and size - int(axis[-2]) <= first:
        return Regular(size, first)
    return axis


def _lengths(grid: Grid) -> list[Any]:
    """Return the chunk lengths as stored: one per dimension of a regular grid, else values for `NewArray`."""
    if is_regular(grid):
        return [axis.chunk for axis in grid.axes]  # type: ignore[union-attr]
    return [axis if isinstance(axis, Regular) else np.diff(axis) for axis in grid.axes]
