"""Smallest and largest values over any ranges, from statistics of chunks and as few cells as there can be."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from cfagg.accumulation.adding import cells_of, chunks, cut, hull, in_order, threads_for
from cfagg.accumulation.contract import by_target, folds_of, place_of, taken
from cfagg.accumulation.group import Group, Level
from cfagg.accumulation.integrity import read_region
from cfagg.accumulation.nodes import Nodes, bounds_of, needs, node_blocks, plan_nodes
from cfagg.accumulation.parts import Local
from cfagg.accumulation.request import Request
from cfagg.accumulation.source import mask_of
from cfagg.kernels.cumulative.mask import Mask, native_type

__all__ = ["extremes", "extremes_of"]

Array = npt.NDArray[Any]
Float = npt.NDArray[np.float64]
Terms = list[tuple[Local, ...]]


def extremes(group: Group, request: Request, which: Literal["min", "max"], *, workers: int | None = None) -> Float:
    """Return the smallest or largest real values; chunks whose stored extremes show they cannot decide are not read."""
    request = request.resolve(group.source.shape)
    stored = {"min": "max", "max": "min"}[which] if group.scale < 0 else which
    found = plan_nodes(group, request, needs(group, stored))
    ufunc, nothing = (np.minimum, np.inf) if stored == "min" else (np.maximum, -np.inf)
    out = np.full(request.lengths, nothing)
    for nodes in found.nodes:
        for place, values in _from_nodes(group, nodes, stored, ufunc, nothing):
            out[place] = ufunc(out[place], values)
    if found.cells is not None:
        jobs = _useful(group, list(chunks(found.cells)), stored, out)
        mask = None if group.complete else mask_of(group.dtype, group.mask)

        def work(job: tuple[tuple[int, ...], Terms]) -> list[tuple[Any, Float]]:
            return _from_cells(group, mask, *job, ufunc, nothing)

        if workers is None:
            workers = threads_for(found.cost)
        for found_parts in in_order(work, jobs, workers):
            for place, values in found_parts:
                out[place] = ufunc(out[place], values)
    # Infinite values never count, so what is still infinite had nothing valid.
    values = np.where(out == nothing, np.nan, out * group.scale + group.offset)
    return values.reshape(request.shape)


def _from_nodes(group: Group, nodes: Nodes, kind: str, ufunc: np.ufunc, nothing: float) -> Iterator[tuple[Any, Float]]:
    """Yield what stored statistics give: place in the result, and values."""
    for term, blocks in node_blocks(nodes, needs(group, kind)):
        values = blocks[kind].view(group.dtype)
        if "count" in blocks:
            values = np.where(blocks["count"] > 0, values.astype(np.float64), nothing)
        yield place_of(term), extremes_of(taken(values, term), term, ufunc).astype(np.float64)


def _from_cells(
    group: Group, mask: Mask | None, index: tuple[int, ...], terms: Terms, ufunc: np.ufunc, nothing: float
) -> list[tuple[Any, Float]]:
    """Return what the cells of a chunk give."""
    box = hull(terms)
    block = cells_of(group, index, box)
    out = []
    for term in terms:
        values = taken(block[cut(term, box)], term)
        valid = None if mask is None else mask.valid(values)
        if valid is None or valid.all():
            found = extremes_of(values, term, ufunc).astype(np.float64)
        else:
            # What is not valid is replaced by what can be no result, or one only where it is one anyway.
            worst = _worst(native_type(group.dtype), nothing)
            found = extremes_of(np.where(valid, values, worst), term, ufunc)
            doubtful = found == worst
            found = found.astype(np.float64)
            if doubtful.any():
                found[doubtful & ~extremes_of(valid, term, np.logical_or)] = nothing
        out.append((place_of(term), found))
    return out


def _worst(dtype: np.dtype[Any], nothing: float) -> Any:
    """Return the value that all others of a type are before."""
    if dtype.kind == "f":
        return dtype.type(nothing)
    info = np.iinfo(dtype)
    return dtype.type(info.max if nothing > 0 else info.min)


def _useful(
    group: Group, jobs: list[tuple[tuple[int, ...], Terms]], kind: str, out: Float
) -> Iterator[tuple[tuple[int, ...], Terms]]:
    """Yield the chunks that may change a result, the most promising first, each looked at when it is asked for."""
    # By the time the next one is asked for, results of those before it have come in.
    level = bounds_of(group, kind)
    if level is None or not jobs:
        yield from jobs
        return
    bounds = _bounds(group, level, kind, [index for index, _ in jobs])
    order = np.argsort(bounds if kind == "min" else -bounds, kind="stable")
    for k in order.tolist():
        index, terms = jobs[k]
        bound = bounds[k]
        better = (out > bound) if kind == "min" else (out < bound)
        if any(better[place_of(term)].any() for term in terms):
            yield index, terms


def _bounds(group: Group, level: Level, kind: str, indices: list[tuple[int, ...]]) -> Float:
    """Return the extreme of each chunk, as bad as can be for chunks without valid cells."""
    at = np.array(indices, np.int64).reshape(len(indices), -1)
    low, high = at.min(axis=0), at.max(axis=0) + 1
    box = tuple((int(low[a]), int(high[a])) for a in level.axes)
    place = tuple(at[:, a] - low[a] for a in level.axes)
    found: Float = read_region(level.arrays[kind], box).view(group.dtype)[place].astype(np.float64)
    if not group.complete:
        found[read_region(level.arrays["count"], box)[place] == 0] = np.inf if kind == "min" else -np.inf
    return found


def extremes_of(values: Array, term: Sequence[Local], ufunc: np.ufunc) -> Array:
    """Return the smallest or largest values of each group of what a term takes, single positions taken."""
    single = tuple(a for a in folds_of(term) if len(term[a].entries) == 1)
    cut = [slice(None)] * values.ndim
    for a in single:
        cut[a] = slice(term[a].starts[0], term[a].stops[0])
    if single:
        values = ufunc.reduce(values[tuple(cut)], axis=single, keepdims=True)
    for axis in folds_of(term):
        if axis in single:
            continue
        local = term[axis]
        within = np.concatenate([np.arange(a, b) for a, b in zip(local.starts, local.stops, strict=True)])
        starts = np.cumsum([0, *(b - a for a, b in zip(local.starts, local.stops, strict=True))])[:-1]
        whole = len(within) == values.shape[axis]
        parts = ufunc.reduceat(values if whole else np.take(values, within, axis), starts, axis)
        segment, _, begin = by_target(local)
        values = ufunc.reduceat(np.take(parts, segment, axis), begin, axis)
    return values
