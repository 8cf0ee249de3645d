"""A check as one self-contained page, without network access or other files, that can be searched and filtered.

Everything that comes from a dataset is escaped.  The page's own policy lets it run its one script and nothing else.
"""

from __future__ import annotations

import hashlib
import tempfile
from base64 import b64encode
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from importlib import resources
from itertools import groupby

from cfagg._version import __version__
from cfagg.checking.formats import Style, Totals, most_first
from cfagg.checking.links import link, place
from cfagg.checking.outcome import ORDER, Outcome
from cfagg.checking.registry import registered
from cfagg.display.escape import escape
from cfagg.display.sizes import count_text
from cfagg.findings.finding import Finding
from cfagg.findings.rule import Rule

__all__ = ["render", "summary"]

#: Sections larger than this in total are buffered on disk until the head of the page is known.
_IN_MEMORY = 1 << 24

#: Number of findings that a notebook shows, and number of these that are unfolded.
_IN_NOTEBOOK = 200
_UNFOLDED = 30

#: Number of sources without findings that a notebook shows.
_SOURCES = 10


def render(results: Iterable[Outcome], style: Style) -> Iterator[str]:
    """Yield the page."""
    del style
    totals = Totals()
    with tempfile.SpooledTemporaryFile(_IN_MEMORY, mode="w+", encoding="utf-8", errors="backslashreplace") as sections:
        for result in results:
            totals.add(result)
            for part in _source(result):
                sections.write(part)
        sections.seek(0)
        yield _head(totals)
        yield '<div class="wrap"><h1>CF check</h1>'
        yield f'<p class="quiet">{_totals_line(totals)}</p>'
        yield _counts(totals)
        yield _statistics(totals, linked=True)
        yield _tools(totals)
        yield from iter(lambda: sections.read(1 << 16), "")
        yield _skipped(totals)
        yield _foot(totals)
    yield f"</div><script>{_file('page.js')}</script></body></html>\n"


def summary(results: Sequence[Outcome]) -> str:
    """Return the counts, the rules that were broken and the findings as one element without a script, for notebooks."""
    totals = Totals()
    for result in results:
        totals.add(result)
    shown = 0
    sections: list[str] = []
    for result in results:
        # If there are many sources, only those with findings are shown.
        if shown < _IN_NOTEBOOK and (result.findings or len(results) <= _SOURCES):
            sections += _source(result, limit=_IN_NOTEBOOK - shown, folded=totals.severities.total() > _UNFOLDED)
            shown += len(result.findings)
    more = totals.severities.total() - _IN_NOTEBOOK
    rest = (
        f'<p class="quiet">{more:,} more; report.to_html("report.html") writes a page with all</p>' if more > 0 else ""
    )
    return (
        f'<div class="cfagg-report"><style>{_file("page.css")}</style><p>{_totals_line(totals)}</p>{_counts(totals)}'
        f"{_statistics(totals, linked=False)}{''.join(sections)}{rest}{_skipped(totals)}{_foot(totals)}</div>"
    )


def _head(totals: Totals) -> str:
    policy = f"default-src 'none'; style-src 'sha256-{_hash('page.css')}'; script-src 'sha256-{_hash('page.js')}'"
    title = f"CF check of {totals.name or count_text(totals.sources, 'source')}"
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta name="color-scheme" content="light dark"><title>{escape(title)}</title>'
        f'<style>{_file("page.css")}</style></head><body class="cfagg-report">'
    )


def _totals_line(totals: Totals) -> str:
    name = f"<b>{escape(totals.name)}</b>" if totals.name else count_text(totals.sources, "source")
    parts = [name]
    if totals.suppressed:
        parts.append(f"{count_text(totals.suppressed, 'finding')} suppressed")
    if totals.failed:
        parts.append(f'<span class="error">{count_text(totals.failed, "source")} not checked</span>')
    return ", ".join(parts)


def _counts(totals: Totals) -> str:
    if not totals.severities:
        return '<ul class="counts"><li class="ok"><b>No findings</b></li></ul>'
    items = []
    for severity in ORDER:
        number = totals.severities[severity]
        word = severity if severity == "info" else count_text(number, severity).split()[1]
        items.append(f'<li class="{severity if number else "quiet"}"><b>{number:,}</b> {word}</li>')
    return f'<ul class="counts">{"".join(items)}</ul>'


def _statistics(totals: Totals, *, linked: bool) -> str:
    if not totals.codes:
        return ""
    rows = []
    for code, number in most_first(totals.codes):
        rule = registered().get(code)
        name = f'<a href="#" data-code="{escape(code)}">{escape(code)}</a>' if linked else escape(code)
        severity = rule.severity if rule else "error"
        rows.append(
            f'<tr><td class="n">{number:,}</td><td class="c">{name}</td>'
            f'<td class="s {severity}">{severity}</td><td>{escape(rule.summary) if rule else ""}</td></tr>'
        )
    title = f"{count_text(len(rows), 'rule')} broken"
    return f'<details class="more statistics"><summary>{title}</summary><table>{"".join(rows)}</table></details>'


