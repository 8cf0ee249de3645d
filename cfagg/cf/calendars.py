"""Reference times: their units, epochs and calendars, and what brings one to another.

Within a calendar the change is a scale and an offset, found exactly.  Between calendars it goes by date: the same
year, month, day and time of day (`cfagg.cf.dates.DateChange`).  UDUNITS' own calendar, which is always the mixed
Gregorian one, is never asked.

Years are numbered as cftime does by default: the standard and the Julian calendar have no year 0, all others do.

Source: CF section 4.4.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from cfagg.cf.dates import DateChange, to_days
from cfagg.cf.datetimes import CALENDAR_NAMES, calendar_name, parse_datetime
from cfagg.cf.kinds_of_units import is_reference_time, split_reference
from cfagg.cf.units import SAME, Linear, linear_exact, plain_units
from cfagg.errors import CalendarError, UnitsError

__all__ = ["Reference", "canonical", "parse", "time_transform", "transform"]

#: Calendars whose days cannot be counted by date alone.
_UNCOUNTED = {"utc": "leap seconds", "none": "no dates"}


#: Units of time in seconds, as UDUNITS and cftime spell them.
_SECONDS: Mapping[str, Fraction] = {
    name: seconds
    for names, seconds in (
        ("us usec usecs microsec microsecs microsecond microseconds", Fraction(1, 10**6)),
        ("ms msec msecs millisec millisecs millisecond milliseconds", Fraction(1, 1000)),
        ("s sec secs second seconds", Fraction(1)),
        ("min mins minute minutes", Fraction(60)),
        ("h hr hrs hour hours", Fraction(3600)),
        ("d day days", Fraction(86400)),
        ("week weeks", Fraction(7 * 86400)),
        ("common_year common_years", Fraction(365 * 86400)),
    )
    for name in names.split()
}

#: UDUNITS has a month of a twelfth of 365.242198781 days, cftime one of 30 days; no author means either.
_VAGUE = re.compile(r"\b(months?|mon|years?|yrs?|y|a)\b", re.IGNORECASE)


@dataclass(frozen=True)
class Reference:
    """A reference time: ``unit since epoch`` in a calendar, by its canonical name.

    `unit` is in seconds, `None` for months and years, which have no fixed length; `word` is it as written. The epoch's
    `day` is counted as in `cfagg.cf.dates`, its `second` of the day in UTC.
    """

    unit: Fraction | None
    word: str
    day: int
    second: Fraction
    calendar: str


def canonical(calendar: str | None) -> str:
    """Return the one name used for a calendar; without one it is the standard calendar."""
    name = calendar_name(calendar)
    if name is None:
        raise CalendarError(f"calendar {calendar!r} is not known; calendars are {', '.join(CALENDAR_NAMES)}")
    return name


@lru_cache(maxsize=1024)
def parse(units: str, calendar: str | None) -> Reference:
    """Return what the units of a reference time say."""
    name = canonical(calendar)
    split = split_reference(units)
    if split is None:
        raise CalendarError(f"units {units!r} are not a reference time such as 'days since 2000-01-01'")
    word, _, date = split
    found = parse_datetime(date)
    if found is None or found.rest or found.offset is None:
        raise CalendarError(f"the date {date!r} of units {units!r} is not understood; write it as 2000-01-31 12:00:00")
    rule = "proleptic_gregorian" if name in {"tai", *_UNCOUNTED} else name
    days, there = to_days(rule, *found.date)
    hour, minute, _ = found.clock
    second = Fraction((found.second or "0").rstrip("."))
    if not there or hour > 23 or minute > 59 or second >= 60:
        raise CalendarError(f"the date {date!r} of units {units!r} does not exist in calendar {name}; correct it")
    seconds = 3600 * hour + 60 * minute + second - 60 * found.offset
    later, seconds = divmod(seconds, 86400)
    return Reference(_unit(word, units), word, int(days) + int(later), seconds, name)


def time_transform(
    source: str, source_calendar: str | None, target: str, target_calendar: str | None
) -> Linear | DateChange:
    """Return what brings reference times to other units: scale and offset within a calendar, else a change by date.

    Unknown calendars, dates that they do not have and units without a fixed length raise `CalendarError`.
    """
    names = canonical(source_calendar), canonical(target_calendar)
    if names[0] == names[1] and " ".join(source.split()) == " ".join(target.split()):
        return SAME
    start, end = parse(source, names[0]), parse(target, names[1])
    epochs = (start.day, start.second), (end.day, end.second)
    same_epoch = names[0] == names[1] and epochs[0] == epochs[1]
    if same_epoch and start.word == end.word:
        return SAME
    if start.unit is None or end.unit is None:
        raise CalendarError(
            f"units {source!r} and {target!r} differ, and months and years have no fixed length; write the "
            "times in days"
        )
    for name in names:
        if name in _UNCOUNTED and not same_epoch:
            raise CalendarError(
                f"times in {source!r} cannot be converted to {target!r}: calendar {name} has {_UNCOUNTED[name]} "
                "between two reference times; use the same reference time on both sides"
            )
    if names[0] == names[1]:
        shift = 86400 * (start.day - end.day) + start.second - end.second
        return start.unit / end.unit, shift / end.unit
    if "tai" in names:
        raise CalendarError(
            f"times of calendar {names[0]} cannot be converted to {names[1]}: tai differs by leap seconds"
        )
    return DateChange(names[0], names[1], start.unit, end.unit, *epochs)


def _unit(word: str, units: str) -> Fraction | None:
    """Return a unit of time in seconds, `None` for months and years."""
    if _VAGUE.search(word) and word.strip().lower() not in _SECONDS:
        return None
    scale = seconds_in(word)
    if scale is None:
        raise UnitsError(f"{word!r} in units {units!r} is not a unit of time")
    return scale


def seconds_in(unit: str) -> Fraction | None:
    """Return a unit of time in seconds, months and years as UDUNITS counts them; `None` for another unit.

    >>> seconds_in("weeks"), seconds_in("2 h"), seconds_in("K")
    (Fraction(604800, 1), Fraction(7200, 1), None)
    """
    known = _SECONDS.get(unit.strip().lower())
    if known is not None:
        return known
    try:
        scale, offset = linear_exact(unit, "s")
    except UnitsError:
        return None
    return scale if scale > 0 and not offset else None


def transform(
    source: str | None, source_calendar: str | None, target: str | None, target_calendar: str | None
) -> Linear | DateChange:
    """Return the change from one unit, with its calendar if it is a reference time, to another.

    A variable without units is a pure number, as CF has it: ``None``, ``""`` and ``"1"`` are the same.
    """
    start, end = plain_units(source), plain_units(target)
    times = is_reference_time(start), is_reference_time(end)
    if times == (True, True):
        return time_transform(start, source_calendar, end, target_calendar)
    if any(times):
        raise UnitsError(
            f"units {_show(source)} cannot be converted to {_show(target)}: only one of them is a reference time"
        )
    return linear_exact(start, end)


def _show(units: str | None) -> str:
    return "none" if units is None else repr(units)
