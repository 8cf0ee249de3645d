"""Dimensions of which each feature has its own range: samples of ragged arrays, and nodes of geometries.

They are joined as their features are, whose positions alone decide: the ranges follow each other as the features do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.cf.joining.boxes import Boxes
from cfagg.cf.joining.described import WITHIN, Described, Stated
from cfagg.cf.joining.members import Axis, Bools, Int64, Members, starts
from cfagg.cf.joining.values import plain
from cfagg.cf.references import own_name

__all__ = ["FEATURES", "is_missing", "unsound", "with_samples", "without_features"]

#: The column of the signature that separates members whose ranges cannot follow each other.
FEATURES = "features whose ranges cannot follow those of others"


def with_samples(described: Sequence[Described], members: Members, boxes: Boxes) -> tuple[Members, Boxes, Int64]:
    """Return members and boxes with the axes within others, and the members for which that is not possible.

    These are all members of boxes in which some cannot follow each other, feature by feature.
    """
    axes = {id(d.axes): d.axes for d in described}.values()
    roots = {name: own.within for a in axes for name, own in a.items() if own.within}
    number = {axis.name: k for k, axis in enumerate(members.axes)}
    bad = np.zeros(len(boxes), bool)
    columns, new = [], []
    for name, root in roots.items():
        size = np.array([len(d.axes[name].values) if name in d.axes else -1 for d in described], np.int64)
        start, extent = _ranges(described, boxes, number[root], size, bad)
        there = (size >= 0) & ~boxes.dropped
        columns.append((np.where(there, start, 0), np.where(size >= 0, np.where(there, size, 0), 1), extent))
        new.append(Axis(name, (size >= 0).astype(np.int64), start, start + np.maximum(size - 1, 0), within=root))
    if not new:
        return members, boxes, np.zeros(0, np.int64)
    n, count = boxes.box.size, len(boxes)
    none, one = np.zeros((n, len(new)), np.int64), np.ones((count, len(new)), np.int64)
    both = (np.stack([c[k] for c in columns], axis=1) for k in range(3))
    starts_, counts, extents = (
        np.concatenate([old, more], axis=1)
        for old, more in zip((boxes.start, boxes.count, boxes.extent), both, strict=True)
    )
    grown = replace(
        boxes,
        start=starts_,
        count=counts,
        extent=extents,
        position=np.concatenate([boxes.position, none], axis=1),
        shape=np.concatenate([boxes.shape, one], axis=1),
        descending=np.concatenate([boxes.descending, one == 0], axis=1),
        flipped=np.concatenate([boxes.flipped, none > 0], axis=1),
    )
    return replace(members, axes=(*members.axes, *new)), grown, np.flatnonzero(bad[boxes.box])


def without_features(described: Sequence[Described], members: Members, apart: Int64, *, alone: bool) -> Members:
    """Return members of which some are not joined along the axis of their features, or not joined at all."""
    column, labels = np.zeros(len(members), np.int64), [""]
    numbers: dict[Any, int] = {}
    axes = {axis.name: axis for axis in members.axes}
    for row in apart.tolist():
        one = described[row]
        root = axes[next(own.within for own in one.axes.values() if own.within)]
        key = row if alone else (root.name, int(root.code[row]))
        if key not in numbers:
            numbers[key] = len(labels)
            said = unsound(one) or f"{root.name} from {plain(root.first[row])} to {plain(root.last[row])}"
            labels.append(said)
        column[row] = numbers[key]
    return replace(
        members, signature={**members.signature, FEATURES: column}, labels={**members.labels, FEATURES: labels}
    )


def _ranges(described: Sequence[Described], boxes: Boxes, root: int, size: Int64, bad: Bools) -> tuple[Int64, Int64]:
    """Return where the range of each member begins, and the sizes of all ranges of each box; mark `bad` boxes."""
    start, extent = np.zeros(size.size, np.int64), np.ones(len(boxes), np.int64)
    live = np.flatnonzero((size >= 0) & ~boxes.dropped)
    if not live.size:
        return start, extent
    rows = live[np.lexsort((boxes.start[live, root], boxes.box[live]))]
    of, at, count, own = boxes.box[rows], boxes.start[rows, root], boxes.count[rows, root], size[rows]
    head = np.r_[True, (of[1:] != of[:-1]) | (at[1:] != at[:-1])]
    first = np.flatnonzero(head)[np.cumsum(head) - 1]  # of those at the same position
    begins = np.r_[True, of[1:] != of[:-1]]
    several = (np.bincount(of[head], minlength=len(boxes)) > 1)[of]
    odd = [row for row, axis in (*boxes.scattered, *boxes.trimmed) if axis == root]
    wrong = (count != count[first]) | (at != _before(np.where(head, count, 0), begins)[first])
    wrong |= boxes.flipped[rows, root] | np.isin(rows, odd)
    known: dict[int, bool] = {}
    for k in np.flatnonzero(several & ~wrong).tolist():
        one = described[int(rows[k])]
        if id(one.parts) not in known:
            known[id(one.parts)] = unsound(one) is not None
        wrong[k] = known[id(one.parts)]
    bad[of[(wrong & several) | (own != own[first])]] = True
    sizes = np.where(head, own, 0)
    start[rows] = _before(sizes, begins)[first]
    extent[of[begins]] = np.add.reduceat(sizes, np.flatnonzero(begins))
    return start, extent


def _before(sizes: Int64, begins: Any) -> Int64:
    """Return for each the sum of all sizes before it, restarting where it `begins`."""
    total = np.cumsum(sizes) - sizes
    return total - total[starts(np.cumsum(begins))]


def unsound(one: Described) -> str | None:
    """Return why the range of each feature of a variable is unclear, or `None` if it is clear."""
    sizes = {name: len(own.values) for name, own in one.axes.items()}
    for name, own in one.axes.items():
        if not own.within:
            continue
        found = [
            part for kind in ("count", "index", "size") if (part := one.parts.get(f"{kind} of {name}")) is not None
        ]
        if len(found) != 1:
            return f"it is unclear to which {own.within} the {name.partition(WITHIN)[0]} belong"
        if found[0].values is None or found[0].values.dtype.kind not in "iu":
            return f"{found[0].stated.name} has too many values to be changed: {prod(found[0].shape):,}"
        ((part,), values) = found, found[0].values
        if part is one.parts.get(f"index of {name}"):
            outer = sizes.get(one.along.get(own_name(part.stated.text("instance_dimension")), ""), 0)
            if not (is_missing(values, part.stated) | ((values >= 0) & (values < outer))).all():
                return f"an index of the {name.partition(WITHIN)[0]} refers to none of the {outer:,} features"
            continue
        total = sizes.get(f"nodes{WITHIN}{own.within}", -1) if part is one.parts.get(f"size of {name}") else sizes[name]
        if (values < 0).any() or int(values.sum()) != total:
            return f"the counts of the {name.partition(WITHIN)[0]} do not add up to {total:,}"
    return None


def is_missing(values: npt.NDArray[Any], stated: Stated) -> Bools:
    """Return which values are declared missing."""
    said = [np.asarray(stated.attributes[k]).ravel() for k in ("_FillValue", "missing_value") if k in stated.attributes]
    return np.isin(values, np.concatenate(said)) if said else np.zeros(values.shape, bool)
