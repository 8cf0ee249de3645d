"""The result of aggregating many files as a page: bars for the coverage of each array, and why others are apart.

There are no external files and no scripts; every name is escaped; the page adapts to the light or dark theme, and to
narrow windows.
"""

from __future__ import annotations

import hashlib
import re
from base64 import b64encode
from collections.abc import Iterator, Sequence
from os.path import commonpath, dirname

from cfagg._version import __version__
from cfagg.display.drawing import DISTINCT
from cfagg.display.escape import escape
from cfagg.display.html import page
from cfagg.display.joined import ApartFacts, AxisFacts, GroupFacts, JoinedFacts, Run, axis_text, beyond, others_text
from cfagg.display.sizes import count_text
from cfagg.display.summary import Listing

__all__ = ["joined_html", "joined_page"]

#: Width and height of a bar in its own units, and the minimum width of a covered part.
_WIDE, _HIGH, _LEAST = 1000, 14, 3

#: Reasons for which overlaps of arrays are shown.
_OVERLAPS = ("overlap", "cells overlap", "equal")

#: The name of a file, and the place where the common directory is named.
_FILE, _FOLDER = re.compile('<div class="file">([^<]*)</div>'), "<!--folder-->"

_STYLE = """\
.cfagg-joined{--bad:#b3261e;--track:#0000000f;font:14px/1.5 system-ui,-apple-system,"Segoe UI",sans-serif;
color:var(--cfagg-ink);overflow-wrap:anywhere}
@media(prefers-color-scheme:dark){.cfagg-joined{--bad:#ff8a80;--track:#ffffff17}}
body.cfagg-page{margin:0;background:#fff}@media(prefers-color-scheme:dark){body.cfagg-page{background:#0d1117}}
body.cfagg-page .cfagg-joined{max-width:1080px;margin:0 auto;padding:24px 20px 48px;box-sizing:border-box}
.cfagg-joined *{box-sizing:border-box}
.cfagg-joined h1{font-size:22px;margin:0 0 4px}.cfagg-joined h2{font-size:16px;margin:28px 0 8px}
.cfagg-joined h3{font-size:15px;margin:0}.cfagg-joined p{margin:2px 0}
.cfagg-joined .counts{display:flex;flex-wrap:wrap;gap:2px 22px;margin:6px 0 0;padding:0;list-style:none}
.cfagg-joined .counts b{font-size:20px;font-variant-numeric:tabular-nums}
.cfagg-joined .quiet{color:var(--cfagg-muted)}.cfagg-joined .bad{color:var(--bad)}
.cfagg-joined .card{border:1px solid var(--cfagg-rule);border-radius:10px;padding:14px 16px;margin:0 0 14px}
.cfagg-joined .head{display:flex;flex-wrap:wrap;gap:0 12px;align-items:baseline;margin-bottom:6px}
.cfagg-joined .why{border-left:4px solid var(--bad)}
.cfagg-joined .file{font:12.5px/1.45 ui-monospace,"SF Mono",Menlo,Consolas,monospace;color:var(--cfagg-muted)}
.cfagg-joined .along{margin:10px 0 0;font-size:12.5px;color:var(--cfagg-muted)}
.cfagg-joined .bars{display:grid;grid-template-columns:minmax(60px,max-content) 1fr max-content;gap:5px 12px;
align-items:center;margin-top:4px}
.cfagg-joined .row{display:contents}.cfagg-joined .bars .name{font-weight:600;max-width:14em}
.cfagg-joined .bars .many{font-size:12.5px;color:var(--cfagg-muted);font-variant-numeric:tabular-nums}
.cfagg-joined .bar{display:block;width:100%;height:18px;border-radius:4px;background:var(--track)}
.cfagg-joined .ends{grid-column:2;display:flex;justify-content:space-between;gap:12px;font-size:12px;
color:var(--cfagg-muted);font-variant-numeric:tabular-nums}
.cfagg-joined .over{fill:var(--bad);opacity:.85}
.cfagg-joined table{width:100%;margin:10px 0 0}.cfagg-joined td.n{text-align:right!important;white-space:nowrap}
.cfagg-joined table :is(th,td){max-width:none;font-size:13px}.cfagg-joined th{white-space:nowrap}
.cfagg-joined summary{margin-top:6px}.cfagg-joined footer{margin-top:28px;color:var(--cfagg-muted);font-size:13px}
@media(max-width:560px){.cfagg-joined .bars{grid-template-columns:1fr}
.cfagg-joined .row{display:grid;grid-template-columns:1fr max-content}.cfagg-joined .ends{grid-column:1}
.cfagg-joined .row .bar{grid-column:1/-1;grid-row:2}.cfagg-joined .row .name{max-width:none}
.cfagg-joined table .wide{display:none}body.cfagg-page .cfagg-joined{padding:16px 12px 32px}}
"""


