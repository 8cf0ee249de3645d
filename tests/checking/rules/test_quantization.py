"""Quantization: section 8.4."""

from __future__ import annotations

import pytest

from tests.checking.rules.asking import codes, findings

BASE = """
netcdf n {{ dimensions: x = 2 ;
variables: char q ; q:algorithm = "{algorithm}" ; q:implementation = "{implementation}" ;
  {type_} v(x) ; v:quantization = "q" ; {attributes}
:Conventions = "CF-{version}" ; }}
"""


def text(
    attributes: str = "v:quantization_nsb = 9 ;",
    *,
    algorithm: str = "bitround",
    implementation: str = "NCO version 5.2.7",
    type_: str = "float",
    version: str = "1.13",
) -> str:
    return BASE.format_map(locals())


def test_bits_are_told_for_rounding_of_bits() -> None:
    assert codes(text(), "QNT") == []
    assert codes(text("v:quantization_nsd = 3 ;"), "QNT") == ["QNT005"]


def test_an_algorithm_is_written_as_listed() -> None:
    (found,) = findings(text(algorithm="BitRound"), "QNT")
    assert (found.code, found.severity, found.fix[0].value) == ("QNT002", "error", "bitround")


@pytest.mark.parametrize("algorithm", ["bitgroom", "digitround", "granular_bitround"])
def test_digits_are_told_for_the_others(algorithm: str) -> None:
    assert codes(text("v:quantization_nsd = 3 ;", algorithm=algorithm), "QNT") == []
    assert codes(text(algorithm=algorithm), "QNT") == ["QNT005"]


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ("v:quantization_nsb = 9 ; v:_QuantizeBitRoundNumberOfSignificantBits = 9 ;", []),
        ("v:quantization_nsb = 9 ; v:_QuantizeBitRoundNumberOfSignificantBits = 7 ;", ["quantization_nsb"]),
        ("v:quantization_nsb = 9 ; v:_QuantizeBitGroomNumberOfSignificantDigits = 9 ;", ["quantization"]),
    ],
)
def test_what_the_library_tells_is_the_same(attributes: str, expected: list[str]) -> None:
    found = findings(text(attributes), "QNT")
    assert [f.attribute for f in found] == expected
    assert all((f.code, f.severity) == ("QNT005", "warning") for f in found)


def test_an_unknown_algorithm_is_one_finding() -> None:
    assert codes(text(algorithm="shave"), "QNT") == ["QNT002"]
    assert codes(text("", algorithm="shave"), "QNT") == ["QNT002", "QNT005"]


@pytest.mark.parametrize(
    ("type_", "attribute", "value", "expected"),
    [
        ("float", "nsb", "1", []),
        ("float", "nsb", "23", []),
        ("float", "nsb", "0", ["QNT006"]),
        ("float", "nsb", "24", ["QNT006"]),
        ("double", "nsb", "52b", []),
        ("double", "nsb", "53", ["QNT006"]),
        ("float", "nsb", "9.", ["QNT005"]),
        ("float", "nsb", "9, 9", ["QNT005"]),
        ("float", "nsb", '"9"', ["QNT005"]),
        ("float", "nsd", "7", []),
        ("float", "nsd", "8", ["QNT007"]),
        ("double", "nsd", "15", []),
        ("double", "nsd", "16", ["QNT007"]),
    ],
)
def test_how_much_is_kept(type_: str, attribute: str, value: str, expected: list[str]) -> None:
    algorithm = "bitround" if attribute == "nsb" else "bitgroom"
    assert codes(text(f"v:quantization_{attribute} = {value} ;", type_=type_, algorithm=algorithm), "QNT") == expected


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ('v:quantization = "q"', 'v:quantization = "p"', ["QNT004", "QNT001"]),
        ('v:quantization = "q"', 'v:quantization = "q q"', ["QNT004"]),
        ('v:quantization = "q"', "v:quantization = 1", ["QNT003"]),
        ("float v", "short v", ["QNT003"]),
        ('q:algorithm = "bitround" ;', "", ["QNT001"]),
        ("q:implementation", "q:software", ["QNT001"]),
        ('"NCO version 5.2.7"', "5", ["QNT001"]),
    ],
)
def test_single_defects(old: str, new: str, expected: list[str]) -> None:
    assert old in text()
    assert set(codes(text().replace(old, new), "QNT")) <= set(expected)
    assert expected[0] in codes(text().replace(old, new), "QNT")


@pytest.mark.parametrize(
    ("implementation", "expected"),
    [
        ("libnetcdf version 4.9.2", []),
        ("my own tool version 1 (patched, 2026)", []),
        ("libnetcdf 4.9.2", ["QNT009"]),
        ("version 4.9.2", ["QNT009"]),
        ("libnetcdf version", ["QNT009"]),
        ("libnetcdf version 4.9.2 patched", ["QNT009"]),
        ("", ["QNT009"]),
    ],
)
def test_implementation(implementation: str, expected: list[str]) -> None:
    assert codes(text(implementation=implementation), "QNT") == expected


def test_what_the_library_has_quantized_needs_the_attributes_of_cf() -> None:
    assert codes("netcdf n { variables: float v ; v:_QuantizeBitGroomNumberOfSignificantDigits = 3 ; }", "QNT") == [
        "QNT003"
    ]


@pytest.mark.parametrize("attribute", ['coordinates = "v"', 'cell_measures = "area: v"', 'formula_terms = "a: v"'])
def test_what_others_need_exactly_is_not_quantized(attribute: str) -> None:
    assert codes(text().replace(":Conv", f"float w(x) ; w:{attribute} ; :Conv"), "QNT") == ["QNT008"]


def test_there_was_no_quantization_before_cf_1_12() -> None:
    assert codes(text("", algorithm="", version="1.11"), "QNT") == []
