"""The time coordinates of a dataset: their parsed units and their calendars.

Sources: CF sections 4.4 to 4.4.6.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from cfagg.cf.datetimes import Datetime, calendar_name, parse_datetime
from cfagg.cf.kinds_of_units import is_time, split_reference
from cfagg.checking.context import Context, once
from cfagg.findings.finding import Edit
from cfagg.model.dataset import Variable

__all__ = ["EXPLICIT", "TIME_NAMES", "Time", "calendar_of", "edits", "explicit", "extent", "times", "unit_words"]

#: Standard names of instants.
TIME_NAMES = frozenset({"time", "forecast_reference_time", "reference_epoch"})

#: Attributes that define a calendar by the lengths of its months.
EXPLICIT = ("month_lengths", "leap_year", "leap_month")

#: Units of time with separate names in UDUNITS, in the singular.
_NAMES = {
    "second", "sec", "min", "minute", "hour", "day", "week", "fortnight", "month", "year", "tropical_year",
    "common_year", "leap_year", "Julian_year", "Gregorian_year", "sidereal_day", "sidereal_hour", "sidereal_minute",
    "sidereal_second", "sidereal_month", "sidereal_year", "lunar_month", "shake", "eon", "hr", "yr",
}  # fmt: skip
_SYMBOLS = {"s", "min", "h", "hr", "d", "yr"}
_LONG = (
    "deca", "deka", "hecto", "kilo", "mega", "giga", "tera", "peta", "exa", "zetta", "yotta", "deci", "centi",
    "milli", "micro", "nano", "pico", "femto", "atto", "zepto", "yocto",
)  # fmt: skip
_SHORT = ("da", "h", "k", "M", "G", "T", "P", "E", "Z", "Y", "d", "c", "m", "u", "µ", "μ", "n", "p", "f", "a", "z", "y")


class Time(NamedTuple):
    """A variable of time coordinates with its units ``unit word text``, such as ``days since 2000-01-01``.

    `datetime` is the parsed text, or `None` if it does not begin with a number. `calendar` is the name used here, or
    `None` for a calendar that CF does not list or that is defined by its months.
    """

    variable: Variable
    unit: str
    word: str
    text: str
    datetime: Datetime | None
    calendar: str | None


def explicit(v: Variable) -> bool:
    """Whether a variable defines its own calendar by the lengths of the months."""
    return "month_lengths" in v.attributes


def calendar_of(v: Variable) -> str | None:
    """Return the name used here for the calendar of a variable, as in `Time`."""
    if "calendar" not in v.attributes:
        return None if explicit(v) else "standard"
    text = v.text("calendar")
    return None if text is None else calendar_name(text)


def _named(v: Variable) -> bool:
    """Whether the axis or the standard name marks a variable as times."""
    return (v.text("standard_name") or "").strip() in TIME_NAMES or (v.text("axis") or "").strip().upper() == "T"


@once
def time_like(c: Context) -> set[Variable]:
    """Return all variables with any sign of being time coordinates, whatever their units.

    These are coordinates with units of a reference time, an axis T or a standard name of instants, and other variables
    with such units and one of the other signs.
    """
    found = set()
    coordinates = c.roles.coordinates
    for v in c.dataset.variables:
        if not v.attributes or v.is_text or v in c.roles.bounds or v in c.roles.climatology:
            continue
        reference = split_reference(v.text("units") or "") is not None
        if v in coordinates:
            # A coordinate in days, with a calendar but no standard name, is a time with incomplete units.
            nameless = "calendar" in v.attributes and "standard_name" not in v.attributes
            if reference or _named(v) or (nameless and is_time(v.text("units") or "")):
                found.add(v)
        elif reference and _named(v):
            found.add(v)
    return found


@once
def times(c: Context) -> list[Time]:
    """Return the time coordinates that have units of a reference time, in order."""
    like = [v for v in c.dataset.variables if v in time_like(c)]
    found = ((v, split_reference(v.text("units") or "")) for v in like)
    return [Time(v, *parts, parse_datetime(parts[2]), calendar_of(v)) for v, parts in found if parts is not None]


@lru_cache(maxsize=256)
def unit_words(unit: str) -> tuple[tuple[str, str], ...]:
    """Return (prefix, unit) of each name in a unit of time; the unit is in the singular."""
    names = "".join(ch if ch.isalpha() or ch == "_" else " " for ch in unit[:200]).split()
    return tuple(_split_prefix(name) for name in names)


def _split_prefix(name: str) -> tuple[str, str]:
    whole = _base(name)
    if whole is not None:
        return "", whole
    for prefix in _LONG:
        if name.lower().startswith(prefix):
            base = _base(name[len(prefix) :])
            if base is not None:
                return prefix, base
    for prefix in _SHORT:
        base = _base(name[len(prefix) :]) if name.startswith(prefix) else None
        if base is not None:
            return prefix, base
    return "", name


def _base(name: str) -> str | None:
    if name in _SYMBOLS:
        return name
    for form in (name, name.removesuffix("s")):
        if form in _NAMES or form.lower() in _NAMES:
            return form if form in _NAMES else form.lower()
    return None


def edits(c: Context, v: Variable, attribute: str, value: str) -> tuple[Edit, ...]:
    """Return the edits that change an attribute of a time and of bounds variables that repeat it."""
    same = [b for b in c.targets(v, "bounds", "climatology") if b.text(attribute) == v.text(attribute)]
    return tuple(Edit(x.path, attribute, value) for x in (v, *same))


def extent(v: Variable) -> tuple[float, float] | None:
    """Return the smallest and largest unpacked value that is not missing, or `None` if there are none."""
    from cfagg.checking.missing import missing_mask, unpacked

    if not v.is_numeric or v.dialect is not None:
        return None  # the values of an aggregation are in other files
    low, high = np.inf, -np.inf
    for block in v.blocks():
        real = np.asarray(unpacked(v, block), np.float64)[~missing_mask(v, block)]
        real = real[np.isfinite(real)]
        if real.size:
            low, high = min(low, float(real.min())), max(high, float(real.max()))
    return (low, high) if low <= high else None
