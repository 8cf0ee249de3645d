"""Joining members into boxes, each the product of what it has along each axis, with every cell filled once.

Members are joined along one axis where all else is equal, then what was joined along the next, until nothing changes.
The order of axes matters only where members are missing; there that order is taken which leaves the fewest boxes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations

import numpy as np
import numpy.typing as npt

from cfagg.cf.joining.equality import close_values
from cfagg.cf.joining.members import Axis, Int64, Members, codes
from cfagg.cf.joining.options import Options

__all__ = ["Boxes", "gaps", "join", "numbered_points"]

Floats = npt.NDArray[np.float64]

#: The least and the greatest bounds of cells along an axis.
Limits = tuple[Floats, Floats]

#: Members by their numbers, and coordinates that they have, by numbers.
Points = tuple[Int64, Int64]

#: Axes of which all orders are tried.
_MOST_ORDERED = 4


@dataclass(frozen=True, eq=False, slots=True)
class Boxes:
    """What members were joined into.

    Parameters
    ----------
    box : int64 array, shape (n,)
        The box of each member; boxes are numbered in the order of their first members.
    position : int64 array, shape (n, axes)
        Its place in that box along each axis; of interleaved ones, by their first coordinates.
    shape : int64 array, shape (boxes, axes)
        The number of members of each box along each axis.
    start, count : int64 array, shape (n, axes)
        The range of coordinates of its box that a member fills along each axis, in the direction of the box.
    extent : int64 array, shape (boxes, axes)
        The number of coordinates of each box along each axis.
    descending : bool array, shape (boxes, axes)
        Whether the coordinates of a box decrease: they have the direction of its first member with more than one.
    flipped : bool array, shape (n, axes)
        Whether a member is stored in the other direction than its box.
    scattered : mapping of (member, axis) to int64 array
        Where each stored coordinate of a member stands in the box, if these are not all in one range in order: of
        interleaved members, of labels; -1 for one that is not used.
    trimmed : mapping of (member, axis) to slice
        What of a member is used along an axis, as stored, where others take the place of the rest.
    dropped : bool array, shape (n,)
        Members that others replace entirely.
    """

    box: Int64
    position: Int64
    shape: Int64
    start: Int64
    count: Int64
    extent: Int64
    descending: npt.NDArray[np.bool_]
    flipped: npt.NDArray[np.bool_]
    scattered: Mapping[tuple[int, int], Int64]
    trimmed: Mapping[tuple[int, int], slice]
    dropped: npt.NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.shape)


def join(members: Members, options: Options | None = None) -> Boxes:
    """Join members; those that are equal in everything stay apart, each in an array of its own with its like.

    Of the options those count that speak of neighbours: where two of them are no neighbours, all stay apart.

    Examples
    --------
    >>> from cfagg.cf.joining import Axis, Members
    >>> time, level = np.array([0, 0, 1, 1, 2]), np.array([0, 1, 0, 1, 0])
    >>> axes = [Axis.of_points("time", time, time), Axis.of_points("level", level, level)]
    >>> boxes = join(Members({"name": np.zeros(5)}, axes))
    >>> boxes.box.tolist(), boxes.shape.tolist()
    ([0, 1, 0, 1, 0], [[3, 1], [2, 1]])
    """
    options = options or Options()
    n, axes = len(members), members.axes
    cells = [axis.cells() for axis in axes]
    points = [numbered_points(axis, options) for axis in axes] if options.interleave else []
    group = codes(np.zeros(n, np.int64), *members.signature.values())
    group = codes(group, _occurrences(codes(group, *(a.code for a in axes))))
    first = [codes(a.first) for a in axes]
    last = [np.searchsorted(np.unique(a.first), a.last, "right") - 1 for a in axes]
    own = [codes(a.code) for a in axes]
    best = np.arange(n)
    count = np.bincount(group) if n else np.zeros(0, np.int64)
    varies = np.array([_varies(group, c) for c in own], bool).reshape(len(own), count.size)
    kind = codes(np.zeros(count.size, np.int64), *varies)
    tried = [(k, order) for k in range(int(kind.max(initial=-1)) + 1) for order in _orders(varies[:, kind == k])]
    for k, order in tried:
        # What is one box already cannot become fewer.
        chosen = np.flatnonzero((count > 1)[group] & (kind == k)[group])
        if not chosen.size:
            continue
        start, stop = [c[chosen] for c in first], [c[chosen] for c in last]
        parts = [(codes(p.code[chosen]), [a.name in p.axes for a in axes]) for p in members.parts.values()]
        limits = [(low[chosen], high[chosen]) for low, high in cells]
        within = [_chosen(rows, values, chosen, n) for rows, values in points]
        box = _joined(group[chosen], [c[chosen] for c in own], start, stop, limits, within, order, parts, options)
        _, head = np.unique(box, return_index=True)
        fewer = np.bincount(group[chosen][head], minlength=count.size)
        better = (fewer < count)[group[chosen]]
        best[chosen[better]] = n + box[better]
        count = np.where(fewer > 0, np.minimum(count, fewer), count)
    box, position, shape = _placed(codes(group, best), own, first)
    where = _extents(box, len(shape), axes, options)
    return Boxes(box, position, shape, *where, {}, np.zeros(n, bool))


def _varies(group: Int64, code: Int64) -> npt.NDArray[np.bool_]:
    """Return for each group whether its members differ along an axis."""
    found = np.zeros(int(group.max(initial=-1)) + 1, bool)
    _, head = np.unique(group, return_index=True)
    found[group[code != code[head[group]]]] = True
    return found


def _orders(varies: npt.NDArray[np.bool_]) -> Iterator[tuple[int, ...]]:
    """Yield orders of the axes along which groups of one kind vary; of many axes only some of all orders."""
    axes = np.flatnonzero(varies[:, 0]).tolist()
    if len(axes) <= _MOST_ORDERED:
        yield from permutations(axes)
    else:
        yield from (tuple(axes[i:] + axes[:i]) for i in range(len(axes)))


def _occurrences(code: Int64) -> Int64:
    """Return how many members before each have its code."""
    order = np.argsort(code, kind="stable")
    return _undone(order, np.arange(code.size) - _starts(code[order]))


def _starts(ordered: Int64) -> Int64:
    """Return for each of equal neighbours the place of the first of them."""
    new = np.ones(ordered.size, bool)
    new[1:] = ordered[1:] != ordered[:-1]
    return np.maximum.accumulate(np.where(new, np.arange(ordered.size), 0))


def _undone(order: Int64, values: Int64) -> Int64:
    out = np.empty_like(values)
    out[order] = values
    return out


def _joined(
    group: Int64,
    code: list[Int64],
    first: list[Int64],
    last: list[Int64],
    cells: list[Limits],
    points: list[Points],
    order: tuple[int, ...],
    parts: list[tuple[Int64, list[bool]]],
    options: Options,
) -> Int64:
    """Return the box of each member, joined along the axes in one order, again and again until nothing changes."""
    box = np.arange(group.size)
    before = -1
    while before != group.size:
        before = group.size
        for axis in order:
            still = (c for c, spans in parts if not spans[axis])
            rest = codes(group, *(c for a, c in enumerate(code) if a != axis), *still)
            if points:
                into = _interleaved(rest, *points[axis])
                points = [(into[rows], values) for rows, values in points]
            else:
                into = _neighbours(rest, first[axis], last[axis], cells[axis], options)
            same = _sets(into, code[axis], first[axis])
            _, head = np.unique(into, return_index=True)
            parts = [
                (_sets(into, codes(code[axis], c), first[axis]) if spans[axis] else c[head], spans)
                for c, spans in parts
            ]
            low, high = np.full((2, head.size), np.iinfo(np.int64).max)
            np.minimum.at(low, into, first[axis])
            np.minimum.at(high, into, -last[axis])
            least, greatest = (np.full(head.size, np.nan) for _ in range(2))
            np.fmin.at(least, into, cells[axis][0])
            np.fmax.at(greatest, into, cells[axis][1])
            cells = [(one[head], other[head]) for one, other in cells]
            cells[axis] = least, greatest
            group = group[head]
            for columns in (code, first, last):
                columns[:] = [c[head] for c in columns]
            code[axis], first[axis], last[axis] = same, low, -high
            box = into[box]
    return box


def _neighbours(rest: Int64, first: Int64, last: Int64, cells: Limits, options: Options) -> Int64:
    """Return the row that each is joined into along one axis: equal elsewhere, and no two of them overlap."""
    order = np.lexsort((first, rest))
    of, low, high = rest[order], first[order], last[order]
    wrong = low[1:] <= high[:-1]
    if options.contiguous or not options.overlap:
        gap = gaps(cells[1][order][:-1], cells[0][order][1:], options)
        # Without bounds nothing shows that they are contiguous.
        wrong |= (~(gap <= 0) if options.contiguous else False) | ((gap < 0) if not options.overlap else False)
    clash = np.zeros(rest.max(initial=-1) + 1, bool)
    clash[of[1:][(of[1:] == of[:-1]) & wrong]] = True
    return codes(rest, np.where(clash[rest], np.arange(rest.size), -1))


def _interleaved(rest: Int64, rows: Int64, values: Int64) -> Int64:
    """Return the row that each is joined into along one axis: equal elsewhere, and no two have the same coordinate."""
    of = rest[rows]
    order = np.lexsort((rows, values, of))
    of, value, row = of[order], values[order], rows[order]
    clash = np.zeros(rest.max(initial=-1) + 1, bool)
    clash[of[1:][(of[1:] == of[:-1]) & (value[1:] == value[:-1]) & (row[1:] != row[:-1])]] = True
    return codes(rest, np.where(clash[rest], np.arange(rest.size), -1))


def numbered_points(axis: Axis, options: Options) -> Points:
    """Return the coordinates of members along an axis as numbers, the same for those that are equal."""
    rows, values = axis.all_points()
    return rows, close_values(values, options.rtol, options.atol)


def _chosen(rows: Int64, values: Int64, chosen: Int64, count: int) -> Points:
    """Return the coordinates of some of the members, which are numbered anew."""
    number = np.full(count, -1)
    number[chosen] = np.arange(chosen.size)
    kept = number[rows] >= 0
    return number[rows[kept]], values[kept]


def gaps(before: Floats, behind: Floats, options: Options) -> Floats:
    """Return how far cells begin behind the end of others: 0 within the tolerance, negative where they overlap."""
    gap = behind - before
    return np.where(np.abs(gap) <= options.atol + options.rtol * np.abs(before), 0.0, gap)


def _sets(into: Int64, code: Int64, first: Int64) -> Int64:
    """Return a code for what each joined row has along the axis, equal where these are the same sets."""
    order = np.lexsort((first, into))
    of, member = into[order], code[order]
    start = np.flatnonzero(np.r_[True, of[1:] != of[:-1]][: of.size])
    length = np.diff(np.r_[start, of.size])
    # A hash that does not depend on the order proposes; the members themselves decide.
    proposed = codes(length, np.add.reduceat(_mixed(member), start)) if start.size else length
    _, like = np.unique(proposed, return_index=True)
    offset = np.arange(of.size) - np.repeat(start, length)
    model = member[np.repeat(start[like[proposed]], length) + offset]
    differs = np.zeros(start.size, bool)
    differs[of[model != member]] = True
    return codes(proposed, np.where(differs, np.arange(start.size), -1))


def _mixed(code: Int64) -> Int64:
    """Scatter codes over all integers (the finaliser of SplitMix64)."""
    x = code.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return (x ^ (x >> np.uint64(31))).view(np.int64)


def _placed(label: Int64, code: list[Int64], first: list[Int64]) -> tuple[Int64, Int64, Int64]:
    """Return the box of each member, in the order of first members, its place there, and the shapes of boxes."""
    _, head, inverse = np.unique(label, return_index=True, return_inverse=True)
    box = _undone(np.argsort(head), np.arange(head.size))[inverse]
    position = np.empty((label.size, len(code)), np.int64)
    shape = np.ones((head.size, len(code)), np.int64)
    for axis, (own, low) in enumerate(zip(code, first, strict=True)):
        order = np.lexsort((own, low, box))
        of, member = box[order], own[order]
        new = np.r_[False, (of[1:] == of[:-1]) & (member[1:] != member[:-1])][: of.size]
        steps = np.cumsum(new)
        position[order, axis] = steps - steps[_starts(of)] if of.size else steps
        np.maximum.at(shape[:, axis], box, position[:, axis] + 1)
    return box, position, shape


def _extents(
    box: Int64, boxes: int, axes: Sequence[Axis], options: Options
) -> tuple[Int64, Int64, Int64, npt.NDArray[np.bool_], npt.NDArray[np.bool_], dict[tuple[int, int], Int64]]:
    """Return start, count, extent, descending, flipped and scattered of each member fills of them."""
    n = len(box)
    start, count = np.zeros((2, n, len(axes)), np.int64)
    extent = np.ones((boxes, len(axes)), np.int64)
    down, flipped = np.zeros((boxes, len(axes)), bool), np.zeros((n, len(axes)), bool)
    scattered = {}
    for a, axis in enumerate(axes):
        rows, value = numbered_points(axis, options)
        own = box[rows]
        pairs, place = np.unique(own * (int(value.max(initial=0)) + 1) + value, return_inverse=True)
        of = pairs // (int(value.max(initial=0)) + 1)
        rank = (np.arange(of.size) - _starts(of))[place]
        extent[:, a] = np.bincount(of, minlength=boxes)
        count[:, a] = np.bincount(rows, minlength=n)
        first = np.full(n, np.iinfo(np.int64).max)
        last = np.full(n, -1)
        np.minimum.at(first, rows, rank)
        np.maximum.at(last, rows, rank)
        if axis.descending is not None:
            several = np.flatnonzero(count[:, a] > 1)
            found, head = np.unique(box[several], return_index=True)
            down[found, a] = axis.descending[several[head]]
            flipped[:, a] = (axis.descending != down[box, a]) & (count[:, a] > 1)
        start[:, a] = np.where(down[box, a], extent[box, a] - 1 - last, first)
        for member in np.flatnonzero(last - first + 1 != count[:, a]).tolist():
            places = np.sort(rank[rows == member])
            places = extent[box[member], a] - 1 - places[::-1] if down[box[member], a] else places
            scattered[member, a] = places[::-1] if flipped[member, a] else places
    return start, count, extent, down, flipped, scattered
