"""CDL is read as ncgen reads it, or refused by one error that names the line."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from cfagg.errors import CfaggError, LimitError, SourceError
from cfagg.formats.cdl.parsing import parse_cdl

#: Declaration, value -> what ncgen 4.9 stores, as printed by ncdump.
VALUES: list[tuple[str, str, Any]] = [
    ("byte v", "300", np.int8(44)),
    ("byte v", "200", np.int8(-56)),
    ("byte v", "200b", np.int8(-56)),
    ("byte v", "'a'", np.int8(97)),
    ("ubyte v", "-1", np.uint8(255)),
    ("ubyte v", "300", np.uint8(44)),
    ("short v", "40000", np.int16(-25536)),
    ("int v", "4000000000", np.int32(-294967296)),
    ("int v", "'a'", np.int32(97)),
    ("int v", "1.5", np.int32(1)),
    ("uint v", "-1", np.uint32(2**32 - 1)),
    ("uint64 v", "18446744073709551615ULL", np.uint64(2**64 - 1)),
    ("float v", "1e999", np.float32(np.inf)),
    ("string v", "97", "97"),
    ("string v", "NIL", ""),
    ("string v", r'"ab\000c"', "ab"),
    ("string v", r'"caf\303\251"', "café"),
    ("byte v", r"'\351'", np.int8(-23)),
    ("int v", "-010", np.int32(-8)),
    ("double v", "010", np.float64(8)),
    ("float v", "08.5", np.float32(8.5)),
    ("integer v", "5", np.int32(5)),
    ("ulong v", "5", np.uint32(5)),
    ("uinteger v", "5", np.uint32(5)),
    ("short v", "0xabcdS", np.int16(-21555)),
    ("double v", "DoubleInf", np.float64(np.inf)),
    ("float v", "-Inff", np.float32(-np.inf)),
    ("int v", "1 /* one,\n // 2 */", np.int32(1)),
]


@pytest.mark.parametrize("place", ["1,\n", "_,\n"])
@pytest.mark.parametrize(
    ("type_", "given", "name"),
    [
        ("byte", "128.", "int8"),
        ("short", "40000.5", "int16"),
        ("int", "-4294967296.", "int32"),
        ("uint", "-1.", "uint32"),
        ("int64", "9.3e18", "int64"),
        ("uint64", "1e20", "uint64"),
    ],
)
def test_a_real_out_of_the_range_of_integers_is_refused_by_its_line_as_c_leaves_it_undefined(
    type_: str, given: str, name: str, place: str
) -> None:
    said = f"line 2: {re.escape(given)} for '[va]', which holds integers of type {name}"
    with pytest.raises(SourceError, match=said):
        parse_cdl(f"netcdf a {{ dimensions: x = 3 ; variables: {type_} v(x) ; data: v = {place}{given},\n1 ; }}")
    with pytest.raises(SourceError, match=said):
        parse_cdl(f"netcdf a {{ variables: float v ;\n{type_} v:a = {given} ; }}")


@pytest.mark.parametrize(
    ("type_", "given", "stored"), [("byte", "-128.9", -128), ("ubyte", "255.9", 255), ("ubyte", "-0.9", 0)]
)
def test_a_real_whose_whole_part_fits_is_cut_as_in_ncgen(type_: str, given: str, stored: int) -> None:
    with parse_cdl(f"netcdf a {{ variables: {type_} v ; data: v = {given} ; }}") as dataset:
        assert dataset.variables[0].values().item() == stored


def test_gaps_get_the_default_where_the_type_lacks_the_declared_fill_value() -> None:
    text = "netcdf a { dimensions: x = 3 ; variables: short v(x) ; double v:_FillValue = NaN ; data: v = _, 1 ; }"
    with parse_cdl(text) as dataset:
        assert dataset.variables[0].values().tolist() == [-32767, 1, -32767]


@pytest.mark.parametrize(("declared", "given", "stored"), VALUES)
def test_a_value_is_stored_as_ncgen_does(declared: str, given: str, stored: Any) -> None:
    with parse_cdl(f"netcdf a {{ variables: {declared} ; data: v = {given} ; }}") as dataset:
        found = dataset.variables[0].values()
    assert found.item() == stored
    if not isinstance(stored, str):
        assert found.dtype == stored.dtype


@pytest.mark.parametrize(
    ("declared", "given", "stored"),
    [
        ("d = 3 ; variables: char v(d)", '"a", "b", "c"', [b"a", b"b", b"c"]),
        ("d = 3 ; variables: char v(d)", '"ab", "c"', [b"a", b"b", b"c"]),
        ("d = 3 ; n = 2 ; variables: char v(d, n)", '"a", "bc", "c"', [[b"a", b""], [b"b", b"c"], [b"c", b""]]),
        ("d = UNLIMITED ; variables: char v(d)", '"abc"', [b"a", b"b", b"c"]),
        ("d = 4 ; variables: char v(d)", r'"ab\000\000"', [b"a", b"b", b"", b""]),
        (
            "d = 2 ; n = 3 ; variables: char v(d, n)",
            r'"\303\251\000", "\101"',
            [[b"\xc3", b"\xa9", b""], [b"A", b"", b""]],
        ),
        ("d = 2 ; n = 2 ; variables: char v(d, n)", r"'a', '\000', 'b'", [[b"a", b""], [b"b", b""]]),
    ],
)
def test_several_texts_fill_characters_as_ncgen_does(declared: str, given: str, stored: Any) -> None:
    with parse_cdl(f"netcdf a {{ dimensions: {declared} ; data: v = {given} ; }}") as dataset:
        assert dataset.variables[0].values().tolist() == stored


@pytest.mark.parametrize(
    ("type_", "given", "stored"),
    [
        ("float", "-999.9", np.float32(-999.9)),
        ("float", "-999", np.float32(-999)),
        ("short", "1.5", np.int16(1)),
        ("double", "-999.f", np.float64(-999)),
        ("byte", "200", np.int8(-56)),
    ],
)
def test_a_fill_value_has_the_type_of_its_variable(type_: str, given: str, stored: Any) -> None:
    with parse_cdl(f"netcdf a {{ variables: {type_} v ; v:_FillValue = {given} ; }}") as dataset:
        found = dataset.variables[0].attributes["_FillValue"]
    assert (found.dtype, found.tolist()) == (stored.dtype, [stored.item()])


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        ("300b", np.int8(44)),
        ("40000s", np.int16(-25536)),
        ("1e999", np.float64(np.inf)),
        ("-2147483648, 2147483647", np.array([-(2**31), 2**31 - 1], "i4")),
        ("-2147483649", np.int64(-(2**31) - 1)),
        ("1s, 2.5f, 3", np.array([1, 2.5, 3])),
        (r'"K\000\000"', "K"),
        (r'"\260C"', b"\xb0C"),
    ],
)
def test_an_attribute_is_stored_as_ncgen_does(given: str, stored: Any) -> None:
    with parse_cdl(f"netcdf a {{ :a = {given} ; }}") as dataset:
        found: Any = dataset.root.attributes["a"]
    np.testing.assert_array_equal(found, np.atleast_1d(stored))
    assert not isinstance(found, np.ndarray) or found.dtype == stored.dtype


@pytest.mark.parametrize(
    ("declared", "given", "stored"),
    [
        ("d = 3 ; variables: char v(d)", '"a"', [b"a", b"z", b"z"]),
        ("d = 3 ; variables: char v(d)", '_, "b"', [b"z", b"b", b"z"]),
        ("d = 2 ; n = 2 ; variables: char v(d, n)", '"a"', [[b"a", b"z"], [b"z", b"z"]]),
        ("d = 3 ; variables: string v(d)", '_, "b"', ["z", "b", "z"]),
    ],
)
def test_text_that_is_not_given_is_the_fill_value(declared: str, given: str, stored: Any) -> None:
    with parse_cdl(f'netcdf a {{ dimensions: {declared} ; v:_FillValue = "z" ; data: v = {given} ; }}') as dataset:
        assert dataset.variables[0].values().tolist() == stored


@pytest.mark.parametrize("colon", [":", " :"])
@pytest.mark.parametrize("name", ["dimensions", "variables", "data", "group", "types"])
def test_the_name_of_a_section_is_a_name_as_well(name: str, colon: str) -> None:
    text = (
        f"netcdf a {{\ndimensions:\n\t{name} = 2 ;\nvariables:\n\tint {name}({name}) ;\n"
        f'\t\t{name}{colon}units = "1" ;\n\t\tstring {name}{colon}b = "c" ;\n\tint v({name}) ;\n\t\tv:{name} = 4 ;\n'
        f"data:\n\n {name} = 1, 2 ;\n\n v = 3, 4 ;\n}}\n"
    )
    with parse_cdl(text) as dataset:
        own, v = dataset.variables
        assert (own.name, own.attributes, v.dims) == (name, {"units": "1", "b": "c"}, (name,))
        assert (own.values().tolist(), v.values().tolist(), v.attributes[name]) == ([1, 2], [3, 4], 4)


def test_a_group_without_variables_has_typed_attributes() -> None:
    with parse_cdl('netcdf a { dimensions: x = 2 ; string :t = "a" ; short :n = 1 ; group: g { } }') as dataset:
        assert (dataset.root.attributes["t"], dataset.root.attributes["n"]) == ("a", 1)


def test_an_attribute_that_may_be_values_is_refused() -> None:
    text = "netcdf a { variables: int data ; int v ; data:v = 1 ; }"
    with pytest.raises(SourceError, match=r"line 1: data: may begin an attribute or a section; put a space"):
        parse_cdl(text)
    with parse_cdl(text.replace("data:v", "data: v")) as dataset:
        assert dataset.variables[1].values().tolist() == 1


def test_a_dataset_needs_no_name() -> None:
    with parse_cdl("netcdf { dimensions: x = 2 ; }") as dataset:
        assert dataset.root.dimensions["x"].size == 2


WRONG = {
    "a length that is not a number": "dimensions:\n x = NaN ;",
    "a negative length": "dimensions:\n x = -3 ;",
    "an infinite length": "dimensions:\n x = 1e999 ;",
    "a broken length": "dimensions:\n x = 2.5 ;",
    "a length beyond all types": "dimensions:\n x = 99999999999999999999 ;",
    "an integer beyond all types": "\n :a = 99999999999999999999 ;",
    "an integer of 5,000 digits": f"\n :a = {'9' * 5000} ;",
    "a second dataset": "}\n netcdf b {",
    "a brace too many": "}\n",
    "an octal number with an 8": "\n :a = 018 ;",
    "a type of its own": "\n types: int enum e { a = 1 } ;",
    "a number in characters": "variables: char v ;\n data: v = 97 ;",
    "a date among numbers": 'variables: int v ;\n data: v = "2000-01-01 06" ;',
    "an infinity among integers": "variables: int v ;\n data: v = 1e999 ;",
    "a word among texts": "\n string :a = b ;",
    "a dimension declared twice": "dimensions: x = 2 ;\n x = 2 ;",
    "a variable declared twice": "variables: int v ;\n float v ;",
    "a variable declared twice in one list": "variables: int v,\n v ;",
    "a group declared twice": "group: g { }\n group: g { }",
    "a group with the name of a variable": "variables: int v ;\n group: v { }",
    "an attribute of nothing": 'variables: int v ;\n w:units = "K" ;',
    "values of nothing": "variables: int v ; data:\n w = 1 ;",
    "more values than room": "variables: int v ; data:\n v = 1, 2 ;",
}


@pytest.mark.parametrize("what", WRONG)
def test_what_ncgen_refuses_or_mangles_is_one_error_with_its_line(what: str) -> None:
    with pytest.raises(SourceError, match=r"^CDL text, line 2: ") as error:
        parse_cdl(f"netcdf a {{ {WRONG[what]} }}")
    assert len(str(error.value)) < 250


@pytest.mark.parametrize("text", ['variables: int v ; v:a = "b" ; v:a = "c" ;', ':a = "b" ; string :a = "c" ;'])
def test_of_two_attributes_of_one_name_the_last_holds_as_for_ncgen(text: str) -> None:
    with parse_cdl(f"netcdf a {{ {text} }}") as dataset:
        owner = dataset.variables[0] if dataset.variables else dataset.root
        assert owner.attributes == {"a": "c"}


def test_a_group_may_have_a_dimension_of_the_name_of_one_above() -> None:
    with parse_cdl(
        "netcdf a { dimensions: x = 2 ; group: g { dimensions: x = 3 ; variables: int v(x) ; } }"
    ) as dataset:
        assert dataset.variables[0].shape == (3,)


@pytest.mark.parametrize(
    "text",
    [
        "group: a { " * 5000,
        'dimensions: x = 2 ; y = 9000000000000000000 ; variables: char v(x, y) ; data: v = "a" ; ',
    ],
)
def test_what_would_take_all_memory_is_refused(text: str) -> None:
    with pytest.raises(LimitError):
        parse_cdl(f"netcdf a {{ {text} }}")


def test_no_prefix_of_a_text_raises_anything_else() -> None:
    from tests.fuzzing.files import CDL

    for text in CDL:
        refused = 0
        for end in range(len(text)):
            try:
                parse_cdl(text[:end])
            except CfaggError:
                refused += 1
        # All but the last brace, and what may follow it.
        assert refused >= len(text.rstrip()) - 1


@pytest.mark.parametrize(
    ("declared", "values", "expected"),
    [
        # As ncdump writes them: braces around the values along each unlimited dimension after the first.
        ("int v(x, t)", "{1, 2, 3}, {4, _, 6}", [[1, 2, 3], [4, -1, 6]]),
        ("int v(t, u)", "{1, 2}, {3, 4}, {5, 6}", [[1, 2], [3, 4], [5, 6]]),
        ("int v(x, t, u)", "{{1}, {2}}, {{3}, {4}}", [[[1], [2]], [[3], [4]]]),
        ("int v(x, t, y)", "{1, 2, 3, 4}, {5, 6, 7, 8}", [[[1, 2], [3, 4]], [[5, 6], [7, 8]]]),
        ("int v(t, t)", "{1, 2}, {3, 4}", [[1, 2], [3, 4]]),
        ("int v(x, t) ; int w(t)", "{1, 2}, {3, 4} ; w = 1, 2, 3", [[1, 2, -1], [3, 4, -1]]),
        ("int v(x, t)", "{1, 2}", [[1, 2], [-1, -1]]),
        ("char v(x, t)", '{"ab"}, {"cd"}', [[b"a", b"b"], [b"c", b"d"]]),
    ],
)
def test_values_along_inner_unlimited_dimensions_are_in_braces(declared: str, values: str, expected: list[Any]) -> None:
    fill = "v:_FillValue = -1 ;" if declared.startswith("int") else ""
    dimensions = "x = 2 ; y = 2 ; t = UNLIMITED ; u = UNLIMITED ;"
    with parse_cdl(f"netcdf a {{ dimensions: {dimensions} variables: {declared} ; {fill} data: v = {values} ; }}") as d:
        assert d.root.variables["v"].values().tolist() == expected


def test_braces_of_a_huge_variable_are_refused_in_time() -> None:
    dimensions = "x = 2 ; y = 1000000000000 ; t = UNLIMITED ; z = 5 ;"
    with pytest.raises(SourceError, match="braces"):
        parse_cdl(f"netcdf a {{ dimensions: {dimensions} variables: int v(x, y, t, z) ; data: v = {{1}} ; }}")


@pytest.mark.parametrize("values", ["{1, 2}, {3}", "{{1, 2}, {3, 4}}", "{1}, {2}, {3}", "{1, 2}, 3, 4", "{1, 2", "1}"])
def test_braces_that_do_not_fit_the_dimensions_are_refused(values: str) -> None:
    text = f"netcdf a {{ dimensions: x = 2 ; t = UNLIMITED ; variables: int v(x, t) ; data: v = {values} ; }}"
    with pytest.raises(SourceError, match=r"braces|\}"):
        parse_cdl(text)


def test_braces_around_values_without_an_inner_unlimited_dimension_are_refused() -> None:
    with pytest.raises(SourceError, match=r"line 1.*braces"):
        parse_cdl("netcdf a { dimensions: x = 2 ; variables: int v(x) ; data: v = {1, 2} ; }")


def test_an_attribute_without_a_value_is_an_empty_text_as_older_versions_of_ncdump_print_it() -> None:
    with parse_cdl('netcdf a { variables: float q ; q:units = ; char q:note = ; q:long_name = "q" ; }') as dataset:
        assert dataset.root.variables["q"].attributes == {"units": "", "note": "", "long_name": "q"}
