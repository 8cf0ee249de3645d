"""Time spans in common notations: hours, numbers with units, clock times and ISO 8601, in seconds, exactly."""

from __future__ import annotations

import datetime as dt
import re
from fractions import Fraction
from typing import Any

import numpy as np

from cfagg.errors import OptionError
from cfagg.errors.arguments import shown

__all__ = ["format_duration", "parse_duration"]


#: Seconds of a unit, by the abbreviations in use.
_UNITS = {
    **dict.fromkeys(("w", "week", "weeks"), 604800),
    **dict.fromkeys(("d", "day", "days"), 86400),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), 3600),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), 60),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1),
}
_NUMBER = r"(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)"
_SIGNED = re.compile(r"([+-]?)\s*(.*)", re.DOTALL)
_PLAIN = re.compile(_NUMBER)
_RATIO = re.compile(r"([0-9]+)/([0-9]+)\s*([a-z]*)")
_TERM = re.compile(rf"\s*({_NUMBER})\s*([a-z]+)")
_CLOCK = re.compile(r"(?:([0-9]+) days?, )?([0-9]+):([0-9]{1,2})(?::([0-9]{1,2}(?:\.[0-9]+)?))?")
_ISO = re.compile(
    rf"p(?:({_NUMBER})w)?(?:({_NUMBER})d)?(?:t(?=[0-9.])(?:({_NUMBER})h)?(?:({_NUMBER})m)?(?:({_NUMBER})s)?)?"
)
#: Longer text is a mistake, and would only cost time.
_MAX_TEXT = 100
#: Offsets beyond 100,000 years are a mistake; epochs stay far from the limits of int64.
_MAX_SECONDS = 3_155_760_000_000
_FORMS = 'hours such as 3 or 1.5, a unit such as "1d", "6h", "30min", "10s", a clock "06:00", or ISO 8601 "P1DT6H"'


def parse_duration(value: Any) -> Fraction:
    """Return a time span in seconds, exactly."""
    if isinstance(value, str):
        seconds = _from_text(value)
    elif isinstance(value, np.timedelta64):
        seconds = _from_numpy(value)
    elif isinstance(value, dt.timedelta):
        seconds = Fraction(value // dt.timedelta(microseconds=1), 10**6)
        # A pandas timedelta, which stores nanoseconds separately.
        seconds += Fraction(int(getattr(value, "nanoseconds", 0)), 10**9)
    elif isinstance(value, (int, float, Fraction, np.integer, np.floating)) and not isinstance(value, bool):
        if isinstance(value, (float, np.floating)) and not np.isfinite(value):
            raise OptionError(f"{shown(value)} is not a span of time: it must be {_FORMS}")
        exact = value if isinstance(value, (int, Fraction)) else Fraction(repr(float(value)))
        seconds = Fraction(exact) * 3600
    else:
        raise OptionError(f"{shown(value)} is not a span of time: it must be {_FORMS}")
    if abs(seconds) > _MAX_SECONDS:
        raise OptionError(f"{value!r} is longer than 100,000 years")
    return seconds


def _from_numpy(value: np.timedelta64) -> Fraction:
    if np.isnat(value):
        raise OptionError("NaT is not a span of time")
    unit, count = np.datetime_data(value.dtype)
    if unit in {"Y", "M", "generic"}:
        raise OptionError(f"{value!r} has no fixed length: use days, hours, minutes or seconds")
    whole = {"W": 604800, "D": 86400, "h": 3600, "m": 60, "s": 1}
    parts = {"ms": 10**3, "us": 10**6, "ns": 10**9, "ps": 10**12, "fs": 10**15, "as": 10**18}
    size = Fraction(whole[unit]) if unit in whole else Fraction(1, parts[unit])
    return int(value.astype(np.int64)) * count * size


def _from_text(text: str) -> Fraction:
    wrong = f"{text[:_MAX_TEXT]!r} is not a span of time: it must be {_FORMS}"
    if len(text) > _MAX_TEXT:
        raise OptionError(wrong)
    signed = _SIGNED.fullmatch(text.strip().lower())
    sign, body = ("", "") if signed is None else signed.groups()
    seconds = _unsigned(body)
    if seconds is None:
        if re.fullmatch(r"p.*[0-9][ym].*|.*[0-9]\s*(y|yr|year|mo|mon|month)s?", body.partition("t")[0]):
            wrong = f"{text!r} has no fixed length, since months and years differ: use days, hours, minutes or seconds"
        raise OptionError(wrong)
    if sign == "-" and (clock := _CLOCK.fullmatch(body)) is not None and clock[1]:
        # As Python writes a negative timedelta: "-1 day, 18:00:00" is six hours before.
        return seconds - 2 * 86400 * int(clock[1])
    return -seconds if sign == "-" else seconds


def _unsigned(body: str) -> Fraction | None:
    """Return the seconds of text without a sign, or `None` if it is not understood."""
    if _PLAIN.fullmatch(body):
        return Fraction(body) * 3600
    if match := _RATIO.fullmatch(body):
        above, below, unit = match.groups()
        size = _UNITS.get(unit or "h")
        return None if size is None or not int(below) else Fraction(int(above), int(below)) * size
    if match := _CLOCK.fullmatch(body):
        days, hours, minutes, rest = match.groups(default="0")
        if int(minutes) >= 60 or Fraction(rest) >= 60:
            return None
        return int(days) * 86400 + int(hours) * 3600 + int(minutes) * 60 + Fraction(rest)
    if (match := _ISO.fullmatch(body)) and any(match.groups()):
        sizes = (604800, 86400, 3600, 60, 1)
        return sum((Fraction(n) * size for n, size in zip(match.groups(), sizes, strict=True) if n), Fraction(0))
    return _terms(body)


def _terms(body: str) -> Fraction | None:
    """Return the seconds of ``1d12h30min``, with units from large to small, each at most once."""
    total, at, last = Fraction(0), 0, 10**9
    while at < len(body):
        match = _TERM.match(body, at)
        size = None if match is None else _UNITS.get(match[2])
        if match is None or size is None or size >= last:
            return None
        total, at, last = total + Fraction(match[1]) * size, match.end(), size
    return total if at else None


def format_duration(seconds: Fraction) -> str:
    """Return text that `parse_duration` reads as the same time span."""
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds and not seconds % size:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"
