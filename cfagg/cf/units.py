"""The conversion of values from one unit to another.

Units with the same spelling need no conversion and load no library.  Others are converted by cfunits; reference times
are compared by their calendars (`cfagg.cf.calendars`), never by that of UDUNITS.

Sources: CF sections 3.1 and 4.4; NCA 0.1, "units" and "calendar".
"""

from __future__ import annotations

import math
import re
from fractions import Fraction
from functools import lru_cache

from cfagg.errors import UnitsError

__all__ = ["SAME", "Linear", "linear", "linear_exact", "plain_units"]

#: Exact scale and offset; a chain of them is rounded once, when the values are computed.
Linear = tuple[Fraction, Fraction]

#: The identity.
SAME: Linear = (Fraction(1), Fraction(0))

#: UDUNITS itself is off by some units in the last place, and by more if an offset such as 273.15 is involved.
_ROUND_OFF = 4e-15

#: cfunits reads these as the number 1, which would make decibels convert to ratios by a factor.
_LEVELS = re.compile(r"(?<![A-Za-z])(dB|decibels?|debicels|bels?|Np|nepers?)(?![A-Za-z])")


def linear(source: str, target: str) -> tuple[float, float]:
    """Return (scale, offset) that convert values from `source` to `target`; raise `UnitsError` if there are none."""
    scale, offset = linear_exact(source, target)
    return float(scale), float(offset)


@lru_cache(maxsize=1024)
def linear_exact(source: str, target: str) -> Linear:
    """Return scale and offset between two units as exact fractions; see `linear`."""
    if plain_units(source) == plain_units(target):
        return SAME
    for text in (source, target):
        if _LEVELS.search(text):
            raise UnitsError(f"units {source!r} cannot be converted to {target!r}: {text!r} is logarithmic")
    from cfagg.cf.udunits import converter

    try:
        convert = converter(plain_units(source), plain_units(target))
    except UnitsError as error:
        raise UnitsError(f"units {source!r} cannot be converted to {target!r}: {error.message}") from None
    zero = convert(0.0)
    # The wide span makes the round-off of the offset negligible.
    span = 2.0**40
    with_round_off = (convert(span) - convert(-span)) / (2 * span)
    if not (math.isfinite(zero) and math.isfinite(with_round_off) and with_round_off):
        raise _not_linear(source, target)
    scale = _simple(with_round_off, _ROUND_OFF * abs(with_round_off))
    tolerance = _ROUND_OFF * max(abs(zero), 300.0 * abs(with_round_off))
    offset = _simple(zero, tolerance) if abs(zero) > tolerance else Fraction(0)
    for probe in (1.0, -40.0, 1e5, -1e-3):
        found, expected = convert(probe), float(scale * Fraction(probe) + offset)
        if not math.isclose(found, expected, rel_tol=1e-12, abs_tol=1e-12 * max(abs(zero), abs(with_round_off))):
            raise _not_linear(source, target)
    return scale, offset


def _not_linear(source: str, target: str) -> UnitsError:
    return UnitsError(
        f"units {source!r} cannot be converted to {target!r} by a scale and an offset; convert the values first"
    )


def _simple(value: float, tolerance: float) -> Fraction:
    """Return the simple fraction that a computed number approximates, or the number itself."""
    for inverse in (False, True):
        exact = 1 / Fraction(value) if inverse else Fraction(value)
        near = exact.limit_denominator(10_000)
        if near and abs((1 / near if inverse else near) - Fraction(value)) <= tolerance:
            return 1 / near if inverse else near
    return Fraction(value)


def plain_units(units: str | None) -> str:
    """Return units with single spaces; missing units mean the number 1."""
    return " ".join(str(units).split()) or "1" if units is not None else "1"
