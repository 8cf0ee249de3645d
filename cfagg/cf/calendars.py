"""Reference times: their units, epochs and calendars, and conversions between them.

Within a calendar a conversion is an exact scale and offset.  Between calendars it preserves the date: the same year,
month, day and time of day (`cfagg.cf.dates.DateChange`).  The calendar of UDUNITS, which is always the mixed Gregorian
one, is never used.

Years are numbered as in cftime by default: the standard and the Julian calendar have no year 0, but all others do.

Source: CF section 4.4.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.cf.dates import CALENDARS, Int64, compiled, from_days, to_days
from cfagg.cf.datetimes import CALENDAR_NAMES, calendar_name, clock_problem, parse_datetime
from cfagg.cf.kinds_of_units import OF_CFTIME, is_reference_time, split_reference
from cfagg.cf.units import SAME, Linear, linear_exact, plain_units
from cfagg.errors import CalendarError, UnitsError

__all__ = ["REFORMED", "DateChange", "Reference", "before_reform", "canonical", "parse", "time_transform", "transform"]

#: Calendars that are identical from 15 October 1582 on.
REFORMED = frozenset({"standard", "proleptic_gregorian"})

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

#: In UDUNITS a month is a twelfth of 365.242198781 days, and in cftime 30 days; authors mean neither.
_VAGUE = re.compile(r"\b(months?|mon|years?|yrs?|y|a)\b", re.IGNORECASE)
_MONTH = Fraction("31556925.9747") / 12


@dataclass(frozen=True)
class Reference:
    """A reference time, ``unit since epoch``, in a calendar with its canonical name.

    `unit` is in seconds, or `None` for months and years, which have no fixed length; `word` is the unit as written.
    The `day` of the epoch is counted as in `cfagg.cf.dates`, and its `second` is the second of the day in UTC.
    """

    unit: Fraction | None
    word: str
    day: int
    second: Fraction
    calendar: str

    @property
    def alone(self) -> str:
        """Unit and epoch if other times can only be compared with these, which have both in common; else empty.

        >>> parse("month since 2000-1-1", None).alone, parse("day since 2000-1-1 6:0", "utc").alone
        ('month since 2000-01-01', 'since 2000-01-01 06:00:00')
        """
        if self.unit is not None and self.calendar not in _UNCOUNTED:
            return ""
        year, month, day = (int(n) for n in from_days(_rule(self.calendar), self.day))
        minutes = min(int(self.second // 60), 1439)  # a leap second belongs to the last minute
        second = f"{self.second - 60 * minutes:033.30f}".rstrip("0").rstrip(".")
        clock = f" {minutes // 60:02}:{minutes % 60:02}:{second}" if self.second else ""
        word = self.word if self.unit is None else ""
        return f"{word} since {'-' * (year < 0)}{abs(year):04}-{month:02}-{day:02}{clock}".strip()


def _rule(calendar: str) -> str:
    """Return the calendar by which days are counted."""
    return "proleptic_gregorian" if calendar in {"tai", *_UNCOUNTED} else calendar


def canonical(calendar: str | None) -> str:
    """Return the canonical name of a calendar, by default the standard calendar."""
    name = calendar_name(calendar)
    if name is None:
        raise CalendarError(f"calendar {calendar!r} is unknown; expected one of {', '.join(CALENDAR_NAMES)}")
    return name


@lru_cache(maxsize=1024)
def parse(units: str, calendar: str | None) -> Reference:
    """Return the parsed units of a reference time."""
    name = canonical(calendar)
    split = split_reference(units)
    if split is None:
        raise CalendarError(f"units {units!r} are not a reference time such as 'days since 2000-01-01'")
    word, _, date = split
    found = parse_datetime(date)
    if found is None or found.rest or found.offset is None:
        raise CalendarError(f"the date {date!r} of units {units!r} cannot be parsed; write it as 2000-01-31 12:00:00")
    days, there = to_days(_rule(name), *found.date)
    if not there or clock_problem(found, name):
        raise CalendarError(f"the date {date!r} of units {units!r} does not exist in calendar {name}; correct it")
    hour, minute, _ = found.clock
    second = Fraction((found.second or "0").rstrip("."))
    # A leap second belongs to the end of its day, not to the beginning of the next.
    leap = int(second >= 60)
    later, seconds = divmod(3600 * hour + 60 * minute + second - leap - 60 * found.offset, 86400)
    return Reference(_unit(word, units), word, int(days) + int(later), seconds + leap, name)


def before_reform(
    times: npt.NDArray[Any], units: str, calendar: str | None
) -> npt.NDArray[np.bool_]:  # fmt: skip
    """Return which times are, or may be (such as NaN), before 15 October 1582.

    >>> before_reform(np.array([-1, 0]), "days since 1582-10-15", "standard")
    array([ True, False])
    """
    begin = parse(units, calendar)
    if begin.unit is None:
        return np.ones(times.shape, bool)
    day = parse("days since 1582-10-15", "standard").day
    limit = (86400 * (day - begin.day) - begin.second) / begin.unit
    early: npt.NDArray[np.bool_] = ~(times >= float(limit))
    return early


def time_transform(
    source: str, source_calendar: str | None, target: str, target_calendar: str | None
) -> Linear | DateChange:
    """Return the conversion of reference times to other units: a linear one within a calendar, else a `DateChange`."""
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
    """Return a unit of time in seconds, or `None` for months and years."""
    if _VAGUE.search(word) and word.strip().lower() not in _SECONDS:
        return None
    scale = seconds_in(word)
    if scale is None:
        raise UnitsError(f"{word!r} in units {units!r} is not a unit of time")
    # Such as kyr, and 10years; a tropical year is meant to have this length.
    return None if (scale / _MONTH).denominator <= 12 and "tropical" not in word.lower() else scale


def seconds_in(unit: str) -> Fraction | None:
    """Return a unit of time in seconds, with months and years as in UDUNITS; or `None` for other units.

    >>> seconds_in("weeks"), seconds_in("2 h"), seconds_in("K")
    (Fraction(604800, 1), Fraction(7200, 1), None)
    """
    word = unit.strip()
    # The case of letters distinguishes symbols, such as ms and Ms, in UDUNITS, but not in cftime.
    known = _SECONDS.get(word.lower() if len(word) > 5 or word.lower() in OF_CFTIME else word)
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
    """Return the conversion between units, with calendars for reference times; `None` as a unit means a pure number."""
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


#: Days beyond this are garbage, not dates.
_FURTHEST = 2.0**48


@dataclass(frozen=True)
class DateChange:
    """Converts reference times between calendars, preserving year, month, day and time of day.

    Times up to a microsecond, or four units in the last place, before a midnight count as that midnight, so that
    rounding does not lead to the day before; their fraction is kept.  Units are in seconds; epochs are given as the day
    and the second of the day, each in its own calendar.

    >>> day = Fraction(86400)
    >>> change = DateChange("360_day", "noleap", day, day, (0, Fraction(0)), (0, Fraction(0)))
    >>> change(np.array([0.25, 59.5]), where="a.nc")  # 1 March 0000 6:00 and 30 April 0000 12:00
    array([ 0.25, 60.5 ])
    """

    source: str
    target: str
    source_unit: Fraction
    target_unit: Fraction
    source_epoch: tuple[int, Fraction]
    target_epoch: tuple[int, Fraction]

    def __call__(self, times: npt.NDArray[np.float64], *, where: str, remedy: str = "") -> npt.NDArray[np.float64]:
        """Return converted times, with NaN unchanged; raise `CalendarError` for times that are not dates."""
        # `remedy` is for dates that the target lacks; the default is that of aggregations.
        out = np.full(times.shape, np.nan)
        real = ~np.isnan(times)
        values = times[real]
        unit = self.source_unit
        if (Fraction(86400) / unit).denominator != 1:
            values, unit = values * float(unit), Fraction(1)
        per_day = int(86400 / unit)
        if values.size and not np.abs(values).max() < _FURTHEST * min(per_day, 2**14):
            value = values[np.argmax(~(np.abs(values) < _FURTHEST * min(per_day, 2**14)))]
            raise CalendarError(
                f"{where}: the time {value} is not a date of calendar {self.source}; correct it in the file"
            )
        whole = np.floor(values)
        epoch_day, epoch_second = self.source_epoch
        ticks, rest = divmod(epoch_second / unit, 1)
        fraction = values - whole + float(rest)
        day, tick = np.divmod(whole.astype(np.int64) + int(ticks), per_day)
        tick = tick + fraction
        day += epoch_day
        near = np.maximum(1e-6 / float(unit), 4 * np.spacing(np.abs(values)))
        late = tick >= per_day - near
        day[late] += 1
        tick[late] -= per_day
        changed = self._change(day, where, remedy or f"give the aggregation the calendar {self.source}")
        target_day, target_second = self.target_epoch
        days = (changed - target_day).astype(np.float64) * float(86400 / self.target_unit)
        out[real] = days + (tick * float(unit / self.target_unit) - float(target_second / self.target_unit))
        return out

    def _change(self, days: Int64, where: str, remedy: str) -> Int64:
        """Return the days of the same dates in the target calendar."""
        if compiled(days.size):
            from cfagg.kernels import calendars as kernels

            changed = np.empty_like(days)
            bad, first = kernels.change(CALENDARS[self.source], CALENDARS[self.target], days, changed)
        else:
            changed, there = to_days(self.target, *from_days(self.source, days))
            bad = int(there.size - np.count_nonzero(there))
            first = int(np.argmin(there)) if bad else -1
        if bad:
            year, month, day = (int(v) for v in from_days(self.source, days[first]))
            raise CalendarError(
                f"{where}: the date {year:04d}-{month:02d}-{day:02d} of calendar {self.source} does not exist in "
                f"calendar {self.target} ({bad} such dates); {remedy}"
            )
        return changed

    def tolerance(self, times: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
        """Return how far converted times may be from integers by rounding alone."""
        slack: npt.NDArray[np.float64] = np.maximum(2e-6 / float(self.target_unit), 8 * np.spacing(np.abs(times)))
        return slack
