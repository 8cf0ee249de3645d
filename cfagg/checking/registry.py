"""All rules: those in the tables, of jobs, and of other packages."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache, partial
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

from cfagg.checking import rules
from cfagg.checking.plugins import PluginRules, collected, from_packages
from cfagg.findings.finding import Severity
from cfagg.findings.rule import FUNCTIONS, Rule
from cfagg.findings.versions import DRAFT, Version

__all__ = ["about", "jobs", "plugins", "registered"]

#: The rules of jobs, loaded by name like those of other packages, since reading entry points takes as long as a check.
_JOBS = ("accumulation", "observations")


@lru_cache(maxsize=1)
def plugins() -> PluginRules:
    """Return the rules of other packages, and the errors in them."""
    return from_packages({*about(), *jobs().rules})


@lru_cache(maxsize=1)
def jobs() -> PluginRules:
    """Return the rules of jobs."""
    return collected([(job, partial(import_module, f"cfagg.{job}.rules")) for job in _JOBS], about())


@lru_cache(maxsize=1)
def registered() -> Mapping[str, Rule]:
    """Return all rules by their codes, in the order of the table; those of plug-ins follow."""
    for module in sorted(m.name for m in iter_modules(rules.__path__)):
        import_module(f"cfagg.checking.rules.{module}")
    found = {}
    for code, known in about().items():
        if code in FUNCTIONS:
            function, needs, until, back_to = FUNCTIONS[code]
            found[code] = replace(known, needs=needs, function=function, until=until, back_to=back_to)
        else:
            found[code] = known
    return {**found, **jobs().rules, **plugins().rules}


@lru_cache(maxsize=1)
def about() -> Mapping[str, Rule]:
    """Return the rules of documents from ``tables/rules.csv``, without functions; nothing else is imported."""
    found = {}
    # The table is opened as a plain file, since importing importlib.resources takes longer than reading the table.
    text = Path(__file__).with_name("tables").joinpath("rules.csv").read_text(encoding="utf-8")
    for row in csv.DictReader(text.splitlines()):
        major, _, minor = row["since"].partition(".")
        since = Version(int(major), int(minor)) if row["since"] != "draft" else DRAFT
        severity: Severity = {"REQ": "error", "REC": "warning"}.get(row["kind"], "info")  # type: ignore[assignment]
        found[row["code"]] = Rule(row["code"], row["section"], row["title"], severity, since, row["summary"])
    return found
