"""Bounds, cell measures, cell methods and climatologies: what the text allows, and traps."""

from __future__ import annotations

import pytest

from tests.checking.rules.asking import codes, findings, told


def axis(
    values: str,
    bounds: str,
    *,
    units: str = "degrees_east",
    extra: str = "",
    on_bounds: str = "",
    nv: int = 2,
    size: int = 3,
) -> str:
    return f"""netcdf axis {{
dimensions: x = {size} ; nv = {nv} ;
variables:
  double x(x) ; x:units = "{units}" ; x:bounds = "b" ; {extra}
  double b(x, nv) ; {on_bounds}
:Conventions = "CF-1.13" ;
data: x = {values} ; b = {bounds} ; }}"""


def plane(dimensions: str, nv: int, attributes: str) -> str:
    """Return a two-dimensional auxiliary coordinate with bounds of `nv` vertices."""
    return f"""netcdf plane {{
dimensions: j = 2 ; i = 2 ; nv = {nv} ;
variables:
  double c({dimensions}) ; {attributes} c:bounds = "b" ;
  double b({dimensions}, nv) ;
  float d(j, i) ; d:long_name = "something" ; d:coordinates = "c" ;
:Conventions = "CF-1.13" ; }}"""


def test_cells_that_wrap_around_hold_their_points() -> None:
    assert codes(axis("0, 120, 240", "-60, 60, 60, 180, 180, 300"), "BND") == []
    assert codes(axis("-180, -60, 60", "120, 240, -120, 0, 0, 120"), "BND009") == []
    assert codes(axis("0, 1, 2", "0, 360, 0, 360, 0, 360"), "BND009") == []


def test_points_across_the_globe_from_wide_cells_are_outside() -> None:
    assert codes(axis("200, 250, 300", "0, 100, 245, 255, 295, 305"), "BND") == ["BND009"]


def test_bounds_that_fall_across_the_meridian_are_out_of_order() -> None:
    assert codes(axis("0, 120, 240", "300, 60, 60, 180, 180, 300"), "BND") == ["BND005"]
    assert codes(axis("0, 120, 240", "300, 60, 60, 180, 180, 300"), "BND", cf_version="1.11") == []


def test_cells_without_size_and_cells_of_a_falling_coordinate_are_in_order() -> None:
    assert codes(axis("3, 2, 1", "3, 3, 2.5, 1.5, 1.5, 0.5", units="m"), "BND") == []


@pytest.mark.parametrize(
    ("named", "units", "expected"),
    [
        ("x", "days since 2000-01-01", ["error"]),
        ("k", "days since 2000-01-01", ["warning"]),
        ("k", "degrees_east", []),
    ],
)
def test_times_that_are_no_coordinate_variable_may_be_in_another_order(
    named: str, units: str, expected: list[str]
) -> None:
    text = axis("1, 2, 3", "1.5, 0.5, 2.5, 1.5, 3.5, 2.5", units=units)
    if named != "x":
        text = text.replace("x = 3", f"{named} = 3").replace("x(x)", f"x({named})").replace("b(x", f"b({named}")
    assert [f.severity for f in findings(text, "BND005")] == expected


def test_one_cell_may_be_written_either_way() -> None:
    assert codes(axis("5", "10, 0", units="m", size=1), "BND") == []


def test_bounds_in_other_units_are_not_compared_with_points() -> None:
    text = axis("1, 2, 3", "500, 1500, 1500, 2500, 2500, 3500", units="km", on_bounds='b:units = "m" ;')
    assert codes(text, "BND", cf_version="1.6") == ["BND007"]


def test_a_point_on_the_edge_by_round_off_is_inside() -> None:
    text = axis("0.1, 0.2, 0.3", "0, 0.1, 0.2, 0.2, 0.3, 0.4", units="m").replace("double", "float")
    assert codes(text, "BND009") == []
    assert codes(axis("0.1, 0.2, 0.35", "0, 0.1, 0.2, 0.2, 0.3, 0.34", units="m"), "BND009") == ["BND009"]


def test_missing_points_and_missing_cells_are_not_looked_at() -> None:
    text = axis("1, 2, 3", "0.5, 1.5, -9, -9, 2.5, 3.5", units="m", on_bounds="b:_FillValue = -9. ;")
    assert codes(text, "BND") == []


def test_a_cell_of_two_vertices_and_missing_ones_is_an_interval() -> None:
    cells = "0, 360, -9, -9, 100, 120, -9, -9, 200, 210, 205, -9"
    text = axis("90, 140, 208", cells, nv=4, on_bounds="b:_FillValue = -9. ;")
    assert [f.message for f in findings(text, "BND009")] == [
        "1 of 3 points outside their cells, first point (1): 140 is not within 100, 120 of 'b'"
    ]


