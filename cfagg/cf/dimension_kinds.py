"""The kinds of dimensions of a labelled array (time, latitude, longitude, height), from attributes or else names.

Arrays are those of xarray, which is not imported.
"""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

from cfagg.cf.roles import AXES_BY_NAME, COMMON_NAMES, axis_of, place_of

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from xarray import DataArray, Dataset

__all__ = ["date_coordinate", "dated", "grid", "kind_of", "kinds"]

#: Dimensions created by grouping, with the values they may have.
_GROUPS = {"month": range(1, 13), "season": ("DJF", "MAM", "JJA", "SON")}


def kind_of(array: DataArray, dim: Hashable) -> str:
    """Return the kind of a dimension: time, latitude, longitude, vertical, month, season or other."""
    name = str(dim)
    if dim not in array.coords or array.coords[dim].ndim != 1:
        return COMMON_NAMES.get(name.lower(), "other")
    coordinate = array.coords[dim]
    if _is_time(coordinate):
        return "time"
    if name in _GROUPS and all(v in _GROUPS[name] for v in coordinate.values.tolist()):
        return name
    return _of_numbers(name, coordinate) if coordinate.dtype.kind in "iuf" else "other"


def kinds(array: DataArray) -> dict[Hashable, str]:
    """Return the kinds of all dimensions of an array."""
    return {d: kind_of(array, d) for d in array.dims}


def grid(array: DataArray) -> tuple[DataArray, DataArray] | None:
    """Return the latitudes and longitudes in degrees along two dimensions of an array, or `None` if there are none."""
    by_place: dict[str, DataArray] = {}
    for name, coordinate in array.coords.items():
        if coordinate.ndim == 2 and coordinate.dtype.kind in "iuf":
            by_place.setdefault(_of_numbers(str(name), coordinate), coordinate)
    lat, lon = by_place.get("latitude"), by_place.get("longitude")
    return (lat, lon) if lat is not None and lon is not None and lat.dims == lon.dims else None


def date_coordinate(array: DataArray | Dataset, dim: Hashable) -> Hashable | None:
    """Return the one coordinate of dates along a dimension: its own, or an auxiliary one if it has none.

    >>> import numpy, xarray
    >>> dates = ("step", numpy.array(["2000-01-01", "2000-01-02"], "M8[ns]"))
    >>> date_coordinate(xarray.DataArray([1, 2], coords={"valid_time": dates}, dims="step"), "step")
    'valid_time'
    """
    if dim in array.coords:
        return dim if array.coords[dim].ndim == 1 and _is_time(array.coords[dim]) else None
    found = [name for name, c in array.coords.items() if c.dims == (dim,) and _is_time(c)]
    return found[0] if len(found) == 1 else None


def dated(array: DataArray) -> DataArray:
    """Return an array for display, with auxiliary dates as the coordinates of their dimensions."""
    for dim in array.dims:
        name = date_coordinate(array, dim)
        if name is not None and name != dim:
            array = array.assign_coords({dim: (dim, array.coords[name].values, array.coords[name].attrs)})
    return array


def _of_numbers(name: str, coordinate: DataArray) -> str:
    found = _by_attributes(coordinate.attrs) or COMMON_NAMES.get(name.lower(), "other")
    units = str(coordinate.attrs.get("units", "degrees")).strip().lower()
    # Metres of a projection, or radians, are not degrees, whatever the name of the dimension.
    in_degrees = units in ("", "°") or units.startswith("deg")
    return found if in_degrees or found not in ("latitude", "longitude") else "other"


def _by_attributes(attributes: Mapping[Any, Any]) -> str | None:
    place = place_of(attributes)
    if place is not None:
        return place
    axis = axis_of(attributes)
    if axis in ("X", "Y"):
        # X and Y are also the axes of rotated grids, and of projections in metres.
        if str(attributes.get("standard_name", "")).strip() in AXES_BY_NAME:
            return "other"
        in_degrees = str(attributes.get("units", "")).lower().startswith("degree")
        return ("latitude" if axis == "Y" else "longitude") if in_degrees else None
    return {"T": "time", "Z": "vertical"}.get(str(axis))


def _is_time(coordinate: DataArray) -> bool:
    if coordinate.dtype.kind == "M":
        return True
    if coordinate.dtype.kind != "O" or not coordinate.size:
        return False
    # The dates of cftime are not derived from those of the standard library, but have the same interface.
    first = coordinate.values.flat[0]
    return isinstance(first, dt.datetime) or hasattr(first, "calendar")
