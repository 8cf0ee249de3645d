"""The content of a file as plain data, from which it is displayed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cfagg.arrays.stated_formats import is_read
from cfagg.display.names import dtype_name, variable_path
from cfagg.display.summary import (
    ROWS,
    AggregationSummary,
    AxisSummary,
    DimensionSummary,
    FileSummary,
    GroupSummary,
    LayoutSummary,
    Listing,
    PartitionSummary,
    ReferenceSummary,
    UnreadableSummary,
    VariableSummary,
)
from cfagg.errors import AccessError, UnsupportedError
from cfagg.formats.opening import KERCHUNK
from cfagg.model import Aggregation, Grid, Layout, Partitions
from cfagg.storage.access import Access

if TYPE_CHECKING:
    from cfagg.arrays.source import Group, Source

__all__ = ["aggregations", "references", "summarise", "summarise_aggregation"]


def summarise(
    source: Source, *, allow: Sequence[str] = (), rows: int | None = ROWS, variables: Sequence[str] = ()
) -> FileSummary:
    """Summarise a file's metadata, or some of its variables, as plain data; no other files are opened."""
    access = Access(source.path, allow)
    chosen = _chosen(source, variables)
    groups = (_group(g, access, rows, chosen) for g in source.root.walk() if not chosen or g.path in _homes(chosen))
    return FileSummary(source.path, source.format, tuple(groups))


def aggregations(source: Source, variables: Sequence[str] = ()) -> dict[str, Aggregation]:
    """Return the aggregations of a file, or those among some variables, by their paths in file order.

    In a store of references, each array is an aggregation of its chunks.
    """
    chosen = _chosen(source, variables)
    if source.format == KERCHUNK:
        from cfagg.arrays.reference_source import aggregation_of

        paths = (
            variable_path(g.path, n)
            for g in source.root.walk()
            for n in g.variables
            if not chosen or (g.path, n) in chosen
        )
        return {path: aggregation_of(source, path) for path in paths}
    return {
        variable_path(group.path, name): v
        for group in source.root.walk()
        for name, v in group.variables.items()
        if isinstance(v, Aggregation) and (not chosen or (group.path, name) in chosen)
    }


def summarise_aggregation(aggregation: Aggregation) -> VariableSummary:
    """Return an aggregation as plain data; without a file, access is not included.

    >>> from cfagg.model import Partitions
    >>> partitions = Partitions.build(2, file=[0, 1], files=["a.nc", "b.nc"], layouts=[Layout(("time",))])
    >>> array = Aggregation("tas", ("time",), (48,), "f4", Grid([[0, 12, 48]]), partitions)
    >>> summarise_aggregation(array).aggregation.axes[0].sizes.first
    ((12, 1), (36, 1))
    """
    access = Access(aggregation.source) if aggregation.source else None
    return _aggregation(aggregation, access, ROWS)


def references(aggregation: Aggregation, access: Access | None) -> Iterator[ReferenceSummary]:
    """Yield every distinct file to which an aggregation refers, its own first, with its access, without opening any."""
    for partitions in (aggregation.partitions, *aggregation.partitions.versions):
        codes, counts = _file_counts(partitions)
        formats = _unread_formats(partitions)
        for code, count in zip(codes.tolist(), counts.tolist(), strict=True):
            yield _reference(partitions, access, code, count, formats.get(code))


def _chosen(source: Source, variables: Sequence[str]) -> set[tuple[str, str]]:
    """Return group path and name of the requested variables."""
    found = (source.find(path) for path in variables)
    return {(group.path, variable.name) for group, variable in found}


def _homes(chosen: set[tuple[str, str]]) -> set[str]:
    return {group for group, _ in chosen}


def _group(group: Group, access: Access, rows: int | None, chosen: set[tuple[str, str]]) -> GroupSummary:
    # Private variables, and what is known of fragments, are only shown if they are requested by name.
    facts = {name: fact for name, (_, fact) in group.facts.items()}
    known = {**group.variables, **facts, **group.private} if chosen else group.variables
    variables = tuple(
        _aggregation(v, access, rows)
        if isinstance(v, Aggregation)
        else VariableSummary(v.name, v.dims, v.shape, dtype_name(v.dtype), dict(v.attributes))
        for v in known.values()
        if not chosen or (group.path, v.name) in chosen
    )
    return GroupSummary(
        path=group.path,
        attributes=dict(group.attributes),
        dimensions=tuple(
            DimensionSummary(n, size, n in group.unlimited) for n, size in group.public_dimensions.items()
        ),
        variables=variables,
        private=tuple(group.private),
        unreadable=tuple(
            UnreadableSummary(name, error.message, tuple(map(str, error.problems)))
            for name, error in group.lacking.items()
            if not chosen
        ),
    )


