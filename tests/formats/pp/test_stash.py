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
