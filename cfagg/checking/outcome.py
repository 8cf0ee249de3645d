"""The results of the check of one source, as plain data for reports in every format."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from cfagg.display.sizes import count_text
from cfagg.findings.finding import Finding, Severity

__all__ = ["ORDER", "Outcome", "most_severe_first"]

#: Severities, most severe first.
ORDER: tuple[Severity, ...] = ("error", "warning", "info")

_RANK = {severity: rank for rank, severity in enumerate(ORDER)}


def most_severe_first(findings: Iterable[Finding]) -> list[Finding]:
    """Return findings grouped by variable; the most severe come first, for variables and within each.

    Variables otherwise keep the order of their first findings.
    """
    groups: dict[str | None, list[Finding]] = {}
    for finding in findings:
        groups.setdefault(finding.variable, []).append(finding)
    for group in groups.values():
        group.sort(key=lambda f: (_RANK.get(f.severity, 0), f.code, f.attribute or ""))
    ordered = sorted(groups.values(), key=lambda g: _RANK.get(g[0].severity, 0))
    return [finding for group in ordered for finding in group]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of checking one source; `cf_version` is `None` if `failure` prevented it from being opened.

    Findings are grouped by variable, most severe first. `dropped` counts by code the findings beyond the limit for one
    rule, `suppressed` those that each suppression of the configuration hid, by its index. `reached` are the
    suppressions that apply to this source and to a rule that `ran`, `skipped` the other rules with the reason.
    `pictures` are the partition matrices of aggregations as SVG, by path, `tables` the versions that were used.
    """

    source: str
    cf_version: str | None
    findings: tuple[Finding, ...] = ()
    skipped: Mapping[str, str] = field(default_factory=dict)
    ran: tuple[str, ...] = ()
    dropped: Mapping[str, int] = field(default_factory=dict)
    suppressed: Mapping[int, int] = field(default_factory=dict)
    reached: tuple[int, ...] = ()
    pictures: tuple[tuple[str, str], ...] = ()
    tables: Mapping[str, str] = field(default_factory=dict)
    failure: str | None = None

    def __repr__(self) -> str:
        if self.failure is not None:
            return f"<{type(self).__name__} {self.source!r}: {self.failure}>"
        total = Counter(f.severity for f in self.findings)
        found = ", ".join(count_text(total[s], s) for s in ORDER[:2])
        return f"<{type(self).__name__} {self.source!r} as CF-{self.cf_version}: {found}>"

    @property
    def ok(self) -> bool:
        """Whether the source was checked without an error."""
        return self.failure is None and not any(f.severity == "error" for f in self.findings)

    @property
    def failed(self) -> bool:
        """Whether the check itself failed, at least in part: there are errors with codes in INT."""
        return self.failure is not None or any(f.is_failure for f in self.findings)

    @property
    def counts(self) -> Mapping[Severity, int]:
        """The number of findings of each severity, without those left out."""
        found = Counter(f.severity for f in self.findings)
        return {severity: found[severity] for severity in ORDER}

    def as_dict(self) -> dict[str, Any]:
        """Return it as plain objects in the form of ``cfagg check --format json``."""
        found: dict[str, Any] = {
            "source": self.source,
            "cf_version": self.cf_version,
            "findings": [dict(f.as_dict()) for f in self.findings],
        }
        return {**found, "dropped": dict(self.dropped)} if self.dropped else found
