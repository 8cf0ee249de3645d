"""Resolving overlaps: members with common coordinates are reduced to the values of the first or the last."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from cfagg.cf.joining.members import Bools, Int64, codes
from cfagg.cf.joining.merging import Rows, gathered
from cfagg.cf.joining.sets import Sets

__all__ = ["Resolved", "repeated", "resolved"]


@dataclass(frozen=True, eq=False, slots=True)
class Resolved:
    """Members without common coordinates.

    `dropped` members are omitted, and `instead` is the member that replaces each; `used` are the stored coordinates of
    a member that remain along an axis.
    """

    rows: Rows
    dropped: Bools
    instead: Int64
    used: dict[tuple[int, int], Bools]
    behind: dict[tuple[int, int], int]


def resolved(
    rows: Rows, sets: list[Sets], choice: str, counting: Sequence[bool] = (), records: Bools | None = None
) -> Resolved:
    """Return members in which each coordinate belongs to the first, or the last, that has it.

    `counting` parts identify places along axes that are only counted, whose equal numbers may mean other places.
    Nothing is known of those of members with `records`, which replace and are replaced by no others.
    """
    if records is not None:
        rows = replace(rows, group=codes(rows.group, np.where(records, np.arange(records.size), -1)))
    dropped, instead = repeated(rows, choice)
    used: dict[tuple[int, int], Bools] = {}
    behind: dict[tuple[int, int], int] = {}
    rows = Rows(rows.group, list(rows.sets), rows.cells, rows.parts, [a.copy() for a in rows.loose])
    for axis, own in enumerate(sets):
        if own.counted:
            continue
        live = np.flatnonzero(~dropped)
        some = rows.take(live)
        both = zip(some.parts, counting, strict=True) if counting else ()
        places = [s[:, k] for (s, spans), counts in both if counts and spans[axis] for k in (0, 1)]
        rest = codes(some.rest(axis), *places)
        for of in gathered(rest, 2):
            members = live[of]
            if choice == "last":
                members = members[::-1]
            _trim(rows, own, axis, members, dropped, instead, used, behind)
    return Resolved(rows, dropped, instead, used, behind)


def repeated(rows: Rows, choice: str, contents: Int64 | None = None) -> tuple[Bools, Int64]:
    """Return which members have all coordinates, and `contents`, of the first or the last such one, and that one."""
    n = rows.group.size
    turn = np.arange(n)[::-1] if choice == "last" else np.arange(n)
    dropped, instead = np.zeros(n, bool), np.arange(n)
    columns = [*rows.sets, *(s[:, k] for s, _ in rows.parts for k in (0, 1))]
    whole = codes(rows.group, *columns, *([] if contents is None else [contents]))
    ranked = turn[np.argsort(whole[turn], kind="stable")]
    head = np.r_[True, whole[ranked][1:] != whole[ranked][:-1]][:n]
    instead[ranked] = ranked[np.maximum.accumulate(np.where(head, np.arange(n), 0))] if n else ranked
    dropped[ranked[~head]] = True
    return dropped, instead


def _trim(
    rows: Rows,
    own: Sets,
    axis: int,
    members: Int64,
    dropped: Bools,
    instead: Int64,
    used: dict[tuple[int, int], Bools],
    behind: dict[tuple[int, int], int],
) -> None:
    """Remove the coordinates of earlier members from later ones."""
    value, turn = own.values(rows.sets[axis][members])
    point = np.concatenate(own.of(rows.sets[axis][members]))
    order = np.lexsort((turn, value))
    same = np.r_[False, value[order][1:] == value[order][:-1]]
    if not same.any() or (point[order][1:] != point[order][:-1])[same[1:]].any():
        # Nothing is in common, or the common coordinates have different cells and cannot replace each other.
        return
    first = np.maximum.accumulate(np.where(~same, np.arange(order.size), 0))
    taken = np.zeros(order.size, bool)
    taken[order] = same
    owner = np.empty(order.size, np.int64)
    owner[order] = turn[order][first]
    for k in np.unique(turn[taken]).tolist():
        member = int(members[k])
        mine = turn == k
        left = point[mine & ~taken]
        if not left.size:
            dropped[member] = True
            instead[member] = members[owner[mine][0]]
            continue
        stored = own.points.point[slice(*own.points.offset[own.code[member] : own.code[member] + 2].tolist())]
        used[member, axis] = np.isin(stored, left)
        behind[member, axis] = int(members[owner[mine & taken][0]])
        rows.sets[axis][member] = own.add(left)
        rows.loose[axis][members] = True
