"""The vocabularies."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from cfagg.cf.kinds_of_units import known
from cfagg.checking import lookup
from cfagg.checking.context import Context
from cfagg.checking.options import Options
from cfagg.findings.finding import NotApplicable
from cfagg.model.dataset import Dataset, Group

XML = """<?xml version="1.0"?>
<standard_name_table>
  <version_number>99</version_number>
  <entry id="depth_of_dreams"><canonical_units>m</canonical_units><description>one, two</description></entry>
  <alias id="dream_depth"><entry_id>depth_of_dreams</entry_id></alias>
</standard_name_table>
"""


def context(**tables: Path) -> Context:
    return Context(Dataset("x", "cdl", Group()), options=Options(tables=tables))


def test_names_have_canonical_units_that_are_known() -> None:
    names = lookup.standard_names(context())
    assert len(names) == 5668
    assert (names["air_temperature"], names["region"], names["sea_water_pressure"]) == ("K", "", "dbar")
    assert {u for u in names.values() if not known(u)} == {"dB"}


def test_aliases_stand_for_names() -> None:
    found, names = lookup.aliases(context()), lookup.standard_names(context())
    assert found["air_pressure_at_sea_level"] == ("air_pressure_at_mean_sea_level",)
    assert len(found["surface_carbon_dioxide_mole_flux"]) == 2
    assert all(name in names for meant in found.values() for name in meant)
    assert not [alias for alias, meant in found.items() if alias in meant]


def test_area_types_and_regions() -> None:
    assert "sea_ice" in lookup.area_types(context())
    assert "atlantic_ocean" in lookup.regions(context())
    assert "" not in lookup.regions(context()) | lookup.area_types(context())


@pytest.mark.parametrize("pack", [str.encode, lambda text: gzip.compress(text.encode())])
def test_a_table_in_xml_replaces_the_packed_one(tmp_path: Path, pack: object) -> None:
    path = tmp_path / "table.xml"
    path.write_bytes(pack(XML))  # type: ignore[operator]
    c = context(standard_names=path)
    assert lookup.standard_names(c) == {"depth_of_dreams": "m", "dream_depth": "m"}
    assert lookup.aliases(c) == {"dream_depth": ("depth_of_dreams",)}
    assert lookup.table_versions(c.options.tables)["standard_names"] == "99"


def test_a_table_in_csv_replaces_the_packed_one(tmp_path: Path) -> None:
    path = tmp_path / "regions_v7.csv"
    path.write_text("region\natlantis\n")
    assert lookup.regions(context(regions=path)) == {"atlantis"}
    assert lookup.table_versions({"regions": path}) == {"standard_names": "94", "area_types": "13", "regions": "7"}


def test_of_a_folder_of_tables_the_version_is_taken_that_the_dataset_names(tmp_path: Path) -> None:
    for version in (9, 93, 200):
        (tmp_path / f"cf-standard-name-table_v{version}.csv").write_text(f"standard_name\nname_{version},m,\n")
    (tmp_path / "notes.txt").write_text("v999")
    c = context(standard_names=tmp_path)
    assert (list(lookup.standard_names(c)), lookup.standard_names_version(c)) == (["name_200"], "200")
    c = context(standard_names=tmp_path)
    c.dataset.root.attributes["standard_name_vocabulary"] = "CF Standard Name Table (v93, 21 January 2026)"
    assert (list(lookup.standard_names(c)), lookup.standard_names_version(c)) == (["name_93"], "93")
    assert lookup.table_versions({"standard_names": tmp_path})["standard_names"] == "200"
    with pytest.raises(NotApplicable, match="no table of regions"):
        lookup.regions(context(regions=tmp_path))


@pytest.mark.parametrize(
    "raw", [b"<a><b></a>", b"\x1f\x8bnothing", b"<!DOCTYPE x [<!ENTITY a 'b'>]><x/>", b"\xff\xfe\xfd"]
)
def test_a_table_that_cannot_be_read_is_told(tmp_path: Path, raw: bytes) -> None:
    path = tmp_path / "broken.xml"
    path.write_bytes(raw)
    with pytest.raises(NotApplicable, match=r"broken\.xml"):
        lookup.standard_names(context(standard_names=path))


def test_a_packed_table_that_never_ends_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "bomb.csv.gz"
    path.write_bytes(gzip.compress(b"a\n" * (1 << 26)))
    with pytest.raises(NotApplicable, match="more than"):
        lookup.standard_names(context(standard_names=path))


def test_words_spelled_alike_are_found() -> None:
    c = context()
    names = lookup.standard_names(c)
    assert lookup.near(c, "air_temprature", names) == "air_temperature"
    assert lookup.near(c, "temperature_of_dreams", names) == ""
    assert lookup.near(c, "a" * 1000, names) == ""


def test_a_word_is_looked_for_in_the_table_once_in_a_dataset(monkeypatch: pytest.MonkeyPatch) -> None:
    c = context()
    names = lookup.standard_names(c)
    assert lookup.near(c, "air_temprature", names) == "air_temperature"
    monkeypatch.setattr(type(names), "__iter__", None)  # a second pass through the table would fail
    assert lookup.near(c, "air_temprature", names) == "air_temperature"


@pytest.mark.parametrize(
    "text", ["hello\n", "a title\nNot a table, but prose.\n", "<html><body>404</body></html>", "[a]\n{}\n"]
)
def test_a_file_that_is_no_table_is_refused_and_not_taken_for_an_empty_one(tmp_path: Path, text: str) -> None:
    path = tmp_path / "table.csv"
    path.write_text(text)
    with pytest.raises(NotApplicable, match=r"table\.csv' cannot be read: found .*; expected"):
        lookup.standard_names(context(standard_names=path))


def test_a_table_that_was_changed_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    for name in ("depth_of_dreams", "length_of_dreams"):
        path.write_text(f"standard_name,canonical_units\n{name},m\n")
        assert lookup.standard_names(context(standard_names=path)) == {name: "m"}
    (tmp_path / "standard_name_table_v2.csv").write_text("standard_name,canonical_units\nwidth_of_dreams,m\n")
    assert lookup.standard_names(context(standard_names=tmp_path)) == {"width_of_dreams": "m"}
    (tmp_path / "standard_name_table_v3.csv").write_text("standard_name,canonical_units\nmass_of_dreams,kg\n")
    assert lookup.standard_names(context(standard_names=tmp_path)) == {"mass_of_dreams": "kg"}
