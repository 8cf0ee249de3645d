"""What may be joined, as columns: one row a member (a field of a file, or a variable of one), no object for each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.errors import ModelError

__all__ = ["Axis", "Int64", "Members", "Part", "codes"]

Int64 = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False, slots=True)
class Axis:
    """Where each member stands along one axis, in the canonical direction of the axis.

    Parameters
    ----------
    name : str
        What reasons call the axis.
    code : int64 array, shape (n,)
        Equal for members whose coordinates and bounds along the axis are equal, and only for these.
    first, last : array, shape (n,)
        The first and last coordinate; the same where a member has only one.
    low, high : float64 array, shape (n,), optional
        The least and the greatest bound of the cells of each member, NaN where it has no bounds.
    points : pair of arrays, shape (m,), optional
        The members, by their numbers, that have coordinates, and these: all of them, in any order.
    """

    name: str
    code: Int64
    first: npt.NDArray[Any]
    last: npt.NDArray[Any]
    low: npt.NDArray[np.float64] | None = None
    high: npt.NDArray[np.float64] | None = None
    points: tuple[Int64, npt.NDArray[Any]] | None = None
    #: Whether each member is stored with decreasing coordinates.
    descending: npt.NDArray[np.bool_] | None = None

    @classmethod
    def of_points(cls, name: str, code: Int64, value: npt.NDArray[Any]) -> Axis:
        """Return the axis of members that have one coordinate each."""
        return cls(name, code, value, value)

    def cells(self) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Return the least and the greatest bounds, NaN where there are none."""
        none = np.full(len(self.code), np.nan)
        return none if self.low is None else self.low, none if self.high is None else self.high

    def all_points(self) -> tuple[Int64, npt.NDArray[Any]]:
        """Return members and coordinates; where nothing else is said, each has its first and last."""
        if self.points is not None:
            return self.points
        own = np.arange(len(self.code))
        more = np.flatnonzero(self.first != self.last)
        return np.r_[own, more], np.concatenate([self.first, self.last[more]])


@dataclass(frozen=True, eq=False, slots=True)
class Part:
    """What else belongs to members, such as coordinates of several dimensions, and the names of the axes that it spans.

    It is equal in members that are joined along another axis.
    """

    code: Int64
    axes: frozenset[str]


@dataclass(frozen=True, eq=False, slots=True)
class Members:
    """All that decides which members are joined.

    Parameters
    ----------
    signature : mapping of str to array, shape (n,)
        What is equal in all members of one array: structure, units, cell methods, grids, …
    axes : sequence of Axis
        Axes along which members may be joined, in the order in which it is tried first.
    parts : mapping of str to Part
        What else belongs to members.
    labels : mapping of str to sequence
        What reasons say for the numbers in a column of the signature.
    """

    signature: Mapping[str, npt.NDArray[Any]]
    axes: Sequence[Axis]
    parts: Mapping[str, Part] = field(default_factory=dict)
    labels: Mapping[str, Sequence[Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        columns = {**self.signature, **{f"axis {a.name}": a.code for a in self.axes}}
        columns.update({name: part.code for name, part in self.parts.items()})
        if not columns or len({c.shape for c in columns.values()}) != 1:
            shapes = ", ".join(f"{name} {c.shape}" for name, c in columns.items())
            raise ModelError(f"columns of members have different lengths: {shapes or 'none at all'}")

    def __len__(self) -> int:
        return len(next(iter((*self.signature.values(), *(a.code for a in self.axes)))))


def codes(*columns: npt.NDArray[Any]) -> Int64:
    """Return a number for each row of columns of equal length, from 0 in the order of their values.

    >>> codes(np.array([3.0, 1.0, 3.0]), np.array([1, 1, 1])).tolist()
    [1, 0, 1]
    """
    found = np.zeros(columns[0].shape, np.int64)
    for column in columns:
        # NaN equals itself here: what is missing in both is no difference.
        _, own = np.unique(column, return_inverse=True)
        own = own.reshape(found.shape)
        _, joint = np.unique(found * (int(own.max(initial=0)) + 1) + own, return_inverse=True)
        found = joint.reshape(found.shape).astype(np.int64, copy=False)
    return found
