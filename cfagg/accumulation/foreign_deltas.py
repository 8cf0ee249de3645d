"""Sums that are stored as differences along the accumulated dimension, by the filter ``accumulation_delta_filter``.

NASA's generator of accumulations writes some of its arrays through this filter, which no Zarr library knows; its own
decoder needs the shape of a chunk, which a filter of Zarr v2 is not told.  The array's metadata have it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.conventions.findings import shorten
from cfagg.errors import UnsupportedError
from cfagg.formats.zarr.codecs import DamagedError, Decoder, decoder
from cfagg.formats.zarr.metadata import ZarrArray
from cfagg.formats.zarr.numeric import Step

__all__ = ["FILTER", "DeltaArray", "elements", "has_deltas", "stored_type", "undo_deltas"]

#: The filter's name in ``.zarray``.
FILTER = "accumulation_delta_filter"


@dataclass(frozen=True, eq=False)
class DeltaArray(ZarrArray):
    """An array of sums that is stored as differences and read as sums, in float64 or int64."""

    @cached_property
    def decoder(self) -> Decoder | None:
        """How chunks are decoded: the other codecs undone, then the differences added up."""
        first, *others = self.document["filters"]
        stored = np.dtype(self.document["dtype"])
        inner = _others(self.document, others, stored)
        if inner is None:  # `undo_deltas` has made sure that there is one
            return None
        axis = _axis(first)
        shape = tuple(self.document["chunks"])

        def add_up(raw: Any, fewest: int, most: int) -> Any:  # noqa: ARG001
            deltas = elements(raw, stored, prod(shape)).reshape(shape)
            # In more digits than stored: adding up does not round once more.
            return np.cumsum(deltas, axis=axis, dtype=self.dtype).view(np.uint8).reshape(-1)

        nbytes = prod(shape) * stored.itemsize
        return Decoder((*inner.steps, Step(add_up, lambda sizes: (nbytes, nbytes))), swap=False)  # noqa: ARG005


def elements(raw: Any, dtype: np.dtype[Any], count: int) -> npt.NDArray[Any]:
    """Return decoded bytes as so many elements, or raise `DamagedError`."""
    found = memoryview(raw).nbytes
    if found != count * dtype.itemsize:
        raise DamagedError(f"it decodes to {found:,} bytes, expected {count * dtype.itemsize:,}")
    return np.frombuffer(raw, dtype)


def has_deltas(array: ZarrArray) -> bool:
    """Return whether an array is stored through the filter."""
    filters = array.document.get("filters")
    return array.zarr_format == 2 and any(isinstance(f, dict) and f.get("id") == FILTER for f in filters or ())


def stored_type(array: ZarrArray) -> np.dtype[Any]:
    """Return the type in which the elements of an array are stored, also where they are read in another."""
    return np.dtype(array.document["dtype"]) if isinstance(array, DeltaArray) else array.dtype


def undo_deltas(array: ZarrArray) -> ZarrArray:
    """Return an array that reads as sums where it is stored as their differences, any other as it is."""
    if not has_deltas(array):
        return array
    first, *others = array.document["filters"]
    where = f"{array.store}: array {array.path!r}"
    if not isinstance(first, dict) or first.get("id") != FILTER or array.dtype.kind not in "iuf":
        raise UnsupportedError(f"{where}: the filter {FILTER} is read where it is the first one, and of numbers")
    axis = _axis(first)
    if axis is None or axis >= array.ndim:
        raise UnsupportedError(f"{where}: the filter {FILTER} does not say its axis; found {shorten(first)}")
    if _others(array.document, others, array.dtype) is None:
        raise UnsupportedError(f"{where}: takes a codec beside {FILTER} that is not read")
    wide = replace(array, dtype=np.dtype("f8" if array.dtype.kind == "f" else "i8"))
    return DeltaArray(**{f.name: getattr(wide, f.name) for f in fields(wide)})


def _others(document: Mapping[str, Any], filters: list[Any], dtype: np.dtype[Any]) -> Decoder | None:
    """Return how the other codecs are undone, `None` where one of them is not done here."""
    found = decoder({**document, "filters": filters}, 2, dtype)
    return None if found is None or found.order is not None else found


def _axis(filter_: dict[str, Any]) -> int | None:
    """Return the axis of the stored array along which it holds differences: the first one that is accumulated."""
    order, accumulated = filter_.get("accumulation_dim_order_idx"), filter_.get("accumulation_dimension")
    if not isinstance(order, list) or not isinstance(accumulated, list):
        return None
    return next((axis for axis, d in enumerate(order) if type(d) is int and d in accumulated), None)
