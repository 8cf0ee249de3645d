"""Missing data, valid and actual ranges, packing: sections 2.5.1 and 8.1."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cfagg.checking.engine import run
from cfagg.checking.missing import missing_mask, unpacked
from cfagg.checking.options import Options
from cfagg.formats.cdl.parsing import parse_cdl
from cfagg.model.dataset import Dataset, Group, Variable
from tests.checking.rules.asking import codes, findings, told
from tests.effort import examples


def cdl(type_: str, attributes: str, values: str = "1, 2, 3", version: str = "1.13") -> str:
    return f"""
    netcdf n {{ dimensions: x = 3 ; variables: {type_} v(x) ; {attributes} :Conventions = "CF-{version}" ;
    data: v = {values} ; }}
    """


@pytest.mark.parametrize(
    ("type_", "attributes", "expected"),
    [
        ("float", "v:_FillValue = -1.f ;", []),
        ("float", "v:_FillValue = NaNf ;", []),
        ("float", "double v:_FillValue = -1. ;", ["DAT002"]),
        ("short", "v:_FillValue = -1s ;", []),
        ("short", "ushort v:_FillValue = 1us ;", ["DAT002"]),
        ("short", 'ushort v:_FillValue = 1us ; v:_Unsigned = "true" ;', []),
        ("int", "float v:_FillValue = 1.f ;", ["DAT002"]),
        ("int", 'v:_FillValue = "1" ;', ["DAT002"]),
        ("char", 'v:_FillValue = "x" ;', []),
        ("char", "v:_FillValue = 1b ;", ["DAT002"]),
        ("string", 'v:_FillValue = "" ;', []),
        ("float", "v:missing_value = -1.f, -2.f ;", []),
        ("float", "v:missing_value = -1 ;", ["DAT003"]),
        ("float", "v:missing_value = -1.f ; v:_FillValue = -1.f ;", []),
        ("float", "v:missing_value = NaNf ; v:_FillValue = NaNf ;", []),
        ("float", "v:missing_value = -1.f ; v:_FillValue = -2.f ;", ["DAT009"]),
        ("float", "v:missing_value = -1. ; v:_FillValue = -1.f ;", ["DAT003"]),
        ("float", "v:missing_value = -2.f, -1.f ; v:_FillValue = -1.f ;", []),
        ("float", "v:valid_range = 0.f, 9.f ; v:valid_max = 9.f ;", ["DAT001"]),
        ("float", "v:valid_min = 0.f ; v:valid_max = 9.f ;", []),
        ("float", "v:valid_range = 0.f, 9.f ; v:_FillValue = 9.f ;", ["DAT008"]),
        ("float", "v:valid_range = 0.f, 9.f ; v:_FillValue = NaNf ;", []),
        ("float", "v:valid_min = 0.f ; v:valid_max = 9.f ; v:_FillValue = 5.f ;", ["DAT008"]),
        ("byte", 'v:valid_range = 0b, -6b ; v:_FillValue = -1b ; v:_Unsigned = "true" ;', []),
    ],
)
def test_missing_and_valid_values(type_: str, attributes: str, expected: list[str]) -> None:
    values = '"abc"' if type_ == "char" else '"a", "b", "c"' if type_ == "string" else "1, 2, 3"
    assert codes(cdl(type_, attributes, values), "DAT") == expected


def test_a_range_that_is_open_at_one_side_is_only_mentioned() -> None:
    found = findings(cdl("float", "v:valid_min = 0.f ; v:_FillValue = 1.e20f ;"), "DAT008")
    assert [f.severity for f in found] == ["info"]


def test_a_valid_range_is_told_as_it_is_given_where_it_is_unpacked() -> None:
    text = cdl("short", "v:scale_factor = 5. ; v:valid_min = -9. ; v:valid_max = 9. ; v:_FillValue = 1s ;")
    assert [f.message for f in findings(text, "DAT008")] == [
        "1 (unpacked: 5.0) lies within the valid range from -9.0 to 9.0; choose a value outside"
    ]


@pytest.mark.parametrize("version", ["1.0", "1.4", "1.5"])
def test_both_ways_to_mark_missing_data_agree_in_all_versions(version: str) -> None:
    assert codes(cdl("float", "v:missing_value = -1.f ; v:_FillValue = -2.f ;", version=version), "DAT") == ["DAT009"]


def json(dtype: str, **attributes: object) -> Dataset:
    """Return a dataset of attributes without widths, as JSON has them."""
    root = Group()
    kind = "float" if np.dtype(dtype).kind == "f" else "integer"
    root.variables["v"] = Variable("v", root, (), np.dtype(dtype), kind, dict(attributes))  # type: ignore[arg-type]
    return Dataset("test", "zarr", root, typed=False)


@pytest.mark.parametrize(
    ("dataset", "expected"),
    [
        (json("f4", _FillValue=np.array([-1.0])), []),
        (json("f4", _FillValue=np.array([-1])), []),
        (json("i2", _FillValue=np.array([-1])), []),
        (json("i2", _FillValue=np.array([-1.5])), ["DAT002"]),
        (json("i2", _FillValue="x"), ["DAT002"]),
        (json("f4", actual_range=np.array([0, 1])), []),
        (json("i2", actual_range=np.array([0.0, 1.0]), scale_factor=np.array([0.5])), []),
        (json("i2", actual_range=np.array([0, 1]), scale_factor=np.array([2])), []),
        (json("f4", _FillValue=None), []),
        (json("f4", _FillValue={"a": 1}), []),
    ],
)
def test_widths_are_not_known_in_json(dataset: Dataset, expected: list[str]) -> None:
    assert codes(dataset, "DAT") == expected


@pytest.mark.parametrize(
    ("type_", "attributes", "values", "expected"),
    [
        ("float", "v:actual_range = 1.f, 3.f ;", "1, 2, 3", []),
        ("float", "v:actual_range = 0.1f, 0.3f ;", "0.1, 0.2, 0.3", []),
        ("float", "v:actual_range = 1.f, 2.f ;", "1, 2, 3", ["DAT005"]),
        ("float", "v:actual_range = 1.f, 2.f ; v:_FillValue = 3.f ;", "1, 2, 3", []),
        ("float", "v:actual_range = 1.f, 2.f ;", "1, 2, NaN", []),
        ("float", "v:actual_range = 1.f, 2.f ; v:valid_max = 2.f ;", "1, 2, 3", []),
        ("float", "v:actual_range = 1.f, 3.f ; v:valid_max = 2.f ;", "1, 2, 3", ["DAT007"]),
        ("float", "v:actual_range = 1., 3. ;", "1, 2, 3", ["DAT004"]),
        ("float", 'v:actual_range = "1 3" ;', "1, 2, 3", ["DAT004"]),
        ("float", "v:actual_range = 3.f, 1.f ;", "1, 2, 3", ["DAT005"]),
        ("float", "v:actual_range = 1.f ;", "1, 2, 3", ["DAT005"]),
        ("float", "v:actual_range = 1.f, 3.f ;", "_, _, _", ["DAT006"]),
        ("float", "v:actual_range = 1.f, 3.f ; v:_FillValue = NaNf ;", "NaN, NaN, NaN", ["DAT006"]),
        ("short", "v:actual_range = 1.5, 2.5 ; v:scale_factor = 0.5 ; v:add_offset = 1. ;", "1, 2, 3", []),
        ("short", "v:actual_range = 1s, 3s ; v:scale_factor = 0.5 ;", "1, 2, 3", ["DAT004"]),
        ("short", "v:actual_range = 1.5f, 2.5f ; v:scale_factor = 0.5 ; v:add_offset = 1. ;", "1, 2, 3", ["DAT004"]),
        ("short", "v:actual_range = -1.5, -0.5 ; v:scale_factor = -0.5 ;", "1, 2, 3", []),
        ("short", "v:actual_range = 0.1f, 0.3f ; v:scale_factor = 0.1f ;", "1, 2, 3", []),
        ("short", "v:actual_range = 0.1f, 0.4f ; v:scale_factor = 0.1f ;", "1, 2, 3", ["DAT005"]),
        (
            "short",
            "v:actual_range = 1., 3. ; v:scale_factor = 1. ; v:valid_range = 0s, 2s ;",
            "1, 2, 2",
            ["DAT007"],
        ),
        ("short", "v:actual_range = -3., -1. ; v:scale_factor = -1. ; v:valid_range = 0s, 3s ;", "1, 2, 3", []),
        ("short", "v:actual_range = 1., 3. ; v:scale_factor = 1. ; v:valid_min = 200. ;", "1, 2, 3", ["DAT007"]),
        (
            "short",
            "v:actual_range = 1., 3. ; v:scale_factor = 1. ; v:valid_range = 0s, 9s ; v:valid_max = 2s ;",
            "1, 2, 2",
            ["DAT001", "DAT007"],
        ),
        # A limit that is given unpacked need not be a value that can be stored.
        ("short", "v:actual_range = 4., 9. ; v:scale_factor = 5. ; v:valid_min = 4. ;", "_, _, _", ["DAT006"]),
        ("short", "v:actual_range = 3., 9. ; v:scale_factor = 5. ; v:valid_min = 4. ;", "1, 2, 3", ["DAT007"]),
        ("byte", 'v:actual_range = 1b, -1b ; v:_Unsigned = "true" ;', "1, 2, -1", []),
        ("char", "v:actual_range = 1b, 3b ;", '"abc"', ["DAT004"]),
    ],
)
def test_actual_range(type_: str, attributes: str, values: str, expected: list[str]) -> None:
    assert codes(cdl(type_, attributes, values), "DAT") == expected


def test_values_are_read_only_if_asked_for() -> None:
    text = cdl("float", "v:actual_range = 1.f, 2.f ;")
    assert codes(text, "DAT") == ["DAT005"]
    assert codes(text, "DAT", data=False) == []


def test_there_was_no_actual_range_before_cf_1_7() -> None:
    assert codes(cdl("float", "v:actual_range = 1, 2 ;", version="1.6"), "DAT") == []


@pytest.mark.parametrize(
    ("type_", "attributes", "version", "expected"),
    [
        ("short", "v:scale_factor = 2.f ;", "1.13", []),
        ("short", "v:scale_factor = 2.f ; v:add_offset = 1.f ;", "1.13", []),
        ("int", "v:scale_factor = 2. ;", "1.13", []),
        ("uint", "v:scale_factor = 2. ;", "1.13", []),
        ("short", "v:scale_factor = 2s ;", "1.13", ["PCK001"]),
        ("short", "v:scale_factor = 2s ;", "1.10", []),
        ("short", "v:scale_factor = 2 ;", "1.10", ["PCK001"]),
        ("short", "v:scale_factor = 2.f ; v:add_offset = 1. ;", "1.0", ["PCK001"]),
        ("short", 'v:scale_factor = "2" ;', "1.13", ["PCK001"]),
        ("short", "v:add_offset = 2.f, 3.f ;", "1.13", ["PCK001"]),
        ("int", "v:scale_factor = 2.f ;", "1.13", ["PCK002"]),
        ("float", "v:scale_factor = 2.f ;", "1.13", ["PCK002"]),
        ("float", "v:scale_factor = 2.f ;", "1.10", []),
        ("double", "v:scale_factor = 2. ;", "1.13", ["PCK003"]),
        ("float", "v:scale_factor = 2. ;", "1.10", ["PCK003"]),
        ("int64", "v:scale_factor = 2. ;", "1.13", ["PCK003"]),
        ("ushort", "v:add_offset = 2.f ;", "1.13", []),
    ],
)
def test_packing(type_: str, attributes: str, version: str, expected: list[str]) -> None:
    assert codes(cdl(type_, attributes, version=version), "PCK") == expected


def test_lost_digits_were_only_advised_against() -> None:
    text = cdl("int", "v:scale_factor = 2.f ;", version="1.10")
    assert [f.severity for f in findings(text, "PCK")] == ["warning"]


def test_in_json_one_may_be_written_for_any_one() -> None:
    assert codes(json("i2", scale_factor=np.array([1]), add_offset=np.array([0.5])), "PCK") == []
    assert codes(json("f4", scale_factor=np.array([0.5])), "PCK") == ["PCK003"]


def test_in_json_reals_may_be_scaled_by_reals_of_their_own_type_as_before_cf_1_11() -> None:
    dataset = json("f4", scale_factor=np.array([1.0]))
    dataset.root.attributes["Conventions"] = "CF-1.10"
    assert codes(dataset, "PCK") == []


def test_valid_values_are_packed_values() -> None:
    packed = cdl("short", "v:scale_factor = 0.5 ; v:valid_range = 0., 9. ;")
    assert told(packed, "ATT005")[0].startswith("error")
    assert told(cdl("float", "v:valid_min = 0. ;"), "ATT005")[0].startswith("warning")


def variable(dtype: str, **attributes: object) -> Variable:
    kind = "float" if np.dtype(dtype).kind == "f" else "integer"
    return Variable("v", Group(), (), np.dtype(dtype), kind, dict(attributes))  # type: ignore[arg-type]


@settings(max_examples=examples(100))
@given(
    st.lists(st.integers(-128, 127), min_size=1),
    st.integers(-128, 127),
    st.lists(st.integers(-128, 127), min_size=2, max_size=2).map(sorted),
    st.booleans(),
)
def test_missing_values_are_those_of_a_plain_loop(
    values: list[int], fill: int, ends: list[int], unsigned: bool
) -> None:
    if unsigned:
        ends = sorted(e % 256 for e in ends)
    stored = [e - 256 if e > 127 else e for e in ends]
    v = variable("i1", _FillValue=np.array([fill], "i1"), valid_range=np.array(stored, "i1"))
    if unsigned:
        v.attributes["_Unsigned"] = "true"
    expected = [n == fill or not ends[0] <= (n % 256 if unsigned else n) <= ends[1] for n in values]
    assert missing_mask(v, np.array(values, "i1")).tolist() == expected


@settings(max_examples=examples(100))
@given(st.lists(st.integers(-32768, 32767), min_size=1), st.floats(-1e6, 1e6), st.floats(-1e6, 1e6))
def test_unpacking_is_scaling_and_adding(values: list[int], scale: float, offset: float) -> None:
    v = variable("i2", scale_factor=np.array([scale]), add_offset=np.array([offset]))
    found = unpacked(v, np.array(values, "i2"))
    assert all(math.isclose(a, n * scale + offset, abs_tol=1e-9) for a, n in zip(found.tolist(), values, strict=True))


def test_what_was_never_written_is_missing() -> None:
    v = parse_cdl("netcdf n { dimensions: x = 2 ; variables: float v(x) ; data: v = 1, _ ; }").root.variables["v"]
    assert missing_mask(v, v.values()).tolist() == [False, True]


@pytest.mark.parametrize(
    "attributes",
    [
        "v:actual_range = 1.f, 3.f ; v:valid_range = 0.f, 2.f ;",
        "v:actual_range = 1.f, 3.f ; v:valid_max = 2.5f ;",
        "v:actual_range = 1.f, 3.f ; v:valid_min = 9.f ;",
    ],
)
def test_an_actual_range_beyond_the_valid_one_is_told_of_once(attributes: str) -> None:
    assert codes(cdl("float", attributes), "DAT") == ["DAT007"]


def test_limits_of_other_precision_are_those_of_the_variable() -> None:
    attributes = "v:actual_range = 0.1f, 0.3f ; v:valid_max = 0.3 ; v:valid_min = 0.1 ;"
    assert codes(cdl("float", attributes, "0.1, 0.2, 0.3"), "DAT") == []


def test_a_fill_value_that_is_no_number_is_passed_over() -> None:
    text = """netcdf x { dimensions: x = 3 ; variables: int x(x) ; x:units = "m" ; data: x = 3, 3, 3 ; }"""
    with parse_cdl(text) as dataset:
        dataset.variables[0].attributes["_FillValue"] = np.array([b"x"])
        found = run(dataset, Options(data=True)).findings
    assert "COO007" in {f.code for f in found}
    assert "INT001" not in {f.code for f in found}
