"""The dates of a recipe, and the parts a build is cut into.

A recipe's dates are ``start``, ``start + frequency`` and so on up to ``end``; each date stands for the observations
from it up to the next date, that one not included.  A part is a run of such dates, again without its end.

Source: "Support irregular observations datasets", "Incremental/parallel build"; the recipes of anemoi-datasets.
"""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from cfagg.errors import LimitError

__all__ = ["Part", "Period", "as_date", "as_duration"]

#: Start and end of a part of a build, in UTC without a time zone; the end is not included.
Part = tuple[datetime, datetime]

#: More parts than this are a mistake in the frequency or in group_by.
MOST_PARTS = 1_000_000

_UNITS = {"w": 604800, "d": 86400, "h": 3600, "min": 60, "m": 60, "s": 1}
_SHORT = re.compile(r"(\d+)\s*(w|d|h|min|m|s)", re.IGNORECASE)
_CLOCK = re.compile(r"(?:(\d+) days?, )?(\d+):(\d{1,2})(?::(\d{1,2}))?")
_ISO = re.compile(r"P(?=.)(?:(\d+)W)?(?:(\d+)D)?(?:T(?=.)(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)S)?)?", re.IGNORECASE)
_PARTIAL = re.compile(r"(\d{4})(?:-?(\d{2}))?")


def as_duration(value: object) -> timedelta:
    """Return a positive duration.

    Parameters
    ----------
    value : int, str or timedelta
        A number counts hours; text is ``6h``, ``1d``, ``30m``, ``30min``, ``10s``, ``1:30``, ``1:30:10`` or ISO 8601
        such as ``PT6H``.

    Raises
    ------
    ValueError
        Anything else, or a duration that is not positive.

    Examples
    --------
    >>> print(as_duration("6h"), as_duration(12), as_duration("PT1H30M"))
    6:00:00 12:00:00 1:30:00
    """
    try:
        found = _duration(value)
    except OverflowError:
        found = None
    if found is None:
        raise ValueError(f"{value!r} is not a duration; write 6h, 1d, 30min, 10s, 1:30:00 or PT6H")
    if found <= timedelta(0):
        raise ValueError(f"the duration {value!r} is not positive")
    return found


def _duration(value: object) -> timedelta | None:
    if isinstance(value, timedelta):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return timedelta(hours=value)
    if not isinstance(value, str) or len(value) > 64:
        return None
    text = value.strip().removeprefix("+")
    if text.isdecimal():
        return timedelta(hours=int(text))
    if short := _SHORT.fullmatch(text):
        return timedelta(seconds=int(short[1]) * _UNITS[short[2].lower()])
    if clock := _CLOCK.fullmatch(text):
        days, hours, minutes, seconds = (int(v or 0) for v in clock.groups())
        return timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
    if iso := _ISO.fullmatch(text):
        weeks, days, hours, minutes, seconds = (int(v or 0) for v in iso.groups())
        return timedelta(weeks=weeks, days=days, hours=hours, minutes=minutes, seconds=seconds)
    return None


def as_date(value: object, *, end: bool = False) -> datetime:
    """Return a date and time in UTC, without a time zone.

    Parameters
    ----------
    value : datetime, date, int or str
        Dates and ISO 8601 text; a date without a time is its midnight.  A year or a year and a month stand for their
        first second, or as `end` for their last.
    end : bool
        Whether the value ends a range.

    Raises
    ------
    ValueError
        Anything else.

    Examples
    --------
    >>> print(as_date("2020-02", end=True), as_date("2020-02-01T06:00+02:00"))
    2020-02-29 23:59:59 2020-02-01 04:00:00
    """
    if isinstance(value, datetime):
        found = value
    elif isinstance(value, date):
        found = datetime(value.year, value.month, value.day)
    elif isinstance(value, int | str) and not isinstance(value, bool):
        found = _date(str(value).strip(), end)
    else:
        raise ValueError(f"{value!r} is not a date; write it as 2020-01-31 or 2020-01-31T18:00:00")  # noqa: TRY004
    return found.astimezone(UTC).replace(tzinfo=None) if found.tzinfo is not None else found


