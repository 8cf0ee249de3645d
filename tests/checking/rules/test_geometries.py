"""Geometries: what is found, and what is let pass."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cfagg.checking.rules.geometry_values import _areas
from tests.checking.rules.asking import codes, findings, told
from tests.effort import examples

HEAD = """netcdf a {
dimensions: lake = 2 ; part = 3 ; node = 10 ; time = 2 ;
variables:
  double lon(lake) ; lon:units = "degrees_east" ; lon:nodes = "x" ;
  double lat(lake) ; lat:units = "degrees_north" ; lat:nodes = "y" ;
  int crs ; crs:grid_mapping_name = "latitude_longitude" ;
  int shape ; shape:geometry_type = "polygon" ; shape:node_coordinates = "x y" ;
    shape:node_count = "count" ; shape:part_node_count = "parts" ; shape:interior_ring = "ring" ;
  int count(lake) ; int parts(part) ; byte ring(part) ;
  double x(node) ; x:units = "degrees_east" ; x:axis = "x" ;
  double y(node) ; y:units = "degrees_north" ; y:axis = "Y" ;
  float depth(lake, time) ; depth:units = "m" ; depth:coordinates = "lat lon" ; depth:geometry = "shape" ;
  :Conventions = "CF-1.13" ;
data:
  lon = 2, 20 ; lat = 2, 5 ;
  count = 7, 3 ; parts = 4, 3, 3 ; ring = 0, 1, 0 ;
  x = 0, 4, 4, 0, 1, 2, 3, 20, 22, 21 ;
  y = 0, 0, 4, 4, 1, 3, 1, 5, 5, 7 ;
}"""


def changed(*changes: tuple[str, str]) -> str:
    text = HEAD
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return text


@pytest.mark.parametrize(
    "changes",
    [
        [],
        [('"polygon"', '"Polygon"')],
        [("depth(lake, time)", "depth(time, lake)")],
        [("depth:geometry", 'depth:grid_mapping = "crs" ; shape:grid_mapping = "crs" ; depth:geometry')],
        [("int count(lake)", "ubyte count(lake)")],
        [('x:axis = "x"', 'x:axis = "X"')],
        [
            ("double x(node) ;", "short x(node) ; x:scale_factor = -0.01f ;"),
            ("0, 4, 4, 0, 1, 2, 3, 20, 22, 21", "0, -400, -400, 0, -100, -200, -300, -2000, -2200, -2100"),
        ],
        # The first node once more at the end of a ring.
        [
            ("node = 10", "node = 11"),
            ("count = 7, 3", "count = 7, 4"),
            ("parts = 4, 3, 3", "parts = 4, 3, 4"),
            ("22, 21 ;", "22, 21, 20 ;"),
            ("5, 7 ;", "5, 7, 5 ;"),
        ],
    ],
)
def test_sound_geometries_pass(changes: list[tuple[str, str]]) -> None:
    assert codes(changed(*changes), "GEO") == []


@pytest.mark.parametrize(
    ("code", "changes"),
    [
        (
            "GEO001",
            [("time = 2", "time = 4"), ("depth(lake, time)", "depth(time)"), ('depth:coordinates = "lat lon" ;', "")],
        ),
        ("GEO002", [('depth:geometry = "shape"', 'depth:geometry = "shape crs"')]),
        ("GEO002", [('depth:geometry = "shape"', "depth:geometry = 1")]),
        ("GEO003", [('shape:node_coordinates = "x y" ;', "")]),
        ("GEO004", [('"polygon"', '"circle"')]),
        ("GEO004", [('"polygon"', "3")]),
        ("GEO007", [('"x y"', '"x z"')]),
        ("GEO007", [('"x y"', '""')]),
        ("GEO008", [('x:axis = "x" ;', "")]),
        ("GEO008", [('x:axis = "x" ;', 'x:axis = "T" ;')]),
        ("GEO009", [('x:axis = "x" ;', 'x:axis = "Y" ;')]),
        ("GEO010", [("int shape ;", 'int shape ; shape:grid_mapping = "crs" ;')]),
        ("GEO011", [('lat:nodes = "y"', 'lat:nodes = "x y"')]),
        ("GEO011", [('lat:nodes = "y"', 'lat:nodes = "nodes_y"')]),
        ("GEO011", [('lat:nodes = "y"', 'lat:nodes = "lon"')]),
        ("GEO013", [("double y(node)", "double y(node, time)")]),
        ("GEO013", [("node = 10", "node = 11")]),
        ("GEO014", [("ring = 0, 1, 0", "ring = 0, 0, 0")]),
        ("GEO014", [("20, 22, 21 ;", "22, 20, 21 ;")]),
        ("GEO015", [('"parts"', '"pieces"')]),
        ("GEO015", [("parts = 4, 3, 3", "parts = 4, 4, 2")]),
        ("GEO016", [('shape:node_count = "count" ;', "")]),
        ("GEO016", [('"count"', '"number"')]),
        ("GEO017", [("parts = 4, 3, 3", "parts = 4, 3, 4")]),
        ("GEO018", [('shape:part_node_count = "parts" ;', "")]),
        ("GEO019", [("ring = 0, 1, 0", "ring = 0, 1, -1")]),
        ("GEO020", [("byte ring(part)", "byte ring(lake)"), ("ring = 0, 1, 0", "ring = 0, 1")]),
        ("GEO020", [('"ring"', '"rings"')]),
    ],
)
def test_one_defect_is_found_by_its_rule_alone(code: str, changes: list[tuple[str, str]]) -> None:
    found = {f.code for f in findings(changed(*changes), "GEO") if f.severity == "error"}
    assert found == {code}


def test_a_node_coordinate_that_is_named_twice_is_a_warning() -> None:
    (found,) = findings(changed(('"x y"', '"x y y"')), "GEO")
    assert (found.code, found.severity, found.variable) == ("GEO009", "warning", "shape")
    assert "'y' is named more than once" in found.message


def test_another_dimension_of_the_same_size_is_a_warning() -> None:
    text = changed(("depth(lake, time)", "depth(time)"), ('depth:coordinates = "lat lon" ;', ""))
    text = text.replace("time = 2 ;", "time = 2 ;", 1)
    (found,) = findings(text, "GEO001")
    assert found.severity == "warning"
    (found,) = findings(text.replace("time = 2 ;", "time = 3 ;", 1), "GEO001")
    assert found.severity == "error"


def test_an_instance_dimension_of_a_ragged_array_counts_the_geometries() -> None:
    text = changed(
        ("time = 2", "obs = 5"),
        ("depth(lake, time)", "depth(obs)"),
        ("int count", 'int rows(lake) ; rows:sample_dimension = "obs" ; int count'),
        ("count = 7, 3", "rows = 2, 3 ; count = 7, 3"),
    )
    assert codes(text, "GEO") == []


def test_one_geometry_needs_no_node_count() -> None:
    text = """netcdf a { dimensions: node = 3 ; time = 2 ; variables:
      int time(time) ; time:units = "days since 2000-01-01" ;
      int path ; path:geometry_type = "line" ; path:node_coordinates = "x y" ;
      double x(node) ; x:axis = "X" ; double y(node) ; y:axis = "Y" ;
      float q(time) ; q:geometry = "path" ; data: time = 1, 2 ; x = 1, 2, 3 ; y = 1, 2, 3 ; }"""
    assert codes(text, "GEO") == []
    assert codes(text.replace("node = 3", "node = 1").replace("1, 2, 3", "1"), "GEO") == ["GEO005"]


def test_points_share_the_dimension_of_the_data() -> None:
    text = """netcdf a { dimensions: well = 3 ; node = 3 ; variables: int p ; p:geometry_type = "point" ;
      p:node_coordinates = "x y" ; double x(well) ; x:axis = "X" ; double y(well) ; y:axis = "Y" ;
      float q(well) ; q:geometry = "p" ; }"""
    assert codes(text, "GEO") == []
    assert codes(text.replace("x(well)", "x(node)").replace("y(well)", "y(node)"), "GEO") == ["GEO016"]


def test_a_container_with_a_grid_mapping_of_its_own() -> None:
    other = 'int wgs ; wgs:grid_mapping_name = "latitude_longitude" ; shape:grid_mapping = "wgs" ;'
    text = changed(
        ("int count", f"{other} int count"), ("depth:geometry", 'depth:grid_mapping = "crs" ; depth:geometry')
    )
    assert codes(text, "GEO") == ["GEO012", "GEO012"]
    without = text.replace('lon:nodes = "x" ;', "").replace('lat:nodes = "y" ;', "")
    assert codes(without, "GEO") == []


def test_geometries_are_no_matter_of_older_versions() -> None:
    assert codes(changed(('"polygon"', '"circle"')), "GEO", cf_version="1.7") == []


def test_what_cannot_be_counted_is_no_crash() -> None:
    text = changed(("int count(lake)", "char count(lake)"), ("count = 7, 3", 'count = "73"'))
    assert "INT001" not in codes(text)


def test_missing_counts_are_no_nodes() -> None:
    text = changed(("lake = 2", "lake = 3"), ("lon = 2, 20 ; lat = 2, 5 ;", "lon = 2, 20, 9 ; lat = 2, 5, 9 ;"))
    text = text.replace("int count(lake) ;", "int count(lake) ; count:_FillValue = -1 ;").replace(
        "7, 3 ; parts", "7, 3, _ ; parts"
    )
    assert codes(text, "GEO") == ["GEO006"]
    assert "has 0 nodes" in told(text, "GEO006")[0]


@settings(max_examples=examples(100))
@given(
    st.lists(st.tuples(st.floats(0.2, 5.0), st.integers(3, 12), st.booleans()), min_size=1, max_size=5),
    st.floats(-180, 180),
    st.integers(0, 1000),
)
def test_the_sign_of_an_area_is_the_direction_of_its_ring(
    rings: list[tuple[float, int, bool]], centre: float, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    x, y, sizes = [], [], []
    for radius, number, clockwise in rings:
        angles = np.sort((np.arange(number) + rng.uniform(0.0, 0.9, number)) * (2 * math.pi / number))
        if clockwise:
            angles = angles[::-1]
        angles = np.roll(angles, rng.integers(number))
        # Longitudes are written from -180 to 180, so that rings there jump.
        x.extend((centre + radius * np.cos(angles) + 180.0) % 360.0 - 180.0)
        y.extend(50.0 + radius * np.sin(angles))
        sizes.append(number)
    area = _areas(np.array(x), np.array(y), np.array(sizes), angular=True)
    assert [a < 0 for a in area] == [clockwise for _, _, clockwise in rings]


def test_a_ring_around_a_pole_has_no_direction_in_the_plane() -> None:
    x, y = np.array([0.0, 90.0, 180.0, 270.0]), np.array([80.0, 80.0, 80.0, 80.0])
    assert _areas(x, y, np.array([4]), angular=True).tolist() == [0.0]


@pytest.mark.parametrize("ring", ["0, 2, 0", "0, -1, 0"])
def test_a_ring_of_unknown_kind_has_no_direction(ring: str) -> None:
    assert codes(changed(("ring = 0, 1, 0", f"ring = {ring}")), "GEO") == ["GEO019"]


def test_nodes_of_two_dimensions_are_told_by_their_own_rule() -> None:
    text = changed(("node = 10", "node = 5 ; two = 2"), ("x(node)", "x(two, node)"), ("y(node)", "y(two, node)"))
    assert set(codes(text)) & {"GEO013", "GEO014", "INT001"} == {"GEO013"}


def test_nodes_that_are_not_there_are_told_once() -> None:
    text = changed(('"x y"', '"nodes_x y"'), ('lon:nodes = "x"', 'lon:nodes = "nodes_x"'))
    assert codes(text, "GEO") == ["GEO007"]


def test_a_polygon_begins_with_an_exterior_ring() -> None:
    text = changed(
        ("ring = 0, 1, 0", "ring = 1, 0, 0"),
        ("parts = 4, 3, 3", "parts = 3, 4, 3"),
        ("x = 0, 4, 4, 0, 1, 2, 3,", "x = 1, 2, 3, 0, 4, 4, 0,"),
        ("y = 0, 0, 4, 4, 1, 3, 1,", "y = 1, 3, 1, 0, 0, 4, 4,"),
    )
    assert [(f.code, f.severity) for f in findings(text, "GEO")] == [("GEO019", "warning")]


def test_data_of_a_single_geometry_may_do_without_its_dimension() -> None:
    text = """netcdf a { dimensions: lake = 1 ; node = 3 ; time = 2 ; variables:
    int shape ; shape:geometry_type = "polygon" ; shape:node_coordinates = "x y" ; shape:node_count = "count" ;
    int count(lake) ; double x(node) ; x:units = "m" ; x:axis = "X" ; double y(node) ; y:units = "m" ; y:axis = "Y" ;
    float depth(time) ; depth:units = "m" ; depth:geometry = "shape" ; :Conventions = "CF-1.13" ;
    data: count = 3 ; x = 0, 1, 1 ; y = 0, 0, 1 ; }"""
    assert [f"{f.code} {f.severity}" for f in findings(text, "GEO")] == ["GEO001 warning"]


def test_coordinates_may_have_a_geometry_too() -> None:
    text = changed(
        ("depth:geometry", 'depth:grid_mapping = "crs" ; shape:grid_mapping = "crs" ; depth:geometry'),
        ('lon:nodes = "x"', 'lon:nodes = "x" ; lon:geometry = "shape"'),
    )
    assert codes(text, "GEO") == []
    assert codes(text.replace('depth:grid_mapping = "crs" ;', ""), "GEO") == ["GEO010"]
