"""The dates of a recipe, and the parts a build is cut into.

Dates are ``start``, ``start + frequency`` … up to ``end``; each stands for the observations from it up to the next
date, not included.  A part is a run of such dates, again without its end.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from fractions import Fraction

from cfagg.cf.durations import parse_duration
from cfagg.cf.instants import parse_date
from cfagg.errors import LimitError, OptionError

__all__ = ["Part", "Period", "as_date", "as_duration"]

#: Start and end of a part of a build, in UTC without a time zone; the end is not included.
Part = tuple[datetime, datetime]

#: More parts than this are a mistake in the frequency or in group_by.
MOST_PARTS = 1_000_000


def as_duration(value: object) -> timedelta:
    """Return a positive duration; a whole number counts hours."""
    try:
        seconds = Fraction(0) if isinstance(value, float) else parse_duration(value)
    except OptionError:
        seconds = Fraction(0)
    micros = seconds * 10**6
    if micros <= 0 or micros.denominator != 1:
        raise ValueError(f"{value!r} is not a duration above 0; write 6h, 1d, 30min, 10s, 1:30:00 or PT6H")
    return timedelta(microseconds=int(micros))


def as_date(value: object, *, end: bool = False) -> datetime:
    """Return a date in UTC, without a time zone; as `end` a year or month is meant to its last second, a day not."""
    try:
        first, after = parse_date(value)
        if end and after is not None and after - first > 86400:
            first = Fraction(after - 1)
        return datetime(1970, 1, 1) + timedelta(microseconds=first * 10**6 // 1)
    except (OptionError, OverflowError):
        said = f"{value!r} is not a date; write it as 2020-01-31 or 2020-01-31T18:00:00"
        raise ValueError(said) from None


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
