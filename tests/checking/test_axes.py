"""Which variables are latitudes, longitudes, vertical coordinates or times."""

from __future__ import annotations

import pytest

from cfagg.cf.roles import LATITUDE_UNITS, LONGITUDE_UNITS
from cfagg.checking.axes import axis_of, is_latitude, is_longitude
from cfagg.checking.context import Context
from cfagg.formats.cdl.parsing import parse_cdl


def axis(attributes: str, name: str = "x") -> str | None:
    lines = " ".join(f"{name}:{a} ;" for a in attributes.split(";") if a.strip())
    dataset = parse_cdl(f"netcdf a {{ dimensions: {name} = 2 ; variables: double {name}({name}) ; {lines} }}")
    return axis_of(Context(dataset), dataset.variables[0])


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ('units = "degrees_north"', "Y"),
        ('units = "degreeE"', "X"),
        ('units = "degrees"', None),
        ('units = "days since 2000-01-01"', "T"),
        ('units = "days"', None),
        ('units = "hPa"', "Z"),
        ('units = "hPa"; standard_name = "surface_air_pressure"', None),
        ('units = "m"', None),
        ('units = "m"; positive = "Up"', "Z"),
        ('units = "sigma_level"', "Z"),
        ('axis = "z"', "Z"),
        ('axis = "height"', None),
        ('units = "degrees"; standard_name = "grid_latitude"', "Y"),
        ('units = "km"; standard_name = "projection_x_coordinate"', "X"),
        ('standard_name = "atmosphere_sigma_coordinate"', "Z"),
        ('units = "hours"; standard_name = "forecast_period"', None),
        ('units = 7; axis = 3; positive = 1, 2; standard_name = 5', None),
    ],
)  # fmt: skip
def test_the_axis_of_a_coordinate_variable(attributes: str, expected: str | None) -> None:
    assert axis(attributes) == expected


@pytest.mark.parametrize("name", ["lat", "latitude", "time", "z"])
def test_names_of_variables_tell_nothing(name: str) -> None:
    assert axis('units = "1"', name) is None


def test_all_spellings_of_latitudes_and_longitudes_are_told_apart() -> None:
    for units in LATITUDE_UNITS | LONGITUDE_UNITS:
        dataset = parse_cdl(f'netcdf a {{ variables: float x ; x:units = "{units}" ; }}')
        v = dataset.variables[0]
        assert is_latitude(v) == (units in LATITUDE_UNITS)
        assert is_longitude(v) == (units in LONGITUDE_UNITS)
