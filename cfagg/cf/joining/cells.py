"""Conditions on sizes and spacings of cells, such as those that separate daily and monthly means of one quantity."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from cfagg.cf.joining.described import Coordinate
from cfagg.cf.joining.values import canonical_values
from cfagg.cf.kinds_of_units import convertible, is_reference_time, known, split_reference
from cfagg.cf.roles import axis_of
from cfagg.cf.units import linear
from cfagg.errors import CfaggError, OptionError

__all__ = ["Condition", "Conditions", "Range", "check_units", "condition_of", "conditions_of"]


class Range(NamedTuple):
    """A closed range of lengths with units."""

    low: float
    high: float
    units: str

    def __str__(self) -> str:
        numbers = f"{self.low:g}" if self.low == self.high else f"{self.low:g} to {self.high:g}"
        return f"{numbers} {self.units}".rstrip()


class Condition(NamedTuple):
    """A condition on the sizes of cells, on the distances of coordinates, or on both."""

    cellsize: Range | None = None
    spacing: Range | None = None

    def __str__(self) -> str:
        said = [f"{n} {r}" for n, r in (("cellsize", self.cellsize), ("spacing", self.spacing)) if r is not None]
        return " and ".join(said)


#: By identity of a coordinate or letter of an axis.
Conditions = tuple[tuple[str, tuple[Condition, ...]], ...]

_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_TEXT = re.compile(rf"\s*({_NUMBER})(?:\s+to\s+({_NUMBER}))?\s*(.*?)\s*")
#: Variable lengths in days, as in cf-python.
_VAGUE = {"month": (28.0, 31.0), "year": (300.0, 366.0)}


def conditions_of(given: Any) -> Conditions:
    """Return the checked conditions of a user; `True` means common frequencies.

    >>> conditions_of({"T": {"cellsize": "1 month"}})
    (('T', (Condition(cellsize=Range(low=28.0, high=31.0, units='days'), spacing=None),)),)
    """
    if given is None or given is False:
        return ()
    if given is True:
        given = {"T": _common()}
    if isinstance(given, tuple):
        given = dict(given)
    if not isinstance(given, Mapping):
        raise OptionError(f"cells={given!r}: it must be a mapping of coordinates to conditions, True or None")
    found = []
    for key, several in given.items():
        each = (several,) if isinstance(several, Mapping | Condition) else several
        if not isinstance(key, str) or not isinstance(each, Iterable) or isinstance(each, str):
            raise OptionError(f"cells={{{key!r}: {several!r}}}: each coordinate has one condition or a list of them")
        found.append((key, tuple(_condition(one) for one in each)))
    return tuple(found)


def condition_of(own: Coordinate, conditions: Any) -> str:
    """Return the first condition that a coordinate fulfils, or "" if there is none."""
    several = next((c for key, c in conditions if key in _names(own)), ())
    if own.values.dtype.kind not in "iuf" or own.index:
        return ""
    values = canonical_values(own).astype(np.float64)
    sizes = np.zeros(1)
    if own.bounds is not None:
        bounds = canonical_values(own, own, bounds=True).astype(np.float64)
        sizes = bounds.max(axis=1) - bounds.min(axis=1)
    units = _lengths_of(own)
    for one in several:
        if _fulfils(sizes, one.cellsize, units) and _fulfils(np.abs(np.diff(values)), one.spacing, units):
            return str(one)
    return ""


def check_units(conditions: Conditions, coordinates: Iterable[Coordinate]) -> None:
    """Raise an error for a condition whose units convert to those of none of its coordinates: nothing fulfils it."""
    own = {(_names(c), _lengths_of(c)) for c in coordinates if not c.index}
    for key, several in conditions:
        there = sorted({units for names, units in own if key in names})
        for wanted in (each for one in several for each in one if each is not None):
            if there and not any(convertible(units or "1", wanted.units or "1") for units in there):
                raise OptionError(
                    f"cells={{{key!r}: …}}: {str(wanted)!r} has units that do not convert to those of the coordinate, "
                    f"{' or '.join(map(repr, there))}"
                )


def _names(own: Coordinate) -> tuple[str, str | None]:
    """Return the names by which conditions refer to a coordinate: its identity and the letter of its axis."""
    return own.identity, axis_of(own.stated.attributes)


def _lengths_of(own: Coordinate) -> str:
    """Return the units of differences of a coordinate: those of a reference time without their origin."""
    units = own.units or ""
    parts = split_reference(units) if is_reference_time(units) else None
    return units if parts is None else parts[0]


def _fulfils(found: npt.NDArray[np.float64], wanted: Range | None, units: str) -> bool:
    """Return whether all of some distances are in a range; a single coordinate has no distances."""
    if wanted is None or not found.size:
        return True
    if not convertible(units or "1", wanted.units or "1"):
        return False
    try:
        scale, _ = linear(units or "1", wanted.units or "1")
    except CfaggError:
        return False
    found = found * abs(scale)
    tolerance = 1e-6 * max(abs(wanted.low), abs(wanted.high), 1e-6)
    return bool(((found >= wanted.low - tolerance) & (found <= wanted.high + tolerance)).all())


def _condition(given: Any) -> Condition:
    if isinstance(given, Condition):
        return given
    if not isinstance(given, Mapping) or not given or set(given) - {"cellsize", "spacing"}:
        raise OptionError(f"cells: {given!r} is not a condition: give 'cellsize', 'spacing' or both")
    return Condition(**{name: None if text is None else _range(text) for name, text in given.items()})


def _range(text: Any) -> Range:
    if isinstance(text, Range):
        return text
    found = _TEXT.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        raise OptionError(f"cells: {text!r} is not a size: write '1 day' or '28 to 31 days'")
    low = float(found[1])
    high = low if found[2] is None else float(found[2])
    vague = _VAGUE.get(found[3].removesuffix("s"))
    if vague is not None:
        if (low, high) != (1, 1):
            raise OptionError(f"cells: {text!r}: only single months and years have a length; write days")
        return Range(*vague, "days")
    if not known(found[3] or "1"):
        raise OptionError(f"cells: {text!r}: {found[3]!r} is not a unit of UDUNITS; write '1 day' or '28 to 31 days'")
    return Range(min(low, high), max(low, high), found[3])


def _common() -> list[dict[str, str]]:
    hours = [{"cellsize": f"{n} hours"} for n in (1, 3, 6)]
    instants = [{"cellsize": "0 hours", "spacing": f"{n} hours"} for n in (1, 3, 6)]
    both = [one for pair in zip(hours, instants, strict=True) for one in pair]
    return [*both, {"cellsize": "1 day"}, {"cellsize": "1 month"}, {"cellsize": "1 year"}]
