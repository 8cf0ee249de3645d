"""A check as text for readers: findings grouped by variable, most severe first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from textwrap import wrap

from cfagg.checking.formats import Once, Style, Totals, most_first, not_listed
from cfagg.checking.outcome import ORDER, Outcome
from cfagg.checking.registry import registered
from cfagg.display.escape import printable
from cfagg.display.sizes import count_text
from cfagg.findings.finding import Finding, Severity

__all__ = ["render"]

_COLOURS = {"error": "31", "warning": "33", "info": "36", "ok": "32", "name": "1", "quiet": "2"}

#: Width of the columns that precede the message of a finding.
_INDENT = 4


def render(results: Iterable[Outcome], style: Style) -> Iterator[str]:
    """Yield the lines of each source, then a line for all."""
    totals, once = Totals(), Once()
    severest: dict[str, Severity] = {}
    for result in results:
        totals.add(result)
        for finding in result.findings:
            # If the findings of a rule differ in severity, the most severe counts.
            known = severest.get(finding.code, finding.severity)
            severest[finding.code] = min(known, finding.severity, key=ORDER.index)
        if not style.statistics or result.failure is not None:
            yield from (f"{line}\n" for line in _source(result, style, once))
    yield from (f"{code} is {said}\n" for code, said in once.rest())
    if style.statistics:
        yield from (f"{line}\n" for line in _statistics(totals.codes, severest))
    total = totals.severities
    parts = [_counted(total[s], s) for s in ORDER if total[s] or s == "error"]
    more = totals.codes.total() - total.total()
    if more:
        parts.append(count_text(more, "more finding"))
    if totals.suppressed:
        parts.append(f"{totals.suppressed:,} suppressed")
    if totals.failed:
        parts.append(f"{count_text(totals.failed, 'source')} not checked")
    yield _paint(f"{count_text(totals.sources, 'source')}: {', '.join(parts)}", "name", style) + "\n"


def _counted(number: int, severity: Severity) -> str:
    return f"{number:,} info" if severity == "info" else count_text(number, severity)


def _source(result: Outcome, style: Style, once: Once) -> Iterator[str]:
    name = _paint(printable(result.source), "name", style)
    if result.failure is not None:
        yield f"{name}: {_paint('not checked', 'error', style)}"
        yield from _message(result.failure, style)
        yield ""
        return
    counts = result.counts
    said = ", ".join(_counted(counts[s], s) for s in ORDER if counts[s])
    yield f"{name}: CF-{result.cf_version}, {said or _paint('no findings', 'ok', style)}"
    shown = [f for f in result.findings if once.shows(f)]
    for variable, group in groupby(shown, key=lambda f: f.variable):
        yield f"  {_paint('dataset' if variable is None else printable(variable), 'name', style)}"
        for finding in group:
            yield from _finding(finding, style)
    yield from (f"  {code}: {said}" for code, said in not_listed(result))
    if style.skipped and result.skipped:
        yield "  rules that were not run"
        for code, why in result.skipped.items():
            yield f"    {code} {_paint(printable(why), 'quiet', style)}"
    if shown or (style.skipped and result.skipped):
        yield ""


def _finding(finding: Finding, style: Style) -> Iterator[str]:
    head = f"{finding.severity:<7} {finding.code}"
    place = f"{printable(finding.attribute)}: " if finding.attribute else ""
    lines = list(_message(place + finding.message, style, len(head) + 1))
    painted = _paint(f"{finding.severity:<7}", finding.severity, style) + head[7:]
    yield f"{' ' * _INDENT}{painted} {lines[0].lstrip(' ')}"
    yield from lines[1:]


def _message(text: str, style: Style, hang: int = 0) -> list[str]:
    """Return a message in lines as wide as the terminal, all indented by `hang` and the indent of findings."""
    indent = " " * (_INDENT + hang)
    whole = printable(text)
    if style.width is None or style.width < len(indent) + 20:
        return [indent + whole]
    return wrap(whole, style.width, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False) or [indent]


def _statistics(codes: Counter[str], severest: Mapping[str, Severity]) -> Iterator[str]:
    known = registered()
    for code, number in most_first(codes):
        rule = known.get(code)
        message = f"{severest.get(code, rule.severity):<7}  {printable(rule.summary)}" if rule is not None else ""
        yield f"{number:>7,}  {code}  {message}".rstrip()


def _paint(text: str, what: str, style: Style) -> str:
    return f"\x1b[{_COLOURS[what]}m{text}\x1b[0m" if style.colour else text