def _tools(totals: Totals) -> str:
    buttons = "".join(
        f'<button type="button" data-severity="{s}" aria-pressed="true" title="show or hide">'
        f'<span class="{s}">●</span> {s} {totals.severities[s]:,}</button>'
        for s in ORDER
        if totals.severities[s]
    )
    return (
        '<div class="tools" role="search" hidden>'
        '<input type="search" placeholder="Search rules, variables and messages" aria-label="Search findings">'
        f'{buttons}<label class="quiet">group by <select><option value="variable">variable</option>'
        '<option value="rule">rule</option></select></label><output aria-live="polite"></output></div>'
    )


def _source(result: Outcome, *, limit: int | None = None, folded: bool = False) -> Iterator[str]:
    """Yield the section of one source."""
    counts = result.counts
    said = " ".join(
        f'<span class="{s}">{count_text(counts[s], s) if s != "info" else f"{counts[s]:,} info"}</span>'
        for s in ORDER
        if counts[s]
    )
    version = f'<span class="badge">CF-{escape(result.cf_version)}</span>' if result.cf_version else ""
    clean = '<span class="ok">no findings</span>' if not result.findings else ""
    yield f'<section class="source" data-source="{escape(result.source)}"><header><h2>{escape(result.source)}</h2>'
    yield f"{version}<span>{said}{clean}</span></header>"
    yield '<div class="findings">'
    findings = result.findings[:limit]
    for variable, group in groupby(findings, key=lambda f: f.variable):
        yield _group(variable, list(group), opened=not folded)
    yield "</div>"
    if result.dropped:
        left = ", ".join(f"{code}: {number:,}" for code, number in result.dropped.items())
        yield f'<p class="quiet">Further findings that are not listed: {escape(left)}</p>'
    for path, picture in result.pictures:
        yield f"<figure><figcaption>Partition matrix of <code>{escape(path)}</code></figcaption>{picture}</figure>"
    if result.skipped and result.failure is None:
        yield f'<p class="quiet">{count_text(len(result.skipped), "rule")} not run, {len(result.ran):,} run</p>'
    yield "</section>"


def _group(variable: str | None, findings: Sequence[Finding], *, opened: bool) -> str:
    """Return the findings of one variable: a block for each rule and severity."""
    blocks: dict[tuple[str, str], list[Finding]] = {}
    for finding in findings:
        blocks.setdefault((finding.severity, finding.code), []).append(finding)
    body = "".join(_block(code, severity, found) for (severity, code), found in blocks.items())
    severest = findings[0].severity
    return (
        f'<details class="group" data-variable="{escape(variable or "")}"{" open" if opened else ""}><summary>'
        f'<span class="{severest}">●</span> <b>{escape(variable) if variable is not None else "dataset"}</b> '
        f'<span class="quiet">{len(findings):,}</span></summary>{body}</details>'
    )


def _block(code: str, severity: str, findings: Sequence[Finding]) -> str:
    items = "".join(
        f'<li class="finding">{f"<code>{escape(f.attribute)}</code>" if f.attribute else ""}{escape(f.message)}</li>'
        for f in findings
    )
    rule = registered().get(code)
    message = f" {escape(rule.summary)}{_reference(rule)}" if rule is not None else ""
    return (
        f'<div class="rule" data-code="{escape(code)}" data-severity="{severity}"><p><span class="{severity}">'
        f"{severity}</span> <b>{escape(code)}</b>{message}</p><ul>{items}</ul></div>"
    )


def _reference(rule: Rule) -> str:
    """Return the link to the section that a rule comes from."""
    name = place(rule)
    address = link(rule)
    if not address.startswith("https://"):
        return f" · {escape(name)}"
    return f' · <a href="{escape(address)}" rel="noreferrer">{escape(f"{name} {rule.title}")}</a>'


def _skipped(totals: Totals) -> str:
    """Return the rules that were not run, with their reasons and the number of sources."""
    if not totals.skipped:
        return ""
    rows = "".join(
        f'<tr><td class="c">{escape(code)}</td><td>{escape(_summary(code))}</td><td>{escape(why)}</td>'
        f'<td class="n">{count_text(number, "source")}</td></tr>'
        for (code, why), number in sorted(totals.skipped.items())
    )
    title = f"{count_text(len({code for code, _ in totals.skipped}), 'rule')} not run"
    return f'<details class="more skipped"><summary>{title}</summary><table>{rows}</table></details>'


def _summary(code: str) -> str:
    rule = registered().get(code)
    return rule.summary if rule is not None else ""


def _foot(totals: Totals) -> str:
    tables = "".join(f", {escape(name)} {escape(version)}" for name, version in totals.tables.items())
    return f"<footer>cfagg {escape(__version__)}{tables}</footer>"


@lru_cache(maxsize=2)
def _file(name: str) -> str:
    return resources.files("cfagg.checking.formats").joinpath(name).read_text(encoding="utf-8")


def _hash(name: str) -> str:
    return b64encode(hashlib.sha256(_file(name).encode()).digest()).decode()
