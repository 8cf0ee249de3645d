"""HTML of the parts of the data model for notebooks: grids, layouts, tables of partitions, and findings."""

from __future__ import annotations

from dataclasses import fields

from cfagg.api.summarising import summarise_aggregation
from cfagg.display.facts import facts_html
from cfagg.display.html import page, variable_html
from cfagg.findings.finding import Finding
from cfagg.model import Aggregation, Grid, Layout, Partitions, Regular

__all__ = ["aggregation_html", "model_html"]

#: Maximum number of partitions and edges listed; pages list fewer lines than a table may have.
_LISTED = 201


def model_html(part: object) -> str:
    """Return an aggregation, a part of one or a finding as one HTML element.

    >>> "2 × 1" in model_html(Grid([[0, 12, 48], [0, 64]]))
    True
    """
    if isinstance(part, Aggregation):
        return aggregation_html(part)
    if isinstance(part, Finding):
        found = (("severity", part.severity), ("where", part.where), ("found", part.message))
        return facts_html(f"Finding {part.code}", found)
    if isinstance(part, Grid):
        return _grid(part)
    if isinstance(part, Partitions):
        return _partitions(part)
    if isinstance(part, Layout):
        named = [(f.name, getattr(part, f.name)) for f in fields(part) if f.name != "flipped"]
        flipped = ", ".join(dim for dim, turned in zip(part.dims, part.flipped, strict=True) if turned)
        return facts_html(
            "Layout", [(n, ", ".join(v) if n == "dims" else v) for n, v in named] + [("flipped", flipped)]
        )
    return facts_html(type(part).__name__, [("is", repr(part))])


def _grid(grid: Grid) -> str:
    facts = (
        ("shape", " × ".join(f"{n:,}" for n in grid.shape) or "scalar"),
        ("cells", " × ".join(f"{n:,}" for n in grid.matrix_shape) or "1"),
    )
    lists = []
    for d, axis in enumerate(grid.axes):
        if isinstance(axis, Regular):
            lists.append((f"dimension {d}", [f"every {axis.chunk:,} of {axis.length:,}"]))
        else:
            lists.append((f"edges along dimension {d}", [f"{e:,}" for e in axis.tolist()]))
    return facts_html("Grid", facts, lists)


def _partitions(partitions: Partitions) -> str:
    count = len(partitions)
    missing = count - int(partitions.present.sum())
    facts = (
        ("partitions", f"{count:,}"),
        ("declared missing", f"{missing:,}" if missing else None),
        ("files", f"{len(partitions.files):,}"),
        ("variables", f"{len(partitions.addresses):,}"),
        ("layouts", f"{len(partitions.layouts):,}"),
    )
    files = [partitions.files[i] for i in range(min(len(partitions.files), _LISTED))]
    return facts_html("Partitions", facts, [("files", files), ("layouts", partitions.layouts)])


def aggregation_html(aggregation: Aggregation) -> str:
    """Return one aggregation as HTML: its picture, and partitions, layouts and references that can be expanded.

    >>> from cfagg.model import Grid, Layout, Partitions
    >>> partitions = Partitions.build(1, file=0, files=["<b>.nc"], layouts=[Layout(("time",))])
    >>> page = aggregation_html(Aggregation("tas", ("time",), (9,), "f4", Grid([[0, 9]]), partitions))
    >>> "&lt;b&gt;.nc" in page, "<b>" in page
    (True, False)
    """
    return page(variable_html(summarise_aggregation(aggregation), aggregation))
