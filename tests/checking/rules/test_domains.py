"""Domain variables, labels and gathered dimensions: what is found, and what is let pass."""

from __future__ import annotations

import pytest

from tests.checking.rules.asking import codes, findings

DOMAIN = """netcdf a {
dimensions: y = 2 ; x = 3 ; time = 4 ; letters = 5 ;
variables:
  char domain ; domain:dimensions = "y x" ; domain:long_name = "grid" ; domain:coordinates = "lat lon name" ;
    domain:cell_measures = "area: cell_area" ;
  double lat(y, x) ; lat:units = "degrees_north" ;
  double lon(y, x) ; lon:units = "degrees_east" ;
  char name(y, letters) ; name:long_name = "name of the row" ;
  float cell_area(x, y) ; cell_area:units = "m2" ;
  :Conventions = "CF-1.13" ;
}"""


def changed(text: str, *changes: tuple[str, str]) -> str:
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return text


@pytest.mark.parametrize(
    "changes",
    [
        [],
        [('"y x"', '"time y x"')],
        [
            ('"y x"', '""'),
            ("lat(y, x)", "lat"),
            ("lon(y, x)", "lon"),
            ("name(y, ", "name("),
            ("cell_area(x, y)", "cell_area"),
        ],
        [("char domain", "double domain")],
        [('"area: cell_area"', '"area: elsewhere"'), (":Conv", ':external_variables = "elsewhere" ; :Conv')],
    ],
)
def test_sound_domains_pass(changes: list[tuple[str, str]]) -> None:
    found = [f.code for f in findings(changed(DOMAIN, *changes)) if f.severity == "error"]
    assert found == []
    assert codes(changed(DOMAIN, *changes), "DOM") == []


@pytest.mark.parametrize(
    ("code", "changes"),
    [
        ("DOM002", [('"y x"', '"y z"')]),
        ("DOM002", [('"y x"', "2, 3")]),
        ("DOM003", [("lat(y, x)", "lat(time, x)")]),
        ("DOM003", [("name(y, letters)", "name(time, letters)")]),
        ("DOM004", [("cell_area(x, y)", "cell_area(x, time)")]),
        ("DOM005", [('domain:long_name = "grid" ;', "")]),
        ("DOM006", [("domain:long_name", 'domain:cell_methods = "time: mean" ; domain:long_name')]),
    ],
)
def test_one_defect_of_a_domain_is_found_by_its_rule(code: str, changes: list[tuple[str, str]]) -> None:
    assert codes(changed(DOMAIN, *changes), "DOM") == [code]
    assert codes(changed(DOMAIN, *changes), "COO014") == []


def test_a_container_without_dimensions_is_a_domain_that_lacks_them() -> None:
    text = changed(DOMAIN, ('domain:dimensions = "y x" ;', ""))
    (found,) = findings(text, "DOM001")
    assert (found.severity, found.variable) == ("error", "domain")


@pytest.mark.parametrize(
    "changes",
    [
        [("char domain", "float domain"), ("domain", "scene")],
        [("domain:long_name", 'domain:units = "K" ; domain:long_name')],
        [("lat(y, x)", "lat"), ("lon(y, x)", "lon"), ("cell_area(x, y)", "cell_area")],
    ],
)
def test_a_scalar_that_holds_data_is_no_domain(changes: list[tuple[str, str]]) -> None:
    assert codes(changed(DOMAIN, ('domain:dimensions = "y x" ;', ""), *changes), "DOM001") == []


def test_the_coordinates_of_a_domain_of_ragged_features_pass() -> None:
    text = """netcdf a { dimensions: station = 2 ; obs = 5 ; variables: int domain ; domain:dimensions = "obs" ;
      domain:long_name = "stations" ; domain:coordinates = "lat time" ; double lat(station) ; double time(obs) ;
      int rows(station) ; rows:sample_dimension = "obs" ; }"""
    assert codes(text, "DOM") == []


LABEL = """netcdf a { dimensions: place = 2 ; time = 3 ; letters = 5 ; variables:
  char name(place, letters) ; name:long_name = "name" ;
  float t(place, time) ; t:coordinates = "name" ; :Conventions = "CF-1.13" ; }"""


