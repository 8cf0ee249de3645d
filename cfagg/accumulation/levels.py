"""Statistics of the chunks, and the pyramid above them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.accumulation.layout import LevelSpecs
from cfagg.accumulation.summing import Partly
from cfagg.accumulation.writing import Target, read_region
from cfagg.errors import LimitError
from cfagg.formats.zarr import ZarrArray
from cfagg.kernels.statistics import FAN_OUT, Statistics, pyramid

__all__ = ["LevelTask", "level_tasks", "run_level"]

Axes = tuple[int, ...]
Box = tuple[tuple[int, int], ...]

#: Cells of a level that are merged at a time.
_BLOCK = 1 << 20


@dataclass(frozen=True, eq=False)
class LevelTask:
    """One chunk of the statistics of a level, of all kinds."""

    specs: LevelSpecs
    index: Axes
    below: Mapping[str, ZarrArray]


def level_tasks(specs: LevelSpecs, below: Mapping[str, ZarrArray]) -> Iterator[LevelTask]:
    """Yield the tasks of one level; `below` are the written arrays of the level below, none for the lowest."""
    for index in np.ndindex(*specs.arrays["count"].grid):
        yield LevelTask(specs, index, below)


def run_level(task: LevelTask, partly: Partly, target: Target) -> None:
    """Compute and write one chunk of every statistic of a level."""
    specs, kept = task.specs, partly.kept
    spec = specs.arrays["count"]
    box = tuple((i * c, min((i + 1) * c, n)) for i, c, n in zip(task.index, spec.chunks, spec.shape, strict=True))
    old: Mapping[str, ZarrArray] = {}
    axis = stay = 0
    if kept is not None:
        dims = tuple(partly.recipe.window.array.dims[a] for a in specs.axes)
        old = (
            next(v.arrays for v in kept.group.statistics[dims] if v.level == specs.level) if _has(partly, specs) else {}
        )
        axis = kept.axis
        stay = min(max(kept.limit(specs.axes, specs.level) - box[axis][0], 0), box[axis][1] - box[axis][0])
        if old and stay == box[axis][1] - box[axis][0]:
            for kind, each in specs.arrays.items():
                target.take(each, task.index, old[kind])
            return
    new = _cut(box, axis, stay)
    found = _lowest(specs, new, partly) if not specs.level else _higher(specs, new, task.below, partly)
    for kind, each in specs.arrays.items():
        values = found[kind]
        if stay:
            head = list(box)
            head[axis] = (box[axis][0], box[axis][0] + stay)
            values = np.concatenate([read_region(old[kind], tuple(head)), values], axis)
        target.write(each, task.index, values)


def _has(partly: Partly, specs: LevelSpecs) -> bool:
    """Whether the earlier state has this level: the pyramid grows with the array."""
    kept = partly.kept
    if kept is None:
        return False
    dims = tuple(partly.recipe.window.array.dims[a] for a in specs.axes)
    return any(v.level == specs.level for v in kept.group.statistics[dims])


def _cut(box: Box, axis: int, stay: int) -> Box:
    """Return a box without its first entries along an axis."""
    return tuple((a + stay, b) if i == axis else (a, b) for i, (a, b) in enumerate(box))


def _lowest(specs: LevelSpecs, box: Box, partly: Partly) -> dict[str, npt.NDArray[Any]]:
    """Return statistics per chunk from the pass over the data."""
    window, axes = partly.recipe.window, specs.axes
    local = tuple(
        (a - window.first_chunk(i), b - window.first_chunk(i))
        if i in axes
        else (a - window.start(i), b - window.start(i))
        for i, (a, b) in enumerate(box)
    )
    out = {kind: partly.read(kind, axes, local) for kind in specs.arrays if kind != "count"}
    cells: npt.NDArray[np.int64] = np.ones([1] * len(box), np.int64)
    for a in axes:
        place = [1] * len(box)
        place[a] = -1
        cells = cells * window.lengths[a][slice(*local[a])].reshape(place)
    out["count"] = cells - partly.read("excluded", axes, local)
    return out


def _higher(specs: LevelSpecs, box: Box, below: Mapping[str, ZarrArray], partly: Partly) -> dict[str, npt.NDArray[Any]]:
    """Return statistics of groups of cells of the level below."""
    shape = [b - a for a, b in box]
    width = FAN_OUT ** len(specs.axes)
    if math.prod(shape) * width > _BLOCK and max(shape) > 1:
        # Halves along the longest axis, until their cells fit.
        axis = int(np.argmax(shape))
        middle = box[axis][0] + shape[axis] // 2
        halves = [
            _higher(specs, tuple(part if i == axis else b for i, b in enumerate(box)), below, partly)
            for part in ((box[axis][0], middle), (middle, box[axis][1]))
        ]
        return {kind: np.concatenate([h[kind] for h in halves], axis) for kind in specs.arrays}
    lower = below["count"].shape
    wide = tuple(
        (a * FAN_OUT, min(b * FAN_OUT, lower[i])) if i in specs.axes else (a, b) for i, (a, b) in enumerate(box)
    )
    cells = {kind: read_region(array, wide) for kind, array in below.items()}
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
        array = partly.recipe.window.array
        raise LimitError(
            f"{array.store}: array {array.path!r}: {error}; sum in real numbers with precision='float64' "
            "(--precision float64)"
        ) from error
    names = {"count": "count", "min": "minimum", "max": "maximum", "sum": "sum", "m2": "m2", "weights": "weights"}
    return {kind: getattr(top, names[kind]) for kind in specs.arrays}
