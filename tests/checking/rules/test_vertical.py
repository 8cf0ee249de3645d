"""Vertical coordinates and their formulas: section 4.3 and Appendix D."""

from __future__ import annotations

from typing import Any

import pytest

from cfagg.cf.formula_terms import formulas
from cfagg.findings.finding import Finding
from cfagg.findings.versions import DRAFT, Version
from tests.checking.rules import asking


def codes(text: str, code: str = "", **options: Any) -> list[str]:
    """Return the codes found; the datasets here do without ``positive`` unless it matters."""
    return asking.codes(text, code, ignore=() if code == "VRT012" else ("VRT012",), **options)


def findings(text: str, code: str) -> list[Finding]:
    return asking.findings(text, code, ignore=("VRT012",))


def told(text: str, code: str) -> list[str]:
    return asking.told(text, code, ignore=("VRT012",))


def coordinate(attributes: str, others: str = "", version: str = "1.13", data: str = "") -> str:
    return f"""
    netcdf n {{ dimensions: k = 2 ; p = 2 ; nv = 2 ;
    variables: double k(k) ; {attributes} {others} :Conventions = "CF-{version}" ;
    data: k = 1, 2 ; {data} }}
    """


@pytest.mark.parametrize("value", ['"up"', '"Down"', '"UP "'])
def test_directions_are_read_in_any_case(value: str) -> None:
    assert codes(coordinate(f"k:positive = {value} ;"), "VRT") == []


@pytest.mark.parametrize("value", ['"upward"', '""', "1", '"north"'])
def test_there_are_two_directions(value: str) -> None:
    assert codes(coordinate(f"k:positive = {value} ;"), "VRT") == ["VRT001"]


@pytest.mark.parametrize(
    ("name", "positive", "expected"),
    [
        ("depth", "up", ["VRT002"]),
        ("depth", "down", []),
        ("height_above_mean_sea_level", "down", ["VRT002"]),
        ("altitude", "up", []),
        ("air_pressure", "up", ["VRT002"]),
        ("air_pressure", "down", []),
        ("atmosphere_ln_pressure_coordinate", "up", []),
        ("atmosphere_hybrid_sigma_pressure_coordinate", "down", []),
        ("ocean_sigma_coordinate", "up", []),
        ("ocean_sigma_z_coordinate", "down", []),
        ("model_level_number", "up", []),
        ("model_level_number", "down", []),
        ("depth_below_sea_floor", "Up", ["VRT002"]),
        ("heights", "down", []),
        ("tendency_of_height", "down", []),
    ],
)
def test_direction_and_name(name: str, positive: str, expected: list[str]) -> None:
    text = coordinate(f'k:standard_name = "{name}" ; k:positive = "{positive}" ;')
    assert codes(text, "VRT002") == expected


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ('k:standard_name = "height" ; k:units = "m" ;', ["VRT012"]),
        ('k:axis = "z" ; k:units = "1" ;', ["VRT012"]),
        ('k:axis = "Z" ; k:units = "hPa" ;', []),
        ('k:standard_name = "air_pressure" ; k:units = "Pa" ;', []),
        ('k:standard_name = "height" ; k:units = "m" ; k:positive = "up" ;', []),
        ('k:long_name = "wavelength" ; k:units = "m" ;', []),
    ],
)
def test_vertical_coordinates_tell_their_direction(attributes: str, expected: list[str]) -> None:
    assert codes(coordinate(attributes), "VRT012") == expected


@pytest.mark.parametrize(
    ("name", "version", "expected"),
    [
        ("atmosphere_sigma_coordinate", "1.0", ["VRT013"]),
        ("ocean_s_coordinate_g2", "1.13", ["VRT013"]),
        ("ocean_s_coordinate_g2", "1.0", []),
        ("model_level_number", "1.13", []),
    ],
)
def test_parametric_coordinates_have_formula_terms(name: str, version: str, expected: list[str]) -> None:
    assert codes(coordinate(f'k:standard_name = "{name}" ; k:units = "1" ;', version=version), "VRT013") == expected


def test_data_and_bounds_need_no_formula_terms() -> None:
    name = 'standard_name = "atmosphere_sigma_coordinate" ;'
    others = f"double d(p) ; d:{name} double b(k, nv) ; b:{name}"
    assert codes(coordinate('k:bounds = "b" ;', others), "VRT013") == []


