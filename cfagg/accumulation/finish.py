"""The second phase: cumulative sums, statistics and what else belongs to the group, its attributes last."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg._version import __version__
from cfagg.accumulation.integrity import sealed
from cfagg.accumulation.layout import Layout
from cfagg.accumulation.levels import LevelTask, level_tasks, run_level
from cfagg.accumulation.mapping import run_threads
from cfagg.accumulation.options import Settings
from cfagg.accumulation.outliers import Judgement
from cfagg.accumulation.partials import Recipe
from cfagg.accumulation.related import encoding_of
from cfagg.accumulation.summing import Partly, Task, run_task, sum_tasks
from cfagg.accumulation.weights import Weights
from cfagg.accumulation.writing import Kept, Target, read_region, touched
from cfagg.conventions.accumulation import write_extra, write_group
from cfagg.conventions.accumulation_model import Names, Table
from cfagg.conventions.accumulation_record import (
    Checks,
    Extra,
    LevelNames,
    OutliersRecord,
    Related,
    Source,
    WeightsRecord,
)
from cfagg.formats.zarr import open_array
from cfagg.formats.zarr.creating import group_documents, write_documents

__all__ = ["describe", "finish", "kept_missing"]

Axes = tuple[int, ...]


def finish(
    partly: Partly,
    target: Target,
    weights: Weights | None,
    table: npt.NDArray[np.int64],
    judgement: Judgement,
    workers: int,
) -> None:
    """Write every array of the group; `table` has the stamps of source objects, then those of related arrays."""
    layout = partly.layout
    for spec in layout.arrays(counts=partly.excluded):
        target.create(spec)
    tasks: Iterator[Task] = chain.from_iterable(
        sum_tasks(s, weighted=weights is not None, excluded=partly.excluded) for s in layout.sums
    )
    _share(lambda task: run_task(task, partly, target), tasks, workers)
    # Statistics are of all cells: nothing is subtracted from them.
    partly = replace(partly, repaired=None)
    depth = max((v.level for v in layout.levels), default=-1)
    for level in range(depth + 1):
        # A level is made of the one below, which is written whole by then.
        cells: list[Iterator[LevelTask]] = []
        for v in layout.levels:
            if v.level != level:
                continue
            lower = next((w for w in layout.levels if w.axes == v.axes and w.level == level - 1), None)
            below = (
                {}
                if lower is None
                else {
                    kind: open_array(target.folder.parent, f"{target.folder.name}/{spec.name}")
                    for kind, spec in lower.arrays.items()
                }
            )
            cells.append(level_tasks(v, below))
        _share(lambda task: run_level(task, partly, target), chain.from_iterable(cells), workers)
    if layout.weights is not None and weights is not None:
        target.write_whole(layout.weights, weights.values)
    for axis, spec in layout.boundaries.items():
        target.write_whole(spec, layout.samples[axis])
    for spec, values in zip(layout.outliers, (judgement.positions, judgement.values), strict=False):
        target.write_whole(spec, values)
    target.write_whole(layout.stamps, table)
    crcs = np.zeros(layout.checksums.shape, np.uint32)
    for name, place in layout.places(counts=partly.excluded).items():
        found = target.checksums[name]
        crcs[place : place + len(found)] = found
    target.write_whole(layout.checksums, crcs)


def describe(
    layout: Layout,
    recipe: Recipe,
    settings: Settings,
    weights: Weights | None,
    related: Sequence[Related],
    target: Target,
    missing: int,
    nonfinite: int,
    judgement: Judgement,
) -> dict[str, Any]:
    """Return the attributes of the group, whose arrays are written."""
    array, meaning = recipe.window.array, recipe.meaning
    dims = array.dims

    def key(axes: Axes) -> tuple[str, ...]:
        return tuple(dims[a] for a in axes)

    names = {
        key(s.axes): Names(
            unweighted=s.data.name if weights is None else None,
            weighted=None if weights is None else s.data.name,
            weights=s.weights.name,
        )
        for s in layout.sums
    }
    record = None
    if weights is not None and layout.weights is not None:
        record = WeightsRecord(weights.kind, weights.name, layout.weights.name, key(weights.axes))
    low = [(s.data.name, s.low.name) for s in layout.sums if s.low is not None]
    low += [(s.weights.name, s.weights_low.name) for s in layout.sums if s.weights_low is not None]
    counts = [
        (key(s.axes), s.counts.name) for s in layout.sums if s.counts is not None and (missing or layout.outliers)
    ]
    outliers = None
    if layout.outliers and judgement.limit is not None:
        outliers = OutliersRecord(judgement.limit, *(spec.name for spec in layout.outliers))
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
        sums=settings.sums,
        stride=Table({dims[a]: layout.stride[a] for a in layout.boundaries}),
        missing=missing,
        nonfinite=nonfinite,
        low=Table(low),
        counts=Table(counts),
        statistics=tuple(
            LevelNames(key(v.axes), v.level, Table({k: spec.name for k, spec in v.arrays.items()}))
            for v in layout.levels
        ),
        stamps=layout.stamps.name,
        checks=_checks(layout, target, counts=missing > 0 or bool(layout.outliers)),
        related=tuple(related),
        boundaries=Table({dims[a]: spec.name for a, spec in layout.boundaries.items()}),
        created_by=f"cfagg {__version__}",
        magnitudes=judgement.magnitudes,
        outliers=outliers,
    )
    return sealed({**write_group(names, dims), "cfagg": write_extra(extra)})


def _checks(layout: Layout, target: Target, *, counts: bool) -> Checks:
    """Return by what the arrays that were written are known."""
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
    """Write the metadata of the group, which makes it one."""
    target.documents[""] = group_documents(attributes, target.zarr_format)
    write_documents(target.folder, target.documents[""])


def kept_missing(kept: Kept, layout: Layout) -> int:
    """Return how many elements are missing in the part of the array that stays as it was."""
    extra, source = kept.group.extra, kept.group.extra.source if kept.group.extra is not None else None
    if extra is None or source is None or not extra.missing:
        return 0
    outliers = kept.group.outliers
    apart = 0 if outliers is None else int((outliers.positions[:, kept.axis] < kept.position).sum())
    specs = layout.sums[0]
    sums = kept.group.sums[tuple(source.dims[a] for a in specs.axes)]
    counts = sums.weights if extra.weights is None else sums.counts
    if counts is None:
        return 0
    # The last sample holds all; of what is at full resolution, the part that stays is added up.
    box = [(n - 1, n) if a in specs.axes else (0, n) for a, n in enumerate(counts.shape)]
    limit = kept.limit(specs.axes)
    box[kept.axis] = (limit - 1, limit) if kept.axis in specs.axes else (0, limit)
    cells = kept.position
    for a, n in enumerate(source.shape):
        cells *= n if a != kept.axis else 1
    counted = 0
    for index in touched(counts.grid.axes, tuple(box)):
        extent = counts.grid.extent(index)
        part = tuple((max(a, s), min(b, e)) for (a, b), (s, e) in zip(box, extent, strict=True))
        counted += int(read_region(counts, part).sum())
    return cells - counted - apart


def _share(work: Any, tasks: Iterator[Any], workers: int) -> None:
    """Do tasks with a few threads."""
    if workers == 1:
        for task in tasks:
            work(task)
        return
    for _ in run_threads(work, tasks, workers):
        pass
