"""What is asked of an accumulation, and on which stored objects the answer depends."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from cfagg.accumulation.ranges import Runs
from cfagg.errors import SelectionError
from cfagg.formats.zarr import ZarrArray
from cfagg.model import Regular

__all__ = ["Request", "touched"]

Int64 = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Request:
    """Reduced and kept axes of a source array; every axis is one or the other."""

    #: Ranges that are summed along an axis.
    reduced: Mapping[int, Runs] = field(default_factory=dict)
    #: Positions along an axis that stays: a slice of any step, or positions in any order and with repeats.
    kept: Mapping[int, slice | Int64] = field(default_factory=dict)

    def resolve(self, shape: Sequence[int]) -> Request:
        """Return the request on an array of this shape: kept axes as positions from 0 on, all axes checked."""
        axes = [*self.reduced, *self.kept]
        if sorted(axes) != list(range(len(shape))):
            raise SelectionError(
                f"each of the {len(shape)} axes is either reduced or kept; found reduced {sorted(self.reduced)} and "
                f"kept {sorted(self.kept)}"
            )
        for axis, runs in self.reduced.items():
            if runs.end > shape[axis]:
                raise SelectionError(f"axis {axis} has length {shape[axis]}; a range ends at {runs.end}")
        kept = {axis: _positions(chosen, shape[axis], axis) for axis, chosen in self.kept.items()}
        return Request(
            MappingProxyType(dict(sorted(self.reduced.items()))), MappingProxyType(dict(sorted(kept.items())))
        )

    @property
    def lengths(self) -> tuple[int, ...]:
        """Length of every axis in the result before axes are dropped: kept positions, or groups."""
        sizes = {a: runs.groups for a, runs in self.reduced.items()} | {a: _count(p) for a, p in self.kept.items()}
        return tuple(sizes[a] for a in sorted(sizes))

    @property
    def axes(self) -> tuple[int, ...]:
        """The source's axes that the result has, in order."""
        return tuple(sorted([*self.kept, *(a for a, runs in self.reduced.items() if runs.stays)]))

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the result; known once the request is resolved."""
        lengths = self.lengths
        return tuple(lengths[a] for a in self.axes)

    def __reduce__(self) -> tuple[type[Request], tuple[dict[int, Runs], dict[int, slice | Int64]]]:
        return Request, (dict(self.reduced), dict(self.kept))


def _count(chosen: slice | Int64) -> int:
    """Return the number of positions of a resolved axis."""
    if isinstance(chosen, slice):
        raise SelectionError("the shape of a request is known once it is resolved; call resolve(shape) first")
    return len(chosen)


def _positions(chosen: slice | Int64, length: int, axis: int) -> Int64:
    """Return positions from 0 on; negative ones count from the end."""
    if isinstance(chosen, slice):
        return np.arange(length, dtype=np.int64)[chosen]
    at = np.asarray(chosen)
    if at.ndim != 1 or (at.size and at.dtype.kind not in "iu"):
        raise SelectionError(
            f"axis {axis} takes a slice or a list of positions; found an array of {at.ndim} dimensions, {at.dtype}"
        )
    at = at.astype(np.int64)
    if at.size and not -length <= at.min() <= at.max() < length:
        raise SelectionError(f"axis {axis} has length {length}; positions {at.min()}..{at.max()} lie outside")
    return np.where(at < 0, at + length, at)


def touched(source: ZarrArray, request: Request, read: Iterable[tuple[int, ...]]) -> Int64:
    """Return the numbers of the objects that an answer depends on, ascending."""
    # Let an answer be the sum of a_c·x_c + b_c·y_c over all cells c: x_c is what the cell held when the sums were
    # built, y_c what it holds now, where it was read.  Whatever the plan, a_c + b_c is 1 for cells of the ranges that
    # were asked for (or as often as ranges hold it) and 0 for others.  So the answer is right if x_c = y_c wherever
    # a_c or b_c is not 0.  Outside the ranges a_c = -b_c, and both are 0 unless the cell itself was read: with
    # strides, that is so of the edges that are taken off the core again.  Extremes and centred squares are of nodes
    # and cells within the ranges alone.  Hence: objects that hold a cell of the ranges, and those of which a chunk
    # was read.
    along = []
    for a, (axis, length) in enumerate(zip(source.objects.axes, source.shape, strict=True)):
        runs = request.reduced.get(a)
        if runs is not None:
            some = runs.stop > runs.start
            starts, stops = runs.start[some], runs.stop[some]
        else:
            starts = np.asarray(request.kept[a], np.int64)
            stops = starts + 1
        along.append(_held(axis, length, starts, stops))
    shape = source.objects.matrix_shape
    found = np.zeros(1, np.int64)
    for n, held in zip(shape, along, strict=True):
        found = (found[:, None] * n + held).reshape(-1)
    more = {source.object_of(index) for index in read}
    if more:
        extra = np.array([np.ravel_multi_index(held, shape) if held else 0 for held in more], np.int64)
        found = np.union1d(found, extra)
    return found


def _held(axis: Regular | Int64, length: int, starts: Int64, stops: Int64) -> Int64:
    """Return the objects along one dimension that hold cells of some ranges, each once."""
    count = axis.count if isinstance(axis, Regular) else len(axis) - 1
    if not len(starts) or not length:
        return np.empty(0, np.int64)
    if isinstance(axis, Regular):
        first, last = starts // axis.chunk, (stops - 1) // axis.chunk
    else:
        first = np.searchsorted(axis, starts, side="right") - 1
        last = np.searchsorted(axis, stops - 1, side="right") - 1
    if len(first) == 1:
        return np.arange(int(first[0]), int(last[0]) + 1, dtype=np.int64)
    change = np.zeros(count + 1, np.int64)
    np.add.at(change, first, 1)
    np.add.at(change, last + 1, -1)
    return np.flatnonzero(np.cumsum(change))
