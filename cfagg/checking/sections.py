"""Where rules stood in older versions of the CF conventions."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from functools import lru_cache
from importlib import resources

from cfagg.findings.rule import Rule
from cfagg.findings.versions import Version

__all__ = ["older_sections", "section_in"]


@lru_cache(maxsize=1)
def older_sections() -> Mapping[str, tuple[tuple[Version, str, str], ...]]:
    """Return, by code, the last version with each older number and title of a section, oldest first."""
    text = resources.files("cfagg.checking").joinpath("tables", "sections.csv").read_text(encoding="utf-8")
    found: dict[str, tuple[tuple[Version, str, str], ...]] = {}
    for row in csv.DictReader(text.splitlines()):
        major, _, minor = row["until"].partition(".")
        until = Version(int(major), int(minor))
        found[row["code"]] = (*found.get(row["code"], ()), (until, row["section"], row["title"]))
    return found


def section_in(rule: Rule, version: Version) -> tuple[str, str]:
    """Return number and title of the section of a rule in a version of CF.

    >>> from cfagg.checking.registry import about
    >>> section_in(about()["TIM010"], Version(1, 8)), section_in(about()["TIM010"], Version(1, 13))
    (('4.4.1', 'Calendar'), ('4.4.3', 'Calendar'))
    """
    for until, section, title in older_sections().get(rule.code, ()):
        if version <= until:
            return section, title
    return rule.section, rule.title
