"""A summary as text for a terminal."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from cfagg.display.escape import printable
from cfagg.display.sizes import count_text
from cfagg.display.summary import (
    ROWS,
    AggregationSummary,
    AxisSummary,
    FileSummary,
    GroupSummary,
    LayoutSummary,
    Listing,
    PartitionSummary,
    ReferenceSummary,
    VariableSummary,
)

__all__ = [
    "OWN_FILE", "access_text", "attribute_text", "axis_text", "columns", "count_text", "entry_lines", "file_lines",
    "layout_text", "partition_table", "reference_lines", "shortened",
]  # fmt: skip

#: Name of the aggregation file itself among its references.
OWN_FILE = "(this file)"

#: Attributes longer than this are cut; `--json` prints them whole.
_LONGEST = 100


def file_lines(summary: FileSummary, *, attributes: bool = False) -> Iterator[str]:
    """Yield the lines, safe for a terminal, that show a file."""
    yield f"{printable(summary.path)} ({printable(summary.format)})"
    for group in summary.groups:
        if group.path != "/":
            yield ""
            yield f"group {printable(group.path)}"
        yield from _group_lines(group, attributes=attributes)


def variable_lines(variable: VariableSummary, *, attributes: bool = False) -> Iterator[str]:
    """Yield the lines, safe for a terminal, that show one aggregation; an ordinary variable takes one line."""
    yield _variable_line(variable)
    if attributes:
        yield from _attribute_lines(variable.attributes, "  ")
    a = variable.aggregation
    if a is None:
        return
    matrix = " × ".join(f"{n:,}" for n in a.matrix_shape) or "scalar"
    missing = f", {a.missing_count:,} of them declared missing" if a.missing_count else ""
    if a.dialect:
        yield f"  convention: {printable(a.dialect)}"
    yield f"  partition matrix: {matrix}, {count_text(a.partition_count, 'partition')}{missing}"
    yield from columns([[printable(x.dimension), f"{x.size:,}", axis_text(x)] for x in a.axes], "    ", right={1})
    yield "  partitions:"
    heads, rows = partition_table(variable, a)
    yield from _listing(Listing(a.partitions.count, *rows), "    ", heads)
    yield "  layouts:"
    cells = _map(a.layouts, lambda i, x: [str(i), layout_text(x, variable), count_text(x.partitions, "partition")])
    yield from _listing(cells, "    ")
    yield f"  references: {count_text(a.references.count, 'file')}"
    yield from _listing(_map(a.references, lambda _, x: _reference_cells(x)), "    ")


def reference_lines(found: Iterable[ReferenceSummary]) -> Iterator[str]:
    """Yield one line per reference, fields separated by tabs: access, partitions, file."""
    for r in found:
        yield "\t".join([access_text(r), str(r.partitions), OWN_FILE if r.file is None else printable(r.file)])


def access_text(reference: ReferenceSummary) -> str:
    """Return the access to a reference in words: ``inside``, or what must be allowed."""
    if reference.access is None:
        return ""
    if reference.access == "needs allow":
        return f"needs --allow {shlex.quote(printable(reference.allow or ''))}"
    return reference.access


def axis_text(axis: AxisSummary) -> str:
    """Return the number and the sizes of the partitions along one dimension."""
    runs = [f"{size:,}" if repeat == 1 else f"{repeat:,} × {size:,}" for size, repeat in axis.sizes.first]
    if axis.sizes.omitted:
        runs.append("…")
    runs += [f"{size:,}" if repeat == 1 else f"{repeat:,} × {size:,}" for size, repeat in axis.sizes.last]
    direction = "" if axis.increasing else " (decreasing)"
    if axis.partitions == 1:
        return f"1 partition{direction}"
    return f"{axis.partitions:,} partitions: {', '.join(runs)}{direction}"


def layout_text(layout: LayoutSummary, variable: VariableSummary) -> str:
    """Return how a layout differs from the master array."""
    said = []
    if layout.dimensions != variable.dimensions or layout.reversed:
        turned = [f"{d} (reversed)" if d in layout.reversed else d for d in layout.dimensions]
        said.append(f"dimensions {', '.join(turned) or 'none'}")
    for name in (*("units", "calendar", "dtype", "fill", "scale_factor", "add_offset"), "packing", "format", "endian"):
        value = getattr(layout, name)
        if value is not None:
            said.append(f"{name} {value}")
    if layout.shape is not None:
        said.append(f"whole sub-array {' × '.join(map(str, layout.shape)) or 'scalar'}")
    return printable("; ".join(said) or "as the master array")


def partition_table(
    variable: VariableSummary, aggregation: AggregationSummary
) -> tuple[list[str], tuple[tuple[list[str], ...], tuple[list[str], ...]]]:
    """Return column heads and cells of the first and last partitions, without empty columns.

    Locations are given along the dimensions that are partitioned.
    """
    shown = [*aggregation.partitions.first, *aggregation.partitions.last]
    cut = [d for d, n in enumerate(aggregation.matrix_shape) if n > 1]
    several = aggregation.layouts.count > 1
    optional = [
        name for name in ("address", "offset", "part", "value") if any(getattr(p, name) is not None for p in shown)
    ]
    heads = ["index", *(printable(variable.dimensions[d]) for d in cut), "file"]
    heads += [{"address": "variable"}.get(name, name) for name in optional] + ["layout"] * several

    def cells(p: PartitionSummary) -> list[str]:
        row = [f"({', '.join(map(str, p.index))})", *(f"{p.location[d][0]}:{p.location[d][1]}" for d in cut)]
        file = "" if p.value is not None else OWN_FILE if p.file is None else printable(p.file)
        row.append("missing" if p.missing else file)
        for name in optional:
            value = getattr(p, name)
            row.append("" if value is None else printable(str(value)))
        return row + [str(p.layout)] * several

    first, last = aggregation.partitions.first, aggregation.partitions.last
    return heads, (tuple(map(cells, first)), tuple(map(cells, last)))


def attribute_text(value: Any) -> str:
    """Return an attribute's value in one line, truncated if it is long."""
    if isinstance(value, str):
        text = value[: _LONGEST + 1].replace("'", "\\'")
        cut = len(value) > _LONGEST
        return f"'{printable(text[:_LONGEST])}…" if cut else f"'{printable(text)}'"
    if isinstance(value, np.ndarray) and value.ndim:
        few = ", ".join(str(v) for v in value.flat[:8])
        return printable(few) + (f", … ({value.size:,} values)" if value.size > 8 else "")
    if isinstance(value, list | tuple):
        return ", ".join(attribute_text(v) for v in value[:8]) + (", …" if len(value) > 8 else "")
    return printable(str(value)[: 2 * _LONGEST])


