"""Days and dates of all CF calendars.

A day is counted from 1 March of year 0 of its own calendar; in the standard calendar, by the Gregorian rule. With years
that start in March the leap day is the last day of the year, so the start of a month does not depend on the year, and a
calendar is defined by the starts of its years alone.

Years are numbered as in other CF software: the standard and Julian calendars have no year 0 (year -1 precedes year 1),
all others have one.

Source: CF section 4.4.1; the arithmetic is elementary.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from cfagg.kernels.jit import jit

__all__ = ["ALL_LEAP", "DAY_360", "JULIAN", "NOLEAP", "PROLEPTIC", "STANDARD", "change", "decode", "encode"]

Int64 = npt.NDArray[np.int64]

STANDARD, PROLEPTIC, JULIAN, NOLEAP, ALL_LEAP, DAY_360 = range(6)

#: 15 October 1582, the first Gregorian day of the standard calendar; Julian counting starts two days earlier.
_GREGORIAN = 578041
_LAG = 2


@jit(inline="always")
def _year_start(calendar, year):
    """Return the day on which the year (March to February) starts, by the Julian or the Gregorian rule."""
    if calendar == JULIAN:
        return (1461 * year) // 4
    return 365 * year + year // 4 - year // 100 + year // 400


@jit(inline="always")
def _date(calendar, day):
    """Return year, month and day of the month; years are counted with a year 0."""
    rule = calendar
    if calendar == DAY_360:
        day += 60  # its year starts on 1 January
        year = day // 360
        day -= 360 * year
        month = day // 30
        return year, month + 1, day - 30 * month + 1
    if calendar == STANDARD:
        rule = PROLEPTIC
        if day < _GREGORIAN:
            rule = JULIAN
            day += _LAG
    if rule == NOLEAP:
        year = day // 365
        day -= 365 * year
    elif rule == ALL_LEAP:
        year = day // 366
        day -= 366 * year
    elif rule == JULIAN:
        year = (4 * day + 3) // 1461
        day -= (1461 * year) // 4
    else:
        era = day // 146097
        day -= 146097 * era
        year = (day - day // 1460 + day // 36524 - day // 146096) // 365
        day -= 365 * year + year // 4 - year // 100
        year += 400 * era
    month = (5 * day + 2) // 153
    day -= (153 * month + 2) // 5
    if month < 10:
        return year, month + 3, day + 1
    return year + 1, month - 9, day + 1


@jit(inline="always")
def _day(calendar, year, month, day):
    """Return the day of a date, whose year is counted with a year 0, and whether the calendar has the date."""
    if calendar == DAY_360:
        return 360 * year + 30 * (month - 1) + day - 61, 1 <= month <= 12 and 1 <= day <= 30
    if not 1 <= month <= 12:
        return 0, False
    march = year if month > 2 else year - 1
    since = month - 3 if month > 2 else month + 9
    offset = (153 * since + 2) // 5
    rule, lag, good = calendar, 0, True
    if calendar == STANDARD:
        rule = PROLEPTIC
        if year < 1582 or (year == 1582 and (month < 10 or (month == 10 and day < 15))):
            rule, lag = JULIAN, _LAG
            good = not (year == 1582 and month == 10 and day > 4)
    if rule == NOLEAP:
        start, last = 365 * march, 365
    elif rule == ALL_LEAP:
        start, last = 366 * march, 366
    else:
        start = _year_start(rule, march)
        last = _year_start(rule, march + 1) - start if since == 11 else 0
    last = (153 * since + 155) // 5 if since < 11 else last
    return start + offset + day - 1 - lag, good and 1 <= day <= last - offset


@jit(inline="always")
def _without_zero(calendar):
    """Return whether the calendar has no year 0."""
    return calendar in (STANDARD, JULIAN)


@jit(inline="always")
def _check(calendar, even):
    """Raise an error unless there is such a calendar and arrays have one length, since no index is checked."""
    if not even or not 0 <= calendar <= DAY_360:
        raise ValueError("calendars are numbered from 0 to 5, and arrays of dates and days have one length")


@jit
def decode(calendar: int, days: Int64, year: Int64, month: Int64, day: Int64) -> None:
    """Write the dates of days.

    Parameters
    ----------
    calendar : int
        One of the constants of this module.
    days : int64 array, shape (n,)
        Days since 1 March of year 0, of magnitude below 2**59.
    year, month, day : int64 array, shape (n,)
        Written.

    Raises
    ------
    ValueError
        There is no such calendar, or the lengths differ.
    """
    _check(calendar, days.size == year.size == month.size == day.size)
    shift = 1 if _without_zero(calendar) else 0
    for i in range(days.size):
        y, m, d = _date(calendar, days[i])
        year[i] = y - shift if y <= 0 else y
        month[i] = m
        day[i] = d


@jit
def encode(calendar: int, year: Int64, month: Int64, day: Int64, days: Int64) -> tuple[int, int]:
    """Write the days of dates.

    Parameters
    ----------
    calendar : int
        One of the constants of this module.
    year, month, day : int64 array, shape (n,)
        Dates; years of magnitude below 2**50.
    days : int64 array, shape (n,)
        Written: days since 1 March of year 0; undefined if the calendar lacks the date.

    Returns
    -------
    bad, first : int
        Number of dates that the calendar does not have, and the index of the first or -1.

    Raises
    ------
    ValueError
        There is no such calendar, or the lengths differ.
    """
    _check(calendar, days.size == year.size == month.size == day.size)
    without = _without_zero(calendar)
    bad, first = 0, -1
    for i in range(year.size):
        y = year[i]
        good = True
        if without:
            good = y != 0
            y = y + 1 if y < 0 else y
        days[i], there = _day(calendar, y, month[i], day[i])
        if not (good and there):
            if bad == 0:
                first = i
            bad += 1
    return bad, first


@jit
def change(source: int, target: int, days: Int64, out: Int64) -> tuple[int, int]:
    """Write the days of the same dates in another calendar.

    Parameters
    ----------
    source, target : int
        Calendars, constants of this module.
    days, out : int64 array, shape (n,)
        Days in `source`, of magnitude below 2**59; written: days in `target`, undefined if it lacks the date.

    Returns
    -------
    bad, first : int
        Number of dates that `target` does not have, and the index of the first or -1.

    Raises
    ------
    ValueError
        There is no such calendar, or the lengths differ.
    """
    _check(source, days.size == out.size)
    _check(target, days.size == out.size)
    source_without, target_without = _without_zero(source), _without_zero(target)
    bad, first = 0, -1
    for i in range(days.size):
        y, m, d = _date(source, days[i])
        y = y - 1 if source_without and y <= 0 else y
        good = True
        if target_without:
            good = y != 0
            y = y + 1 if y < 0 else y
        out[i], there = _day(target, y, m, d)
        if not (good and there):
            if bad == 0:
                first = i
            bad += 1
    return bad, first