@pytest.mark.parametrize(
    "label",
    [
        "char name(place, letters)",
        "char name(letters)",
        "string name(place)",
        "string name",
        "char name(time, letters)",
    ],
)
def test_labels_of_one_axis_or_of_none_pass(label: str) -> None:
    assert codes(changed(LABEL, ("char name(place, letters)", label)), "COO014") == []


@pytest.mark.parametrize(
    ("label", "severity"),
    [
        ("char name", "error"),
        ("char name(letters, letters)", "error"),
        ("string name(letters)", "error"),
        ("string name(place, letters)", "error"),
        ("string name(place, time)", "warning"),
        ("char name(place, time, letters)", "warning"),
    ],
)
def test_other_labels_are_found_once(label: str, severity: str) -> None:
    text = changed(
        LABEL, ("char name(place, letters)", label), (":Conv", 'float u(place, time) ; u:coordinates = "name" ; :Conv')
    )
    assert [f.severity for f in findings(text, "COO014")] == [severity]


LIST = """netcdf a { dimensions: y = 2 ; x = 3 ; land = 3 ; variables: double y(y) ; double x(x) ;
  int land(land) ; land:compress = "y x" ; float t(land) ; t:coordinates = "name" ; string name(land) ;
  :Conventions = "CF-1.13" ; data: y = 0, 1 ; x = 0, 1, 2 ; land = 0, 4, 5 ; }"""


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ([], []),
        ([("string name(land)", "string name(y)")], []),
        ([("int land", "ubyte land")], []),
        ([("int land", "double land")], ["GAT001"]),
        ([("int land(land) ; land:", "int list(land) ; list:"), ("land = 0", "list = 0")], ["GAT001"]),
        ([('"y x"', '"y z"')], ["GAT002"]),
        ([('"y x"', '""')], ["GAT002"]),
        ([('"y x"', "1")], ["GAT002"]),
        ([("land = 0, 4, 5", "land = 1, 4, 6")], ["GAT003"]),
        ([("land = 0, 4, 5", "land = -1, 4, 5")], ["GAT003"]),
        ([("land:compress", 'land:bounds = "b" ; land:compress')], ["GAT004"]),
    ],
)
def test_lists_of_gathered_points(changes: list[tuple[str, str]], expected: list[str]) -> None:
    text = changed(LIST, *changes)
    assert codes(text, "GAT") + codes(text, "COO014") == expected


def test_bounds_of_a_list_were_let_pass_before_version_1_11() -> None:
    text = changed(LIST, ("land:compress", 'land:bounds = "b" ; land:compress'))
    assert codes(text, "GAT", cf_version="1.10") == []


def test_the_values_of_an_aggregated_list_stand_elsewhere() -> None:
    text = """netcdf a { dimensions: y = 2 ; x = 3 ; land = 3 ; one = 1 ; variables:
      int land ; land:compress = "y x" ; land:aggregated_dimensions = "land" ;
      land:aggregated_data = "map: map uris: uris identifiers: ids" ;
      int map(one, one) ; string uris(one) ; string ids(one) ; :Conventions = "CF-1.13" ;
      data: land = -5 ; map = 3 ; uris = "a.nc" ; ids = "land" ; }"""
    assert codes(text, "GAT") == []


@pytest.mark.parametrize(
    "changes",
    [
        [("domain:dimensions", "domain:comments")],
        [("domain:dimensions", "domain:comments"), ("char domain", "double domain")],
        [("domain:dimensions", "domain:comments"), ('domain:coordinates = "lat lon name"', "domain:size = 6")],
    ],
)
def test_a_domain_that_lacks_dimensions_is_told_of_once(changes: list[tuple[str, str]]) -> None:
    errors = [f.code for f in findings(changed(DOMAIN, *changes)) if f.severity == "error"]
    assert errors == ["DOM001"]


def test_a_domain_needs_no_units() -> None:
    text = changed(DOMAIN, ('domain:long_name = "grid"', 'domain:standard_name = "air_temperature"'))
    assert "UNI001" not in codes(text)