def joined_page(facts: JoinedFacts) -> str:
    """Return a self-contained page."""
    body = joined_html(facts)
    styles = [part.partition("</style>")[0] for part in body.split("<style>")[1:]]
    hashes = " ".join(f"'sha256-{b64encode(hashlib.sha256(s.encode()).digest()).decode()}'" for s in styles)
    title = f"Aggregation of {count_text(facts.files, 'file')}"
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; style-src {hashes}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta name="color-scheme" content="light dark"><title>{title}</title>'
        f'</head><body class="cfagg-page">{body}</body></html>\n'
    )


def joined_html(facts: JoinedFacts) -> str:
    """Return one element, also for notebooks."""
    return page(f'<style>{_STYLE}</style><div class="cfagg-joined">{_shortened("".join(_parts(facts)))}</div>')


def _shortened(body: str) -> str:
    """Return a page that names the common directory of all its files once."""
    names = set(_FILE.findall(body)) - {"…"}
    local = len(names) > 1 and all(name.startswith("/") for name in names)
    folder = commonpath(map(dirname, names)) if local else "/"
    said = f'<p class="file">files in {folder}</p>' if folder != "/" else ""
    body = body.replace(f'<div class="file">{folder}/', '<div class="file">') if said else body
    return body.replace(_FOLDER, said, 1)


def _parts(facts: JoinedFacts) -> Iterator[str]:
    yield f"<h1>{count_text(facts.groups.count, 'array')} of {count_text(facts.files, 'file')}</h1>"
    yield from _counts(facts)
    yield _FOLDER
    reasons = _all(facts.apart)
    if reasons:
        yield "<h2>Apart</h2>"
        yield from map(_reason, reasons)
        yield _rest(facts.apart)
    unread = _all(facts.unread)
    if unread:
        rows = [(_file(u.file), escape(beyond(u.problem, u.file))) for u in unread]
        yield f'<h2>Not read</h2><div class="card why">{_table(("file", "why"), rows)}{_rest(facts.unread)}</div>'
    families: dict[str, list[GroupFacts]] = {}
    for group in _all(facts.groups):
        families.setdefault(group.identity, []).append(group)
    yield "<h2>Arrays</h2>"
    for identity, groups in families.items():
        rules = {r.rule for r in reasons if r.identity == identity}
        yield _family(identity, groups, overlapping=bool(rules.intersection(_OVERLAPS)))
    yield _rest(facts.groups)
    for title, lines in (("Losses", facts.losses), ("Notes", facts.notes)):
        if lines.count:
            yield f"<h2>{title}</h2>{''.join(f'<p>{escape(line)}</p>' for line in _all(lines))}{_rest(lines)}"
    yield f"<footer>cfagg {escape(__version__)}</footer>"


