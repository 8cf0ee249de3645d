"""Findings in datasets, and rules: everything that a package with its own rules needs."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

#: Public name -> module that defines it, which is imported on first use, because lists of losses need no rules.
_HOMES = {
    "Context": "context",
    "Edit": "finding",
    "Finding": "finding",
    "Hit": "finding",
    "NotApplicable": "finding",
    "Rule": "rule",
    "Version": "versions",
}

__all__ = ["Context", "Edit", "Finding", "Hit", "NotApplicable", "Rule", "Version"]

if TYPE_CHECKING:
    from cfagg.findings.context import Context
    from cfagg.findings.finding import Edit, Finding, Hit, NotApplicable
    from cfagg.findings.rule import Rule
    from cfagg.findings.versions import Version


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
