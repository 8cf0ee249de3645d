"""Zarr metadata of the whole store, written to disk at the very end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cfagg.errors import UnsupportedError
from cfagg.formats.zarr.attributes import encoded_fill
from cfagg.formats.zarr.consolidated import consolidated
from cfagg.formats.zarr.creating import NewArray, array_documents, document_bytes, group_documents
from cfagg.formats.zarr.written_codecs import Codec
from cfagg.runtime.files import write_whole

if TYPE_CHECKING:
    from cfagg.conversion.plan import Array

__all__ = ["build_metadata", "forget_metadata", "write_metadata"]

#: Documents of the root in the order in which they are written; the last one makes it a store.
_ROOT = (".zattrs", ".zmetadata", ".zgroup", "zarr.json")


def build_metadata(
    groups: Mapping[str, Mapping[str, Any]], arrays: Sequence[Array], codec: Codec, zarr_format: int
) -> dict[str, bytes]:
    """Return the metadata documents of a store by key, consolidated, those of the root last; parents come first."""
    nodes = {path: group_documents(attributes, zarr_format) for path, attributes in groups.items()}
    documents: dict[str, bytes] = {}
    for path in groups:
        if path:
            documents |= _texts(path, nodes[path])
    for array in arrays:
        try:
            nodes[array.path] = array_documents(_new(array, codec, zarr_format), zarr_format)
            documents |= _texts(array.path, nodes[array.path])
        except (TypeError, ValueError) as error:
            raise UnsupportedError(
                f"variable {array.path!r} cannot be described in Zarr v{zarr_format}: {error}; "
                "leave it out with variables="
            ) from error
    root = _texts("", consolidated(nodes, zarr_format))
    return {**documents, **{name: root[name] for name in _ROOT if name in root}}


def _texts(path: str, documents: Mapping[str, Any]) -> dict[str, bytes]:
    """Return documents in stored form, by key."""
    return {f"{path}/{name}".lstrip("/"): document_bytes(d) for name, d in documents.items()}


def _new(array: Array, codec: Codec, zarr_format: int) -> NewArray:
    """Return the definition of an array for Zarr."""
    attributes = dict(array.attributes)
    encoded = encoded_fill(array.fill, array.dtype, attributes) if zarr_format == 3 else None
    if encoded is not None:
        attributes["_FillValue"] = encoded
    return NewArray(
        dims=array.dims,
        shape=array.shape,
        dtype=array.dtype,
        chunks=_lengths(array) if array.rectilinear else array.chunk_shape,
        fill=array.padding if zarr_format == 3 else array.fill,
        codec=codec,
        attributes=attributes,
        separator="/" if zarr_format == 3 else ".",
        inner=array.inner,
    )


def _lengths(array: Array) -> list[Any]:
    """Return the lengths of chunks of unequal sizes along each dimension, as columns."""
    return [np.diff(np.minimum(e, n)) for e, n in zip(array.grid.edges, array.shape, strict=True)]


def forget_metadata(documents: Mapping[str, bytes], root: Path) -> None:
    """Remove the documents of the root, so that an unfinished store cannot be opened."""
    for key in documents:
        if "/" not in key:
            (root / key).unlink(missing_ok=True)


def write_metadata(documents: Mapping[str, bytes], root: Path) -> None:
    """Write metadata documents below `root` in order, so that the store cannot be opened before the last one exists."""
    for key, document in documents.items():
        path = root / key
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, document)
