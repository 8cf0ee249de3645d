"""The tables of STASH codes and field codes, against the vocabularies of CF."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path

import pytest

import cfagg.checking
import cfagg.formats.pp
from cfagg.cf.kinds_of_units import convertible, known
from cfagg.formats.pp.stash import phenomenon, stash_name
from tests.formats.pp import make_tables

TABLES = Path(cfagg.formats.pp.__file__).parent / "tables"
CF = Path(cfagg.checking.__file__).parent / "tables"


def rows(path: Path) -> list[dict[str, str]]:
    text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return list(csv.DictReader(text.decode().splitlines()))


STASH, CODES = rows(TABLES / "stash.csv.gz"), rows(TABLES / "field_codes.csv")


def test_all_standard_names_are_those_of_cf_with_units_that_convert() -> None:
    canonical = {r["standard_name"]: r["canonical_units"] for r in rows(CF / "standard_names_v94.csv.gz")}
    pairs = {(r["standard_name"].split()[0], r["units"]) for r in (*STASH, *CODES) if r["standard_name"]}
    assert len(pairs) > 300
    assert [p for p in pairs if p[0] not in canonical or not convertible(p[1], canonical[p[0]])] == []


def test_all_units_are_known() -> None:
    assert [r["units"] for r in STASH if r["units"] and not known(r["units"])] == []


def test_all_area_types_are_those_of_cf() -> None:
    types = {next(iter(r.values())) for r in rows(CF / "area_types_v13.csv.gz")}
    found = {r["where"] for r in STASH} - {""}
    assert found
    assert found <= types


@pytest.mark.parametrize(
    ("code", "version", "rotated", "expected"),
    [
        ((1, 5, 0), 407, False, "THETAL IN THE EXTERNAL DUMP"),
        ((1, 5, 0), 606, False, "OROGRAPHIC GRADIENT X COMPONENT"),
        ((1, 5, 0), 0, False, "THETAL IN THE EXTERNAL DUMP"),
    ],
)
def test_codes_mean_what_they_meant_in_the_version_of_the_model(
    code: tuple[int, int, int], version: int, rotated: bool, expected: str
) -> None:
    assert phenomenon(*code, version, rotated=rotated).long_name == expected


@pytest.mark.parametrize("version", [0, 405, 504, 1001])
def test_snow_on_the_ground_is_no_snowfall_in_any_version(version: int) -> None:
    assert phenomenon(1, 23, 0, version, rotated=False).standard_name == "surface_snow_amount"


def test_winds_of_rotated_grids_are_along_the_grid() -> None:
    names = [phenomenon(1, 2, 0, 0, rotated=rotated).standard_name for rotated in (False, True)]
    assert names == ["eastward_wind", "x_wind"]


def test_a_code_that_a_version_does_not_have_has_the_name_of_all() -> None:
    assert phenomenon(1, 1, 0, 1100, rotated=False).standard_name == "surface_air_pressure"


def test_field_codes_are_taken_where_there_is_no_stash_code() -> None:
    assert phenomenon(1, 0, 16, 0, rotated=False)[:2] == ("air_temperature", "K")
    assert phenomenon(0, 16203, 5, 0, rotated=False).standard_name == "atmosphere_boundary_layer_thickness"
    assert phenomenon(1, 99_999, 16, 0, rotated=False).standard_name is None


@pytest.mark.parametrize(("model", "code"), [(1, 0), (1, -5), (-1, 5), (1, 100_000), (100, 5)])
def test_what_is_no_stash_code_has_no_name(model: int, code: int) -> None:
    assert stash_name(model, code) is None


@pytest.mark.parametrize(
    ("code", "version", "units"),
    [(12181, 1001, "K"), (12182, 1001, "1"), (12184, 1001, "1"), (6185, 1001, "m s-1"), (30188, 606, "kg m-3")],
)
def test_increments_of_a_time_step_are_no_tendencies(code: int, version: int, units: str) -> None:
    found = phenomenon(1, code, 0, version, rotated=False)
    assert (found.standard_name, found.units) == (None, units)


def test_amounts_of_a_time_step_are_amounts() -> None:
    assert phenomenon(1, 4201, 0, 1001, rotated=False)[:2] == ("stratiform_rainfall_amount", "kg m-2")


@pytest.mark.parametrize("version", [0, 606, 704, 1001])
def test_the_residual_vertical_velocity_is_upward_in_every_version(version: int) -> None:
    name = "upward_transformed_eulerian_mean_air_velocity"
    assert phenomenon(1, 30311, 0, version, rotated=False).standard_name == name


STASH_LINES = """\
1!1!PSTAR AFTER  TIMESTEP   !Pa!!407!surface_air_pressure!!
1!2!U COMPNT!m s-1!!!eastward_wind!!true_latitude_longitude
1!3!U GRID!m s-1!!!eastward_wind!!
1!12181!TEMPERATURE INCR!K s-1!502!!tendency_of_air_temperature_due_to_advection!user_delta_t!
1!23!SNOW!kg m-2!!503!snowfall_amount!!
1!9!OLD NAME!1!!!sea_ice_extent_of_no_name!height=2m where_open_sea!
"""
IRIS_LINES = """\
LBFC_TO_CF = {16: CFName('air_temperature', None, 'K')}
STASH_TO_CF = {
    'm01s00i001': CFName('surface_air_pressure', None, 'Pa'),
    'm01s12i181': CFName(None, 'change_over_time_in_air_temperature', 'K'),
}
STASHCODE_IMPLIED_HEIGHTS = {'m01s00i003': (10.0,)}
"""


def test_the_tables_are_made_of_two_public_tables_by_a_script() -> None:
    made, codes = make_tables.tables(STASH_LINES, IRIS_LINES)
    assert made.splitlines()[1:] == [
        "1,1,,407,,surface_air_pressure,Pa,,,PSTAR AFTER TIMESTEP",
        "1,1,,,,surface_air_pressure,Pa,,,",
        "1,2,,,true,eastward_wind,m s-1,,,U COMPNT",
        "1,3,,,true,eastward_wind,m s-1,10,,U GRID",
        "1,3,,,rotated,x_wind,m s-1,10,,U GRID",
        "1,9,,,,,1,2,ice_free_sea,OLD NAME",
        "1,23,,503,,surface_snow_amount,kg m-2,,,SNOW",
        "1,12181,502,,,,K,,,TEMPERATURE INCR",
        "1,12181,,,,,K,,,change_over_time_in_air_temperature",
    ]
    assert codes.splitlines()[1:] == ["16,air_temperature,K,"]
    assert (
        made.partition("\n")[0] == gzip.decompress((TABLES / "stash.csv.gz").read_bytes()).decode().partition("\n")[0]
    )