SIGMA = 'k:standard_name = "atmosphere_sigma_coordinate" ; k:formula_terms = "{}" ;'
TERMS = 'float ps(p) ; ps:units = "Pa" ; double ptop ; ptop:units = "hPa" ;'


@pytest.mark.parametrize(
    "terms",
    ["sigma: k ps: ps ptop: ptop", "ptop: ptop sigma: k ps: ps", "SIGMA: k PS: ps", " sigma: k\n ps: /ps ", "sigma: k"],
)
def test_terms_in_any_order_and_case_and_not_all_of_them(terms: str) -> None:
    assert codes(coordinate(SIGMA.format(terms), TERMS), "VRT") == []


@pytest.mark.parametrize(
    "terms",
    ["", "sigma k", "sigma: k ps", "sigma : k", "sigma: k, ps: ps", "sigma: k ps ptop", "sigma: ps: ps", "p0: ptop",
     "sigma: none", "sigma: k sigma: k", ": k"],
)  # fmt: skip
def test_what_terms_are_not(terms: str) -> None:
    found = codes(coordinate(SIGMA.format(terms), TERMS), "VRT")
    assert set(found) == {"VRT004"}


def test_numbers_are_no_terms() -> None:
    text = coordinate('k:standard_name = "atmosphere_sigma_coordinate" ; k:formula_terms = 1 ;')
    assert codes(text, "VRT") == ["VRT004"]


def test_an_array_of_terms_is_told_once() -> None:
    text = coordinate(
        'k:standard_name = "atmosphere_sigma_coordinate" ; string k:formula_terms = "sigma: k", "ps: ps" ;'
    )
    assert [c for c in codes(text) if c.startswith(("VRT", "DOC003"))] == ["DOC003"]


@pytest.mark.parametrize("name", ["height", "", "Atmosphere_sigma_coordinate", "land_ice_sigma_coordinate"])
def test_terms_belong_to_parametric_coordinates(name: str) -> None:
    text = coordinate(f'k:standard_name = "{name}" ; k:formula_terms = "sigma: k ps: ps" ;', TERMS)
    assert codes(text, "VRT") == ["VRT003"]


def test_bounds_have_terms_too() -> None:
    bounds = 'k:bounds = "kb" ; double kb(k, nv) ; kb:formula_terms = "sigma: kb ps: ps" ;'
    assert codes(coordinate(SIGMA.format("sigma: k ps: ps") + bounds, TERMS), "VRT") == []
    assert codes(coordinate(SIGMA.format("SIGMA: k PS: ps") + bounds, TERMS), "BND008") == []


def test_terms_of_a_variable_that_nobody_calls_a_coordinate_are_a_warning() -> None:
    text = coordinate(
        "", TERMS + 'double l(k) ; l:standard_name = "atmosphere_sigma_coordinate" ; l:formula_terms = "sigma: l" ;'
    )
    assert [f.severity for f in findings(text, "VRT")] == ["warning"]


def test_a_coordinate_of_a_later_version_is_a_warning() -> None:
    name = "atmosphere_hybrid_sigma_ln_pressure_coordinate"
    text = coordinate(f'k:standard_name = "{name}" ; k:formula_terms = "eta: k ps: ps" ;', TERMS)
    assert [f.severity for f in findings(text, "VRT")] == ["warning"]
    assert codes(text, "VRT", cf_version="1.14-draft") == []


def named(term: str, name: str, computed: str = "", version: str = "1.13") -> str:
    return coordinate(
        f'k:standard_name = "ocean_sigma_coordinate" ; k:formula_terms = "sigma: k eta: eta depth: depth" ; {computed}',
        f"""float eta(p) ; eta:units = "m" ; eta:standard_name = "sea_surface_height_above_geoid" ;
        float depth(p) ; depth:units = "m" ; depth:standard_name = "sea_floor_depth_below_geoid" ;
        {term}:standard_name = "{name}" ;""",
        version,
    )


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("sea_surface_height_above_geoid", []),
        ("sea_surface_height_above_reference_ellipsoid", ["VRT005"]),
        ("sea_water_temperature", ["VRT005"]),
        ("", []),
    ],
)
def test_names_of_terms_come_from_one_set(name: str, expected: list[str]) -> None:
    assert codes(named("eta", name), "VRT") == expected
    assert codes(named("eta", name, version="1.6"), "VRT") == []


def test_an_alias_is_the_name_that_it_stands_for() -> None:
    text = named("eta", "sea_surface_height_above_sea_level").replace("below_geoid", "below_mean_sea_level")
    assert codes(text, "VRT") == []


