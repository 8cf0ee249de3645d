"""Comparing the sums of other writers with the data, by adding up a few chunks.

A group without cfagg's own attribute does not record how its data were masked and weighted, nor whether they are
unchanged.  Its sums at the first, middle and last chunks reveal most mistakes: other weights, missing values that were
counted, samples at other positions, parts that were never written, data that were rewritten.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.accumulation.foreign_arrays import Samples, stored_type
from cfagg.accumulation.group import CellWeights, SumArrays
from cfagg.accumulation.source import read_cells
from cfagg.conventions.accumulation_record import MaskRecord
from cfagg.errors import FragmentReadError
from cfagg.formats.zarr.metadata import ZarrArray
from cfagg.kernels.cumulative.mask import Mask

__all__ = ["Terms", "check_sums", "holds"]

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


def valid_cells(values: Array, mask: MaskRecord) -> npt.NDArray[np.bool_]:
    """Return a boolean array that is true where values count."""
    return Mask.of(values.dtype, mask.fills, mask.valid_min, mask.valid_max).valid(values)


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
        valid = valid_cells(values, self.terms.mask)
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
    for index in np.ndindex(source.grid.matrix_shape):
        values = read_cells(source, source.grid.extent(index)).view(dtype)
        missing = ~valid_cells(values, declared)
        if (missing if counted is None else missing & valid_cells(values, counted)).any():
            return True
    return False
