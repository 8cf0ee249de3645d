"""What dimensions stand for, by their coordinates and names."""

import cftime
import numpy as np
import pytest
import xarray as xr

from cfagg.cf.dimension_kinds import kind_of, kinds


@pytest.mark.parametrize(
    ("coordinate", "expected"),
    [
        (("x", [1.0], {"units": "degreesN"}), "latitude"),
        (("x", [1.0], {"standard_name": "longitude"}), "longitude"),
        (("x", [1.0], {"axis": "Y", "units": "m"}), "other"),
        (("x", [1.0], {"axis": "Z"}), "vertical"),
        (("x", [1.0], {"positive": "down"}), "vertical"),
        (("x", np.array(["2000-01-01"], "M8[ns]")), "time"),
        (("x", [cftime.datetime(1, 1, 1, calendar="noleap")]), "time"),
        (("x", ["a"]), "other"),
        (("x", [1.0]), "other"),
        (("x", [1.0], {"standard_name": "grid_latitude", "units": "degrees"}), "other"),
    ],
)
def test_kinds_come_from_the_coordinate(coordinate, expected):
    assert kind_of(xr.DataArray([1.0], dims="x", coords={"x": coordinate}), "x") == expected


def test_what_is_not_in_degrees_is_no_latitude_or_longitude():
    for units, expected in (("radians", "other"), ("m", "other"), ("degrees", "longitude"), ("", "longitude")):
        array = xr.DataArray([1.0], dims="lon", coords={"lon": ("lon", [1.0], {"units": units})})
        assert kind_of(array, "lon") == expected


def test_kinds_come_from_names_where_there_is_no_more():
    array = xr.DataArray(np.zeros((1, 1, 1, 1, 1)), dims=("t", "Lat", "LONGITUDE", "lev", "run"))
    assert list(kinds(array).values()) == ["time", "latitude", "longitude", "vertical", "other"]
    assert kind_of(xr.DataArray([1.0], dims="month", coords={"month": [13]}), "month") == "other"


def test_a_coordinate_of_a_rotated_grid_is_no_latitude_whatever_it_is_called():
    for attributes in ({"units": "degrees"}, {"units": "degrees", "axis": "Y"}):
        coordinate = ("lat", [1.0], {"standard_name": "grid_latitude", **attributes})
        assert kind_of(xr.DataArray([1.0], dims="lat", coords={"lat": coordinate}), "lat") == "other"
