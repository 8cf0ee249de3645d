"""`cfagg.check`: open what is to be checked, run the rules, report."""

from __future__ import annotations

from typing import Any

from cfagg.checking.engine import Result, run
from cfagg.checking.options import Options
from cfagg.checking.sources.cdl import parse_cdl

__all__ = ["check_cdl"]


def check_cdl(text: str, **options: Any) -> Result:
    """Check a text in CDL."""
    with parse_cdl(text) as dataset:
        return run(dataset, Options(**options))
