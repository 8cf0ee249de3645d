"""Treating the standard and the proleptic Gregorian calendar, which agree from 15 October 1582 on, as one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.cf.calendars import REFORMED, before_reform, canonical, parse
from cfagg.cf.dates import from_days
from cfagg.cf.joining.described import Companion, Coordinate, Described, Stated
from cfagg.cf.joining.values import unpacked
from cfagg.cf.kinds_of_units import is_reference_time
from cfagg.errors import CalendarError, CfaggError

__all__ = ["in_one_calendar"]

#: Columns of the signature that contain the calendars of times other than the data.
_COLUMNS = frozenset({"axes", "other coordinates and ancillary variables"})


def in_one_calendar(described: Sequence[Described]) -> list[Described]:
    """Return descriptions in which times of the two calendars that agree have the calendar of the first.

    This applies if variables differ in nothing else, and none of their dates or bounds is before the reform.  It must
    be called before `tied`, `turned` and `members_of`.
    """
    out = list(described)
    alike: dict[int, Any] = {}
    groups: dict[Any, list[int]] = {}
    for k, one in enumerate(out):
        if id(one.signature) not in alike:
            said = ((name, _alike(value) if name in _COLUMNS else value) for name, value in one.signature.items())
            alike[id(one.signature)] = tuple(said)
        groups.setdefault(alike[id(one.signature)], []).append(k)
    late: dict[tuple[int, int], bool] = {}
    for members in groups.values():
        first = out[members[0]]
        distinct = {id(out[k].signature): out[k].signature for k in members}
        other = {key for key, own in distinct.items() if own is not first.signature and own != first.signature}
        if not other or not all(_is_late(out[k], late) for k in members):
            continue
        try:
            changed = _changed([out[k] for k in members], first, other)
        except CfaggError:  # a reference time that the other calendar cannot represent
            continue
        for k, one in zip(members, changed, strict=True):
            out[k] = one
    return out


def _alike(value: Any) -> Any:
    """Return a column of the signature in which the two calendars are one, in the same order."""
    if value == ("reference time", "proleptic_gregorian"):
        return "reference time", "standard"
    return tuple(map(_alike, value)) if isinstance(value, tuple) else value


def _times(one: Described) -> Iterator[tuple[Stated, npt.NDArray[Any] | None]]:
    """Yield the metadata and values of all coordinates and companions, and of their bounds."""
    for own in one.axes.values():
        yield own.stated, own.values
        if own.bounds is not None and own.bounds_stated is not None:
            yield own.stated, own.bounds
            yield own.bounds_stated, own.bounds
    for name, part in one.parts.items():
        of = one.parts.get(name.removeprefix("bounds of "), part)
        yield part.stated if "units" in part.stated.attributes else of.stated, part.values


def _is_late(one: Described, known: dict[tuple[int, int], bool]) -> bool:
    """Return whether all dates of the two calendars are in the period in which they agree."""
    key = id(one.axes), id(one.parts)
    if key not in known:
        known[key] = all(_agree(stated, values) for stated, values in _times(one))
    return known[key]


def _agree(stated: Stated, values: npt.NDArray[Any] | None) -> bool:
    if not _is_reformed(stated):
        return True
    if values is None or values.dtype.kind not in "iuf":
        return False
    real = unpacked(values, stated)
    try:
        return not (before_reform(real, stated.text("units") or "", stated.text("calendar")) & ~np.isnan(real)).any()
    except CfaggError:
        return False


def _is_reformed(stated: Stated) -> bool:
    """Return whether it is a time of one of the two calendars."""
    try:
        return is_reference_time(stated.text("units") or "") and canonical(stated.text("calendar")) in REFORMED
    except CfaggError:
        return False


def _changed(described: Sequence[Described], first: Described, other: set[int]) -> list[Described]:
    """Return descriptions in which those with `other` signatures have the calendars of the first."""
    axes: dict[int, Mapping[str, Coordinate]] = {}
    parts: dict[int, Mapping[str, Companion]] = {}
    out = []
    for one in described:
        if id(one.signature) not in other:
            out.append(one)
            continue
        if id(one.axes) not in axes:
            axes[id(one.axes)] = {name: _coordinate(own, first.axes[name].stated) for name, own in one.axes.items()}
        if id(one.parts) not in parts:
            parts[id(one.parts)] = {
                name: replace(own, stated=_stated(own.stated, first.parts[name].stated))
                for name, own in one.parts.items()
            }
        new = replace(one, signature=first.signature, axes=axes[id(one.axes)], parts=parts[id(one.parts)])
        out.append(new)
    return out


def _coordinate(own: Coordinate, first: Stated) -> Coordinate:
    of = own.bounds_stated
    return replace(own, stated=_stated(own.stated, first), bounds_stated=None if of is None else _stated(of, first))


def _stated(own: Stated, first: Stated) -> Stated:
    """Return metadata in the calendar of others, with the same reference time."""
    if not _is_reformed(own) or not _is_reformed(first):
        return own
    units, calendar = str(own.text("units")), own.text("calendar")
    target = first.text("calendar") or "standard"
    if canonical(calendar) == canonical(target):
        return own
    attributes = {**own.attributes, "units": _units(units, calendar, target), "calendar": target}
    return replace(own, attributes=attributes)


@lru_cache(maxsize=1024)
def _units(units: str, calendar: str | None, target: str) -> str:
    """Return units of a reference time in another of the two calendars."""
    begin = parse(units, calendar)
    if not before_reform(np.zeros(1), units, calendar).any():
        return units
    year, month, day = (int(v) for v in from_days(canonical(target), np.int64(begin.day)))
    minute, second = divmod(begin.second, 60)
    hour, minute = divmod(int(minute), 60)
    text = f"{begin.word} since {year:04d}-{month:02d}-{day:02d} {hour:02d}:{minute:02d}:{int(second):02d}"
    found = parse(text, target)
    if (found.day, found.second, found.unit) != (begin.day, begin.second, begin.unit):
        raise CalendarError(f"the reference time of {units!r} cannot be expressed in calendar {target}")
    return text
