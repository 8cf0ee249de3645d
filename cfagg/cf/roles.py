"""The roles of coordinates from their attributes (latitude, longitude, vertical, time), and the axes they belong to.

Sources: CF chapter 4 (units, ``positive``, ``standard_name``, ``axis``), Appendices D and F (parametric vertical and
projection coordinates).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from cfagg.cf.kinds_of_units import is_pressure, is_reference_time

__all__ = [
    "AXES_BY_NAME", "COMMON_NAMES", "LATITUDE_UNITS", "LEVEL_UNITS", "LONGITUDE_UNITS", "Axis", "Place",
    "axis_by_units", "axis_of", "place_by_units", "place_of",
]  # fmt: skip

Axis = Literal["X", "Y", "Z", "T"]
Place = Literal["latitude", "longitude"]

#: The spellings of CF section 4.1.
LATITUDE_UNITS = frozenset({"degrees_north", "degree_north", "degree_N", "degrees_N", "degreeN", "degreesN"})

#: The spellings of CF section 4.2.
LONGITUDE_UNITS = frozenset({"degrees_east", "degree_east", "degree_E", "degrees_E", "degreeE", "degreesE"})

#: UDUNITS reads names of units in any case of letters.
_PLACES: Mapping[str, Place] = {
    **{u.lower(): "latitude" for u in LATITUDE_UNITS},
    **{u.lower(): "longitude" for u in LONGITUDE_UNITS},
}

#: Common lower-case names of dimensions without attributes; CF derives nothing from names.
COMMON_NAMES = {
    **dict.fromkeys(("time", "t"), "time"),
    **dict.fromkeys(("lat", "latitude"), "latitude"),
    **dict.fromkeys(("lon", "long", "longitude"), "longitude"),
    **dict.fromkeys(("plev", "lev", "level", "height", "depth", "altitude", "pressure", "z"), "vertical"),
}

#: Units of COARDS that UDUNITS does not know, for vertical coordinates without a unit.
LEVEL_UNITS = frozenset({"level", "layer", "sigma_level"})

#: Standard names of coordinates that belong to an axis whatever their units are.
AXES_BY_NAME: Mapping[str, Axis] = {
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

#: Standard names of pressures that are always vertical if they are coordinates.
PRESSURES = frozenset(
    {"air_pressure", "sea_water_pressure", "reference_pressure", "sea_water_pressure_due_to_sea_water"}
)


def place_by_units(units: Any) -> Place | None:
    """Return ``latitude`` or ``longitude`` if units are those of true latitudes or longitudes, or else `None`.

    >>> place_by_units("degreesN"), place_by_units("degree_east"), place_by_units("degrees")
    ('latitude', 'longitude', None)
    """
    return _PLACES.get(units.strip().lower()) if isinstance(units, str) else None


def place_of(attributes: Mapping[Any, Any]) -> Place | None:
    """Return ``latitude`` or ``longitude`` for true ones, by the standard name or else the units, or `None`."""
    name = _text(attributes, "standard_name")
    if name in ("latitude", "longitude"):
        return name  # type: ignore[return-value]
    return None if name in AXES_BY_NAME else place_by_units(attributes.get("units"))


def axis_by_units(attributes: Mapping[Any, Any]) -> Axis | None:
    """Return the axis determined by ``units`` and ``positive`` alone; pressure is ignored."""
    units = attributes.get("units")
    place = place_by_units(units)
    if place is not None:
        return "Y" if place == "latitude" else "X"
    if isinstance(units, str):
        if is_reference_time(units):
            return "T"
        if units.strip() in LEVEL_UNITS:
            return "Z"
    return "Z" if _text(attributes, "positive").lower() in ("up", "down") else None


def axis_of(attributes: Mapping[Any, Any], ndim: int | None = 1) -> Axis | None:
    """Return the axis of a coordinate by ``axis``, or else units and ``positive``, or else the standard name.

    Pressures without a standard name are vertical only if they have at most one dimension, and never if `ndim` is
    `None` (they may be data).
    """
    axis, units = attributes.get("axis"), attributes.get("units")
    letter = axis.strip().upper() if isinstance(axis, str) else ""
    if letter in ("X", "Y", "Z", "T"):
        return letter  # type: ignore[return-value]
    name = _text(attributes, "standard_name")
    found = axis_by_units(attributes) or AXES_BY_NAME.get(name)
    if found or ndim is None or not (name in PRESSURES or (not name and ndim <= 1)):
        return found
    return "Z" if (is_pressure(units) if isinstance(units, str) else name) else None


def _text(attributes: Mapping[Any, Any], name: str) -> str:
    """Return a text attribute, or else "": a standard name with a modifier is that of another quantity."""
    value = attributes.get(name)
    return value.strip() if isinstance(value, str) else ""
