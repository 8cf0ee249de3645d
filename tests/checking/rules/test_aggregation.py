"""Aggregation variables of CF-1.13: single defects, what is allowed, and what must not be complained of."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cfagg
from cfagg.cf.uris import problem_of, scheme_of
from cfagg.checking.engine import run
from cfagg.checking.explaining import explanations
from cfagg.checking.opening import open_dataset
from cfagg.checking.options import Options
from cfagg.errors import ConventionError
from cfagg.findings.finding import Finding
from cfagg.formats.cdl.parsing import parse_cdl
from cfagg.model.dataset import Dataset
from tests.checking.writing import write_cdl
from tests.effort import examples

FAMILIES = ("AGG", "REF")

GRID = """netcdf grid {
dimensions:
  level = 17 ;
  latitude = 180 ;
  longitude = 360 ;
  f_level = 1 ;
  f_latitude = 3 ;
  f_longitude = 2 ;
  j = 3 ;
  i = 3 ;
variables:
  double temperature ;
    temperature:standard_name = "air_temperature" ;
    temperature:units = "K" ;
    temperature:aggregated_dimensions = "level latitude longitude" ;
    temperature:aggregated_data = "map: sizes
                                   uris: files
                                   identifiers: names" ;
  int sizes(j, i) ;
  string files(f_level, f_latitude, f_longitude) ;
  string names ;
:Conventions = "CF-1.13" ;
data:
  sizes = 17, _, _,
          90, 45, 45,
          180, 180, _ ;
  files = "a.nc", "b.nc", "c.nc", "d.nc", "e.nc", "f.nc" ;
  names = "tmp" ;
}
"""


def findings(text: str, version: str | None = None) -> list[Finding]:
    with parse_cdl(text) as dataset:
        return found_in(dataset, version)


def found_in(dataset: Dataset, version: str | None = None) -> list[Finding]:
    return run(dataset, Options(cf_version=version, select=FAMILIES)).findings


def codes(text: str, severity: str = "error") -> list[str]:
    return [f.code for f in findings(text) if f.severity == severity]


def test_an_aggregation_variable_has_the_dimensions_of_its_data() -> None:
    with parse_cdl(GRID) as dataset:
        variable = dataset.root.variables["temperature"]
        assert (variable.dims, variable.shape, variable.stored, variable.dialect) == (
            ("level", "latitude", "longitude"),
            (17, 180, 360),
            (),
            "CF",
        )


def test_an_aggregated_coordinate_is_a_coordinate_variable() -> None:
    text = explanations()["REF010"]["passes"]
    with parse_cdl(text) as dataset:
        assert dataset.root.variables["time"].is_coordinate


def test_the_stored_value_of_an_aggregation_is_never_given() -> None:
    with parse_cdl(GRID) as dataset:
        variable = dataset.root.variables["temperature"]
        assert variable.values().size == 0
        assert list(variable.blocks()) == []


def test_an_array_of_fragments_in_three_dimensions_is_clean() -> None:
    assert codes(GRID) == codes(GRID, "warning") == []


def test_before_cf_1_13_there_are_no_aggregation_variables() -> None:
    broken = GRID.replace('level latitude longitude"', 'level latitude nowhere"')
    assert [f.code for f in findings(broken, "1.12") if f.code.startswith("AGG")] == []
    assert [f.code for f in findings(broken, "1.13") if f.severity == "error"] == ["AGG002"]


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ('names = "tmp"', 'names = ""', "AGG011"),
        ("string names ;", "string names(f_latitude, f_level, f_longitude) ;", "AGG010"),
        ("int sizes(j, i)", "double sizes(j, i)", "AGG014"),
        ("int sizes(j, i)", "int sizes(i, j, f_level)", "AGG016"),
        ("90, 45, 45", "90, 45, 44", "AGG018"),
        ("double temperature ;", "double temperature(level) ;", "AGG003"),
        ("string files(f_level, f_latitude, f_longitude)", "string files(f_latitude, f_longitude)", "AGG006"),
        ("string files(f_level, f_latitude, f_longitude)", "char files(f_level, f_latitude, f_longitude)", "AGG005"),
        ('"a.nc"', '"#a.nc"', "AGG009"),
        ('"a.nc"', '"C:\\\\data\\\\a.nc"', "AGG009"),
        ('"a.nc"', "_", "AGG008"),
        ("identifiers: names", "identifiers: names map: sizes", "AGG004"),
        ("identifiers: names", "identifier: names", "AGG004"),
        ("uris: files", "uris: files files", "AGG004"),
    ],
)
def test_one_defect_is_one_error(old: str, new: str, code: str) -> None:
    assert old in GRID
    changed = GRID.replace(old, new)
    if "char files" in new:
        changed = changed[: changed.index("  files = ")] + changed[changed.index("  names = ") :]
    if "names(" in new:
        changed = changed.replace('names = "tmp"', 'names = "a", "b", "c", "d", "e", "f"')
    assert set(codes(changed)) == {code}


def test_characters_in_place_of_strings_are_no_error_where_their_shape_is_right() -> None:
    text = GRID.replace(
        "string files(f_level, f_latitude, f_longitude)", "char files(f_level, f_latitude, f_longitude, n)"
    )
    text = text.replace("  j = 3 ;", "  j = 3 ;\n  n = 4 ;").replace("string names ;", "char names(j) ;")
    assert codes(text) == []
    assert codes(text, "warning") == ["AGG005"]


def test_uris_that_are_shared_by_aggregations_of_other_dimensions_are_a_warning() -> None:
    level = """  double level ;
    level:aggregated_dimensions = "latitude" ;
    level:aggregated_data = "map: level_sizes uris: files identifiers: names" ;
  int level_sizes(f_level, i) ;