def test_packed_bounds_are_unpacked() -> None:
    packed = axis("1, 2, 3", "0, 15, 15, 25, 25, 35", units="m", on_bounds="b:scale_factor = 0.1 ;").replace(
        "double b", "short b"
    )
    assert codes(packed, "BND009") == []


@pytest.mark.parametrize("nv", [3, 4, 6])
def test_a_list_of_polygons_has_any_number_of_vertices(nv: int) -> None:
    text = plane("i", nv, 'c:units = "degrees_north" ;')
    assert codes(text, "BND", data=False) == []


def test_a_polygon_has_more_than_two_vertices_and_a_height_that_varies_has_two() -> None:
    def found(attributes: str, version: str | None = None) -> list[str]:
        return [f.severity for f in findings(plane("j, i", 2, attributes), "BND003", data=False, cf_version=version)]

    assert found('c:units = "degrees_north" ;') == ["error"]
    assert found('c:units = "m" ; c:positive = "up" ;') == ["warning"]
    assert found('c:units = "degrees_north" ;', "1.11") == []


def test_bounds_of_labels_are_left_alone_and_scalars_have_a_vertex_dimension() -> None:
    text = """netcdf s { dimensions: nv = 2 ;
variables: double h ; h:units = "m" ; h:positive = "up" ; h:bounds = "b" ; double b(nv) ;
 float d ; d:long_name = "d" ; d:coordinates = "h" ; :Conventions = "CF-1.13" ; data: h = 2 ; b = 0, 10 ; }"""
    assert codes(text, "BND") == []
    assert codes(text.replace("b(nv)", "b").replace("b = 0, 10", "b = 0"), "BND") == ["BND003"]


@pytest.mark.parametrize(
    ("on_bounds", "version", "expected"),
    [
        ('b:units = "degrees_east" ;', "1.13", ["BND010 warning"]),
        ('b:units = "degree_east" ;', "1.13", ["BND007 error"]),
        ('b:units = "degree_east" ;', "1.7", ["BND007 error"]),
        ('b:units = "degree_east" ;', "1.6", ["BND007 warning"]),
        ('b:units = "m" ;', "1.8", ["BND007 error"]),
        ('b:long_name = "edges" ;', "1.13", ["BND006 error"]),
        ('b:long_name = "edges" ;', "1.8", []),
        ('b:comment = "edges" ; b:_FillValue = -9. ; b:valid_min = 0. ;', "1.13", []),
    ],
)
def test_attributes_of_bounds(on_bounds: str, version: str, expected: list[str]) -> None:
    text = axis("1, 2, 3", "0.5, 1.5, 1.5, 2.5, 2.5, 3.5", on_bounds=on_bounds)
    assert [f"{f.code} {f.severity}" for f in findings(text, "BND", cf_version=version)] == expected


def test_repeated_attributes_are_deleted_safely_and_others_are_not() -> None:
    (same,) = findings(axis("1, 2, 3", "0, 2, 2, 3, 3, 4", on_bounds='b:units = "degrees_east" ;'), "BND010")
    (other,) = findings(axis("1, 2, 3", "0, 2, 2, 3, 3, 4", on_bounds='b:units = "m" ;'), "BND007")
    assert (same.fix[0].variable, same.fix[0].attribute, same.fix[0].value, same.fix[0].safe) == (
        "b",
        "units",
        None,
        True,
    )
    assert not other.fix[0].safe


def test_attributes_of_another_variable_named_in_error_are_not_compared() -> None:
    text = """netcdf a { dimensions: y = 2 ; x = 3 ; variables:
    double y(y) ; y:units = "m" ; y:axis = "Y" ; y:bounds = "x" ;
    double x(x) ; x:units = "km" ; x:axis = "X" ; x:long_name = "eastward" ; :Conventions = "CF-1.13" ; }"""
    assert codes(text, "BND", data=False) == ["BND003"]


def test_types_of_attributes_count_where_they_are_known() -> None:
    from cfagg.formats.cdl.parsing import parse_cdl

    text = axis("1, 2, 3", "0, 2, 2, 3, 3, 4", extra="x:leap_month = 2s ;", on_bounds="b:leap_month = 2 ;")
    dataset = parse_cdl(text)
    assert codes(dataset, "BND007") == ["BND007"]
    dataset.typed = False
    assert codes(dataset, "BND007") == []


