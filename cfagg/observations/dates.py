"""Dates of samples, windows around them, and the periods and parts of time in recipes, in UTC.

*window*: a range of time around a date, such as six hours before it to three hours after it.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from fractions import Fraction
from typing import Any, Self

import numpy as np

from cfagg.cf.durations import format_duration, parse_duration
from cfagg.cf.instants import epoch_text, parse_date
from cfagg.errors import LimitError, OptionError, SelectionError
from cfagg.errors.arguments import about, shown

__all__ = [
    "Part", "Period", "SampleDates", "Window", "as_date", "as_duration", "first_second", "last_second",
    "parse_frequency", "sample_dates", "sample_numbers", "union", "without",
]  # fmt: skip

#: Largest number of samples; more are assumed to be a mistake.
_MAX_DATES = 10**9


def first_second(value: Any) -> int:
    """Return the first second of `start`, since 1970."""
    return _span(value)[0]


def last_second(value: Any) -> int:
    """Return the last second of `end`, since 1970, which is that of a year, month or day."""
    return _span(value)[1]


def _span(value: Any) -> tuple[int, int]:
    first, after = parse_date(value)
    if first.denominator != 1:
        raise OptionError(f"{value!s:.64} has a fraction of a second; dates of samples must be whole seconds")
    return int(first), int(first) if after is None else after - 1


def parse_frequency(value: Any) -> int:
    """Return the step between samples in seconds."""
    seconds = parse_duration(value)
    if seconds <= 0 or seconds.denominator != 1:
        raise OptionError(f"the frequency {value!r} must be a positive number of whole seconds")
    return int(seconds)


@dataclass(frozen=True, slots=True)
class SampleDates:
    """The dates of samples: `start`, `start` + `frequency`, … up to `end`."""

    start: int
    end: int
    frequency: int

    def __post_init__(self) -> None:
        if self.end < self.start:
            raise OptionError(
                f"the end {epoch_text(self.end)} is before the start {epoch_text(self.start)}, so there are no samples"
            )

    def __len__(self) -> int:
        return (self.end - self.start) // self.frequency + 1

    @property
    def last(self) -> int:
        """Date of the last sample, in seconds since 1970."""
        return self.start + (len(self) - 1) * self.frequency

    def epochs(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Return all dates, int64 (samples,), in seconds since 1970."""
        if len(self) > _MAX_DATES:
            raise LimitError(
                f"there are {len(self)} samples from {self}, more than {_MAX_DATES}; use a lower frequency"
            )
        return self.start + np.arange(len(self), dtype=np.int64) * self.frequency

    def __str__(self) -> str:
        step = format_duration(Fraction(self.frequency))
        return f"{epoch_text(self.start)} to {epoch_text(self.end)} every {step}"


def sample_dates(start: Any, end: Any, frequency: Any, held: tuple[int, int] | None) -> SampleDates:
    """Return the dates of samples from a user's arguments."""
    if held is None and (start is None or end is None):
        raise OptionError("the store holds no observations, so start= and end= are required")
    first, last = held or (0, 0)
    return SampleDates(
        first if start is None else about("start", first_second, start),
        last if end is None else about("end", last_second, end),
        about("frequency", parse_frequency, frequency),
    )


type Int64 = np.ndarray[Any, np.dtype[np.int64]]


def sample_numbers(key: Any, count: int, extent: Callable[[], str] = str) -> int | Int64:
    """Return the number of a sample, or the numbers of several, none negative; `extent` describes them in errors."""
    if isinstance(key, slice):
        try:
            return np.arange(*key.indices(count), dtype=np.int64)
        except (TypeError, ValueError) as error:
            raise SelectionError(f"{key} selects no samples: {error}") from None
    if isinstance(key, (bool, np.bool_)):
        raise SelectionError(f"{key} selects no sample: use a number, or a mask with one value per sample")
    try:
        number = operator.index(key)
    except TypeError:
        return _several(key, count, extent)
    if not -count <= number < count:
        raise SelectionError(f"there is no sample {number}: there are {count}{extent()}")
    return number % count


def _several(key: Any, count: int, extent: Callable[[], str]) -> Int64:
    try:
        numbers = np.asarray(key)
    except ValueError:
        # For lists of unequal lengths.
        numbers = np.array(None)
    if numbers.ndim != 1 or (numbers.dtype.kind not in "biu" and numbers.size):
        raise SelectionError(
            f"{key!r:.80} selects no samples: use a number, a slice, a list of numbers, or a mask of all samples"
        )
    if numbers.dtype == bool:
        if len(numbers) != count:
            raise SelectionError(f"the mask has {len(numbers)} values, but there are {count} samples{extent()}")
        return np.flatnonzero(numbers)
    beyond = (numbers >= count) | (numbers < -count)
    if beyond.any():
        raise SelectionError(f"there is no sample {numbers[beyond][0]}: there are {count}{extent()}")
    return numbers.astype(np.int64) % max(count, 1)


#: Longest text of an offset; longer ones are assumed to be a mistake.
_MOST_TEXT = 100
_WINDOW = re.compile(r"\s*([\[(])([^,\[\]()]*),([^,\[\]()]*)([\])])\s*")


