"""What a check finds in a text in CDL."""

from __future__ import annotations

from typing import Any

from cfagg.checking.engine import run
from cfagg.checking.options import Options
from cfagg.findings.finding import Finding
from cfagg.formats.cdl.parsing import parse_cdl
from cfagg.model.dataset import Dataset

__all__ = ["codes", "findings", "told"]


def findings(source: str | Dataset, code: str = "", *, data: bool = True, **options: Any) -> list[Finding]:
    """Return the findings of rules whose code begins with `code`, and failures of rules."""
    dataset = parse_cdl(source) if isinstance(source, str) else source
    return run(dataset, Options(data=data, select=(code,) if code else (), **options)).findings


def codes(source: str | Dataset, code: str = "", **options: Any) -> list[str]:
    """Return the codes of the findings in order."""
    return [f.code for f in findings(source, code, **options)]


def told(source: str | Dataset, code: str, **options: Any) -> list[str]:
    """Return severity, place and message of the findings of one rule."""
    return [f"{f.severity} {f.where} {f.message}" for f in findings(source, code, **options)]
