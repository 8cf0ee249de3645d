"""The first version of CF with each rule, as read from the conformance documents of CF-1.0 to CF-1.13."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from cfagg.checking.engine import run
from cfagg.checking.explaining import explanations
from cfagg.checking.options import Options
from cfagg.checking.registry import about, registered
from cfagg.findings.versions import DRAFT, PUBLISHED, Version
from cfagg.formats.cdl.parsing import parse_cdl
from tests.checking.rules.asking import codes, findings
from tests.checking.test_examples import named

#: Every rule of the conformance document whose requirement or recommendation is not yet in that of CF-1.0.  A name
#: without digits stands for its whole family.
LATER = {
    "1.1": "COO012",
    "1.2": "GMP006",
    "1.3": "FLG004 FLG005 FLG006 FLG007 FLG008 FLG009",
    "1.4": "FLG002 FLG003 CEL006 CEL007",
    "1.7": """DAT004 DAT005 DAT006 DAT007 DOC010 DOC014 DOC015 NAM005 NAM006 VRT002 VRT005 VRT006 VRT007 COO013 GMP002
        GMP004 GMP007 GMP008 GMP009 BND008""",
    "1.8": "GRP GEO",
    "1.9": "VRT008 VRT009 VRT010 VRT011 TIM013 TIM015 DOM SUB",
    "1.11": "UNI003 UNI004 UNI006 UNI007 UNI008 UNI010 TIM007 GMP015 BND006 GAT004",
    "1.12": "DOC002 DOC003 DOC009 BND004 BND005 QNT",
    "1.13": "AGG ANO TIM002 TIM003 TIM005 TIM006 TIM008 TIM011 TIM017 GMP010 GMP011 GMP012 GMP013 GMP016",
}

#: Families of other documents, and of chapters that the conformance document does not cover.
_OTHERS = ("ACC", "ANC", "APF", "ATT", "CFA", "CRD", "DSG", "INT", "LPS", "NCA", "OBS", "REF", "TAX", "TYP")
_OF_CHAPTERS = {"GMP017", "GMP018", "GMP019", "GMP020", "GMP021", "VRT012", "VRT013", "TIM024", "UNI011"}

#: Rules that find less, the later the version: types that CF took up, and a defect that CF-1.9 mended.
_SHRINKING = {"TYP001", "VRT011"}


def _version(text: str) -> Version:
    major, _, minor = text.partition(".")
    return Version(int(major), int(minor))


def _first(code: str) -> Version:
    for text, listed in LATER.items():
        if {code, code[:3]} & set(listed.split()):
            return _version(text)
    return Version(1, 0)


@pytest.mark.few(30)
@pytest.mark.parametrize(
    "code", [c for c in about() if c[:3] not in _OTHERS and c not in _OF_CHAPTERS], ids=lambda code: code
)
def test_the_table_has_the_first_version_of_the_documents(code: str) -> None:
    assert about()[code].since == _first(code)


def found(code: str, version: Version) -> bool:
    told = explanations()[code]
    for text in [told["fails"], *told.get("more_fails", [])]:
        with parse_cdl(text) if "{" in text else named(text.strip()) as dataset:
            references = bool(told.get("references", False))
            if references:
                dataset.path = "no_such_folder/example.nc"
            asked = str(version).removeprefix("CF-")
            options = Options(cf_version=asked, data=True, references=references)
            if code in {f.code for f in run(dataset, options).findings}:
                return True
    return False


def with_examples() -> Iterator[Any]:
    for code, rule in registered().items():
        if rule.function is not None and "fails" in explanations().get(code, {}) and code not in _SHRINKING:
            yield pytest.param(code, id=code)


@pytest.mark.few(30)
@pytest.mark.parametrize("code", list(with_examples()))
def test_a_rule_is_broken_from_its_first_version_on_and_not_before(code: str) -> None:
    rule = registered()[code]
    versions = [*PUBLISHED, DRAFT]
    holding = [v for v in versions if rule.since <= v and (rule.until is None or v <= rule.until)]
    before = [v for v in versions if v < rule.since][-1:]
    ends = [holding[0], holding[-1]]
    assert [v for v in [*before, *ends] if found(code, v)] == ends


def bounds(attributes: str) -> str:
    return f"""netcdf b {{ dimensions: x = 2 ; nv = 2 ;
variables: float x(x) ; x:long_name = "length" ; x:units = "m" ; x:bounds = "b" ; float b(x, nv) ; {attributes}
:Conventions = "CF-1.13" ; data: x = 1, 2 ; b = 0, 1.5, 1.5, 3 ; }}"""


@pytest.mark.parametrize(
    ("attributes", "version", "expected"),
    [
        ("b:_FillValue = -9.f ;", "1.0", ["BND010"]),
        ("b:missing_value = -9.f ;", "1.10", ["BND010"]),
        ("b:missing_value = -9.f ;", "1.11", []),
        ('b:units = "m" ;', "1.6", []),
        ('b:units = "m" ;', "1.7", ["BND010"]),
        ('b:units = "km" ;', "1.0", ["BND007"]),
        ('b:axis = "X" ;', "1.6", []),
        ('b:axis = "X" ;', "1.7", ["BND010"]),
        ('b:axis = "X" ;', "1.11", ["BND006"]),
        ('b:long_name = "length" ;', "1.10", []),
    ],
)
def test_what_bounds_should_not_have_grew_with_the_versions(attributes: str, version: str, expected: list[str]) -> None:
    assert codes(bounds(attributes), "BND", cf_version=version) == expected


def test_other_attributes_of_bounds_had_to_agree_from_cf_1_7_on() -> None:
    text = bounds('b:positive = "up" ;').replace("x:bounds", 'x:positive = "down" ; x:bounds')
    assert {v: codes(text, "BND007", cf_version=v) for v in ("1.6", "1.7")} == {"1.6": [], "1.7": ["BND007"]}


def times(units: str, calendar: str = "standard", values: str = "0, 1") -> str:
    return f"""netcdf t {{ dimensions: t = 2 ;
variables: double t(t) ; t:standard_name = "time" ; t:units = "{units}" ; t:calendar = "{calendar}" ;
:Conventions = "CF-1.13" ; data: t = {values} ; }}"""


@pytest.mark.parametrize(
    ("units", "calendar", "version", "expected"),
    [
        ("days since 2001-02-30", "standard", "1.0", ["error"]),
        ("days since 2001-02-30", "standard", "1.8", ["error"]),
        ("seconds since 2016-12-31 23:59:60", "standard", "1.8", []),
        ("seconds since 2016-12-31 23:59:60", "standard", "1.9", ["error"]),
        ("days since 1582-10-10", "standard", "1.11", ["warning"]),
        ("days since 1582-10-10", "standard", "1.12", ["error"]),
        ("days since -4-01-01", "julian", "1.8", []),
        ("days since -4-01-01", "julian", "1.9", ["error"]),
    ],
)
def test_what_makes_a_reference_invalid_grew_with_the_versions(
    units: str, calendar: str, version: str, expected: list[str]
) -> None:
    assert [f.severity for f in findings(times(units, calendar), "TIM012", cf_version=version)] == expected


@pytest.mark.parametrize(
    ("units", "calendar", "values", "version", "expected"),
    [
        ("days since 0-1-1", "standard", "0, 1", "1.0", ["TIM014"]),
        ("days since 0-1-1", "julian", "0, 1", "1.8", []),
        ("days since 0-1-1", "julian", "0, 1", "1.9", ["TIM014"]),
        ("days since 1-1-1", "standard", "-2, -1", "1.8", []),
        ("days since 1-1-1", "standard", "-2, -1", "1.9", ["TIM014"]),
    ],
)
def test_of_year_zero_only_the_reference_was_meant_at_first(
    units: str, calendar: str, values: str, version: str, expected: list[str]
) -> None:
    assert codes(times(units, calendar, values), "TIM014", cf_version=version) == expected


@pytest.mark.parametrize(
    ("units", "values", "version", "expected"),
    [
        ("days since 1582-10-01", "0, 30", "1.0", ["TIM016"]),
        ("days since 1582-10-01", "0, 30", "1.12", ["TIM016"]),
        ("days since 1500-01-01", "100000, 100001", "1.12", []),
        ("days since 1500-01-01", "100000, 100001", "1.13", ["TIM016"]),
    ],
)
def test_before_cf_1_13_only_times_on_both_sides_of_1582_are_discouraged(
    units: str, values: str, version: str, expected: list[str]
) -> None:
    assert codes(times(units, values=values), "TIM016", cf_version=version) == expected


def test_the_characters_of_flag_meanings_were_fixed_by_cf_1_5() -> None:
    text = """netcdf f { dimensions: x = 1 ;
variables: byte q(x) ; q:long_name = "quality" ; q:flag_values = 1b ; q:flag_meanings = "good/bad" ;
:Conventions = "CF-1.13" ; data: q = 1 ; }"""
    found = {v: [f.severity for f in findings(text, "FLG003", cf_version=v)] for v in ("1.3", "1.4", "1.5")}
    assert found == {"1.3": [], "1.4": ["warning"], "1.5": ["error"]}
