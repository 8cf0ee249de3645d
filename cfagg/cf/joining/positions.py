"""The positions of members in their boxes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from cfagg.cf.joining.members import Bools, Int64, starts
from cfagg.cf.joining.sets import Sets

__all__ = ["Places", "places"]


@dataclass(frozen=True, eq=False, slots=True)
class Places:
    """The positions of members along one axis; see `Boxes`."""

    start: Int64
    count: Int64
    extent: Int64
    descending: Bools
    flipped: Bools
    scattered: dict[int, Int64]
    trimmed: dict[int, slice]


def places(box: Int64, boxes: int, sets: Sets, used: Mapping[int, Bools], dropped: Bools) -> Places:
    """Return the positions of members along an axis; `used` are the remaining coordinates of trimmed members."""
    n = box.size
    code = sets.code.copy()
    # A member that is only partly used represents itself; of others with the same coordinates, one is examined.
    apart = np.zeros(n, np.int64)
    for k, of_used in enumerate(used, 1):
        apart[of_used] = k
    live = np.flatnonzero(~dropped)
    key = np.stack([box[live], code[live], apart[live]], axis=1)
    _, head, inverse = np.unique(key, axis=0, return_index=True, return_inverse=True)
    turn_of = np.argsort(head, kind="stable")
    number = np.empty_like(turn_of)
    number[turn_of] = np.arange(turn_of.size)
    member: Int64 = live[head[turn_of]]
    number = number[inverse.ravel()]
    at, turn = sets.points.pooled(code[member])
    within = np.arange(at.size) - starts(turn)
    kept = np.ones(at.size, bool)
    for k in np.flatnonzero(apart[member]).tolist():
        kept[turn == k] = used[int(member[k])]
    stored = np.bincount(turn, minlength=member.size)
    at, turn, within = at[kept], turn[kept], within[kept]
    of, point = box[member][turn], sets.points.point[at]
    # Coordinates common to all members keep their stored order if it is neither increasing nor decreasing.
    unordered = (np.bincount(box[member], minlength=boxes) == 1) & _any(
        _is_mixed(turn, point, member.size), box[member], boxes
    )
    point = np.where(unordered[of], within, point)
    unordered[of[sets.points.unordered[code[member]][turn]]] = True
    order = np.lexsort((np.arange(at.size), point, of))
    new = np.r_[True, (of[order][1:] != of[order][:-1]) | (point[order][1:] != point[order][:-1])][: order.size]
    distinct = np.empty(at.size, np.int64)
    distinct[order] = np.cumsum(new) - 1
    first = order[new]
    # Labels have no order except that of their first occurrence.
    rank_by = np.where(unordered[of[first]], first, point[first])
    by = np.lexsort((rank_by, of[first]))
    rank = np.empty(first.size, np.int64)
    rank[by] = np.arange(first.size) - starts(of[first][by])
    extent = np.bincount(of[first], minlength=boxes).astype(np.int64)
    place = rank[distinct]
    count = np.bincount(turn, minlength=member.size).astype(np.int64)
    begin = np.cumsum(count) - count
    step = np.diff(place, prepend=0)
    inner = np.ones(at.size, bool)
    inner[begin[count > 0]] = False
    falling = ~_any(inner & (step >= 0), turn, member.size) & (count > 1)
    down = np.zeros(boxes, bool)
    many = np.flatnonzero((count > 1) & ~unordered[box[member]])
    found, which = np.unique(box[member][many], return_index=True)
    down[found] = falling[many[which]]
    place = np.where(down[of], extent[of] - 1 - place, place)
    step = np.diff(place, prepend=0)
    jumps = _any(inner & (np.abs(step) != 1), turn, member.size)
    turns = _any(inner & (step > 0), turn, member.size) & _any(inner & (step < 0), turn, member.size)
    flipped = (falling != down[box[member]]) & (count > 1) & ~turns & ~unordered[box[member]]
    # Labels in the reverse order may be a range, too.
    flipped |= unordered[box[member]] & falling & ~jumps
    low = np.full(member.size, np.iinfo(np.int64).max)
    np.minimum.at(low, turn, place)
    low[count == 0] = 0
    scattered, trimmed = {}, {}
    odd = jumps | turns
    for k in np.flatnonzero(odd | (stored != count)).tolist():
        mine = slice(begin[k], begin[k] + count[k])
        where = np.full(stored[k], -1)
        where[within[mine]] = place[mine]
        lo, hi = int(within[mine][0]), int(within[mine][-1]) + 1
        if odd[k] or hi - lo != count[k]:
            odd[k] = True
            scattered[k] = where
        else:
            trimmed[k] = slice(lo, hi)
    out = Places(np.zeros(n, np.int64), np.zeros(n, np.int64), extent, down, np.zeros(n, bool), {}, {})
    out.start[live], out.count[live], out.flipped[live] = low[number], count[number], flipped[number]
    for k in {*scattered, *trimmed}:
        for one in live[number == k].tolist():
            if k in scattered:
                out.scattered[one] = scattered[k]
            else:
                out.trimmed[one] = trimmed[k]
    return out


def _is_mixed(turn: Int64, point: Int64, count: int) -> Bools:
    """Return for each turn whether its points are neither increasing nor decreasing."""
    steps, inner = np.diff(point), turn[1:] == turn[:-1]
    return _any(inner & (steps <= 0), turn[1:], count) & _any(inner & (steps >= 0), turn[1:], count)


def _any(what: Bools, turn: Int64, count: int) -> Bools:
    """Return for each turn whether any flag is true."""
    out = np.zeros(count, bool)
    out[turn[what]] = True
    return out
