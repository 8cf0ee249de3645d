"""What packages of rules for `cfagg check` are written with; see ``docs/checking.md``."""

from __future__ import annotations

from cfagg.checking.context import Context
from cfagg.checking.findings import Finding, Hit, NotApplicable
from cfagg.checking.rule import Rule
from cfagg.checking.versions import Version

__all__ = ["Context", "Finding", "Hit", "NotApplicable", "Rule", "Version"]
