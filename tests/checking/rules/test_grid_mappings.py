"""Grid mappings: what is found, and what is let pass."""

from __future__ import annotations

import pytest

from cfagg.cf.grid_mapping_parameters import MAPPINGS, TYPES
from tests.checking.rules.asking import codes, findings, told


def projected(
    mapping: str = 'grid_mapping_name = "transverse_mercator"',
    *more: str,
    tas: str = 'tas:grid_mapping = "crs" ;',
    version: str = "CF-1.13",
    variables: str = "",
) -> str:
    """Return CDL of a variable on a plane with a grid mapping."""
    attributes = "\n".join(f"crs:{a} ;" for a in (mapping, *more))
    return f"""netcdf a {{ dimensions: y = 2 ; x = 3 ; variables:
  double y(y) ; y:standard_name = "projection_y_coordinate" ; y:units = "m" ;
  double x(x) ; x:standard_name = "projection_x_coordinate" ; x:units = "m" ;
  double lat(y, x) ; lat:units = "degrees_north" ;
  double lon(y, x) ; lon:units = "degrees_east" ;
  int crs ; {attributes}
  float tas(y, x) ; tas:units = "K" ; tas:coordinates = "lat lon" ; {tas}
  {variables}
  :Conventions = "{version}" ; data: y = 0, 1 ; x = 0, 1, 2 ; }}"""


@pytest.mark.parametrize("form", ["crs", "crs: x y", "crs: y x lat lon", "crs: x y other: lat lon", "crs:  x\\n y"])
def test_both_forms_of_grid_mapping_pass(form: str) -> None:
    other = 'int other ; other:grid_mapping_name = "latitude_longitude" ;'
    text = projected(tas=f'tas:grid_mapping = "{form}" ;', variables=other)
    assert codes(text, "GMP") == []


@pytest.mark.parametrize(
    ("form", "code", "severity"),
    [
        ("", "GMP001", "error"),
        ("crs x y", "GMP001", "error"),
        ("crs:", "GMP001", "error"),
        (": x y", "GMP001", "error"),
        ("crs: other: x", "GMP001", "error"),
        ("crs:x y", "GMP001", "warning"),
        ("crs: x, y", "GMP001", "warning"),
        ("nothing", "GMP003", "error"),
        ("crs: x y nothing: lat lon", "GMP003", "error"),
        ("crs: x z", "GMP004", "error"),
        ("crs: x crs", "GMP004", "error"),
    ],
)
def test_a_faulty_grid_mapping_is_one_finding(form: str, code: str, severity: str) -> None:
    found = findings(projected(tas=f'tas:grid_mapping = "{form}" ;'), "GMP")
    assert [(f.code, f.severity) for f in found if f.variable == "tas"] == [(code, severity)]


def test_the_longer_form_is_of_version_1_7() -> None:
    text = projected(tas='tas:grid_mapping = "crs: x y" ;', version="CF-1.6")
    assert codes(text, "GMP") == ["GMP001"]


def test_the_coordinate_variable_of_another_dimension_is_no_coordinate_of_the_data() -> None:
    text = projected(tas='tas:grid_mapping = "crs: x z" ;', variables="double z(z) ;").replace("x = 3", "x = 3 ; z = 1")
    (message,) = told(text, "GMP004")
    assert "'z' is the coordinate variable of a dimension that 'tas' lacks" in message


def test_coordinates_of_gathered_dimensions_may_be_named() -> None:
    text = """netcdf a { dimensions: y = 2 ; x = 3 ; land = 2 ; variables: double y(y) ; double x(x) ;
      int land(land) ; land:compress = "y x" ; int crs ; crs:grid_mapping_name = "transverse_mercator" ;
      float t(land) ; t:grid_mapping = "crs: x y" ; data: land = 0, 4 ; }"""
    assert codes(text, "GMP") == []


@pytest.mark.parametrize("name", sorted(MAPPINGS))
def test_every_name_of_appendix_f_is_known(name: str) -> None:
    text = projected(f'grid_mapping_name = "{name}"')
    assert codes(text, "GMP005", cf_version="1.14-draft") == []


@pytest.mark.parametrize(
    ("name", "version"),
    [("geostationary", "1.6"), ("sinusoidal", "1.6"), ("healpix", "1.12"), ("reduced_gaussian", "1.13")],
)
def test_a_name_of_a_later_version_is_told_as_such(name: str, version: str) -> None:
    (message,) = told(projected(f'grid_mapping_name = "{name}"'), "GMP005", cf_version=version)
    assert f"known since {MAPPINGS[name].since}" in message


def test_a_name_in_other_letters_can_be_put_right() -> None:
    (found,) = findings(projected('grid_mapping_name = "Transverse Mercator"'), "GMP005")
    assert found.fix[0].value == "transverse_mercator"


@pytest.mark.parametrize("name", sorted(set(TYPES) - {"grid_mapping_name"}))
def test_attributes_of_the_wrong_type_are_found(name: str) -> None:
    value = '"ten"' if TYPES[name] == "N" else "10."
    text = projected('grid_mapping_name = "latitude_longitude"', f"{name} = {value}")
    found = findings(text, "GMP006", cf_version="1.14-draft")
    assert [(f.code, f.attribute) for f in found] == [("GMP006", name)]


def test_attributes_that_appendix_f_does_not_know_are_let_pass() -> None:
    text = projected(
        'grid_mapping_name = "latitude_longitude"', 'unit = "metre"', "GeoTransform = 0, 1", 'spatial_ref = "x"'
    )
    assert codes(text, "GMP") == []