MEASURED = """netcdf m {
dimensions: time = 2 ; cell = 3 ; land = 2 ; y = 2 ; x = 2 ;
variables:
  int land(land) ; land:compress = "y x" ;
  float area(y, x) ; area:long_name = "area" ; area:units = "km2" ;
  float weight(land) ; weight:long_name = "area" ; weight:units = "m2" ;
  float d(time, land) ; d:long_name = "d" ; d:cell_measures = "MEASURES" ;
:external_variables = "areacella" ; :Conventions = "CF-1.13" ; data: land = 0, 3 ; }"""


@pytest.mark.parametrize(
    "measures", ["area: weight", "area: area", "area: areacella", "area: areacella volume: areacella"]
)
def test_measures_of_gathered_cells_and_external_ones_are_fine(measures: str) -> None:
    assert codes(MEASURED.replace("MEASURES", measures), "CEL001") == []


@pytest.mark.parametrize(
    "measures", ["", "area", "area:", "area: none", "size: area", "area: area weight", "area: cell", "--OPT"]
)
def test_other_measures_are_told_once(measures: str) -> None:
    text = MEASURED.replace("MEASURES", measures).replace("int land(land) ;", "int land(land) ; float cell(cell) ;")
    assert codes(text, "CEL001") == ["CEL001"]


@pytest.mark.parametrize(
    ("units", "expected"), [("m", ["CEL002"]), ("hectare", []), ("m3", ["CEL002"]), ("nonsense", [])]
)
def test_units_of_measures(units: str, expected: list[str]) -> None:
    text = MEASURED.replace("MEASURES", "area: area").replace('"km2"', f'"{units}"')
    assert codes(text, "CEL002") == expected


METHODS = """netcdf d {
dimensions: time = 2 ; y = 2 ; x = 2 ; type = 2 ; len = 20 ; nv = 2 ;
variables:
  double time(time) ; time:units = "days since 2000-01-01" ; time:calendar = "standard" ; TIME
  double tb(time, nv) ;
  double y(y) ; y:standard_name = "projection_y_coordinate" ; y:units = "m" ; y:axis = "Y" ;
  double x(x) ; x:standard_name = "projection_x_coordinate" ; x:units = "m" ; x:axis = "X" ;
  double lat(y, x) ; lat:units = "degrees_north" ;
  double height ; height:standard_name = "height" ; height:units = "m" ; height:positive = "up" ;
  char types(type, len) ; types:standard_name = "area_type" ;
  char one(len) ; one:standard_name = "area_type" ;
  string text(type) ; text:standard_name = "area_type" ;
  int flag(y, x) ; flag:standard_name = "area_type" ; flag:flag_values = 0, 1 ; flag:flag_meanings = "sea land" ;
  float snow(y, x) ; snow:long_name = "snow" ; snow:units = "1" ;
  float d(time, type, y, x) ; d:long_name = "d" ; d:units = "1" ; d:coordinates = "height lat types one text flag" ;
    d:cell_methods = "WHAT" ;
:Conventions = "CF-1.13" ; }"""


def said(what: str, code: str = "CEL003", time: str = 'time:bounds = "tb" ;', **options: str) -> list[str]:
    text = METHODS.replace("WHAT", what).replace("TIME", time)
    return [f.severity for f in findings(text, code, data=False, **options)]


@pytest.mark.parametrize(
    "what",
    [
        "time: MEAN",
        "height: point",
        "area: mean where land",
        "area: mean where types",
        "area: mean where text over one",
        "area: mean where sea_ice over sea",
        "longitude: mean",
        "sea_water_salinity: mean",
        "y: x: mean",
    ],
)
def test_names_methods_and_area_types_that_the_text_allows(what: str) -> None:
    assert said(what) == []


@pytest.mark.parametrize(
    "what",
    [
        "time: average",
        "when: mean",
        "Time: mean",
        "area: mean where dry_ground",
        "area: mean where height",
        "area: mean where one over types",
        "area: mean where one over text",
        "time: mean within years",
        "time: mean over days time: mean within days",
    ],
)
def test_names_methods_and_area_types_that_it_does_not_allow(what: str) -> None:
    assert said(what, time='time:climatology = "tb" ;') == ["error"]


@pytest.mark.parametrize(
    "what",
    ["lat: mean", "area: mean where snow", "area: mean where flag", "time: mean within days time: mean over days"],
)
def test_what_may_be_read_in_two_ways_is_a_warning(what: str) -> None:
    assert "error" not in said(what)
    assert said(what)


