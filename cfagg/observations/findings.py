"""What a check of a store finds."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

__all__ = ["CODES", "CheckReport", "Finding"]

#: Rules by their codes: how grave a breach is, and what it is.
CODES: dict[str, tuple[Literal["error", "warning"], str]] = {
    "OBS001": ("error", "the store cannot be opened"),
    "OBS002": ("error", "a chunk is absent or damaged"),
    "OBS011": ("error", "rows are not in the order of all their columns"),
    "OBS012": ("error", "duplicate rows"),
    "OBS013": ("error", "dates are not whole days since 1970"),
    "OBS014": ("error", "times are not whole seconds of a day"),
    "OBS015": ("error", "latitudes outside -90 to 90"),
    "OBS016": ("error", "longitudes below 0, or 360 and above"),
    "OBS021": ("error", "an index cannot be read, or is inconsistent"),
    "OBS022": ("error", "an index does not match the rows"),
    "OBS023": ("warning", "the index pages are out of date, and are not used"),
    "OBS031": ("error", "statistics do not match the rows"),
    "OBS032": ("warning", "statistics are absent"),
    "OBS041": ("warning", "attributes contradict the data"),
}


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong.

    Parameters
    ----------
    code : str
        The rule, a key of `CODES`.
    where : str
        The array or attribute of the store, such as ``data`` or ``statistics.mean``.
    message : str
        What was found, and what was expected.
    rows : tuple of int
        The first rows that it is about.
    count : int
        How many there are, 0 where it is not about rows.

    Examples
    --------
    >>> print(Finding("OBS016", "data", "longitude 360.0", (7, 9), 2))
    OBS016 error: data: longitude 360.0 (2 rows: 7, 9)
    """

    code: str
    where: str
    message: str
    rows: tuple[int, ...] = ()
    count: int = 0

    @property
    def severity(self) -> Literal["error", "warning"]:
        """How severe it is."""
        return CODES[self.code][0]

    def __str__(self) -> str:
        text = f"{self.code} {self.severity}: {self.where}: {self.message}"
        if not self.count:
            return text
        named = ", ".join(f"{r:,}" for r in self.rows) + (", …" if self.count > len(self.rows) else "")
        return f"{text} ({self.count:,} row{'s' if self.count > 1 else ''}: {named})"

    def _repr_html_(self) -> str:
        from cfagg.display.facts import facts_html

        rows = ", ".join(f"{r:,}" for r in self.rows)
        facts = (("severity", self.severity), ("where", self.where), ("found", self.message), ("rows", rows))
        return facts_html(f"Finding {self.code}", facts)


@dataclass(frozen=True, slots=True)
class CheckReport:
    """The findings of one store.

    Parameters
    ----------
    path : str
        The store.
    rows : int
        Its rows; 0 where it cannot be opened.
    checked : int
        How many of them were looked at.
    full : bool
        Whether all of them were, and all entries of its indexes.
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
        """Return all of it as plain objects, for JSON."""
        findings = [{**asdict(f), "rows": list(f.rows), "severity": f.severity} for f in self.findings]
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
            return "\n".join([f"{self.path}: not checked", *map(str, self.findings)])
        share = f"all {self.rows:,} rows" if self.checked >= self.rows else f"{self.checked:,} of {self.rows:,} rows"
        errors = sum(f.severity == "error" for f in self.findings)
        warnings = len(self.findings) - errors
        counts = [f"{n} {word}{'s' if n > 1 else ''}" for n, word in ((errors, "error"), (warnings, "warning")) if n]
        return "\n".join([f"{self.path}: {', '.join(counts) or 'nothing wrong'} in {share}", *map(str, self.findings)])
