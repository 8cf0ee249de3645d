"""The dimensions shown in a picture of a partition matrix, divided into the cells that are drawn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from cfagg.display.escape import printable
from cfagg.model import Grid

__all__ = ["Axis", "choose"]

#: Maximum number of cells drawn to the right, downwards and in depth.
_MOST = (60, 20, 8)
#: Minimum and maximum length in pixels, in the same order.
_LENGTHS = ((460.0, 460.0), (110.0, 250.0), (60.0, 150.0))
#: Lengths if there is no such dimension.
_ABSENT = (150.0, 70.0, 0.0)


@dataclass(frozen=True)
class Axis:
    """One direction of a picture: partition numbers, positions in the array and pixels of the edges of its cells.

    `number` is the dimension, or `None` if there is none in this direction; `uniform` the size of all partitions except
    perhaps the last.  `bounds`, `edges` and `pixels` have one more entry than there are cells.
    """

    number: int | None
    name: str
    size: int
    partitions: int
    bounds: np.ndarray[Any, Any]
    edges: np.ndarray[Any, Any]
    pixels: np.ndarray[Any, Any]
    uniform: int | None

    @property
    def cells(self) -> int:
        """Number of cells drawn."""
        return len(self.bounds) - 1

    @property
    def binned(self) -> bool:
        """Whether a drawn cell represents several partitions."""
        return self.cells < self.partitions

    @property
    def length(self) -> float:
        """Length in pixels."""
        return float(self.pixels[-1])

    @property
    def sizes(self) -> list[int]:
        """Sizes of the drawn cells."""
        return [int(n) for n in np.diff(self.edges)]

    @property
    def title(self) -> str:
        """The longest text that `described` returns."""
        return self.described(True)

    def described(self, cut: bool) -> str:
        """Return name and size, and with `cut` the partitioning of the dimension."""
        text = f"{self.name}: {self.size:,}"
        if cut and self.partitions > 1:
            text += f" in {self.partitions:,} partitions"
            if self.uniform is not None:
                text += f" of {self.uniform:,}"
        return text

    def places(self, start: float) -> Iterator[tuple[float, float]]:
        """Yield the pixels at which each drawn cell begins and ends."""
        return pairwise((self.pixels + start).tolist())

    def middle(self, cell: int) -> int:
        """Return the partition that represents a drawn cell."""
        return int(self.bounds[cell] + self.bounds[cell + 1] - 1) // 2

    def span(self, cell: int) -> str:
        """Return the range of the array that a drawn cell covers."""
        return f"{self.edges[cell]}:{self.edges[cell + 1]}"


def choose(dims: Sequence[str], grid: Grid) -> tuple[Axis, Axis, Axis]:
    """Return the directions to the right, downwards and in depth, by numbers of partitions.

    The dimension with the most partitions (the last of several) runs to the right, the next one (the first of several)
    downwards. Dimensions of size 1 are only drawn if there are no others.
    """
    shape, matrix = grid.shape, grid.matrix_shape
    # A dimension of size 0 has no partition, so there is nothing to draw.
    order = [d for d, n in enumerate(shape) if n > 1 and matrix[d] > 0] or list(range(min(1, len(shape))))
    if 0 in matrix:
        order = []
    right = [max(order, key=lambda d: (matrix[d], d))] if order else []
    others = sorted((d for d in order if d not in right), key=lambda d: (-matrix[d], d))
    # Among undivided dimensions, the last ones in order are chosen: a map, rather than levels and rows of it.
    whole = [d for d in others if matrix[d] == 1]
    cut = [d for d in others if matrix[d] > 1]
    rest = (cut + whole[-max(0, 2 - len(cut)) :])[:2] if len(cut) < 2 else cut[:2]
    numbers = [*right, *rest, None, None, None][:3]
    base = shape[right[0]] if right else 1
    first, second, third = (_axis(dims, grid, d, k, base) for k, d in enumerate(numbers))
    return first, second, third


def _axis(dims: Sequence[str], grid: Grid, number: int | None, direction: int, base: int) -> Axis:
    """Return one direction; the width of the picture corresponds to the size `base`."""
    if number is None:
        one = np.array([0, 1])
        return Axis(None, "", 1, 1, one, one, np.array([0.0, _ABSENT[direction]]), None)
    edges = np.minimum(grid.edges[number], grid.shape[number])
    count = len(edges) - 1
    cells = min(count, _MOST[direction])
    bounds = np.linspace(0, count, cells + 1).round().astype(np.int64)
    shortest, longest = _LENGTHS[direction]
    # Sizes of dimensions differ by orders of magnitude; their roots show which is longer without flattening a face.
    length = float(np.clip(longest * (grid.shape[number] / base) ** 0.35, shortest, longest))
    share = np.maximum(np.diff(edges[bounds]) / max(1, edges[-1]), 0.004)
    pixels = np.concatenate([[0.0], np.cumsum(share / share.sum())]) * length
    sizes = np.diff(edges)
    uniform = int(sizes[0]) if count > 1 and (sizes[:-1] == sizes[0]).all() and sizes[-1] <= sizes[0] else None
    return Axis(number, printable(dims[number]), grid.shape[number], count, bounds, edges[bounds], pixels, uniform)
