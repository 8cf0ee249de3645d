"""Hyperslabs of Zarr arrays whose chunks are decoded here, without zarr-python."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.formats.zarr.chunks import read_box
from cfagg.formats.zarr.metadata import ZarrArray
from cfagg.model import Regular

__all__ = ["DecodedArray"]


class DecodedArray:
    """An array that is indexed by a slice per dimension, of positive step, as one of zarr-python."""

    def __init__(self, array: ZarrArray) -> None:
        self.array, self.ndim = array, array.ndim

    def __getitem__(self, key: Any) -> npt.NDArray[Any]:
        """Return a hyperslab, all elements for an ellipsis; chunks that are not stored are the fill value."""
        array = self.array
        slices = (slice(None),) * array.ndim if key is Ellipsis else key
        picked = [range(*s.indices(n)) for s, n in zip(slices, array.shape, strict=True)]
        out = np.empty([len(p) for p in picked], array.dtype)
        cells = (range(_cell(a, p[0]), _cell(a, p[-1]) + 1) for a, p in zip(array.grid.axes, picked, strict=True))
        for index in itertools.product(*cells) if out.size else ():
            box: list[slice] = []
            place: list[Any] = []
            steps: list[Any] = []
            for p, (low, high) in zip(picked, array.grid.extent(index), strict=True):
                first = max(-((p.start - low) // p.step), 0)
                last = min((high - 1 - p.start) // p.step, len(p) - 1)
                box.append(slice(p.start + first * p.step - low, p.start + last * p.step - low + 1))
                place.append(slice(first, last + 1))
                steps.append(slice(None, None, p.step))
            if any(s.start >= s.stop for s in place):
                continue  # between two steps
            block = read_box(array, index, tuple(box))
            at, taken = (*place, ...), (*steps, ...)
            out[at] = array.fill_value if block is None else block[taken]
        return out


def _cell(axis: Any, position: int) -> int:
    """Return which chunk along a dimension a position is in."""
    return position // axis.chunk if isinstance(axis, Regular) else int(np.searchsorted(axis, position, "right")) - 1
