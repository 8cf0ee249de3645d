"""Coordinates, axes and ancillary variables: what is found and what is allowed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cfagg.checking.rules import monotonic
from cfagg.formats.cdl.parsing import parse_cdl
from tests.checking.rules.asking import codes, findings, told
from tests.effort import examples

GRID = """netcdf a { dimensions: lat = 2 ; lon = 3 ; time = 2 ; k = 2 ; len = 4 ; variables:
float lat(lat) ; lat:units = "degrees_north" ; lat:axis = "Y" ;
float lon(lon) ; lon:units = "degrees_east" ; lon:axis = "x" ;
double time(time) ; time:units = "days since 2000-01-01" ; time:axis = "T" ;
float t(time, lat, lon) ; t:units = "m" ; t:long_name = "t" ;
%s
data: lat = 0, 1 ; lon = 0, 1, 2 ; time = 0, 1 ; }"""


def grid(more: str) -> str:
    return GRID % more


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ("", []),
        ('t:coordinates = "h" ; float h ; h:axis = "Z" ; h:units = "m" ; h:positive = "up" ;', []),
        ('float h ; h:axis = "Z" ;', ["COO001"]),
        ('float h ; h:axis = "Z" ; :coordinates = "h" ;', []),
        ('t:axis = "T" ;', ["COO001"]),
        ('lat:axis = "N" ;', ["COO002"]),
        ("lat:axis = 2 ;", ["COO002"]),
        ('lat:axis = " Y" ;', []),
        ('lat:axis = "Z" ;', ["COO003"]),
        ('time:axis = "X" ;', ["COO003", "COO005"]),
        ('time:units = "m" ;', ["COO003"]),
        ('time:units = "" ;', ["COO003"]),
        ('time:units = "m" ; time:standard_name = "time" ;', []),
        ('time:units = "days" ;', []),
        ('lat:units = "hPa" ;', ["COO003"]),
        ('lat:units = "degrees" ;', []),
        ('lat:positive = "up" ; lat:units = "m" ;', ["COO003"]),
        ('t:coordinates = "aux" ; float aux(lat) ; aux:axis = "Z" ;', ["COO004"]),
        ('t:coordinates = "aux" ; float aux(lat) ; aux:axis = "Y" ;', ["COO004", "COO005"]),
        ('t:coordinates = "aux" ; float aux(lat) ; aux:axis = "Z" ; :featureType = "timeSeries" ;', []),
        ('float z(k) ; z:axis = "Z" ; z:positive = "up" ; :featureType = "timeSeries" ;', ["COO001"]),
        ('t:coordinates = "lat lon" ;', []),
    ],
)
def test_axes(more: str, expected: list[str]) -> None:
    found = [c for c in codes(grid(more), "COO0") if c in ("COO001", "COO002", "COO003", "COO004", "COO005")]
    assert sorted(found) == expected


def test_an_axis_of_an_auxiliary_coordinate_is_no_error() -> None:
    found = findings(grid('t:coordinates = "aux" ; float aux(lat) ; aux:axis = "Z" ;'), "COO004")
    assert [f.severity for f in found] == ["warning"]


def test_bounds_may_have_the_axis_of_their_parent() -> None:
    assert codes(grid('lat:bounds = "b" ; float b(lat, k) ; b:axis = "Y" ;'), "COO001") == []


def test_nodes_of_geometries_have_an_axis() -> None:
    source = """netcdf a { dimensions: i = 1 ; node = 2 ; variables: int g ; g:geometry_type = "line" ;
    g:node_coordinates = "x y" ; double x(node) ; x:axis = "X" ; double y(node) ; y:axis = "Y" ; }"""
    assert codes(source, "COO0") == []


def test_two_coordinates_of_an_axis_are_told_once_for_all_data() -> None:
    more = 't:coordinates = "aux" ; float aux(lat) ; aux:axis = "Y" ; float u(lat) ; u:coordinates = "aux" ;'
    assert len(codes(grid(more), "COO005")) == 1


@pytest.mark.parametrize(
    ("declared", "coordinates", "severity"),
    [
        ("float z(k) ; z:positive = ‘up’", "z", "warning"),
        ("double when(k) ; when:units = ‘days since 2000-01-01’", "when", "warning"),
        ("float y(k) ; y:units = ‘degrees_north’", "y", "warning"),
        ("float y(k) ; y:units = ‘degrees_north’ ; float x(k) ; x:units = ‘degrees_east’", "y x", None),
        ("float y(k, lat) ; y:units = ‘degrees_north’", "y", None),
        ("float z(k) ; z:positive = ‘up’ ; float lat2(k, lat) ; lat2:units = ‘degrees_north’", "z lat2", None),
        ("float z(k) ; z:positive = ‘up’ ; char name(k, len)", "z name", "warning"),
        ("char name(k, len)", "name", None),
        ("float z(k) ; z:positive = ‘up’ ; float k(k)", "z", None),
        ("float z(k) ; z:units = ‘m’", "z", None),
        ("float y(k) ; y:units = ‘degrees_north’", "", "warning"),
        ("double when(k) ; when:units = ‘days since 2000-01-01’", "", None),
        ("float z(k) ; z:positive = ‘up’ ; int n(lat) ; n:sample_dimension = ‘k’", "z", None),
    ],
)
def test_dimensions_without_coordinate_variables(declared: str, coordinates: str, severity: str | None) -> None:
    more = f'float d(k, lat) ; d:long_name = "d" ; d:coordinates = "{coordinates}" ; {declared} ;'
    found = [f.severity for f in findings(grid(more.replace("‘", '"').replace("’", '"')), "COO006")]
    assert found == ([severity] if severity else [])


def test_a_dimension_of_one_needs_no_coordinate_variable() -> None:
    source = """netcdf a { dimensions: k = 1 ; variables: float d(k) ; d:coordinates = "z" ;
    float z(k) ; z:positive = "up" ; }"""
    assert codes(source, "COO006") == []


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ([1, 2, 3], 0),
        ([3, 2, 1], 0),
        ([1, 1, 2], 1),
        ([1, 2, 2], 1),
        ([1, 3, 2], 1),
        ([3, 1, 2], 1),
        ([1, float("nan"), 3], 1),
        ([float("nan"), 1, 2], 1),
    ],
)
def test_values_of_coordinate_variables(values: list[float], found: int, monkeypatch: pytest.MonkeyPatch) -> None:
    text = ", ".join(map(str, values)).replace("nan", "NaN")
    source = f"netcdf a {{ dimensions: x = 3 ; variables: double x(x) ; data: x = {text} ; }}"
    assert len(codes(source, "COO007")) == found
    assert codes(source, "COO007", data=False) == []
    # The same where each piece holds a single value.
    dataset = parse_cdl(source)
    v = dataset.variables[0]
    array = np.array(values, float)
    monkeypatch.setattr(v, "blocks", lambda: iter([array[:1], array[1:2], array[2:]]))
    assert (monotonic._turn(v) is not None) == bool(found)


@settings(max_examples=examples(50), deadline=None)
@given(st.lists(st.integers(-5, 5), min_size=2, max_size=9), st.integers(1, 4))
def test_pieces_do_not_change_the_verdict_on_values(values: list[int], step: int) -> None:
    dataset = parse_cdl(f"netcdf a {{ dimensions: x = {len(values)} ; variables: int x(x) ; }}")
    array = np.array(values)
    pieces = [array[i : i + step] for i in range(0, len(array), step)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dataset.variables[0], "blocks", lambda: iter(pieces))
        found = monotonic._turn(dataset.variables[0])
    difference = np.diff(array)
    assert (found is None) == bool((difference > 0).all() or (difference < 0).all())


def test_unsigned_values_are_read_as_such() -> None:
    source = """netcdf a { dimensions: x = 3 ; variables: byte x(x) ; x:_Unsigned = "true" ;
    data: x = 100, 127, -128 ; }"""
    assert codes(source, "COO007") == []
    assert codes(source.replace('"true"', '"false"'), "COO007") == ["COO007"]


@pytest.mark.parametrize(
    ("declared", "values", "expected"),
    [
        ("double x(x) ;", "0, 1, _", ["error"]),
        ("int x(x) ;", "_, 0, 1", ["error"]),
        ("byte x(x) ;", "-127, 0, 1", []),
        ("short x(x) ; x:missing_value = 9s ;", "7, 8, 9", ["error"]),
        ("float x(x) ; x:valid_range = 0.f, 5.f ;", "-1, 0, 5", ["warning"]),
        ("float x(x) ; x:valid_range = -1.f, 5.f ;", "-1, 0, 5", []),
    ],
)
def test_the_last_and_first_values_of_coordinate_variables_are_not_missing(
    declared: str, values: str, expected: list[str]
) -> None:
    source = f"netcdf a {{ dimensions: x = 3 ; variables: {declared} data: x = {values} ; }}"
    assert [f.severity for f in findings(source, "COO007")] == expected


def test_the_only_value_of_a_coordinate_variable_is_not_a_missing_number() -> None:
    source = "netcdf a { dimensions: x = 1 ; variables: double x(x) ; data: x = NaN ; }"
    assert codes(source, "COO007") == ["COO007"]


def test_of_missing_values_among_others_the_first_is_named_and_not_the_direction() -> None:
    source = "netcdf a { dimensions: x = 4 ; variables: double x(x) ; data: x = 0, 1, _, _ ; }"
    (message,) = told(source, "COO007")
    assert "value 2, 9.969209968386869e+36, stands for a missing value" in message


def test_a_header_without_values_is_not_blamed_for_them() -> None:
    source = "netcdf a { dimensions: x = 3 ; variables: %s x(x) ; }"
    assert [codes(source % t, "COO007") for t in ("float", "double", "int", "ubyte", "int64")] == [[]] * 5


@pytest.mark.parametrize("name", ["_FillValue", "missing_value"])
def test_coordinate_variables_miss_nothing_but_auxiliary_ones_may(name: str) -> None:
    assert codes(grid(f"lat:{name} = -9.f ;"), "COO008") == ["COO008"]
    assert codes(grid(f't:coordinates = "z" ; float z(lat) ; z:{name} = -9.f ; t:{name} = -9.f ;'), "COO008") == []


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ('t:coordinates = "lat lon time" ;', []),
        ('t:coordinates = "nowhere" ;', ["COO009"]),
        ('t:coordinates = "lat, lon" ;', ["COO009"]),
        ("t:coordinates = 7 ;", ["COO009"]),
        ('t:coordinates = "" ;', []),
        ('t:coordinates = "/lat" ;', []),
        ('float d(lat) ; d:coordinates = "lon" ;', ["COO010"]),
        ('float d(lat) ; d:coordinates = "name" ; char name(lat, len) ;', []),
        ('float d(k) ; d:coordinates = "y" ; float y(lat) ; int k(k) ; k:compress = "lat lon" ;', []),
        ('float d(k) ; d:coordinates = "y" ; float y(time) ; int k(k) ; k:compress = "lat lon" ;', ["COO010"]),
        ('float d(lat) ; d:coordinates = "y" ; float y(k) ; int k(k) ; k:compress = "lat" ;', []),
        ('float d(k) ; d:coordinates = "y" ; float y(k, lat) ; int k(k) ; k:compress = "lat lon" ;', ["COO010"]),
        ('float d(k, lat) ; d:coordinates = "y" ; float y(k, lat) ; int k(k) ; k:compress = "lat" ;', []),
        ('float d(time) ; d:coordinates = "y" ; float y(k) ; int n(k) ; n:sample_dimension = "time" ;', []),
        ('float d(time) ; d:coordinates = "y" ; float y(k) ; int n(time) ; n:instance_dimension = "k" ;', []),
    ],
)
def test_coordinates_of_data(more: str, expected: list[str]) -> None:
    assert [c for c in codes(grid(more), "COO") if c in ("COO009", "COO010")] == expected


def test_commas_between_names_are_put_right() -> None:
    found = findings(grid('t:coordinates = "lat, lon" ;'), "COO009")
    assert [e.value for f in found for e in f.fix] == ["lat lon"]


@pytest.mark.parametrize(
    ("more", "found"),
    [
        ('t:coordinates = "k" ; float k(lat, k) ;', 1),
        ('float k(lat, k) ; k:units = "degrees_east" ;', 1),
        ("float k(lat, k) ;", 0),
        ('t:coordinates = "k" ; char k(k, len) ;', 0),
    ],
)
def test_coordinates_of_several_dimensions_called_like_one(more: str, found: int) -> None:
    assert len(codes(grid(more), "COO011")) == found


@pytest.mark.parametrize(
    ("attributes", "axis"),
    [
        ('units = "degrees_north"', "Y"),
        ('units = "m" ; k:standard_name = "projection_x_coordinate"', "X"),
        ('units = "m"', None),
        ('units = "hPa"', None),
        ('units = "degrees_north" ; k:axis = "Y"', None),
    ],
)
def test_horizontal_coordinate_variables_without_axis(attributes: str, axis: str | None) -> None:
    found = findings(grid(f"float k(k) ; k:{attributes} ;"), "COO012")
    assert [e.value for f in found for e in f.fix] == ([axis] if axis else [])


def test_no_second_coordinate_of_data_is_to_get_an_axis_that_one_has() -> None:
    second = 'float k(k) ; k:units = "degrees_north" ; float s({dims}) ; s:long_name = "s" ;'
    assert len(findings(grid(second.format(dims="lon, k")), "COO012")) == 1
    assert findings(grid(second.format(dims="lat, k")), "COO012") == []


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ('t:ancillary_variables = "q" ; byte q(lat, lon) ;', []),
        ('t:ancillary_variables = "q" ; byte q ;', []),
        ('t:ancillary_variables = "q" ;', ["ANC001"]),
        ("t:ancillary_variables = 1 ;", ["ANC001"]),
        ('t:ancillary_variables = "q" ; byte q(lat, k) ;', ["ANC002"]),
        ('t:ancillary_variables = "q" ; char q(lat, len) ;', []),
        ('t:ancillary_variables = "q" ; t:cell_methods = "time: anomaly_wrt q" ; byte q(k) ;', []),
        ('float d(k) ; d:ancillary_variables = "q" ; byte q(lat) ; int k(k) ; k:compress = "lat lon" ;', []),
    ],
)
def test_ancillary_variables(more: str, expected: list[str]) -> None:
    assert codes(grid(more), "ANC") == expected


def test_dimensions_of_ancillary_variables_count_from_version_1_11() -> None:
    source = grid('t:ancillary_variables = "q" ; byte q(lat, k) ;')
    assert codes(source, "ANC", cf_version="1.10") == []


def test_a_message_tells_what_is_found_and_what_is_expected() -> None:
    (text,) = told(grid('lat:axis = "Z" ;'), "COO003")
    assert text == "error lat:axis axis is 'Z', but units 'degrees_north' implies that it is Y"


def test_many_variables_are_looked_at_once() -> None:
    many = "".join(f'float v{i}(time, lat, lon) ; v{i}:coordinates = "lat lon" ;' for i in range(2000))
    assert codes(grid(many), "COO") == []


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        # The dimension has a coordinate in all but name: its axis is not at fault.
        ('float height(k) ; height:units = "m" ; height:positive = "up" ; height:axis = "Z" ;', "error"),
        ('double t2(k) ; t2:units = "days since 2000-01-01" ; t2:standard_name = "time" ;', "warning"),
        ('float a(k) ; a:units = "m" ; a:long_name = "a length along the dimension" ;', None),
    ],
)
def test_a_coordinate_of_another_name_than_its_dimension_is_told_of_once(more: str, expected: str | None) -> None:
    text = grid(f'{more} float q(time, k) ; q:units = "m" ; q:long_name = "q" ;')
    found = [(f.code, f.severity) for f in findings(text, "COO") if f.code in ("COO001", "COO006")]
    assert found == ([("COO006", expected)] if expected else [])


def test_a_dimension_called_like_a_latitude_should_have_its_coordinate_variable() -> None:
    text = "netcdf a { dimensions: latitude = 4 ; cell = 4 ; variables: float q(latitude, cell) ; }"
    assert [(f.severity, f.variable) for f in findings(text, "COO006")] == [("warning", "q")]


def test_a_dimension_called_like_a_latitude_may_have_auxiliary_coordinates() -> None:
    text = """netcdf a { dimensions: lat = 4 ; lon = 4 ; variables: float q(lat, lon) ; q:coordinates = "y x" ;
    float y(lat, lon) ; y:units = "degrees_north" ; float x(lat, lon) ; x:units = "degrees_east" ; }"""
    assert codes(text, "COO006") == []


def test_a_coordinate_of_a_projection_is_not_called_a_latitude() -> None:
    text = """netcdf a { dimensions: y = 4 ; variables: float q(y) ; q:coordinates = "ygrid" ;
    float ygrid(y) ; ygrid:units = "m" ; ygrid:axis = "Y" ; ygrid:standard_name = "projection_y_coordinate" ; }"""
    assert "has the Y coordinate 'ygrid'" in findings(text, "COO006")[0].message


def test_a_name_in_other_letters_is_told_what_is_there() -> None:
    (found,) = findings(grid('t:coordinates = "LAT" ;'), "COO009")
    assert "'lat' exists" in found.message


def test_a_variable_that_the_long_name_of_a_mesh_mentions_is_checked_all_the_same() -> None:
    mesh = 'int mesh ; mesh:cf_role = "mesh_topology" ; mesh:long_name = "mesh of t" ; t:coordinates = "far" ;'
    assert codes(grid(f"{mesh} double far(k) ;"), "COO010") == ["COO010"]


def test_a_dimension_of_interpolated_coordinates_needs_no_coordinate_variable() -> None:
    text = """netcdf a { dimensions: lat = 6 ; tp = 2 ; variables:
  float q(lat) ; q:coordinate_interpolation = "lat: line" ; float other(lat) ;
  float lat(tp) ; lat:units = "degrees_north" ; int index(tp) ;
  char line ; line:interpolation_name = "linear" ; line:tie_point_mapping = "lat: index tp" ;
  :Conventions = "CF-1.13" ; }"""
    assert [f.variable for f in findings(text, "COO006")] == ["other"]


def test_a_dimension_without_a_coordinate_variable_is_the_same_error_in_any_order_of_variables() -> None:
    first = 'float latx(lat) ; latx:units = "degrees_north" ; latx:standard_name = "latitude" ; latx:axis = "Y" ;'
    second = 'float q(lat) ; q:long_name = "q" ;'
    for variables in (first + second, second + first):
        (found,) = findings(f"netcdf a {{ dimensions: lat = 2 ; variables: {variables} }}", "COO006")
        assert (found.severity, found.variable) == ("error", "q")
