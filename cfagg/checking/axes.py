"""Which variables are latitudes, longitudes, vertical coordinates or times.

Sources: CF chapter 4 (units, ``positive``, ``standard_name``, ``axis``), Appendices D and F (names of parametric
vertical and of projection coordinates).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cfagg.cf.kinds_of_units import is_pressure
from cfagg.cf.roles import AXES_BY_NAME, LEVEL_UNITS, PRESSURES, Axis, axis_by_units, place_of

if TYPE_CHECKING:
    from cfagg.checking.context import Context
    from cfagg.model.dataset import Variable

__all__ = [
    "Axis",
    "axis_of",
    "deduced_axis",
    "is_latitude",
    "is_longitude",
    "is_time_coordinate",
    "is_vertical",
    "level_units",
    "name_of",
]

level_units = LEVEL_UNITS


def name_of(v: Variable) -> str:
    """Return the standard name of a variable without its modifier, empty where it has none."""
    words = v.words("standard_name")
    return words[0] if words else ""


def axis_of(c: Context, v: Variable) -> Axis | None:
    """Return the axis that a coordinate is for, `None` if it is none of the four.

    It is the ``axis`` attribute if that is one of the four, in any case of letters; else what units, ``positive`` and
    the standard name tell.  Ask it for coordinates only: any pressure among them may be a vertical coordinate.
    """
    known = c.once(_memory)
    if v not in known:
        known[v] = _explicit(v) or deduced_axis(v) or _by_name(v) or _by_pressure(c, v)
    return known[v]


def _memory(_: Context) -> dict[Variable, Axis | None]:
    return {}


def _explicit(v: Variable) -> Axis | None:
    text = (v.text("axis") or "").strip().upper()
    return text if text in ("X", "Y", "Z", "T") else None  # type: ignore[return-value]


def deduced_axis(v: Variable) -> Axis | None:
    """Return the axis that ``units`` and ``positive`` alone tell beyond doubt; pressure is not among them.

    These are latitudes and longitudes by their spellings, times since an instant, and what has ``positive`` or one of
    the deprecated units of levels.
    """
    # The date of a reference time may be wrong, of which other rules tell.
    return axis_by_units(v.attributes)


def _by_name(v: Variable) -> Axis | None:
    return AXES_BY_NAME.get(name_of(v))


def _by_pressure(c: Context, v: Variable) -> Axis | None:
    """Tell a vertical coordinate by units of pressure, unless its standard name says that it is another pressure."""
    if v not in c.roles.coordinates or not is_pressure(v.text("units") or "1"):
        return None
    name = name_of(v)
    return "Z" if name in PRESSURES or (not name and len(v.dimensions) <= 1) else None


def is_latitude(c: Context, v: Variable) -> bool:  # noqa: ARG001 - the four questions are asked alike
    """Whether it is a true latitude, by its units (CF section 4.1) or its standard name."""
    return place_of(v.attributes) == "latitude"


def is_longitude(c: Context, v: Variable) -> bool:  # noqa: ARG001
    """Whether it is a true longitude, by its units (CF section 4.2) or its standard name."""
    return place_of(v.attributes) == "longitude"


def is_vertical(c: Context, v: Variable) -> bool:
    """Whether a coordinate is vertical (CF section 4.3)."""
    return axis_of(c, v) == "Z"


def is_time_coordinate(c: Context, v: Variable) -> bool:
    """Whether a coordinate is a time (CF section 4.4): times since an instant, or so by name or axis."""
    return axis_of(c, v) == "T"
