"""Which chunks of an array are read: all of them, or those from one on along the dimension that has grown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.formats.zarr import ZarrArray

__all__ = ["Window"]

Int64 = npt.NDArray[np.int64]
Axes = tuple[int, ...]


@dataclass(frozen=True)
class Window:
    """A box of chunks: everything, or what lies from chunk `first` of `axis` on."""

    # Chunks are numbered in C order within the window.  Positions along a dimension are those of the window: chunk
    # numbers where a combination of dimensions accumulates it, elements else, both from 0 at the window's start.

    array: ZarrArray
    axis: int | None = None
    first: int = 0

    @cached_property
    def edges(self) -> tuple[Int64, ...]:
        """Edges of the window's chunks in elements of the array, the last cut at the array's end."""
        cut = [np.minimum(e, n) for e, n in zip(self.array.grid.edges, self.array.shape, strict=True)]
        if self.axis is not None:
            cut[self.axis] = cut[self.axis][self.first :]
        return tuple(cut)

    @property
    def matrix_shape(self) -> tuple[int, ...]:
        """Number of chunks along each dimension."""
        return tuple(len(e) - 1 for e in self.edges)

    @property
    def size(self) -> int:
        """Number of chunks."""
        return int(np.prod(self.matrix_shape, dtype=np.int64))

    @property
    def elements(self) -> int:
        """Number of elements in them."""
        n = 1
        for e in self.edges:
            n *= int(e[-1] - e[0])
        return n

    @cached_property
    def lengths(self) -> tuple[Int64, ...]:
        """Lengths of the chunks along each dimension."""
        return tuple(np.diff(e) for e in self.edges)

    def start(self, axis: int) -> int:
        """Return the first element of the window along a dimension."""
        return int(self.edges[axis][0])

    def first_chunk(self, axis: int) -> int:
        """Return the first chunk of the window along a dimension."""
        return self.first if axis == self.axis else 0

    def index(self, number: int) -> tuple[int, ...]:
        """Return the index in the array's grid of a chunk of the window."""
        local = [int(i) for i in np.unravel_index(number, self.matrix_shape)]
        if self.axis is not None:
            local[self.axis] += self.first
        return tuple(local)

    def shape(self, number: int) -> tuple[int, ...]:
        """Return the shape of a chunk of the window."""
        local = np.unravel_index(number, self.matrix_shape)
        return tuple(int(n[i]) for n, i in zip(self.lengths, local, strict=True))

    def sizes(self, axes: Axes) -> Int64:
        """Return per chunk the number of elements that are left when `axes` are summed over."""
        return self._outer([np.ones_like(n) if a in axes else n for a, n in enumerate(self.lengths)])

    def bounds(self, axes: Axes) -> tuple[Int64, ...]:
        """Return per dimension the edges of the chunks' partial sums over `axes`, in positions of the window."""
        return tuple(np.arange(len(e), dtype=np.int64) if a in axes else e - e[0] for a, e in enumerate(self.edges))

    @cached_property
    def objects(self) -> Int64:
        """Per chunk the number of the stored object that holds it."""
        array, number = self.array, np.zeros(self.matrix_shape, np.int64)
        for a, (inner, outer) in enumerate(zip(array.grid.edges, array.objects.edges, strict=True)):
            held = np.searchsorted(outer, inner[:-1], side="right") - 1
            place = [1] * array.ndim
            place[a] = -1
            number = number * array.objects.matrix_shape[a] + held[self.first_chunk(a) :].reshape(place)
        return number.reshape(-1)

    @cached_property
    def leading(self) -> npt.NDArray[np.bool_]:
        """Per chunk whether it is the first of the window in the object that holds it."""
        out = np.zeros(self.size, bool)
        out[np.unique(self.objects, return_index=True)[1]] = True
        return out

    def _outer(self, factors: Sequence[Any]) -> Int64:
        """Return products of one factor per dimension, flat in C order of the chunks."""
        out = np.ones(self.matrix_shape, np.int64)
        for a, f in enumerate(factors):
            place = [1] * len(factors)
            place[a] = -1
            out *= np.asarray(f, np.int64).reshape(place)
        return out.reshape(-1)
