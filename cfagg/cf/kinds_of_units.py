"""What units are: known, alike, times, temperatures, latitudes.

All answers are given by UDUNITS-2 and kept; none of the functions raises for any text.

Sources: CF sections 3.1, 4.1, 4.2 and 4.4; UDUNITS-2.
"""

from __future__ import annotations

import re
from functools import lru_cache

from cfagg.cf.base_units import LONGEST, meaning
from cfagg.cf.roles import LATITUDE_UNITS, LONGITUDE_UNITS

__all__ = [
    "convertible",
    "is_dimensionless",
    "is_logarithmic",
    "is_pressure",
    "is_reference_time",
    "is_temperature",
    "is_time",
    "known",
    "latitude_units",
    "longitude_units",
    "split_reference",
]

latitude_units, longitude_units = LATITUDE_UNITS, LONGITUDE_UNITS

#: A reference time: a unit, one of the words that UDUNITS knows, and what should be a datetime.
_REFERENCE = re.compile(r"(?:^|\s)(?:since|after|from|ref)(?:\s|$)|@", re.IGNORECASE)

#: Names of units within a text.
_NAMES = re.compile(r"[^\W\d_]\w*?(?=-?\d|\W|\b)|°[A-Za-z]*")


def known(text: str) -> bool:
    """Whether UDUNITS knows the units.

    >>> known("W m-2"), known("days since 2000-01-01"), known("sigma_level")
    (True, True, False)
    """
    return meaning(text) is not None


def convertible(a: str, b: str) -> bool:
    """Whether values in one of two units become those in the other by a factor and an offset (CF section 3.1).

    Reciprocals, logarithms and, among themselves, reference times and durations do not.

    >>> convertible("hPa", "Pa"), convertible("s", "s-1"), convertible("dBZ", "m3"), convertible("s", "s since 1-1-1")
    (True, False, False, False)
    """
    one = meaning(a)
    return one is not None and one == meaning(b)


def is_dimensionless(text: str) -> bool:
    """Whether it is a number such as ``1``, ``percent``, ``mg kg-1`` or ``degree``.

    >>> is_dimensionless("1e-6"), is_dimensionless("m")
    (True, False)
    """
    found = meaning(text)
    return found is not None and not (found.dimension or found.logarithmic)


def is_logarithmic(text: str) -> bool:
    """Whether values are logarithms of a ratio to a reference level, as with ``dBZ``."""
    found = meaning(text)
    return found is not None and found.logarithmic


def is_pressure(text: str) -> bool:
    """Whether it is a unit of pressure.

    >>> is_pressure("dbar"), is_pressure("m")
    (True, False)
    """
    return convertible(text, "Pa")


def is_time(text: str) -> bool:
    """Whether it is a duration.

    >>> is_time("days"), is_time("days since 2000-01-01")
    (True, False)
    """
    return convertible(text, "s")


@lru_cache(maxsize=1024)
def split_reference(text: str) -> tuple[str, str, str] | None:
    """Return unit, word and datetime of a reference time, `None` for other units; the datetime may be anything.

    >>> split_reference("days  since 2000-02-30")
    ('days', 'since', '2000-02-30')
    >>> split_reference("K @ 273.15") is None
    True
    """
    if len(text) > LONGEST:
        return None
    match = _REFERENCE.search(text)
    if match is None or not is_time(text[: match.start()]) or not text[: match.start()].strip():
        return None
    return text[: match.start()].strip(), match[0].strip(), text[match.end() :].strip()


def is_reference_time(text: str) -> bool:
    """Whether it is a duration since an instant, however the instant is written.

    >>> is_reference_time("days since 2000-02-30"), is_reference_time("days")
    (True, False)
    """
    return split_reference(text) is not None


@lru_cache(maxsize=1024)
def is_temperature(text: str) -> bool:
    """Whether a unit of temperature is involved, also multiplied by others or raised to a power.

    >>> is_temperature("degC"), is_temperature("W m-2 K-1"), is_temperature("J"), is_temperature("K K-1")
    (True, True, False, True)
    """
    found = meaning(text)
    if found is None or found.reference:
        return False
    if any(unit == "K" for unit, _ in found.dimension):
        return True
    names = set(_NAMES.findall(text))
    return not found.dimension and any(convertible(name, "K") for name in names)
