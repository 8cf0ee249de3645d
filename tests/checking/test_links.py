"""Sections of rules in older versions of CF."""

from __future__ import annotations

from cfagg.checking.links import older_sections, section_in
from cfagg.checking.registry import about
from cfagg.findings.versions import PUBLISHED, Version


def test_every_older_section_belongs_to_a_rule_that_held_then() -> None:
    for code, found in older_sections().items():
        assert code in about()
        assert [until for until, _, _ in found] == sorted({until for until, _, _ in found})


def test_geometries_were_in_another_section_before_anomalies_came() -> None:
    rule = about()["GEO001"]
    assert {v: section_in(rule, v)[0] for v in PUBLISHED[-3:]} == {
        Version(1, 11): "7.5",
        Version(1, 12): "7.5",
        Version(1, 13): "7.6",
    }