def test_methods_are_those_of_the_version() -> None:
    assert said("y: range", cf_version="1.6") == ["error"]
    assert said("y: range", cf_version="1.7") == []


@pytest.mark.parametrize(
    ("what", "expected"),
    [
        ("time: mean time: maximum", ["error"]),
        ("y: y: mean", ["error"]),
        ("height: mean height: mean", ["error"]),
        ("y: mean projection_y_coordinate: maximum", ["warning"]),
        ("y: mean projection_x_coordinate: maximum", []),
        ("area: mean where land area: sum", []),
        ("time: maximum time: anomaly_wrt snow", []),
        ("time: mean within days time: mean over days", []),
    ],
)
def test_a_dimension_occurs_once_but_for_anomalies_and_climatologies(what: str, expected: list[str]) -> None:
    assert said(what, "CEL004") == expected


def test_a_climatological_time_may_occur_more_than_once() -> None:
    assert said("time: mean time: maximum", "CEL004", 'time:climatology = "tb" ;') == []


@pytest.mark.parametrize(
    ("inside", "expected"),
    [
        ("interval: 1 day", []),
        ("interval: 1 hr comment: of rain", []),
        ("interval: 1 day of rain", ["error"]),
        ("of rain", []),
        ("interval:1 day", ["warning"]),
        ("Interval: 1 day", ["warning"]),
        ("comment: of rain", ["warning"]),
    ],
)
def test_units_of_intervals_are_known_to_udunits(inside: str, expected: list[str]) -> None:
    assert said(f"time: mean ({inside})", "CEL005") == expected


def test_the_dimensions_without_a_method_are_named_together() -> None:
    text = METHODS.replace("WHAT", "time: mean").replace("TIME", "")
    assert told(text, "CEL006", data=False)[-1].split("does not mention ")[1].startswith("y, x, height;")
    assert said("area: time: mean height: point", "CEL006") == ["warning"]  # that of snow


def test_only_cells_need_bounds() -> None:
    assert said("time: mean height: point area: mean", "CEL007") == []
    assert said("height: mean", "CEL007") == ["warning"]


def test_cells_of_a_standard_name_need_bounds() -> None:
    text = """netcdf a { dimensions: x = 2 ; variables:
    double x(x) ; x:standard_name = "longitude" ; x:units = "degrees_east" ;
    float d(x) ; d:long_name = "d" ; d:cell_methods = "longitude: mean" ; :Conventions = "CF-1.13" ; }"""
    assert [f.variable for f in findings(text, "CEL007", data=False)] == ["x"]
    assert codes(text.replace("longitude: mean", "longitude: point"), "CEL007", data=False) == []


CLIMATOLOGY = """netcdf c { dimensions: time = 2 ; nv = 2 ;
variables: double time(time) ; time:units = "days since 2000-01-01" ; time:calendar = "standard" ; TIME
 time:climatology = "c" ; double c(time, nv) ; BOUNDS
:Conventions = "CF-1.13" ; data: time = 15, 45 ; c = 0, 400, 31, 430 ; }"""


@pytest.mark.parametrize(
    ("time", "bounds", "expected"),
    [
        ("", "", []),
        ('time:bounds = "c" ;', "", ["CLM001 warning"]),
        ("", 'c:calendar = "gregorian" ;', ["CLM005 warning"]),
        ("", 'c:calendar = "360_day" ;', ["CLM005 error"]),
        ("", 'c:units = "days since 2000-01-01" ;', []),
        ("", "c:missing_value = -1. ;", ["CLM006 error"]),
    ],
)
def test_attributes_of_climatologies(time: str, bounds: str, expected: list[str]) -> None:
    text = CLIMATOLOGY.replace("TIME", time).replace("BOUNDS", bounds)
    assert [f"{f.code} {f.severity}" for f in findings(text, "CLM")] == expected


@pytest.mark.parametrize(("version", "expected"), [("1.13", ["BND007"]), ("1.12", [])])
def test_boundaries_of_climatologies_inherit_as_others_do(version: str, expected: list[str]) -> None:
    text = CLIMATOLOGY.replace("TIME", 'time:long_name = "month" ;').replace("BOUNDS", 'c:long_name = "years" ;')
    assert codes(text, "BND007", cf_version=version) == expected
    alone = text.replace('time:long_name = "month" ;', "")
    assert codes(alone, "BND006", cf_version=version) == [code.replace("7", "6") for code in expected]


