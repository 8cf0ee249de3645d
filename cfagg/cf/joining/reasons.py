"""Why two members are not in one array: the rule, its subject, and both values."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from cfagg.cf.joining.boxes import Boxes
from cfagg.cf.joining.described import UNNAMED
from cfagg.cf.joining.members import Axis, Int64, Members, Part
from cfagg.cf.joining.merging import gaps
from cfagg.cf.joining.options import Options
from cfagg.cf.joining.remedies import remedy_of
from cfagg.cf.joining.sets import points_of
from cfagg.cf.joining.telling import differing
from cfagg.cf.joining.values import plain

__all__ = ["Reason", "why"]

Rule = Literal[
    "problem",
    "signature",
    "attribute",
    "equal",
    "part",
    "axes",
    "not asked for",
    "overlap",
    "cells",
    "cells overlap",
    "gap",
    "crowded",
    "incomplete",
    "features",
]

_SENTENCES = {
    "problem": "it cannot be joined: {text}",
    "signature": "they differ in {what}: {a} and {b}",
    "signature exists": "only one of them has {what}",
    "attribute": "they belong to different datasets, as some overlap, and differ in {what}: {a} and {b}",
    "equal": "they have the same coordinates along all axes",
    "equal but counted": "they have the same coordinates, and none along {what} that would tell their places apart",
    "part": "{what} differs, which does not span {axis}: {a} and {b}",
    "axes": "they differ along {what}, and the parts that would fill the array between them are missing: {a} and {b}",
    "not asked for": "they differ along {what}, along which joining is switched off: {a} and {b}",
    "overlap": "they overlap along {what}: {a} and {b}",
    "cells": "they have the same coordinates along {axis}, but different {what}: {a} and {b}",
    "cells overlap": "their cells overlap along {what}: {a} and {b}",
    "gap": "there is a gap between their cells along {what}, or they have no bounds: {a} and {b}",
    "crowded": "others that would be joined with them overlap along {what}: {a} and {b}",
    "incomplete": "joined along {what}, they would form an array with missing parts: {a} and {b}",
    "features": "both have {what} {a}, but a ragged array stores all samples of a feature together",
}


_COUNTED = (
    "give that dimension a coordinate with a standard_name, which identifies its positions, such as the times of a "
    "swath"
)

_TEXTS = "; texts of other lengths: write them as strings, or all with as many characters"

_AROUND = (
    "write their longitudes alike: those of one are below 0, those of the other above 180, so add 360 to negative ones "
    "and sort by longitude"
)

#: For values whose places nothing tells apart, and whether these were compared.
_BARE = {
    False: f"on_overlap='equal' takes one of them if their values are equal; else {_COUNTED}",
    True: f"their values differ, or are too many to be compared: {_COUNTED}",
}


@dataclass(frozen=True, slots=True)
class Reason:
    """Why two members are apart: they have different values `a` and `b` of `what`.

    `axis` is the axis along which they would be joined if `what` is something else; `others` are two members that keep
    them apart, to which `a` and `b` then belong; `remedy` is advice on how they could be joined.
    """

    rule: Rule
    what: str
    a: Any
    b: Any
    axis: str = ""
    others: tuple[int, int] | None = None
    remedy: str = ""

    def __str__(self) -> str:
        if self.rule == "problem":
            both = ((self.a, "one"), (self.b, "the other")) if self.a != self.b else ((self.a, "both"),)
            text = "; ".join(f"{problem} ({which})" for problem, which in both if problem is not None)
            return _SENTENCES["problem"].format(text=text)
        if self.rule == "signature" and self.what.endswith(" exists"):
            return _SENTENCES["signature exists"].format(what=self.what.removesuffix(" exists"))
        a, b = ("none" if value is None else value for value in (self.a, self.b))
        if self.rule == "equal" and self.what:
            return _SENTENCES["equal but counted"].format(what=self.what)
        rule = "cells" if self.rule == "part" and not self.axis else self.rule
        return _SENTENCES[rule].format(what=self.what, a=a, b=b, axis=self.axis or "all axes")

    def as_dict(self) -> dict[str, Any]:
        """Return the parts of the reason by name."""
        out = {"rule": self.rule, "what": self.what, "a": self.a, "b": self.b, "remedy": self.remedy}
        return {**out, "axis": self.axis} if self.axis else out


def why(members: Members, boxes: Boxes, a: int, b: int, options: Options | None = None) -> Reason | None:
    """Return why two members are not in the same box, or `None` if they are; `options` are those of `join`."""
    if boxes.box[a] == boxes.box[b]:
        return None
    options = options or Options()
    found = _why(members, boxes, a, b, options)
    return (
        found if found.remedy else replace(found, remedy=remedy_of(found.rule, found.what, found.a, found.b, options))
    )


def _why(members: Members, boxes: Boxes, a: int, b: int, options: Options) -> Reason:
    """Return the reason, in most cases without its remedy."""
    # A problem that prevents joining one at all is more informative than any other difference.
    for name, column in sorted(members.signature.items(), key=lambda item: item[0] != "problem"):
        if column[a] != column[b]:
            label = members.labels.get(name)
            one, other = (plain(column[i]) if label is None else label[column[i]] for i in (a, b))
            if name == "problem":
                return Reason("problem", name, one, other)
            return Reason("signature", name, *differing(name, one, other))
    if boxes.parted[a] and members.properties is not None:
        for name, (column, label) in members.properties().items():
            if column[a] != column[b]:
                return Reason("attribute", name, label[column[a]], label[column[b]])
    differ = [axis for axis in members.axes if axis.code[a] != axis.code[b] and not _same(axis, a, b, options)]
    features = _of_features(members, differ, a, b, options)
    if features is not None:
        return features
    if not differ:
        return _at_all_places(members, a, b, options) or _equal(members, a, options)
    refused = [axis for axis in differ if options.axes is not None and axis.name not in options.axes]
    if refused:
        return Reason("not asked for", *_difference(refused[0], a, b))
    found = [_difference(axis, a, b) for axis in differ]
    for axis, (what, one, other) in zip(differ, found, strict=True):
        if what not in (axis.name, f"bounds of {axis.name}"):
            # The coordinates themselves are equal, but their companions are not.
            others = ", ".join(x.name for x in differ if x is not axis)
            return Reason("part", what, one, other, others or "any other axis")
    if len(differ) > 1:
        counted = ", ".join(axis.name for axis in differ if axis.counted)
        remedy = _around(differ, a, b) or _nearly(differ, a, b, options)
        if counted:
            remedy = f"nothing is joined along {counted}, whose places are only counted: {_COUNTED}"
            remedy += _TEXTS * _is_text(members, a)
        what = ", ".join(f[0] for f in found)
        return Reason("axes", what, [f[1] for f in found], [f[2] for f in found], remedy=remedy)
    (axis,) = differ
    for name, part in members.parts.items():
        if axis.name not in part.axes and part.code[a] != part.code[b]:
            return _of_part(members, part.name or name, part, a, b, axis.name, options)
    return _along(members, axis, a, b, options)


def _is_text(members: Members, a: int) -> bool:
    """Return whether the values of a member are text."""
    column, label = members.signature["type"], members.labels.get("type")
    return bool((plain(column[a]) if label is None else label[column[a]]) == "text")


def _around(axes: list[Axis], a: int, b: int) -> str:
    """Return what to do if longitudes begin at -180 degrees in one member and at 0 in the other."""
    for axis in axes:
        if axis.name == "longitude" and axis.first.dtype.kind == axis.last.dtype.kind == "f":
            (low, west), (start, high) = sorted((axis.first[i], axis.last[i]) for i in (a, b))
            if low < 0 <= start and west <= 180 < high:
                return _AROUND
    return ""


def _at_all_places(members: Members, a: int, b: int, options: Options) -> Reason | None:
    """Return the first companion in which two members differ that have the same coordinates along all axes."""
    parts = {name: part for name, part in members.parts.items() if part.code[a] != part.code[b]}
    if not parts:
        return None
    name, part = next(iter(parts.items()))
    found = _of_part(members, part.name or name, part, a, b, "any axis", options)
    counting = members.counting()
    bare = any(counting[name] for name in parts) or any(x.grows is not None and x.grows[a] for x in members.axes)
    along = not bare and any(not x.counted and all(x.name in p.axes for p in parts.values()) for x in members.axes)
    if not along or found.rule != "part" or options.on_overlap in ("first", "last"):
        return found
    # The file that gives the values of an axis also gives what spans it.
    return replace(found, axis="", remedy="on_overlap='first' or on_overlap='last' takes one of them; or leave one out")


def _nearly(axes: list[Axis], a: int, b: int, options: Options) -> str:
    """Return what to do if coordinates along all axes but one differ by less than a hundredth of their spacing."""
    near = []
    for axis in axes:
        counts = {_values(axis, i, options).size for i in (a, b)}
        if axis.first.dtype.kind == axis.last.dtype.kind == "f" and len(counts) == 1 and max(counts) > 1:
            most = abs(axis.last[a] - axis.first[a]) / (max(counts) - 1) / 100
            if all(abs(ends[a] - ends[b]) <= most for ends in (axis.first, axis.last)):
                near.append(axis.name)
    if not near or len(near) < len(axes) - 1:
        return ""
    return f"rtol= and atol= set how far {' and '.join(near)} may differ, which nearly agree"


def _equal(members: Members, a: int, options: Options) -> Reason:
    """Return the reason why two members are apart that have the same coordinates, as far as they have any."""
    bare = [x for x in members.axes if x.name.startswith(UNNAMED) and x.size is not None and x.size[x.code[a]] >= 0]
    names = ", ".join(axis.name.removeprefix(UNNAMED) for axis in bare)
    return Reason("equal", names, None, None, remedy=_BARE[options.on_overlap == "equal"] if bare else "")


def _of_features(members: Members, differ: list[Axis], a: int, b: int, options: Options) -> Reason | None:
    """Return the first common feature of two ragged arrays, if nothing else keeps them apart."""
    roots = [x.within for x in members.axes if x.within and x.name.startswith("samples") and x.code[a] and x.code[b]]
    if not roots or any(axis.name != roots[0] for axis in differ):
        return None
    root = next(axis for axis in members.axes if axis.name == roots[0])
    shared = np.flatnonzero(np.isin(_values(root, a, options), _values(root, b, options)))
    if root.label is None or not shared.size:
        return None
    label = root.label(int(root.code[a]), int(shared[0]))
    return Reason("features", root.name, label, label)


def _along(members: Members, axis: Axis, a: int, b: int, options: Options) -> Reason:
    """Return why two members that differ along one axis only are apart."""
    one, other = ((plain(axis.first[i]), plain(axis.last[i])) for i in (a, b))
    mine, theirs = (_values(axis, i, options) for i in (a, b))
    shared = np.intersect1d(mine, theirs)
    if axis.differing is not None and mine.size == theirs.size == shared.size and not axis.counted:
        # The coordinates themselves are equal, but their cells are not.
        return Reason("cells", *axis.differing(int(axis.code[a]), int(axis.code[b])), axis.name)
    own = points_of(axis, options)
    loose = options.interleave or own.unordered[_codes(axis, own)[[a, b]]].any()
    if shared.size or (not loose and max(mine.min(), theirs.min()) <= min(mine.max(), theirs.max())):
        remedy = _around([axis], a, b) or _apart_from(axis, a, b, options)
        return Reason("overlap", axis.name, one, other, remedy=remedy)
    rule = _of_cells(members, axis, *((a, b) if mine.min() <= theirs.min() else (b, a)), options)
    if rule is not None:
        one, other = (tuple(plain(ends[i]) for ends in axis.cells()) for i in (a, b))
    clash = None if rule is not None or options.interleave else _clash(members, axis, a, options, loose=bool(loose))
    if clash is not None:
        one, other = ((plain(axis.first[i]), plain(axis.last[i])) for i in clash)
        features = any(x.within == axis.name and x.code[a] for x in members.axes)
        way = remedy_of("features", "", None, None, options) if features else _apart_from(axis, *clash, options)
        remedy = f"{way}; or leave one of those two out"
        return Reason("crowded", axis.name, one, other, others=clash, remedy=remedy)
    return Reason(rule or "incomplete", axis.name, one, other)


def _apart_from(axis: Axis, a: int, b: int, options: Options) -> str:
    """Return how to join two that overlap along an axis, depending on whether they have common coordinates."""
    if axis.counted:
        return _COUNTED
    mine, theirs = (_values(axis, i, options) for i in (a, b))
    common = np.intersect1d(mine, theirs).size
    if not common:
        return "interleave=True allows coordinates of one to be between those of the other"
    own = points_of(axis, options)
    one, other = (own.point[own.offset[c] : own.offset[c + 1]] for c in _codes(axis, own)[[a, b]].tolist())
    if np.intersect1d(one, other).size < common:
        return f"correct what belongs to {axis.name}, such as bounds, and differs where coordinates are equal"
    if options.on_overlap in ("first", "last"):
        return "leave one of them out"
    return "on_overlap='first' or on_overlap='last' chooses which values to take for coordinates in common"


def _clash(members: Members, axis: Axis, member: int, options: Options, *, loose: bool) -> tuple[int, int] | None:
    """Return two overlapping members along an axis, out of all that would be joined with a member along it.

    Labels, which have no order, overlap only if they are equal.
    """
    like = np.flatnonzero(_like(members, axis, member, options))
    if loose:
        own = points_of(axis, options)
        at, turn = own.pooled(_codes(axis, own)[like])
        order = np.lexsort((turn, own.value[at]))
        value, turn = own.value[at][order], turn[order]
        found = np.flatnonzero((value[1:] == value[:-1]) & (turn[1:] != turn[:-1]))
        return (int(like[turn[found[0]]]), int(like[turn[found[0] + 1]])) if found.size else None
    order = like[np.argsort(axis.first[like], kind="stable")]
    first, last = axis.first[order], axis.last[order]
    behind = np.flatnonzero(first[1:] <= np.maximum.accumulate(last)[:-1])
    if not behind.size:
        return None
    k = int(behind[0]) + 1
    return int(order[int(np.argmax(last[:k]))]), int(order[k])


def _like(members: Members, axis: Axis, member: int, options: Options) -> npt.NDArray[np.bool_]:
    """Return which members differ from one along an axis only."""
    like = np.ones(len(members), bool)
    for column in members.signature.values():
        like &= column == column[member]
    for other in members.axes:
        if other is not axis:
            found, head = np.unique(other.code, return_index=True)
            alike = [code for code, i in zip(found, head.tolist(), strict=True) if _same(other, member, i, options)]
            like &= np.isin(other.code, alike)
    return like


def _codes(axis: Axis, own: Any) -> Int64:
    """Return the codes of members among the points of an axis."""
    return axis.code if own is axis.points else np.unique(axis.code, return_inverse=True)[1].reshape(-1)


def _values(axis: Axis, member: int, options: Options) -> Int64:
    """Return the numbers of the coordinates of a member."""
    own = points_of(axis, options)
    code = int(_codes(axis, own)[member])
    return own.value[own.offset[code] : own.offset[code + 1]]


def _same(axis: Axis, a: int, b: int, options: Options) -> bool:
    """Return whether two members have the same points in another order."""
    own = points_of(axis, options)
    code = _codes(axis, own)
    one, other = (np.sort(own.point[own.offset[c] : own.offset[c + 1]]) for c in code[[a, b]].tolist())
    return np.array_equal(one, other)


def _difference(axis: Axis, a: int, b: int) -> tuple[str, Any, Any]:
    """Return the axis, or the companion along it, in which two members differ, and both values."""
    if axis.differing is not None:
        return axis.differing(int(axis.code[a]), int(axis.code[b]))
    return axis.name, plain(axis.first[a]), plain(axis.first[b])


def _of_part(members: Members, name: str, part: Part, a: int, b: int, axis: str, options: Options) -> Reason:
    """Return the reason for a difference of a companion that does not span an axis."""
    one, other = (int(part.code[a]), int(part.code[b])) if part.differing is None else part.differing(a, b)
    turned = [own for own in members.axes if own.name in part.axes and own.code[a] != own.code[b]]
    if one == other and turned:
        what, first, second = _difference(turned[0], a, b)
        return Reason(
            "part", f"order of {what}", first, second, axis, remedy=f"write both with the same order of {what}"
        )
    # Nothing is joined along a dimension whose places are only counted; meshes have no other dimensions.
    counted = any(
        own.counted and own.name in part.axes and not own.name.endswith("of the mesh") for own in members.axes
    )
    remedy = remedy_of("part", name, one, other, options)
    return Reason("part", name, one, other, axis, remedy=f"{_COUNTED}; or {remedy}" if counted else remedy)


def _of_cells(members: Members, axis: Axis, a: int, b: int, options: Options) -> Literal["cells overlap", "gap"] | None:
    """Return the condition on cells that the bounds of two members in order violate."""
    if options.overlap and not options.contiguous:
        return None
    low, high = axis.cells()
    gap = float(gaps(high[[a]], low[[b]], options)[0])
    if not options.overlap and gap < 0:
        return "cells overlap"
    # Others of the same array may be between the two.
    like = _like(members, axis, a, options)
    between = [
        i for i in np.flatnonzero(like).tolist() if axis.first[i] > axis.last[a] and axis.last[i] < axis.first[b]
    ]
    return "gap" if options.contiguous and not gap <= 0 and not between else None