def _aggregation(aggregation: Aggregation, access: Access | None, rows: int | None) -> VariableSummary:
    p, grid = aggregation.partitions, aggregation.grid
    increasing = aggregation.directions
    flags = increasing if isinstance(increasing, tuple) else ()
    files = list(references(aggregation, access)) if p.versions else None
    codes, per_file = _file_counts(p)
    formats = _unread_formats(p)
    per_layout = np.bincount(p.layout, minlength=len(p.layouts)).tolist()
    attributes = dict(aggregation.attributes)
    # The model keeps these two separate from the other attributes.
    for name, value in (("units", aggregation.units), ("calendar", aggregation.calendar)):
        if value is not None:
            attributes.setdefault(name, value)
    summary = AggregationSummary(
        partition_count=len(p),
        missing_count=len(p) - int(np.count_nonzero(p.present)),
        matrix_shape=grid.matrix_shape,
        axes=tuple(
            AxisSummary(name, size, cells, bool(up), _runs(grid, d, rows))
            for d, (name, size, cells, up) in enumerate(
                zip(aggregation.dims, aggregation.shape, grid.matrix_shape, flags, strict=True)
            )
        ),
        partitions=Listing.of(len(p), lambda i: _partition(aggregation, i), rows),
        layouts=Listing.of(len(p.layouts), lambda i: _layout(p.layouts[i], per_layout[i]), rows),
        references=Listing.of(
            len(codes) if files is None else len(files),
            lambda i: (
                _reference(p, access, int(codes[i]), int(per_file[i]), formats.get(int(codes[i])))
                if files is None
                else files[i]
            ),
            rows,
        ),
        dialect=aggregation.dialect,
    )
    return VariableSummary(
        aggregation.name, aggregation.dims, aggregation.shape, dtype_name(aggregation.dtype), attributes, summary
    )


def _file_counts(p: Partitions) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return the file codes in use, ascending, and the number of present partitions in each."""
    counts = np.bincount(p.file[p.present & (p.value < 0)] + 1, minlength=len(p.files) + 1)
    codes = np.flatnonzero(counts)
    return codes - 1, counts[codes]


def _unread_formats(p: Partitions) -> dict[int, str]:
    """Return the formats that cannot be read, by the codes of the files with partitions in them."""
    unread = {
        k: x.format
        for k, x in enumerate(p.layouts)
        if x.format is not None and not is_read(x.format) and x.format != KERCHUNK
    }
    if not unread:
        return {}
    found = p.present & np.isin(p.layout, list(unread))
    codes, first = np.unique(p.file[found], return_index=True)
    layouts = p.layout[found][first]
    return {c: unread[k] for c, k in zip(codes.tolist(), layouts.tolist(), strict=True)}


def _runs(grid: Grid, d: int, rows: int | None) -> Listing[tuple[int, int]]:
    """Return the sizes of the partitions along one dimension as runs of equal sizes."""
    edges = np.minimum(grid.edges[d], grid.shape[d])
    sizes = np.diff(edges)
    starts = np.flatnonzero(np.r_[True, sizes[1:] != sizes[:-1]]) if sizes.size else np.empty(0, np.int64)
    repeats = np.diff(np.r_[starts, sizes.size])
    return Listing.of(len(starts), lambda i: (int(sizes[starts[i]]), int(repeats[i])), rows)


def _partition(aggregation: Aggregation, i: int) -> PartitionSummary:
    p, grid = aggregation.partitions, aggregation.grid
    index = grid.index(i)
    offset = int(p.offset[i])
    return PartitionSummary(
        index=index,
        location=grid.extent(index),
        file=p.file_name(i),
        address=p.address_name(i),
        offset=None if offset < 0 else offset,
        part=p.part_text(i),
        layout=int(p.layout[i]),
        missing=not bool(p.present[i]),
        value=_value(p, i),
    )


def _layout(layout: Layout, partitions: int) -> LayoutSummary:
    return LayoutSummary(
        dimensions=layout.dims,
        reversed=tuple(d for d, flipped in zip(layout.dims, layout.flipped, strict=True) if flipped),
        units=layout.units,
        calendar=layout.calendar,
        dtype=layout.dtype,
        fill=layout.fill,
        scale_factor=layout.scale_factor,
        add_offset=layout.add_offset,
        packing=layout.packing,
        format=layout.format,
        shape=layout.shape,
        partitions=partitions,
        endian=layout.endian,
    )


def _value(partitions: Partitions, i: int) -> Any:
    """Return the value that fills partition `i`, or `None` if a fragment does."""
    code = int(partitions.value[i])
    if code < 0:
        return None
    value = partitions.values[code]
    return "missing" if value is np.ma.masked else value.item() if isinstance(value, np.generic) else value


def _reference(
    partitions: Partitions, access: Access | None, code: int, count: int, unread: str | None
) -> ReferenceSummary:
    name = None if code < 0 else str(partitions.files[code])
    if access is None:
        return ReferenceSummary(name, count, None)
    try:
        access.resolve(name)
    except UnsupportedError as error:
        return ReferenceSummary(name, count, "refused", reason=error.message)
    except AccessError as error:
        # It is excluded only by its location if a policy that allows more admits it.
        remedy = None if name is None else access.remedy(name)
        if remedy is None:
            return ReferenceSummary(name, count, "refused", reason=error.message)
        if unread is not None:
            return _not_readable(name, count, unread)
        return ReferenceSummary(name, count, "needs allow", allow=remedy)
    if unread is not None:
        return _not_readable(name, count, unread)
    return ReferenceSummary(name, count, "inside")


def _not_readable(name: str | None, count: int, unread: str) -> ReferenceSummary:
    reason = (
        f"the format {unread!r} cannot be read; expected netCDF: convert the file to netCDF and refer to the result"
    )
    return ReferenceSummary(name, count, "not readable", reason=reason)
