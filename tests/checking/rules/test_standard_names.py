"""Long names, standard names and modifiers: what is found and what is allowed."""

from __future__ import annotations

from pathlib import Path

import pytest

from cfagg.formats.cdl.parsing import parse_cdl
from tests.checking.rules.asking import codes, findings, told


def one(attributes: str, *, extra: str = "", declared: str = "float v(x)", data: str = "") -> str:
    lines = "\n".join(f"v:{a.strip()} ;" for a in attributes.split("\n") if a.strip())
    values = f"data: {data}" if data else ""
    return f"netcdf a {{ dimensions: x = 2 ; len = 14 ; variables: {declared} ; {lines} {extra} {values} }}"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("air_temperature", []),
        (" air_temperature ", []),
        ("air_temperature   standard_error", []),
        ("", ["NAM002"]),
        ("air_temperature standard_error status_flag", ["NAM002"]),
        ("sea surface wave height", ["NAM002"]),
        ("air temperature", ["NAM003"]),
        ("Air Temperature", ["NAM003"]),
        ("wind of_the_east", ["NAM003"]),
        ("air_temperatur", ["NAM003"]),
        ("AIR_TEMPERATURE", ["NAM003"]),
        ("air_temperature mean", ["NAM004"]),
        ("air_temperature status_flag", ["NAM006"]),
        ("air_temperature number_of_observations", ["NAM006"]),
        ("gross_primary_productivity_of_biomass_expressed_as_13C", []),
        ("integral_wrt_depth_of_sea_water_potential_temperature_expressed_as_heat_content", []),
    ],
)
def test_standard_names(value: str, expected: list[str]) -> None:
    assert codes(one(f'long_name = "v"\nstandard_name = "{value}"'), "NAM") == expected


def test_an_alias_is_no_error_and_is_put_right() -> None:
    (found,) = findings(one('standard_name = "air_pressure_at_sea_level standard_error"'), "NAM")
    assert (found.code, found.severity) == ("NAM003", "info")
    assert [(e.value, e.safe) for e in found.fix] == [("air_pressure_at_mean_sea_level standard_error", True)]


def test_an_alias_of_two_names_is_told_and_left() -> None:
    (found,) = findings(one('standard_name = "surface_carbon_dioxide_mole_flux"'), "NAM")
    assert found.severity == "info"
    assert found.fix == ()


def test_a_near_name_is_proposed_but_not_safe() -> None:
    (found,) = findings(one('standard_name = "air_temprature"'), "NAM")
    assert [(e.value, e.safe) for e in found.fix] == [("air_temperature", False)]


@pytest.mark.parametrize(
    ("vocabulary", "severity"),
    [
        ("CF Standard Name Table v99", "warning"),
        ("CF-1.6, Standard Name Table (v120, 2 August 2031)", "warning"),
        ("CF Standard Name Table (Version 27, 26 September 2013)", "error"),
        ("CF-1.6", "error"),
        ("https://cfconventions.org/standard-names.html", "error"),
    ],
)
def test_a_name_may_be_in_a_newer_table_that_the_dataset_names(vocabulary: str, severity: str) -> None:
    source = one('standard_name = "height_of_tomorrow"', extra=f':standard_name_vocabulary = "{vocabulary}" ;')
    assert [f.severity for f in findings(source, "NAM003")] == [severity]


def test_a_table_of_the_user_decides(tmp_path: Path) -> None:
    table = tmp_path / "names_v200.csv"
    table.write_text("standard_name,canonical_units,alias_of\nheight_of_tomorrow,m,\n")
    source = one('standard_name = "height_of_tomorrow"')
    assert codes(source, "NAM", tables={"standard_names": table}) == []
    assert "version 200" in told(one('standard_name = "height"'), "NAM003", tables={"standard_names": table})[0]


def test_a_standard_name_that_is_not_text_is_told_once() -> None:
    assert codes(one("standard_name = 3"), "NAM002") == ["NAM002"]
    dataset = parse_cdl(one('standard_name = "height"'))
    dataset.variables[0].attributes["standard_name"] = ("height", "depth")
    assert codes(dataset, "NAM002") == []
    assert codes(dataset, "NAM002", cf_version="1.6") == ["NAM002"]


def test_containers_bounds_and_indices_need_no_names() -> None:
    source = """netcdf a { dimensions: lat = 2 ; n = 2 ; p = 2 ; variables:
    float lat(lat) ; lat:long_name = "latitude" ; lat:bounds = "edges" ;
    float edges(lat, n) ; int crs ; crs:grid_mapping_name = "latitude_longitude" ;
    int p(p) ; p:compress = "lat n" ; float t(lat) ; t:long_name = "t" ; t:grid_mapping = "crs" ; }"""
    assert codes(source, "NAM001") == []


@pytest.mark.parametrize(
    ("declared", "attributes", "data", "expected"),
    [
        ("char v(x, len)", 'standard_name = "region"', 'v = "africa", "antarctica" ;', []),
        ("char v(x, len)", 'standard_name = "region"', 'v = "africa", "Antarctica" ;', ["NAM005"]),
        ("char v(len)", 'standard_name = "area_type"', 'v = "sea_ice" ;', []),
        ("string v(x)", 'standard_name = "area_type"', 'v = "land", "moor" ;', ["NAM005"]),
        ("string v(x)", 'standard_name = "region"', 'v = "", "africa" ;', []),
        ("int v(x)", 'standard_name = "region"\nflag_values = 1, 2\nflag_meanings = "africa europe"', "v = 1, 2 ;", []),
        ("int v(x)", 'standard_name = "region"\nflag_values = 1\nflag_meanings = "oz"', "v = 1, 1 ;", ["NAM005"]),
        ("int v(x)", 'standard_name = "region"', "v = 1, 1 ;", ["NAM005"]),
        ("int v(x)", 'standard_name = "region status_flag"', "v = 1, 1 ;", []),
    ],
)
def test_regions_and_area_types(declared: str, attributes: str, data: str, expected: list[str]) -> None:
    assert codes(one(attributes, declared=declared, data=data), "NAM005") == expected


def test_names_of_regions_are_read_only_where_values_are_asked_for() -> None:
    source = one('standard_name = "region"', declared="string v(x)", data='v = "a", "b" ;')
    assert codes(source, "NAM005", data=False) == []


def test_the_draft_has_one_name_more() -> None:
    source = one('standard_name = "reduced_gaussian_index"')
    assert codes(source, "NAM003", cf_version="1.14-draft") == []
    assert codes(source, "NAM003") == ["NAM003"]


def test_not_for_every_one_of_many_wrong_names_a_near_one_is_looked_for() -> None:
    many = " ".join(f'float v{i} ; v{i}:standard_name = "air_temperature_{i}" ;' for i in range(300))
    found = findings(f"netcdf a {{ variables: {many} }}", "NAM003")
    assert len(found) == 300
    assert 0 < sum("did you mean" in f.message for f in found) <= 100
