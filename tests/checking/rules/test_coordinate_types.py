"""Sentences of chapters 4 and 5 beside the conformance document: what is found and what is allowed."""

from __future__ import annotations

import pytest

from tests.checking.rules.asking import codes, findings


def coordinate(name: str, units: str) -> str:
    return f"""netcdf a {{ dimensions: v = 2 ; variables: float v(v) ; v:standard_name = "{name}" ;
    v:units = "{units}" ; }}"""


@pytest.mark.parametrize(
    ("name", "units", "expected"),
    [
        ("latitude", "degrees_north", []),
        ("latitude", "degreeN", []),
        ("latitude", "degrees_east", [("CRD001", "error")]),
        ("longitude", "degrees_north", [("CRD001", "error")]),
        ("longitude", "degrees", [("CRD001", "warning")]),
        ("latitude", "radian", [("CRD001", "warning")]),
        ("latitude", "", [("CRD001", "warning")]),
        ("latitude", "nonsense", []),
        ("latitude standard_error", "degrees", []),
        ("grid_latitude", "degrees", []),
        ("grid_latitude", "degrees_north", [("CRD002", "warning")]),
        ("grid_longitude", "degree_E", [("CRD002", "warning")]),
        ("deployment_latitude", "degrees_east", []),
    ],
)
def test_units_of_latitudes_and_longitudes(name: str, units: str, expected: list[tuple[str, str]]) -> None:
    assert [(f.code, f.severity) for f in findings(coordinate(name, units), "CRD")] == expected


def test_data_that_happen_to_be_latitudes_are_left_alone() -> None:
    source = """netcdf a { dimensions: x = 2 ; variables: float v(x) ; v:standard_name = "latitude" ;
    v:units = "degrees" ; }"""
    assert codes(source, "CRD") == []


PROJECTED = """netcdf a { dimensions: y = 2 ; x = 3 ; t = 2 ; variables:
float y(y) ; y:axis = "Y" ; y:units = "m" ; float x(x) ; x:axis = "X" ; x:units = "m" ;
float d(y, x) ; d:long_name = "d" ; %s }"""


@pytest.mark.parametrize(
    ("more", "found"),
    [
        ("", 1),
        ('d:grid_mapping = "crs" ; int crs ; crs:grid_mapping_name = "mercator" ;', 0),
        (
            'd:coordinates = "a o" ; float a(y, x) ; a:units = "degrees_north" ; float o(y, x) ; o:units = "degreeE" ;',
            0,
        ),
        ('d:coordinates = "a" ; float a(y, x) ; a:units = "degrees_north" ;', 1),
        ('y:units = "degrees_north" ; x:units = "degrees_east" ;', 0),
        (':featureType = "profile" ;', 0),
        ('float s(t, y) ; s:long_name = "s" ; d:grid_mapping = "crs" ;', 0),
        ('d:grid_mapping = "crs" ; d:ancillary_variables = "q" ; byte q(y, x) ;', 0),
    ],
)
def test_grids_that_are_not_of_latitude_and_longitude(more: str, found: int) -> None:
    assert codes(PROJECTED % more, "CRD003") == ["CRD003"] * found
    assert codes(PROJECTED % more, "CRD003", cf_version="1.7") == []


def test_a_scalar_coordinate_called_like_a_dimension_is_told() -> None:
    source = """netcdf a { dimensions: z = 2 ; variables: float %s ; float d ; d:coordinates = "%s" ; }"""
    assert codes(source % ("z", "z"), "CRD004") == ["CRD004"]
    assert codes(source % ("z(z)", "z"), "CRD004") == []
    assert codes(source % ("height", "height"), "CRD004") == []
