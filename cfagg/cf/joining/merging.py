"""Joining along one axis after another until nothing changes, and joining members that fill an array in other ways."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.cf.joining.members import Bools, Int64, codes
from cfagg.cf.joining.options import Options
from cfagg.cf.joining.sets import Sets

__all__ = ["Floats", "Rows", "conflicts", "filled", "gaps", "gathered", "merged"]

Floats = npt.NDArray[np.float64]

#: Fewer members than this fill an array only if they can be joined along one axis after the other.
_PINWHEEL = 5
_MOST_CELLS = 1 << 22


@dataclass(frozen=True, eq=False, slots=True)
class Rows:
    """The rows to be joined: members, or boxes of them.

    `group` numbers rows that may be joined at all; `sets` are those along each axis, `cells` the minimum and maximum
    bounds; `parts` have two sums each and the axes that they span; `loose` marks axes along which order is irrelevant.
    """

    group: Int64
    sets: list[Int64]
    cells: list[tuple[Floats, Floats]]
    parts: list[tuple[npt.NDArray[np.uint64], list[bool]]]
    loose: list[Bools]

    def take(self, chosen: Int64) -> Rows:
        """Return some of the rows."""
        return Rows(
            self.group[chosen],
            [s[chosen] for s in self.sets],
            [(low[chosen], high[chosen]) for low, high in self.cells],
            [(sums[chosen], spans) for sums, spans in self.parts],
            [loose[chosen] for loose in self.loose],
        )

    def rest(self, *axes: int) -> Int64:
        """Return a number for all properties that must be equal in rows that are joined along axes."""
        still = [s[:, k] for s, spans in self.parts if not any(spans[a] for a in axes) for k in (0, 1)]
        return codes(self.group, *(s for a, s in enumerate(self.sets) if a not in axes), *still)


def merged(rows: Rows, sets: list[Sets], order: tuple[int, ...], options: Options, *, adjacent: bool = False) -> Int64:
    """Return the box of each row, joined along the axes in this order until nothing changes; `adjacent` ones first."""
    box = np.arange(rows.group.size)
    between = [_Between(rows, own, a) for a, own in enumerate(sets)] if adjacent else []
    for ranks in [between, []] if adjacent else [[]]:
        before = -1
        while before != rows.group.size:
            before = rows.group.size
            for axis in order:
                into = _into(rows, sets, axis, options, ranks[axis] if ranks else None)
                rows, box = _joined(rows, box, sets, (axis,), into)
            if before == rows.group.size and before >= _PINWHEEL and options.overlap and not options.contiguous:
                for some in _several(order):
                    rows, box = _joined(rows, box, sets, some, filled(rows, sets, some))
    return box


class _Between:
    """The values of a group along an axis."""

    def __init__(self, rows: Rows, sets: Sets, axis: int) -> None:
        value, turn = sets.values(rows.sets[axis])
        self._size = int(sets.value_of.max(initial=0)) + 1
        self._keys = np.unique(rows.group[turn] * self._size + value)

    def rank(self, group: Int64, value: Int64) -> Int64:
        """Return the ranks of values among those of their groups."""
        return np.searchsorted(self._keys, group * self._size + value)


def _joined(rows: Rows, box: Int64, sets: list[Sets], axes: tuple[int, ...], into: Int64) -> tuple[Rows, Int64]:
    """Return rows after joining along axes, and the row of each member."""
    count = int(into.max(initial=-1)) + 1
    if count == into.size:
        return rows, box
    _, head = np.unique(into, return_index=True)
    out = rows.take(head)
    for a in axes:
        out.sets[a] = sets[a].joined(into, rows.sets[a])
        least, greatest = (np.full(count, np.nan) for _ in range(2))
        np.fmin.at(least, into, rows.cells[a][0])
        np.fmax.at(greatest, into, rows.cells[a][1])
        out.cells[a] = least, greatest
    parts = []
    for (whole, spans), (first, _) in zip(rows.parts, out.parts, strict=True):
        sums = first
        if any(spans[a] for a in axes):
            sums = np.zeros((count, 2), np.uint64)
            np.add.at(sums, into, whole)
        parts.append((sums, spans))
    return replace(out, parts=parts), into[box]


def _into(rows: Rows, sets: list[Sets], axis: int, options: Options, between: _Between | None = None) -> Int64:
    """Return the row with which each is joined along one axis: equal otherwise, and without conflicts."""
    rest = rows.rest(axis)
    if int(rest.max(initial=-1)) + 1 == rest.size:
        return np.arange(rest.size)
    clash = _clashes(rows, sets, axis, rest, options)
    apart = np.where(clash[rest], np.arange(rest.size), -1)
    if between is None or options.interleave:
        return codes(rest, apart)
    low, high = (between.rank(rows.group, end) for end in sets[axis].ends(rows.sets[axis]))
    order = np.lexsort((low, rest))
    breaks = np.cumsum(np.r_[0, low[order][1:] != high[order][:-1] + 1])
    run = np.empty(rest.size, np.int64)
    run[order] = breaks[: rest.size]
    return codes(rest, apart, run)


def conflicts(rows: Rows, sets: list[Sets], options: Options) -> Bools:
    """Return for each row whether any in its group overlap along one axis and are equal elsewhere."""
    found = np.zeros(int(rows.group.max(initial=-1)) + 1, bool)
    for axis in range(len(sets)):
        rest = rows.rest(axis)
        if int(rest.max(initial=-1)) + 1 < rest.size:
            clash = _clashes(rows, sets, axis, rest, Options(interleave=options.interleave))
            found[rows.group[clash[rest]]] = True
    return found[rows.group]


def _clashes(rows: Rows, sets: list[Sets], axis: int, rest: Int64, options: Options) -> Bools:
    """Return for each number of otherwise equal rows whether two of them conflict along an axis."""
    count = int(rest.max(initial=-1)) + 1
    clash = np.zeros(count, bool)
    loose = np.zeros(count, bool)
    loose[rest[rows.loose[axis]]] = True
    several = np.bincount(rest, minlength=count)[rest] > 1
    if options.interleave:
        loose[:] = True
    chosen = np.flatnonzero(several & ~loose[rest])
    if chosen.size:
        low, high = sets[axis].ends(rows.sets[axis][chosen])
        order = np.lexsort((low, rest[chosen]))
        of, low, high = rest[chosen][order], low[order], high[order]
        wrong = low[1:] <= high[:-1]
        if options.contiguous or not options.overlap:
            least, greatest = (c[chosen][order] for c in rows.cells[axis])
            gap = gaps(greatest[:-1], least[1:], options)
            # Without bounds they are not known to be contiguous.
            wrong |= (~(gap <= 0) if options.contiguous else False) | ((gap < 0) if not options.overlap else False)
        clash[of[1:][(of[1:] == of[:-1]) & wrong]] = True
    chosen = np.flatnonzero(several & loose[rest])
    if chosen.size:
        value, turn = sets[axis].values(rows.sets[axis][chosen])
        of = rest[chosen][turn]
        order = np.lexsort((turn, value, of))
        of, value, turn = of[order], value[order], turn[order]
        clash[of[1:][(of[1:] == of[:-1]) & (value[1:] == value[:-1]) & (turn[1:] != turn[:-1])]] = True
    return clash


def gaps(before: Floats, behind: Floats, options: Options) -> Floats:
    """Return the gaps between cells and the preceding ones: 0 within the tolerance, negative for overlaps."""
    gap = behind - before
    return np.where(np.abs(gap) <= options.atol + options.rtol * np.abs(before), 0.0, gap)


def _several(order: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Return combinations of two axes, then of three, and so on."""
    return [some for k in range(2, len(order) + 1) for some in combinations(order, k)]


