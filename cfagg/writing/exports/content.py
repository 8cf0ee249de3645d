"""Exported content of a source: aggregations and large arrays as references, small ones and coordinates as values."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from cfagg.arrays.aggregated import AggregationReader
from cfagg.arrays.opening import open_reader
from cfagg.arrays.reader import Reader
from cfagg.arrays.slabs import SlabReader
from cfagg.arrays.source import Group, Source, Variable
from cfagg.arrays.stored import NetcdfReader
from cfagg.errors import UnsupportedError
from cfagg.findings.losses import Loss
from cfagg.formats.values import locate
from cfagg.formats.zarr.attributes import fill_of, group_attributes, with_members, without_odd_fill
from cfagg.model import Aggregation, Grid
from cfagg.storage.access import Access
from cfagg.storage.files import CONTEXT_SOURCE
from cfagg.writing.elsewhere import elsewhere
from cfagg.writing.exports.gridding import Block, cut_of
from cfagg.writing.exports.planned import Node, Planned, References
from cfagg.writing.exports.planning import Means, equal, plan_aggregation
from cfagg.writing.exports.tiles import tiles_of
from cfagg.writing.sources import DESCRIBING

__all__ = ["nodes_of"]

#: Maximum size in bytes of arrays that are written instead of referred to; the second for coordinates and the like.
_SMALL, _COORDINATE = 1 << 12, 1 << 23


def nodes_of(source: Source, access: Access, means: Means, word_size: int | None = None) -> Node:
    """Return the groups of a source with the exported arrays."""
    return _node(source, source.root, access, means, word_size)


def _node(source: Source, group: Group, access: Access, means: Means, word_size: int | None) -> Node:
    where = group.path.strip("/")
    attributes = group_attributes(group.attributes)
    arrays = [
        _array(source, group, f"{where}/{name}".lstrip("/"), one, access, means, word_size)
        for name, one in _variables(group)
    ]
    groups = tuple(_node(source, inner, access, means, word_size) for inner in group.groups.values())
    return Node(where, attributes, tuple(arrays), groups)


def _variables(group: Group) -> Iterator[tuple[str, Variable | Aggregation]]:
    yield from group.variables.items()
    yield from ((name, fact) for name, (_, fact) in group.facts.items())


def _array(
    source: Source,
    group: Group,
    path: str,
    variable: Variable | Aggregation,
    access: Access,
    means: Means,
    word_size: int | None,
) -> Planned:
    """Return the exported form of one variable."""
    if variable.name.startswith(".") or not {"\\", "\0"}.isdisjoint(variable.name) or "{{" in variable.name:
        raise UnsupportedError(f"{source.path}: the name {variable.name!r} cannot be used in a Zarr store")
    attributes = group.with_facts(variable.name, variable.attributes)
    reader = open_reader(source, path, access, word_size=word_size)
    if isinstance(variable, Aggregation):
        for name in ("units", "calendar"):
            if getattr(variable, name) is not None:
                attributes.setdefault(name, getattr(variable, name))
    if isinstance(reader, SlabReader) and reader.addresses is not None and reader.chunks is not None:
        reader = _of_fields(reader, variable, attributes)
    describes = _describes(group, variable)
    most = _COORDINATE if describes else _SMALL
    nbytes = math.prod(reader.shape) * max(reader.dtype.itemsize, 1)
    if nbytes > most and isinstance(reader, AggregationReader) and reader.dtype.kind in "iufS":
        return plan_aggregation(reader, path, attributes, means)
    notes: tuple[str, ...] = ()
    lost: tuple[Loss, ...] = ()
    if isinstance(variable, Variable):
        attributes, notes = with_members(attributes, variable.dtype, path)
        if _is_other(reader):
            # The values themselves are a loss, whatever stands for missing ones.
            attributes = {k: v for k, v in attributes.items() if k != "_FillValue"}
        dropped = means.on_loss == "drop"
        attributes, lost = without_odd_fill(attributes, reader.dtype, path, reader.label, drop=dropped)
    if (
        isinstance(reader, NetcdfReader)
        and nbytes > (most if len(reader.dims) < 2 else _SMALL)
        and not _is_other(reader)
    ):
        found = _stored(reader, path, attributes, means)
        if found is not None:
            return replace(found, dropped=lost)
    # Values that are in no file, such as joined bounds, are always written.
    most = most if isinstance(reader, AggregationReader | NetcdfReader) else _COORDINATE
    return replace(_held(reader, path, attributes, means, most, notes), dropped=lost)


def _of_fields(reader: SlabReader, variable: Variable | Aggregation, attributes: Mapping[str, Any]) -> Reader:
    """Return the reader of an aggregation of the fields of a PP file."""
    found = elsewhere(variable.name, variable.dims, reader, attributes, "NCA-0.1")
    if found.computed or reader.addresses is None:
        return reader
    path, _, _ = reader.addresses()
    return AggregationReader(replace(found.aggregation, source=path), Access(path))


def _describes(group: Group, variable: Variable | Aggregation) -> bool:
    """Return whether a variable is a coordinate, or is named by others as describing them."""
    words = {w for v in group.variables.values() for k in DESCRIBING for w in str(v.attributes.get(k, "")).split()}
    return variable.dims in ((), (variable.name,)) or variable.name in words


def _stored(reader: NetcdfReader, path: str, attributes: Mapping[str, Any], means: Means) -> Planned | None:
    """Return an array that refers to the values of a variable of the file itself, or `None` if that is impossible."""
    located = locate(reader.path, reader.variable, CONTEXT_SOURCE, reader.group)
    tiles = tiles_of(located, CONTEXT_SOURCE)
    if isinstance(tiles, str) or 0 in reader.shape:
        return None
    block = Block(tiles, (0,) * len(tiles.shape), tuple(range(len(tiles.shape))))
    cut = cut_of(tuple(np.array([0, n]) for n in reader.shape), [block])
    if cut.misfit((0,) * len(tiles.shape), block) is not None:
        return None
    grid = cut.grid()
    places = tiles.places(block.start, [c[0] for c in cut.lengths], grid.matrix_shape)
    fill = fill_of(attributes, reader.dtype, reader.label)
    unstored = fill
    if fill is None and means.zarr_format == 3:
        unstored = tiles.dtype.type(tiles.fill if tiles.fill is not None else 0) if tiles.dtype.kind in "iuf" else b""
    there = places.there
    as_filled = equal(tiles.fill, unstored, tiles.dtype)
    cell = np.arange(grid.size)
    count = int(there.sum())
    references = References(
        cell[there], np.zeros(count, np.int64), places.offset[there], places.length[there], (tiles.key,)
    )
    written = cell[:0] if as_filled else cell[~there]
    return Planned(
        path, reader.dims, reader.shape, tiles.dtype, attributes, fill, unstored, grid, tiles.codecs, references,
        written, reader.read, 1,
    )  # fmt: skip


def _held(
    reader: Reader, path: str, attributes: Mapping[str, Any], means: Means, most: int, notes: tuple[str, ...]
) -> Planned:
    """Return an array whose values are written."""
    dtype = reader.dtype
    read = reader.with_gaps().read if isinstance(reader, AggregationReader) else reader.read
    grid = Grid.regular(reader.shape, [max(n, 1) for n in reader.shape])
    nbytes = math.prod(reader.shape) * dtype.itemsize
    losses: tuple[Loss, ...] = ()
    is_other = _is_other(reader)
    if is_other or (nbytes > most and means.on_loss != "materialise"):
        why = "they are neither numbers nor text" if is_other else "no reference can express how they are stored"
        losses = (Loss(path, None, "values", f"{nbytes:,} bytes of type {dtype.name}", why),)
    fill = fill_of(attributes, dtype, reader.label)
    unstored = fill if fill is not None or means.zarr_format == 2 else _zero(dtype)
    return Planned(
        path, reader.dims, reader.shape, dtype, attributes, fill, unstored, grid, (), References.none(),
        np.arange(grid.size), read, 0, losses, notes, writable=not is_other,
    )  # fmt: skip


def _is_other(reader: Reader) -> bool:
    """Return whether values are neither numbers nor text, such as compounds, which no target has."""
    dtype = reader.dtype
    return dtype.kind == "V" or (
        dtype.kind == "O" and (dtype.metadata or {"element_type": str}).get("element_type") is not str
    )


def _zero(dtype: np.dtype[Any]) -> Any:
    return "" if dtype.kind in "OUT" else np.zeros((), dtype)[()]
