"""The plan of a build: which chunks are read, what is summed, which arrays are written."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from cfagg.accumulation.group import Group, group_path
from cfagg.accumulation.layout import build_layout
from cfagg.accumulation.mask import Meaning
from cfagg.accumulation.options import Settings
from cfagg.accumulation.orders import Plan
from cfagg.accumulation.partials import Recipe
from cfagg.accumulation.related import Neighbour
from cfagg.accumulation.weights import Weights
from cfagg.accumulation.window import Window
from cfagg.accumulation.writing import Kept
from cfagg.formats.zarr import ZarrArray
from cfagg.formats.zarr.documents import node_folder

__all__ = ["assemble", "existing_group"]


def assemble(
    array: ZarrArray,
    meaning: Meaning,
    existing: tuple[int, int] | None,
    settings: Settings,
    weights: Weights | None,
    kept: Kept | None,
    action: str,
    related: tuple[Neighbour, ...],
) -> Plan:
    """Return a plan with its window, recipe and layout."""
    window = Window(array) if kept is None else Window(array, kept.axis, kept.chunk)
    every = tuple(range(array.ndim))
    combinations = [tuple(array.dims.index(d) for d in c) for c in settings.dims]
    statistics = [every] if settings.statistics else []
    if len(settings.statistics) > 1:
        statistics += [c for c in combinations if c != every]
    sets = tuple(dict.fromkeys([*combinations, *statistics]))
    recipe = Recipe(
        window,
        meaning,
        sets,
        tuple(statistics),
        settings.sums,
        None if weights is None else weights.values,
        () if weights is None else weights.axes,
    )
    previous: dict[str, tuple[int, ...]] = {}
    if kept is not None:
        for a in _arrays_of(kept.group):
            previous[a.name] = tuple(axis.chunk for axis in a.grid.axes if hasattr(axis, "chunk"))
    objects = sum(len(n.stamps) for n in related)
    layout = build_layout(array, meaning, settings, None if weights is None else weights.axes, previous, objects)
    folder = Path(node_folder(array.store, group_path(array.path)))
    notes = []
    if recipe.meaning.mask.valid_min is not None or recipe.meaning.mask.valid_max is not None:
        notes.append("values outside the valid range that the attributes give count as missing; xarray keeps them")
    return Plan(
        array, folder, existing, settings, weights, recipe, layout, kept, action, related=related, notes=tuple(notes)
    )


def _arrays_of(group: Group) -> Iterator[ZarrArray]:
    """Yield the arrays of sums and statistics of a group."""
    for s in group.sums.values():
        yield from (a for a in (s.data, s.low, s.weights, s.weights_low, s.counts) if a is not None)
    for levels in group.statistics.values():
        for level in levels:
            yield from level.arrays.values()


def existing_group(array: ZarrArray) -> tuple[int, int] | None:
    """Return what tells the directory of the existing group from others, None where there is none."""
    folder = node_folder(array.store, group_path(array.path))
    if not os.path.lexists(folder):
        return None
    status = os.lstat(folder)
    return status.st_ino, status.st_mtime_ns
