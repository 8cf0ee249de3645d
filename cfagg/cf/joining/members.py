"""Members that may be joined (fields of files, or variables), as columns with one row each instead of objects."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.errors import ModelError

__all__ = ["Axis", "Bools", "Int64", "Members", "Part", "Points", "codes", "occurrences", "starts"]

Int64 = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False, slots=True)
class Points:
    """The coordinates of members along an axis as numbers: those of code ``c`` from offset ``c`` to ``c + 1``.

    Parameters
    ----------
    offset : int64 array, shape (codes + 1,)
        Index of the first coordinate of each code.
    point : int64 array
        A number for each coordinate with its cell and companions, in stored order, equal for equal ones and increasing
        with `value`.
    value : int64 array
        A number for each coordinate alone, in the order of the axis.
    unordered : bool array, shape (codes,)
        Whether the coordinates have no order, such as labels.
    """

    offset: Int64
    point: Int64
    value: Int64
    unordered: Bools

    def pooled(self, code: Int64) -> tuple[Int64, Int64]:
        """Return the indices of all points of a sequence of codes, and the position in the sequence for each."""
        size = self.offset[code + 1] - self.offset[code]
        turn = np.repeat(np.arange(code.size), size)
        within = np.arange(turn.size) - np.repeat(np.cumsum(size) - size, size)
        return np.repeat(self.offset[code], size) + within, turn


@dataclass(frozen=True, eq=False, slots=True)
class Axis:
    """The positions of members along one axis.

    Parameters
    ----------
    name : str
        Name of the axis in reasons.
    code : int64 array, shape (n,)
        A number from 0 for the stored coordinates with their companions along the axis, the same if these are equal.
    first, last : array, shape (n,)
        The minimum and maximum coordinate, which are equal if a member has only one.
    low, high : float64 array, shape (n,), optional
        The minimum and maximum bound of the cells of each member, NaN if it has no bounds.
    points : Points, optional
        The coordinates of each code; by default `first` and `last`.
    differing : callable, optional
        Returns the differing property of the coordinates of two codes, and both values, for reasons.
    base : sequence, optional
        The metadata that define the units of the coordinates of each code.
    counted : bool
        Whether it only counts the places along a dimension, so that equal numbers are not common coordinates.
    grows : bool array, shape (n,), optional
        Whether the places of each member that are only counted are records, those of each file others.
    within : str
        The axis that determines the positions along this one; `code` then gives the members that have it.
    label : callable, optional
        Returns a coordinate of a code, for reasons.
    size : int64 array, optional
        Number of places of each code if all are one point because nothing is joined among them; otherwise -1.
    """

    name: str
    code: Int64
    first: npt.NDArray[Any]
    last: npt.NDArray[Any]
    low: npt.NDArray[np.float64] | None = None
    high: npt.NDArray[np.float64] | None = None
    points: Points | None = None
    differing: Callable[[int, int], tuple[str, Any, Any]] | None = None
    base: Sequence[Any] = ()
    counted: bool = False
    grows: Bools | None = None
    within: str = ""
    label: Callable[[int, int], Any] | None = None
    size: Int64 | None = None

    @classmethod
    def of_points(cls, name: str, code: Int64, value: npt.NDArray[Any]) -> Axis:
        """Return the axis of members with one coordinate each."""
        return cls(name, code, value, value)

    def cells(self) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Return the minimum and maximum bounds, NaN without bounds."""
        none = np.full(len(self.code), np.nan)
        return none if self.low is None else self.low, none if self.high is None else self.high


@dataclass(frozen=True, eq=False, slots=True)
class Part:
    """A companion of members, such as multidimensional coordinates, with the axes that it spans.

    It must be equal in members that are joined along another axis.  `sums` are two sums of numbers that represent the
    value and position of each element; they can be added when members are joined.
    """

    code: Int64
    axes: frozenset[str]
    sums: npt.NDArray[np.uint64] | None = None
    differing: Callable[[int, int], tuple[Any, Any]] | None = None
    name: str = ""
    #: The members that have it, if it is along an axis of which each element of another has a range.
    ranged: Bools | None = None


