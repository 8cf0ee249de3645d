"""In-memory arrays joined from those of members: coordinates, their bounds and their companions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.aggregation.masters import Master, common, conformed, distinct, master_of
from cfagg.aggregation.matrix import irregular
from cfagg.cf.calendars import transform
from cfagg.cf.joining import Boxes, Coordinate, Stated, with_units_of
from cfagg.cf.kinds_of_units import is_reference_time
from cfagg.cf.packing import STORAGE_ATTRIBUTES
from cfagg.errors import CfaggError

__all__ = ["Assembled", "along_axis", "assembled", "with_bounds"]

Int64 = npt.NDArray[np.int64]

#: Attributes on the meaning of integers, which may be written in several ways.
_OF_NUMBERS = frozenset({"start_index", "flag_values", "flag_masks", "flag_meanings"})


@dataclass(frozen=True, eq=False, slots=True)
class Assembled:
    """Values and their properties."""

    values: npt.NDArray[Any]
    master: Master


def assembled(
    boxes: Boxes,
    rows: Int64,
    axes: Sequence[int | None],
    values_of: Callable[[int], npt.NDArray[Any]],
    stated_of: Callable[[int], Stated],
    where: Callable[[int], str],
    like: Master | None = None,
) -> Assembled:
    """Return the joined values of members along some axes of their box; `None` is a dimension that is not joined.

    Members with the same position along all of these axes have equal values, which are taken from the first. Bounds
    without units of their own have those of their coordinate, `like`.
    """
    known = [a for a in axes if a is not None]
    place = np.concatenate([boxes.start[np.ix_(rows, known)], boxes.count[np.ix_(rows, known)]], axis=1)
    odd = irregular(boxes, rows, known)
    heads = _heads(place) if known else np.zeros(1, np.int64)
    chosen = np.union1d(rows[heads], rows[odd])
    stated = {int(row): stated_of(int(row)) for row in chosen}
    master = master_of(distinct(stated.values()))
    # Their attributes may differ even so; those on what the numbers mean are of the first, as the values are.
    _, differing = common([one.attributes for one in distinct(map(stated_of, rows.tolist()))])
    differing = tuple(name for name in differing if name not in _OF_NUMBERS)
    left = {k: v for k, v in master.attributes.items() if k not in differing}
    master = replace(master, attributes=left, differing=differing)
    if like is None:
        master = _whole_times(master, stated, values_of)
    else:
        dtype = like.dtype if all(one.dtype.kind in "iu" for one in stated.values()) else master.dtype
        master = replace(master, dtype=dtype, units=like.units, calendar=like.calendar, alike=False)
    first = values_of(int(chosen[0]))
    if first.dtype == object:
        # Characters were joined into texts, out of their encoding, when they were read.
        attributes = {k: v for k, v in master.attributes.items() if k != "_Encoding"}
        master = replace(master, dtype=np.dtype(object), attributes=attributes, alike=False)
    if len(chosen) == 1 and not odd.any() and not boxes.flipped[np.ix_(chosen, known)].any():
        return Assembled(conformed(first, stated[int(chosen[0])], master, where(int(chosen[0]))), master)
    box = int(boxes.box[rows[0]])
    shape = tuple(n if a is None else int(boxes.extent[box, a]) for a, n in zip(axes, first.shape, strict=True))
    order = chosen[np.argsort(boxes.start[chosen, known[0]], kind="stable")] if axes[0] is not None else chosen
    counts = boxes.count[order, known[0]] if known else order[:0]
    if len(known) == 1 and not odd.any() and not boxes.flipped[order, known[0]].any() and axes[0] is not None:
        starts = boxes.start[order, known[0]]
        if (starts[1:] == (starts + counts)[:-1]).all():
            rows_of = (conformed(values_of(row), stated[row], master, where(row)) for row in order.tolist())
            return Assembled(np.concatenate(list(rows_of)), master)
    out = np.empty(shape, master.dtype)
    for row in chosen.tolist():
        values = conformed(values_of(row), stated[row], master, where(row))
        out[_there(boxes, row, axes, shape)] = values[_used(boxes, row, axes, values.shape)]
    return Assembled(out, master)


def _whole_times(master: Master, members: Mapping[int, Stated], values_of: Callable[[int], npt.NDArray[Any]]) -> Master:
    """Return the properties of reference times as integers in the finest of their units if reals would merge some."""
    whole = all(d.dtype.kind in "iu" and d.attributes.keys().isdisjoint(STORAGE_ATTRIBUTES) for d in members.values())
    if master.alike or master.dtype != np.float64 or not whole or not is_reference_time(master.units or ""):
        return master
    changes: dict[tuple[str | None, str | None], Any] = {}
    most = Fraction(0)
    for row, one in members.items():
        pair, values = (one.text("units"), one.text("calendar")), values_of(row)
        try:
            change = changes.setdefault(pair, transform(*pair, master.units, master.calendar))
        except CfaggError:
            return master  # reading the values reports the error
        if not isinstance(change, tuple):
            return master
        ends = (int(values.min()), int(values.max())) if values.size else ()
        most = max([most, *(abs(end * change[0] + change[1]) for end in ends)])
    finest = min(changes, key=lambda pair: changes[pair][0])
    # A real is rounded by up to the 2**53th part of it, which must be less than half of the finest unit.
    if most < changes[finest][0] * 2**52:
        return master
    return replace(master, dtype=np.dtype("i8"), units=finest[0], calendar=finest[1])


def along_axis(
    boxes: Boxes, rows: Int64, axis: int, coordinates: Sequence[Coordinate], where: Callable[[int], str]
) -> Assembled:
    """Return the coordinates along an axis of the box of some members, each of which has one of `coordinates`."""
    by_row = dict(zip(rows.tolist(), coordinates, strict=True))
    return assembled(boxes, rows, [axis], lambda r: by_row[r].values, lambda r: by_row[r].stated, where)


def with_bounds(
    boxes: Boxes,
    rows: Int64,
    axis: int,
    coordinates: Sequence[Coordinate],
    where: Callable[[int], str],
    made: Master,
) -> Assembled | None:
    """Return the bounds of coordinates, in the units of the coordinates as `made`, or `None` if they have none."""
    by_row = dict(zip(rows.tolist(), coordinates, strict=True))
    if any(c.bounds is None or c.bounds_stated is None for c in coordinates):
        return None
    known: dict[tuple[int, int], Stated] = {}

    def stated_of(row: int) -> Stated:
        own = by_row[row]
        key = (id(own.bounds_stated), id(own.stated))
        if key not in known:
            known[key] = with_units_of(own.bounds_stated or own.stated, own.stated)
        return known[key]

    rising = _sense(coordinates[0])

    def values_of(row: int) -> npt.NDArray[Any]:
        own = by_row[row]
        cells: Any = own.cells
        values: npt.NDArray[Any] = cells
        # Which end comes first depends on the direction, and is the same in all cells.
        return values[:, ::-1] if None not in (rising, sense := _sense(own)) and sense is not rising else values

    said, of = stated_of(int(rows[0])), coordinates[0].units
    other = made.units != of and said.text("units") == of
    return assembled(boxes, rows, [axis, None], values_of, stated_of, where, made if other else None)


def _sense(own: Coordinate) -> bool | None:
    """Return whether bounds of a cell increase, or `None` if there are no two different ones."""
    if own.cells is None or own.cells.shape[1] != 2:
        return None
    low, high = own.cells.T
    wide = np.flatnonzero(low != high)
    return bool(low[wide[0]] < high[wide[0]]) if wide.size else None


def _heads(place: Int64) -> Int64:
    """Return the first member at each position, in the order of the members."""
    _, first = np.unique(place, axis=0, return_index=True)
    return np.sort(first)


def _there(boxes: Boxes, row: int, axes: Sequence[int | None], shape: Sequence[int]) -> tuple[Any, ...]:
    """Return the index of a member's values within those of its box."""
    found: list[Any] = []
    for axis, n in zip(axes, shape, strict=True):
        if axis is None:
            found.append(slice(0, n))
        elif (row, axis) in boxes.scattered:
            places = boxes.scattered[row, axis]
            found.append(places[places >= 0])
        else:
            low = int(boxes.start[row, axis])
            found.append(slice(low, low + int(boxes.count[row, axis])))
    return _outer(found, shape)


def _used(boxes: Boxes, row: int, axes: Sequence[int | None], shape: Sequence[int]) -> tuple[Any, ...]:
    """Return the index of the used values of a member, in the direction of the box."""
    found: list[Any] = []
    for axis, n in zip(axes, shape, strict=True):
        if axis is None:
            found.append(slice(0, n))
        elif (row, axis) in boxes.scattered:
            found.append(np.flatnonzero(boxes.scattered[row, axis] >= 0))
        else:
            own = range(*boxes.trimmed.get((row, axis), slice(None)).indices(n))
            order = own[::-1] if boxes.flipped[row, axis] else own
            stop = order.stop if order.stop >= 0 else None
            found.append(slice(order.start, stop, order.step) if len(order) else slice(0, 0))
    return _outer(found, shape)


def _outer(index: list[Any], shape: Sequence[int]) -> tuple[Any, ...]:
    """Return an index by slices, or by arrays if one of them is an array, each applied independently."""
    if not any(isinstance(i, np.ndarray) for i in index):
        return tuple(index)
    return np.ix_(*(np.arange(n)[i] for i, n in zip(index, shape, strict=True)))
