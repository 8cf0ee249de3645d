"""Use of attributes (Appendix A), and that no rule fails whatever attributes hold."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cfagg.cf.attribute_table import attribute_table, uses
from cfagg.findings.finding import Edit
from cfagg.findings.versions import Version
from cfagg.model.dataset import Dataset, Group, Variable
from tests.checking.rules.asking import codes, findings
from tests.effort import examples


def dataset(attributes: dict[str, Any], group: dict[str, Any] | None = None) -> Dataset:
    root = Group(attributes={"Conventions": "CF-1.13"})
    x = root.add_dimension("x", 2)
    root.variables["v"] = Variable(
        "v", root, (x,), np.dtype("f4"), "float", attributes, read=np.ones(2, "f4").__getitem__
    )
    if group is not None:
        root.child("g").attributes = group
    return Dataset("test", "netcdf", root)


def test_the_table_has_the_attributes_of_all_versions() -> None:
    known = [sum(bool(uses(name, Version(1, minor))) for name in attribute_table()) for minor in (7, 8, 11, 12, 13)]
    assert known == [43, 50, 56, 61, 64]


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("long_name", np.array([1]), ["ATT001"]),
        ("long_name", "x", []),
        ("valid_min", "0", ["ATT001"]),
        ("valid_min", np.array([0, 1], "f4"), ["ATT001"]),
        ("valid_range", np.array([0, 1], "f4"), []),
        ("valid_range", np.array([0], "f4"), ["ATT001"]),
        ("standard_error_multiplier", "2", ["ATT001"]),
        ("mesh", np.array([2.0]), ["ATT001"]),
        ("my_own", np.array([2.0]), []),
    ],
)
def test_what_attributes_hold(name: str, value: object, expected: list[str]) -> None:
    assert codes(dataset({name: value}), "ATT001") == expected


@pytest.mark.parametrize(
    ("name", "right", "severity"),
    [("Units", "units", "warning"), ("STANDARD_NAME", "standard_name", "warning"), ("Comment", "comment", "info")],
)
def test_letter_case(name: str, right: str, severity: str) -> None:
    (found,) = findings(dataset({name: "m"}), "ATT003")
    assert found.severity == severity
    assert found.fix == ((Edit("v", name, rename=right),) if severity == "warning" else ())


@pytest.mark.parametrize("name", ["Scale_Factor", "Missing_Value", "VALID_MIN", "Calendar"])
def test_an_attribute_that_changes_what_programs_read_is_not_renamed_unasked(name: str) -> None:
    (found,) = findings(dataset({name: "1"}), "ATT003")
    assert found.fix == (Edit("v", name, rename=name.lower(), safe=False),)


def test_an_attribute_that_is_there_in_both_cases_is_left_alone() -> None:
    assert codes(dataset({"Units": "m", "units": "m"}), "ATT003") == []


def test_libraries_do_not_let_an_attribute_become_the_fill_value() -> None:
    (found,) = findings(dataset({"_fillvalue": np.array([1], "f4")}), "ATT003")
    assert found.fix == ()


def test_attributes_of_variables_on_groups() -> None:
    found = findings(
        dataset({}, {"units": "m", "title": "t", "institution": "i", "location": "l", "mine": 1}), "ATT004"
    )
    assert [(f.where, f.severity) for f in found] == [("/g/:units", "warning")]


def test_attributes_of_variables_on_the_dataset_are_only_mentioned() -> None:
    text = 'netcdf n { :coordinates = "lat lon" ; :Conventions = "CF-1.13" ; }'
    assert [f.severity for f in findings(text, "ATT")] == ["info"]


@pytest.mark.parametrize("name", ["featureType", "Conventions", "external_variables", "positive", "bounds"])
def test_attributes_of_other_things_are_only_mentioned(name: str) -> None:
    assert [f.severity for f in findings(dataset({name: "up"}), "ATT002")] == ["info"]


NAMES = [*sorted(attribute_table()), "_QuantizeX", "_Unsigned", "my note", "Units"]
TEXTS = st.sampled_from(
    ["", " ", "v", "w", "x", "v w", "a: v", "sigma: v ps: w", ":", "a:", "/v", "/g/w", "../v", "//", "true", "up",
     "CF-1.13", "CF-9.9", "atmosphere_sigma_coordinate", "ocean_sigma_z_coordinate",
     "sigma: v zlev: w nsigma: n", "e\u0301", "\udcff"]
)  # fmt: skip
DTYPES = ("i1", "u1", "i2", "i4", "i8", "u8", "f4", "f8", "?")
ODD = [[np.nan], [np.inf, -np.inf], [1e300], np.array([2**63], "u8"), np.array(["a"], object)]
ARRAYS = st.sampled_from(
    [np.array(values, d) for d in DTYPES for values in ([], [1], [0, 1])] + list(map(np.array, ODD))
)
OTHERS = st.sampled_from([b"\xff", None, True, {}, {"a": [1]}, (), ("a", "b"), ("v",)])
ATTRIBUTES = st.dictionaries(st.sampled_from(NAMES), TEXTS | ARRAYS | OTHERS, max_size=8)
KINDS = st.sampled_from(
    [
        ("f4", "float"),
        ("f8", "float"),
        ("i1", "integer"),
        ("i2", "integer"),
        ("u8", "integer"),
        ("S1", "char"),
        ("O", "string"),
        ("O", "other"),
    ]
)


@settings(max_examples=examples(100), deadline=None)
@given(
    ATTRIBUTES,
    ATTRIBUTES,
    ATTRIBUTES,
    KINDS,
    KINDS,
    st.integers(0, 2),
    st.booleans(),
    st.sampled_from(["1.0", "1.8", "1.13"]),
)
def test_no_rule_fails_whatever_the_attributes_hold(
    first: dict[str, Any],
    second: dict[str, Any],
    of_group: dict[str, Any],
    one: tuple[str, Any],
    two: tuple[str, Any],
    rank: int,
    typed: bool,
    version: str,
) -> None:
    root = Group(attributes=of_group)
    dimensions = (root.add_dimension("v", 2), root.add_dimension("x", 3))[:rank]
    group = root.child("g")
    for home, name, (dtype, kind), attributes in (
        (root, "v", one, first),
        (group, "w", two, second),
        (root, "n", two, {}),
    ):
        shape = tuple(d.size for d in dimensions)
        values = np.full(shape, "x", object) if dtype == "O" else np.ones(shape, dtype)
        home.variables[name] = Variable(
            name, home, dimensions, np.dtype(dtype), kind, attributes, read=values.__getitem__
        )
    model = Dataset("test", "netcdf", root, typed=typed, path="a.nc")
    for family in ("DOC", "DAT", "GRP", "PCK", "QNT", "VRT", "ATT", "TYP"):
        assert "INT001" not in codes(model, family, cf_version=version)
