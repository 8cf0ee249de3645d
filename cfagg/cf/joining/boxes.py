"""Joining members into boxes, each the product of its coordinates along each axis, with every cell filled once.

Members are joined along one axis if everything else is equal, then the results along the next axis, until nothing
changes. The order of axes matters only if members are missing; then the order that leaves the fewest boxes is used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from typing import Any

import numpy as np

from cfagg.cf.joining.members import Axis, Bools, Int64, Members, codes, occurrences, starts
from cfagg.cf.joining.merging import Rows, conflicts, filled, gathered, merged
from cfagg.cf.joining.mixing import mixed
from cfagg.cf.joining.options import Options
from cfagg.cf.joining.overlaps import Resolved, repeated, resolved
from cfagg.cf.joining.positions import places
from cfagg.cf.joining.sets import Sets
from cfagg.errors import OptionError

__all__ = ["Boxes", "join"]

#: Maximum number of axes of which all orders are tried.
_MOST_ORDERED = 4


@dataclass(frozen=True, eq=False, slots=True)
class Boxes:
    """The boxes into which members were joined.

    Parameters
    ----------
    box : int64 array, shape (n,)
        The box of each member; boxes are numbered in the order of their first members.
    position : int64 array, shape (n, axes)
        Its place among the members of that box along each axis, by their first coordinates.
    shape : int64 array, shape (boxes, axes)
        The number of these places.
    start, count : int64 array, shape (n, axes)
        The range of coordinates of its box that a member fills along each axis, in the direction of the box.
    extent : int64 array, shape (boxes, axes)
        The number of coordinates of each box along each axis.
    descending : bool array, shape (boxes, axes)
        Whether the coordinates of a box decrease, as those of its first member with more than one do.
    flipped : bool array, shape (n, axes)
        Whether a member is stored in the opposite direction to its box.
    scattered : mapping of (member, axis) to int64 array
        The position in the box of each stored coordinate of a member, if they are not one ordered range (interleaved
        members, labels); -1 for unused ones.
    trimmed : mapping of (member, axis) to slice
        The stored part of a member that is used along an axis, if other members replace the rest.
    dropped : bool array, shape (n,)
        Members that are replaced entirely by others.
    parted : bool array, shape (n,)
        Members among which some overlap, so that attributes of datasets were compared.
    """

    box: Int64
    position: Int64
    shape: Int64
    start: Int64
    count: Int64
    extent: Int64
    descending: Bools
    flipped: Bools
    scattered: Mapping[tuple[int, int], Int64]
    trimmed: Mapping[tuple[int, int], slice]
    dropped: Bools
    parted: Bools

    def __len__(self) -> int:
        return len(self.shape)


def join(members: Members, options: Options | None = None, named: Callable[[int], str] | None = None) -> Boxes:
    """Join members according to options; messages name members by `named`.

    Identical members are kept in separate arrays, each joined with its counterparts.  Variables that overlap are
    separated by attributes that identify datasets. If there are no such attributes, or they are equal, the variables
    remain separate from everything they might otherwise have been joined with.

    >>> from cfagg.cf.joining import Axis, Members
    >>> time, level = np.array([0, 0, 1, 1, 2]), np.array([0, 1, 0, 1, 0])
    >>> axes = [Axis.of_points("time", time, time), Axis.of_points("level", level, level)]
    >>> boxes = join(Members({"name": np.zeros(5)}, axes))
    >>> boxes.box.tolist(), boxes.shape.tolist()
    ([0, 1, 0, 1, 0], [[3, 1], [2, 1]])
    """
    options = options or Options()
    n = len(members)
    sets = [Sets(axis, options) for axis in members.axes]
    rows = _rows(members, sets)
    parted = np.zeros(n, bool)
    dropped, instead, used = np.zeros(n, bool), np.arange(n), {}
    if members.contents is not None:
        dropped, instead = repeated(rows, "first", members.contents)
    if members.properties is not None:
        rows, parted = _parted(rows, members.properties, sets, options, np.flatnonzero(~dropped))
    if options.on_overlap in ("error", "first", "last"):
        counting = list(members.counting().values())
        records = np.any([np.zeros(n, bool), *(a.grows for a in members.axes if a.grows is not None)], axis=0)
        made = resolved(rows, sets, options.on_overlap, counting, records)
        if options.on_overlap == "error":
            called = named or (lambda row: f"member {row}")
            _refuse(members, made, called)
            _refuse_features(members, rows, sets, called)
        else:
            rows, dropped, instead, used = replace(made.rows, group=rows.group), made.dropped, made.instead, made.used
    live = np.flatnonzero(~dropped)
    label = np.zeros(n, np.int64)
    some = rows.take(live)
    some = replace(some, group=codes(some.group))  # dense again without the others
    label[live] = _best(some, sets, _tried(members.axes, options), options, alike=members.properties is None)
    while dropped[instead].any():
        instead = instead[instead]
    return _placed(label[instead], sets, used, dropped, parted)


def _parted(
    rows: Rows,
    properties: Callable[[], Mapping[str, tuple[Int64, Any]]],
    sets: list[Sets],
    options: Options,
    live: Int64,
) -> tuple[Rows, Bools]:
    """Return rows in which overlapping ones among the `live` are separated by dataset, and which rows these are."""
    wrong = np.zeros(rows.group.size, bool)
    wrong[live] = conflicts(rows.take(live), sets, options)
    if not wrong.any():
        return rows, wrong
    of = codes(np.zeros(wrong.size, np.int64), *(column for column, _ in properties().values()))
    return replace(rows, group=codes(rows.group, np.where(wrong, of, -1))), wrong


def _rows(members: Members, sets: list[Sets]) -> Rows:
    """Return members as rows to be joined."""
    group = codes(np.zeros(len(members), np.int64), *members.signature.values())
    loose = []
    for own in sets:
        found = np.zeros(int(group.max(initial=-1)) + 1, bool)
        found[group[own.unordered]] = True
        loose.append(found[group])
    parts = []
    for part in members.parts.values():
        spans = [a.name in part.axes for a in members.axes]
        along = [s.own() for s, spanned in zip(sets, spans, strict=True) if spanned]
        parts.append((mixed(part.code, *along) if part.sums is None else part.sums, spans))
    return Rows(group, [s.own() for s in sets], [a.cells() for a in members.axes], parts, loose)


def _refuse(members: Members, made: Resolved, named: Callable[[int], str]) -> None:
    """Raise an error if members have coordinates in common."""
    way = "on_overlap='first' or 'last' chooses which values to take"
    for (member, axis), used in made.used.items():
        count = int((~used).sum())
        raise OptionError(
            f"{named(made.behind[member, axis])} and {named(member)} have {count} "
            f"{'coordinate' if count == 1 else 'coordinates'} along {members.axes[axis].name} in common; {way}"
        )
    for member in np.flatnonzero(made.dropped).tolist():
        raise OptionError(f"{named(int(made.instead[member]))} has all coordinates of {named(member)}; {way}")


def _refuse_features(members: Members, rows: Rows, sets: list[Sets], named: Callable[[int], str]) -> None:
    """Raise an error if members have features in common, whose values cannot be chosen."""
    for k, (axis, own) in enumerate(zip(members.axes, sets, strict=True)):
        having = [p.ranged for p in members.parts.values() if p.ranged is not None and axis.name in p.axes]
        live = np.flatnonzero(np.any(having, axis=0)) if having else ()
        for of in gathered(rows.rest(k)[live], 2) if len(live) else ():
            some = live[of]
            value, turn = own.values(own.own()[some])
            order = np.lexsort((turn, value))
            value, turn = value[order], turn[order]
            same = np.flatnonzero((value[1:] == value[:-1]) & (turn[1:] != turn[:-1]))
            if same.size:
                a, b = (named(int(some[turn[i]])) for i in (same[0], same[0] + 1))
                raise OptionError(f"{a} and {b} have a {axis.name} in common; put each feature into one file alone")


def _tried(axes: Sequence[Axis], options: Options) -> list[int]:
    """Return the axes along which to join, in order."""
    names = [axis.name for axis in axes]
    if options.axes is None:
        return list(range(len(axes)))
    return [names.index(name) for name in options.axes if name in names]


def _best(rows: Rows, sets: list[Sets], allowed: list[int], options: Options, *, alike: bool) -> Int64:
    """Return the box of each row, joined in the order of axes that leaves the fewest."""
    n = rows.group.size
    whole = codes(rows.group, *rows.sets)
    if alike and n and int(whole.max()) + 1 < n:
        # Of identical rows, each is joined with its counterparts.
        rows = replace(rows, group=codes(rows.group, occurrences(whole)))
    group = rows.group
    best = np.arange(n)
    count = np.bincount(group) if n else np.zeros(0, np.int64)
    varies = np.array([_varies(group, s) for s in rows.sets], bool).reshape(len(rows.sets), count.size)
    varies[[a for a in range(len(sets)) if a not in allowed]] = False
    kind = codes(np.zeros(count.size, np.int64), *varies)
    for k in range(int(kind.max(initial=-1)) + 1):
        # A single box cannot be reduced further.
        along = [a for a in allowed if varies[a, kind == k].any()]
        for way, order in _ways(along, options):
            chosen = np.flatnonzero((count > 1)[group] & (kind == k)[group])
            if not chosen.size:
                break
            some = rows.take(chosen)
            at_once = way == "whole"
            box = (
                filled(some, sets, order) if at_once else merged(some, sets, order, options, adjacent=way == "adjacent")
            )
            _, head = np.unique(box, return_index=True)
            fewer = np.bincount(group[chosen][head], minlength=count.size)
            better = (fewer < count)[group[chosen]]
            best[chosen[better]] = n + box[better]
            count = np.where(fewer > 0, np.minimum(count, fewer), count)
    return codes(group, best)


def _ways(axes: list[int], options: Options) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield ways to join: all that fills an array at once, then each order of the axes, then neighbours first."""
    if len(axes) > 1 and options.axes is None and options.overlap and not options.contiguous:
        yield "whole", tuple(axes)
    for order in _orders(axes, options):
        yield "any", order
    if len(axes) > 1 and not options.interleave:
        for i in range(len(axes) if options.axes is None else 1):
            yield "adjacent", tuple(axes[i:] + axes[:i])