@dataclass(frozen=True, eq=False, slots=True)
class Members:
    """The properties that determine which members are joined.

    Parameters
    ----------
    signature : mapping of str to array, shape (n,)
        Properties that are equal in all members of one array: structure, units, cell methods, grids, …
    axes : sequence of Axis
        Axes along which members may be joined, in the order that is tried first.
    parts : mapping of str to Part
        Companions of members.
    labels : mapping of str to sequence
        Texts in reasons for the numbers in a column of the signature.
    properties : callable, optional
        Returns columns that distinguish datasets, with the values that their numbers represent. It is called only if
        members overlap. Without it, identical members are each joined with their counterparts.
    contents : int64 array, shape (n,), optional
        Numbers that are equal for members with equal values, if one of these may stand for all.
    """

    signature: Mapping[str, npt.NDArray[Any]]
    axes: Sequence[Axis]
    parts: Mapping[str, Part] = field(default_factory=dict)
    labels: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    properties: Callable[[], Mapping[str, tuple[Int64, Sequence[Any]]]] | None = None
    contents: Int64 | None = None

    def __post_init__(self) -> None:
        columns = {**self.signature, **{f"axis {a.name}": a.code for a in self.axes}}
        columns.update({name: part.code for name, part in self.parts.items()})
        if not columns or len({c.shape for c in columns.values()}) != 1:
            shapes = ", ".join(f"{name} {c.shape}" for name, c in columns.items())
            raise ModelError(f"columns of members have different lengths: {shapes or 'none at all'}")

    def __len__(self) -> int:
        return len(next(iter((*self.signature.values(), *(a.code for a in self.axes)))))

    def counting(self) -> dict[str, bool]:
        """Return by part whether it tells apart places that an axis only counts."""
        counted = [axis.name.partition(" of ")[2] for axis in self.axes if axis.counted]
        return {name: part.ranged is not None or part.name in counted for name, part in self.parts.items()}


def codes(*columns: npt.NDArray[Any]) -> Int64:
    """Return a number for each row of columns of equal length, from 0 in the order of their values.

    >>> codes(np.array([3.0, 1.0, 3.0]), np.array([1, 1, 1])).tolist()
    [1, 0, 1]
    """
    found = np.zeros(columns[0].shape, np.int64)
    for column in columns:
        if not column.size or (column[0] == column).all():
            continue
        own = _dense(column).reshape(found.shape)
        if not found.any():
            found = own
            continue
        of = np.zeros(int(found.max()) + 1, np.int64)
        of[found] = own
        # Often one column is determined by those before it.
        if (of[found] != own).any():
            found = _dense(found * (int(own.max()) + 1) + own)
    return found


def _dense(column: npt.NDArray[Any]) -> Int64:
    """Return the ranks of values from 0; integers in a small range are counted instead of sorted."""
    if column.dtype.kind in "iu":
        low, high = int(column.min()), int(column.max())
        if high - low <= 4 * column.size:
            wide: Any = column.astype(np.int64) if column.dtype.kind == "i" else column
            shifted: Int64 = (wide - low).astype(np.int64, copy=False)
            rank: Int64 = np.cumsum(np.bincount(shifted) > 0) - 1
            return rank[shifted]
    # NaN equals NaN here, so missing values on both sides are equal.
    return np.unique(column, return_inverse=True)[1].reshape(-1).astype(np.int64, copy=False)


def occurrences(code: Int64) -> Int64:
    """Return for each element how many before it have the same code.

    >>> occurrences(np.array([5, 3, 5, 5])).tolist()
    [0, 0, 1, 2]
    """
    order = np.argsort(code, kind="stable")
    out = np.empty_like(code)
    out[order] = np.arange(code.size) - starts(code[order])
    return out


def starts(ordered: Int64) -> Int64:
    """Return for each element the index of the first in its run of equal neighbours."""
    new = np.ones(ordered.size, bool)
    new[1:] = ordered[1:] != ordered[:-1]
    return np.maximum.accumulate(np.where(new, np.arange(ordered.size), 0))