:Conventions"""
    text = GRID.replace(":Conventions", level).replace("f_longitude = 2", "f_longitude = 1")
    text = text.replace("180, 180, _", "360, _, _").replace(', "d.nc", "e.nc", "f.nc"', "")
    text = text.replace("  names = ", "  level_sizes = 90, 45, 45 ;\n  names = ")
    assert codes(text) == []
    assert codes(text, "warning") == ["AGG006"]


def test_features_in_upper_case_can_be_put_right() -> None:
    (found,) = [f for f in findings(GRID.replace("map: sizes", "MAP: sizes")) if f.severity == "error"]
    assert found.code == "AGG004"
    assert [(e.attribute, e.value, e.safe) for e in found.fix] == [
        ("aggregated_data", "map: sizes uris: files identifiers: names", True)
    ]


def test_terms_of_a_draft_can_be_put_right_by_those_who_know_them() -> None:
    draft = GRID.replace("uris: files", "location: files").replace("identifiers: names", "variable: names")
    (found,) = [f for f in findings(draft) if f.severity == "error"]
    assert (found.code, [(e.value, e.safe) for e in found.fix]) == (
        "AGG004",
        [("map: sizes uris: files identifiers: names", False)],
    )


def test_fragments_of_255_elements_may_have_their_sizes_in_ubytes() -> None:
    text = GRID.replace("int sizes(j, i)", "ubyte sizes(j, i)").replace("latitude = 180", "latitude = 285")
    text = text.replace("90, 45, 45", "15, 15, 255").replace("180, 180", "105, 255")
    text = text.replace("  string names", "    sizes:_FillValue = 0UB ;\n  string names")
    assert codes(text) == []


def test_a_size_of_zero_is_a_warning() -> None:
    text = GRID.replace("90, 45, 45", "90, 90, 0")
    assert codes(text) == []
    assert codes(text, "warning") == ["AGG018"]


def test_missing_sizes_may_be_marked_by_an_attribute() -> None:
    text = (
        GRID.replace("  string names", "    sizes:missing_value = -1 ;\n  string names")
        .replace("_", "-1")
        .replace("f-1", "f_")
    )
    text = (
        text.replace("aggregated-1", "aggregated_").replace("missing-1value", "missing_value").replace("air-1", "air_")
    )
    text = text.replace("standard-1", "standard_")
    assert codes(text) == []


def test_without_values_nothing_is_said_of_them() -> None:
    header = GRID[: GRID.index("data:")] + "}"
    assert codes(header) == []


def test_instructions_of_another_group_are_found() -> None:
    inner = GRID.replace("uris: files", "uris: /parts/files")
    inner = inner.replace("  string files(f_level, f_latitude, f_longitude) ;\n", "")
    files = '  files = "a.nc", "b.nc", "c.nc", "d.nc", "e.nc", "f.nc" ;\n'
    inner = inner.replace(files, "")
    group = (
        "group: parts {\n variables:\n  string files(f_level, f_latitude, f_longitude) ;\n data:\n" + files + " }\n}"
    )
    assert codes(inner.rstrip().removesuffix("}") + group) == []


def test_a_hundred_thousand_fragments_are_checked_in_seconds() -> None:
    n = 20_000
    text = (
        GRID.replace("level = 17", f"level = {n}").replace("f_level = 1", f"f_level = {n}").replace("i = 3", f"i = {n}")
    )
    with parse_cdl(text[: text.index("data:")] + "}") as dataset:
        sizes = np.full((3, n), -2147483647, "i4")
        sizes[0], sizes[1, :3], sizes[2, :2] = 1, [90, 45, 45], [180, 180]
        files = np.empty((n, 3, 2), object)
        files[...] = np.array([f"part/{k}.nc" for k in range(6 * n)], object).reshape(n, 3, 2)
        names = np.empty((), object)
        names[()] = "tmp"
        for name, values in (("sizes", sizes), ("files", files), ("names", names)):
            dataset.root.variables[name].read = values.__getitem__
        found = found_in(dataset)
    assert [f.code for f in found] == ["REF001"]
    assert "120,000 fragments refer to 120,000 datasets" in found[0].message


@pytest.mark.parametrize(
    "text",
    [
        "file.nc",
        "../file.nc",
        "data/file.nc",
        "file:///data/file.nc",
        "https://a.b/c.nc",
        "s3://x/y.nc",
        "my_own:///id",
    ],
)
def test_uris_of_the_text_are_uris(text: str) -> None:
    assert problem_of(text) is None


def test_a_relative_path_with_a_colon_needs_a_dot() -> None:
    assert problem_of("2001-01-01T00:00.nc") is not None
    assert problem_of("./2001-01-01T00:00.nc") is None


def test_characters_that_a_uri_encodes_are_told_as_such() -> None:
    assert (problem_of("my file.nc") or "").startswith("holds")
    assert (problem_of("température.nc") or "").startswith("holds")
    assert problem_of("my%20file.nc") is None


@settings(max_examples=examples(100), deadline=None)
@given(st.text(max_size=30))
def test_any_text_is_judged(text: str) -> None:
    problem_of(text)
    scheme = scheme_of(text)
    assert scheme is None or text.lower().startswith(f"{scheme}:")


VALUES = st.one_of(
    st.text(max_size=12),
    st.lists(st.integers(-5, 5), max_size=3).map(np.array),
    st.binary(max_size=4),
    st.just(("a", "b")),
    st.none(),
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
)
ATTRIBUTES = (
    "aggregated_dimensions", "aggregated_data", "cfa_array", "cfa_dimensions", "nca_array", "nca_dimensions",
    "nca_private", "cf_role", "units", "calendar", "_FillValue", "missing_value", "valid_range", "substitutions",
)  # fmt: skip


@settings(max_examples=examples(100), deadline=None)
@given(
    st.dictionaries(
        st.tuples(st.sampled_from(["temperature", "sizes", "files", "names"]), st.sampled_from(ATTRIBUTES)), VALUES,
        max_size=6,
    )
)  # fmt: skip
def test_no_metadata_makes_a_rule_fail(changes: dict[tuple[str, str], object]) -> None:
    from cfagg.formats.metadata.aggregation import aggregated

    with parse_cdl(GRID) as dataset:
        for (variable, attribute), value in changes.items():
            dataset.root.variables[variable].attributes[attribute] = value
        for variable in dataset.variables:
            variable.dimensions, variable.dialect = variable.stored, None
        aggregated(dataset)
        found = run(
            dataset, Options(select=("AGG", "NCA", "CFA", "REF", "ACC", "OBS"), data=True, references=True)
        ).findings
    assert [f for f in found if f.code == "INT001"] == []


@pytest.mark.parametrize("decoded", [True, False])
def test_xarray_has_no_dimension_that_no_variable_has(tmp_path: Path, decoded: bool) -> None:
    import xarray as xr

    path = write_cdl(GRID.replace("  string files", "    sizes:_FillValue = -1 ;\n  string files"), tmp_path / "a.nc")
    with xr.open_dataset(path, decode_cf=decoded) as held, open_dataset(held) as dataset:
        found = found_in(dataset)
    assert {(f.code, f.severity) for f in found} == {("AGG002", "warning"), ("REF001", "info")}


VALUES = """netcdf values {
dimensions:
  time = 3 ;
  fragment = 2 ;
  one = 1 ;
variables:
  float a ;
    a:aggregated_dimensions = "time" ;
    a:aggregated_data = "map: sizes unique_values: values" ;
  float b ;
    b:aggregated_dimensions = "time" ;
    b:aggregated_data = "map: sizes unique_values: values" ;
  int sizes(one, fragment) ;
  float values(fragment) ;
:Conventions = "CF-1.13" ;
data:
  sizes = 1, 2 ;
  values = 1, 2 ;
}
"""


@pytest.mark.parametrize(
    ("edits", "code"),
    [
        ({"float values": "string values", "values = 1, 2": 'values = "x", "y"'}, "AGG012"),
        ({"float a": "string a", "float b": "string b"}, "AGG012"),
        ({"sizes = 1, 2": "sizes = -1, 4"}, "AGG018"),
    ],
)
def test_what_no_reader_can_make_sense_of_is_an_error(tmp_path: Path, edits: dict[str, str], code: str) -> None:
    text = VALUES
    assert codes(text) == []
    for old, new in edits.items():
        text = text.replace(old, new)
    assert set(codes(text)) == {code}
    with pytest.raises(ConventionError):
        cfagg.read(write_cdl(text, tmp_path / "a.nc"))


def test_an_error_in_a_map_of_several_aggregations_is_reported_once() -> None:
    assert codes(VALUES) == []
    assert codes(VALUES.replace("sizes = 1, 2", "sizes = 1, 1")) == ["AGG018"]
