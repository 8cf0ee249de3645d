"""Aggregations of NCA and CFA 0.3 and 0.4: what their texts and examples allow, and what breaks them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cfagg.checking.context import Context
from cfagg.checking.described import described
from cfagg.checking.engine import run
from cfagg.checking.options import Options
from cfagg.findings.finding import Finding
from cfagg.formats.cdl.parsing import parse_cdl
from cfagg.formats.metadata.aggregation import aggregated
from cfagg.model import Aggregation
from cfagg.model.dataset import Dataset
from tests.effort import examples

BASE = """netcdf temperature {
dimensions:
  time = 48 ;
  lat = 64 ;
  lon = 128 ;
variables:
  float tas ;
    tas:standard_name = "air_temperature" ;
    tas:units = "K" ;
:Conventions = "CF-1.5 %s" ;
}
"""


def dataset_of(family: str, array: dict[str, Any] | str, dims: str = "time lat lon") -> Dataset:
    dataset = parse_cdl(BASE % family)
    attributes = dataset.root.variables["tas"].attributes
    attributes[f"{family.lower()}_dimensions"] = dims
    attributes[f"{family.lower()}_array"] = array if isinstance(array, str) else json.dumps(array)
    aggregated(dataset)
    return dataset


def check(family: str, array: dict[str, Any] | str) -> list[Finding]:
    return run(dataset_of(family, array), Options(select=("NCA", "CFA"))).findings


def aggregation(family: str, array: dict[str, Any]) -> Aggregation:
    dataset = dataset_of(family, array)
    made = described(Context(dataset))[dataset.root.variables["tas"]].aggregation
    assert made is not None
    return made


def partition(start: int, stop: int, number: int, **changes: Any) -> dict[str, Any]:
    sub = {"file": f"{number}.nc", "ncvar": "tas", "shape": [stop - start, 64, 128]}
    location = [[start, stop - 1], [0, 63], [0, 127]]
    return {"index": [number], "location": location, "subarray": {**sub, **changes.pop("subarray", {})}, **changes}


def cfa(*partitions: dict[str, Any], **head: Any) -> dict[str, Any]:
    return {"pmdimensions": ["time"], "pmshape": [len(partitions)], "Partitions": list(partitions), **head}


TWO = cfa(partition(0, 12, 0), partition(12, 48, 1))


def nca() -> dict[str, Any]:
    """The same in NCA 0.2.1."""
    text = json.dumps(TWO).replace("subarray", "sub_array").replace('"shape"', '"pshape"')
    return {**json.loads(text), "directions": {"time": True, "lat": True, "lon": True}}


def test_inclusive_locations_of_cfa_are_clean() -> None:
    assert check("CFA", TWO) == []


def test_half_open_locations_as_in_the_examples_of_cfa_are_a_warning_that_names_both_readings() -> None:
    first, second = partition(0, 13, 0), partition(12, 49, 1)
    first["subarray"]["shape"], second["subarray"]["shape"] = [12, 64, 128], [36, 64, 128]
    for p in (first, second):
        p["location"][1:] = [[0, 64], [0, 128]]
    (finding,) = check("CFA", cfa(first, second))
    assert finding.severity == "warning"
    assert "does not close as CFA-0.4" in finding.message
    assert "with the ends of locations excluded" in finding.message


def test_the_later_keys_of_nca_are_read() -> None:
    assert check("NCA", nca()) == []


def test_a_key_of_another_version_is_a_warning() -> None:
    array = json.loads(json.dumps(nca()).replace("pshape", "shape"))
    (finding,) = check("NCA", array)
    assert (finding.code, finding.severity) == ("NCA004", "warning")
    assert "the key 'shape' of Partitions[0].sub_array belongs to another version than NCA 0.2.1" in finding.message


def test_partitions_may_come_before_the_shape_of_their_matrix() -> None:
    assert check("CFA", dict(reversed(TWO.items()))) == []


def test_one_partition_needs_neither_matrix_nor_index_nor_location() -> None:
    array = {"Partitions": [{"subarray": {"file": "a.nc", "ncvar": "tas", "shape": [48, 64, 128]}}]}
    assert check("CFA", array) == []


def test_a_base_stands_before_relative_names() -> None:
    made = aggregation("CFA", {**TWO, "base": "../archive/"})
    assert [made.partitions.file_name(i) for i in (0, 1)] == ["../archive/0.nc", "../archive/1.nc"]


def test_reversed_dimensions_are_flipped() -> None:
    made = aggregation("CFA", cfa(partition(0, 12, 0, reverse=["lat"]), partition(12, 48, 1)))
    assert made.partitions.layout_of(0).flipped == (False, True, False)
    assert made.partitions.layout_of(1).flipped == (False, False, False)


@pytest.mark.parametrize(("text", "dialect"), [("[[0, 11, 1], [], []]", "round"), ("[(0, 11, 1)]", "short")])
def test_a_part_that_is_not_understood_is_told(text: str, dialect: str) -> None:
    found = check("CFA", cfa(partition(0, 12, 0, part=text, subarray={"shape": [36, 64, 128]}), partition(12, 48, 1)))
    assert {f.code for f in found} == {"CFA006"}, dialect


@pytest.mark.parametrize("part", ["[[0, 22, 2], [0, 63, 1], [0, 127, 1]]", "[(0, 22, 2), (0, 63, 1), (0, 127, 1)]"])
def test_parts_of_cfa_0_3_and_0_4_are_read(part: str) -> None:
    array = cfa(partition(0, 12, 0, part=part, subarray={"shape": [36, 64, 128]}), partition(12, 48, 1))
    found = check("CFA", array)
    if "(" in part:
        (finding,) = (f for f in found if "does not close as CFA-0.4" in f.message)
        assert finding.severity == "warning"
        assert "it closes as CFA-0.3" in finding.message
    else:
        assert found == []
    assert aggregation("CFA", array).partitions.part_text(0) == "[(0, 24, 2), (0, 64, 1), (0, 128, 1)]"


def test_a_variable_may_be_named_by_its_number() -> None:
    second = partition(12, 48, 1, subarray={"varid": 6})
    del second["subarray"]["ncvar"]
    made = aggregation("CFA", cfa(partition(0, 12, 0), second))
    assert made.partitions.address_name(1) is None
    assert made.partitions.offset.tolist() == [-1, 6]


@pytest.mark.parametrize(
    ("array", "code"),
    [
        (cfa(partition(0, 12, 0), partition(13, 48, 1)), "CFA005"),
        (cfa(partition(0, 12, 0), partition(11, 48, 1)), "CFA005"),
        (cfa(partition(0, 12, 0), pmshape=[2]), "CFA005"),
        (cfa(partition(0, 12, 0), partition(12, 48, 0)), "CFA005"),
        (cfa(partition(0, 12, 0), partition(12, 48, 1, subarray={"shape": [35, 64, 128]})), "CFA006"),
        (cfa(partition(0, 12, 0), partition(12, 48, 1), pmdimensions=["level"]), "CFA004"),
        (cfa(partition(0, 12, 0), partition(12, 48, 1, punits=7)), "CFA004"),
        ("[1, 2]", "CFA003"),
        ("{'pmshape': [2]", "CFA003"),
        ('{"pmshape": [1], "pmshape": [1]}', "CFA003"),
    ],
)
def test_one_defect_is_told_under_one_code(array: dict[str, Any] | str, code: str) -> None:
    assert {f.code for f in check("CFA", array) if f.severity == "error"} == {code}


def test_messages_use_the_words_of_the_text_that_is_read() -> None:
    (found,) = check("CFA", cfa(partition(0, 12, 0), partition(12, 48, 1, punits=7)))
    assert "Partitions[1].punits" in found.message
    assert "nca" not in found.message.lower()


def test_misprints_of_the_examples_are_warnings() -> None:
    text = json.dumps(TWO).replace('"', "'")
    found = check("CFA", text)
    assert {(f.code, f.severity) for f in found} == {("CFA003", "warning")}


def test_a_group_of_partitions_that_is_not_there_is_an_error() -> None:
    dataset = parse_cdl(BASE % "CFA")
    dataset.root.variables["tas"].attributes.update(cfa_group="tas_group", cfa_dimensions="time")
    aggregated(dataset)
    (finding,) = run(dataset, Options(select=("CFA",))).findings
    assert (finding.code, finding.severity) == ("CFA004", "error")
    assert "tas_group/location is missing from the file" in finding.message


def test_nesting_without_end_is_bounded() -> None:
    found = check("CFA", '{"Partitions": ' + "[" * 100_000 + "]" * 100_000 + "}")
    assert all(f.code in ("CFA003", "CFA004") for f in found)
    assert found


@settings(max_examples=examples(100), deadline=None)
@given(st.data())
def test_no_text_makes_a_rule_fail(data: st.DataObject) -> None:
    text = json.dumps(TWO)
    start = data.draw(st.integers(0, len(text)))
    stop = data.draw(st.integers(start, min(len(text), start + 8)))
    family = data.draw(st.sampled_from(["NCA", "CFA"]))
    between = data.draw(
        st.one_of(st.text(max_size=4), st.sampled_from(["null", "[]", "{}", "-1", "1e999", '"', "9" * 40]))
    )
    found = check(family, text[:start] + between + text[stop:])
    assert [f for f in found if f.code == "INT001"] == []


@pytest.mark.parametrize("key", ["was repaired", "is not JSON", "the JSON is not an object"])
@pytest.mark.parametrize(("family", "code"), [("NCA", "NCA004"), ("CFA", "CFA004")])
def test_the_words_of_a_key_do_not_decide_which_rule_reports_it(family: str, code: str, key: str) -> None:
    array = TWO if family == "CFA" else nca()
    assert {f.code for f in check(family, {**array, key: 1})} <= {code}
    if family == "NCA":
        assert [f.code for f in check(family, {**array, key: 1})] == [code]


@pytest.mark.parametrize("text", ["[1]", "1", "{", '{"a": 1, "a": 2}', '{"Partitions": [{"a": 1, "a": 2}]}'])
@pytest.mark.parametrize(("family", "code"), [("NCA", "NCA003"), ("CFA", "CFA003")])
def test_what_is_not_one_object_in_json_is_reported_by_one_rule_alone(family: str, code: str, text: str) -> None:
    assert [f.code for f in check(family, text)] == [code]
