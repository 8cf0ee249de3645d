"""Aggregations detached from the file that they were read from: slices, and arrays of that file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.arrays.aggregated import AggregationReader
from cfagg.arrays.netcdf_source import open_source
from cfagg.arrays.subarray import Indices
from cfagg.conventions import part
from cfagg.conventions.encoded import stored
from cfagg.model import Aggregation, Grid, Layout, Partitions, Strings

__all__ = ["Box", "extract", "outside"]

#: Start and stop along each dimension.
Box = tuple[tuple[int, int], ...]


def outside(reader: AggregationReader, replaced: str) -> Aggregation | None:
    """Return an aggregation that refers to arrays of its own file by name, or `None` if that file is replaced."""
    aggregation = reader.aggregation
    if replaced == reader.access.resolve(None) and any(
        (p.file[p.present & (p.value < 0)] < 0).any()
        for p in (aggregation.partitions, *aggregation.partitions.versions)
    ):
        return None
    return replace(aggregation, partitions=_outside(reader, aggregation, aggregation.partitions))


def _outside(reader: AggregationReader, aggregation: Aggregation, partitions: Partitions) -> Partitions:
    versions = tuple(_outside(reader, aggregation, other) for other in partitions.versions)
    own = stored(replace(aggregation, partitions=partitions)) & (partitions.file < 0)
    if not own.any():
        return replace(partitions, versions=versions)
    addresses = list(partitions.addresses)
    codes = np.array(partitions.address)
    if reader.group != "/":
        source = open_source(reader.access.parent)
        for code in np.unique(codes[own]).tolist():
            group, found = source.find_from(reader.group, addresses[code])
            codes[own & (partitions.address == code)] = len(addresses)
            addresses.append(f"{group.path.rstrip('/')}/{found.name}")
    return replace(
        partitions,
        file=np.where(own, len(partitions.files), partitions.file).astype(np.int32),
        files=Strings([*partitions.files, str(reader.access.resolve(None))]),
        address=codes,
        addresses=Strings(addresses),
        versions=versions,
    )


def extract(aggregation: Aggregation, box: Box, *, parts: bool) -> Aggregation | None:
    """Return the aggregation of a box, or `None` if it cuts partitions and sub-array `parts` are not allowed."""
    grid = aggregation.grid
    cells, edges = [], []
    for (start, stop), given, n in zip(box, grid.edges, grid.shape, strict=True):
        own = np.minimum(given, n)
        if start >= stop:
            return None
        first, last = int(np.searchsorted(own, start, "right")) - 1, int(np.searchsorted(own, stop))
        if not parts and (own[first] != start or own[last] != stop):
            return None
        cells.append(np.arange(first, last))
        edges.append(np.clip(own[first : last + 1], start, stop))
    inner = Grid([e - e[0] for e in edges], [b - a for a, b in box])
    rows = np.ravel_multi_index(np.ix_(*cells), grid.matrix_shape).ravel() if cells else np.zeros(1, np.int64)
    partitions = aggregation.partitions.take(rows)
    made = replace(
        aggregation,
        shape=inner.shape,
        grid=inner,
        partitions=partitions,
        terms={name: values[np.ix_(*cells)] for name, values in aggregation.terms.items()},
    )
    ends = zip(box, grid.edges, grid.shape, strict=True)
    if all(start in edges_ and (stop in edges_ or stop == n) for (start, stop), edges_, n in ends):
        return made
    return _cut(aggregation, made, cells, edges)


def _cut(
    aggregation: Aggregation, made: Aggregation, cells: Sequence[npt.NDArray[Any]], edges: Sequence[npt.NDArray[Any]]
) -> Aggregation | None:
    """Return an aggregation in which partitions cut by a box are parts of their sub-arrays."""
    if made.partitions.versions or made.dialect in ("CF-1.13", "CFA-0.6.2"):
        return None  # only the files of the fragments give their dimensions
    partitions = made.partitions
    whole = [np.minimum(g, n) for g, n in zip(aggregation.grid.edges, aggregation.shape, strict=True)]
    spans = [np.stack([g[c], g[c + 1], e[:-1], e[1:]], 1) for g, c, e in zip(whole, cells, edges, strict=True)]
    layouts: dict[Layout, int] = {layout: k for k, layout in enumerate(partitions.layouts)}
    texts: dict[str, int] = {text: k for k, text in enumerate(partitions.parts)}
    codes, chosen = np.array(partitions.layout), np.array(partitions.part)
    known: dict[Any, tuple[int, int]] = {}
    for row in np.flatnonzero(stored(made)).tolist():
        index = np.unravel_index(row, made.grid.matrix_shape)
        span = [spans[d][int(k)].tolist() for d, k in enumerate(index)]
        cut = tuple((c - a, d - a, b - a) for a, b, c, d in span)
        if all(low == 0 and high == n for low, high, n in cut):
            continue
        key = (cut, int(codes[row]), int(chosen[row]))
        if key not in known:
            text = None if chosen[row] < 0 else partitions.parts[int(chosen[row])]
            layout, text = _part(partitions.layouts[int(codes[row])], aggregation.dims, cut, text)
            known[key] = layouts.setdefault(layout, len(layouts)), texts.setdefault(text, len(texts))
        codes[row], chosen[row] = known[key]
    table = Partitions.build(
        len(partitions),
        **{n: getattr(partitions, n) for n in ("file", "files", "address", "addresses", "offset", "present")},
        value=partitions.value,
        values=partitions.values,
        layout=codes,
        part=chosen,
        layouts=layouts,
        parts=texts,
    )
    return replace(made, partitions=table.take(np.arange(len(table))))


def _part(
    layout: Layout, dims: Sequence[str], cut: Sequence[tuple[int, int, int]], text: str | None
) -> tuple[Layout, str]:
    """Return the layout and the part of a partition that a box selects: start, stop and size by dimension."""
    spans = dict(zip(dims, cut, strict=True))
    shape = layout.shape or tuple(spans.get(d, (0, 1, 1))[2] for d in layout.dims)
    whole: Sequence[Indices] = [range(n) for n in shape] if text is None else part.parse(text, shape)
    taken = []
    for dim, flip, indices in zip(layout.dims, layout.flipped, whole, strict=True):
        low, high, n = spans.get(dim, (0, 1, 1))
        taken.append(indices[n - high : n - low] if flip else indices[low:high])
    return replace(layout, shape=shape), part.canonical(taken, shape)
