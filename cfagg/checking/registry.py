"""All rules: those of the tables, and those that other packages bring."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

from cfagg.checking import rules
from cfagg.checking.plugins import Loaded, from_packages
from cfagg.findings.finding import Severity
from cfagg.findings.rule import FUNCTIONS, Rule
from cfagg.findings.versions import DRAFT, Version

__all__ = ["about", "plugins", "registered"]

#: The rules of jobs, which are loaded like those of other packages: by name.
_JOBS = ("cfagg.accumulation.rules", "cfagg.observations.rules")


@lru_cache(maxsize=1)
def plugins() -> Loaded:
    """Return the rules of other packages, and what is wrong with them."""
    return from_packages(about())


@lru_cache(maxsize=1)
def registered() -> Mapping[str, Rule]:
    """Return all rules by their codes, in the order of the table; those of plug-ins follow."""
    for module in sorted(m.name for m in iter_modules(rules.__path__)):
        import_module(f"cfagg.checking.rules.{module}")
    for name in _JOBS:
        import_module(name)
    found = {}
    for code, known in about().items():
        if code in FUNCTIONS:
            function, needs, until, back_to = FUNCTIONS[code]
            found[code] = replace(known, needs=needs, function=function, until=until, back_to=back_to)
        else:
            found[code] = known
    return {**found, **plugins().rules}


def _rows(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))


@lru_cache(maxsize=1)
def about() -> Mapping[str, Rule]:
    """Return what ``tables/rules*.csv`` tell of every rule, without functions; nothing else is imported."""
    found = {}
    # Plain files beside this module: importlib.resources would take longer to import than all tables to read.
    folder = Path(__file__).with_name("tables")
    # rules.csv holds the rules of the CF conventions; each further table those of another document.
    for row in (r for path in sorted(folder.glob("rules*.csv")) for r in _rows(path)):
        major, _, minor = row["since"].partition(".")
        since = Version(int(major), int(minor)) if row["since"] != "draft" else DRAFT
        severity: Severity = {"REQ": "error", "REC": "warning"}.get(row["kind"], "info")  # type: ignore[assignment]
        found[row["code"]] = Rule(row["code"], row["section"], row["title"], severity, since, row["summary"])
    return found
