"""Names, order of dimensions, types and text: sections 2.2 to 2.5."""

from __future__ import annotations

import numpy as np
import pytest

from cfagg.formats.cdl.parsing import parse_cdl
from cfagg.model.dataset import Dataset, Group, Variable
from tests.checking.rules.asking import codes, findings, told

GRID = """
netcdf grid {{
dimensions: time = 2 ; lat = 2 ; lon = 2 ; member = 2 ; y = 2 ; x = 2 ; nv = 2 ;
variables:
  double time(time) ; time:units = "days since 2000-01-01" ;
  double lat(lat) ; lat:units = "degrees_north" ;
  double lon(lon) ; lon:units = "degrees_east" ;
  int member(member) ; member:long_name = "member" ;
  double lat2(y, x) ; lat2:units = "degrees_north" ;
  float t({dims}) ; t:coordinates = "lat2" ;
:Conventions = "{conventions}" ;
}}
"""


def grid(dims: str, conventions: str = "CF-1.13") -> str:
    return GRID.format(dims=dims, conventions=conventions)


@pytest.mark.parametrize("dims", ["time, lat, lon", "lat, lon", "member, time, lat", "time, member, lat", "time, y, x"])
def test_space_and_time_in_order_are_right_with_others_anywhere(dims: str) -> None:
    assert codes(grid(dims), "DOC007") == []


@pytest.mark.parametrize("dims", ["lon, lat", "lat, time", "lat, member, time", "time, lon, lat"])
def test_space_and_time_out_of_order_are_found(dims: str) -> None:
    assert codes(grid(dims), "DOC007") == ["DOC007"]


def test_the_right_order_is_told() -> None:
    assert "(time, lat, lon)" in findings(grid("lon, lat, time"), "DOC007")[0].message


@pytest.mark.parametrize(
    ("dims", "conventions", "severity"),
    [
        ("time, member, lat", "CF-1.13", ["info"]),
        ("time, member, lat", "CF-1.13 COARDS", ["warning"]),
        ("member, time, lat", "CF-1.13 COARDS", []),
        ("time, y, x", "CF-1.13", []),  # positions by two-dimensional latitudes
        ("time, nv", "CF-1.13", []),  # nothing tells what nv is
    ],
)
def test_other_dimensions_come_first(dims: str, conventions: str, severity: list[str]) -> None:
    assert [f.severity for f in findings(grid(dims, conventions), "DOC008")] == severity


@pytest.mark.parametrize("name", ["_FillValue", "_Unsigned", "_CoordinateAxisType", "a1_B"])
def test_names_that_libraries_give_are_no_bad_names(name: str) -> None:
    text = f'netcdf n {{ dimensions: x = 1 ; variables: int a(x) ; :Conventions = "CF-1.8" ; a:{name} = 1 ; }}'
    assert codes(text, "DOC004") == []


@pytest.mark.parametrize(
    "text",
    [
        "netcdf n { dimensions: x-y = 1 ; variables: int a(x-y) ; }",
        "netcdf n { variables: int _a ; }",
        "netcdf n { variables: int a ; a:my\\ note = 1 ; }",
        'netcdf n { variables: int a ; :my.note = "x" ; }',
        "netcdf n { group: 1st { variables: int a ; } }",
        "netcdf n { variables: int größe ; }",
    ],
)
def test_other_characters_in_names_are_found(text: str) -> None:
    assert codes(text, "DOC004") == ["DOC004"]


def test_groups_had_no_names_before_there_were_groups() -> None:
    assert codes('netcdf n { :Conventions = "CF-1.7" ; group: 1st { variables: int a ; } }', "DOC004") == []


def test_names_in_different_groups_may_differ_by_case_only() -> None:
    assert codes("netcdf n { variables: int a ; group: g { variables: int A ; } }", "DOC005") == []


def test_a_one_dimensional_string_variable_named_like_its_dimension_is_an_error_since_cf_1_12() -> None:
    text = 'netcdf n { dimensions: s = 2 ; variables: string s(s) ; :Conventions = "CF-1.12" ; }'
    assert [f.severity for f in findings(text, "DOC009")] == ["error"]
    assert codes(text.replace("1.12", "1.11"), "DOC009") == []


def test_characters_with_a_length_may_be_meant_or_not() -> None:
    text = "netcdf n { dimensions: s = 2 ; l = 3 ; variables: char s(s, l) ; }"
    assert [f.severity for f in findings(text, "DOC009")] == ["warning"]


def test_a_numeric_coordinate_is_named_like_its_dimension() -> None:
    assert codes("netcdf n { dimensions: s = 2 ; variables: int s(s) ; }", "DOC009") == []


