"""Sections of rules in older versions of CF."""

from __future__ import annotations

from cfagg.checking.links import older_sections
from cfagg.checking.registry import about
from cfagg.findings.versions import Version


def test_every_older_section_belongs_to_a_rule_that_held_then() -> None:
    for code, found in older_sections().items():
        assert code in about()
        assert [until for until, _, _ in found] == sorted({until for until, _, _ in found})


def test_no_title_of_a_section_repeats_its_number() -> None:
    found = [rule.code for rule in about().values() if rule.title.startswith(f"{rule.section} ")]
    assert found == []


def test_geometries_were_in_another_section_before_anomalies_came() -> None:
    assert [(until, section) for until, section, _ in older_sections()["GEO001"]] == [(Version(1, 12), "7.5")]
    assert about()["GEO001"].section == "7.6"
