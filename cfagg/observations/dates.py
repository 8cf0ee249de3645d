"""The dates of the samples: from `start` in steps of `frequency`, not beyond `end`.

All dates are UTC, in the proleptic Gregorian calendar, of whole seconds, and held as seconds since 1970.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from cfagg.cf.durations import format_duration, parse_duration
from cfagg.cf.instants import epoch_text, parse_date
from cfagg.errors import LimitError, OptionError

__all__ = ["SampleDates", "first_second", "last_second", "parse_frequency", "sample_dates"]

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