def filled(rows: Rows, sets: list[Sets], axes: tuple[int, ...]) -> Int64:
    """Return the row with which each is joined if several fill an array along axes, in any arrangement."""
    alone = np.arange(rows.group.size)
    for _, spans in rows.parts:
        # Companions along only some of the axes would be duplicated.
        if any(spans[a] for a in axes) and not all(spans[a] for a in axes):
            return alone
    rest = rows.rest(*axes)
    into = alone.copy()
    for own in gathered(rest, _PINWHEEL):
        corners = [_ranges(sets[a], rows.sets[a][own]) for a in axes]
        if all(c is not None for c in corners) and _fills(corners):
            into[own] = own[0]
    return codes(into)


def gathered(number: Int64, least: int) -> list[Int64]:
    """Return the rows of each number that occurs at least `least` times."""
    order = np.argsort(number, kind="stable")
    ends = np.cumsum(np.bincount(number)) if number.size else np.zeros(0, np.int64)
    return [own for own in np.split(order, ends[:-1]) if own.size >= least]


def _ranges(sets: Sets, own: Int64) -> tuple[Int64, Int64] | None:
    """Return the range of each set in the union of all, or `None` if one has others within it."""
    lists = sets.of(own)
    union = np.unique(np.concatenate(lists))
    if np.unique(sets.value_of[union]).size != union.size:
        return None
    start = np.searchsorted(union, [s[0] for s in lists])
    stop = np.searchsorted(union, [s[-1] for s in lists]) + 1
    return None if (stop - start != [s.size for s in lists]).any() else (start, stop)


def _fills(corners: list[Any]) -> bool:
    """Return whether boxes fill their hull without overlaps."""
    edges = [np.unique(np.concatenate(c)) for c in corners]
    shape = tuple(len(e) for e in edges)
    if np.prod(shape, dtype=float) > _MOST_CELLS:
        return False
    count = np.zeros(shape, np.int64)
    # Each corner of a box changes the number of boxes beyond it.
    for signs in np.ndindex(*(2,) * len(corners)):
        at = tuple(np.searchsorted(e, c[s]) for e, c, s in zip(edges, corners, signs, strict=True))
        np.add.at(count, at, (-1) ** sum(signs))
    for axis in range(len(corners)):
        count = np.cumsum(count, axis=axis)
    return bool((count[tuple(slice(0, n - 1) for n in shape)] == 1).all())
