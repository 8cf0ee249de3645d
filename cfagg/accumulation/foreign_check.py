"""Sums of other writers: how they are stored, and comparing them with the data by adding up a few chunks.

A group without cfagg's own attribute does not record how its data were masked and weighted, nor whether they are
unchanged.  Its sums at the first, middle and last chunks reveal most mistakes: other weights, missing values that were
counted, samples at other positions, parts that were never written, data that were rewritten.

NASA's generator of accumulations writes some arrays with the filter ``accumulation_delta_filter``, as differences along
the accumulated dimension.  No Zarr library supports this filter, and its own decoder needs the shape of a chunk, which
is not passed to filters of Zarr v2; here the shape is taken from the metadata of the array.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.accumulation.group import CellWeights, Samples, SumArrays, stored_type
from cfagg.accumulation.source import beside, mask_of, read_cells
from cfagg.cf.roles import COMMON_NAMES, place_of
from cfagg.conventions.accumulation_record import MaskRecord
from cfagg.conventions.findings import shorten
from cfagg.errors import FragmentReadError, UnsupportedError
from cfagg.formats.zarr.codecs import DamagedError, Decoder, decoder
from cfagg.formats.zarr.metadata import ZarrArray
from cfagg.formats.zarr.numeric import Step

__all__ = ["Terms", "check_sums", "find_latitude", "has_deltas", "holds", "undo_deltas"]

#: The filter's name in ``.zarray``.
FILTER = "accumulation_delta_filter"


@dataclass(frozen=True, eq=False)
class DeltaArray(ZarrArray):
    """An array of sums that is stored as differences and read as sums, in float64 or int64."""

    @cached_property
    def decoder(self) -> Decoder | None:
        """The decoder of chunks, which undoes the other codecs and then adds up the differences."""
        first, *others = self.document["filters"]
        stored = np.dtype(self.document["dtype"])
        inner = _others(self.document, others, stored)
        if inner is None:  # `undo_deltas` has checked that there is one
            return None
        axis = _axis(first)
        shape = tuple(self.document["chunks"])

        def add_up(raw: Any, fewest: int, most: int) -> Any:  # noqa: ARG001
            deltas = elements(raw, stored, prod(shape)).reshape(shape)
            # In more digits than stored, so that adding up does not round again.
            return np.cumsum(deltas, axis=axis, dtype=self.dtype).view(np.uint8).reshape(-1)

        nbytes = prod(shape) * stored.itemsize
        return Decoder((*inner.steps, Step(add_up, lambda sizes: (nbytes, nbytes))), swap=False)  # noqa: ARG005


def elements(raw: Any, dtype: np.dtype[Any], count: int) -> npt.NDArray[Any]:
    """Return decoded bytes as `count` elements, or raise `DamagedError`."""
    found = memoryview(raw).nbytes
    if found != count * dtype.itemsize:
        raise DamagedError(f"it decodes to {found:,} bytes, expected {count * dtype.itemsize:,}")
    return np.frombuffer(raw, dtype)


def has_deltas(array: ZarrArray) -> bool:
    """Return whether an array is stored with the filter."""
    filters = array.document.get("filters")
    return array.zarr_format == 2 and any(isinstance(f, dict) and f.get("id") == FILTER for f in filters or ())


def undo_deltas(array: ZarrArray) -> ZarrArray:
    """Return an array that is read as sums if it is stored as their differences; any other array is unchanged."""
    if not has_deltas(array):
        return array
    first, *others = array.document["filters"]
    where = f"{array.store}: array {array.path!r}"
    if not isinstance(first, dict) or first.get("id") != FILTER or array.dtype.kind not in "iuf":
        raise UnsupportedError(
            f"{where}: the filter {FILTER} can only be read as the first filter of an array of numbers"
        )
    axis = _axis(first)
    if axis is None or axis >= array.ndim:
        raise UnsupportedError(f"{where}: the filter {FILTER} does not say its axis; found {shorten(first)}")
    if _others(array.document, others, array.dtype) is None:
        raise UnsupportedError(f"{where}: uses a codec besides {FILTER} that is not supported")
    wide = replace(array, dtype=np.dtype("f8" if array.dtype.kind == "f" else "i8"))
    return DeltaArray(**{f.name: getattr(wide, f.name) for f in fields(wide)})


def _others(document: Mapping[str, Any], filters: list[Any], dtype: np.dtype[Any]) -> Decoder | None:
    """Return the decoder of the other codecs, or `None` if one of them is not supported."""
    found = decoder({**document, "filters": filters}, 2, dtype)
    return None if found is None or found.order is not None else found


def _axis(filter_: dict[str, Any]) -> int | None:
    """Return the axis of the stored array along which differences are stored, the first one that is accumulated."""
    order, accumulated = filter_.get("accumulation_dim_order_idx"), filter_.get("accumulation_dimension")
    if not isinstance(order, list) or not isinstance(accumulated, list):
        return None
    return next((axis for axis, d in enumerate(order) if type(d) is int and d in accumulated), None)


def find_latitude(source: ZarrArray) -> CellWeights | None:
    """Return the cosine of the latitude along one of the dimensions, or `None` if no latitude is found."""
    for axis, (name, length) in enumerate(zip(source.dims, source.shape, strict=True)):
        coordinate = beside(source, name)
        if coordinate is None or coordinate.shape != (length,) or not _is_latitude(name, coordinate):
            continue
        try:
            found = np.cos(np.deg2rad(read_cells(coordinate, [(0, length)]).astype(np.float64)))
        except FragmentReadError:
            continue
        # The cosine at a pole may be slightly negative by rounding; cosines of longitudes are clearly negative.
        if np.isfinite(found).all() and (found >= -1e-7).all():
            found.flags.writeable = False
            return CellWeights((axis,), given=found, latitude=coordinate.name)
    return None


def _is_latitude(name: str, coordinate: ZarrArray) -> bool:
    """Return whether a coordinate is a latitude by its name or attributes, and stored in unpacked degrees."""
    named = COMMON_NAMES.get(name.lower()) == "latitude" or place_of(coordinate.attributes) == "latitude"
    return named and coordinate.dtype.kind in "iuf" and "scale_factor" not in coordinate.attributes


Array = npt.NDArray[Any]
Range = tuple[int, int]
Box = tuple[Range, ...]

#: Limits of one comparison: elements to add up, and bytes of chunks to decode for them.
_ELEMENTS, _BYTES = 2**22, 2**29


@dataclass(frozen=True)
class Terms:
    """How the values of an array are counted: dtype as read, missing values, and weights, known or not."""

    dtype: np.dtype[Any]
    mask: MaskRecord
    weights: CellWeights | None = None


@dataclass(frozen=True)
class Mismatch:
    """An error found in some sums."""

    message: str
    #: Whether the sums contradict the data, which discredits all sums of the group, not only these.
    of_data: bool = True
    #: Whether sums of weights differ, so that the weights may not be the assumed ones.
    of_weights: bool = False


@dataclass(frozen=True)
class Stored:
    """The sum over a box as the difference of two stored sums, and their size, which bounds its rounding error."""

    array: ZarrArray
    value: Array
    size: Array

    @property
    def rounding(self) -> float:
        """Bound of the relative error of a sum, by the dtype in which it is stored, however it was added up."""
        stored = stored_type(self.array)
        return max(64 * float(np.finfo(stored).eps), 1e-11) if stored.kind == "f" else 1e-12

    @property
    def is_finite(self) -> bool:
        """Whether no sum is infinite or NaN."""
        return bool(np.isfinite(self.size).all())


class Comparison:
    """Compares the stored sums of one combination with the data, box by box."""

    def __init__(self, source: ZarrArray, arrays: SumArrays, terms: Terms) -> None:
        self.source, self.arrays, self.terms = source, arrays, terms
        #: The mean cell weight that was first found, by box along the other dimensions.
        self.found: dict[Box, Array] = {}

    def check(self, box: Box, index: dict[int, int]) -> Mismatch | None:
        """Return an error in the sums over a box that ends at these samples, if any."""
        weights, sum_of_weights = self.terms.weights, "count" if self.terms.weights is None else "sum of weights"
        stored = [
            (name, self._stored(array, box, index))
            for name, array in ((sum_of_weights, self.arrays.weights), ("sum", self.arrays.data))
            if array is not None
        ]
        for name, found in stored:
            if not found.is_finite:
                return Mismatch(
                    f"a {name} in {found.array.name!r} is not finite: cells that are NaN or infinite were counted"
                )
        values = read_cells(self.source, box).view(self.terms.dtype)
        valid = mask_of(values.dtype, self.terms.mask).valid(values)
        if weights is not None and not weights.known:
            if len(stored) < 2:
                return Mismatch("_WEIGHTS are needed", of_data=False)
            return self._by_bounds(box, index, stored[0][1], stored[1][1], values.astype(np.float64), valid)
        axes, weight = tuple(index), valid.astype(np.float64)
        if weights is not None:
            shape = [b - a if d in weights.axes else 1 for d, (a, b) in enumerate(box)]
            weight *= weights.array[tuple(slice(*box[d]) for d in weights.axes)].reshape(shape)
        weighted = np.where(valid, values, values.dtype.type(0)).astype(np.float64) * weight
        for name, found in stored:
            cells = weighted if name == "sum" else weight
            expected, size = (x.sum(axis=axes, keepdims=True) for x in (cells, np.abs(cells)))
            wrong = np.abs(found.value - expected) > found.rounding * (size + found.size)
            if wrong.any():
                why = f"but the data give {expected[_first(wrong)]:.9g}"
                return self._wrong(name, found, box, index, wrong, why, of_weights=name == "sum of weights")
        return None

    def _by_bounds(
        self, box: Box, index: dict[int, int], weight: Stored, total: Stored, values: Array, valid: Array
    ) -> Mismatch | None:
        """Return a violation of conditions that sums with any non-negative weights satisfy."""
        # A mean is between the smallest and the largest of its values.  If the sums of weights show that cells have the
        # same weight all along the summed dimension, they determine the sums of the data.
        axes = tuple(index)
        real = np.where(valid, values, 0.0)
        raw, size, count = (x.sum(axis=axes, keepdims=True) for x in (real, np.abs(real), valid.astype(np.float64)))
        lost = weight.rounding * weight.size
        if (wrong := weight.value < -lost).any() or (wrong := (count == 0) & (np.abs(weight.value) > lost)).any():
            return self._wrong("sum of weights", weight, box, index, wrong, "which is negative, or a sum over no cells")
        low = np.where(count > 0, np.where(valid, values, np.inf).min(axis=axes, keepdims=True), 0.0)
        high = np.where(count > 0, np.where(valid, values, -np.inf).max(axis=axes, keepdims=True), 0.0)
        allowed = total.rounding * (total.size + np.maximum(np.abs(low), np.abs(high)) * weight.size)
        wrong = (total.value < low * weight.value - allowed) | (total.value > high * weight.value + allowed)
        if wrong.any():
            return self._wrong("sum", total, box, index, wrong, "which no weights can give")
        one = np.divide(weight.value, count, out=np.zeros(count.shape), where=count > 0)
        same = self._same(box, index, one, lost / np.maximum(count, 1))
        wrong = same & (np.abs(total.value - one * raw) > allowed + total.rounding * one * size)
        if wrong.any():
            why = f"but the data give {(one * raw)[_first(wrong)]:.9g}"
            return self._wrong("sum", total, box, index, wrong, why)
        return None

    def _same(self, box: Box, index: dict[int, int], one: Array, lost: Array) -> Array:
        """Return a boolean array that is true where cells have the same weight in two ranges of one dimension."""
        rest = tuple(r for d, r in enumerate(box) if d not in index)
        before = self.found.setdefault(rest, one)
        if before is one or len(index) != 1:
            return np.zeros(one.shape, bool)
        return (one > 0) & (np.abs(before - one) <= 4 * lost + 1e-12 * one)

    def _stored(self, array: ZarrArray, box: Box, index: dict[int, int]) -> Stored:
        """Return the stored sum over a box, with axes in the order of the source."""
        axes = self.arrays.axes

        def at(back: int) -> Array:
            ranges = tuple((index[d] - back, index[d] + 1 - back) if d in index else box[d] for d in axes)
            return read_cells(array, ranges).astype(np.float64).transpose(np.argsort(axes))

        upper = at(0)
        lower = at(1) if any(index.values()) else np.zeros_like(upper)
        return Stored(array, upper - lower, np.abs(upper) + np.abs(lower))

    def _wrong(
        self,
        name: str,
        found: Stored,
        box: Box,
        index: dict[int, int],
        wrong: Array,
        why: str,
        *,
        of_weights: bool = False,
    ) -> Mismatch:
        """Return the mismatch of the first wrong sum."""
        at = _first(wrong)
        place = ", ".join(
            f"{d} {a}:{b}" if i in index else f"{d} {a + n}"
            for i, (d, (a, b), n) in enumerate(zip(self.source.dims, box, at, strict=True))
        )
        message = f"the {name} over {place} in {found.array.name!r} is {found.value[at]:.9g}, {why}"
        return Mismatch(message, of_weights=of_weights)


def _first(wrong: Array) -> tuple[int, ...]:
    return tuple(int(i) for i in np.argwhere(wrong)[0])


def check_sums(source: ZarrArray, arrays: SumArrays, samples: Samples, terms: Terms) -> Mismatch | None:
    """Return an error in the sums of one combination, or `None` if they agree with the data."""
    summed = [d for d, positions in enumerate(samples) if positions is not None]
    if any(positions is not None and not positions.size for positions in samples):
        return Mismatch("it has no sums", of_data=False)
    if not source.size:
        return None
    first = {d: (0, _at(samples, d, 0)) for d in summed}
    places = [(first, dict.fromkeys(summed, 0), place) for place in (0.0, 0.5, 1.0)]
    positions = samples[summed[0]]
    if len(summed) == 1 and positions is not None and len(positions) > 1:
        d, last = summed[0], len(positions) - 1
        places.append(({d: (_at(samples, d, last - 1), _at(samples, d, last))}, {d: last}, 1.0))
    comparison = Comparison(source, arrays, terms)
    seen = set()
    for ranges, index, place in places:
        box = _box(source, ranges, place)
        if box is None:
            return Mismatch("its first sums are over too much data to be checked quickly", of_data=False)
        if (key := (box, tuple(index.values()))) in seen:
            continue
        seen.add(key)
        try:
            wrong = comparison.check(box, index)
        except FragmentReadError as error:
            return Mismatch(str(error), of_data=False)
        if wrong is not None:
            return wrong
    return None


def _at(samples: Samples, d: int, k: int) -> int:
    positions = samples[d]
    return 0 if positions is None else int(positions[k])


def _box(source: ZarrArray, ranges: dict[int, Range], place: float) -> Box | None:
    """Return a box of these ranges and, along the other dimensions, one chunk at a relative position from 0 to 1."""
    box, chunks = [], 1
    for d, (edges, length) in enumerate(zip(source.grid.edges, source.shape, strict=True)):
        if d in ranges:
            a, b = ranges[d]
            chunks *= int(np.searchsorted(edges, b) - np.searchsorted(edges, a, side="right") + 1)
        else:
            i = round(place * (len(edges) - 2))
            a, b = int(edges[i]), min(int(edges[i + 1]), length)
        box.append((a, b))
    cells = prod(max(int(np.diff(edges).max(initial=1)), 1) for edges in source.grid.edges)
    if chunks * cells * source.dtype.itemsize > _BYTES:
        return None
    free = [d for d in range(len(box)) if d not in ranges]
    # Keep the far end, which a writer may have left out.
    while free and prod(b - a for a, b in box) > _ELEMENTS:
        d = max(free, key=lambda d: box[d][1] - box[d][0])
        a, b = box[d]
        if b - a == 1:
            break
        box[d] = ((a + b) // 2, b)
    return tuple(box)


def holds(source: ZarrArray, dtype: np.dtype[Any], counted: MaskRecord | None, declared: MaskRecord) -> bool:
    """Return whether any cell is missing by one mask and counts by the other, if given; read all of the data."""
    missing, counts = mask_of(dtype, declared), None if counted is None else mask_of(dtype, counted)
    for index in np.ndindex(source.grid.matrix_shape):
        values = read_cells(source, source.grid.extent(index)).view(dtype)
        wrong = ~missing.valid(values)
        if (wrong if counts is None else wrong & counts.valid(values)).any():
            return True
    return False
