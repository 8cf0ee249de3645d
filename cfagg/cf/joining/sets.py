"""Sets of the coordinates of members along one axis, as numbers that are equal for equal sets."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from cfagg.cf.joining.equality import close_values
from cfagg.cf.joining.members import Axis, Bools, Int64, Points, codes
from cfagg.cf.joining.options import Options

__all__ = ["Sets", "points_of"]


def points_of(axis: Axis, options: Options) -> Points:
    """Return the points of an axis; by default each member has its first and last coordinate."""
    if axis.points is not None:
        return axis.points
    code = codes(axis.code)
    count = int(code.max(initial=-1)) + 1
    _, head = np.unique(code, return_index=True)
    ends = np.stack([axis.first[head], axis.last[head]], axis=1).reshape(count, 2)
    two = ends[:, 0] != ends[:, 1]
    kept = np.stack([np.ones(count, bool), two], axis=1)
    value = close_values(ends[kept], options.rtol, options.atol)
    point = codes(value, np.repeat(np.arange(count), 2)[kept.ravel()])
    return Points(np.r_[0, np.cumsum(1 + two)], point, value, np.zeros(count, bool))


class Sets:
    """All sets of points along an axis, those of single members and those of boxes."""

    def __init__(self, axis: Axis, options: Options) -> None:
        self.points = points_of(axis, options)
        self.counted, self.size = axis.counted, axis.size
        self.code = axis.code if axis.points is not None else codes(axis.code)
        self.value_of: Int64 = np.zeros(int(self.points.point.max(initial=-1)) + 1, np.int64)
        self.value_of[self.points.point] = self.points.value
        self._list: list[Int64] = []
        self._number: dict[bytes, int] = {}
        self._unions: dict[bytes, int] = {}
        own = self.points
        turn = np.repeat(np.arange(len(own.offset) - 1), np.diff(own.offset))
        ordered = own.point[np.lexsort((own.point, turn))]
        ends = own.offset.tolist()
        self.of_code: Int64 = np.array([self._add(ordered[a:b]) for a, b in pairwise(ends)], np.int64)
        self.unordered: Bools = own.unordered[self.code] if self.code.size else np.zeros(0, bool)

    def _add(self, points: Int64) -> int:
        raw = points.tobytes()
        found = self._number.get(raw)
        if found is None:
            found = self._number[raw] = len(self._list)
            self._list.append(points)
        return found

    def add(self, points: Int64) -> int:
        """Return the number of a set of points, which must increase."""
        return self._add(np.ascontiguousarray(points, np.int64))

    def own(self) -> Int64:
        """Return the set of each member."""
        return self.of_code[self.code]

    def ends(self, sets: Int64) -> tuple[Int64, Int64]:
        """Return the numbers of the first and the last value of each set."""
        distinct, inverse = np.unique(sets, return_inverse=True)
        both = np.array([(s[0], s[-1]) if s.size else (0, 0) for s in self.of(distinct)], np.int64).reshape(-1, 2)
        found = self.value_of[both] if self.value_of.size else both
        return found[inverse, 0], found[inverse, 1]

    def of(self, sets: Int64) -> list[Int64]:
        """Return the points of sets."""
        return [self._list[s] for s in sets.tolist()]

    def sizes(self, sets: Int64) -> Int64:
        """Return the number of points in each set."""
        return np.array([self._list[s].size for s in sets.tolist()], np.int64)

    def values(self, sets: Int64) -> tuple[Int64, Int64]:
        """Return the numbers of all values of a sequence of sets, and the position in the sequence for each."""
        lists = self.of(sets)
        turn = np.repeat(np.arange(len(lists)), [s.size for s in lists])
        return self.value_of[np.concatenate([*lists, np.zeros(0, np.int64)])], turn

    def joined(self, into: Int64, sets: Int64) -> Int64:
        """Return the union of the sets that are joined into each row."""
        order = np.argsort(into, kind="stable")
        row, member = into[order], sets[order]
        begin = np.flatnonzero(np.r_[True, row[1:] != row[:-1]][: row.size])
        out = member[begin]
        length = np.diff(np.r_[begin, row.size])
        for k in np.flatnonzero(length > 1).tolist():
            parts = np.sort(member[begin[k] : begin[k] + length[k]])
            key: Any = parts.tobytes()
            if key not in self._unions:
                self._unions[key] = self._add(np.unique(np.concatenate(self.of(parts))))
            out[k] = self._unions[key]
        return out
