"""The results of checks of one or several sources."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cfagg.checking.formats import Style, most_first, render
from cfagg.checking.outcome import ORDER, Outcome
from cfagg.display.sizes import count_text
from cfagg.errors.arguments import a_path
from cfagg.findings.finding import Finding

__all__ = ["Report", "SourceReport"]


class SourceReport(Outcome):
    """The result of checking one source: an `Outcome` that notebooks show as a page."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        from cfagg.checking.formats.html import summary

        return summary([self])


@dataclass(frozen=True, slots=True, repr=False)
class Report(Sequence[SourceReport]):
    """The result of `cfagg.check`: one `SourceReport` for each source.

    It prints as the text of ``cfagg check``; a notebook shows the page of ``--format html``.

    Parameters
    ----------
    sources : tuple of SourceReport
        In the order given.
    unused : tuple of str
        Suppressions of the configuration that hid nothing.
    """

    sources: tuple[SourceReport, ...]
    unused: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.sources)

    def __getitem__(self, index: Any) -> Any:
        return self.sources[index]

    def __iter__(self) -> Iterator[SourceReport]:
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
        """The version of CF, if it is the same for all sources."""
        found = {s.cf_version for s in self.sources}
        return found.pop() if len(found) == 1 else None

    @property
    def skipped(self) -> Mapping[str, str]:
        """Rules that were not run on some source, by code, with the reason."""
        return {code: why for s in self.sources for code, why in s.skipped.items()}

    @property
    def tables(self) -> Mapping[str, str]:
        """Versions of the tables that were used."""
        return {name: version for s in self.sources for name, version in s.tables.items()}

    @property
    def statistics(self) -> Mapping[str, int]:
        """The number of findings of each rule, the most frequent first."""
        found = Counter(f.code for f in self.findings)
        for source in self.sources:
            found.update(source.dropped)
        return dict(most_first(found))

    def as_list(self) -> list[dict[str, Any]]:
        """Return it as plain objects, one for each source, in the form of ``cfagg check --format json``."""
        return [s.as_dict() for s in self.sources]

    def as_dict(self) -> dict[str, Any]:
        """Return the whole report as plain objects."""
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
        return "".join(render(format, iter(self.sources), Style()))

    def to_html(self, path: str | Path | None = None) -> str:
        """Return the page of ``cfagg check --format html``, and write it to `path` if one is given.

        Raises
        ------
        TargetError
            If the file cannot be written, or is data.
        """
        page = self.to_text("html")
        if path is not None:
            from cfagg.runtime.files import write_aside
            from cfagg.runtime.publishing import refusals_of
            from cfagg.writing.replacing import refuse_data

            name = a_path(path, expected="name the file to write")
            if os.path.exists(name):  # noqa: PTH110
                refuse_data(name, "report or picture")
            with refusals_of(name):
                write_aside(Path(name).resolve(), page.encode("utf-8"))
        return page

    def __str__(self) -> str:
        return self.to_text().rstrip("\n")

    def __repr__(self) -> str:
        total = Counter(f.severity for f in self.findings)
        found = ", ".join(count_text(total[s], s) for s in ORDER[:2])
        return f"<Report of {count_text(len(self), 'source')}: {found}>"

    def _repr_html_(self) -> str:
        from cfagg.checking.formats.html import summary

        return summary(self.sources)
