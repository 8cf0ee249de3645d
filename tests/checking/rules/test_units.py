"""Units and units_metadata: what is found, what is allowed, in which version."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cfagg.formats.cdl.parsing import parse_cdl
from cfagg.model.dataset import Dataset
from tests.checking.rules.asking import codes, findings, told
from tests.effort import examples


def one(attributes: str, *, extra: str = "", conventions: str = "CF-1.13") -> str:
    """Return a dataset of one variable ``v``."""
    lines = "\n".join(f"v:{a.strip()} ;" for a in attributes.split("\n") if a.strip())
    return f"""netcdf a {{ dimensions: x = 2 ; n = 2 ; variables: float v(x) ; {lines} {extra}
    :Conventions = "{conventions}" ; }}"""


def named(name: str, units: str | None, more: str = "") -> str:
    return one(f'standard_name = "{name}"\n' + (f'units = "{units}"\n' if units is not None else "") + more)


@pytest.mark.parametrize(
    ("name", "units"),
    [
        ("air_temperature", "degF"),
        ("sea_water_practical_salinity", "1e-3"),
        ("mass_fraction_of_ozone_in_air", "mg kg-1"),
        ("time", "days since 2000-01-01"),
        ("time", "hours since 2000-02-30"),
        ("forecast_period", "hours"),
        ("latitude", "degrees"),
        ("equivalent_reflectivity_factor", "dBZ"),
        ("sound_pressure_level_in_water", "dB"),
        ("region", "1"),
        ("platform_name", "anything at all"),
        ("atmosphere_sigma_coordinate", "sigma_level"),
        ("model_level_number", "level"),
        ("ocean_sigma_z_coordinate", "m"),
        ("ocean_sigma_z_coordinate", "1"),
        ("sea_water_pressure", "Pa"),
        ("volume_mixing_ratio_of_oxygen_at_stp_in_sea_water", "ml l-1"),
        ("air_temperature status_flag", "1"),
        ("air_temperature number_of_observations", "count"),
        ("specific_humidity detection_minimum", "g kg-1"),
        ("not_a_name", "kg"),
        ("air_temperature of_something", "kg"),
    ],
)
def test_units_that_fit_their_name(name: str, units: str) -> None:
    assert "UNI005" not in codes(named(name, units), "UNI005")


@pytest.mark.parametrize(
    ("name", "units"),
    [
        ("air_temperature", "1"),
        ("air_temperature", ""),
        ("air_pressure", "mb"),
        ("precipitation_flux", "mm"),
        ("height", "level"),
        ("time", "m"),
        ("wind_speed", "s m-1"),
        ("air_temperature", "days since 2000-01-01"),
        ("equivalent_reflectivity_factor", "1"),
        ("air_temperature number_of_observations", "K"),
        ("air_pressure_at_sea_level", "K"),
        ("air_temperature status_flag", "K"),
        ("platform_id", "m s-1"),
    ],
)
def test_units_of_another_quantity(name: str, units: str) -> None:
    assert [f.severity for f in findings(named(name, units), "UNI005")] == ["error"]


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("time", 0),
        ("forecast_reference_time", 0),
        ("time_of_maximum_flood_depth", 0),
        ("forecast_period", 1),
        ("duration_of_sunshine", 1),
    ],
)
def test_lengths_of_time_are_not_counted_from_an_instant(name: str, found: int) -> None:
    assert codes(named(name, "hours since 2000-01-01"), "UNI005") == ["UNI005"] * found
    assert codes(named(name, "hours"), "UNI005") == []


def test_units_that_only_a_logarithm_converts_are_told_with_both_readings() -> None:
    (found,) = findings(named("equivalent_reflectivity_factor", "mm6 m-3"), "UNI005")
    assert found.severity == "warning"
    assert "logarithm" in found.message


@pytest.mark.parametrize(
    ("methods", "units", "fits"),
    [
        ("time: variance", "m2 s-2", True),
        ("time: variance", "m s-1", False),
        ("time: sum_of_squares area: mean", "m2 s-2", True),
        ("time: standard_deviation", "m s-1", True),
        ("time: standard_deviation", "m2 s-2", False),
        ("x: variance time: variance", "m4 s-4", True),
        ("time: mean (comment: variance: of something) area: mean", "m s-1", True),
        ("time: mean within days time: variance over days", "m2 s-2", True),
        ("area: time: variance where land (interval: 1 hour)", "m2 s-2", True),
        ("time: variance " * 9, "m2 s-2", True),
    ],
)
def test_cell_methods_change_the_units(methods: str, units: str, fits: bool) -> None:
    source = named("wind_speed", units, f'cell_methods = "{methods}"')
    assert (codes(source, "UNI005") == []) == fits


def test_bounds_need_no_units_and_are_not_compared() -> None:
    source = """netcdf a { dimensions: height = 2 ; n = 2 ; variables: float height(height) ; height:units = "m" ;
    height:standard_name = "height" ; height:bounds = "edges" ;
    float edges(height, n) ; edges:standard_name = "height" ; }"""
    assert not [f for f in findings(source, "UNI") if f.variable == "edges"]


@pytest.mark.parametrize("name", ["air_temperature", "latitude", "height", "time", "air_pressure standard_error"])
def test_a_dimensional_quantity_without_units_is_an_error(name: str) -> None:
    assert [f.severity for f in findings(named(name, None), "UNI")] == ["error"]
    assert codes(named(name, None), "UNI") == ["UNI001"]


@pytest.mark.parametrize(
    "name",
    [
        "area_fraction",
        "region",
        "status_flag",
        "air_pressure number_of_observations",
        "sea_water_salinity",
        "latitude status_flag",
        "longitude number_of_observations",
    ],
)
def test_a_pure_number_needs_no_units(name: str) -> None:
    assert codes(named(name, None), "UNI") == []


def test_an_angle_without_units_is_a_warning() -> None:
    assert [f.severity for f in findings(named("wind_from_direction", None), "UNI001")] == ["warning"]


def test_a_variable_without_standard_name_may_be_a_pure_number() -> None:
    assert codes(one('long_name = "temperature"'), "UNI") == []


def test_a_time_axis_needs_units() -> None:
    source = 'netcdf a { dimensions: t = 2 ; variables: double t(t) ; t:axis = "T" ; }'
    assert codes(source, "UNI") == ["UNI001"]


@pytest.mark.parametrize("units", ['""', '" m "', '"level"', '"ppv"', '"1"', '"days since 2000-30-77"'])
def test_units_that_are_let_pass(units: str) -> None:
    assert "UNI002" not in codes(one(f"units = {units}"), "UNI002")


@pytest.mark.parametrize(
    "units", ['"psu"', '"none"', "1", "1., 2.", '"dB"', '"meters per sec."', '"  - "', '"level "foo"']
)
def test_units_that_udunits_does_not_know(units: str) -> None:
    source = one(f"units = {units}") if units != '"level "foo"' else one('units = "level foo"')
    assert codes(source, "UNI002") == ["UNI002"]


def test_a_reference_time_that_is_none_is_told_before_its_own_rule_came() -> None:
    text = 'standard_name = "time"\nunits = "days since yesterday"'
    assert codes(one(text, conventions="CF-1.12"), "UNI002") == ["UNI002"]
    assert codes(one(text), "UNI002") == []
    assert codes(one(text), "TIM001") == ["TIM001"]


def test_units_of_several_texts_are_told_once() -> None:
    dataset = parse_cdl(one('units = "m"'))
    dataset.variables[0].attributes["units"] = ("m", "s")
    assert codes(dataset, "UNI") == []
    assert codes(dataset, "UNI", cf_version="1.8") == ["UNI002"]


def test_units_in_latin_letters_are_read_before_utf8_was_asked_for() -> None:
    dataset = parse_cdl(one('units = "m"'))
    dataset.variables[0].attributes["units"] = "°C".encode("latin-1")
    assert codes(dataset, "UNI", cf_version="1.8") == []


def test_the_number_one_is_proposed_for_words_that_mean_no_unit() -> None:
    (found,) = findings(one('units = "unitless"'), "UNI002")
    assert [(e.value, e.safe) for e in found.fix] == [("1", False)]


@pytest.mark.parametrize(
    ("units", "found"), [("ppmv", 1), ("ppv", 1), ("pptv h-1", 1), ("ppm", 0), ("1e-6", 0), ("appmvx", 0)]
)
def test_volume_fractions_beside_a_standard_name(units: str, found: int) -> None:
    assert len(codes(named("mole_fraction_of_ozone_in_air", units), "UNI003")) == found
    assert codes(one(f'units = "{units}"'), "UNI003") == []


@pytest.mark.parametrize(
    ("units", "metadata", "version", "expected"),
    [
        ("K", '"temperature: on_scale"', "1.11", []),
        ("K", '"temperature:on_scale"', "1.13", ["UNI004"]),
        ("K", '"temperature"', "1.13", ["UNI004"]),
        ("K", "1", "1.13", ["UNI004"]),
        ("K", '"leap_seconds: utc"', "1.13", ["UNI004"]),
        ("days since 2000-01-01", '"leap_seconds: utc"', "1.12", []),
        ("days since 2000-01-01", '"leap_seconds: utc"', "1.11", ["UNI004", "UNI008"]),
        ("days since 2000-01-01", '"temperature: unknown"', "1.13", ["UNI004"]),
        ("m", '"temperature: unknown"', "1.13", ["UNI008"]),
        ("foo", '"temperature: unknown"', "1.13", []),
        ("W m-2 K-1", '"temperature: difference"', "1.13", []),
        ("m", '"whatever"', "1.10", []),
    ],
)
def test_units_metadata(units: str, metadata: str, version: str, expected: list[str]) -> None:
    source = one(f'units = "{units}"\nunits_metadata = {metadata}')
    assert [c for c in codes(source, "UNI", cf_version=version) if c in ("UNI004", "UNI008")] == expected


def test_units_metadata_written_otherwise_is_put_right() -> None:
    (found,) = findings(one('units = "K"\nunits_metadata = "Temperature:On_Scale"'), "UNI004")
    assert [(e.value, e.safe) for e in found.fix] == [("temperature: on_scale", True)]


@pytest.mark.parametrize("method", ["range", "standard_deviation", "variance"])
def test_spreads_are_differences(method: str) -> None:
    units = "K2" if method == "variance" else "K"
    source = named("air_temperature", units, f'cell_methods = "time: {method}"\nunits_metadata = "temperature: %s"')
    assert codes(source % "unknown", "UNI") == ["UNI007"]
    assert codes(source % "difference", "UNI") == []


def test_a_spread_of_something_else_has_no_units_metadata() -> None:
    source = named("wind_speed", "m s-1", 'cell_methods = "time: range"\nunits_metadata = "temperature: unknown"')
    assert codes(source, "UNI") == ["UNI008"]


def test_temperatures_without_units_metadata_are_told_from_version_1_11() -> None:
    source = one('units = "W m-2 K-1"')
    assert codes(source, "UNI") == ["UNI010"]
    assert codes(source, "UNI", cf_version="1.10") == []


@pytest.mark.parametrize(
    ("units", "found"),
    [
        ("1e-3 kg", 1), ("kg 1e-3", 1), ("10^6 m3", 1), ("100 m", 1), ("1/s", 1), ("K @ 273.15", 1), ("0.01 %", 1),
        ("(2 m)2", 1), ("m/(60 s)", 1), ("m2", 0), ("m-2 s^-1", 0), ("(kg m-2)2", 0), ("kg**2", 0), ("m²", 0),
        ("1", 0), ("1e-3", 0), ("days since 2000-01-01", 0), ("dBZ", 0), ("foo 12", 0), ("m^2.s-1", 0), ("mm6 m-3", 0),
    ],
)  # fmt: skip
def test_numbers_beside_units_in_the_draft(units: str, found: int) -> None:
    source = one(f'units = "{units}"')
    assert len(codes(source, "UNI011", cf_version="1.14-draft")) == found
    assert codes(source, "UNI011") == []


def test_a_number_in_a_reference_level_is_a_warning() -> None:
    assert told(one('units = "lg(re 1 mW)"'), "UNI011", cf_version="1.14-draft")[0].startswith("warning")


VALUES = (
    st.sampled_from(["K", "level", "ppmv", "days since 2000-01-01", "temperature: unknown", "air_temperature", "x y z"])
    | st.text(max_size=8)
    | st.lists(st.text(max_size=3), max_size=3).map(tuple)
    | st.binary(max_size=4)
    | st.lists(st.floats(), max_size=3).map(np.array)
    | st.sampled_from([None, True, {"a": 1}])
)


@settings(max_examples=examples(100), deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(["units", "units_metadata", "standard_name", "cell_methods", "axis", "bounds", "positive"]),
        VALUES,
    ),
    st.sampled_from(["1.0", "1.8", "1.13", "1.14-draft"]),
)
def test_no_attributes_make_a_rule_fail(attributes: dict[str, object], version: str) -> None:
    dataset: Dataset = parse_cdl("netcdf a { dimensions: v = 2 ; variables: float v(v) ; data: v = 1, 2 ; }")
    dataset.variables[0].attributes.update(attributes)
    for family in ("UNI", "NAM", "FLG", "COO", "ANC"):
        assert "INT001" not in codes(dataset, family, cf_version=version)


@pytest.mark.parametrize("unit", ["mins", "hrs"])
@pytest.mark.parametrize("conventions", ["CF-1.8", "CF-1.13"])
def test_units_of_time_that_only_cftime_knows_are_reported(unit: str, conventions: str) -> None:
    text = f"""netcdf a {{ dimensions: t = 2 ; variables: double t(t) ; t:units = "{unit} since 2000-01-01" ;
    t:standard_name = "time" ; :Conventions = "{conventions}" ; data: t = 0, 1 ; }}"""
    (found,) = told(text, "UNI002")
    assert f"'{unit} since 2000-01-01' are not known to UDUNITS" in found


@pytest.mark.parametrize("version", ["CF-1.12", "CF-1.13"])
def test_data_in_time_since_no_datetime_are_in_unknown_units_for_no_other_rule_reads_them(version):
    (message,) = told(one('units = "days since Jan 1, 2000"', conventions=version), "UNI002")
    assert "'Jan 1, 2000' is not a datetime" in message
    assert codes(one('units = "days since 2000-01-01 00:00:00 UTC"', conventions=version), "UNI002") == []
