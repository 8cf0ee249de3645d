"""Links to the text of rules on the web, which are not followed here."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from functools import lru_cache
from importlib import resources

from cfagg.findings.rule import Rule
from cfagg.findings.versions import Version

__all__ = ["document", "link", "older_sections", "place"]


def document() -> str:
    """Return the address of the newest known version of the CF conventions."""
    return "https://cfconventions.org/Data/cf-conventions/cf-conventions-1.13/cf-conventions.html"


def place(rule: Rule) -> str:
    """Return a short reference to the source of a rule."""
    return f"CF {rule.section}" if rule.section[:1].isdigit() or len(rule.section) == 1 else rule.section


def link(rule: Rule) -> str:
    """Return the address of the section that a rule comes from, or an empty string."""
    if rule.link:
        return rule.link
    by_title, by_section = _anchors()
    anchor = by_section.get(rule.section)
    if anchor is None:
        return ""
    # Sections whose numbers differ between the document and its list of requirements are found by title.
    return f"{document()}#{by_title.get((rule.section[0], rule.title.casefold()), anchor)}"


@lru_cache(maxsize=1)
def _anchors() -> tuple[dict[tuple[str, str], str], dict[str, str]]:
    """Return the anchors of the sections of CF-1.13 by chapter and title, and by their numbers."""
    text = resources.files("cfagg.checking").joinpath("tables", "anchors.csv").read_text(encoding="utf-8")
    rows = list(csv.DictReader(text.splitlines()))
    by_title = {(r["section"][0], r["title"].casefold()): r["anchor"] for r in rows}
    return by_title, {r["section"]: r["anchor"] for r in rows}


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
