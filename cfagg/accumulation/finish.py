"""The second phase of a build: cumulative sums, statistics of chunks with their pyramid, and finally attributes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg._version import __version__
from cfagg.accumulation.build_plan import Plan
from cfagg.accumulation.description import Neighbour, encoding_of
from cfagg.accumulation.growth_tables import write_tables
from cfagg.accumulation.integrity import read_region, read_stored, sealed
from cfagg.accumulation.layout import ArraySpec, Layout, Level
from cfagg.accumulation.outliers import Judgement
from cfagg.accumulation.ranges import along
from cfagg.accumulation.summing import PartialSums, Task, run_task, sum_tasks
from cfagg.accumulation.weights import Weights
from cfagg.accumulation.writing import Basis, Target
from cfagg.arrays.plan import plan
from cfagg.conventions.accumulation import write_extra, write_group
from cfagg.conventions.accumulation_model import Names, Table
from cfagg.conventions.accumulation_record import (
    Checks,
    Excluded,
    Extra,
    Growth,
    LevelNames,
    OutliersRecord,
    Source,
    WeightsRecord,
)
from cfagg.errors import LimitError
from cfagg.formats.zarr import ZarrArray, open_array
from cfagg.formats.zarr.creating import group_documents, write_documents
from cfagg.kernels.statistics import FAN_OUT, Statistics, pyramid
from cfagg.runtime.threads import run_threads

__all__ = ["describe", "finish", "lowest", "merged", "missing_before"]

Axes = tuple[int, ...]
Box = tuple[tuple[int, int], ...]

#: Cells of a level that are merged at a time.
_BLOCK = 1 << 20


#: One chunk of the statistics of a level, for all kinds: the arrays, its index, and the arrays of the level below.
LevelTask = tuple[Level[ArraySpec], Axes, Mapping[str, ZarrArray]]


def _level_tasks(layout: Layout, level: int, target: Target) -> Iterator[LevelTask]:
    """Yield the tasks of one level, which is computed from the finished level below."""
    for specs in layout.levels:
        if specs.level != level:
            continue
        lower = next((w for w in layout.levels if w.axes == specs.axes and w.level == level - 1), None)
        arrays = {} if lower is None else lower.arrays
        folder = target.folder
        below = {kind: open_array(folder.parent, f"{folder.name}/{spec.name}") for kind, spec in arrays.items()}
        for index in np.ndindex(*specs.arrays["count"].grid):
            yield specs, index, below


def run_level(task: LevelTask, partial: PartialSums, target: Target) -> None:
    """Compute and write one chunk of every statistic of a level."""
    (specs, index, below), basis = task, partial.basis
    spec = specs.arrays["count"]
    box = spec.extent(index)
    old: Mapping[str, ZarrArray] = {}
    axis = stay = 0
    if basis is not None:
        dims = tuple(partial.recipe.window.array.dims[a] for a in specs.axes)
        old = next((v.arrays for v in basis.group.statistics[dims] if v.level == specs.level), {})
        axis = basis.axis
        # The pyramid grows with the array, so the earlier state may not have this level, or have fewer of its cells
        # along another axis, if it grew in place along that one.
        if old and all(a == axis or n == spec.shape[a] for a, n in enumerate(old["count"].shape)):
            stay = min(max(basis.limit(specs.axes, specs.level) - box[axis][0], 0), box[axis][1] - box[axis][0])
        if stay == box[axis][1] - box[axis][0]:
            for kind, each in specs.arrays.items():
                target.take(each, index, old[kind])
            return
    new = tuple((a + stay, b) if i == axis else (a, b) for i, (a, b) in enumerate(box))
    found = lowest(specs, new, partial) if not specs.level else _higher(specs, new, below, partial)
    for kind, each in specs.arrays.items():
        values = found[kind]
        if stay:
            head = list(box)
            head[axis] = (box[axis][0], box[axis][0] + stay)
            values = np.concatenate([read_region(old[kind], tuple(head)), values], axis)
        target.write(each, index, values)


def lowest(specs: Level[ArraySpec], box: Box, partial: PartialSums) -> dict[str, npt.NDArray[Any]]:
    """Return the statistics of chunks that the pass over the data computed."""
    window, axes = partial.recipe.window, specs.axes
    local = tuple(
        (a - window.first_chunk(i), b - window.first_chunk(i))
        if i in axes
        else (a - window.start(i), b - window.start(i))
        for i, (a, b) in enumerate(box)
    )
    out = {kind: partial.read(kind, axes, local) for kind in specs.arrays if kind != "count"}
    cells: npt.NDArray[np.int64] = np.ones([1] * len(box), np.int64)
    for a in axes:
        cells = cells * along(window.lengths[a][slice(*local[a])], a, len(box))
    out["count"] = cells - partial.read("excluded", axes, local)
    return out


def _higher(
    specs: Level[ArraySpec], box: Box, below: Mapping[str, ZarrArray], partial: PartialSums
) -> dict[str, npt.NDArray[Any]]:
    """Return statistics of groups of cells of the level below."""
    shape = [b - a for a, b in box]
    width = FAN_OUT ** len(specs.axes)
    if math.prod(shape) * width > _BLOCK and max(shape) > 1:
        # Split along the longest axis until the cells fit.
        axis = int(np.argmax(shape))
        middle = box[axis][0] + shape[axis] // 2
        halves = [
            _higher(specs, tuple(part if i == axis else b for i, b in enumerate(box)), below, partial)
            for part in ((box[axis][0], middle), (middle, box[axis][1]))
        ]
        return {kind: np.concatenate([h[kind] for h in halves], axis) for kind in specs.arrays}
    lower = below["count"].shape
    wide = tuple(
        (a * FAN_OUT, min(b * FAN_OUT, lower[i])) if i in specs.axes else (a, b) for i, (a, b) in enumerate(box)
    )
    cells = {kind: read_region(array, wide) for kind, array in below.items()}
    return merged(specs, cells, partial)


def merged(
    specs: Level[ArraySpec], cells: Mapping[str, npt.NDArray[Any]], partial: PartialSums
) -> dict[str, npt.NDArray[Any]]:
    """Return statistics of groups of cells of the level below."""
    count = cells["count"]
    nothing = np.zeros(count.shape)
    level = Statistics(
        count,
        cells.get("min", nothing),
        cells.get("max", nothing),
        cells.get("sum", nothing),
        cells.get("m2", nothing),
        cells.get("weights"),
    )
    try:
        top = pyramid(level, specs.axes)
    except OverflowError as error:
        array = partial.recipe.window.array
        raise LimitError(
            f"{array.store}: array {array.path!r}: {error}; sum in real numbers with precision='float64' "
            "(--precision float64)"
        ) from error
    names = {"count": "count", "min": "minimum", "max": "maximum", "sum": "sum", "m2": "m2", "weights": "weights"}
    return {kind: getattr(top, names[kind]) for kind in specs.arrays}


def finish(
    partial: PartialSums,
    target: Target,
    weights: Weights | None,
    table: npt.NDArray[np.int64],
    judgement: Judgement,
    workers: int,
    related: Sequence[Neighbour],
) -> None:
    """Write every array of the group; `table` has the stamps of source objects, then those of related arrays."""
    layout = partial.layout
    tables = () if layout.grows is None else (layout.stamps, layout.checksums)
    for spec in layout.arrays(counts=partial.excluded):
        if spec not in tables:
            target.create(spec)
    tasks: Iterator[Task] = chain.from_iterable(sum_tasks(s, excluded=partial.excluded) for s in layout.sums)
    _share(lambda task: run_task(task, partial, target), tasks, workers)
    # Statistics include all cells, outliers too, because nothing is ever subtracted from them.
    partial = replace(partial, repairs=None)
    depth = max((v.level for v in layout.levels), default=-1)
    for level in range(depth + 1):
        _share(lambda task: run_level(task, partial, target), _level_tasks(layout, level, target), workers)
    if layout.weights is not None and weights is not None:
        target.write_whole(layout.weights, weights.values)
    for axis, spec in layout.boundaries.items():
        target.write_whole(spec, layout.samples[axis])
    for spec, values in zip(layout.outliers, (judgement.positions, judgement.values), strict=False):
        target.write_whole(spec, values)
    if layout.grows is not None:
        write_tables(partial, target, table, related)
        return
    target.write_whole(layout.stamps, table)
    crcs = np.zeros(layout.checksums.shape, np.uint32)
    for name, place in layout.places(counts=partial.excluded).items():
        found = target.checksums[name]
        crcs[place : place + len(found)] = found
    target.write_whole(layout.checksums, crcs)


def describe(plan: Plan, target: Target, missing: int, nonfinite: int, judgement: Judgement) -> dict[str, Any]:
    """Return the attributes of the group, whose arrays have been written."""
    array, meaning, layout, weights = plan.array, plan.meaning, plan.layout, plan.weights
    dims = array.dims

    def key(axes: Axes) -> tuple[str, ...]:
        return tuple(dims[a] for a in axes)

    names = {
        key(s.axes): Names(
            unweighted=s.data.name if weights is None else None,
            weighted=None if weights is None else s.data.name,
            weights=s.arrays["counts" if weights is None else "weights"].name,
        )
        for s in layout.sums
    }
    record = None
    if weights is not None and layout.weights is not None:
        record = WeightsRecord(weights.kind, weights.name, layout.weights.name, key(weights.axes))
    low = [(s.arrays[q].name, spec.name) for s in layout.sums for q, spec in s.low.items()]
    counts = [
        (key(s.axes), s.arrays["counts"].name)
        for s in layout.sums
        if weights is not None and (missing or layout.outliers)
    ]
    outliers = None
    if layout.outliers and judgement.limit is not None:
        outliers = OutliersRecord(judgement.limit, *(spec.name for spec in layout.outliers))
    growth: Growth | None = None
    if target.known is None:
        checks = _checks(layout, target, counts=missing > 0 or bool(layout.outliers))
    else:
        checks, growth = target.known
    extra = Extra(
        source=Source.of(
            array.name,
            dims,
            array.grid,
            array.dtype,
            encoding_of(array, None if weights is None else weights.kind),
            array.objects.size,
        ),
        packing=meaning.packing,
        mask=meaning.mask,
        weights=record,
        sums=plan.settings.sums,
        stride=Table({dims[a]: layout.stride[a] for a in sorted({a for s in layout.sums for a in s.axes})}),
        excluded=Excluded(missing, nonfinite),
        low=Table(low),
        counts=Table(counts),
        statistics=tuple(
            LevelNames(key(v.axes), v.level, Table({k: spec.name for k, spec in v.arrays.items()}))
            for v in layout.levels
        ),
        stamps=layout.stamps.name,
        checks=checks,
        growth=growth,
        related=tuple(n.record for n in plan.related),
        boundaries=Table({dims[a]: spec.name for a, spec in layout.boundaries.items()}),
        created_by=f"cfagg {__version__}",
        magnitudes=judgement.magnitudes,
        outliers=outliers,
    )
    return sealed({**write_group(names, dims), "cfagg": write_extra(extra)})


def _checks(layout: Layout, target: Target, *, counts: bool) -> Checks:
    """Return the checksums that identify the written arrays."""
    places = {
        name: (place, len(target.checksums[name]), target.metadata[name])
        for name, place in layout.places(counts=counts).items()
    }
    own = {
        spec.name: (target.metadata[spec.name], *target.checksums[spec.name].tolist())
        for spec in (layout.checksums, layout.stamps)
    }
    return Checks(target.build, layout.checksums.name, Table(places), Table(own))


def write_attributes(target: Target, attributes: Mapping[str, Any]) -> None:
    """Write the metadata of the group, which make it valid."""
    target.documents[""] = group_documents(attributes, target.zarr_format)
    write_documents(target.folder, target.documents[""])


def missing_before(basis: Basis, layout: Layout) -> int:
    """Return the number of missing elements in the part of the array that is not read again."""
    extra = basis.group.extra
    if extra is None or not extra.excluded.missing:
        return 0
    source = extra.source
    outliers = basis.group.outliers
    apart = 0 if outliers is None else int((outliers.positions[:, basis.axis] < basis.position).sum())
    specs = layout.sums[0]
    sums = basis.group.sums[tuple(source.dims[a] for a in specs.axes)]
    counts = sums.arrays.get("counts")
    if counts is None:
        return 0
    # The last sample is the whole sum; along axes at full resolution, the part that is kept is added up.
    box = [(n - 1, n) if a in specs.axes else (0, n) for a, n in enumerate(counts.shape)]
    limit = basis.limit(specs.axes)
    box[basis.axis] = (limit - 1, limit) if basis.axis in specs.axes else (0, limit)
    cells = basis.position * math.prod(n for a, n in enumerate(source.shape) if a != basis.axis)
    made = plan(counts.grid, [slice(*b) for b in box])
    for k in range(len(made)):
        part: Any = made.source(k)
        cells -= int(read_stored(counts, made.index(k), part).sum())
    return cells - apart


def _share(work: Any, tasks: Iterator[Any], workers: int) -> None:
    """Run tasks in a few threads."""
    for _ in map(work, tasks) if workers == 1 else run_threads(work, tasks, workers, "accumulate"):
        pass