def test_former_names_of_coordinate_systems_are_a_warning() -> None:
    text = projected(
        'grid_mapping_name = "latitude_longitude"',
        'reference_ellipsoid_name = "Airy 1830"',
        'prime_meridian_name = "Greenwich"',
        'horizontal_datum_name = "OSGB_1936"',
        'geographic_coordinate_system_name = "OSGB 1936"',
    )
    (found,) = findings(text, "GMP")
    assert (found.code, found.severity, found.fix[0].rename) == ("GMP008", "warning", "geographic_crs_name")


def test_a_projected_name_alone_is_found_once() -> None:
    text = projected('grid_mapping_name = "mercator"', 'projected_crs_name = "World"')
    assert codes(text, "GMP") == ["GMP009"]


@pytest.mark.parametrize(
    ("attribute", "severity"),
    [
        ("latitude_of_projection_origin = 91.", "warning"),
        ("longitude_of_central_meridian = 265.", "info"),
        ("longitude_of_central_meridian = 1000.", "warning"),
        ("standard_parallel = 10., 20., 30.", "warning"),
        ("towgs84 = 1., 2.", "warning"),
        ("scale_factor_at_central_meridian = 0.", "warning"),
        ("earth_radius = -1.", "warning"),
        ("false_easting = NaN", "warning"),
    ],
)
def test_parameters_out_of_range_are_told(attribute: str, severity: str) -> None:
    found = findings(projected('grid_mapping_name = "latitude_longitude"', attribute), "APF002")
    assert [f.severity for f in found] == [severity]


@pytest.mark.parametrize(
    "attributes",
    [
        ("semi_major_axis = 6378137.", "semi_minor_axis = 6356752.314245", "inverse_flattening = 298.257223563"),
        ("semi_major_axis = 6371000.", "semi_minor_axis = 6371000.", "inverse_flattening = 0."),
        ("earth_radius = 6371000.", "inverse_flattening = 0."),
        ("semi_major_axis = 6371000.f", "inverse_flattening = 0"),
    ],
)
def test_figures_of_the_earth_that_agree_pass(attributes: tuple[str, ...]) -> None:
    assert codes(projected('grid_mapping_name = "latitude_longitude"', *attributes), "APF003") == []


def test_projection_coordinates_of_older_geostationary_data_pass() -> None:
    text = projected('grid_mapping_name = "geostationary"')
    assert codes(text, "APF006") == []
    assert codes(text, "APF006", cf_version="1.8") == []


def healpix(scheme: str = "nested", level: str = "crs:refinement_level = 2 ;", index: str = "int cell(cell) ;") -> str:
    return f"""netcdf a {{ dimensions: cell = 3 ; variables: {index} cell:standard_name = "healpix_index" ;
      int crs ; crs:grid_mapping_name = "healpix" ; crs:indexing_scheme = "{scheme}" ; {level}
      float t(cell) ; t:grid_mapping = "crs" ; :Conventions = "CF-1.13" ; data: cell = 0, 5, 191 ; }}"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (healpix(), []),
        (healpix("ring"), []),
        (healpix("zuniq", ""), []),
        (healpix("nuniq", ""), []),
        (healpix("zuniq"), ["GMP011"]),
        (healpix("ring", ""), ["GMP010"]),
        (healpix("spiral", ""), ["APF005"]),
        (healpix(level="crs:refinement_level = 0b ;"), ["APF007"]),
        (healpix(level="crs:refinement_level = 29ll ;"), []),
        (healpix(level="crs:refinement_level = -1 ;"), ["GMP012"]),
        (healpix(level="crs:refinement_level = 2. ;"), ["GMP012"]),
        (healpix(level="crs:refinement_level = 2, 3 ;"), ["APF002", "GMP012"]),
        (healpix(level='crs:refinement_level = "2" ;'), ["GMP006"]),
        (healpix(index="uint64 cell(cell) ;"), []),
        (healpix(index="double cell(cell) ;"), ["GMP013"]),
    ],
)
def test_healpix(text: str, expected: list[str]) -> None:
    found = [f for f in findings(text) if f.code.startswith(("GMP", "APF"))]
    assert sorted(f.code for f in found) == expected


def test_healpix_is_no_matter_of_older_versions() -> None:
    assert codes(healpix("spiral", ""), "GMP", cf_version="1.12") == ["GMP005"]


def test_an_auxiliary_index_with_repeated_values_may_stay() -> None:
    text = (
        healpix()
        .replace("int cell(cell)", "int cell(time)")
        .replace("cell = 3", "time = 3")
        .replace("t(cell)", "t(time)")
    )
    text = text.replace("t:grid", 't:coordinates = "cell" ; t:grid')
    assert codes(text, "GMP016") == ["GMP016"]
    assert codes(text, "GMP016", data=False) == []
    assert codes(text.replace("0, 5, 191", "0, 5, 5"), "GMP016") == []


def test_a_blank_standard_name_is_none() -> None:
    text = projected().replace('"projection_x_coordinate"', '" "')
    assert codes(text, "APF006") == ["APF006"]


@pytest.mark.parametrize(("new", "safe"), [("0.", True), ("-45.", False)])
def test_a_deprecated_longitude_is_not_deleted_unasked_beside_another_one(new: str, safe: bool) -> None:
    pole = ("straight_vertical_longitude_from_pole = 0.", f"longitude_of_projection_origin = {new}")
    (found,) = findings(projected('grid_mapping_name = "polar_stereographic"', *pole), "GMP015")
    assert [(e.value, e.safe) for e in found.fix] == [(None, safe)]
