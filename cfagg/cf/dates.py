"""Days and dates of the CF calendars in arrays.

Days are counted as in `cfagg.kernels.calendars`; the same arithmetic is repeated here in NumPy, so that a time axis of
ordinary length does not wait for a compiler.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from cfagg.errors import CalendarError

__all__ = ["CALENDARS", "compiled", "from_days", "to_days"]

Int64 = npt.NDArray[np.int64]

#: Calendar -> its number in the kernels.
CALENDARS: Mapping[str, int] = {
    "standard": 0,
    "proleptic_gregorian": 1,
    "julian": 2,
    "noleap": 3,
    "all_leap": 4,
    "360_day": 5,
}

_WITHOUT_ZERO = {"standard", "julian"}

#: Number of days for which loading the compiled kernel is worthwhile.
_LARGE = 2**18

#: First Gregorian day of the standard calendar, and offset between the Julian and the Gregorian day counts.
_GREGORIAN, _LAG = 578041, 2


def from_days(calendar: str, days: npt.ArrayLike) -> tuple[Int64, Int64, Int64]:
    """Return year, month and day of days since 1 March of year 0 (in the standard calendar, by the Gregorian rule)."""
    day = np.asarray(days, np.int64)
    _check(calendar)
    if compiled(day.size):
        from cfagg.kernels import calendars as kernels

        parts = tuple(np.empty(day.size, np.int64) for _ in range(3))
        kernels.decode(CALENDARS[calendar], day.ravel(), *parts)
        year, month, day = (p.reshape(day.shape) for p in parts)
        return year, month, day
    year, month, day = _date(calendar, day)
    return (np.where(year <= 0, year - 1, year), month, day) if calendar in _WITHOUT_ZERO else (year, month, day)


def to_days(
    calendar: str, year: npt.ArrayLike, month: npt.ArrayLike, day: npt.ArrayLike
) -> tuple[Int64, npt.NDArray[np.bool_]]:
    """Return the days of dates, and which dates the calendar has."""
    _check(calendar)
    y, m, d = np.broadcast_arrays(*(np.asarray(v, np.int64) for v in (year, month, day)))
    there = np.ones(y.shape, bool)
    if calendar in _WITHOUT_ZERO:
        there = y != 0
        y = np.where(y < 0, y + 1, y)
    days, good = _day(calendar, y, np.clip(m, 1, 12), d)
    return days, there & good & (m >= 1) & (m <= 12)


def _check(calendar: str) -> None:
    """Refuse other names of calendars, which would be mistaken for another calendar."""
    if calendar not in CALENDARS:
        raise CalendarError(f"{calendar!r} is not the canonical name of a calendar; expected {', '.join(CALENDARS)}")


def compiled(size: int) -> bool:
    """Return whether to use the kernel for this many days."""
    return size >= _LARGE or (size >= 2**12 and "cfagg.kernels.calendars" in sys.modules)


def _start(rule: str, year: Int64) -> Int64:
    """Return the day on which a year, counted from March to February, starts."""
    if rule == "noleap":
        return 365 * year
    if rule == "all_leap":
        return 366 * year
    if rule == "julian":
        return 1461 * year // 4
    return 365 * year + year // 4 - year // 100 + year // 400


def _date(calendar: str, day: Int64) -> tuple[Int64, Int64, Int64]:
    """Return dates with a year 0."""
    if calendar == "360_day":
        year, day = np.divmod(day + 60, 360)
        return year, day // 30 + 1, day % 30 + 1
    if calendar == "standard":
        old = day < _GREGORIAN
        new_date, old_date = _date("proleptic_gregorian", day), _date("julian", day + _LAG)
        year, month, day = (np.where(old, a, b) for a, b in zip(old_date, new_date, strict=True))
        return year, month, day
    if calendar == "proleptic_gregorian":
        era, day = np.divmod(day, 146097)
        year = 400 * era + (day - day // 1460 + day // 36524 - day // 146096) // 365
        day = day + 146097 * era
    elif calendar == "julian":
        year = (4 * day + 3) // 1461
    else:
        year = day // (365 if calendar == "noleap" else 366)
    day = day - _start(calendar, year)
    month = (5 * day + 2) // 153
    day = day - (153 * month + 2) // 5 + 1
    return year + (month >= 10), np.where(month < 10, month + 3, month - 9), day


def _day(calendar: str, year: Int64, month: Int64, day: Int64) -> tuple[Int64, npt.NDArray[np.bool_]]:
    """Return the days of dates with a year 0, and which dates exist; months are 1 to 12."""
    if calendar == "360_day":
        return 360 * year + 30 * (month - 1) + day - 61, (day >= 1) & (day <= 30)
    if calendar == "standard":
        count = (year * 100 + month) * 100 + np.clip(day, 0, 99)
        new, new_good = _day("proleptic_gregorian", year, month, day)
        old, old_good = _day("julian", year, month, day)
        gregorian = count >= 1582_10_15
        good = np.where(gregorian, new_good, old_good & (count <= 1582_10_04))
        return np.where(gregorian, new, old - _LAG), good
    march = year - (month < 3)
    since = (month + 9) % 12
    start = _start(calendar, march)
    offset = (153 * since + 2) // 5
    last = np.where(since < 11, (153 * since + 155) // 5, _start(calendar, march + 1) - start) - offset
    return start + offset + day - 1, (day >= 1) & (day <= last)
