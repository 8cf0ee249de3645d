"""What a build of sums is going to do, decided without reading data: build, rebuild, append, renew, or nothing."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from cfagg._version import __version__
from cfagg.accumulation.description import Neighbour, encoding_of, find_neighbours
from cfagg.accumulation.freshness import Changes, changes
from cfagg.accumulation.group import Group, command, group_path
from cfagg.accumulation.layout import Layout, build_layout
from cfagg.accumulation.opening import open_group
from cfagg.accumulation.options import Settings, check_dims, check_statistics, check_stride, differing
from cfagg.accumulation.partials import Recipe
from cfagg.accumulation.scratch import Window
from cfagg.accumulation.source import Meaning, horizontal_dims, read_meaning
from cfagg.accumulation.weights import Weights, find_weights
from cfagg.accumulation.writing import Kept, codec_of
from cfagg.conventions.accumulation_schema import KINDS, is_dimension
from cfagg.errors import ConventionError, NotAccumulatedError, StaleError, TargetExistsError, UnsupportedError
from cfagg.formats.zarr import ZarrArray, open_array
from cfagg.formats.zarr.documents import node_folder
from cfagg.model import Regular

__all__ = ["Order", "Plan", "existing_group", "plan_build"]


@dataclass(frozen=True, eq=False)
class Order:
    """What was asked for."""

    store: str
    variable: str
    dims: Any
    stride: Any
    weights: Any
    statistics: Any
    precision: str
    codec: str | None
    append: bool
    refresh: bool
    overwrite: bool
    resume: bool
    memory: int
    allow: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Plan:
    """What is going to be done."""

    array: ZarrArray
    folder: Path
    existing: tuple[int, int] | None
    settings: Settings
    weights: Weights | None
    recipe: Recipe
    layout: Layout
    kept: Kept | None
    action: str
    done: bool = False
    #: Whether nothing is to be summed, and what is known of related arrays is to be written anew.
    renew: bool = False
    related: tuple[Neighbour, ...] = ()
    notes: tuple[str, ...] = ()

    def identity(self) -> dict[str, Any]:
        """Return what must be the same for a build to be finished by another run."""
        array, meaning = self.array, self.recipe.meaning
        grid = [list(map(int, np.diff(e))) if isinstance(e, np.ndarray) else e.chunk for e in array.grid.axes]
        return {
            "version": __version__,
            "array": [array.path, list(array.dims), list(array.shape), grid, array.dtype.name],
            "meaning": repr((meaning.mask, meaning.packing)),
            "encoding": dict(encoding_of(array, None)),
            "options": self.settings.identity(),
            "weights": None if self.weights is None else self.weights.digest(),
            "accumulation to extend": None
            if self.kept is None
            else [list(self.kept.group.identity), self.kept.axis, self.kept.chunk],
        }


def find_kept(group: Group, array: ZarrArray, stride: tuple[int, ...], found: Changes) -> Kept | None:
    """Return what stays of an accumulation whose array has grown along one dimension and is the same before."""
    where = f"{group.store}: array {group.variable!r}"
    extra = group.extra
    if extra is None or found.other or len(found.grown) != 1 or found.written is None:
        raise StaleError(
            f"{where} has not only grown along one dimension since its accumulation was built, so nothing can be "
            "appended; rebuild it with refresh=True (--refresh)",
            found.problems,
        )
    (dim,) = found.grown
    axis, old = array.dims.index(dim), extra.source.shape[array.dims.index(dim)]
    # Objects that lie within the old array as a whole; one at its end may have been filled up since.
    edges = array.objects.edges[axis]
    whole = int(np.searchsorted(edges, old, side="right")) - 1
    early = found.written[found.written[:, axis] < whole]
    if len(early):
        raise StaleError(
            f"{where}: {len(early):,} of the chunks that were summed have been written since the accumulation was "
            "built, so nothing can be appended; rebuild it with refresh=True (--refresh)",
            found.problems,
        )
    grid = array.grid.axes[axis]
    position = int(edges[whole])
    chunk = position // grid.chunk if isinstance(grid, Regular) else int(np.searchsorted(grid, position))
    used = any(dim in c for c in group.sums)
    samples = chunk // stride[axis] if used else 0
    chunk = samples * stride[axis] if used else chunk
    if not chunk:
        return None
    return Kept(group, axis, chunk, int(array.grid.edges[axis][chunk]), samples)


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


def plan_update(order: Order, array: ZarrArray, meaning: Meaning, existing: tuple[int, int] | None, where: str) -> Plan:
    """Return what is going to be done to an existing accumulation."""
    group = open_group(array.store, array.path, check=False, allow=array.allow)
    extra = group.extra
    if extra is None:
        raise NotAccumulatedError(
            f"{where} has an accumulation by another program, which cannot be brought up to date; replace it with: "
            f"{command(array.store, array.path, '--overwrite')}"
        )
    if extra.source.dims != array.dims:
        raise StaleError(
            f"{where} has the dimensions {list(array.dims)}, its accumulation {list(extra.source.dims)}; rebuild it "
            f"with: {command(array.store, array.path, '--overwrite')}"
        )
    first = next(iter(group.sums.values())).data
    settings = Settings.of(extra, group.sums, codec_of(first.document))
    _same_options(order, settings, extra, where)
    found = changes(group)
    given: Any = order.weights
    if extra.weights is not None and given is None:
        kind, name = extra.weights.kind, extra.weights.name
        given = {"area": "area", "variable": name}.get(kind)
        if given is None and group.weights is not None:
            given = Weights("array", name, group.weights.array, group.weights.axes)
    related = find_neighbours(array, given)
    weights = find_weights(array, given, order.memory)
    integer = meaning.dtype.kind in "iu" and weights is None
    if (settings.sums == "int64") != integer and (settings.sums == "int64" or array.dtype.name != extra.source.dtype):
        settings = replace(settings, sums="int64" if integer else "float64")
    kept = None
    if found:
        try:
            kept = find_kept(group, array, settings.stride, found)
            _same_weights(kept, group, weights, where)
        except StaleError:
            if order.append:
                raise
            kept = None
    action = "rebuilt" if kept is None else "appended"
    plan = assemble(array, meaning, existing, settings, weights, kept, action, related)
    done = not found and weights_stay(group, weights)
    return replace(plan, done=done, renew=done and bool(found.related))


def _same_options(order: Order, settings: Settings, extra: Any, where: str) -> None:
    """Refuse options that contradict those of the existing accumulation; what was left out agrees."""
    given: dict[str, Any] = {}
    if order.dims is not None:
        given["dims"] = sorted(check_dims(order.dims, extra.source.dims, where))
    if order.stride != 1:
        given["stride"] = check_stride(order.stride, settings.dims, extra.source.dims, where)
    statistics = check_statistics(order.statistics)
    if statistics != ("chunks",):
        given["statistics"] = statistics
    if order.precision != "auto":
        given["precision"] = order.precision
    if order.weights is not None:
        given["weights"] = order.weights if isinstance(order.weights, str) else "array"
    known = extra.weights
    existing = {
        "dims": sorted(settings.dims),
        "stride": settings.stride,
        "statistics": settings.statistics,
        "precision": settings.sums,
        "weights": None if known is None else known.kind if known.kind != "variable" else known.name,
    }
    error = differing(given, existing, where)
    if error is not None:
        raise error


def weights_stay(group: Group, weights: Weights | None) -> bool:
    """Whether the weights are those with which an accumulation was built."""
    if group.weights is None or weights is None:
        return group.weights is None and weights is None
    return group.weights.axes == weights.axes and np.array_equal(group.weights.array, weights.values)


def _same_weights(kept: Kept | None, group: Group, weights: Weights | None, where: str) -> None:
    """Refuse to extend sums of other weights."""
    same = (group.weights is None) == (weights is None)
    if same and kept is not None and group.weights is not None and weights is not None:
        same = group.weights.axes == weights.axes
        if same:
            cut = tuple(slice(0, kept.position) if a == kept.axis else slice(None) for a in group.weights.axes)
            same = np.array_equal(group.weights.array[cut], weights.values[cut])
    if not same:
        raise StaleError(
            f"{where}: the weights have changed since its accumulation was built, so nothing can be appended; build it "
            "anew with refresh=True (--refresh)"
        )


def plan_build(order: Order) -> Plan:
    """Return what is going to be done, without reading data."""
    array = open_array(order.store, order.variable, allow=order.allow)
    where = f"{array.store}: array {array.path!r}"
    if not array.path:
        raise UnsupportedError(f"{array.store} is itself an array; an accumulation stands beside an array in a group")
    reserved = [d for d in array.dims if not is_dimension(d)]
    if reserved:
        raise UnsupportedError(
            f"{where} has the dimension {reserved[0]!r}; the convention (ZEP 5) keeps names with line breaks, and "
            f"those that begin with {', '.join(KINDS)}, from dimensions: rename it"
        )
    meaning = read_meaning(array)
    existing = existing_group(array)
    if order.append or order.refresh:
        return plan_update(order, array, meaning, existing, where)
    integer = meaning.dtype.kind in "iu" and order.weights is None
    default = [(d,) for d in array.dims]
    if order.dims is None and (pair := horizontal_dims(array)):
        default.append(pair)  # type: ignore[arg-type]
    settings = Settings.build(
        where,
        array.dims,
        dims=order.dims,
        default=default,
        stride=order.stride,
        statistics=order.statistics,
        precision=order.precision,
        codec=order.codec,
        integer=integer,
    )
    # Before weights are read: what is written from here on is found when the sums are done.
    related = find_neighbours(array, order.weights)
    weights = find_weights(array, order.weights, order.memory)
    plan = assemble(array, meaning, existing, settings, weights, None, "rebuilt" if existing else "built", related)
    if existing and not order.overwrite:
        if order.resume and _is_that(plan):
            return replace(plan, done=True)
        raise TargetExistsError(
            f"{where} has an accumulation; extend it with append=True (--append), bring it up to date with "
            "refresh=True (--refresh), or replace it with overwrite=True (--overwrite)"
        )
    return plan


def _is_that(plan: Plan) -> bool:
    """Whether the existing group is fresh and what would be built."""
    try:
        group = open_group(plan.array.store, plan.array.path, allow=plan.array.allow)
    except (ConventionError, NotAccumulatedError, StaleError):
        return False
    if group.extra is None or (found := changes(group)) or found.related or not weights_stay(group, plan.weights):
        return False
    codec = codec_of(next(iter(group.sums.values())).data.document)
    return Settings.of(group.extra, group.sums, codec).identity() == plan.settings.identity()
