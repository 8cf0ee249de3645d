"""How netCDF-4 stores an array: chunks and filters, those of the source where possible."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from cfagg.arrays.chunked import ZarrReader
from cfagg.arrays.slabs import SlabReader
from cfagg.arrays.stored import NetcdfReader
from cfagg.conversion.chunks import auto_chunks, choose_chunks
from cfagg.conversion.request import Request
from cfagg.conversion.variables import Values
from cfagg.errors import UnsupportedError
from cfagg.model import Regular
from cfagg.writing.exports.codecs import named

__all__ = ["itemsize_of", "storage_of"]

#: Maximum size in bytes of an HDF5 chunk, which is a 32-bit number.
_LARGEST = 2**32 - 1

#: Compression level if the source gives none, or if compression is requested without a level.
_LEVEL, _ASKED = 1, 5


def itemsize_of(dtype: np.dtype[Any]) -> int:
    """Return the size in bytes of an element in a file, approximate for text."""
    return 32 if dtype.kind == "O" else dtype.itemsize


def storage_of(
    values: Values, dtype: np.dtype[Any], request: Request, notes: list[str], *, growing: bool
) -> tuple[tuple[int, ...] | None, dict[str, Any]]:
    """Return chunks, `None` for contiguous storage, and filters by the names of netCDF4-python.

    `growing`: one of its dimensions is unlimited, so that it is always chunked.
    """
    if not values.shape:
        return None, {}
    filters = _filters(values, dtype, request, notes)
    own = _asked(values, dtype, request) or _own_chunks(values, dtype, notes)
    if own is None and not (growing or filters):
        return None, {}
    if own is None or math.prod(own) * itemsize_of(dtype) > _LARGEST:
        own = auto_chunks(values.reader.grid, values.storage, itemsize_of(dtype))
    # Along a dimension that cannot grow, chunks are no longer than the dimension.
    return tuple(max(1, min(c, n) if n else c) for c, n in zip(own, values.shape, strict=True)), filters


def _asked(values: Values, dtype: np.dtype[Any], request: Request) -> tuple[int, ...] | None:
    """Return the requested chunks, or `None` if none were requested for this array."""
    wanted = request.options.chunks
    if wanted == "auto" or (not isinstance(wanted, str) and dict(wanted).keys().isdisjoint(values.dims)):
        return None
    given = wanted if isinstance(wanted, str) else dict(wanted)
    try:
        grid, _ = choose_chunks(
            values.path, values.dims, values.reader.grid, values.storage, itemsize_of(dtype), given, 2
        )
    except UnsupportedError as error:
        raise UnsupportedError(
            f"variable {values.path!r}: its partitions differ in size, and netCDF-4 has chunks of one size only; "
            "choose chunks='auto' or explicit chunks"
        ) from error
    return tuple(axis.chunk for axis in grid.axes if isinstance(axis, Regular))


def _own_chunks(values: Values, dtype: np.dtype[Any], notes: list[str]) -> tuple[int, ...] | None:
    """Return the chunks in which the source stores an array, or `None` if there are none."""
    if values.storage is not None or not isinstance(values.reader, ZarrReader):
        return values.storage or values.reader.chunks
    axes = [axis for axis in values.reader.grid.axes if isinstance(axis, Regular)]
    if len(axes) == len(values.shape):
        return tuple(axis.chunk for axis in axes)
    notes.append(f"variable {values.path!r} has chunks of unequal sizes in the source; netCDF-4 has equal ones")
    return auto_chunks(values.reader.grid, None, itemsize_of(dtype))


def _filters(values: Values, dtype: np.dtype[Any], request: Request, notes: list[str]) -> dict[str, Any]:
    """Return the compression filters: as requested, as in the source, or deflate if the source uses other ones."""
    options, given = request.options, request.given
    deflate = {"zlib": True, "complevel": _LEVEL, "shuffle": dtype.itemsize > 1}
    if options.codec == "none" and "codec" in given:
        return {}
    if dtype.kind == "O":
        reader = values.reader
        # Contiguous values are not compressed; for chunked text, it is unknown whether the source compresses it.
        own = isinstance(reader, SlabReader) or (isinstance(reader, NetcdfReader) and reader.chunks is not None)
        if "codec" in given or options.level is not None or own:
            notes.append(f"variable {values.path!r} is text of any length, which netCDF-4 does not compress")
        return {}
    if "codec" in given or options.level is not None:
        return {**deflate, "complevel": _ASKED if options.level is None else options.level}
    if isinstance(values.reader, NetcdfReader):
        known = values.reader.encoding
        found = {k: known[k] for k in ("zlib", "complevel", "shuffle", "fletcher32") if known.get(k)}
        others = values.reader.other_filters
        if others:
            notes.append(
                f"variable {values.path!r} is packed by {', '.join(map(named, others))} in the source, which not every "
                "reader of netCDF supports: it is packed by deflate"
            )
            return {**deflate, "fletcher32": True} if "fletcher32" in found else deflate
        return found if "zlib" in found or "fletcher32" in found else {}
    if isinstance(values.reader, ZarrReader) and values.reader.array.decoder is not None:
        return deflate if values.reader.array.decoder.steps else {}
    return deflate