@pytest.mark.parametrize(
    "change",
    [
        ('list:compress = "y x"', 'list:compress = "y z"'),
        ('list:compress = "y x"', "list:compress = 2"),
        ("list", "points"),
    ],
)
def test_a_list_that_is_wrong_does_not_make_names_of_cell_methods_wrong(change: tuple[str, str]) -> None:
    text = """netcdf g { dimensions: y = 2 ; x = 2 ; list = 3 ; variables:
    int list(list) ; list:compress = "y x" ;
    float d(list) ; d:long_name = "d" ; d:cell_methods = "y: x: mean" ; :Conventions = "CF-1.13" ; }"""
    assert codes(text, "CEL003") == []
    wrong = text.replace(*change).replace("points = 3", "list = 3").replace("(points)", "(list)")
    assert codes(wrong, "CEL003") == []
    assert any(code.startswith("GAT") for code in codes(wrong, "GAT"))


def test_dimensions_that_were_gathered_may_be_named() -> None:
    text = MEASURED.replace("MEASURES", "area: area").replace(
        'd:long_name = "d" ;', 'd:long_name = "d" ; d:cell_methods = "y: x: mean" ;'
    )
    assert codes(text, "CEL003") == []


@pytest.mark.parametrize("name", ["level", "/shared/level", "/shared/absent", "/other/level"])
def test_scalar_coordinates_of_other_groups_may_be_named(name: str) -> None:
    text = """netcdf g { dimensions: x = 2 ; :Conventions = "CF-1.13" ;
    group: shared { variables: double level ; level:units = "m" ; level:positive = "up" ; }
    group: other { variables: double level ; level:units = "m" ; level:positive = "up" ; }
    group: data { variables: float d(x) ; d:long_name = "d" ; d:coordinates = "/shared/level" ;
      d:cell_methods = "NAME: mean" ; } }""".replace("NAME", name)
    assert codes(text, "CEL003") == ([] if name in ("level", "/shared/level") else ["CEL003"])


def test_only_versions_that_know_external_variables_speak_of_them() -> None:
    text = MEASURED.replace("MEASURES", "area: none")
    assert "external_variables" in told(text, "CEL001", cf_version="1.7")[0]
    assert "external_variables" not in told(text, "CEL001", cf_version="1.6")[0]


def test_a_name_that_a_newer_table_may_have_is_a_warning() -> None:
    text = METHODS.replace("WHAT", "name_of_tomorrow: mean").replace("TIME", "")
    newer = text.replace(":Conventions", ':standard_name_vocabulary = "CF Standard Name Table v999" ; :Conventions')
    assert [f.severity for f in findings(text, "CEL003", data=False)] == ["error"]
    assert [f.severity for f in findings(newer, "CEL003", data=False)] == ["warning"]


def test_headers_without_values_are_left_alone() -> None:
    from cfagg.formats.cdl.parsing import parse_cdl

    dataset = parse_cdl(axis("0, 120, 240", "300, 60, 60, 180, 180, 300"))
    dataset.root.variables["b"].read = None
    assert codes(dataset, "BND") == []


POLYGON = """netcdf p { dimensions: i = 1 ; nv = 4 ;
variables: double lat(i) ; lat:units = "degrees_north" ; lat:bounds = "latb" ; double latb(i, nv) ;
 double lon(i) ; lon:units = "degrees_east" ; lon:bounds = "lonb" ; double lonb(i, nv) ;
 float d(i) ; d:long_name = "d" ; d:coordinates = "lat lon" ; :Conventions = "CF-1.13" ;
data: lat = LAT ; latb = 50, 50, 51, 51 ; lon = LON ; lonb = 359, 1, 1, 359 ; }"""


@pytest.mark.parametrize(
    ("lat", "lon", "expected"),
    [("50.5", "0", []), ("51.05", "360.9", []), ("51.5", "0", ["lat"]), ("50.5", "2", ["lon"]), ("50.5", "-0.5", [])],
)
def test_points_are_within_their_polygons_by_each_coordinate(lat: str, lon: str, expected: list[str]) -> None:
    text = POLYGON.replace("LAT", lat).replace("LON", lon)
    assert [f.variable for f in findings(text, "BND009")] == expected


def test_a_cell_over_the_pole_holds_it() -> None:
    text = POLYGON.replace("LAT", "90").replace("LON", "0").replace("50, 50, 51, 51", "88, 88, 88.5, 88.5")
    assert [f.variable for f in findings(text, "BND009")] == ["lat"]
    text = text.replace("88, 88, 88.5, 88.5", "88, 88, 89, 89")
    assert codes(text, "BND009") == []
