"""The fewest axes in which a block can be worked off, and which sums are made from which.

Axes of length 1 say nothing; neighbours that every set of axes has or lacks together are one axis.  So a chunk of four
dimensions of which two are summed apart becomes one of two or three, with long rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Axes", "Layout"]

Axes = tuple[int, ...]

_SHORT = 16
"""A last axis below this length changes places with the longest one, at the cost of a copy."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Axes of a block as they are worked off.

    Parameters
    ----------
    shape : tuple of int
        Shape of the block.
    order : tuple of int
        The block's axes, outermost in memory first.
    groups : tuple of tuple of int
        For each axis that is worked off, the block's axes that it is made of.  Where a set has axes of length 1 only,
        the first group is () and stands for them.
    lengths : tuple of int
        Its length.
    """

    shape: tuple[int, ...]
    order: Axes
    groups: tuple[Axes, ...]
    lengths: tuple[int, ...]

    @classmethod
    def of(cls, block: npt.NDArray[Any], sets: Sequence[Axes], weights: npt.NDArray[Any] | None) -> Layout:
        """Return the layout for a block that is reduced over several sets of axes.

        Parameters
        ----------
        block : array
            Of more than one element.
        sets : sequence of tuple of int
        weights : array, optional
            Broadcast to the block's shape.

        Examples
        --------
        >>> Layout.of(np.zeros((120, 1, 90, 180)), [(0,), (2, 3)], None).lengths
        (120, 16200)
        """
        spans = (False,) * block.ndim if weights is None else tuple(step != 0 for step in weights.strides)
        return _layout(block.shape, block.strides, tuple(sets), spans)

    @property
    def everything(self) -> Axes:
        """All axes of the block."""
        return tuple(k for k, g in enumerate(self.groups) if g)

    def inner(self, axes: Axes) -> Axes:
        """Return a set of the block's axes as axes of this layout."""
        return tuple(k for k, g in enumerate(self.groups) if g and g[0] in axes) or (0,)

    def cells(self, inner: Axes) -> int:
        """Return how many elements a sum over axes of this layout has."""
        return math.prod(self.lengths[k] for k in inner)

    def contiguous(self, block: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return a block as one row in the order of this layout, copied where it must be."""
        return np.ascontiguousarray(block.transpose(self.order)).reshape(-1)

    def outer(self, reduced: npt.NDArray[Any], axes: Axes) -> npt.NDArray[Any]:
        """Return what was reduced over a set of the block's axes with the axes that the block has left."""
        shape, order = _restored(self.shape, self.order, axes)
        shaped = reduced.reshape(shape)
        return shaped if order is None else shaped.transpose(order)

    def bases(self, sets: Sequence[Axes]) -> Axes:
        """Return the axes of this layout whose sums are taken from the block; all others follow from these.

        Parameters
        ----------
        sets : sequence of tuple of int
            Sets of axes of this layout, not empty.
        """
        chosen = {t[0] for t in sets if len(t) == 1}
        last = len(self.lengths) - 1
        for t in sorted(sets, key=len):
            if not chosen.intersection(t):
                chosen.add(last if last in t else max(t, key=lambda k: self.lengths[k]))
        return tuple(sorted(chosen))

    def parent(self, axes: Axes, made: Iterable[Axes]) -> Axes:
        """Return the largest reduction that was made already and from which the one over `axes` follows."""
        return max((t for t in made if set(t) <= set(axes)), key=self.cells)


@lru_cache(maxsize=256)
def _layout(
    shape: tuple[int, ...], strides: tuple[int, ...], sets: tuple[Axes, ...], spans: tuple[bool, ...]
) -> Layout:
    """Return the layout for blocks of these steps, whose weights change along the axes that they span."""
    order = sorted(range(len(shape)), key=lambda a: -abs(strides[a]))
    long = [a for a in order if shape[a] > 1]
    longest = max(long, key=lambda a: shape[a])
    if shape[long[-1]] < min(_SHORT, shape[longest]):
        for axes in (order, long):
            axes.remove(longest)
            axes.append(longest)
    groups: list[list[int]] = []
    last: tuple[bool, ...] | None = None
    for a in long:
        kind = (spans[a], *(a in t for t in sets))
        if kind == last:
            groups[-1].append(a)
        else:
            groups.append([a])
        last = kind
    if any(all(shape[a] == 1 for a in t) for t in sets):
        groups.insert(0, [])
    lengths = tuple(math.prod(shape[a] for a in g) for g in groups)
    return Layout(shape, tuple(order), tuple(map(tuple, groups)), lengths)


@lru_cache(maxsize=1024)
def _restored(shape: tuple[int, ...], order: Axes, axes: Axes) -> tuple[tuple[int, ...], Axes | None]:
    """Return the lengths of the axes that are left, in their order in memory, and how they are put in their own."""
    kept = [a for a in order if a not in axes]
    own = sorted(kept)
    return tuple(shape[a] for a in kept), None if kept == own else tuple(kept.index(a) for a in own)
