"""Distinct coordinates along one axis as numbers of their points; equal points have equal numbers."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.cf.joining.described import Companion, Coordinate, Stated
from cfagg.cf.joining.equality import close_values, numbered_texts
from cfagg.cf.joining.identities import units_key
from cfagg.cf.joining.members import Bools, Int64, codes, occurrences
from cfagg.cf.joining.options import Options
from cfagg.cf.joining.values import canonical_values, in_units_of, meanings, meant, unpacked
from cfagg.cf.kinds_of_units import is_reference_time

__all__ = ["Entry", "LinedUp", "lined_up"]

Array = npt.NDArray[Any]

#: Relative tolerance of 4-byte reals: two units in the last place.
_SINGLE = 2.0**-22
_ROUNDING = 2.0**-50


@dataclass(frozen=True, eq=False, slots=True)
class Entry:
    """A coordinate, or none without this axis, with its companions along the axis."""

    coordinate: Coordinate | None
    along: Mapping[str, Companion]
    #: Whether they are labels, which may have any order, whatever their type.
    labels: bool = False


@dataclass(frozen=True, eq=False, slots=True)
class LinedUp:
    """Columns of `Points`, and for each entry its minimum and maximum coordinate and bounds."""

    offset: Int64
    point: Int64
    value: Int64
    unordered: Bools
    first: Array
    last: Array
    low: npt.NDArray[np.float64]
    high: npt.NDArray[np.float64]
    #: For each entry the metadata of the coordinate that defines their units.
    base: Sequence[Stated | None]
    #: For each entry the number of its places if they are only counted and all one point, else -1.
    size: Int64 | None


def lined_up(entries: Sequence[Entry], options: Options) -> LinedUp:
    """Return the points of distinct coordinates, in common units, equal within the tolerance."""
    counted = [e.coordinate is not None and e.coordinate.index for e in entries]
    own = [1 if e.coordinate is None else len(e.coordinate.values) for e in entries]
    offset = np.cumsum([0, *(1 if once else n for once, n in zip(counted, own, strict=True))])
    point, value = np.zeros((2, int(offset[-1])), np.int64)
    unordered = np.zeros(len(entries), bool)
    first, last = (np.zeros(len(entries), object) for _ in range(2))
    low, high = np.full((2, len(entries)), np.nan)
    base: list[Stated | None] = [None] * len(entries)
    kinds: dict[Hashable, list[int]] = {}
    for k, entry in enumerate(entries):
        kinds.setdefault(_kind(entry), []).append(k)
    points = values = np.int64(0)
    for members in kinds.values():
        made = (_Counted if counted[members[0]] else _Kind)([entries[k] for k in members], options)
        at = np.concatenate([np.arange(offset[k], offset[k + 1]) for k in members]).astype(np.int64)
        point[at], value[at] = made.point + points, made.value + values
        points, values = point[at].max(initial=points) + 1, value[at].max(initial=values) + 1
        unordered[members] = made.unordered
        low[members], high[members] = made.low, made.high
        first[members], last[members] = made.first, made.last
        for k in members:
            base[k] = made.base
    if all(isinstance(v, (int, float)) or v is None for v in first.tolist()):
        first, last = first.astype(np.float64), last.astype(np.float64)
    size = np.where(counted, own, -1).astype(np.int64) if any(counted) else None
    return LinedUp(offset, point, value, unordered, first, last, low, high, base, size)


def _kind(entry: Entry) -> Hashable:
    """Return the common properties of comparable coordinates: dimensions of units, calendars, numbers of bounds."""
    own = entry.coordinate
    if own is None:
        return None
    units = "text" if own.values.dtype == object else units_key(own.units, own.calendar)
    bounds = 0 if own.cells is None else own.cells.shape[1]
    along = tuple(
        (n, p.values.size // max(len(own.values), 1), p.values.dtype == object)
        for n, p in entry.along.items()
        if p.values is not None
    )
    return units, own.index, bounds, along


class _Counted:
    """Places that are only counted; each count is another point, at the same position."""

    def __init__(self, entries: Sequence[Entry], _: Options) -> None:
        coordinates = [e.coordinate for e in entries if e.coordinate is not None]
        sizes = np.array([len(c.values) for c in coordinates], np.int64)
        self.base = coordinates[0].stated
        self.point, self.value = codes(sizes), np.zeros(sizes.size, np.int64)
        self.unordered = np.zeros(sizes.size, bool)
        self.first, self.last = [0] * sizes.size, (sizes - 1).tolist()
        self.low, self.high = np.full((2, sizes.size), np.nan)


class _Kind:
    """Coordinates of one kind."""

    def __init__(self, entries: Sequence[Entry], options: Options) -> None:
        self._entries, self._options = entries, options
        coordinates = [e.coordinate for e in entries if e.coordinate is not None]
        n = len(entries)
        self.low, self.high = np.full((2, n), np.nan)
        self.base = coordinates[0].stated if coordinates else None
        if self.base is None:
            self.point = self.value = np.zeros(n, np.int64)
            self.unordered: Any = np.zeros(n, bool)
            self.first = self.last = [None] * n
            return
        base = self.base
        self._of = np.repeat(np.arange(n), [len(c.values) for c in coordinates])
        changed = [in_units_of(unpacked(c.values, c.stated), c.stated, base) for c in coordinates]
        added = max(offset for _, offset in changed)
        arrays = [a for a, _ in changed]
        time = is_reference_time(base.text("units") or "")
        if not time:
            # Near zero, as for rotated latitudes, rounding errors are as large as elsewhere.
            added = max(added, *(_largest(a) for a in arrays))
        self.value = self._numbered(arrays, added, time=time)
        columns = [self.value]
        if coordinates[0].bounds is not None:
            rows = [
                # The order of the two bounds does not matter.
                np.sort(canonical_values(c, coordinates[0], bounds=True), axis=1)
                for c in coordinates
            ]
            columns += [self._numbered([r[:, b] for r in rows], added, time=time) for b in range(rows[0].shape[1])]
            there = np.array([len(r) > 0 for r in rows])
            if there.any() and rows[0].shape[1]:
                starts = np.searchsorted(self._of, np.flatnonzero(there))
                ends = np.concatenate(rows).astype(np.float64)
                self.low[there] = np.minimum.reduceat(ends.min(axis=1), starts)
                self.high[there] = np.maximum.reduceat(ends.max(axis=1), starts)
        for name in entries[0].along:
            columns += self._along(name)
        point = codes(*columns)
        text = coordinates[0].values.dtype == object
        # Where values are equal, such as latitudes of the cells of one row, their companions decide.
        step = np.diff(point)
        inner = self._of[1:] == self._of[:-1]
        both = np.zeros((2, n), bool)
        both[0, self._of[1:][inner & (step > 0)]] = True
        both[1, self._of[1:][inner & (step < 0)]] = True
        self.unordered = both.all(axis=0) | text | [e.labels for e in entries]
        self.point = point
        if (inner & (np.diff(self.value) == 0)).any() or self.unordered.any():
            # A repeated point of a coordinate counts as two points.
            self.point = codes(point, occurrences(codes(self._of, point)))
        self.first = [_end(a, text, np.fmin) for a in arrays]
        self.last = [_end(a, text, np.fmax) for a in arrays]

    def _along(self, name: str) -> list[Int64]:
        """Return the columns of the companions along the axis."""
        parts = [e.along[name] for e in self._entries]
        rows = []
        for entry, part in zip(self._entries, parts, strict=True):
            size = 0 if entry.coordinate is None else len(entry.coordinate.values)
            values, _ = in_units_of(meant(part), part.stated, parts[0].stated)
            rows.append(np.broadcast_to(values, (size,)) if values.ndim == 0 else values)
        width = rows[0].size // max(len(rows[0]), 1) if len(rows[0]) else 1
        rows = [r.reshape(len(r), width) for r in rows]
        flags = meanings(parts)
        said = [] if flags is None else [np.repeat(flags, [len(r) for r in rows])]
        return [*said, *(self._numbered([r[:, k] for r in rows], 0.0, time=False) for k in range(width))]

    def _numbered(self, arrays: Sequence[Array], added: float, *, time: bool) -> Int64:
        """Return the ranks of values, the same for those that are equal within the tolerance."""
        if any(a.dtype == object for a in arrays):
            return numbered_texts([v for a in arrays for v in a.ravel().tolist()])
        flat = np.concatenate([np.asarray(a) for a in arrays])
        rtol, atol = self._options.rtol, self._options.atol
        if not time and any(a.dtype == np.float32 for a in arrays):
            rtol = max(rtol, _SINGLE)
        distinct, exact = np.unique(flat, return_inverse=True)
        if flat.dtype.kind != "f" or distinct.size < 2:
            return exact.astype(np.int64, copy=False)
        found = close_values(distinct, rtol, atol + min(rtol, _ROUNDING) * added)
        # Two coordinates of one variable are never treated as equal.
        if found[-1] + 1 < distinct.size:
            apart, together = (int(codes(self._of, own).max()) for own in (exact, found[exact]))
            if together < apart:
                return exact.astype(np.int64, copy=False)
        return found[exact]


def _largest(values: Array) -> float:
    """Return the largest magnitude of reals."""
    found = np.abs(values[np.isfinite(values)]) if values.dtype.kind == "f" else values[:0]
    return float(found.max()) if found.size else 0.0


def _end(values: Array, text: bool, of: Any) -> Any:
    """Return the first or last value in the order of the axis; NaN only if all are."""
    if not values.size:
        return None
    if text:
        return str(values[0] if of is np.fmin else values[-1])
    return of.reduce(values).item()
