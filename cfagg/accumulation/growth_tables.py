"""Contents of the tables of a group that grows in place: stamps of stored objects, and checksums of its own chunks.

Objects are those of the array, and of its coordinates and sources of weights, which grow with it.

Rows are final ("standing") if appending cannot change them, namely those of full objects and of chunks that are
entirely final.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.accumulation.build_plan import Plan
from cfagg.accumulation.description import Neighbour, differences_of
from cfagg.accumulation.group import Group, NotInPlaceError, Standing, standing_of, whole_objects
from cfagg.accumulation.integrity import GrowingTable, Rows, extended, keys, moved, room, split
from cfagg.accumulation.layout import ArraySpec, Layout
from cfagg.accumulation.source import settled, write_back
from cfagg.accumulation.summing import PartialSums
from cfagg.accumulation.writing import Basis, Target
from cfagg.conventions.accumulation_model import Table
from cfagg.conventions.accumulation_record import Checks, Growth
from cfagg.conventions.accumulation_record import Related as Record
from cfagg.errors import StaleError
from cfagg.formats.zarr import ZarrArray, compare, object_checksum, stamps
from cfagg.formats.zarr.stamps import unsure

__all__ = [
    "Related", "extended_tables", "infinite_before", "infinite_standing", "next_standing", "stamp_rows", "still",
    "write_table", "write_tables",
]  # fmt: skip

Int64 = npt.NDArray[np.int64]


def next_standing(array: ZarrArray, layout: Layout) -> Standing:
    """Return the extent that remains final when more data are appended to the present array."""
    axis = layout.grows
    assert axis is not None  # noqa: S101  (the group grows)
    sampled = any(axis in s.axes for s in layout.sums)
    return standing_of(array, axis, array.shape[axis], layout.stride[axis], sampled=sampled)


def follows(neighbour: Neighbour, dim: str) -> bool:
    """Return whether a related array grows along the growing dimension, so that its objects are counted along it."""
    return neighbour.array is not None and neighbour.array.dims[:1] == (dim,)


def final_objects(array: ZarrArray, axis: int) -> int:
    """Return the number of objects of an array that remain as they are when it grows along an axis."""
    row = math.prod(n for a, n in enumerate(array.objects.matrix_shape) if a != axis)
    return whole_objects(array, axis, array.shape[axis]) * row


def stamp_rows(array: ZarrArray, axis: int, table: Int64, related: Sequence[Neighbour]) -> Rows:
    """Return all rows of the table of stamps; `table` has those of the array, then those of related arrays."""
    count = array.objects.size
    ordered = np.moveaxis(table[:count].reshape(*array.objects.matrix_shape, 5), axis, 0).reshape(-1, 5)
    parts = [Rows.cut(np.column_stack([keys(0, np.arange(count)), ordered]), final_objects(array, axis))]
    for which, neighbour in enumerate(related, 1):
        number = neighbour.record.objects
        part = table[count : count + number]
        count += number
        rows = np.column_stack([keys(which, np.arange(number)), part])
        stand = 0
        if neighbour.array is not None and follows(neighbour, array.dims[axis]):
            stand = final_objects(neighbour.array, 0)
        parts.append(Rows.cut(rows, stand))
    return Rows.joined(parts)


def _check_rows(layout: Layout, target: Target, standing: Standing, ids: Mapping[str, int]) -> Rows:
    """Return the rows of the table of checksums of a group that was written as a whole."""
    axis, parts = standing.axis, []
    grown = {spec.name: (spec, axes, level) for spec, axes, level in layout.growing()}
    apart = {spec.name for spec in layout.outliers}
    for name, which in ids.items():
        crcs, fixed = target.checksums[name].astype(np.int64), len(target.checksums[name])
        if name in grown:
            spec, axes, level = grown[name]
            crcs = np.moveaxis(crcs.reshape(spec.grid), axis, 0).reshape(-1)
            slab = math.prod(moved(spec.grid, axis)[1:])
            fixed = standing.limit(axes, level) // spec.chunks[axis] * slab
        elif name in apart:
            fixed = 0
        parts.append(Rows.cut(np.column_stack([keys(which, np.arange(len(crcs))), crcs]), fixed))
    return Rows.joined(parts)


def table_spec(spec: ArraySpec, rows: int) -> ArraySpec:
    """Return the specification of a table with room for a number of rows."""
    return replace(spec, shape=(room(rows), spec.shape[1]))


def write_table(target: Target, spec: ArraySpec, table: GrowingTable | None, rows: Rows) -> tuple[int, int, int, int]:
    """Write a table from the chunk of its first row that is not final, and return its new record."""
    first, values, record = extended(table, rows)
    spec = table_spec(spec, record[0] + record[2])
    target.create(spec)
    length = spec.chunks[0]
    for i in range(0, max(len(values), 1), length):
        target.write(spec, (first + i // length, 0), values[i : i + length])
    return record


def tables_known(
    target: Target, layout: Layout, ids: Mapping[str, int], growth: Growth, metadata: Mapping[str, int]
) -> tuple[Checks, Growth]:
    """Return the checks of the arrays of a group that grows; `metadata` are CRC-32C of documents by array."""
    grids = {spec.name: math.prod(spec.grid) for spec in layout.chunked(counts=True)}
    places: Any = {name: (which, grids[name], metadata[name]) for name, which in ids.items()}
    own: Any = {spec.name: (metadata[spec.name],) for spec in (layout.checksums, layout.stamps)}
    return Checks(target.build, layout.checksums.name, Table(places), Table(own)), growth


def infinite_standing(partial: PartialSums, standing: Standing) -> int:
    """Return the number of infinite elements in the part that remains final when more data are appended."""
    window, basis = partial.recipe.window, partial.basis
    chunks = np.unravel_index(np.arange(window.size), window.matrix_shape)[standing.axis]
    stays = chunks + window.first_chunk(standing.axis) < standing.chunk
    return infinite_before(basis) + int(partial.records["nonfinite"][stays].sum())


def infinite_before(basis: Basis | None) -> int:
    """Return the number of infinite elements in the part that is not read again, or an upper bound."""
    extra = None if basis is None else basis.group.extra
    if basis is None or extra is None:
        return 0
    if extra.growth is None or basis.group.grows != basis.axis:  # what is final along another axis is another part
        return extra.excluded.nonfinite
    return extra.growth.infinite


def write_tables(partial: PartialSums, target: Target, table: Int64, related: Sequence[Neighbour]) -> None:
    """Write both tables of a group that was written as a whole."""
    layout, array = partial.layout, partial.recipe.window.array
    axis = layout.grows
    assert axis is not None  # noqa: S101  (the group grows)
    ids = {name: i for i, name in enumerate(layout.places(counts=partial.excluded))}
    standing = next_standing(array, layout)
    checks = _check_rows(layout, target, standing, ids)
    growth = Growth(
        array.dims[axis],
        write_table(target, layout.stamps, None, stamp_rows(array, axis, table, related)),
        write_table(target, layout.checksums, None, checks),
        infinite_standing(partial, standing),
    )
    target.known = tables_known(target, layout, ids, growth, target.metadata)


#: Parts of a description that change when an array grows.
_LENGTH = ("shape", "chunk_grid", "chunks")


@dataclass(frozen=True, eq=False)
class Related:
    """A related array of a group that is extended."""

    neighbour: Neighbour
    #: Whether it grows along the growing dimension.
    longer: bool
    #: Numbers and present stamps of its objects that are new or may have been rewritten.
    numbers: Int64
    stamps: Int64

    def unchanged(self, source: ZarrArray) -> None:
        """Raise an error if it was written since its stamps were taken."""
        array, now = self.neighbour.array, self.neighbour.current(source)
        which = slice(None) if array is None else unsure(array, self.numbers)
        if now is not self.neighbour or (
            array is not None and compare(self.stamps[which], stamps(array, self.numbers[which]))
        ):
            path = self.neighbour.path
            raise StaleError(f"{source.store}: {path!r} was written to while the array was accumulated; run again")


def still(group: Group) -> tuple[Related, ...]:
    """Return the related arrays of a group, or raise `NotInPlaceError` if they changed other than by growing."""
    extra, table = group.extra, group.table
    if extra is None or extra.growth is None or table is None:
        raise NotInPlaceError("it does not grow in place")
    which, numbers = split(table.moving[:, 0])
    out = []
    for i, (then, neighbour) in enumerate(zip(extra.related, group.neighbours, strict=True), 1):
        known = table.moving[which == i]
        array, own = neighbour.array, numbers[which == i]
        if array is None or not follows(neighbour, extra.growth.dim):
            if differences_of(neighbour, then) or len(own) != then.objects:
                raise NotInPlaceError(f"{then.path!r} has changed")
            found = np.empty((0, 4), np.int64) if array is None else settled(array, own)
            if compare(known[:, 1:5], found):
                raise NotInPlaceError(f"{then.path!r} has been written")
            out.append(Related(neighbour, longer=False, numbers=own, stamps=found))
            continue
        if then.use == "weights" or _has_changed(array, neighbour.record.description, then):
            raise NotInPlaceError(f"{then.path!r} has changed by more than its length")
        first = int(own.min()) if len(own) else then.objects
        new = np.arange(first, array.objects.size)
        out.append(Related(neighbour, longer=True, numbers=new, stamps=settled(array, new)))
    return tuple(out)


def _has_changed(array: ZarrArray, now: Mapping[str, Any], then: Record) -> bool:
    """Return whether the description of an array has changed, apart from its length."""
    old, new = ({k: v for k, v in each.items() if k not in _LENGTH} for each in (then.description, now))
    shape = json.loads(then.description.get("shape", "[]"))
    return old != new or shape[1:] != list(array.shape[1:]) or not shape or shape[0] > array.shape[0]


def related_rows(related: Related, which: int, known: Int64) -> Rows:
    """Return the rows of the objects of related array number `which`; `known` are its earlier rows."""
    array, numbers = related.neighbour.array, related.numbers
    if array is None or not len(numbers):
        return Rows(np.empty((0, 6), np.int64), np.empty((0, 6), np.int64))
    before = {tuple(row[1:5]): row[5] for row in known.tolist()}
    write_back(array, numbers)
    shape, sums = array.objects.matrix_shape, []
    for number, stamp in zip(numbers.tolist(), related.stamps.tolist(), strict=True):
        crc = before.get(tuple(stamp))
        if crc is None:
            held = [int(i) for i in np.unravel_index(number, shape)] if shape else []
            found = object_checksum(array, held)
            crc = 0 if found is None else found[1]
        sums.append(crc)
    rows = np.column_stack([keys(which, numbers), related.stamps, np.array(sums, np.int64)])
    return Rows.cut(rows, final_objects(array, 0) - int(numbers[0]) if related.longer else 0)


def extended_tables(
    group: Group,
    plan: Plan,
    written: Mapping[str, int],
    writes: Target,
    crcs: Mapping[str, dict[int, int]],
    seen: Int64,
    checksums: Int64,
    related: tuple[Related, ...],
    infinite: int,
) -> tuple[Checks, Growth]:
    """Append to both tables and return the checks and growth record of the group; `crcs` belong to written chunks."""
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
    checks = _new_check_rows(layout, basis, plan, ids, crcs, book)
    stamps = _new_stamp_rows(group.table, extra.source.objects, array, axis, seen, checksums, related)
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


def _new_check_rows(
    layout: Layout,
    basis: Basis,
    plan: Plan,
    ids: Mapping[str, int],
    crcs: Mapping[str, dict[int, int]],
    book: GrowingTable,
) -> Rows:
    """Return the rows of chunks that have become final, and of those that may still change."""
    axis, after, parts = basis.axis, next_standing(plan.array, layout), []
    for spec, axes, level in layout.growing():
        if spec.name not in ids:
            continue
        slab = math.prod(moved(spec.grid, axis)[1:])
        first = basis.limit(axes, level) // spec.chunks[axis] * slab
        fixed = after.limit(axes, level) // spec.chunks[axis] * slab
        total = math.prod(spec.grid)
        known, which = crcs.get(spec.name, {}), ids[spec.name]
        rows = []
        for number in range(first, total):
            crc = known.get(number)
            crc = book.crc(which, number) if crc is None else crc
            if crc is None:
                raise NotInPlaceError(f"chunk {number} of {spec.name} has no checksum")
            rows.append((number, crc))
        made = np.array(rows, np.int64).reshape(-1, 2)
        made[:, 0] = keys(which, made[:, 0])
        parts.append(Rows.cut(made, fixed - first))
    for spec in layout.outliers:
        found = sorted(crcs[spec.name].items())
        made = np.array(found, np.int64).reshape(-1, 2)
        made[:, 0] = keys(ids[spec.name], made[:, 0])
        parts.append(Rows.cut(made, 0))
    return Rows.joined(parts)


def _new_stamp_rows(
    table: GrowingTable,
    count: int,
    array: ZarrArray,
    axis: int,
    seen: Int64,
    checksums: Int64,
    related: tuple[Related, ...],
) -> Rows:
    """Return the rows of objects that have become final, and of those that may change; `count` existed before."""
    which, numbers = split(table.moving[:, 0])
    own = numbers[which == 0]
    first = int(own.min()) if len(own) else count
    at = np.arange(first, array.objects.size)
    shape = array.objects.matrix_shape
    order = np.unravel_index(at, moved(shape, axis))
    back = np.ravel_multi_index((*order[1 : axis + 1], order[0], *order[axis + 1 :]), shape)
    # Only these stamps and checksums are accessed, since there may be many others.
    rows = np.column_stack([keys(0, at), seen[back], checksums[back]])
    parts = [Rows.cut(rows, final_objects(array, axis) - first)]
    parts += [related_rows(each, k, table.moving[which == k]) for k, each in enumerate(related, 1)]
    return Rows.joined(parts)
