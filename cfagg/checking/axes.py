"""Which variables are latitudes, longitudes, vertical coordinates or times.

Sources: CF chapter 4 (units, ``positive``, ``standard_name``, ``axis``), Appendices D and F (names of parametric
vertical and of projection coordinates).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from cfagg.checking.units import is_pressure, is_reference_time, latitude_units, longitude_units

if TYPE_CHECKING:
    from cfagg.checking.context import Context
    from cfagg.checking.model import Variable

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

Axis = Literal["X", "Y", "Z", "T"]

#: Units of COARDS that UDUNITS does not know, for vertical coordinates without a unit.
level_units = frozenset({"level", "layer", "sigma_level"})

#: Standard names of coordinates that stand for an axis whatever their units are.
_NAMES: dict[str, Axis] = {
    "longitude": "X",
    "grid_longitude": "X",
    "projection_x_coordinate": "X",
    "projection_x_angular_coordinate": "X",
    "latitude": "Y",
    "grid_latitude": "Y",
    "projection_y_coordinate": "Y",
    "projection_y_angular_coordinate": "Y",
    "time": "T",
    "forecast_reference_time": "T",
    "altitude": "Z",
    "depth": "Z",
    "height": "Z",
    "height_above_geopotential_datum": "Z",
    "height_above_mean_sea_level": "Z",
    "height_above_reference_ellipsoid": "Z",
    "height_above_sea_floor": "Z",
    "depth_below_geoid": "Z",
    "depth_below_sea_floor": "Z",
    "model_level_number": "Z",
    "atmosphere_ln_pressure_coordinate": "Z",
    "atmosphere_sigma_coordinate": "Z",
    "atmosphere_hybrid_sigma_pressure_coordinate": "Z",
    "atmosphere_hybrid_height_coordinate": "Z",
    "atmosphere_sleve_coordinate": "Z",
    "land_ice_sigma_coordinate": "Z",
    "ocean_sigma_coordinate": "Z",
    "ocean_s_coordinate": "Z",
    "ocean_s_coordinate_g1": "Z",
    "ocean_s_coordinate_g2": "Z",
    "ocean_sigma_z_coordinate": "Z",
    "ocean_double_sigma_coordinate": "Z",
}

#: Standard names that go with units of pressure where they are vertical coordinates.
_PRESSURES = frozenset(
    {"air_pressure", "sea_water_pressure", "reference_pressure", "sea_water_pressure_due_to_sea_water"}
)


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
    units = v.text("units")
    if units is not None:
        units = units.strip()
        if units in latitude_units:
            return "Y"
        if units in longitude_units:
            return "X"
        if is_reference_time(units):
            return "T"
        if units in level_units:
            return "Z"
    return "Z" if (v.text("positive") or "").strip().lower() in ("up", "down") else None


def _by_name(v: Variable) -> Axis | None:
    return _NAMES.get(name_of(v))


def _by_pressure(c: Context, v: Variable) -> Axis | None:
    """Tell a vertical coordinate by units of pressure, unless its standard name says that it is another pressure."""
    if v not in c.roles.coordinates or not is_pressure(v.text("units") or "1"):
        return None
    name = name_of(v)
    return "Z" if name in _PRESSURES or (not name and len(v.dimensions) <= 1) else None


def is_latitude(c: Context, v: Variable) -> bool:  # noqa: ARG001 - the four questions are asked alike
    """Whether it is a true latitude, by its units (CF section 4.1) or its standard name."""
    return (v.text("units") or "").strip() in latitude_units or name_of(v) == "latitude"


def is_longitude(c: Context, v: Variable) -> bool:  # noqa: ARG001
    """Whether it is a true longitude, by its units (CF section 4.2) or its standard name."""
    return (v.text("units") or "").strip() in longitude_units or name_of(v) == "longitude"


def is_vertical(c: Context, v: Variable) -> bool:
    """Whether a coordinate is vertical (CF section 4.3)."""
    return axis_of(c, v) == "Z"


def is_time_coordinate(c: Context, v: Variable) -> bool:
    """Whether a coordinate is a time (CF section 4.4): times since an instant, or so by name or axis."""
    return axis_of(c, v) == "T"
