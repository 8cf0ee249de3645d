"""Findings in datasets, and rules: everything that a package with its own rules needs."""

from __future__ import annotations

from cfagg.findings.context import Context
from cfagg.findings.finding import Edit, Finding, Hit, NotApplicable
from cfagg.findings.rule import Rule
from cfagg.findings.versions import Version

__all__ = ["Context", "Edit", "Finding", "Hit", "NotApplicable", "Rule", "Version"]
