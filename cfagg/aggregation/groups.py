"""Facts about each array for a report: files, axes and their ranges, and why other arrays are separate."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property, partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from cfagg.aggregation.around import shared
from cfagg.cf.joining import Reason, Stated, codes, why
from cfagg.cf.joining.identities import DATASETS
from cfagg.display.joined import ApartFacts, AxisFacts, GroupFacts, Run
from cfagg.display.labels import label_text
from cfagg.display.summary import Listing

if TYPE_CHECKING:
    from cfagg.aggregation.joining import Joined

__all__ = ["Labels", "apart", "group_facts"]

type Int64 = npt.NDArray[np.int64]

#: Maximum number of arrays of one quantity that are compared with each other.
_COMPARED = 1000

#: Maximum number of files that are listed for an array.
_FILES = 12

#: Without bounds, a step between coordinates that exceeds the usual one by this factor is a gap.
_GAP = 1.5


class Labels:
    """Shared by all arrays of a report: coordinates as text, dates of reference times as numbers, and counts."""

    def __init__(self, joined: Joined) -> None:
        self._joined = joined
        self._axes = {axis.name: axis for axis in joined.members.axes}
        #: Number of members of a box that are entirely replaced by others.
        self.replaced = Counter(joined.boxes.box[joined.boxes.dropped].tolist())

    @cached_property
    def _everywhere(self) -> dict[str, Any]:
        """The attributes that all files share."""
        return shared(self._joined.described)

    def dataset(self, rows: Int64) -> str:
        """Return by which attributes of published datasets the files of some members differ from the others."""
        own = shared([self._joined.described[row] for row in rows.tolist()])
        return ", ".join(f"{k}: {label_text(own[k])}" for k in DATASETS if k in own and k not in self._everywhere)

    def _base(self, axis: str, row: int) -> Stated | None:
        """Return the metadata with the units of a member's coordinates, which depend on its calendar."""
        found = self._axes.get(axis)
        return found.base[found.code[row]] if found is not None and len(found.base) else None

    def units(self, axis: str, row: int) -> str:
        """Return the units in which coordinates of a member are shown; dates have none."""
        found = self._base(axis, row)
        units = "" if found is None else found.text("units") or ""
        return "" if " since " in units or units == "1" else units

    def placed(self, axis: str, row: int, values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Return positions in a plot for coordinates of a member: dates of any calendar as decimal years."""
        found = self._base(axis, row)
        units = None if found is None else found.text("units")
        if found is None or units is None or " since " not in units:
            return values
        import cftime

        calendar = found.text("calendar") or "standard"
        try:
            dates = np.atleast_1d(cftime.num2date(values, units, calendar))
            days = {year: _length(year, calendar) for year in {date.year for date in dates}}
        except (ValueError, OverflowError):
            return values
        seconds = [(d.dayofyr - 1) * 86400 + d.hour * 3600 + d.minute * 60 + d.second for d in dates]
        return np.array([d.year + s / (86400 * days[d.year]) for d, s in zip(dates, seconds, strict=True)], np.float64)

    def text(self, axis: str, row: int, value: Any) -> str:
        """Return one coordinate of a member."""
        found = self._base(axis, row)
        units = None if found is None else found.text("units")
        value = value.item() if hasattr(value, "item") else value
        if isinstance(value, float) and not math.isfinite(value):
            return "none"
        if found is not None and units is not None and " since " in units and isinstance(value, int | float):
            import cftime

            try:
                return label_text(cftime.num2date(value, units, found.text("calendar") or "standard"))
            except (ValueError, OverflowError):
                pass
        return label_text(value)

    def said(self, reason: Reason, row: int) -> str:
        """Return a reason for a member, with coordinates in readable form."""
        names = reason.what.split(", ")
        if reason.rule == "axes" and len(names) == len(reason.a):
            ends = [[self.text(n, row, v) for n, v in zip(names, side, strict=True)] for side in (reason.a, reason.b)]
            a, b = (", ".join(side) for side in ends)
            return str(replace(reason, a=a, b=b))
        if reason.rule in ("overlap", "cells overlap", "gap", "crowded", "incomplete"):
            ends = [[self.text(reason.what, row, v) for v in side] for side in (reason.a, reason.b)]
            a, b = (" to ".join(dict.fromkeys(side)) for side in ends)
            return str(replace(reason, a=a, b=b))
        return str(reason)


def group_facts(joined: Joined, rows: Int64, name: str, dropped: Sequence[str], labels: Labels) -> GroupFacts:
    """Return how the array of some members was made; at most a few files are listed."""
    box = int(joined.boxes.box[rows[0]])
    first = joined.described[int(rows[0])]
    places = [joined.scanned[k].place for k in joined.file[rows].tolist()]
    axes = [_axis(joined, rows, box, k, labels) for k, a in enumerate(joined.members.axes) if a.name in first.axes]
    # Those along which members were joined come first.
    axes.sort(key=lambda a: a.parts == 1)
    return GroupFacts(
        name,
        str(first.signature.get("identity") or first.stated.name),
        first.stated.text("units") or "",
        Listing.of(len(places), lambda i: str(places[i]), _FILES),
        _rule(axes, len(rows), first.along.values()),
        tuple(axes),
        tuple(dropped),
        labels.replaced.get(box, 0),
        labels.dataset(rows),
    )


def _rule(axes: Sequence[AxisFacts], members: int, own: Any) -> str:
    """Return the rule by which members form one array."""
    if members == 1:
        return "one variable of one file"
    along = [a.name + ("" if a.name in own else " (a new dimension)") for a in axes if a.parts > 1]
    return f"{members:,} joined along {' and '.join(along)}" if along else f"{members:,} joined"


def _axis(joined: Joined, rows: Int64, box: int, k: int, labels: Labels) -> AxisFacts:
    """Return the facts about an axis of an array."""
    axis, boxes = joined.members.axes[k], joined.boxes
    low, high = axis.first[rows], axis.last[rows]
    text = partial(labels.text, axis.name, int(rows[0]))
    placed = partial(labels.placed, axis.name, int(rows[0]))
    how = []
    if any((row, k) in boxes.scattered for row in rows.tolist()):
        how.append("interleaved")
    if cut := sum((row, k) in boxes.trimmed for row in rows.tolist()):
        how.append(f"{cut:,} cut where others overlap")
    numbers = low.dtype.kind in "iuf"
    runs = _runs(axis, rows, joined, k, text, placed) if numbers else []
    least, most = (np.fmin.reduce(low), np.fmax.reduce(high)) if numbers else (low[0], high[-1])
    ends = (text(most), text(least)) if boxes.descending[box, k] else (text(least), text(most))
    return AxisFacts(
        axis.name,
        int(boxes.extent[box, k]),
        int(boxes.shape[box, k]),
        *ends,
        labels.units(axis.name, int(rows[0])),
        ", ".join(how),
        Listing.of(len(runs), runs.__getitem__, 200),
    )


def _runs(
    axis: Any, rows: Int64, joined: Joined, k: int, text: Callable[[Any], str], placed: Callable[[Any], Any]
) -> list[Run]:
    """Return the ranges covered without gaps along an axis: by cells, or else by the usual step between coordinates."""
    first, last = (np.asarray(ends[rows], np.float64) for ends in (axis.first, axis.last))
    # A missing coordinate has no position.
    there = (joined.boxes.count[rows, k] > 0) & np.isfinite(first) & np.isfinite(last)
    rows, first, last = rows[there], first[there], last[there]
    if not rows.size:
        return []
    low, high = (np.asarray(ends[rows], np.float64) for ends in axis.cells())
    count = joined.boxes.count[rows, k]
    bounded = bool(np.isfinite(low).all() and np.isfinite(high).all())
    order = np.lexsort((last, first))
    first, last, count = first[order], last[order], count[order]
    steps = np.r_[(last - first)[count > 1] / (count[count > 1] - 1), np.diff(np.unique(first))]
    usual = float(np.median(steps)) if steps.size else 0.0
    if bounded:
        low, high = low[order], high[order]
        reach = np.maximum.accumulate(high)
        cut = low[1:] > reach[:-1] + 1e-9 * np.maximum(np.abs(reach[:-1]), 1)
    else:
        reach = np.maximum.accumulate(last)
        cut = first[1:] - reach[:-1] > _GAP * usual
        low, high = first - usual / 2, last + usual / 2
    begins = np.flatnonzero(np.r_[True, cut])
    members = np.diff(np.r_[begins, len(first)]).tolist()
    lows, highs = (placed(f.reduceat(v, begins)).tolist() for f, v in ((np.minimum, low), (np.maximum, high)))
    texts = ([text(value) for value in ends.tolist()] for ends in (first[begins], np.maximum.reduceat(last, begins)))
    return [Run(*run) for run in zip(lows, highs, members, *texts, strict=True)]


def _length(year: int, calendar: str) -> int:
    """Return the number of days in a year."""
    if calendar == "360_day":
        return 360
    import cftime

    return 366 if cftime.is_leap_year(year, calendar) else 365


def apart(joined: Joined, rows: Sequence[Int64], names: Sequence[str], labels: Labels) -> list[ApartFacts]:
    """Return why arrays of one quantity, or of one name, are separate: each reason once, rare ones first.

    Each array is compared with its neighbour along the axis where they differ most, preferably one that is otherwise
    equal.
    """
    families: dict[Any, list[int]] = {}
    for box, own in enumerate(rows):
        if len(own):
            one = joined.described[int(own[0])]
            families.setdefault(one.signature.get("identity") or one.stated.name, []).append(box)
    found: list[ApartFacts] = []
    for identity, boxes in families.items():
        if len(boxes) < 2:
            continue
        seen: Counter[tuple[str, str]] = Counter()
        example: dict[tuple[str, str], tuple[Reason, int, int]] = {}
        which: dict[tuple[str, str], dict[str, None]] = {}
        for before, behind, a, b in _neighbours(joined, rows, boxes[:_COMPARED]):
            reason = why(joined.members, joined.boxes, a, b, joined.options)
            if reason is None:
                continue
            key = str(reason.rule), reason.what
            seen[key] += 1
            example.setdefault(key, (reason, a, b))
            which.setdefault(key, {}).update(dict.fromkeys((names[before], names[behind])))
        for key, count in seen.items():
            reason, a, b = example[key]
            here, there = (str(joined.scanned[int(joined.file[row])].place) for row in reason.others or (a, b))
            arrays = list(which[key])
            found.append(
                ApartFacts(
                    str(identity), reason.rule, reason.what, labels.said(reason, a), count,
                    Listing.of(len(arrays), arrays.__getitem__, 6), here, there, reason.remedy,
                )
            )  # fmt: skip
    # Reasons that are consequences of other separations are the least informative.
    return sorted(found, key=lambda one: (one.rule in ("crowded", "incomplete"), one.count))


def _neighbours(joined: Joined, rows: Sequence[Int64], boxes: Sequence[int]) -> Iterator[tuple[int, int, int, int]]:
    """Yield pairs of neighbouring arrays, and the members of the two that are closest to each other."""
    heads = np.array([rows[box][0] for box in boxes])
    alike = codes(*(np.asarray(column)[heads] for column in joined.members.signature.values()))
    axis = max(joined.members.axes, key=lambda a: len(np.unique(a.code[heads])), default=None)
    members = np.concatenate([rows[box] for box in boxes])
    rank = np.zeros((2, len(joined.described)), np.int64)
    if axis is not None:
        rank[:, members] = _ranks(np.concatenate([axis.first[members], axis.last[members]])).reshape(2, -1)
    order = np.lexsort((rank[0, heads], alike)).tolist()
    for one, other in pairwise(order):
        b = int(heads[other])
        yield boxes[one], boxes[other], _nearest(joined, rows[boxes[one]], b, rank), b


def _ranks(values: npt.NDArray[Any]) -> Int64:
    """Return the ranks of values: none, as of arrays without the axis, then numbers, then texts."""
    if values.dtype != object:
        return np.unique(values, return_inverse=True)[1].reshape(-1)
    keys = [(v is not None, isinstance(v, str), "" if v is None else v) for v in values.tolist()]
    rank = {key: k for k, key in enumerate(sorted(set(keys)))}
    return np.array([rank[key] for key in keys], np.int64)


def _nearest(joined: Joined, own: Int64, b: int, rank: Int64) -> int:
    """Return the member of an array that differs from another along the fewest axes, and overlaps it or is closest."""
    differ = np.zeros(len(own), np.int64)
    for axis in joined.members.axes:
        differ += axis.code[own] != axis.code[b]
    closest = own[differ == differ.min()]
    away = np.maximum(rank[0, closest] - rank[1, b], rank[0, b] - rank[1, closest])
    return int(closest[int(np.argmin(np.maximum(away, 0)))])