def _counts(facts: JoinedFacts) -> Iterator[str]:
    shown = [(facts.files, "file", ""), (facts.variables, "variable", ""), (facts.groups.count, "array", "")]
    shown += [(facts.unread.count, "not read", "bad")] if facts.unread.count else []
    items = (f'<li class="{kind}"><b>{n:,}</b> {noun if kind else count_text(n, noun).split()[1]}</li>'
             for n, noun, kind in shown)  # fmt: skip
    yield f'<ul class="counts">{"".join(items)}</ul>'


def _reason(one: ApartFacts) -> str:
    names = ", ".join(map(escape, one.arrays.first)) + (", …" if one.arrays.omitted else "")
    times = f' <span class="quiet">{one.count:,} times</span>' if one.count > 1 else ""
    head = f'<h3>{escape(one.identity)}</h3><span class="quiet">{names}</span>'
    return (
        f'<div class="card why"><div class="head">{head}</div>'
        f"<p>{escape(one.text)}{times}</p>{_file(one.a)}{_file(one.b)}"
        f'<p><span class="quiet">Remedy:</span> {escape(one.remedy)}</p></div>'
    )


def _family(identity: str, groups: Sequence[GroupFacts], *, overlapping: bool) -> str:
    """Return the arrays of one quantity: bars along axes on which they or their files differ, and a table."""
    units = sorted({g.units for g in groups if g.units})
    said = f'<span class="quiet">[{escape(", ".join(units))}]</span>' if units else ""
    axes = [name for name in dict.fromkeys(a.name for g in groups for a in g.axes) if _is_listed(name, groups)]
    # Coordinates of one name in different units, such as metres and level numbers, have no common scale.
    scales = dict.fromkeys((a.name, a.units) for g in groups for a in g.axes if a.name in axes)
    bars = "".join(_bars(*scale, groups, overlapping=overlapping) for scale in scales)
    rows = [
        (
            escape(g.name), escape(", ".join(f"{a.name}: {a.size:,}" for a in g.axes if a.size > 1)), escape(g.rule),
            "<br>".join(_about(g)), f"{g.files.count:,}",
        )
        for g in groups
    ]  # fmt: skip
    table = _table(("array", "dimensions", "how", "of what", "files"), rows, wide=3)
    files = "".join(
        f"<details><summary>{escape(g.name)}: {count_text(g.files.count, 'file')}</summary>"
        f"{''.join(map(_file, (*g.files.first, *(['…'] if g.files.omitted else []), *g.files.last)))}</details>"
        for g in groups
        if g.files.count > 1
    )
    return f'<div class="card"><div class="head"><h3>{escape(identity)}</h3>{said}</div>{bars}{table}{files}</div>'


def _about(group: GroupFacts) -> list[str]:
    """Return what an array consists of: its only file, or the coverage of its axes by files, and what was left out."""
    found = [escape(group.dataset)] if group.dataset else []
    others = [escape(others_text(group))] if group.replaced else []
    if group.files.count == 1:
        return [*found, _file(group.files.first[0]), *others]
    found += [*(escape(axis_text(a)) for a in group.axes if a.parts > 1), *others]
    return [*found, *([f"left out: {escape(', '.join(group.dropped))}"] if group.dropped else [])]


def _axis(group: GroupFacts, name: str) -> AxisFacts | None:
    return next((a for a in group.axes if a.name == name), None)


def _is_listed(name: str, groups: Sequence[GroupFacts]) -> bool:
    """Return whether files follow each other along an axis, or arrays have different coordinates there."""
    axes = [a for g in groups if (a := _axis(g, name)) is not None]
    return any(a.parts > 1 for a in axes) or len({(a.first, a.last) for a in axes}) > 1


