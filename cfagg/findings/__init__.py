"""Findings in datasets, and rules: everything that a package with its own rules needs."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cfagg.findings.context import Context as Context
    from cfagg.findings.finding import Edit as Edit
    from cfagg.findings.finding import Finding as Finding
    from cfagg.findings.finding import Hit as Hit
    from cfagg.findings.finding import NotApplicable as NotApplicable
    from cfagg.findings.rule import Rule as Rule
    from cfagg.findings.versions import Version as Version

#: Name -> the module that defines it, which is loaded on first use: what only lists losses needs no rules.
_HOMES = {
    "Context": "context",
    "Edit": "finding",
    "Finding": "finding",
    "Hit": "finding",
    "NotApplicable": "finding",
    "Rule": "rule",
    "Version": "versions",
}

__all__ = sorted(_HOMES)  # noqa: PLE0605


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
