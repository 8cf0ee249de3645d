"""The dates of the samples: from `start` in steps of `frequency`, not beyond `end`.

All dates are UTC, in the proleptic Gregorian calendar, of whole seconds, and held as seconds since 1970.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from cfagg.cf.durations import format_duration, parse_duration
from cfagg.cf.instants import epoch_text, parse_date
from cfagg.errors import LimitError, OptionError, SelectionError

__all__ = ["SampleDates", "first_second", "last_second", "parse_frequency", "sample_dates", "sample_numbers"]

#: An array of the dates of more samples than this is a mistake.
_MAX_DATES = 10**9


def first_second(value: Any) -> int:
    """Return the first second that `start` means, since 1970."""
    return _span(value)[0]


def last_second(value: Any) -> int:
    """Return the last second that `end` means, since 1970: a year, month or day is meant to its end."""
    return _span(value)[1]


def _span(value: Any) -> tuple[int, int]:
    first, after = parse_date(value)
    if first.denominator != 1:
        raise OptionError(f"{value!s:.64} has a fraction of a second: the dates of samples are whole seconds")
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
                f"the end {epoch_text(self.end)} is before the start {epoch_text(self.start)}: there is no sample"
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
                f"{len(self)} samples from {self} are more than an array of their dates may hold ({_MAX_DATES})"
            )
        return self.start + np.arange(len(self), dtype=np.int64) * self.frequency

    def __str__(self) -> str:
        step = format_duration(Fraction(self.frequency))
        return f"{epoch_text(self.start)} to {epoch_text(self.end)} every {step}"


def sample_dates(start: Any, end: Any, frequency: Any, held: tuple[int, int] | None) -> SampleDates:
    """Return the dates of samples as a user asks for them."""
    if held is None and (start is None or end is None):
        raise OptionError("the store holds no observation, so start= and end= must be given")
    first, last = held or (0, 0)
    return SampleDates(
        first if start is None else first_second(start),
        last if end is None else last_second(end),
        parse_frequency(frequency),
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
        raise SelectionError(f"{key} selects no sample: a number does; a mask has one value per sample")
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
        # Of lists of unequal lengths.
        numbers = np.array(None)
    if numbers.ndim != 1 or (numbers.dtype.kind not in "biu" and numbers.size):
        raise SelectionError(
            f"{key!r:.80} selects no samples: a number, a slice, numbers in a row, or a mask of all samples does"
        )
    if numbers.dtype == bool:
        if len(numbers) != count:
            raise SelectionError(f"a mask of {len(numbers)} samples does not fit: there are {count}{extent()}")
        return np.flatnonzero(numbers)
    beyond = (numbers >= count) | (numbers < -count)
    if beyond.any():
        raise SelectionError(f"there is no sample {numbers[beyond][0]}: there are {count}{extent()}")
    return numbers.astype(np.int64) % max(count, 1)
