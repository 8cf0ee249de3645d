"""Rules and where they are registered.

A rule is a function that takes the `Context` of one dataset and yields a `Hit` for each breach::

    @rule("DOC006")
    def dimensions_are_distinct(c: Context) -> Iterator[Hit]:
        for v in c.dataset.variables:
            if len(set(v.dimensions)) < len(v.dimensions):
                yield Hit(v, None, f"a dimension of {', '.join(v.dims)} occurs twice")

What is known of a rule beside its function (section, first version, kind, one line) stands in ``tables/rules.csv``.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any, Literal

from cfagg.checking.findings import Hit, Severity
from cfagg.checking.versions import DRAFT, Version

if TYPE_CHECKING:
    from cfagg.checking.context import Context
    from cfagg.checking.plugins import Loaded

__all__ = ["Need", "Rule", "RuleFunction", "about", "plugins", "registered", "rule"]

RuleFunction = Callable[["Context"], Iterable[Hit]]

#: What a rule looks at.  Values of variables are read only where they are asked for (``data``), and so are the files
#: that an aggregation refers to (``references``).
Need = Literal["metadata", "data", "references"]


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule and its description.

    Parameters
    ----------
    code : str
        Three letters and three digits.
    section : str
        Section of the CF conventions in its newest version, or the name of another document.
    title : str
        Title of that section.
    severity : {"error", "warning", "info"}
        error for a requirement, warning for a recommendation.
    since : Version
        The first version of CF that has it.
    summary : str
        What is checked, in one line.
    needs : {"metadata", "data", "references"}
        What it looks at.
    function : callable, optional
        `None` where there is nothing to check: a note in the text, or a rule that another one repeats.
    until : Version, optional
        The last version of CF that has it.
    back_to : Version, optional
        The first version that it is checked for, where a newer text speaks about older versions.
    explanation : mapping, optional
        Of a rule of a plug-in: what `cfagg.checking.explaining` describes.
    link : str
        Of a rule of a plug-in: address of the document that it comes from.
    """

    code: str
    section: str
    title: str
    severity: Severity
    since: Version
    summary: str
    needs: Need = "metadata"
    function: RuleFunction | None = None
    until: Version | None = None
    back_to: Version | None = None
    explanation: Mapping[str, Any] | None = None
    link: str = ""

    def holds_in(self, version: Version) -> bool:
        """Return whether the rule applies to this version of CF."""
        return (self.back_to or self.since) <= version and (self.until is None or version <= self.until)


_FUNCTIONS: dict[str, tuple[RuleFunction, Need, Version | None, Version | None]] = {}


def rule(
    code: str, *, needs: Need = "metadata", until: Version | None = None, back_to: Version | None = None
) -> Callable[[RuleFunction], RuleFunction]:
    """Register the function of a rule that stands in ``tables/rules.csv``."""

    def register(function: RuleFunction) -> RuleFunction:
        if code in _FUNCTIONS and _FUNCTIONS[code][0].__module__ != function.__module__:
            raise ValueError(f"rule {code} is registered twice")
        _FUNCTIONS[code] = (function, needs, until, back_to)
        return function

    return register


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


@lru_cache(maxsize=1)
def plugins() -> Loaded:
    """Return the rules of other packages, and what is wrong with them."""
    from cfagg.checking.plugins import from_packages

    return from_packages(about())


@lru_cache(maxsize=1)
def registered() -> Mapping[str, Rule]:
    """Return all rules by their codes, in the order of the table; those of plug-ins follow."""
    from cfagg.checking import rules

    for module in sorted(m.name for m in iter_modules(rules.__path__)):
        import_module(f"cfagg.checking.rules.{module}")
    found = {}
    for code, known in about().items():
        if code in _FUNCTIONS:
            function, needs, until, back_to = _FUNCTIONS[code]
            found[code] = replace(known, needs=needs, function=function, until=until, back_to=back_to)
        else:
            found[code] = known
    return {**found, **plugins().rules}
