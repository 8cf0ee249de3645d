"""The dates of the samples: from `start` in steps of `frequency`, not beyond `end`.

All dates are UTC, in the proleptic Gregorian calendar, of whole seconds, and held as seconds since 1970.
"""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from cfagg.errors import LimitError, OptionError
from cfagg.observations.windows import format_duration, parse_duration

__all__ = ["SampleDates", "epoch_text", "first_second", "last_second", "parse_frequency", "sample_dates"]

_TEXT = re.compile(
    r"([0-9]{4})(?:-?([0-9]{2})(?:-?([0-9]{2}))?)?"
    r"(?:[T ]([0-9]{2})(?::?([0-9]{2})(?::?([0-9]{2})(?:\.([0-9]{1,9}))?)?)?\s*(Z|UTC|[+-][0-9]{2}(?::?[0-9]{2})?)?)?",
    re.IGNORECASE,
)

#: An array of the dates of more samples than this is a mistake.
_MAX_DATES = 10**9

_FORMS = (
    'a year 1979, a month "1979-05" or 197905, a day "1979-05-31" or 19790531, '
    'a full time "1979-05-31T06:00:00", a datetime or a numpy.datetime64'
)

_DAY = 86400


def first_second(value: Any) -> int:
    """Return the first second that `start` means, since 1970."""
    return _span(value)[0]


def last_second(value: Any) -> int:
    """Return the last second that `end` means, since 1970: a year, month or day is meant to its end."""
    return _span(value)[1] - 1


def epoch_text(epoch: int | np.integer[Any]) -> str:
    """Return a date in ISO 8601, such as ``1970-01-01T00:00:00``, from seconds since 1970."""
    return str(np.datetime64(int(epoch), "s"))


def parse_frequency(value: Any) -> int:
    """Return the step between samples in seconds."""
    seconds = parse_duration(value)
    if seconds <= 0 or seconds.denominator != 1:
        raise OptionError(f"the frequency {value!r} must be a positive number of whole seconds")
    return int(seconds)


def _span(value: Any) -> tuple[int, int]:
    """Return the seconds that a date means as a half-open range: one second of a time, all of a year, month, day."""
    if isinstance(value, np.datetime64):
        return _span_of_numpy(value)
    if isinstance(value, dt.datetime):
        return _instant(value, value)
    if isinstance(value, dt.date):
        return _period(value, value.year, value.month, value.day)
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        value = _digits(int(value))
    if isinstance(value, str):
        return _span_of_text(value.strip())
    raise OptionError(f"{value!r} is not a date: it must be {_FORMS}")


def _digits(number: int) -> str:
    text = str(number) if 0 <= number < 10**9 else ""
    if len(text) not in {4, 6, 8}:
        raise OptionError(f"{number} is not a date: as a number it is YYYY, YYYYMM or YYYYMMDD")
    return text


def _span_of_text(text: str) -> tuple[int, int]:
    match = _TEXT.fullmatch(text) if len(text) <= 64 else None
    if match is None:
        raise OptionError(f"{text[:64]!r} is not a date: it must be {_FORMS}")
    year, month, day, hour, minute, second, fraction, zone = match.groups()
    if hour is None:
        return _period(text, int(year), int(month) if month else None, int(day) if day else None)
    if day is None:
        raise OptionError(f"{text!r} is not a date: a time needs a day before it")
    if fraction and int(fraction):
        raise OptionError(f"{text!r} has a fraction of a second: the dates of samples are whole seconds")
    start, _ = _period(text, int(year), int(month), int(day))
    clock = int(hour), int(minute or 0), int(second or 0)
    if clock[1] > 59 or clock[2] > 59 or clock > (24, 0, 0):
        raise OptionError(f"{text!r} is not a date: there is no time {clock[0]:02}:{clock[1]:02}:{clock[2]:02}")
    epoch = start + clock[0] * 3600 + clock[1] * 60 + clock[2] - _zone(zone)
    return epoch, epoch + 1


def _zone(zone: str | None) -> int:
    if zone is None or zone.upper() in {"Z", "UTC"}:
        return 0
    digits = zone[1:].replace(":", "").ljust(4, "0")
    return (1 if zone[0] == "+" else -1) * (int(digits[:2]) * 3600 + int(digits[2:]) * 60)


def _period(value: Any, year: int, month: int | None, day: int | None) -> tuple[int, int]:
    """Return the seconds of a year, month or day as a half-open range."""
    try:
        first = dt.date(year, month or 1, day or 1).toordinal()
    except ValueError as error:
        raise OptionError(f"{value!s:.64} is not a date: {error}") from None
    if day is not None:
        after = first + 1
    elif month is not None:
        after = first + _days_of_month(year, month)
    else:
        after = first + (366 if _leap(year) else 365)
    origin = dt.date(1970, 1, 1).toordinal()
    return (first - origin) * _DAY, (after - origin) * _DAY


def _leap(year: int) -> bool:
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


def _days_of_month(year: int, month: int) -> int:
    return 28 + _leap(year) if month == 2 else 30 + (month in {1, 3, 5, 7, 8, 10, 12})


def _instant(value: Any, time: dt.datetime) -> tuple[int, int]:
    if time != time:  # noqa: PLR0124 - pandas' NaT is a datetime
        raise OptionError("NaT is not a date")
    if time.microsecond or getattr(value, "nanosecond", 0):
        raise OptionError(f"{value!s} has a fraction of a second: the dates of samples are whole seconds")
    delta = time.replace(tzinfo=None) - dt.datetime(1970, 1, 1) - (time.utcoffset() or dt.timedelta())
    epoch = delta // dt.timedelta(seconds=1)
    return epoch, epoch + 1


def _span_of_numpy(value: np.datetime64) -> tuple[int, int]:
    unit = np.datetime_data(value.dtype)[0]
    if np.isnat(value):
        raise OptionError("NaT is not a date")
    if unit in {"Y", "M", "D"}:
        year, *rest = str(value).rsplit("-", {"Y": 0, "M": 1, "D": 2}[unit])
        if re.fullmatch(r"[0-9]{4}", year):
            return _period(value, int(year), *([*(int(r) for r in rest), None, None][:2]))
    epoch = value.astype("datetime64[s]")
    if epoch != value:
        raise OptionError(f"{value} has a fraction of a second: the dates of samples are whole seconds")
    seconds = int(epoch.astype(np.int64))
    return seconds, seconds + 1


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