def dataset(**attributes: object) -> Dataset:
    root = Group(attributes=dict(attributes))
    return Dataset("test", "zarr", root)


@pytest.mark.parametrize(
    "value", ["Z\u00fcrich", "\u03b1", "plain", "", ("a", "\u00fc"), np.array([1.0]), None, {"a": 1}, b"ok"]
)
def test_normalized_text_and_what_is_no_text_pass(value: object) -> None:
    assert codes(dataset(title=value), "DOC002") == []


@pytest.mark.parametrize("value", ["Zu\u0308rich", b"Z\xfcrich", "Z\udcfcrich", ("a", "u\u0308"), "\u212b"])
def test_text_that_is_not_normalized_utf8_is_found(value: object) -> None:
    assert codes(dataset(title=value), "DOC002") == ["DOC002"]


def test_an_attribute_that_cf_does_not_define_is_no_error() -> None:
    assert [f.severity for f in findings(dataset(station="Zu\u0308rich"), "DOC002")] == ["warning"]


def test_normalizing_a_text_is_offered() -> None:
    (found,) = findings(dataset(title="Zu\u0308rich"), "DOC002")
    assert found.fix[0].value == "Z\u00fcrich"


def test_older_versions_did_not_say_how_text_is_coded() -> None:
    assert codes(dataset(title=b"Z\xfcrich"), "DOC002", cf_version="1.11") == []


@pytest.mark.parametrize(("raw", "expected"), [(b"Z\xfcrich", ["DOC002"]), ("Zürich".encode(), []), (b"Zurich\0", [])])
def test_values_of_characters_are_read_as_utf8(raw: bytes, expected: list[str]) -> None:
    root = Group()
    width = root.add_dimension("width", len(raw))
    values = np.frombuffer(raw, "S1")
    root.variables["name"] = Variable("name", root, (width,), np.dtype("S1"), "char", {}, read=values.__getitem__)
    assert codes(Dataset("test", "netcdf", root), "DOC002") == expected
    assert codes(Dataset("test", "netcdf", root), "DOC002", data=False) == []


def test_strings_are_read_too() -> None:
    text = 'netcdf n { dimensions: s = 2 ; variables: string n(s) ; data: n = "a", "u\u0308" ; }'
    assert codes(text, "DOC002") == ["DOC002"]


@pytest.mark.parametrize(
    ("name", "value", "severity"),
    [
        ("comment", ("a", "b"), ["error"]),
        ("stations", ("a", "b"), ["warning"]),
        ("comment", ("a",), []),
        ("comment", (), ["error"]),
        ("comment", "a b", []),
    ],
)
def test_arrays_of_strings(name: str, value: object, severity: list[str]) -> None:
    assert [f.severity for f in findings(dataset(**{name: value}), "DOC003")] == severity


@pytest.mark.parametrize(
    ("type_", "version", "expected"),
    [
        ("int64", "1.8", ["warning"]),
        ("int64", "1.9", []),
        ("ubyte", "1.8", ["warning"]),
        ("string", "1.7", ["warning"]),
        ("string", "1.8", []),
        ("short", "1.0", []),
        ("char", "1.0", []),
    ],
)
def test_types_that_came_with_later_versions(type_: str, version: str, expected: list[str]) -> None:
    text = f'netcdf n {{ dimensions: x = 2 ; variables: {type_} a(x) ; :Conventions = "CF-{version}" ; }}'
    assert [f.severity for f in findings(text, "TYP001")] == expected


def test_a_type_that_netcdf_does_not_have_is_an_error() -> None:
    found = parse_cdl('netcdf n { dimensions: x = 2 ; variables: byte a(x) ; :Conventions = "CF-1.13" ; }')
    found.root.variables["a"].kind = "other"
    assert told(found, "TYP001")[0].startswith("error a ")


def test_very_long_texts_and_lists_are_looked_at_in_bounded_time() -> None:
    text = 'netcdf n { dimensions: x = 2 ; variables: float t(x) ; :Conventions = "CF-1.13" ; }'
    found = parse_cdl(text)
    found.root.variables["t"].attributes = {"coordinates": "a " * 10**6, "formula_terms": "a: b " * 10**6}
    found.root.attributes["comment"] = "u\u0308" * 10**7
    assert {"DOC002", "COO009", "VRT004"} <= set(codes(found))


def test_messages_do_not_repeat_long_names() -> None:
    found = parse_cdl('netcdf n { dimensions: x = 2 ; variables: float t(x) ; :Conventions = "CF-1.13" ; }')
    found.root.variables["t"].attributes = {"coordinates": "/" * 10**6}
    assert max(len(f.message) for f in findings(found)) <= 2000