def _bars(name: str, units: str, groups: Sequence[GroupFacts], *, overlapping: bool) -> str:
    """Return a bar for each array with its coverage of an axis in given units, all to the same scale."""
    axes = [(g, a) for g in groups if (a := _axis(g, name)) is not None and a.units == units]
    runs = [r for _, a in axes for r in _all(a.runs)]
    if not runs:
        return ""
    low, high = min(r.low for r in runs), max(r.high for r in runs)
    if not high > low:
        return ""
    ends = min(runs, key=lambda r: r.low).first, max(runs, key=lambda r: r.high).last
    over = _overlaps([_all(a.runs) for _, a in axes]) if overlapping else []
    rows = []
    for number, (group, axis) in enumerate(axes):
        colour = DISTINCT[number % len(DISTINCT)]
        own = _all(axis.runs)
        picture = "".join(_patch(r.low, r.high, low, high, f'fill="{colour}"', _said(r)) for r in own)
        picture += "".join(
            _patch(max(a, r.low), min(b, r.high), low, high, 'class="over"', "overlap")
            for a, b in over for r in own if r.low < b and a < r.high
        )  # fmt: skip
        label = escape(axis_text(axis))
        rows.append(
            f'<div class="row"><span class="name">{escape(group.name)}</span>'
            f'<svg class="bar" viewBox="0 0 {_WIDE} {_HIGH}" preserveAspectRatio="none" role="img" '
            f'aria-label="{label}">{picture}</svg><span class="many">{count_text(axis.parts, "part")}</span></div>'
        )
    tail = f" {units}" if units else ""
    rows.append(f'<div class="ends"><span>{escape(ends[0] + tail)}</span><span>{escape(ends[1] + tail)}</span></div>')
    gaps = sum(max(a.runs.count - 1, 0) for _, a in axes)
    notes = [*([count_text(gaps, "gap")] if gaps else []), *([count_text(len(over), "overlap")] if over else [])]
    more = f' · <span class="bad">{", ".join(notes)}</span>' if notes else ""
    return f'<div class="along">along {escape(name)}{more}</div><div class="bars">{"".join(rows)}</div>'


def _patch(a: float, b: float, low: float, high: float, look: str, title: str) -> str:
    """Return the part from `a` to `b` of a bar from `low` to `high`, wide enough to be visible."""
    x, end = ((v - low) / (high - low) * _WIDE for v in (a, b))
    wide = max(end - x, _LEAST)
    x = min(x, _WIDE - wide)
    return f'<rect {look} x="{x:.1f}" y="0" width="{wide:.1f}" height="{_HIGH}"><title>{escape(title)}</title></rect>'


def _said(run: Run) -> str:
    ends = run.first if run.first == run.last else f"{run.first} to {run.last}"
    return f"{ends}: {count_text(run.members, 'part')}"


def _overlaps(several: Sequence[Sequence[Run]]) -> list[tuple[float, float]]:
    """Return the ranges that two or more arrays cover."""
    edges = sorted([(r.low, 1) for runs in several for r in runs] + [(r.high, -1) for runs in several for r in runs])
    found: list[tuple[float, float]] = []
    depth, begin = 0, 0.0
    for place, step in edges:
        depth += step
        if step == 1 and depth == 2:
            begin = place
        elif step == -1 and depth == 1 and place > begin:
            found.append((begin, place))
    return found


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]], wide: int | None = None) -> str:
    """Return a table of escaped cells; narrow windows omit the column `wide`, and never wrap the first two."""

    def cells(tag: str, row: Sequence[str]) -> str:
        looks = ["cfagg-whole" if len(text) < 24 else "" for text in row[:2]] + ["", "", "n"]
        looks = ["wide" if n == wide else look for n, look in enumerate(looks[: len(row)])]
        kinds = (f' class="{look}"' if look else "" for look in looks)
        return "".join(f"<{tag}{kind}>{cell}</{tag}>" for kind, cell in zip(kinds, row, strict=True))

    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    return f"<table><tr>{cells('th', heads)}</tr>{body}</table>"


def _all[T](listing: Listing[T]) -> list[T]:
    return [*listing.first, *listing.last]


def _rest[T](listing: Listing[T]) -> str:
    return f'<p class="quiet">{listing.omitted:,} more are not shown</p>' if listing.omitted else ""


def _file(name: str) -> str:
    return f'<div class="file">{escape(name)}</div>'
