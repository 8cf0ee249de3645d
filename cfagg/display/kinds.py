"""What a dimension of a labelled array stands for: time, latitude, longitude, height; and its labels as text."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from xarray import DataArray, Dataset

__all__ = ["date_coordinate", "dated", "is_date", "kind_of", "kinds", "label_text", "place_of_coordinate"]

_UNITS = {
    **dict.fromkeys(("degrees_north", "degree_north", "degree_n", "degrees_n", "degreen", "degreesn"), "latitude"),
    **dict.fromkeys(("degrees_east", "degree_east", "degree_e", "degrees_e", "degreee", "degreese"), "longitude"),
}
#: As in `cfagg.cf.roles`, which stands above this room; a test holds both to the same answers.
_VERTICAL = """
altitude depth height height_above_geopotential_datum height_above_mean_sea_level height_above_reference_ellipsoid
height_above_sea_floor depth_below_geoid depth_below_sea_floor model_level_number atmosphere_ln_pressure_coordinate
atmosphere_sigma_coordinate atmosphere_hybrid_sigma_pressure_coordinate atmosphere_hybrid_height_coordinate
atmosphere_sleve_coordinate land_ice_sigma_coordinate ocean_sigma_coordinate ocean_s_coordinate ocean_s_coordinate_g1
ocean_s_coordinate_g2 ocean_sigma_z_coordinate ocean_double_sigma_coordinate air_pressure sea_water_pressure
reference_pressure sea_water_pressure_due_to_sea_water
"""
_STANDARD = {
    "latitude": "latitude",
    "longitude": "longitude",
    **dict.fromkeys(("time", "forecast_reference_time"), "time"),
    **dict.fromkeys(_VERTICAL.split(), "vertical"),
}
#: Coordinates of rotated and projected grids, which are not those of the Earth whatever their units.
_GRIDS = frozenset(
    f"{name}{end}"
    for name, ends in (
        ("grid_", ("latitude", "longitude")),
        ("projection_x_", ("coordinate", "angular_coordinate")),
        ("projection_y_", ("coordinate", "angular_coordinate")),
    )
    for end in ends
)
_AXES = {"T": "time", "Y": "latitude", "X": "longitude", "Z": "vertical"}
_NAMES = {
    **dict.fromkeys(("time", "t"), "time"),
    **dict.fromkeys(("lat", "latitude"), "latitude"),
    **dict.fromkeys(("lon", "long", "longitude"), "longitude"),
    **dict.fromkeys(("plev", "lev", "level", "height", "depth", "altitude", "pressure", "z"), "vertical"),
}
#: Dimensions that grouping makes, with the values they may have.
_GROUPS = {"month": range(1, 13), "season": ("DJF", "MAM", "JJA", "SON")}


def kind_of(array: DataArray, dim: Hashable) -> str:
    """Return what one dimension of an array stands for.

    Parameters
    ----------
    array : xarray.DataArray
        Only coordinates are looked at.
    dim : hashable
        One of its dimensions.

    Returns
    -------
    str
        "time", "latitude", "longitude", "vertical", "month", "season" or "other": by the type of the coordinate, then
        its attributes ``standard_name``, ``units``, ``axis`` and ``positive`` (CF sections 4.1 to 4.4), then its name.

    Examples
    --------
    >>> import xarray
    >>> kind_of(xarray.DataArray([1.0, 2.0], coords={"y": ("y", [5, 6], {"units": "degrees_north"})}, dims="y"), "y")
    'latitude'
    """
    name = str(dim)
    if dim not in array.coords or array.coords[dim].ndim != 1:
        return _NAMES.get(name.lower(), "other")
    coordinate = array.coords[dim]
    if _is_time(coordinate):
        return "time"
    if name in _GROUPS and all(v in _GROUPS[name] for v in coordinate.values.tolist()):
        return name
    return _of_numbers(name, coordinate) if coordinate.dtype.kind in "iuf" else "other"


def date_coordinate(array: DataArray | Dataset, dim: Hashable) -> Hashable | None:
    """Return the one coordinate of dates along a dimension: its own, or the auxiliary one of a dimension without any.

    Parameters
    ----------
    array : xarray.DataArray or xarray.Dataset
        Only coordinates are looked at.
    dim : hashable
        One of its dimensions.

    Returns
    -------
    hashable or None
        Name of the coordinate.

    Examples
    --------
    >>> import xarray
    >>> dates = ("step", np.array(["2000-01-01", "2000-01-02"], "M8[ns]"))
    >>> date_coordinate(xarray.DataArray([1, 2], coords={"valid_time": dates}, dims="step"), "step")
    'valid_time'
    """
    if dim in array.coords:
        return dim if array.coords[dim].ndim == 1 and _is_time(array.coords[dim]) else None
    found = [name for name, c in array.coords.items() if c.dims == (dim,) and _is_time(c)]
    return found[0] if len(found) == 1 else None


def dated(array: DataArray) -> DataArray:
    """Return an array whose dimensions with dates in an auxiliary coordinate have these as their own, to be shown.

    Parameters
    ----------
    array : xarray.DataArray
        Any.
    """
    for dim in array.dims:
        name = date_coordinate(array, dim)
        if name is not None and name != dim:
            array = array.assign_coords({dim: (dim, array.coords[name].values, array.coords[name].attrs)})
    return array


def place_of_coordinate(name: str, coordinate: DataArray) -> str | None:
    """Return whether a coordinate of numbers, of any shape, is latitude or longitude in degrees.

    Parameters
    ----------
    name : str
        Its name.
    coordinate : xarray.DataArray
        Only attributes are looked at.

    Returns
    -------
    {"latitude", "longitude"} or None
        `None` for all else.
    """
    found = _of_numbers(name, coordinate)
    return found if found in ("latitude", "longitude") else None


def _of_numbers(name: str, coordinate: DataArray) -> str:
    found = _by_attributes(coordinate.attrs) or _NAMES.get(name.lower(), "other")
    units = str(coordinate.attrs.get("units", "degrees")).strip().lower()
    # Metres of a projection, or radians, are not degrees whatever the dimension is called.
    in_degrees = units in ("", "°") or units.startswith("deg")
    return found if in_degrees or found not in ("latitude", "longitude") else "other"


def kinds(array: DataArray) -> dict[Hashable, str]:
    """Return what every dimension of an array stands for.

    Parameters
    ----------
    array : xarray.DataArray
        Only coordinates are looked at.

    Returns
    -------
    dict
        Kind by dimension, as of `kind_of`.

    Examples
    --------
    >>> import xarray
    >>> kinds(xarray.DataArray([[1.0]], dims=("lat", "member")))
    {'lat': 'latitude', 'member': 'other'}
    """
    return {d: kind_of(array, d) for d in array.dims}


def is_date(value: Any) -> bool:
    """Tell whether a label is a date, of NumPy, the standard library or cftime.

    Parameters
    ----------
    value : object
        The label.

    Examples
    --------
    >>> is_date(np.datetime64("2000-01-01")), is_date(3.0)
    (True, False)
    """
    return isinstance(value, np.datetime64) or hasattr(value, "isoformat")


def label_text(value: Any) -> str:
    """Return a label of a coordinate as text for people.

    Parameters
    ----------
    value : object
        The label.

    Returns
    -------
    str
        Dates without the time of day at midnight, real numbers without trailing zeros.

    Examples
    --------
    >>> label_text(np.datetime64("2000-01-01T00:00:00.000")), label_text(52.50)
    ('2000-01-01', '52.5')
    """
    if isinstance(value, float | np.floating):
        return f"{value:.7g}"
    if not is_date(value):
        return str(value)
    text = str(np.datetime_as_string(value, unit="s")) if isinstance(value, np.datetime64) else str(value.isoformat())
    return text.removesuffix("T00:00:00")


def _is_time(coordinate: DataArray) -> bool:
    if coordinate.dtype.kind == "M":
        return True
    if coordinate.dtype.kind != "O" or not coordinate.size:
        return False
    # cftime's dates derive from nothing of the standard library, but look like its dates.
    first = coordinate.values.flat[0]
    return isinstance(first, dt.datetime) or hasattr(first, "calendar")


def _by_attributes(attributes: Mapping[Hashable, Any]) -> str | None:
    standard, units, axis = (str(attributes.get(k, "")).strip() for k in ("standard_name", "units", "axis"))
    if standard in _GRIDS:
        return "other"
    found = _STANDARD.get(standard) or _UNITS.get(units.strip().lower())
    if found is None and str(attributes.get("positive", "")).lower() in ("up", "down"):
        return "vertical"
    # X and Y are also the axes of projections in metres, whose cells are not degrees.
    if found is None and (axis not in ("X", "Y") or units.lower().startswith("degree")):
        return _AXES.get(axis)
    return found
