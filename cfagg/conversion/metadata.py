"""Zarr metadata of the whole store, made by zarr-python in memory and written to disk at the very end."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cfagg.conversion.attributes import encoded_fill
from cfagg.conversion.codecs import Codec
from cfagg.errors import UnsupportedError

if TYPE_CHECKING:
    from cfagg.conversion.plan import Array

__all__ = ["build_metadata", "forget_metadata", "write_metadata"]


def build_metadata(
    groups: Mapping[str, Mapping[str, Any]], arrays: Sequence[Array], codec: Codec, zarr_format: int
) -> dict[str, bytes]:
    """Return the metadata documents of a store by key, consolidated, those of the root last.

    Parameters
    ----------
    groups : mapping
        Attributes by path within the store; ``""`` is the root, and parents come first.
    arrays : sequence of Array
        The arrays.
    codec : Codec
        Compression of all arrays.
    zarr_format : int
        3 or 2.

    Raises
    ------
    UnsupportedError
        If a type or an attribute has no place in a Zarr store.
    """
    import zarr
    from zarr.storage import MemoryStore

    held: dict[str, Any] = {}
    store = MemoryStore(held)
    form: Any = zarr_format
    with zarr.config.set({"array.rectilinear_chunks": True}), warnings.catch_warnings():
        # Both are known: consolidated metadata and fixed-length bytes are not in the v3 core, and xarray uses both.
        warnings.filterwarnings("ignore", message=".*[Cc]onsolidated metadata")
        warnings.filterwarnings("ignore", message=".*does not have a Zarr V3 specification")
        for path, attributes in groups.items():
            zarr.create_group(store, path=path or None, zarr_format=form, attributes=dict(attributes))
        for array in arrays:
            _create(store, array, codec, form)
        zarr.consolidate_metadata(store, zarr_format=form)
    root = [k for k in (".zattrs", ".zmetadata", ".zgroup", "zarr.json") if k in held]
    keys = [k for k in held if k not in root] + root
    return {k: held[k].to_bytes() for k in keys}


def _create(store: Any, array: Array, codec: Codec, zarr_format: Any) -> None:
    """Create the metadata of one array."""
    import zarr

    attributes = dict(array.attributes)
    fill: Any = array.fill
    if zarr_format == 3:
        encoded = encoded_fill(fill, array.dtype)
        if encoded is not None:
            attributes["_FillValue"] = encoded
        fill = array.padding
    else:
        attributes["_ARRAY_DIMENSIONS"] = list(array.dims)
    chunks: Any = [list(s) for s in array.grid.sizes] if array.rectilinear else array.chunk_shape
    try:
        zarr.create_array(
            store,
            name=array.path,
            shape=array.shape,
            chunks=chunks,
            dtype=_zarr_dtype(array.dtype),
            fill_value=fill,
            compressors=codec.for_zarr(zarr_format),
            filters="auto" if array.dtype.kind == "O" else None,
            attributes=attributes,
            dimension_names=array.dims if zarr_format == 3 else None,
            zarr_format=zarr_format,
        )
    except (TypeError, ValueError) as error:
        raise UnsupportedError(
            f"variable {array.path!r} cannot be described in Zarr v{zarr_format}: {error}; leave it out with variables="
        ) from error


def _zarr_dtype(dtype: np.dtype[Any]) -> Any:
    """Return the type as zarr-python names it."""
    if dtype.kind == "O":
        from zarr.dtype import VariableLengthUTF8

        return VariableLengthUTF8()
    return dtype.newbyteorder("<")


def forget_metadata(documents: Mapping[str, bytes], root: Path) -> None:
    """Remove the documents of the root, so that a store that is worked on does not open."""
    for key in documents:
        if "/" not in key:
            (root / key).unlink(missing_ok=True)


def write_metadata(documents: Mapping[str, bytes], root: Path) -> None:
    """Write metadata documents below `root`, in their order: nothing opens before the last one is there."""
    for key, document in documents.items():
        path = root / key
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f".{path.name}.part")
        part.write_bytes(document)
        part.replace(path)
