"""Sums of other writers against the data: a few chunks added up and compared.

A group without cfagg's own attribute says neither how its data were masked and weighted nor that they are still the
same.  What it holds at its first, middle and last chunks tells most mistakes: other weights, missing values counted,
samples at other places, parts that were never written, data that were rewritten.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.accumulation.foreign_arrays import stored_type
from cfagg.accumulation.group import CellWeights, SumArrays
from cfagg.accumulation.source import read_cells
from cfagg.conventions.accumulation_record import MaskRecord
from cfagg.errors import FragmentReadError
from cfagg.formats.zarr.metadata import ZarrArray
from cfagg.kernels.cumulative.mask import Mask

__all__ = ["Terms", "check_sums", "holds", "lacks_any"]

Array = npt.NDArray[Any]
Box = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Terms:
    """How the values of an array are counted: their type as read, which are missing, and weights, known or not."""

    dtype: np.dtype[Any]
    mask: MaskRecord
    weights: CellWeights | None = None


@dataclass(frozen=True)
class Mismatch:
    """What is wrong with some sums."""

    message: str
    #: Whether they contradict the data, which tells against all sums of the group; else only against these.
    of_data: bool = True
    #: Whether sums of weights differ, so that the weights may be others than those supposed.
    of_weights: bool = False


def valid_cells(values: Array, mask: MaskRecord) -> npt.NDArray[np.bool_]:
    """Return which values count."""
    return Mask.of(values.dtype, mask.fills, mask.valid_min, mask.valid_max).valid(values)


def cell_sums(source: ZarrArray, terms: Terms, box: Box, axes: tuple[int, ...]) -> tuple[Array, Array, Array]:
    """Return sums of the values in a box along some axes, of their absolute values, and of their weights."""
    values = read_cells(source, box).view(terms.dtype)
    valid = valid_cells(values, terms.mask)
    weight = valid.astype(np.float64)
    if terms.weights is not None:
        shape = [b - a if d in terms.weights.axes else 1 for d, (a, b) in enumerate(box)]
        weight *= terms.weights.array[tuple(slice(*box[d]) for d in terms.weights.axes)].reshape(shape)
    weighted = np.where(valid, values, values.dtype.type(0)).astype(np.float64) * weight
    return (
        weighted.sum(axis=axes, keepdims=True),
        np.abs(weighted).sum(axis=axes, keepdims=True),
        weight.sum(axis=axes, keepdims=True),
    )


@dataclass(frozen=True)
class Difference:
    """The difference of two stored sums, and their magnitudes together."""

    value: Array
    size: Array


def difference(array: ZarrArray, axes: Sequence[int], box: Box, index: dict[int, int]) -> Difference | None:
    """Return what stored sums give for a box, `None` where any is not finite."""
    upper = _stored(array, axes, box, index)
    lower = np.zeros_like(upper)
    if any(index.values()):
        lower = _stored(array, axes, box, {d: k - 1 for d, k in index.items()})
    if not (np.isfinite(upper).all() and np.isfinite(lower).all()):
        return None
    return Difference(upper - lower, np.abs(upper) + np.abs(lower))


def rounding(array: ZarrArray) -> float:
    """Return by what part of itself a sum may differ, in the type it is stored in and however it was added up."""
    stored = stored_type(array)
    return max(64 * float(np.finfo(stored).eps), 1e-11) if stored.kind == "f" else 1e-12


def _stored(array: ZarrArray, axes: Sequence[int], box: Box, index: dict[int, int]) -> Array:
    """Return stored sums at one sample and along the other axes of a box, axes in the order of the source."""
    ranges = tuple((index[d], index[d] + 1) if d in index else box[d] for d in axes)
    return read_cells(array, ranges).astype(np.float64).transpose(np.argsort(axes))


def place_name(source: ZarrArray, box: Box, index: dict[int, int], at: tuple[int, ...]) -> str:
    """Return the name of one of the sums over a box."""
    return ", ".join(
        f"{d} {a}:{b}" if i in index else f"{d} {a + n}"
        for i, (d, (a, b), n) in enumerate(zip(source.dims, box, at, strict=True))
    )


class Bounds:
    """What sums of any weights that are not negative have in common, against the data."""

    # A mean lies between the smallest and the largest of its values.  Where the sums of weights show that cells weigh
    # the same all along the summed dimension, the sums of the data follow from them.

    def __init__(self, source: ZarrArray, arrays: SumArrays, terms: Terms) -> None:
        self.source, self.arrays, self.terms = source, arrays, terms
        self.found: dict[Box, Array] = {}

    def check(self, box: Box, index: dict[int, int]) -> Mismatch | None:
        """Compare the stored sums over a box with what the data allow."""
        data, weights = self.arrays.data, self.arrays.weights
        if weights is None:
            return Mismatch("_WEIGHTS are needed", of_data=False)
        total, weight = (difference(a, self.arrays.axes, box, index) for a in (data, weights))
        if total is None or weight is None:
            array = data if total is None else weights
            return Mismatch(f"a sum in {array.name!r} is not finite: cells that are NaN or infinite were counted")
        plain = Terms(self.terms.dtype, self.terms.mask)
        raw, size, count = cell_sums(self.source, plain, box, tuple(index))
        lost = rounding(weights) * weight.size
        if (wrong := weight.value < -lost).any() or (wrong := (count == 0) & (np.abs(weight.value) > lost)).any():
            return self.wrong(box, index, wrong, weight.value, weights, "a negative number, or of no cells", of=False)
        low, high = _extremes(self.source, plain, box, tuple(index))
        allowed = rounding(data) * (total.size + np.maximum(np.abs(low), np.abs(high)) * weight.size)
        wrong = (total.value < low * weight.value - allowed) | (total.value > high * weight.value + allowed)
        if wrong.any():
            return self.wrong(box, index, wrong, total.value, data, "which no weights give")
        one = np.divide(weight.value, count, out=np.zeros(count.shape), where=count > 0)
        same = self.same(box, index, one, lost / np.maximum(count, 1))
        wrong = same & (np.abs(total.value - one * raw) > allowed + rounding(data) * one * size)
        if wrong.any():
            expected = (one * raw)[tuple(np.argwhere(wrong)[0])]
            return self.wrong(box, index, wrong, total.value, data, f"but the data give {expected:.9g}")
        return None

    def same(self, box: Box, index: dict[int, int], one: Array, lost: Array) -> Array:
        """Return where cells weigh the same in two ranges of one dimension."""
        rest = tuple(r for d, r in enumerate(box) if d not in index)
        before = self.found.setdefault(rest, one)
        if before is one or len(index) != 1:
            return np.zeros(one.shape, bool)
        return (one > 0) & (np.abs(before - one) <= 4 * lost + 1e-12 * one)

    def wrong(
        self,
        box: Box,
        index: dict[int, int],
        wrong: Array,
        values: Array,
        array: ZarrArray,
        why: str,
        *,
        of: bool = True,
    ) -> Mismatch:
        """Return the first of the sums that are wrong."""
        at = tuple(int(i) for i in np.argwhere(wrong)[0])
        kind = "sum" if of else "sum of weights"
        where = place_name(self.source, box, index, at)
        return Mismatch(f"the {kind} over {where} in {array.name!r} is {values[at]:.9g}, {why}")


def _extremes(source: ZarrArray, terms: Terms, box: Box, axes: tuple[int, ...]) -> tuple[Array, Array]:
    """Return the smallest and largest of the values in a box along some axes; 0 where there are none."""
    values = read_cells(source, box).view(terms.dtype)
    valid = valid_cells(values, terms.mask)
    some = valid.any(axis=axes, keepdims=True)
    real = values.astype(np.float64)
    low = np.where(valid, real, np.inf).min(axis=axes, keepdims=True)
    high = np.where(valid, real, -np.inf).max(axis=axes, keepdims=True)
    return np.where(some, low, 0.0), np.where(some, high, 0.0)


Range = tuple[int, int]
Samples = tuple[npt.NDArray[np.int64] | None, ...]

#: Elements that one comparison adds up at most, and bytes of chunks that it decodes for them.
_ELEMENTS, _BYTES = 2**22, 2**29


def check_sums(source: ZarrArray, arrays: SumArrays, samples: Samples, terms: Terms) -> Mismatch | None:
    """Return what is wrong with the sums of one combination, `None` where they agree with the data."""
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
    unknown = terms.weights is not None and not terms.weights.known
    check = Bounds(source, arrays, terms).check if unknown else partial(_compare, source, arrays, terms)
    seen = set()
    for ranges, index, place in places:
        box = _box(source, ranges, place)
        if box is None:
            return Mismatch("its first sums are of more data than is quickly added up to check them", of_data=False)
        if (key := (box, tuple(index.values()))) in seen:
            continue
        seen.add(key)
        try:
            wrong = check(box, index)
        except FragmentReadError as error:
            return Mismatch(str(error), of_data=False)
        if wrong is not None:
            return wrong
    return None


def _at(samples: Samples, d: int, k: int) -> int:
    positions = samples[d]
    return 0 if positions is None else int(positions[k])


def _box(source: ZarrArray, ranges: dict[int, Range], place: float) -> Box | None:
    """Return a box of the source: these ranges and, along the other dimensions, a chunk at a place from 0 to 1."""
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
    # The far end stays: it is what a writer may have left out.
    while free and prod(b - a for a, b in box) > _ELEMENTS:
        d = max(free, key=lambda d: box[d][1] - box[d][0])
        a, b = box[d]
        if b - a == 1:
            break
        box[d] = ((a + b) // 2, b)
    return tuple(box)


def _compare(source: ZarrArray, arrays: SumArrays, terms: Terms, box: Box, index: dict[int, int]) -> Mismatch | None:
    """Compare the stored sums over a box with those of the data."""
    total, size, weight = cell_sums(source, terms, box, tuple(index))
    for name, array, expected, scale in (
        ("sum of weights" if terms.weights is not None else "count", arrays.weights, weight, weight),
        ("sum", arrays.data, total, size),
    ):
        if array is None:
            continue
        found = difference(array, arrays.axes, box, index)
        if found is None:
            return Mismatch(f"a {name} in {array.name!r} is not finite: cells that are NaN or infinite were counted")
        wrong = np.abs(found.value - expected) > rounding(array) * (scale + found.size)
        if wrong.any():
            at = tuple(int(i) for i in np.argwhere(wrong)[0])
            return Mismatch(
                f"the {name} over {place_name(source, box, index, at)} in {array.name!r} is {found.value[at]:.9g}, "
                f"but the data give {expected[at]:.9g}",
                of_weights=array is arrays.weights and terms.weights is not None,
            )
    return None


def lacks_any(source: ZarrArray, dtype: np.dtype[Any], mask: MaskRecord) -> bool:
    """Return whether any cell is missing; reads all of the data."""
    for index in np.ndindex(source.grid.matrix_shape):
        values = read_cells(source, source.grid.extent(index)).view(dtype)
        if not valid_cells(values, mask).all():
            return True
    return False


def holds(source: ZarrArray, dtype: np.dtype[Any], counted: MaskRecord, declared: MaskRecord) -> bool:
    """Return whether any cell counts by one mask and is missing by another; reads all of the data."""
    for index in np.ndindex(source.grid.matrix_shape):
        box = source.grid.extent(index)
        values = read_cells(source, box).view(dtype)
        if (valid_cells(values, counted) & ~valid_cells(values, declared)).any():
            return True
    return False
