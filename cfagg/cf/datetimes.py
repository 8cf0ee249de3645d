"""Reference datetimes as written in units, and the dates of each calendar.

Sources: CF sections 4.4.2 and 4.4.3, Appendix M (leap seconds).
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

__all__ = [
    "CALENDAR_NAMES", "Datetime", "calendar_name", "clock_problem", "days_in_month", "parse_datetime",
    "seconds_between",
]  # fmt: skip

#: Names of the CF calendars, each with its canonical name here and the minor version of CF that introduced it.
CALENDAR_NAMES = {
    "standard": ("standard", 0),
    "gregorian": ("standard", 0),
    "proleptic_gregorian": ("proleptic_gregorian", 0),
    "noleap": ("noleap", 0),
    "365_day": ("noleap", 0),
    "all_leap": ("all_leap", 0),
    "366_day": ("all_leap", 0),
    "360_day": ("360_day", 0),
    "julian": ("julian", 0),
    "none": ("none", 0),
    "utc": ("utc", 12),
    "tai": ("tai", 12),
    # Only table 4.1 of CF-1.13 uses this spelling.
    "no_leap": ("noleap", 13),
}

#: Days at whose end a leap second was inserted, as yyyymmdd.
_LEAPS = (
    19720630, 19721231, 19731231, 19741231, 19751231, 19761231, 19771231, 19781231, 19791231, 19810630, 19820630,
    19830630, 19850630, 19871231, 19891231, 19901231, 19920630, 19930630, 19940630, 19951231, 19970630, 19981231,
    20051231, 20081231, 20120630, 20150630, 20161231,
)  # fmt: skip

#: Leap seconds are announced half a year ahead; the list is complete up to this date.
_LEAPS_KNOWN = 20261231

_DATE = re.compile(r"([-+]?)(\d{1,9})(?:-(\d{1,9}))?(?:-(\d{1,9}))?")
_SECOND = r"(?:\.\d{0,30})?"
_CLOCK = re.compile(
    r"(\s*[Tt]\s*|\s+)"
    rf"(?:(\d\d)(\d\d)(\d\d{_SECOND})?(?![\d:])|(\d{{1,9}})(?::(\d{{1,9}})(?::(\d{{1,9}}{_SECOND}))?)?)"
)
_ZONE = re.compile(r"\s*([A-Za-z]{1,9}|[-+]?\d[\d:]{0,8})")
_PACKED = re.compile(r"()(\d{4})(\d{2})(\d{2})?$")
#: Without a sign, and with three or four digits, as in older versions of CF and in UDUNITS.
_NUMERIC_ZONE = re.compile(r"([-+]?)(\d{1,2})(?::?(\d{2})|:(\d))?")


class Datetime(NamedTuple):
    """A parsed reference datetime; every part is as written, or `None` if it is missing.

    `separator` is between date and time, `rest` is unparsed text after them, and `packed` dates are ``yyyymmdd``.
    """

    year: str
    month: str | None = None
    day: str | None = None
    separator: str = ""
    hour: str | None = None
    minute: str | None = None
    second: str | None = None
    zone: str | None = None
    rest: str = ""
    packed: bool = False

    @property
    def complete(self) -> bool:
        """Whether year, month and day are given, and everything is understood."""
        return self.day is not None and not self.rest

    @property
    def date(self) -> tuple[int, int, int]:
        """Year, month and day; 1 for missing parts."""
        return int(self.year), int(self.month or 1), int(self.day or 1)

    @property
    def clock(self) -> tuple[int, int, float]:
        """Hour, minute and second; 0 for missing parts."""
        return int(self.hour or 0), int(self.minute or 0), float(self.second or 0)

    @property
    def offset(self) -> int | None:
        """Minutes ahead of Universal Time, 0 if no zone is given, or `None` if the zone is not understood."""
        if self.zone is None or self.zone.upper() in ("Z", "UTC", "GMT"):
            return 0
        match = _NUMERIC_ZONE.fullmatch(self.zone)
        if match is None:
            return None
        hours, minutes = int(match[2]), int(match[3] or match[4] or 0)
        if hours > 23 or minutes > 59 or (self.hour is None and (hours or minutes)):
            return None  # after a date alone, UDUNITS reads a time of day and cftime a zone
        return (-1 if match[1] == "-" else 1) * (60 * hours + minutes)


@lru_cache(maxsize=1024)
def parse_datetime(text: str) -> Datetime | None:
    """Return a parsed datetime in any form that UDUNITS reads, or `None` if it does not begin with a date.

    A number of other than up to 4, 6 or 8 digits is not a date, as UDUNITS and cftime disagree on what it means.
    """
    text = text.strip()
    match = _DATE.match(text)
    if match is None:
        return None
    sign, year, month, day = match.groups()
    packed = None if month else _PACKED.match(text[: match.end()])
    if packed is not None:
        sign, year, month, day = packed.groups()
    elif month is None and len(year) > 4:
        return None
    at = match.end()
    hour = minute = second = zone = None
    separator = ""
    clock = _CLOCK.match(text, at)
    if clock is not None:
        separator, *parts = clock.groups()
        hour, minute, second = parts[:3] if parts[0] else parts[3:]
        at = clock.end()
    found = _ZONE.match(text, at)
    if found is not None:
        zone = found[1]
        at = found.end()
    rest = text[at:].strip()
    return Datetime(sign + year, month, day, separator, hour, minute, second, zone, rest, packed is not None)


def calendar_name(text: str | None) -> str | None:
    """Return the canonical name of a calendar, by default the standard one; or `None` if CF does not define it.

    >>> calendar_name("365_day"), calendar_name(""), calendar_name("lunar")
    ('noleap', 'standard', None)
    """
    return CALENDAR_NAMES.get((text or "").strip().lower() or "standard", (None, 0))[0]


def _rule(calendar: str, year: int) -> tuple[str, int]:
    """Return the rule for counting days, and a year that it has: year 0 of old climatologies counts as 1."""
    if calendar in ("standard", "julian"):
        return calendar, year or -1
    return "proleptic_gregorian" if calendar in ("utc", "tai") else calendar, year


def days_in_month(calendar: str, year: int, month: int) -> int:
    """Return the number of the last day of a month."""
    from cfagg.cf.dates import to_days

    return 27 + int(to_days(*_rule(calendar, year), month, (28, 29, 30, 31))[1].sum())


def day_number(calendar: str, year: int, month: int, day: int) -> int:
    """Return the days from an arbitrary date of the calendar to a valid date."""
    from cfagg.cf.dates import to_days

    return int(to_days(*_rule(calendar, year), month, day)[0])


def leap_seconds_until(year: int, month: int, day: int) -> int:
    """Return the number of leap seconds inserted before the beginning of a date."""
    date = (year * 100 + month) * 100 + day
    return sum(leap < date for leap in _LEAPS)


def may_have_leap_second(year: int, month: int, day: int) -> bool:
    """Return whether a leap second ends the day, or might in the future."""
    date = (year * 100 + month) * 100 + day
    return date in _LEAPS or (date > _LEAPS_KNOWN and (month, day) in ((6, 30), (12, 31)))


def clock_problem(time: Datetime, calendar: str | None, *, leap_anywhere: bool = False) -> str:
    """Return why a time of day is invalid in a calendar, or ""; before CF-1.9, all may have leap seconds.

    >>> clock_problem(parse_datetime("2016-12-31 23:59:60"), "utc")
    ''
    >>> clock_problem(parse_datetime("2015-12-31 23:59:60"), "utc")
    'there is no leap second at this time'
    """
    hour, minute, second = time.clock
    if hour > 23:
        return f"there is no hour {hour}"
    if minute > 59:
        return f"there is no minute {minute}"
    if second < (61 if leap_anywhere else 60):
        return ""
    if calendar != "utc":
        called = f"calendar {calendar}" if calendar else "the calendar of this variable"
        return f"seconds of 60 and more are leap seconds, which {called} does not have"
    there = second < 61 and (hour, minute, time.offset) == (23, 59, 0) and may_have_leap_second(*time.date)
    return "" if there else "there is no leap second at this time"


def seconds_between(calendar: str, start: Datetime, end: tuple[int, int, int]) -> float:
    """Return the seconds from a valid reference datetime to the beginning of a day, both in one calendar."""
    days = day_number(calendar, *end) - day_number(calendar, *start.date)
    hour, minute, second = start.clock
    seconds = 86400 * days - (3600 * hour + 60 * minute + second) + 60 * (start.offset or 0)
    if calendar == "utc":
        seconds += leap_seconds_until(*end) - leap_seconds_until(*start.date)
    return float(seconds)