@dataclass(frozen=True, slots=True)
class Window:
    """A range of time relative to a sample's date: offsets in seconds, and whether each end belongs to it."""

    start: Fraction
    end: Fraction
    closed_start: bool = False
    closed_end: bool = True

    def __post_init__(self) -> None:
        if self.end < self.start:
            raise OptionError(f"the window {self} is reversed: its start is after its end")
        lo, hi = self.offsets
        if lo >= hi:
            why = "it contains no whole second, as dates of observations are"
            raise OptionError(f'the window {self} is empty: {why}; use "[0,0]" for the second of the sample itself')

    @property
    def offsets(self) -> tuple[int, int]:
        """First second of the window and the second after its last, relative to the sample's date."""
        lo = -(-self.start // 1) if self.closed_start else self.start // 1 + 1
        hi = self.end // 1 + 1 if self.closed_end else -(-self.end // 1)
        return int(lo), int(hi)

    def epochs(self, date: int) -> tuple[int, int]:
        """Return the seconds of the window as a half-open range: it contains an observation at t if lo <= t < hi."""
        lo, hi = self.offsets
        return date + lo, date + hi

    @classmethod
    def of(cls, value: str | Self) -> Window:
        """Return `value` if it is a window, else the window that its text describes."""
        return value if isinstance(value, Window) else parse_window(value)

    def __str__(self) -> str:
        left, right = "[" if self.closed_start else "(", "]" if self.closed_end else ")"
        return f"{left}{format_duration(self.start)},{format_duration(self.end)}{right}"


def parse_window(text: Any) -> Window:
    """Return the window that a text describes: ``(-3,+3]`` in hours, ``(-1d,0]``, ``[-PT90M,06:00)``."""
    wrong = f'{shown(text)} is not a window such as "(-3,+3]" or "[-1d,0]"'
    if not isinstance(text, str) or len(text) > 2 * _MOST_TEXT:
        raise OptionError(wrong)
    match = _WINDOW.fullmatch(text)
    if match is None:
        raise OptionError(f"{wrong}: write two spans of time, separated by a comma, in round or square brackets")
    left, start, end, right = match.groups()
    try:
        ends = parse_duration(start), parse_duration(end)
    except OptionError as error:
        raise OptionError(f"{wrong}: {error.message}") from None
    return Window(*ends, left == "[", right == "]")


#: Start and end of a part of a build, in UTC without a time zone; the end is not included.
Part = tuple[datetime, datetime]


def union(periods: Iterable[Part]) -> list[Part]:
    """Return periods in order, joining those that touch or overlap."""
    out: list[Part] = []
    for start, stop in sorted(periods):
        if out and start <= out[-1][1]:
            out[-1] = out[-1][0], max(out[-1][1], stop)
        else:
            out.append((start, stop))
    return out


def without(parts: Iterable[Part], gaps: Sequence[Part]) -> list[Part]:
    """Return parts without gaps, which are in order."""
    out: list[Part] = []
    for start, stop in parts:
        for a, b in gaps:
            if b <= start or a >= stop:
                continue
            if start < a:
                out.append((start, a))
            start = min(b, stop)  # noqa: PLW2901
        if start < stop:
            out.append((start, stop))
    return out


#: Largest number of parts; more are assumed to be a mistake in the frequency or in group_by.
MOST_PARTS = 1_000_000


def as_duration(value: object) -> timedelta:
    """Return a positive duration; a whole number is in hours."""
    try:
        seconds = Fraction(0) if isinstance(value, float) else parse_duration(value)
    except OptionError:
        seconds = Fraction(0)
    micros = seconds * 10**6
    if micros <= 0 or micros.denominator != 1:
        raise ValueError(f"{value!r} is not a duration above 0; write 6h, 1d, 30min, 10s, 1:30:00 or PT6H")
    return timedelta(microseconds=int(micros))


def as_date(value: object, *, end: bool = False) -> datetime:
    """Return a date in UTC, without a time zone; as `end`, a year or month (not a day) means its last second."""
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

    def parts(self, group_by: object = "monthly") -> list[Part]:
        """Return the ranges that a build reads one by one: by number of dates, calendar unit or duration, or all."""
        many = (
            f"group_by {group_by!r} cuts the dates from {self.start} to {self.last} into more than {MOST_PARTS} parts; "
            "use longer parts"
        )
        if len(self) // self._steps(group_by) > MOST_PARTS:
            raise LimitError(many)
        parts = without(self._groups(group_by), self.missing)
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
        """Return the first date of the group that follows the one starting at a date."""
        if group_by is None:
            return self.stop
        edge = _calendar_edge(start, group_by) if isinstance(group_by, str) else None
        if edge is not None and edge >= self.stop:
            return self.stop
        steps = self._steps(group_by) if edge is None else -((start - edge) // self.frequency)
        return start + min(steps, len(self)) * self.frequency

    def _steps(self, group_by: object) -> int:
        """Return the number of dates in a group; for calendar units, that of the whole period."""
        if group_by is None or (isinstance(group_by, str) and _calendar_edge(self.start, group_by) is not None):
            return len(self)
        if isinstance(group_by, int) and not isinstance(group_by, bool) and group_by > 0:
            return group_by
        return -(-as_duration(group_by) // self.frequency)


def _calendar_edge(day: datetime, word: str) -> datetime | None:
    """Return the start of the next calendar unit, or `None` for other words."""
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
