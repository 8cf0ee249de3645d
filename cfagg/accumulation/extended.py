"""What is written to a group that is extended in its place: chunks of its arrays, and rows of its two tables.

The rows describe what was written this time, and what has become final with it; see `cfagg.accumulation.growing`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.accumulation.build_plan import Plan
from cfagg.accumulation.group import Group
from cfagg.accumulation.growing import GrowingTable, NotInPlaceError, Rows, keys, moved, split
from cfagg.accumulation.growth_tables import (
    Related,
    next_standing,
    own_row_counts,
    related_rows,
    table_spec,
    tables_known,
    write_table,
)
from cfagg.accumulation.integrity import BUILD, document_crc, numbered
from cfagg.accumulation.layout import ArraySpec, Layout
from cfagg.accumulation.writing import Basis, Target, array_documents, chunk_key, codec_of
from cfagg.conventions.accumulation_record import Checks, Growth
from cfagg.formats.zarr import ZarrArray
from cfagg.formats.zarr.checksums import crc32c
from cfagg.formats.zarr.creating import document_bytes

__all__ = ["Writes", "extended_tables"]

Axes = tuple[int, ...]
Int64 = npt.NDArray[np.int64]


class Writes(Target):
    """What is written to an existing group; it is kept in memory until all of it is known."""

    in_place = True

    def __init__(self, group: Group, layout: Layout) -> None:
        extra = group.extra
        assert extra is not None  # noqa: S101  (the group grows)
        codec = codec_of(next(iter(group.sums.values())).data.document)
        super().__init__(Path(group.folder), codec, group.source.zarr_format, extra.checks.build)
        self.objects: dict[str, bytes] = {}
        #: CRC-32C of the chunks that are written, by array and number.
        self.crcs: dict[str, dict[int, int]] = {}
        self._before = {name: place[2] for name, place in extra.checks.places.items()}
        self._before |= {name: own[0] for name, own in extra.checks.own.items()}
        self._old = {array.name: array for sums in group.sums.values() for array in sums.each()}
        #: Existing statistics by name: the arrays of their level, and the kind among these.
        self._statistics = {
            name: (level.arrays, kind)
            for level, kind, name in (
                (level, entry_kind, entry_name)
                for record in extra.statistics
                for level in group.statistics[tuple(d for d in group.dims if d in record.dims)]
                if level.level == record.level
                for entry_kind, entry_name in record.arrays.items()
            )
        }
        self._grows = {spec.name: layout.grows for spec, _, _ in layout.growing()}

    def keep(self, spec: ArraySpec) -> None:
        """Leave an array as it is."""
        if spec.name not in self._before:
            raise NotInPlaceError("a level of its statistics is missing")
        self.metadata[spec.name] = self._before[spec.name]

    def _there(self, name: str) -> ZarrArray | None:
        """Return the existing array of a name, `None` if it is new."""
        if name in self._statistics:
            arrays, kind = self._statistics[name]
            return arrays[kind]
        return self._old.get(name)

    def create(self, spec: ArraySpec) -> None:
        """Write the metadata of an array, unless they are unchanged."""
        attributes = {**spec.attributes, BUILD: self.build}
        documents = array_documents(replace(spec, attributes=attributes), self.codec, self.zarr_format)
        self.documents[spec.name] = documents
        document = documents["zarr.json" if self.zarr_format == 3 else ".zarray"]
        self.metadata[spec.name] = document_crc(document, attributes, attributes["_ARRAY_DIMENSIONS"])
        old = self._there(spec.name)
        if old is not None and not self._same(spec, old):
            raise NotInPlaceError(f"{spec.name} is stored otherwise")
        if self._before.get(spec.name) != self.metadata[spec.name]:
            for name, each in documents.items():
                self.objects[f"{spec.name}/{name}"] = document_bytes(each)

    def take(self, spec: ArraySpec, index: Axes, old: ZarrArray) -> None:
        """Leave a chunk as it is."""

    def _store(self, spec: ArraySpec, index: Axes, encoded: Any) -> None:
        data = bytes(encoded)
        number = numbered(index, spec.grid, self._grows.get(spec.name))
        self.crcs.setdefault(spec.name, {})[number] = crc32c(data)
        self.objects[f"{spec.name}/{chunk_key(index, self.zarr_format)}"] = data


def extended_tables(
    group: Group,
    plan: Plan,
    written: Mapping[str, int],
    writes: Writes,
    seen: Int64,
    checksums: Int64,
    related: tuple[Related, ...],
    infinite: int,
) -> tuple[Checks, Growth]:
    """Append to both tables, and return the checks and the growth record of the group."""
    extra, layout, array, basis = group.extra, plan.layout, plan.array, plan.basis
    assert extra is not None  # noqa: S101  (the group grows)
    assert group.table is not None  # noqa: S101
    assert basis is not None  # noqa: S101
    assert extra.growth is not None  # noqa: S101
    axis = basis.axis
    ids = {name: extra.checks.places[name][0] for name in written if name in extra.checks.places}
    new = max((place[0] for place in extra.checks.places.values()), default=-1) + 1
    for name in written:
        if name not in ids:
            ids[name], new = new, new + 1
    metadata = {name: place[2] for name, place in extra.checks.places.items()} | writes.metadata
    book = getattr(next(iter(group.sums.values())).data, "book", None)
    assert isinstance(book, GrowingTable)  # noqa: S101  (the group grows)
    checks = _check_rows(layout, basis, plan, ids, writes, book)
    stamps = _stamp_rows(group.table, extra.source.objects, array, axis, seen, checksums, related)
    growth = Growth(
        extra.growth.dim,
        write_table(writes, layout.stamps, group.table, stamps),
        write_table(writes, layout.checksums, book, checks),
        infinite,
    )
    metadata |= writes.metadata
    sized = replace(
        layout,
        stamps=table_spec(layout.stamps, growth.stamps[0] + growth.stamps[2]),
        checksums=table_spec(layout.checksums, growth.checks[0] + growth.checks[2]),
    )
    return tables_known(writes, sized, ids, growth, metadata)


def _check_rows(
    layout: Layout, basis: Basis, plan: Plan, ids: Mapping[str, int], writes: Writes, book: GrowingTable
) -> Rows:
    """Return the rows of chunks that have become final, and of those that may still change."""
    axis, after = basis.axis, next_standing(plan.array, layout)
    stand, move = [], []
    for spec, axes, level in layout.growing():
        if spec.name not in ids:
            continue
        slab = math.prod(moved(spec.grid, axis)[1:])
        first = basis.limit(axes, level) // spec.chunks[axis] * slab
        fixed = after.limit(axes, level) // spec.chunks[axis] * slab
        total = math.prod(spec.grid)
        crcs, which = writes.crcs.get(spec.name, {}), ids[spec.name]
        rows = []
        for number in range(first, total):
            crc = crcs.get(number)
            crc = book.crc(which, number) if crc is None else crc
            if crc is None:
                raise NotInPlaceError(f"chunk {number} of {spec.name} has no checksum")
            rows.append((number, crc))
        made = np.array(rows, np.int64).reshape(-1, 2)
        made[:, 0] = keys(which, made[:, 0])
        stand.append(made[: max(fixed - first, 0)])
        move.append(made[max(fixed - first, 0) :])
    for spec in layout.outliers:
        found = sorted(writes.crcs[spec.name].items())
        made = np.array(found, np.int64).reshape(-1, 2)
        made[:, 0] = keys(ids[spec.name], made[:, 0])
        move.append(made)
    return Rows(np.concatenate(stand), np.concatenate(move))


def _stamp_rows(
    table: GrowingTable,
    count: int,
    array: ZarrArray,
    axis: int,
    seen: Int64,
    checksums: Int64,
    related: tuple[Related, ...],
) -> Rows:
    """Return the rows of objects that have become final, and of those that may change; `count` were there before."""
    which, numbers = split(table.moving[:, 0])
    own = numbers[which == 0]
    stand, _ = own_row_counts(array, axis)
    total = array.objects.size
    first = int(own.min()) if len(own) else count
    at = np.arange(first, total)
    shape = array.objects.matrix_shape
    order = np.unravel_index(at, moved(shape, axis))
    back = np.ravel_multi_index((*order[1 : axis + 1], order[0], *order[axis + 1 :]), shape)
    # Of the stamps and checksums of all objects only these are touched: the others may be many.
    rows = np.column_stack([keys(0, at), seen[back], checksums[back]])
    standing, moving = [rows[: max(stand - first, 0)]], [rows[max(stand - first, 0) :]]
    for number, each in enumerate(related, 1):
        one = related_rows(each, number, table.moving[which == number])
        standing.append(one.standing)
        moving.append(one.moving)
    return Rows(np.concatenate(standing), np.concatenate(moving))
