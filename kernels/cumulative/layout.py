"""The smallest number of axes to process a block in, derivation of sums from others, and input for the kernels.

Axes of length 1 are ignored; adjacent axes that are always in the same sets are merged.  For instance, a chunk of
four dimensions, two of which are summed separately, becomes one of two or three, with long rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.kernels.cumulative.mask import Mask

__all__ = ["Axes", "Layout", "Prepared"]

Array = npt.NDArray[Any]
Axes = tuple[int, ...]

_SHORT = 16
"""A last axis that is shorter than this is swapped with the longest one, at the cost of a copy."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Axes of a block as they are processed.

    `shape` is the block's shape, `order` lists its axes from the outermost in memory inwards.  `groups` are the axes of
    the block that each processed axis consists of, and `lengths` their lengths.  If a set has axes of length 1 only,
    the first group is () and represents them.
    """

    shape: tuple[int, ...]
    order: Axes
    groups: tuple[Axes, ...]
    lengths: tuple[int, ...]

    @classmethod
    def of(cls, block: npt.NDArray[Any], sets: Sequence[Axes], weights: npt.NDArray[Any] | None) -> Layout:
        """Return the layout for a block of more than one element that is reduced over several sets of axes.

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
        """Return the number of elements in a sum over axes of this layout."""
        return math.prod(self.lengths[k] for k in inner)

    def contiguous(self, blocks: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return blocks as one row, each in the order of this layout, copied if necessary."""
        return np.ascontiguousarray(blocks.transpose(0, *(1 + a for a in self.order))).reshape(-1)

    def outer(self, reduced: npt.NDArray[Any], axes: Axes) -> npt.NDArray[Any]:
        """Return a reduction of blocks over a set of their axes, in the shape of the remaining axes."""
        shape, order = _restored(self.shape, self.order, axes)
        shaped = reduced.reshape(len(reduced), *shape)
        return shaped if order is None else shaped.transpose(0, *(1 + a for a in order))

    def bases(self, sets: Sequence[Axes]) -> Axes:
        """Return the axes summed directly from the block; the other sums over `sets` are derived from these."""
        chosen = {t[0] for t in sets if len(t) == 1}
        last = len(self.lengths) - 1
        for t in sorted(sets, key=len):
            if not chosen.intersection(t):
                chosen.add(last if last in t else max(t, key=lambda k: self.lengths[k]))
        return tuple(sorted(chosen))

    def parent(self, axes: Axes, made: Iterable[Axes]) -> Axes:
        """Return the largest existing reduction from which the one over `axes` can be derived."""
        return max((t for t in made if set(t) <= set(axes)), key=self.cells)


@lru_cache(maxsize=256)
def _layout(
    shape: tuple[int, ...], strides: tuple[int, ...], sets: tuple[Axes, ...], spans: tuple[bool, ...]
) -> Layout:
    """Return the layout for blocks with these strides, whose weights vary along the axes that they span."""
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
    """Return the lengths of the remaining axes, in their order in memory, and the permutation to their own order."""
    kept = [a for a in order if a not in axes]
    own = sorted(kept)
    return tuple(shape[a] for a in kept), None if kept == own else tuple(kept.index(a) for a in own)


#: Types that are converted beforehand, so that kernels are compiled only for a few types.
_WIDER = {"i1": "i2", "u1": "i2", "u2": "i4", "u4": "i8"}


class _Memory:
    """Memory that NumPy wraps as an array, so that read-only and writable arrays have the same compiled signature."""

    def __init__(self, owner: Array) -> None:
        self.owner = owner
        address = owner.__array_interface__["data"][0]
        self.__array_interface__ = {
            "version": 3,
            "typestr": owner.dtype.str,
            "shape": (owner.size,),
            "data": (address, False),
        }


@dataclass(frozen=True, slots=True)
class Prepared:
    """Blocks of one shape as input of the kernels.

    Parameters
    ----------
    raw : 1-D array of int16, int32, int64, float32 or float64
        The blocks, each in the order of the layout.
    count : int
        Number of blocks.
    dtype : numpy.dtype
        Original type of the blocks.
    layout : Layout
        Layout of each block.
    mask : tuple
        Smallest and largest valid value, two fills, and whether bounds or fills exclude any number.
    weights : float64[m], optional
    places : int64[rows, 2]
        Start of each row's weights, block by block, and their step: 1 if they are consecutive, 0 if the row has a
        single weight.
    """

    raw: Array
    count: int
    dtype: np.dtype[Any]
    layout: Layout
    mask: tuple[Any, ...]
    weights: Array | None
    places: npt.NDArray[np.int64]

    @classmethod
    def of(cls, blocks: Array, mask: Mask, weights: Array | None, sets: Sequence[Axes]) -> Prepared:
        """Prepare blocks.

        Parameters
        ----------
        blocks : array of native type
            One or more blocks along the first axis, each of more than one element.
        mask : Mask
            Mask for the type of the blocks.
        weights : float64 array, optional
            Broadcast to the shape of `blocks`.
        sets : sequence of tuple of int
            All sets of axes over which a block will be reduced.

        Raises
        ------
        OverflowError
            An unsigned value exceeds int64.
        """
        layout = Layout.of(blocks[0], sets, None if weights is None else weights[0])
        dtype = blocks.dtype
        blocks, mask = _narrowed(blocks, mask)
        raw = np.asarray(_Memory(layout.contiguous(blocks)))
        low, high, fills = mask
        most, least = ends(raw.dtype)
        # For unused fills, another fill or a value that does not count; if every integer counts, none is compared.
        none: Any = np.nan
        if raw.dtype.kind == "i":
            none = int(high) + 1 if high < most else max(int(low) - 1, int(least))
        first, second = (raw.dtype.type(f) for f in (*fills, *fills, none, none)[:2])
        tested = bool(fills) or bool(low > least) or bool(high < most)
        flat, places = (None, np.zeros((1, 2), np.int64)) if weights is None else _places(weights, layout)
        return cls(raw, len(blocks), dtype, layout, (low, high, first, second, tested), flat, places)


@lru_cache(maxsize=16)
def ends(dtype: np.dtype[Any]) -> tuple[Any, Any]:
    """Return the largest and the smallest value of a type."""
    ends: Any = np.finfo(dtype) if dtype.kind == "f" else np.iinfo(dtype)
    return dtype.type(ends.max), dtype.type(ends.min)


def _narrowed(block: Array, mask: Mask) -> tuple[Array, Mask]:
    """Return a block in a type for which kernels are compiled, and its mask with at most two fills."""
    dtype, (low, high, fills) = block.dtype, mask
    if dtype == np.uint64:
        # Values that count are below 2**63 here, so -1 can mark those that do not.
        kind = np.int64
        block = np.where(mask.valid(block), block, np.uint64(2**64 - 1)).view(kind)
        return block, Mask(kind(0), kind(2**63 - 1), ())
    fills = tuple(f for f in fills if low <= f <= high)
    if len(fills) > 2:
        block, fills = np.where(np.isin(block, fills[2:]), fills[0], block), fills[:2]
    wider = _WIDER.get(dtype.str[1:])
    if wider is None:
        return block, Mask(low, high, fills)
    kind = np.dtype(wider).type
    return block.astype(wider), Mask(kind(low), kind(high), tuple(kind(f) for f in fills))


def _places(weights: Array, layout: Layout) -> tuple[Array, npt.NDArray[np.int64]]:
    """Return weights without broadcast axes, and the positions of those of each row of each block."""
    few = weights[tuple(slice(None) if step else slice(1) for step in weights.strides)]
    spans = [bool(g) and weights.strides[1 + g[0]] != 0 for g in layout.groups]
    shape = [len(few), *(n if span else 1 for n, span in zip(layout.lengths, spans, strict=True))]
    flat = layout.contiguous(few).astype(np.float64, copy=False)
    starts = np.arange(math.prod(shape[:-1]), dtype=np.int64).reshape(shape[:-1]) * shape[-1]
    starts = np.broadcast_to(starts, (len(weights), *layout.lengths[:-1])).reshape(-1)
    return np.asarray(_Memory(flat)), np.stack([starts, np.full_like(starts, shape[-1] > 1)], -1)
