"""Dates and times in common notations: years, months, days and full times, in seconds since 1970, exactly.

All are in the proleptic Gregorian calendar, and in UTC unless they have a time zone.
"""

from __future__ import annotations

import datetime as dt
import re
from fractions import Fraction
from typing import Any

import numpy as np

from cfagg.cf.durations import parse_duration
from cfagg.errors import OptionError
from cfagg.errors.arguments import shown

__all__ = ["REFORM", "calendar_of", "epoch_text", "parse_date"]

#: 1582-10-15 in seconds since 1970, from which on the standard calendar is the proleptic Gregorian one.
REFORM = -12219292800

_TEXT = re.compile(
    r"([0-9]{4})(?:-?([0-9]{2})(?:-?([0-9]{2}))?)?"
    r"(?:[T ]([0-9]{2})(?::?([0-9]{2})(?::?([0-9]{2})(?:[.,]([0-9]{1,30}))?)?)?"
    r"\s*(Z|UTC|[+-][0-9]{2}(?::?[0-9]{2})?)?)?",
    re.IGNORECASE,
)

_FORMS = (
    'a year 1979, a month "1979-05" or 197905, a day "1979-05-31" or 19790531, '
    'a full time "1979-05-31T06:00:00", a datetime or a numpy.datetime64'
)

_DAY = 86400
_ORIGIN = dt.date(1970, 1, 1).toordinal()

#: The first second of a date, and the second after the end of a year, month or day; `None` after a full time.
type Date = tuple[Fraction, int | None]


def parse_date(value: Any) -> Date:
    """Return the first second of a date, and the second after its end if it is a year, month or day.

    >>> parse_date("1970-01-02"), parse_date("1970-01-01T01:00:00.5+01:00")
    ((Fraction(86400, 1), 172800), (Fraction(1, 2), None))
    """
    if isinstance(value, np.datetime64):
        return _of_numpy(value)
    if isinstance(value, dt.datetime):
        return _instant(value)
    if isinstance(value, dt.date):
        return _period(value, value.year, value.month, value.day)
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        text = str(int(value)) if 0 <= value < 10**9 else ""
        if len(text) not in {4, 6, 8}:
            raise OptionError(f"{value} is not a date: as a number it is YYYY, YYYYMM or YYYYMMDD")
        value = text
    if isinstance(value, str):
        return _of_text(value.strip())
    raise OptionError(f"{shown(value)} is not a date: it must be {_FORMS}")


def epoch_text(epoch: int | np.integer[Any]) -> str:
    """Return a date in ISO 8601, such as ``1970-01-01T00:00:00``, from seconds since 1970."""
    return str(np.datetime64(int(epoch), "s"))


def calendar_of(first: int | np.integer[Any]) -> str:
    """Return the name in CF of the calendar of times, given the first in seconds since 1970."""
    return "standard" if first >= REFORM else "proleptic_gregorian"


def _of_text(text: str) -> Date:
    match = _TEXT.fullmatch(text) if len(text) <= 64 else None
    if match is None:
        return _of_other_text(text)
    year, month, day, hour, minute, second, fraction, zone = match.groups()
    if hour is None:
        return _period(text, int(year), int(month) if month else None, int(day) if day else None)
    if day is None:
        raise OptionError(f"{text!r} is not a date: a time needs a day before it")
    clock = int(hour), int(minute or 0), int(second or 0)
    part = Fraction(int(fraction or 0), 10 ** len(fraction or ""))
    if clock[1] > 59 or clock[2] > 59 or (*clock, part) > (24, 0, 0, 0):
        raise OptionError(f"{text!r} is not a date: there is no time {clock[0]:02}:{clock[1]:02}:{clock[2]:02}")
    start, _ = _period(text, int(year), int(month), int(day))
    return start + clock[0] * 3600 + clock[1] * 60 + clock[2] + part - _zone(text, zone), None


def _of_other_text(text: str) -> Date:
    """Return a date in one of the rarer forms of ISO 8601, such as a day of a week."""
    wrong = OptionError(f"{text[:64]!r} is not a date: it must be {_FORMS}")
    if len(text) > 64:
        raise wrong
    try:
        day = dt.date.fromisoformat(text)
    except ValueError:
        try:
            # Python allows any separator, also the sign of a zone that follows a date.
            if not re.search("[T ]", text, re.IGNORECASE):
                raise wrong
            return _instant(dt.datetime.fromisoformat(text))
        except ValueError:
            raise wrong from None
    if re.fullmatch("[0-9]{4}-?W[0-9]{2}", text):
        raise OptionError(f"{text!r} is a week; give its first or last day, such as {day}")
    return _period(day, day.year, day.month, day.day)


def _zone(text: str, zone: str | None) -> int:
    if zone is None or zone.upper() in {"Z", "UTC"}:
        return 0
    digits = zone[1:].replace(":", "").ljust(4, "0")
    hours, minutes = int(digits[:2]), int(digits[2:])
    if hours > 23 or minutes > 59:
        raise OptionError(f"{text!r} is not a date: there is no time zone {zone}")
    return (1 if zone[0] == "+" else -1) * (hours * 3600 + minutes * 60)


def _period(value: Any, year: int, month: int | None, day: int | None) -> tuple[Fraction, int]:
    """Return the seconds of a year, month or day as a half-open range."""
    try:
        first = dt.date(year, 1 if month is None else month, 1 if day is None else day).toordinal()
    except ValueError as error:
        raise OptionError(f"{value!s:.64} is not a date: {error}") from None
    if day is not None:
        after = first + 1
    elif year == 9999 and month in (None, 12):
        after = dt.date.max.toordinal() + 1
    else:
        after = (dt.date(year, month + 1, 1) if month and month < 12 else dt.date(year + 1, 1, 1)).toordinal()
    return Fraction((first - _ORIGIN) * _DAY), (after - _ORIGIN) * _DAY


def _instant(time: dt.datetime) -> Date:
    if time != time:  # noqa: PLR0124 - pandas' NaT is a datetime
        raise OptionError("NaT is not a date")
    delta = time.replace(tzinfo=None) - dt.datetime(1970, 1, 1) - (time.utcoffset() or dt.timedelta())
    micros = delta // dt.timedelta(microseconds=1)
    # A pandas timestamp, which stores nanoseconds separately.
    return Fraction(micros * 1000 + int(getattr(time, "nanosecond", 0)), 10**9), None


def _of_numpy(value: np.datetime64) -> Date:
    unit = np.datetime_data(value.dtype)[0]
    if np.isnat(value):
        raise OptionError("NaT is not a date")
    if unit in {"Y", "M", "D"}:
        year, *parts = str(value).rsplit("-", {"Y": 0, "M": 1, "D": 2}[unit])
        if re.fullmatch(r"[0-9]{4}", year):
            return _period(value, int(year), *([*(int(p) for p in parts), None, None][:2]))
        if unit != "D":
            raise OptionError(f"{value!s:.64} is not a date: years are from 0001 to 9999")
    return parse_duration(value - np.datetime64(0, "s").astype(value.dtype)), None