def _group_lines(group: GroupSummary, *, attributes: bool) -> Iterator[str]:
    if group.dimensions:
        yield ""
        yield "dimensions:"
        cells = [[printable(d.name), f"{d.size:,}", "unlimited" if d.unlimited else ""] for d in group.dimensions]
        yield from columns(cells, "  ", right={1})
    ordinary = [v for v in group.variables if v.aggregation is None]
    if ordinary or group.private:
        yield ""
        yield "variables:"
        for v in ordinary:
            yield "  " + _variable_line(v)
            if attributes:
                yield from _attribute_lines(v.attributes, "    ")
        if group.private:
            yield f"  ({count_text(len(group.private), 'private variable')}: values of partitions)"
    for v in group.variables:
        if v.aggregation is not None:
            yield ""
            lines = variable_lines(v, attributes=attributes)
            yield "aggregation " + next(lines)
            yield from lines
    for u in group.unreadable:
        yield ""
        yield f"variable {printable(u.name)} cannot be read: {printable(u.reason)}"
        cells = [[printable(problem)] for problem in u.problems]
        yield from _listing(Listing.of(len(cells), cells.__getitem__, ROWS), "  ")
    if attributes and group.attributes:
        yield ""
        yield "attributes:"
        yield from _attribute_lines(group.attributes, "  ")


def _variable_line(v: VariableSummary) -> str:
    dims = ", ".join(f"{printable(d)}: {n:,}" for d, n in zip(v.dimensions, v.shape, strict=True))
    line = f"{printable(v.name)} ({dims}) {v.dtype}"
    said = [v.attributes[k] for k in ("long_name", "standard_name") if isinstance(v.attributes.get(k), str)][:1]
    units = v.attributes.get("units")
    if isinstance(units, str) and units:
        said.append(f"[{units}]")
    return " ".join([line, *(printable(s[:_LONGEST]) for s in said)])


def _attribute_lines(attributes: dict[str, Any], indent: str) -> Iterator[str]:
    for name, value in attributes.items():
        yield f"{indent}{printable(name)} = {attribute_text(value)}"


def _reference_cells(r: ReferenceSummary) -> list[str]:
    name = OWN_FILE if r.file is None else printable(r.file)
    return [name, count_text(r.partitions, "partition"), access_text(r)]


def _map(listing: Listing[Any], cells: Any) -> Listing[list[str]]:
    """Return a listing of rows of cells; members are passed with their index in the whole list."""
    behind = listing.count - len(listing.last)
    return Listing(
        listing.count,
        tuple(cells(i, x) for i, x in enumerate(listing.first)),
        tuple(cells(behind + i, x) for i, x in enumerate(listing.last)),
    )


def _listing(listing: Listing[list[str]], indent: str, heads: Sequence[str] = ()) -> Iterator[str]:
    """Yield the rows of a shortened list, with a line that counts those left out."""
    rows = [*([list(heads)] if heads else []), *listing.first, *listing.last]
    lines = list(columns(rows, indent))
    cut = len(lines) - len(listing.last)
    yield from lines[:cut]
    if listing.omitted:
        yield f"{indent}… {listing.omitted:,} more …"
    yield from lines[cut:]


def shortened(count: int, most: int | None) -> list[int | None]:
    """Return which of `count` lines are shown: all, or the first and the last, with `None` for those omitted."""
    if most is None or count <= most:
        return list(range(count))
    return [*range((most + 1) // 2), None, *range(count - most // 2, count)]


def entry_lines(entries: Sequence[tuple[str, object]]) -> list[str]:
    """Return a line for each name and its description."""
    return list(columns([(name, str(said)) for name, said in entries], "  "))


def columns(
    rows: Sequence[Sequence[str]], indent: str, right: frozenset[int] | set[int] = frozenset()
) -> Iterator[str]:
    """Yield rows with aligned columns, numbers to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (c.rjust(w) if i in right else c.ljust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True)))
        yield (indent + "  ".join(cells)).rstrip()
