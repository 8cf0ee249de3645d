"""Weighted sums of other writers whose weights nobody knows, against the data."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.accumulation.arrays import SumArrays
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
from cfagg.formats.zarr.metadata import ZarrArray

__all__ = ["Bounds"]

Array = npt.NDArray[Any]


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
    values = read_region(source, box).view(terms.dtype)
    valid = valid_cells(values, terms.mask)
    some = valid.any(axis=axes, keepdims=True)
    real = values.astype(np.float64)
    low = np.where(valid, real, np.inf).min(axis=axes, keepdims=True)
    high = np.where(valid, real, -np.inf).max(axis=axes, keepdims=True)
    return np.where(some, low, 0.0), np.where(some, high, 0.0)
