"""What a check of one or several sources found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cfagg.arguments import a_path
from cfagg.checking.findings import Finding, Severity

__all__ = ["ORDER", "Checked", "Report", "by_gravity", "counted"]

#: Severities, most severe first.
ORDER: tuple[Severity, ...] = ("error", "warning", "info")

_RANK = {severity: rank for rank, severity in enumerate(ORDER)}


def by_gravity(findings: Iterable[Finding]) -> list[Finding]:
    """Return findings grouped by variable; the variables with the most severe come first, and so in each.

    Variables otherwise keep the order in which the findings name them.
    """
    groups: dict[str | None, list[Finding]] = {}
    for finding in findings:
        groups.setdefault(finding.variable, []).append(finding)
    for group in groups.values():
        group.sort(key=lambda f: (_RANK.get(f.severity, 0), f.code, f.attribute or ""))
    ordered = sorted(groups.values(), key=lambda g: _RANK.get(g[0].severity, 0))
    return [finding for group in ordered for finding in group]


def counted(number: int, what: str) -> str:
    """Return a number of things in words.

    Examples
    --------
    >>> counted(1, "error"), counted(2000, "warning")
    ('1 error', '2,000 warnings')
    """
    return f"{number:,} {what}{'' if number == 1 else 's'}"


@dataclass(frozen=True, slots=True)
class Checked:
    """What the check of one source found.

    Parameters
    ----------
    source : str
        The source as it was named.
    cf_version : str or None
        The version of CF that it was checked against, such as ``"1.8"``; `None` where it could not be opened.
    findings : tuple of Finding
        Grouped by variable, most severe first.
    skipped : mapping of str to str
        Rules that were not run, by code, and why.
    ran : tuple of str
        Rules that were run.
    dropped : mapping of str to int
        By code, how many findings are left out because there are too many of the kind.
    suppressed : mapping of int to int
        How many findings each suppression of the configuration has hidden, by its place there.
    reached : tuple of int
        The suppressions that were meant for this source and for a rule that was run.
    pictures : tuple of (str, str)
        Path of each aggregation variable and its partition matrix as SVG, where they were asked for.
    tables : mapping of str to str
        Versions of the tables that were used.
    failure : str or None
        Why it could not be checked.
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
            return f"<Checked {self.source!r}: {self.failure}>"
        total = Counter(f.severity for f in self.findings)
        found = ", ".join(counted(total[s], s) for s in ORDER[:2])
        return f"<Checked {self.source!r} as CF-{self.cf_version}: {found}>"

    def _repr_html_(self) -> str:
        from cfagg.checking.formats.html import summary

        return summary([self])

    @property
    def ok(self) -> bool:
        """Whether it was checked and there is no error."""
        return self.failure is None and not any(f.severity == "error" for f in self.findings)

    @property
    def failed(self) -> bool:
        """Whether the check itself failed, in part at least: errors whose codes begin with INT tell."""
        return self.failure is not None or any(f.is_failure for f in self.findings)

    @property
    def counts(self) -> Mapping[Severity, int]:
        """How many findings there are of each severity; those left out are not among them."""
        found = Counter(f.severity for f in self.findings)
        return {severity: found[severity] for severity in ORDER}

    def as_dict(self) -> dict[str, Any]:
        """Return it as plain objects in the form of ``cfagg check --format json``."""
        return {
            "source": self.source,
            "cf_version": self.cf_version,
            "findings": [dict(f.as_dict()) for f in self.findings],
        }


@dataclass(frozen=True, slots=True, repr=False)
class Report(Sequence[Checked]):
    """What `cfagg.check` returns: one `Checked` for each source.

    Printed it is the text of ``cfagg check``; a notebook shows the page of ``--format html``.

    Parameters
    ----------
    sources : tuple of Checked
        In the order given.
    unused : tuple of str
        Suppressions of the configuration that hid nothing.
    """

    sources: tuple[Checked, ...]
    unused: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.sources)

    def __getitem__(self, index: Any) -> Any:
        return self.sources[index]

    def __iter__(self) -> Iterator[Checked]:
        return iter(self.sources)

    @property
    def findings(self) -> list[Finding]:
        """All findings of all sources."""
        return [f for s in self.sources for f in s.findings]

    @property
    def ok(self) -> bool:
        """Whether every source was checked and none has an error."""
        return all(s.ok for s in self.sources)

    @property
    def errors(self) -> list[Finding]:
        """The findings that are errors."""
        return [f for f in self.findings if f.severity == "error"]

    @property
    def warnings(self) -> list[Finding]:
        """The findings that are warnings."""
        return [f for f in self.findings if f.severity == "warning"]

    @property
    def cf_version(self) -> str | None:
        """The version of CF, where there is one source or all have the same."""
        found = {s.cf_version for s in self.sources}
        return found.pop() if len(found) == 1 else None

    @property
    def skipped(self) -> Mapping[str, str]:
        """Rules that were not run on some source, by code, and why."""
        return {code: why for s in self.sources for code, why in s.skipped.items()}

    @property
    def tables(self) -> Mapping[str, str]:
        """Versions of the tables that were used."""
        return {name: version for s in self.sources for name, version in s.tables.items()}

    @property
    def statistics(self) -> Mapping[str, int]:
        """How many findings there are of each rule, the most first."""
        found = Counter(f.code for f in self.findings)
        for source in self.sources:
            found.update(source.dropped)
        return dict(sorted(found.items(), key=lambda pair: (-pair[1], pair[0])))

    def as_list(self) -> list[dict[str, Any]]:
        """Return it as plain objects, one for each source, in the form of ``cfagg check --format json``."""
        return [s.as_dict() for s in self.sources]

    def as_dict(self) -> dict[str, Any]:
        """Return all that is known as plain objects."""
        return {
            "ok": self.ok,
            "sources": [
                {**s.as_dict(), "skipped": dict(s.skipped), "dropped": dict(s.dropped), "failure": s.failure}
                for s in self.sources
            ],
            "statistics": dict(self.statistics),
            "tables": dict(self.tables),
            "unused_suppressions": list(self.unused),
        }

    def to_text(self, format: str = "text") -> str:  # noqa: A002 - the word of the command line
        """Return it in one of the formats of ``cfagg check``: text, json, sarif, junit, github or html."""
        from cfagg.checking.formats import Style, pieces

        return "".join(pieces(format, iter(self.sources), Style()))

    def to_html(self, path: str | Path | None = None) -> str:
        """Return the page of ``cfagg check --format html``, and write it to `path` if one is given.

        Raises
        ------
        TargetError
            If the file cannot be written.
        """
        page = self.to_text("html")
        if path is not None:
            from cfagg.errors import TargetError
            from cfagg.runtime.files import write_aside
            from cfagg.runtime.publishing import reason

            name = a_path(path, expected="name the file to write")
            try:
                write_aside(Path(name).resolve(), page.encode("utf-8"))
            except OSError as error:
                raise TargetError(f"{name} cannot be written: {reason(error, name)}") from error
        return page

    def __str__(self) -> str:
        return self.to_text().rstrip("\n")

    def __repr__(self) -> str:
        total = Counter(f.severity for f in self.findings)
        found = ", ".join(counted(total[s], s) for s in ORDER[:2])
        return f"<Report of {counted(len(self), 'source')}: {found}>"

    def _repr_html_(self) -> str:
        from cfagg.checking.formats.html import summary

        return summary(self.sources)
