"""One answer to "is this latitude?" in every job, whatever the spelling."""

import itertools

import numpy as np
import pytest
import xarray as xr
import zarr

from cfagg.accumulation.source import horizontal_dims
from cfagg.accumulation.weights import find_weights
from cfagg.arrays.identity import Identity
from cfagg.cf.dimension_kinds import kind_of
from cfagg.cf.roles import AXES_BY_NAME, LATITUDE_UNITS, LONGITUDE_UNITS, axis_of, place_of
from cfagg.checking.axes import is_latitude, is_longitude
from cfagg.errors import SourceError
from cfagg.formats.zarr import open_array
from cfagg.model.dataset import Group, Variable
from cfagg.observations.fields import Fields
from cfagg.observations.sources.geometry import Described, find_geometry

PLACES = [*((u, "latitude") for u in sorted(LATITUDE_UNITS)), *((u, "longitude") for u in sorted(LONGITUDE_UNITS))]
NAMES = [
    None,
    "latitude",
    "longitude",
    "grid_latitude",
    "grid_longitude",
    "projection_y_coordinate",
    "deployment_latitude",
]
UNITS = [None, "degrees", "m", "degree_N", "degreesN", "degrees_north", "degreeE", "degree_east"]
COMBINATIONS = [
    {k: v for k, v in (("standard_name", name), ("units", units)) if v is not None}
    for name, units in itertools.product(NAMES, UNITS)
]


@pytest.mark.parametrize(("units", "place"), PLACES)
def test_every_spelling_of_cf_is_known_in_any_case(units, place):
    for text in (units, units.upper(), f" {units} "):
        assert place_of({"units": text}) == place
        assert axis_of({"units": text}) == ("Y" if place == "latitude" else "X")


def test_what_a_modifier_makes_of_a_coordinate_is_none():
    assert place_of({"standard_name": "latitude status_flag"}) is None
    assert axis_of({"standard_name": "depth number_of_observations"}) is None
    assert axis_of({"standard_name": "air_pressure standard_error", "units": "Pa"}) is None


@pytest.mark.few(20)
@pytest.mark.parametrize("attributes", COMBINATIONS)
def test_every_job_answers_alike(attributes):
    place = place_of(attributes)
    v = Variable("v", Group(), (), np.dtype("f8"), "float", attributes)
    assert (is_latitude(v), is_longitude(v)) == (place == "latitude", place == "longitude")
    array = xr.DataArray([1.0, 2.0], coords={"u": ("u", [5.0, 6.0], attributes)}, dims="u")
    shown = kind_of(array, "u")
    assert (shown if shown in ("latitude", "longitude") else None) == place or attributes.get("units") == "m"
    known = axis_of(attributes)
    assert Identity.of(attributes).axis == known


@pytest.mark.parametrize(
    ("attributes", "vertical"),
    [
        ({"units": "hPa"}, True),
        ({"units": "millibars"}, True),
        ({"units": "hPa", "standard_name": "air_pressure"}, True),
        ({"units": "sigma_level"}, True),
        ({"units": "hPa", "standard_name": "surface_air_pressure"}, False),
        ({"units": "m"}, False),
    ],
)
def test_pressures_are_vertical_in_every_job(attributes, vertical):
    assert (axis_of(attributes) == "Z") == vertical
    assert (Identity.of(attributes).axis == "Z") == vertical
    array = xr.DataArray([1.0, 2.0], coords={"u": ("u", [5.0, 6.0], attributes)}, dims="u")
    assert (kind_of(array, "u") == "vertical") == vertical


def test_pressures_of_data_and_unnamed_ones_of_several_dimensions_are_no_axes():
    assert axis_of({"units": "hPa"}, ndim=2) is axis_of({"units": "hPa"}, ndim=None) is None
    named = {"units": "hPa", "standard_name": "air_pressure"}
    assert (axis_of(named, ndim=2), axis_of(named, ndim=None)) == ("Z", None)
    assert axis_of({"standard_name": "air_pressure"}) == "Z"


@pytest.mark.parametrize(("name", "units"), [("grid_latitude", "degrees"), ("grid_longitude", "degree_east")])
def test_coordinates_of_rotated_grids_are_none_of_the_earth(name, units):
    attributes = {"standard_name": name, "units": units}
    assert place_of(attributes) is None
    assert axis_of(attributes) == AXES_BY_NAME[name]
    array = xr.DataArray([1.0, 2.0], coords={"y": ("y", [5.0, 6.0], {**attributes, "axis": "Y"})}, dims="y")
    assert kind_of(array, "y") == "other"


def write_grid(store, north, east):
    for name, units, values in (("y", north, [-60.0, 0.0, 60.0]), ("x", east, [0.0, 120.0, 240.0])):
        zarr.create_array(store, name=name, data=np.array(values), dimension_names=[name], attributes={"units": units})
    zarr.create_array(store, name="v", shape=(3, 3), dtype="f4", dimension_names=["y", "x"])
    return open_array(str(store), "v")


@pytest.mark.parametrize(("north", "east"), list(zip(sorted(LATITUDE_UNITS), sorted(LONGITUDE_UNITS), strict=True)))
def test_areas_are_weights_with_every_spelling(tmp_path, north, east):
    array = write_grid(tmp_path / "a.zarr", north, east)
    assert horizontal_dims(array) == ("y", "x")
    weights = find_weights(array, "area", 2**20)
    # The cells end half-way between the points, and at the poles.
    assert np.ptp(np.asarray(weights.values).ravel()[[0, -1]]) < 1e-9
    assert np.asarray(weights.values).ravel()[0] < np.asarray(weights.values).ravel()[1]


def test_rotated_coordinates_give_no_areas(tmp_path):
    array = write_grid(tmp_path / "a.zarr", "degrees", "degrees")
    for name, standard in (("y", "grid_latitude"), ("x", "grid_longitude")):
        zarr.open_array(tmp_path / "a.zarr", path=name).attrs["standard_name"] = standard
    array = open_array(str(tmp_path / "a.zarr"), "v")
    assert horizontal_dims(array) == ("y", "x")
    with pytest.raises(SourceError, match="weights='area'"):
        find_weights(array, "area", 2**20)


@pytest.mark.parametrize(("north", "east"), list(zip(sorted(LATITUDE_UNITS), sorted(LONGITUDE_UNITS), strict=True)))
def test_observations_find_places_with_every_spelling(north, east):
    variables = {
        n: Described(n, ("obs",), np.dtype("f8"), {"units": u})
        for n, u in (("a", north), ("b", east), ("c", "days since 2000-01-01"), ("d", "K"))
    }
    assert find_geometry(variables, {"obs": 3}, "a.nc").places == {"date": "c", "latitude": "a", "longitude": "b"}
    coords = {
        "t": np.array(["2020-01-01"], "M8[s]"),
        "a": ("a", [1.0, 2.0], {"units": north}),
        "b": ("b", [3.0], {"units": east}),
    }
    fields = Fields(xr.Dataset({"v": (("t", "a", "b"), np.zeros((1, 2, 1)))}, coords))
    assert fields.details(0).latitudes.tolist() == [1.0, 2.0]
