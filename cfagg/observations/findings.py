"""Findings of a check of a store."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cfagg.display.escape import printable
from cfagg.findings.finding import Finding, Severity

__all__ = ["CODES", "CheckReport", "Finding", "finding_of"]


@dataclass(frozen=True, slots=True)
class CheckReport:
    """The findings of one store.

    Parameters
    ----------
    path : str
        The store.
    rows : int
        Number of its rows; 0 if it cannot be opened.
    checked : int
        Number of rows that were checked.
    full : bool
        Whether all rows were checked, and all entries of its indexes.
    indexes : tuple of str
        The kinds of its indexes, all of them checked.
    findings : tuple of Finding
        In the order of their codes.
    """

    path: str
    rows: int
    checked: int
    full: bool
    indexes: tuple[str, ...]
    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        """Whether there is no error; warnings do not count."""
        return not any(f.severity == "error" for f in self.findings)

    def as_dict(self) -> dict[str, Any]:
        """Return the report in JSON types."""
        names = ("code", "where", "message", "rows", "count", "severity")
        findings = [{name: getattr(f, name) for name in names} | {"rows": list(f.rows)} for f in self.findings]
        return {
            "store": self.path,
            "rows": self.rows,
            "checked": self.checked,
            "full": self.full,
            "indexes": list(self.indexes),
            "ok": self.ok,
            "findings": findings,
        }

    def __repr__(self) -> str:
        return f"<CheckReport of {str(self).partition(chr(10))[0]}>"

    def _repr_html_(self) -> str:
        from cfagg.display.facts import facts_html

        facts = (
            ("store", self.path),
            ("rows", f"{self.checked:,} of {self.rows:,} checked"),
            ("verdict", "no errors" if self.ok else "errors found"),
        )
        return facts_html("Check of observations", facts, [("findings", self.findings)])

    def __str__(self) -> str:
        if any(f.code == "OBS001" for f in self.findings):
            return "\n".join(map(printable, [f"{self.path}: not checked", *map(str, self.findings)]))
        share = f"all {self.rows:,} rows" if self.checked >= self.rows else f"{self.checked:,} of {self.rows:,} rows"
        errors = sum(f.severity == "error" for f in self.findings)
        warnings = len(self.findings) - errors
        counts = [f"{n} {word}{'s' if n > 1 else ''}" for n, word in ((errors, "error"), (warnings, "warning")) if n]
        said = f"{self.path}: {', '.join(counts) or 'nothing wrong'} in {share}"
        return "\n".join(map(printable, [said, *map(str, self.findings)]))


#: Rules by their codes: the severity of a violation, and the requirement.
CODES: dict[str, tuple[Severity, str]] = {
    "OBS001": ("error", "the store can be opened"),
    "OBS002": ("error", "no chunk is absent or damaged"),
    "OBS011": ("error", "rows are in the order of all their columns"),
    "OBS012": ("error", "no row occurs twice"),
    "OBS013": ("error", "dates are whole days since 1970"),
    "OBS014": ("error", "times are whole seconds of a day"),
    "OBS015": ("error", "latitudes are from -90 to 90"),
    "OBS016": ("error", "longitudes are at least 0 and below 360"),
    "OBS021": ("error", "indexes can be read and are consistent"),
    "OBS022": ("error", "indexes agree with the rows"),
    "OBS023": ("warning", "the index beside the store belongs to the present rows"),
    "OBS031": ("error", "statistics agree with the rows"),
    "OBS032": ("warning", "statistics are present"),
    "OBS041": ("warning", "attributes agree with the data"),
}


def finding_of(code: str, where: str, message: str, rows: tuple[int, ...] = (), count: int = 0) -> Finding:
    """Return a finding about an array or attribute of a store, such as ``data`` or ``statistics.mean``."""
    return Finding(code, CODES[code][0], where, None, message, rows=rows, count=count)
