"""What is asked of an accumulation: which dimensions are reduced over which ranges, and what is kept of the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from cfagg.accumulation.runs import Runs
from cfagg.errors import SelectionError

__all__ = ["Request"]

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
