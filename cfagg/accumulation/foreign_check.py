"""Sums of other writers against the data: a few chunks added up and compared.

A group without cfagg's own attribute says neither how its data were masked and weighted nor that they are still the
same.  What it holds at its first, middle and last chunks tells most mistakes: other weights, missing values counted,
samples at other places, parts that were never written, data that were rewritten.
"""

from __future__ import annotations

from functools import partial
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.accumulation.arrays import SumArrays
from cfagg.accumulation.foreign_bounds import Bounds
from cfagg.accumulation.foreign_terms import (
    Box,
    Mismatch,
    Terms,
    cell_sums,
    difference,
    place_name,
    read_region,
    rounding,
    valid_cells,
)
from cfagg.conventions.accumulation_record import MaskRecord
from cfagg.errors import FragmentReadError
from cfagg.formats.zarr.metadata import ZarrArray

__all__ = ["check_sums", "holds", "lacks_any"]

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
        values = read_region(source, source.grid.extent(index)).view(dtype)
        if not valid_cells(values, mask).all():
            return True
    return False


def holds(source: ZarrArray, dtype: np.dtype[Any], counted: MaskRecord, declared: MaskRecord) -> bool:
    """Return whether any cell counts by one mask and is missing by another; reads all of the data."""
    for index in np.ndindex(source.grid.matrix_shape):
        box = source.grid.extent(index)
        values = read_region(source, box).view(dtype)
        if (valid_cells(values, counted) & ~valid_cells(values, declared)).any():
            return True
    return False
