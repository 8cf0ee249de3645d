"""Reference datetimes as they are written in units, and the dates that each calendar has.

Sources: CF sections 4.4.2 and 4.4.3, Appendix M (leap seconds).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

__all__ = ["Datetime", "day_number", "days_in_month", "leap_seconds_until", "parse_datetime", "seconds_between"]

#: Month lengths of a year without a leap day.
_MONTHS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)

#: Days at whose end a leap second was inserted, as yyyymmdd.
_LEAPS = (
    19720630, 19721231, 19731231, 19741231, 19751231, 19761231, 19771231, 19781231, 19791231, 19810630, 19820630,
    19830630, 19850630, 19871231, 19891231, 19901231, 19920630, 19930630, 19940630, 19951231, 19970630, 19981231,
    20051231, 20081231, 20120630, 20150630, 20161231,
)  # fmt: skip

#: Leap seconds are announced half a year ahead; none is known to be missing up to here.
_LEAPS_KNOWN = 20261231

_DATE = re.compile(r"([-+]?)(\d{1,9})(?:-(\d{1,9}))?(?:-(\d{1,9}))?")
_SECOND = r"(?:\.\d{0,30})?"
_CLOCK = re.compile(
    r"(\s*[Tt]\s*|\s+)"
    rf"(?:(\d\d)(\d\d)(\d\d{_SECOND})?(?![\d:])|(\d{{1,9}})(?::(\d{{1,9}})(?::(\d{{1,9}}{_SECOND}))?)?)"
)
_ZONE = re.compile(r"\s*([A-Za-z]{1,9}|[-+]?\d[\d:]{0,8})")
_PACKED = re.compile(r"([-+]?)(\d{4})(\d{2})(\d{2})?$")
_NUMERIC_ZONE = re.compile(r"([-+])(\d{1,2})(?::(\d{2}))?$")


@dataclass(frozen=True, slots=True)
class Datetime:
    """What a reference datetime says; every part is kept as it is written.

    Parameters
    ----------
    year, month, day, hour, minute, second : str or None
        Digits, those of the year with its sign; `None` where the part is missing.
    separator : str
        What stands between date and time.
    zone : str or None
        Time zone offset.
    rest : str
        What follows and is not understood.
    packed : bool
        Whether the date was written as ``yyyymmdd`` or ``yyyymm``.
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
        """Whether there is a date of year, month and day, and everything is understood."""
        return self.day is not None and not self.rest

    @property
    def date(self) -> tuple[int, int, int]:
        """Year, month and day; what is missing is 1."""
        return int(self.year), int(self.month or 1), int(self.day or 1)

    @property
    def clock(self) -> tuple[int, int, float]:
        """Hour, minute and second; what is missing is 0."""
        return int(self.hour or 0), int(self.minute or 0), float(self.second or 0)

    @property
    def offset(self) -> int | None:
        """Minutes ahead of Universal Time, 0 if no zone is given, `None` if the zone is not understood.

        >>> parse_datetime("2000-1-1 0:0:0 -3:30").offset, parse_datetime("2000-1-1 0:0:0 EST").offset
        (-210, None)
        """
        if self.zone is None or self.zone.upper() in ("Z", "UTC", "GMT"):
            return 0
        match = _NUMERIC_ZONE.match(self.zone)
        if match is not None:
            minutes = 60 * int(match[2]) + int(match[3] or 0)
            return -minutes if match[1] == "-" else minutes
        # Forms of older versions, as UDUNITS reads them: without a sign, and three or four digits.
        digits = self.zone.lstrip("+-").replace(":", "")
        if not digits.isdigit() or len(digits) > 4:
            return None
        minutes = 60 * int(digits) if len(digits) < 3 else 60 * int(digits[:-2]) + int(digits[-2:])
        return -minutes if self.zone.startswith("-") else minutes


