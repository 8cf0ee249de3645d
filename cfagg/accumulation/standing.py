"""The part of an accumulation that stays unchanged when its array grows along one dimension."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cfagg.formats.zarr import ZarrArray
from cfagg.model import Regular

__all__ = ["Standing", "standing_of", "whole_objects"]


@dataclass(frozen=True)
class Standing:
    """How much along `axis` is final: chunks of the source, elements, and samples."""

    axis: int
    chunk: int
    position: int
    sample: int

    def limit(self, axes: tuple[int, ...], level: int | None = None) -> int:
        """Return how many entries along `axis` stay: of sums over `axes`, or of statistics of a level."""
        if self.axis not in axes:
            return self.position
        if level is None:
            return self.sample
        limit = self.chunk
        for _ in range(level):
            limit //= 8
        return limit


def whole_objects(array: ZarrArray, axis: int, length: int) -> int:
    """Return how many rows of stored objects lie entirely within the first `length` elements."""
    held = array.objects.axes[axis]
    if isinstance(held, Regular):
        return min(length // held.chunk, held.count)
    return int(np.searchsorted(held, length, side="right")) - 1


def standing_of(array: ZarrArray, axis: int, length: int, stride: int, *, sampled: bool) -> Standing:
    """Return what stays of sums over the first `length` elements; `sampled` if there are sums along the axis."""
    held, grid = array.objects.axes[axis], array.grid.axes[axis]
    whole = whole_objects(array, axis, length)
    position = whole * held.chunk if isinstance(held, Regular) else int(held[whole])
    position = min(position, length)
    chunk = position // grid.chunk if isinstance(grid, Regular) else int(np.searchsorted(grid, position))
    samples = chunk // stride if sampled else 0
    chunk = samples * stride if sampled else chunk
    start = chunk * grid.chunk if isinstance(grid, Regular) else int(grid[chunk])
    return Standing(axis, chunk, start, samples)
