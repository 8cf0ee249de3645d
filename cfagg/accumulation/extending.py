"""Extending a group in place after its array has grown, at a cost that does not depend on the length of the array.

Only the appended data are read, together with the last part of the earlier array if it was not final.  In the group's
own arrays, the last chunks are rewritten and new ones are added; rows are appended to the tables of stamps and
checksums.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.accumulation.build_plan import Action, Input, Plan, assemble, settings_of
from cfagg.accumulation.finish import describe, lowest, merged
from cfagg.accumulation.group import Group, NotInPlaceError, group_path, standing_of
from cfagg.accumulation.growth_tables import (
    Related,
    extended_tables,
    infinite_before,
    infinite_standing,
    next_standing,
    still,
)
from cfagg.accumulation.integrity import numbered, read_region
from cfagg.accumulation.layout import ArraySpec, Layout, Level
from cfagg.accumulation.outliers import judge
from cfagg.accumulation.partials import Pass, threads_that_fit
from cfagg.accumulation.scratch import PassingJournal, PassingScratch
from cfagg.accumulation.source import read_meaning, settled, unchanged, write_back
from cfagg.accumulation.summing import PartialSums, run_task, sum_tasks
from cfagg.accumulation.weights import Weights
from cfagg.accumulation.writing import Basis, Increment, Target, chunk_key, codec_of
from cfagg.formats.zarr import ZarrArray
from cfagg.formats.zarr.checksums import crc32c
from cfagg.formats.zarr.creating import document_bytes, group_documents
from cfagg.kernels.distinct import distinct
from cfagg.kernels.statistics import FAN_OUT

__all__ = ["Extension", "extend"]

Axes = tuple[int, ...]
Int64 = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Extension:
    """The changes that extend a group, and a record of the data read to compute them."""

    increment: Increment
    plan: Plan
    missing: int
    nonfinite: int
    #: Chunks of the array that were read.
    chunks: int
    #: The stamps of their objects, and the numbers of these.
    seen: Int64
    which: Int64
    related: tuple[Related, ...]

    def unchanged(self) -> None:
        """Raise an error if any of the data were written since they were read."""
        unchanged(self.plan.array, self.seen, self.which)
        for each in self.related:
            each.unchanged(self.plan.array)


class Writes(Target):
    """The changes to an existing group, kept in memory until they are complete."""

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
        #: Existing statistics by name: the arrays of their level, and the kind of this one.
        self._statistics = {
            name: (level.arrays, kind)
            for record in extra.statistics
            for level in group.statistics[tuple(d for d in group.dims if d in record.dims)]
            if level.level == record.level
            for kind, name in record.arrays.items()
        }
        self._grows = {spec.name: layout.grows for spec, _, _ in layout.growing()}

    def keep(self, spec: ArraySpec) -> None:
        """Leave an array unchanged."""
        if spec.name not in self._before:
            raise NotInPlaceError("a level of its statistics is missing")
        self.metadata[spec.name] = self._before[spec.name]

    def _there(self, name: str) -> ZarrArray | None:
        """Return the existing array of a name, or `None` if it is new."""
        if name in self._statistics:
            arrays, kind = self._statistics[name]
            return arrays[kind]
        return self._old.get(name)

    def create(self, spec: ArraySpec) -> None:
        """Write the metadata of an array, unless they are unchanged."""
        documents = self._described(spec)
        old = self._there(spec.name)
        if old is not None and not self._same(spec, old):
            raise NotInPlaceError(f"{spec.name} is stored otherwise")
        if self._before.get(spec.name) != self.metadata[spec.name]:
            for name, each in documents.items():
                self.objects[f"{spec.name}/{name}"] = document_bytes(each)

    def take(self, spec: ArraySpec, index: Axes, old: ZarrArray) -> None:
        """Leave a chunk unchanged."""

    def _store(self, spec: ArraySpec, index: Axes, encoded: Any) -> None:
        data = bytes(encoded)
        number = numbered(index, spec.grid, self._grows.get(spec.name))
        self.crcs.setdefault(spec.name, {})[number] = crc32c(data)
        self.objects[f"{spec.name}/{chunk_key(index, self.zarr_format)}"] = data


def extend(group: Group, threads: int, memory: int) -> Extension:
    """Return the extension of a group whose array has grown; raise `NotInPlaceError` if it must be rewritten."""
    related = still(group)
    plan = _plan(group, related)
    basis, recipe, array = plan.basis, plan.recipe, plan.array
    assert basis is not None  # noqa: S101  (it was given)
    window, axis = recipe.window, basis.axis
    if window.elements * array.dtype.itemsize > memory:
        raise NotInPlaceError("more was appended than may be held")
    which = distinct(window.objects)
    seen = settled(array, which)
    write_back(array, which)
    stamps = np.zeros((array.objects.size, seen.shape[1]), np.int64)
    stamps[which] = seen
    journal = PassingJournal(window.size, recipe.record_type)
    scratch = PassingScratch(Path(), window, recipe.files)
    try:
        reading = Pass(recipe, np.arange(window.size), stamps, scratch, journal, None, memory)
        reading.by_threads(threads_that_fit(recipe, memory, threads) if window.size > 1 else 1)
        records = journal.records
        missing, nonfinite = _excluded(basis, records)
        judgement = judge(recipe, records, basis)
        if len(judgement.values):
            layout = plan.layout.with_outliers(len(judgement.values), array.ndim, recipe.meaning.dtype)
            plan = replace(plan, layout=layout)
        excluded = missing > 0 or len(judgement.values) > 0
        if plan.weights is not None and excluded and any("counts" not in s.arrays for s in group.sums.values()):
            raise NotInPlaceError("values are missing for the first time, and counts are not stored")
        writes = Writes(group, plan.layout)
        partial = PartialSums(recipe, scratch, records, plan.layout, basis, excluded, judgement.repairs)
        written = plan.layout.places(counts=excluded)
        for spec, axes, level in plan.layout.growing():
            if spec.name not in written:
                continue
            if level and axis in axes and spec.shape[axis] <= basis.limit(axes, level):
                writes.keep(spec)
            else:
                writes.create(spec)
        tasks = chain.from_iterable(sum_tasks(s, excluded=excluded, after=basis) for s in plan.layout.sums)
        for task in tasks:
            run_task(task, partial, writes)
        _extend_levels(replace(partial, repairs=None), basis, writes)
    finally:
        scratch.close()
    for spec, values in zip(plan.layout.outliers, (judgement.positions, judgement.values), strict=False):
        writes.create(spec)
        writes.write_whole(spec, values)
    checksums = np.zeros(array.objects.size, np.int64)
    checksums[window.objects[window.leading]] = records["checksum"][window.leading]
    infinite = infinite_standing(partial, next_standing(array, plan.layout))
    writes.known = extended_tables(group, plan, written, writes, writes.crcs, stamps, checksums, related, infinite)
    attributes = describe(plan, writes, missing, nonfinite, judgement)
    documents = group_documents(attributes, array.zarr_format)
    name = "zarr.json" if array.zarr_format == 3 else ".zattrs"
    writes.objects[name] = document_bytes(documents[name])
    sealed = attributes["cfagg"]["crc"]
    increment = Increment(group_path(array.path), array.zarr_format, group.seal, sealed, writes.objects)
    return Extension(increment, plan, missing, nonfinite, window.size, seen, which, related)


def _plan(group: Group, related: tuple[Related, ...]) -> Plan:
    """Return the plan of an extension: the data to read, and the arrays after it."""
    array, extra, axis = group.source, group.extra, group.grows
    found = group.differences
    if extra is None or extra.growth is None or axis is None or group.table is None:
        raise NotInPlaceError("it does not grow in place")
    if found.other or set(found.grown) != {extra.growth.dim}:
        raise NotInPlaceError("more than its length has changed")
    settings = settings_of(group, extra)
    weights = None
    if extra.weights is not None and group.weights is not None:
        if axis in group.weights.axes:
            raise NotInPlaceError("weights grow with it")
        weights = Weights(extra.weights.kind, extra.weights.name, group.weights.array, group.weights.axes)
    sampled = any(extra.growth.dim in c for c in group.sums)
    stays = standing_of(array, axis, extra.source.shape[axis], settings.stride[axis], sampled=sampled)
    given = Input(array, read_meaning(array), settings, weights, tuple(r.neighbour for r in related))
    suffix = extra.checks.array.removeprefix("checksums")
    plan = assemble(given, None, Basis(**vars(stays), group=group), Action.APPEND, axis, suffix)
    layout = replace(plan.layout, stamps=replace(plan.layout.stamps, name=extra.stamps))
    new = {spec.name for spec in layout.chunked(counts=True)}
    apart = {extra.outliers.positions, extra.outliers.values} if extra.outliers else set()
    if not set(extra.checks.places) - apart <= new:
        raise NotInPlaceError("its arrays have other names")
    return replace(plan, layout=layout)


def _excluded(basis: Basis, records: npt.NDArray[Any]) -> tuple[int, int]:
    """Return the number of missing elements of the whole array, and how many of them are infinite."""
    missing, nonfinite = int(records["missing"].sum()), int(records["nonfinite"].sum())
    extra = basis.group.extra
    assert extra is not None  # noqa: S101  (the group grows)
    if not (extra.excluded.missing or extra.excluded.nonfinite):
        return missing, nonfinite
    missing += extra.excluded.missing - _missing_after(basis)
    return missing, min(missing, nonfinite + infinite_before(basis))


def _missing_after(basis: Basis) -> int:
    """Return the number of missing elements in the part that is not final, from the counts of the group."""
    group, axis = basis.group, basis.axis
    extra = group.extra
    assert extra is not None  # noqa: S101  (the group grows)
    source = extra.source
    length = source.shape[axis] - basis.position
    if not length:
        return 0
    combination = next((c for c in group.sums if source.dims[axis] in c), next(iter(group.sums)))
    counts = group.sums[combination].arrays.get("counts")
    if counts is None:
        raise NotInPlaceError("counts are not stored")
    axes = group.axes(combination)
    box = [(n - 1, n) if a in axes else (0, n) for a, n in enumerate(counts.shape)]
    if axis in axes:
        present = int(read_region(counts, tuple(box)).sum())
        if basis.sample:
            box[axis] = (basis.sample - 1, basis.sample)
            present -= int(read_region(counts, tuple(box)).sum())
    else:
        box[axis] = (basis.position, counts.shape[axis])
        present = int(read_region(counts, tuple(box)).sum())
    cells = length * math.prod(n for a, n in enumerate(source.shape) if a != axis)
    apart = 0 if group.outliers is None else int((group.outliers.positions[:, axis] >= basis.position).sum())
    return cells - present - apart


def _extend_levels(partial: PartialSums, basis: Basis, writes: Writes) -> None:
    """Write the new statistics of chunks, and the whole cells of the pyramid above them."""
    by_axes: dict[Axes, list[Level[ArraySpec]]] = {}
    for level in partial.layout.levels:
        by_axes.setdefault(level.axes, []).append(level)
    for levels in by_axes.values():
        start, below = 0, dict[str, npt.NDArray[Any]]()
        for specs in sorted(levels, key=lambda level: level.level):
            if specs.arrays["count"].shape[basis.axis] <= basis.limit(specs.axes, specs.level):
                break  # neither this level nor those above have new cells
            start, below = _extend_level(specs, start, below, partial, basis, writes)


def _extend_level(
    specs: Level[ArraySpec],
    start: int,
    below: Mapping[str, npt.NDArray[Any]],
    partial: PartialSums,
    basis: Basis,
    writes: Writes,
) -> tuple[int, dict[str, npt.NDArray[Any]]]:
    """Write the new part of a level; return its start and values.  `start` and `below` are those of the level below."""
    axis, spec, group = basis.axis, specs.arrays["count"], basis.group
    known = {v.level: v.arrays for v in group.statistics[tuple(group.dims[a] for a in specs.axes)]}
    old = known.get(specs.level, {})
    stay, count = basis.limit(specs.axes, specs.level), spec.shape[axis]
    if not old and stay:
        raise NotInPlaceError("a level of its statistics is missing")
    if specs.level == 0:
        found = lowest(specs, _box(spec.shape, axis, stay, count), partial)
    else:
        factor = FAN_OUT if axis in specs.axes else 1
        first, last, cells = stay * factor, count * factor, {}
        for kind, values in below.items():
            cut = values[(slice(None),) * axis + (slice(max(first - start, 0), last - start),)]
            if first < start:
                lower = known[specs.level - 1][kind]
                cut = np.concatenate([read_region(lower, _box(lower.shape, axis, first, start)), cut], axis)
            cells[kind] = cut
        found = merged(specs, cells, partial)
    # The first chunk to write may begin with values that are kept.
    begin = stay // spec.chunks[axis] * spec.chunks[axis]
    out = {}
    for kind, each in specs.arrays.items():
        out[kind] = found[kind]
        if begin < stay:
            head = read_region(old[kind], _box(each.shape, axis, begin, stay))
            out[kind] = np.concatenate([head, out[kind]], axis)
        _write_slabs(each, begin, out[kind], axis, writes)
    return begin, out


def _box(shape: Axes, axis: int, start: int, stop: int) -> tuple[tuple[int, int], ...]:
    """Return a box with a range along one axis and the full extent of the others."""
    return tuple((start, stop) if a == axis else (0, n) for a, n in enumerate(shape))


def _write_slabs(spec: ArraySpec, begin: int, values: npt.NDArray[Any], axis: int, writes: Writes) -> None:
    """Write the chunks of an array from a position along an axis onwards."""
    first = begin // spec.chunks[axis]
    grid = tuple(n - first if a == axis else n for a, n in enumerate(spec.grid))
    for local in np.ndindex(grid):
        index = tuple(i + first if a == axis else i for a, i in enumerate(local))
        part = tuple(
            slice(a - begin, b - begin) if d == axis else slice(a, b) for d, (a, b) in enumerate(spec.extent(index))
        )
        writes.write(spec, index, values[part])
