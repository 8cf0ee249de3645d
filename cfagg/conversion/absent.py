"""Chunks of the target that stay absent because the source does not store them either, and both mean the same value.

They are neither read nor encoded nor written, so that the cost of a sparsely stored array is that of its stored chunks.
A chunk that is read but contains only the fill value is not written either, as is the default of zarr-python.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from cfagg.conversion.slab_reading import Scratch, read_slab
from cfagg.formats.zarr.encoding import holds_only
from cfagg.model import Grid

if TYPE_CHECKING:
    from cfagg.conversion.plan import Array, Plan

__all__ = ["boxes", "counted", "with_absent"]

Bools = npt.NDArray[np.bool_]
Int64 = npt.NDArray[np.int64]

#: Stored chunks are only listed if they are at most one in this many cells.
_SPARSE = 4

#: Maximum number of dimensions with more than one chunk; each doubles the number of corners of a box.
_MOST_DIMS = 8

#: In boxes that are read, at least one chunk in this many is wanted.
_WANTED = 4


def with_absent(plan: Plan, zarr_format: int) -> Plan:
    """Return a plan whose arrays know which of their chunks stay absent."""
    return replace(plan, arrays=tuple(_with_absent(a, zarr_format) for a in plan.arrays))


def _with_absent(array: Array, zarr_format: int) -> Array:
    counts = array.grid.matrix_shape
    # Unstored chunks of a version 2 array without a declared fill value are undefined.
    if array.grid.size < 2 or (array.fill is None and zarr_format == 2) or sum(n > 1 for n in counts) > _MOST_DIMS:
        return array
    found = array.reader.stored_boxes(_SPARSE)
    if found is None or found[0].shape[1] != array.grid.ndim:
        return array
    absent = ~_touched(array.grid, *found).reshape(-1)
    first = int(absent.argmax())
    if not absent[first]:
        return array
    sample = _sample(array, first)
    if array.fill is None and array.dtype.kind in "iufb":
        # Readers of version 3 do not treat the value of unstored chunks as missing.
        array = replace(array, unstored=sample.reshape(-1)[0])
    return replace(array, absent=absent) if holds_only(sample, array.padding) else array


def _touched(grid: Grid, starts: Int64, stops: Int64) -> Bools:
    """Return which cells of a grid are touched by some boxes of the array.

    >>> _touched(Grid.regular((10,), (2,)), np.array([[3], [9]]), np.array([[5], [10]]))
    array([False,  True,  True, False,  True])
    """
    counts = grid.matrix_shape
    several = [d for d, n in enumerate(counts) if n > 1]
    low, high = [], []
    for d in several:
        inner = grid.edges[d][1:-1]
        low.append(np.searchsorted(inner, starts[:, d], "right"))
        high.append(np.searchsorted(inner, stops[:, d], "left") + 1)
    # Signed corners of boxes, whose cumulative sums are the number of boxes that contain each cell.
    sums = np.zeros([counts[d] + 1 for d in several], np.int32)
    for ends in product((0, 1), repeat=len(several)):
        corner = tuple((low, high)[end][k] for k, end in enumerate(ends))
        np.add.at(sums, corner, -1 if sum(ends) % 2 else 1)
    for k in range(len(several)):
        np.cumsum(sums, axis=k, out=sums)
    inside = sums[tuple(slice(0, -1) for _ in several)] > 0 if len(starts) else np.zeros([counts[d] for d in several])
    return inside.astype(bool).reshape(counts)


def _sample(array: Array, number: int) -> npt.NDArray[Any]:
    """Return the first element of a chunk in the form in which it would be written."""
    index = np.unravel_index(number, array.grid.matrix_shape)
    start = [int(e[i]) for e, i in zip(array.grid.edges, index, strict=True)]
    return read_slab(array, tuple(slice(a, a + 1) for a in start), Scratch())


def boxes(wanted: Bools) -> list[tuple[slice, ...]]:
    """Return boxes that contain all wanted cells and few others; adjacent cells are in one box if possible.

    >>> boxes(np.array([True, True, *[False] * 17, True]))
    [(slice(0, 2, None),), (slice(19, 20, None),)]
    """
    found: list[tuple[slice, ...]] = []
    waiting: list[tuple[slice, ...]] = [tuple(slice(0, n) for n in wanted.shape)]
    while waiting:
        box = waiting.pop()
        part = wanted[box]
        count = int(np.count_nonzero(part))
        if not count:
            continue
        spans = [_span(part, d) for d in range(part.ndim)]
        box = tuple(slice(b.start + s[0], b.start + s[1]) for b, s in zip(box, spans, strict=True))
        part = wanted[box]
        if count * _WANTED >= part.size:
            found.append(box)
            continue
        _, d, at = max(_gap(part, d) for d in range(part.ndim))
        b = box[d]
        halves = (slice(b.start + at, b.stop), slice(b.start, b.start + at))
        waiting += [(*box[:d], half, *box[d + 1 :]) for half in halves]
    return found


def _held(part: Bools, d: int) -> Int64:
    """Return the positions along a dimension that contain a wanted cell."""
    return np.flatnonzero(part.any(axis=tuple(k for k in range(part.ndim) if k != d)))


def _span(part: Bools, d: int) -> tuple[int, int]:
    held = _held(part, d)
    return int(held[0]), int(held[-1]) + 1


def _gap(part: Bools, d: int) -> tuple[int, int, int]:
    """Return the width of the widest gap along a dimension, the dimension and its end, or the middle without a gap."""
    held = _held(part, d)
    gaps = np.diff(held) - 1
    if not len(gaps):
        return -1, d, 0
    widest = int(gaps.argmax())
    if gaps[widest]:
        return int(gaps[widest]), d, int(held[widest + 1])
    return 0, d, part.shape[d] // 2


def counted(array: Array) -> tuple[int, int]:
    """Return the number of chunks of an array that are read, and the size of their values in bytes."""
    if array.absent is None:
        return array.grid.size, array.nbytes
    held: Any = ~array.absent.reshape(array.grid.matrix_shape)
    count = int(np.count_nonzero(held))
    for edges, n in reversed(list(zip(array.grid.edges, array.shape, strict=True))):
        held = held @ np.diff(np.minimum(edges, n))
    return count, int(held) * array.dtype.itemsize
