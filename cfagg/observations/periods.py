"""The dates of a recipe, and the parts a build is cut into.

Dates are ``start``, ``start + frequency`` … up to ``end``; each stands for the observations from it up to the next
date, not included.  A part is a run of such dates, again without its end.
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
    """Return a positive duration."""
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
    """Return a date and time in UTC, without a time zone."""
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
    """The dates of a recipe."""

    start: datetime
    last: datetime
    frequency: timedelta
    #: Ranges in which nothing is read, sorted and disjoint, ends not included.
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
        """Return the ranges that a build reads one by one: of so many dates, calendar units or durations, or all."""
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