def _date(text: str, end: bool) -> datetime:
    try:
        partial = _PARTIAL.fullmatch(text)
        if partial is None:
            return datetime.fromisoformat(text)
        year, month = int(partial[1]), int(partial[2] or 1)
        first = datetime(year, month, 1)
        if not end:
            return first
        last = month if partial[2] else 12
        return datetime(year, last, monthrange(year, last)[1], 23, 59, 59)
    except ValueError:
        raise ValueError(f"{text!r} is not a date; write it as 2020-01-31 or 2020-01-31T18:00:00") from None


@dataclass(frozen=True, slots=True)
class Period:
    """The dates of a recipe.

    Parameters
    ----------
    start, last : datetime
        The first and the last date, in UTC without a time zone.
    frequency : timedelta
        The step from one date to the next.
    missing : tuple of (datetime, datetime)
        Ranges in which nothing is read, sorted and disjoint, ends not included.
    """

    start: datetime
    last: datetime
    frequency: timedelta
    missing: tuple[Part, ...] = ()

    @property
    def stop(self) -> datetime:
        """The end of the period, not included: one step after the last date."""
        return self.last + self.frequency

    def __len__(self) -> int:
        return (self.last - self.start) // self.frequency + 1

    def within(self, start: datetime, stop: datetime) -> Part | None:
        """Return what a range has in common with the period; `None` if nothing."""
        first, end = max(start, self.start), min(stop, self.stop)
        return (first, end) if first < end else None

    def parts(self, group_by: object = "monthly") -> list[Part]:
        """Return the ranges that a build reads one by one.

        Parameters
        ----------
        group_by : int, str, timedelta or None
            So many dates, ``daily``, ``weekly`` (from Monday), ``monthly``, ``yearly``, a duration, or all at once.

        Raises
        ------
        LimitError
            More than a million parts.
        ValueError
            Another word.

        Examples
        --------
        >>> period = Period(datetime(2020, 1, 30), datetime(2020, 2, 2), timedelta(days=1))
        >>> [(a.day, b.day) for a, b in period.parts("monthly")]
        [(30, 1), (1, 3)]
        """
        many = (
            f"group_by {group_by!r} cuts the dates from {self.start} to {self.last} into more than {MOST_PARTS} parts; "
            "use a longer one"
        )
        if len(self) // self._steps(group_by) > MOST_PARTS:
            raise LimitError(many)
        parts: list[Part] = []
        for first, stop in self._groups(group_by):
            start = first
            for gap in self.missing:
                if gap[1] <= start or gap[0] >= stop:
                    continue
                if start < gap[0]:
                    parts.append((start, gap[0]))
                start = min(gap[1], stop)
            if start < stop:
                parts.append((start, stop))
            if len(parts) > MOST_PARTS:
                raise LimitError(many)
        return parts

    def _groups(self, group_by: object) -> Iterator[Part]:
        start = self.start
        while start < self.stop:
            end = min(self._next(start, group_by), self.stop)
            yield start, end
            start = end

    def _next(self, start: datetime, group_by: object) -> datetime:
        """Return the first date of the group after the one that starts with a date."""
        if group_by is None:
            return self.stop
        edge = _calendar_edge(start, group_by) if isinstance(group_by, str) else None
        if edge is not None and edge >= self.stop:
            return self.stop
        steps = self._steps(group_by) if edge is None else -((start - edge) // self.frequency)
        return start + min(steps, len(self)) * self.frequency

    def _steps(self, group_by: object) -> int:
        """Return how many dates a group has, all of them for groups of the calendar."""
        if group_by is None or (isinstance(group_by, str) and _calendar_edge(self.start, group_by) is not None):
            return len(self)
        if isinstance(group_by, int) and not isinstance(group_by, bool) and group_by > 0:
            return group_by
        return -(-as_duration(group_by) // self.frequency)


def _calendar_edge(day: datetime, word: str) -> datetime | None:
    """Return the start of the next calendar unit; `None` for words that name none."""
    midnight = datetime(day.year, day.month, day.day)
    try:
        match word:
            case "daily" | "MMDD":
                return midnight + timedelta(days=1)
            case "weekly":
                return midnight + timedelta(days=7 - day.weekday())
            case "monthly":
                return datetime(day.year + day.month // 12, day.month % 12 + 1, 1)
            case "yearly":
                return datetime(day.year + 1, 1, 1)
    except (ValueError, OverflowError):
        return datetime.max
    return None
