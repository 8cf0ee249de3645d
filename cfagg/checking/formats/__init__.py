"""Output formats of reports: each turns a stream of results into text, piece by piece."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from importlib import import_module
from itertools import chain, islice
from typing import NamedTuple

from cfagg.checking.outcome import Outcome
from cfagg.errors import OptionError
from cfagg.findings.finding import Finding

__all__ = ["FORMATS", "Once", "Style", "Totals", "most_first", "not_listed", "render"]

#: Rules that whole archives may break, so that repeating the finding for each file adds no information.
_ONCE = frozenset({"CEL006"})

#: Largest number of reasons why rules were not run that are counted, since some name the dataset.
_REASONS = 500

#: Name -> module with ``render(results, style)``.
FORMATS = {
    "text": "cfagg.checking.formats.text",
    "json": "cfagg.checking.formats.as_json",
    "sarif": "cfagg.checking.formats.sarif",
    "junit": "cfagg.checking.formats.junit",
    "github": "cfagg.checking.formats.github",
    "html": "cfagg.checking.formats.html",
}


class Style(NamedTuple):
    """How a report is written: `width` of the terminal, `None` to break no lines; what is listed; what fails."""

    colour: bool = False
    width: int | None = None
    skipped: bool = False
    statistics: bool = False
    strict: bool = False


class Totals:
    """Totals of all sources; their size does not grow with the number of sources."""

    def __init__(self) -> None:
        self.sources = self.failed = self.suppressed = 0
        self.severities: Counter[str] = Counter()
        self.codes: Counter[str] = Counter()
        self.tables: dict[str, str] = {}
        self.skipped: Counter[tuple[str, str]] = Counter()
        self.name = ""

    def add(self, result: Outcome) -> None:
        """Count what was found in a source."""
        self.name = result.source if not self.sources else ""
        self.sources += 1
        self.failed += result.failure is not None
        self.suppressed += sum(result.suppressed.values())
        self.severities.update(f.severity for f in result.findings)
        self.codes.update(f.code for f in result.findings)
        self.codes.update(result.dropped)
        self.tables.update(result.tables)
        for pair in result.skipped.items():
            if len(self.skipped) < _REASONS or pair in self.skipped:
                self.skipped[pair] += 1


def most_first(codes: Counter[str]) -> list[tuple[str, int]]:
    """Return codes with their counts, the most frequent first."""
    return sorted(codes.items(), key=lambda pair: (-pair[1], pair[0]))


class Once:
    """A filter of the findings to show: those of some rules only once per run, unless they are errors."""

    def __init__(self) -> None:
        self._shown: set[str] = set()
        #: The number of findings not shown, by code.
        self.left_out: Counter[str] = Counter()

    def shows(self, finding: Finding) -> bool:
        """Whether a finding is shown."""
        if finding.code not in _ONCE or finding.severity == "error":
            return True
        if finding.code in self._shown:
            self.left_out[finding.code] += 1
            return False
        self._shown.add(finding.code)
        return True

    def rest(self) -> Iterator[tuple[str, str]]:
        """Yield the code of each rule with findings that were not shown, and a sentence about them."""
        for code, number in self.left_out.items():
            yield code, f"shown once per run: {number:,} more like it; --statistics and --format json count all"


def not_listed(result: Outcome) -> Iterator[tuple[str, str]]:
    """Yield the code of each rule with more findings than are listed, and a sentence about them."""
    for code, number in result.dropped.items():
        yield code, f"{number:,} more are not shown; --statistics counts them"


def render(format: str, results: Iterable[Outcome], style: Style) -> Iterator[str]:  # noqa: A002 - the word of the CLI
    """Yield the text of a check in one of `FORMATS` piece by piece; results are consumed one by one and not kept."""
    if not isinstance(format, str) or format not in FORMATS:  # type: ignore[redundant-expr]
        raise OptionError(f"{format!r} is not a format of reports; the formats are {', '.join(FORMATS)}")
    # The first result is waited for: what refuses to check, such as an unknown option, leaves no half of a document.
    results = iter(results)
    first = tuple(islice(results, 1))
    yield from import_module(FORMATS[format]).render(chain(first, results), style)