@pytest.mark.parametrize(
    ("computed", "expected"),
    [
        ("altitude", []),
        ("height_above_mean_sea_level", ["VRT007"]),
        ("air_pressure", ["VRT007"]),
    ],
)
def test_the_computed_name_follows_from_those_of_the_terms(computed: str, expected: list[str]) -> None:
    text = named("eta", "sea_surface_height_above_geoid", f'k:computed_standard_name = "{computed}" ;')
    assert codes(text, "VRT") == expected


def test_without_names_of_terms_any_computed_name_of_the_table_will_do() -> None:
    text = coordinate(
        'k:standard_name = "ocean_sigma_coordinate" ; k:formula_terms = "sigma: k" ;'
        'k:computed_standard_name = "height_above_mean_sea_level" ;'
    )
    assert codes(text, "VRT") == []


def test_a_computed_name_is_not_demanded() -> None:
    assert codes(coordinate(SIGMA.format("sigma: k ps: ps"), TERMS), "VRT") == []


@pytest.mark.parametrize(
    ("units", "expected"), [("Pa", []), ("hPa", []), ("m", ["VRT008"]), ("1", ["VRT008"]), ("florins", [])]
)
def test_units_of_terms(units: str, expected: list[str]) -> None:
    text = coordinate(SIGMA.format("sigma: k ps: ps"), f'float ps(p) ; ps:units = "{units}" ;')
    assert codes(text, "VRT") == expected
    assert codes(text, "VRT", cf_version="1.8") == []


@pytest.mark.parametrize(
    ("attribute", "expected"),
    [("", ["VRT008"]), ('ps:standard_name = "surface_air_pressure" ;', []), ('ps:units = "" ;', ["VRT008"])],
)
def test_a_pressure_without_units_is_found(attribute: str, expected: list[str]) -> None:
    text = coordinate(SIGMA.format("sigma: k ps: ps"), f"float ps(p) ; {attribute}")
    assert codes(text, "VRT") == expected


def test_levels_are_plain_numbers() -> None:
    assert codes(coordinate(SIGMA.format("sigma: k") + 'k:units = "sigma_level" ;'), "VRT") == []


def test_every_formula_has_terms_for_all_its_names() -> None:
    for formula in formulas(DRAFT).values():
        assert set(formula.names) <= set(formula.terms)
        assert all(len(names) in (1, len(formula.computed)) for names in formula.names.values())


def test_generic_coordinates_came_with_cf_1_7() -> None:
    assert "ocean_s_coordinate_g1" not in formulas(Version(1, 6))
    assert "ocean_s_coordinate_g1" in formulas(Version(1, 7))


Z = 'k:standard_name = "ocean_sigma_z_coordinate" ; k:formula_terms = "sigma: sigma zlev: zlev{}" ;'
LEVELS = 'double sigma(k) ; sigma:_FillValue = -9. ; int n ;double zlev(k) ; zlev:_FillValue = -9. ; zlev:units = "m" ;'


@pytest.mark.parametrize(
    ("more", "data", "expected"),
    [
        ("", "sigma = 0, _ ; zlev = _, 5 ;", []),
        ("", "sigma = 0, 1 ; zlev = _, 5 ;", ["VRT009"]),
        ("", "sigma = 0, _ ; zlev = _, _ ;", ["VRT009"]),
        (" nsigma: n", "sigma = 0, _ ; zlev = _, 5 ; n = 1 ;", ["VRT010"]),
        (" nsigma: n", "sigma = 0, _ ; zlev = _, 5 ; n = 2 ;", ["VRT009", "VRT010"]),
    ],
)
def test_ocean_sigma_over_z(more: str, data: str, expected: list[str]) -> None:
    assert codes(coordinate(Z.format(more), LEVELS, data=data), "VRT") == expected


def test_sigma_and_zlev_have_the_dimension_of_the_coordinate() -> None:
    text = coordinate(Z.format(""), LEVELS.replace("zlev(k)", "zlev(p)"))
    assert codes(text, "VRT", data=False) == ["VRT009"]


def test_older_versions_do_not_define_ocean_sigma_over_z() -> None:
    text = coordinate(Z.format(""), LEVELS, "1.8", "sigma = 0, 1 ; zlev = 1, 5 ;")
    assert told(text, "VRT")[0].startswith("warning k:standard_name the definition")
    assert codes(text, "VRT") == ["VRT011"]
