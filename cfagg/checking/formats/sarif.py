"""A check in SARIF 2.1.0, the exchange format of code scanners.

Source: OASIS, "Static Analysis Results Interchange Format (SARIF) Version 2.1.0".
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

from cfagg._version import __version__
from cfagg.checking.formats import Style, not_listed
from cfagg.checking.outcome import Outcome
from cfagg.checking.registry import registered
from cfagg.findings.finding import Finding
from cfagg.findings.rule import Rule

__all__ = ["render"]

_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"

_LEVELS = {"error": "error", "warning": "warning", "info": "note"}


def render(results: Iterable[Outcome], style: Style) -> Iterator[str]:
    """Yield one run: a result for each finding, notifications for everything else, and the rules used."""
    del style
    known = registered()
    used: dict[str, int] = {}
    yield json.dumps({"version": "2.1.0", "$schema": _SCHEMA}, indent=1)[:-2] + ',\n "runs": [{\n'
    yield '"columnKind": "unicodeCodePoints",\n"results": ['
    notes: list[dict[str, Any]] = []
    successful = True
    before = "\n"
    for result in results:
        notes += [_note(result, f.code, _LEVELS[f.severity], f.message) for f in result.findings if _is_of_run(f)]
        notes += [_note(result, code, "note", f"{code}: {said}") for code, said in not_listed(result)]
        successful = successful and not result.failed
        for finding in result.findings:
            if not _is_of_run(finding):
                if finding.code in known:
                    used.setdefault(finding.code, len(used))
                yield before + json.dumps(_result(result, finding, used))
                before = ",\n"
    invocation = {"executionSuccessful": successful, "toolExecutionNotifications": notes}
    yield '\n],\n"invocations": [' + json.dumps(invocation, indent=1) + "]"
    # Results come first, since they determine the rules to list.
    driver = {
        "name": "cfagg",
        "version": __version__,
        "semanticVersion": __version__,
        "rules": [_rule(known[code]) for code in used],
    }
    yield ',\n"tool": ' + json.dumps({"driver": driver}, indent=1) + "\n}]}\n"


def _is_of_run(finding: Finding) -> bool:
    """Return whether a finding is about the check, not about the dataset."""
    return finding.code.startswith("INT")


def _rule(rule: Rule) -> dict[str, Any]:
    from cfagg.checking.explaining import explanations
    from cfagg.checking.links import link

    explanation = explanations().get(rule.code, {})
    found: dict[str, Any] = {
        "id": rule.code,
        "shortDescription": {"text": rule.summary},
        "defaultConfiguration": {"level": _LEVELS[rule.severity]},
        "properties": {"section": rule.section, "since": str(rule.since)},
    }
    if "why" in explanation:
        found["fullDescription"] = {"text": " ".join(explanation["why"].split())}
    address = link(rule)
    if address:
        found["helpUri"] = address
    return found


def _result(result: Outcome, finding: Finding, used: dict[str, int]) -> dict[str, Any]:
    found: dict[str, Any] = {
        "ruleId": finding.code,
        "level": _LEVELS[finding.severity],
        "message": {"text": (f"{finding.where}: " if finding.where else "") + finding.message},
        "locations": [_location(result, finding)],
    }
    if finding.code in used:
        found["ruleIndex"] = used[finding.code]
    return found


def _location(result: Outcome, finding: Finding) -> dict[str, Any]:
    place: dict[str, Any] = {"physicalLocation": {"artifactLocation": {"uri": _uri(result.source)}}}
    logical = []
    if finding.variable is not None:
        logical.append({"fullyQualifiedName": finding.variable, "kind": "variable"})
    if finding.attribute is not None:
        logical.append({"fullyQualifiedName": finding.where, "name": finding.attribute, "kind": "property"})
    if logical:
        place["logicalLocations"] = logical
    return place


def _note(result: Outcome, code: str, level: str, text: str) -> dict[str, Any]:
    # Findings about a rule are attached to it, and those about the check are a kind of notification.
    return {
        "level": level,
        "descriptor" if code.startswith("INT") else "associatedRule": {"id": code},
        "message": {"text": text},
        "locations": [{"physicalLocation": {"artifactLocation": {"uri": _uri(result.source)}}}],
    }


def _uri(source: str) -> str:
    """Return a source as a URI: relative paths stay relative, as scanners want them."""
    if "://" in source:
        return quote(source, safe="/:?&=%@+,;~!$'()*[]", errors="replace")
    path = Path(source)
    try:
        name = quote(os.fsencode(path.as_posix()))  # names of files are bytes, and need not be UTF-8
    except UnicodeEncodeError:
        name = quote(path.as_posix(), errors="replace")
    return f"file://{name}" if path.is_absolute() else name