@lru_cache(maxsize=1024)
def parse_datetime(text: str) -> Datetime | None:
    """Return what a datetime says, `None` if it does not begin with a number.

    The forms are those that UDUNITS reads: parts with or without leading zeros and punctuation (``20000131T123015``,
    ``2000-01-31 1230``), and the zone behind them.

    Examples
    --------
    >>> parse_datetime("2000-01-31 12:00:0.5Z").clock
    (12, 0, 0.5)
    >>> parse_datetime("noon") is None
    True
    """
    text = text.strip()
    match = _DATE.match(text)
    if match is None:
        return None
    sign, year, month, day = match.groups()
    packed = None if month else _PACKED.match(text[: match.end()])
    if packed is not None:
        sign, year, month, day = packed.groups()
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


def _counted(calendar: str, year: int) -> int:
    """Return a year by a count that has a year 0; in the standard and the Julian calendar year -1 precedes year 1.

    These have no year 0, which an old way to mark climatologies takes for that before year 1.
    """
    return year + 1 if year < 0 and calendar in ("standard", "julian") else year


def is_leap(calendar: str, year: int) -> bool:
    """Whether a year of a calendar has a leap day."""
    year = _counted(calendar, year)
    if calendar in ("noleap", "360_day"):
        return False
    if calendar == "all_leap":
        return True
    if calendar == "julian" or (calendar == "standard" and year <= 1582):
        return year % 4 == 0
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


def days_in_month(calendar: str, year: int, month: int) -> int:
    """Return the number of the last day of a month.

    >>> days_in_month("360_day", 2001, 2), days_in_month("standard", 1500, 2), days_in_month("utc", 1900, 2)
    (30, 29, 28)
    """
    if calendar == "360_day":
        return 30
    return _MONTHS[month - 1] + (month == 2 and is_leap(calendar, year))


def day_number(calendar: str, year: int, month: int, day: int) -> int:
    """Return the days of a valid date since an arbitrary one of its calendar.

    >>> day_number("standard", 1582, 10, 15) - day_number("standard", 1582, 10, 4)
    1
    """
    if calendar == "360_day":
        return 360 * year + 30 * (month - 1) + day
    before = sum(_MONTHS[: month - 1]) + (month > 2 and is_leap(calendar, year)) + day
    year = _counted(calendar, year)
    last = year - 1
    if calendar == "noleap":
        return 365 * year + before
    if calendar == "all_leap":
        return 366 * year + before
    if calendar == "julian" or (calendar == "standard" and (year, month, day) < (1582, 10, 15)):
        # Counted so that it goes on without a gap on 15 October 1582.
        return 365 * year + last // 4 + before - (2 if calendar == "standard" else 0)
    # The standard calendar's year 1582 is a common year by both rules.
    return 365 * year + last // 4 - last // 100 + last // 400 + before


def leap_seconds_until(year: int, month: int, day: int) -> int:
    """Return how many leap seconds were inserted before a date begins.

    >>> leap_seconds_until(2017, 1, 1)
    27
    """
    date = (year * 100 + month) * 100 + day
    return sum(leap < date for leap in _LEAPS)


def may_have_leap_second(year: int, month: int, day: int) -> bool:
    """Whether a leap second ends the day, or might, in times that are not known yet."""
    date = (year * 100 + month) * 100 + day
    return date in _LEAPS or (date > _LEAPS_KNOWN and (month, day) in ((6, 30), (12, 31)))


def seconds_between(calendar: str, start: Datetime, end: tuple[int, int, int]) -> float:
    """Return the seconds from a valid reference datetime to the beginning of a day, both in one calendar.

    >>> seconds_between("utc", parse_datetime("2016-12-31 23:59:59"), (2017, 1, 1))
    2.0
    """
    days = day_number(calendar, *end) - day_number(calendar, *start.date)
    hour, minute, second = start.clock
    seconds = 86400 * days - (3600 * hour + 60 * minute + second) + 60 * (start.offset or 0)
    if calendar == "utc":
        seconds += leap_seconds_until(*end) - leap_seconds_until(*start.date)
    return float(seconds)
