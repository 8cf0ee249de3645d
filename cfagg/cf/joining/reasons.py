"""Why two members are not in one array: the rule, what it is about, and both values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from cfagg.cf.joining.boxes import Boxes, gaps, numbered_points
from cfagg.cf.joining.members import Axis, Members
from cfagg.cf.joining.options import Options

__all__ = ["Reason", "why"]

_SENTENCES = {
    "signature": "{what} is {a} of one and {b} of the other",
    "equal": "they are equal along all axes",
    "part": "{what} differs, which does not span {a}",
    "axes": "they differ along {what}, and what would fill the array between them is missing",
    "overlap": "they overlap along {what}: {a} and {b}",
    "cells overlap": "their cells overlap along {what}: {a} and {b}",
    "gap": "there is a gap between their cells along {what}, or they have no bounds: {a} and {b}",
    "incomplete": "joined along {what} they would be an array with missing parts: {a} and {b}",
}


@dataclass(frozen=True, slots=True)
class Reason:
    """Why two members are apart; `a` and `b` are what the first and the second have of `what`."""

    rule: Literal["signature", "equal", "part", "axes", "overlap", "cells overlap", "gap", "incomplete"]
    what: str
    a: Any
    b: Any

    def __str__(self) -> str:
        return _SENTENCES[self.rule].format(what=self.what, a=self.a, b=self.b)

    def as_dict(self) -> dict[str, Any]:
        """Return the parts of the reason by name."""
        return {"rule": self.rule, "what": self.what, "a": self.a, "b": self.b}


def why(members: Members, boxes: Boxes, a: int, b: int, options: Options | None = None) -> Reason | None:
    """Return why two members are not in the same box; `None` where they are.  `options` are those of `join`."""
    if boxes.box[a] == boxes.box[b]:
        return None
    for name, column in members.signature.items():
        if column[a] != column[b]:
            label = members.labels.get(name)
            one, other = (_plain(column[i]) if label is None else label[column[i]] for i in (a, b))
            return Reason("signature", name, one, other)
    differ = [axis for axis in members.axes if axis.code[a] != axis.code[b]]
    if not differ:
        return Reason("equal", "", None, None)
    if len(differ) > 1:
        ends = [[_plain(axis.first[i]) for axis in differ] for i in (a, b)]
        return Reason("axes", ", ".join(axis.name for axis in differ), *ends)
    (axis,) = differ
    for name, part in members.parts.items():
        if axis.name not in part.axes and part.code[a] != part.code[b]:
            return Reason("part", name, axis.name, axis.name)
    one, other = ((_plain(axis.first[i]), _plain(axis.last[i])) for i in (a, b))
    options = options or Options()
    overlap = max(one[0], other[0]) <= min(one[1], other[1])
    if options.interleave:
        rows, points = numbered_points(axis, options)
        overlap = bool(np.isin(points[rows == a], points[rows == b]).any())
    if overlap:
        return Reason("overlap", axis.name, one, other)
    rule = _of_cells(axis, *((a, b) if one <= other else (b, a)), options)
    if rule is not None:
        one, other = (tuple(_plain(ends[i]) for ends in axis.cells()) for i in (a, b))
    return Reason(rule or "incomplete", axis.name, one, other)


def _of_cells(axis: Axis, a: int, b: int, options: Options) -> Literal["cells overlap", "gap"] | None:
    """Return what bounds of two members in order say against joining them."""
    low, high = axis.cells()
    gap = float(gaps(high[[a]], low[[b]], options)[0])
    if not options.overlap and gap < 0:
        return "cells overlap"
    # Others may stand between the two.
    between = (axis.first > axis.last[a]) & (axis.last < axis.first[b])
    return "gap" if options.contiguous and not gap <= 0 and not between.any() else None


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value