def _varies(group: Int64, sets: Int64) -> Bools:
    """Return for each group whether its members differ along an axis."""
    found = np.zeros(int(group.max(initial=-1)) + 1, bool)
    _, head = np.unique(group, return_index=True)
    found[group[sets != sets[head[group]]]] = True
    return found


def _orders(axes: list[int], options: Options) -> Iterator[tuple[int, ...]]:
    """Yield orders of the axes along which groups of one kind vary; for many axes, only some of the orders."""
    if options.axes is not None:
        yield tuple(axes)
    elif len(axes) <= _MOST_ORDERED:
        yield from permutations(axes)
    else:
        yield from (tuple(axes[i:] + axes[:i]) for i in range(len(axes)))


def _placed(
    label: Int64, sets: list[Sets], used: Mapping[tuple[int, int], Bools], dropped: Bools, parted: Bools
) -> Boxes:
    """Return boxes in the order of their first members, with the position of each member."""
    _, head, inverse = np.unique(label, return_index=True, return_inverse=True)
    number = np.empty(head.size, np.int64)
    number[np.argsort(head)] = np.arange(head.size)
    box = number[inverse]
    n, axes = label.size, len(sets)
    start, count, position = np.zeros((3, n, axes), np.int64)
    extent, shape = np.ones((2, head.size, axes), np.int64)
    down, flipped = np.zeros((head.size, axes), bool), np.zeros((n, axes), bool)
    scattered: dict[tuple[int, int], Int64] = {}
    trimmed: dict[tuple[int, int], slice] = {}
    live = np.flatnonzero(~dropped)
    for a, own in enumerate(sets):
        found = places(box, head.size, own, {m: u for (m, axis), u in used.items() if axis == a}, dropped)
        start[:, a], count[:, a], flipped[:, a] = found.start, found.count, found.flipped
        extent[:, a], down[:, a] = found.extent, found.descending
        if own.size is not None:  # each box has one point at most where places are only counted
            counted = live[own.size[own.code[live]] >= 0]
            count[counted, a] = own.size[own.code[counted]]
            extent[box[counted], a] = 0  # also the size, where there are no elements
            np.maximum.at(extent[:, a], box[counted], count[counted, a])
        scattered |= {(m, a): where for m, where in found.scattered.items()}
        trimmed |= {(m, a): what for m, what in found.trimmed.items()}
        order = live[np.lexsort((start[live, a], box[live]))]
        of, at = box[order], start[order, a]
        steps = np.cumsum(np.r_[False, (of[1:] == of[:-1]) & (at[1:] != at[:-1])][: of.size])
        position[order, a] = steps - steps[starts(of)] if of.size else steps
        np.maximum.at(shape[:, a], box, position[:, a] + 1)
    return Boxes(box, position, shape, start, count, extent, down, flipped, scattered, trimmed, dropped, parted)
