"""The meaning of units: whether they are known, convertible, times, or temperatures.

All answers come from UDUNITS-2 and are cached. No text raises an error; only a missing library raises
`MissingExtraError`.

Sources: CF sections 3.1, 4.1, 4.2 and 4.4; UDUNITS-2.
"""

from __future__ import annotations

import os
import re
from functools import lru_cache
from typing import NamedTuple

from cfagg.cf.common_units import COMMON
from cfagg.cf.udunits import LONGEST, XML, definition

__all__ = [
    "OF_CFTIME", "convertible", "is_dimensionless", "is_logarithmic", "is_pressure", "is_reference_time",
    "is_temperature", "is_time", "known", "meaning", "split_reference",
]  # fmt: skip

#: Units of time that are known to cftime but not to UDUNITS.
OF_CFTIME = frozenset({"mins", "hrs"})

#: The separator between the unit and the instant of a reference time.
_SINCE = re.compile(r"\s*@|(?:^|\s+)(?:since|after|from|ref)(?![^\W\d])", re.IGNORECASE)

#: A number by which UDUNITS shifts a unit; integers are years.
_SHIFT = re.compile(r"[-+]?(?:\d+\.\d*|\.\d+|\d+(?=[eE]))(?:[eE][-+]?\d+)?")

#: A plain reference time.
_PLAIN = re.compile(
    r"(\w+) since \d{4}-(?:0?[1-9]|1[0-2])-(?:0?[1-9]|1\d|2[0-8])"
    r"(?:[T ](?:[01]?\d|2[0-3]):[0-5]?\d(?::[0-5]?\d(?:\.\d{1,6})?)?Z?)?",
    re.ASCII,
)

#: A base unit with its exponent in the output of UDUNITS, as in ``0.1 kg.s-3.K-1``; not the e of ``1e-06``.
_BASE = re.compile(r"(?<!\w)([A-Za-z]+)(-?\d+)?")

#: Names of units within a text.
_NAMES = re.compile(r"[^\W\d_]\w*?(?=-?\d|\W|\b)|°[A-Za-z]*")


class Meaning(NamedTuple):
    """The meaning of units: base units with their exponents, without radians, which are numbers.

    Logarithmic units are for ratios to a reference level of that dimension, and reference units for times since an
    instant.
    """

    dimension: frozenset[tuple[str, int]]
    logarithmic: bool
    reference: bool


@lru_cache(maxsize=4096)
def meaning(text: str) -> Meaning | None:
    """Return the meaning of `text` in UDUNITS, or `None` if it is unknown."""
    text = text.strip()
    found = _common(text) or definition(text)
    if found is None:
        return None
    plain, _, origin = found.partition("@")
    units = _BASE.findall(plain.partition("(re ")[2] if "(re " in plain else plain)
    dimension = frozenset((unit, int(power or 1)) for unit, power in units if unit != "rad")
    return Meaning(dimension, "(re " in plain, origin.endswith("UTC"))


def _common(text: str) -> str | None:
    """Return the definition of common units, including times since a day that every calendar of UDUNITS has."""
    if XML in os.environ:
        return None  # units may be redefined
    if text in COMMON:
        return COMMON[text]
    since = _PLAIN.fullmatch(text)
    unit = COMMON.get(since[1], "") if since else ""
    return f"({unit}) @ UTC" if re.fullmatch(r"(\d+ )?s", unit) else None


def known(text: str) -> bool:
    """Whether UDUNITS knows the units."""
    return meaning(text) is not None


def convertible(a: str, b: str) -> bool:
    """Whether values convert between two units by a factor and an offset (CF section 3.1)."""
    one = meaning(a)
    return one is not None and one == meaning(b)


def is_dimensionless(text: str) -> bool:
    """Whether units are a number such as ``1``, ``percent``, ``mg kg-1`` or ``degree``."""
    found = meaning(text)
    return found is not None and not (found.dimension or found.logarithmic)


def is_logarithmic(text: str) -> bool:
    """Whether values are logarithms of a ratio to a reference level, as with ``dBZ``."""
    found = meaning(text)
    return found is not None and found.logarithmic


def is_pressure(text: str) -> bool:
    """Whether units are those of a pressure.

    >>> is_pressure("dbar"), is_pressure("m")
    (True, False)
    """
    return convertible(text, "Pa")


def is_time(text: str) -> bool:
    """Whether units are those of a duration."""
    return convertible(text, "s")


@lru_cache(maxsize=1024)
def split_reference(text: str) -> tuple[str, str, str] | None:
    """Return unit, word and datetime (which may be anything) of a reference time, or `None` for other units.

    >>> split_reference("days  since 2000-02-30")
    ('days', 'since', '2000-02-30')
    >>> split_reference("K @ 273.15") is None
    True
    """
    match = _SINCE.search(text) if len(text) <= LONGEST else None
    if match is None:
        return None
    unit, datetime = text[: match.start()].strip(), text[match.end() :].strip()
    if _SHIFT.fullmatch(datetime) or not unit or not (unit.lower() in OF_CFTIME or is_time(unit)):
        return None
    return unit, match[0].strip(), datetime


def is_reference_time(text: str) -> bool:
    """Whether units are a duration since an instant, written in any form."""
    return split_reference(text) is not None


@lru_cache(maxsize=1024)
def is_temperature(text: str) -> bool:
    """Whether units contain one of temperature, even in a product or raised to a power."""
    found = meaning(text)
    if found is None or found.reference:
        return False
    if any(unit == "K" for unit, _ in found.dimension):
        return True
    names = set(_NAMES.findall(text))
    return not found.dimension and any(convertible(name, "K") for name in names)
