"""Flags: what is found and what is allowed."""

from __future__ import annotations

import numpy as np
import pytest

from cfagg.formats.cdl.parsing import parse_cdl
from tests.checking.rules.asking import codes, findings


def one(attributes: str, declared: str = "byte v(x)") -> str:
    lines = "\n".join(f"v:{a.strip()} ;" for a in attributes.split("\n") if a.strip())
    return f"netcdf a {{ dimensions: x = 2 ; variables: {declared} ; {lines} }}"


@pytest.mark.parametrize(
    ("declared", "attributes"),
    [
        ("byte v(x)", 'flag_values = 0b, 1b\nflag_meanings = "a b"'),
        ("byte v(x)", 'flag_masks = 1b, 2b, -128b\nflag_meanings = "a b c"'),
        (
            "byte v(x)",
            'flag_masks = 1b, 2b, 12b, 12b, 12b\nflag_values = 1b, 2b, 4b, 8b, 12b\nflag_meanings = "a b c d e"',
        ),
        ("ubyte v(x)", 'flag_masks = 1ub, 128ub\nflag_values = 1ub, 128ub\nflag_meanings = "a.1 b@+-_"'),
        ("uint64 v(x)", 'flag_masks = 1ull, 9223372036854775808ull\nflag_meanings = "a b"'),
        ("float v(x)", 'flag_values = 0.5f, 1.f\nflag_meanings = "half whole"'),
        ("char v(x)", 'flag_values = "ab"\nflag_meanings = "first second"'),
        ("char v(x)", 'flag_values = "a b"\nflag_meanings = "first second"'),
        ("char v(x)", 'flag_masks = "ab"\nflag_meanings = "first second"'),
        ("byte v(x)", 'flag_meanings = "a b"'),
        ("byte v(x)", 'flag_values = 1b\nflag_meanings = "  one  "'),
    ],
)
def test_flags_that_are_allowed(declared: str, attributes: str) -> None:
    assert codes(one(attributes, declared), "FLG") == []


def test_flag_values_of_strings_are_allowed() -> None:
    dataset = parse_cdl(one('flag_meanings = "first second"', "string v(x)"))
    dataset.variables[0].attributes["flag_values"] = ("ab", "cd")
    assert codes(dataset, "FLG") == []


@pytest.mark.parametrize(
    ("declared", "attributes", "expected"),
    [
        ("byte v(x)", 'flag_values = 0, 1\nflag_meanings = "a b"', ["FLG001"]),
        ("byte v(x)", 'flag_values = "0, 1"\nflag_meanings = "a b"', ["FLG001"]),
        ("char v(x)", 'flag_values = 0, 1\nflag_meanings = "a b"', ["FLG001"]),
        ("ubyte v(x)", 'flag_values = 0b, 1b\nflag_meanings = "a b"', ["FLG001"]),
        ("byte v(x)", "flag_values = 0b, 1b", ["FLG002"]),
        ("byte v(x)", 'flag_values = 0b, 1b\nflag_meanings = "a, b"', ["FLG003"]),
        ("byte v(x)", 'flag_values = 0b, 1b\nflag_meanings = "a,b"', ["FLG003"]),
        ("byte v(x)", "flag_values = 0b, 1b\nflag_meanings = 1, 2", ["FLG003"]),
        ("byte v(x)", 'flag_values = 0b, 1b\nflag_meanings = ""', ["FLG004"]),
        ("byte v(x)", 'flag_masks = 1b, 2b\nflag_meanings = "a b c"', ["FLG005"]),
        ("byte v(x)", "flag_masks = 1b, 2b", ["FLG005"]),
        ("float v(x)", 'flag_masks = 1.f, 2.f\nflag_meanings = "a b"', ["FLG006"]),
        ("short v(x)", 'flag_masks = 1b, 2b\nflag_meanings = "a b"', ["FLG006"]),
        ("byte v(x)", 'flag_masks = 0b, 2b\nflag_meanings = "a b"', ["FLG007"]),
        ("byte v(x)", 'flag_values = 2b, 2b\nflag_meanings = "a b"', ["FLG008"]),
        ("char v(x)", 'flag_values = "AAC"\nflag_meanings = "a b c"', ["FLG008"]),
        ("byte v(x)", 'flag_masks = 1b, 2b\nflag_values = 1b, 3b\nflag_meanings = "a b"', ["FLG009"]),
    ],
)
def test_flags_that_are_not(declared: str, attributes: str, expected: list[str]) -> None:
    assert codes(one(attributes, declared), "FLG") == expected


def test_equal_values_under_other_masks_are_a_warning() -> None:
    source = one('flag_masks = 3b, 3b, 12b, 12b\nflag_values = 0b, 1b, 0b, 4b\nflag_meanings = "a b c d"')
    assert [(f.code, f.severity) for f in findings(source, "FLG")] == [("FLG008", "warning")]


def test_letters_beyond_ascii_are_a_warning() -> None:
    source = one('flag_values = 0b, 1b\nflag_meanings = "gut schläfrig"')
    assert [(f.code, f.severity) for f in findings(source, "FLG")] == [("FLG003", "warning")]


def test_flag_values_of_another_type_are_cast_if_nothing_is_lost() -> None:
    (found,) = findings(one('flag_values = 0, 1\nflag_meanings = "a b"'), "FLG001")
    (edit,) = found.fix
    assert edit.safe
    assert edit.value.dtype == np.int8
    assert edit.value.tolist() == [0, 1]
    (found,) = findings(one('flag_values = 0, 1000\nflag_meanings = "a b"'), "FLG001")
    assert found.fix == ()


def test_json_tells_no_widths() -> None:
    dataset = parse_cdl(one('flag_values = 0, 1\nflag_meanings = "a b"'))
    dataset.typed = False
    assert codes(dataset, "FLG") == []


@pytest.mark.parametrize(
    "value", [np.array([]), None, True, {"a": 1}, (), b"\xff", np.array([b"x"]), np.array([np.nan, np.nan])]
)
def test_attributes_of_any_kind_make_no_rule_fail(value: object) -> None:
    for declared in ("byte v(x)", "char v(x)", "float v", "string v(x)"):
        dataset = parse_cdl(one('flag_values = 1b\nflag_masks = 1b\nflag_meanings = "a"', declared))
        for name in ("flag_values", "flag_masks", "flag_meanings"):
            dataset.variables[0].attributes[name] = value
            assert "INT001" not in codes(dataset, "FLG")


def test_of_very_many_words_the_beginning_is_looked_at() -> None:
    dataset = parse_cdl(one('flag_values = 0b, 1b\nflag_meanings = "a b"'))
    dataset.variables[0].attributes["flag_meanings"] = "a: " * 1_000_000
    (found,) = findings(dataset, "FLG003")
    assert found.severity == "error"
    assert found.fix == ()
