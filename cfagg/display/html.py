"""Summaries and pictures as HTML for notebooks: no scripts or external files, all names escaped, light and dark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cfagg.display.escape import escape
from cfagg.display.matrix import draw
from cfagg.display.names import variable_path
from cfagg.display.summary import AggregationSummary, FileSummary, GroupSummary, Listing, VariableSummary
from cfagg.display.svg import svg
from cfagg.display.text import (
    OWN_FILE,
    access_text,
    attribute_text,
    axis_text,
    count_text,
    layout_text,
    partition_table,
)
from cfagg.model import Aggregation

__all__ = ["cell_html", "file_html", "page", "variable_html"]

#: Maximum number of pictures in one page; further aggregations are shown as tables only.
_PICTURES = 6

#: Texts of up to this many characters are never wrapped in their cell, however narrow the window is.
_WHOLE = 28

# Notebooks with themes set variables or a class; a plain page follows the system.
_STYLE = """\
.cfagg{--cfagg-ink:var(--jp-content-font-color0,#1f2328);--cfagg-muted:var(--jp-content-font-color2,#656d76);
--cfagg-paper:var(--jp-layout-color0,#fff);--cfagg-rule:var(--jp-border-color2,#d0d7de);
--cfagg-hole:var(--jp-layout-color2,#eaeef2);color:var(--cfagg-ink);
background:var(--cfagg-paper);font-size:13px;line-height:1.45}
@media(prefers-color-scheme:dark){.cfagg{--cfagg-ink:var(--jp-content-font-color0,#e6edf3);
--cfagg-muted:var(--jp-content-font-color2,#8d96a0);--cfagg-paper:var(--jp-layout-color0,#0d1117);
--cfagg-rule:var(--jp-border-color2,#30363d);--cfagg-hole:var(--jp-layout-color2,#21262d)}}
html[data-theme=dark] .cfagg,body.vscode-dark .cfagg{--cfagg-ink:#e6edf3;--cfagg-muted:#8d96a0;--cfagg-paper:#0d1117;
--cfagg-rule:#30363d;--cfagg-hole:#21262d}
html[data-theme=light] .cfagg,body.vscode-light .cfagg{--cfagg-ink:#1f2328;--cfagg-muted:#656d76;--cfagg-paper:#fff;
--cfagg-rule:#d0d7de;--cfagg-hole:#eaeef2}
.cfagg .cfagg-head{margin:2px 0 6px}.cfagg .cfagg-name{font-weight:600;font-size:14px;overflow-wrap:anywhere}
.cfagg .cfagg-quiet{color:var(--cfagg-muted)}
.cfagg table{border-collapse:collapse;margin:2px 0 6px;border:0}
.cfagg th,.cfagg td{text-align:left!important;padding:2px 14px 2px 0;border:0;border-bottom:1px solid var(--cfagg-rule);
vertical-align:top;background:none!important;color:inherit;max-width:44em;overflow-wrap:anywhere;font-size:12px}
.cfagg th{font-weight:600;color:var(--cfagg-muted)}.cfagg .cfagg-whole{white-space:nowrap}
.cfagg details{margin:2px 0}.cfagg summary{cursor:pointer;display:list-item}
.cfagg .cfagg-body{padding:2px 0 4px 16px;overflow-x:auto}
.cfagg .cfagg-card{border:1px solid var(--cfagg-rule);border-radius:6px;padding:8px 12px;margin:8px 0;max-width:60em}
.cfagg-matrix{display:block;max-width:100%;height:auto;font-family:system-ui,-apple-system,"Segoe UI",sans-serif;
background:none}
.cfagg-matrix .cfagg-cell{stroke:var(--cfagg-paper);stroke-width:1;stroke-linejoin:round}
.cfagg-matrix .cfagg-fine{stroke:var(--cfagg-paper);stroke-width:.35}
.cfagg-matrix .cfagg-hole{fill:var(--cfagg-hole);stroke:var(--cfagg-muted);stroke-width:.7;stroke-dasharray:3 2}
.cfagg-matrix .cfagg-tick{stroke:var(--cfagg-muted);fill:none;stroke-width:.8}
.cfagg-matrix .cfagg-ink{fill:var(--cfagg-ink)}.cfagg-matrix .cfagg-muted{fill:var(--cfagg-muted)}
.cfagg-matrix .cfagg-dark{fill:#1f2328;pointer-events:none}.cfagg-matrix .cfagg-light{fill:#fff;pointer-events:none}
"""


def file_html(summary: FileSummary, aggregations: Mapping[str, Aggregation]) -> str:
    """Return a file as HTML."""
    head = f'<span class="cfagg-name">{escape(summary.path)}</span> {_quiet(f"({summary.format})")}'
    drawable = dict(list(aggregations.items())[:_PICTURES])
    return page(f'<div class="cfagg-head">{head}</div>' + "".join(_group(g, drawable) for g in summary.groups))


def page(body: str) -> str:
    """Return escaped content as one element with its style."""
    return f'<div class="cfagg"><style>{_STYLE}</style>{body}</div>'


def _group(group: GroupSummary, aggregations: Mapping[str, Aggregation]) -> str:
    parts = []
    if group.path != "/":
        parts.append(f'<div class="cfagg-head">group <span class="cfagg-name">{escape(group.path)}</span></div>')
    dimensions = [[d.name, f"{d.size:,}", "unlimited" if d.unlimited else ""] for d in group.dimensions]
    if dimensions:
        parts.append(_fold(count_text(len(dimensions), "dimension"), _table(["dimension", "size", ""], dimensions)))
    ordinary = [v for v in group.variables if v.aggregation is None]
    if ordinary:
        cells = [[v.name, ", ".join(v.dimensions), v.dtype, _about(v)] for v in ordinary]
        table = _table(["variable", "dimensions", "type", ""], cells)
        parts.append(_fold(count_text(len(ordinary), "variable"), table))
    if group.attributes:
        parts.append(_attributes(group.attributes))
    for u in group.unreadable:
        rows = [[problem] for problem in u.problems]
        more = _fold(count_text(len(rows), "problem"), _table(["problem"], rows)) if rows else ""
        head = f'<span class="cfagg-name">{escape(u.name)}</span> cannot be read: {escape(u.reason)}'
        parts.append(f'<div class="cfagg-card"><div class="cfagg-head">{head}</div>{more}</div>')
    cards = (v for v in group.variables if v.aggregation is not None)
    parts += [variable_html(v, aggregations.get(variable_path(group.path, v.name))) for v in cards]
    return "".join(parts)


def variable_html(v: VariableSummary, aggregation: Aggregation | None) -> str:
    """Return one variable as HTML, an aggregation with its partition matrix."""
    dims = ", ".join(f"{d}: {n:,}" for d, n in zip(v.dimensions, v.shape, strict=True))
    head = f'<span class="cfagg-name">{escape(v.name)}</span> ({escape(dims)}) {_quiet(v.dtype)} {_quiet(_about(v))}'
    a = v.aggregation
    body = _tables(v, a) if a is not None else ""
    picture = "" if aggregation is None else svg(draw(aggregation, title=False), label=f"Partition matrix of {v.name}")
    return f'<div class="cfagg-card"><div class="cfagg-head">{head}</div>{picture}{body}</div>'


def _tables(v: VariableSummary, a: AggregationSummary) -> str:
    heads, (first, last) = partition_table(v, a)
    matrix = " × ".join(f"{n:,}" for n in a.matrix_shape) or "scalar"
    missing = f", {a.missing_count:,} declared missing" if a.missing_count else ""
    dialect = f", {a.dialect}" if a.dialect else ""
    axes = [[x.dimension, f"{x.size:,}", axis_text(x)] for x in a.axes]
    behind = a.layouts.count - len(a.layouts.last)
    numbered = [*enumerate(a.layouts.first), *enumerate(a.layouts.last, behind)]
    layouts = [(str(i), layout_text(x, v), count_text(x.partitions, "partition")) for i, x in numbered]
    files = [
        (OWN_FILE if r.file is None else r.file, count_text(r.partitions, "partition"), access_text(r))
        for r in (*a.references.first, *a.references.last)
    ]
    return "".join(
        [
            _fold(f"partition matrix: {matrix}{missing}{dialect}", _table(["dimension", "size", ""], axes)),
            _fold(count_text(a.partition_count, "partition"), _table(heads, [*first, *last], a.partitions)),
            _fold(count_text(a.layouts.count, "layout"), _table([], layouts, a.layouts)),
            _fold(count_text(a.references.count, "file"), _table([], files, a.references)),
            _attributes(v.attributes) if v.attributes else "",
        ]
    )


def _attributes(attributes: Mapping[str, object]) -> str:
    rows = [(name, attribute_text(value)) for name, value in attributes.items()]
    return _fold(count_text(len(rows), "attribute"), _table([], rows))


def _fold(title: str, body: str) -> str:
    return f'<details><summary>{escape(title)}</summary><div class="cfagg-body">{body}</div></details>'


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]], listing: Listing[Any] | None = None) -> str:
    """Return a table; `listing` gives the number and position of the omitted rows."""
    head = "<tr>" + "".join(cell_html(h, "th") for h in heads) + "</tr>" if any(heads) else ""
    lines = ["<tr>" + "".join(map(cell_html, row)) + "</tr>" for row in rows]
    if listing is not None and listing.omitted:
        width = len(rows[0])
        lines.insert(len(listing.first), f'<tr><td colspan="{width}">… {listing.omitted:,} more …</td></tr>')
    return f"<table>{head}{''.join(lines)}</table>"


def cell_html(text: str, tag: str = "td") -> str:
    """Return a cell of a table, with its text escaped."""
    return f"<{tag}{' class="cfagg-whole"' if len(text) <= _WHOLE else ''}>{escape(text)}</{tag}>"


def _about(v: VariableSummary) -> str:
    """Return the description of a variable and its units."""
    said = [v.attributes[k] for k in ("long_name", "standard_name") if isinstance(v.attributes.get(k), str)][:1]
    units = v.attributes.get("units")
    if isinstance(units, str) and units:
        said.append(f"[{units}]")
    return " ".join(said)


def _quiet(text: str) -> str:
    return f'<span class="cfagg-quiet">{escape(text)}</span>'
