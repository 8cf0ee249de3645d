"""Extremes, means and centred sums of squares over any ranges, from statistics of chunks and a few cells."""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from cfagg.accumulation.adding import cells_of, chunks, cut, hull, in_order, weights_of
from cfagg.accumulation.contract import Local, by_target, folds_of, place_of, taken
from cfagg.accumulation.group import Group
from cfagg.accumulation.integrity import read_region
from cfagg.accumulation.layout import Level
from cfagg.accumulation.nodes import NodePlan, Nodes, bounds_of, needs, node_blocks, plan_nodes
from cfagg.accumulation.ranges import Request, along
from cfagg.accumulation.source import mask_of
from cfagg.formats.zarr import ZarrArray
from cfagg.kernels.cumulative import partial_sums
from cfagg.kernels.cumulative.mask import Mask, native_type
from cfagg.kernels.statistics import Statistics

__all__ = ["extremes", "extremes_of", "joined", "merged", "moments", "segments_of"]

Array = npt.NDArray[Any]
Float = npt.NDArray[np.float64]
Terms = list[tuple[Local, ...]]


def extremes(group: Group, request: Request, which: Literal["min", "max"]) -> Float:
    """Return the smallest or largest real values, without reading chunks that stored extremes rule out."""
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

        for found_parts in in_order(work, jobs, found.cost):
            for place, values in found_parts:
                out[place] = ufunc(out[place], values)
    # Infinite values never count, so results that are still infinite have no valid values.
    values = np.where(out == nothing, np.nan, out * group.scale + group.offset)
    return values.reshape(request.shape)


def _from_nodes(group: Group, nodes: Nodes, kind: str, ufunc: np.ufunc, nothing: float) -> Iterator[tuple[Any, Float]]:
    """Yield places in the result, and values from stored statistics."""
    for term, blocks in node_blocks(nodes, needs(group, kind)):
        values = blocks[kind].view(group.dtype)
        if "count" in blocks:
            values = np.where(blocks["count"] > 0, values.astype(np.float64), nothing)
        yield place_of(term), extremes_of(taken(values, term), term, ufunc).astype(np.float64)


def _from_cells(
    group: Group, mask: Mask | None, index: tuple[int, ...], terms: Terms, ufunc: np.ufunc, nothing: float
) -> list[tuple[Any, Float]]:
    """Return places in the result, and values from the cells of a chunk."""
    box = hull(terms)
    block = cells_of(group, index, box)
    out = []
    for term in terms:
        values = taken(block[cut(term, box)], term)
        valid = None if mask is None else mask.valid(values)
        if valid is None or valid.all():
            found = extremes_of(values, term, ufunc).astype(np.float64)
        else:
            # Invalid values are replaced by the value that loses every comparison.
            worst = _worst(native_type(group.dtype), nothing)
            found = extremes_of(np.where(valid, values, worst), term, ufunc)
            doubtful = found == worst
            found = found.astype(np.float64)
            if doubtful.any():
                found[doubtful & ~extremes_of(valid, term, np.logical_or)] = nothing
        out.append((place_of(term), found))
    return out


def _worst(dtype: np.dtype[Any], nothing: float) -> Any:
    """Return the value of a dtype that loses every comparison."""
    if dtype.kind == "f":
        return dtype.type(nothing)
    info = np.iinfo(dtype)
    return dtype.type(info.max if nothing > 0 else info.min)


def _useful(
    group: Group, jobs: list[tuple[tuple[int, ...], Terms]], kind: str, out: Float
) -> Iterator[tuple[tuple[int, ...], Terms]]:
    """Yield the chunks that may change a result, the most promising first."""
    # A generator, so that each chunk is compared with the results of the previous ones.
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


def _bounds(group: Group, level: Level[ZarrArray], kind: str, indices: list[tuple[int, ...]]) -> Float:
    """Return the extreme of each chunk, or the worst possible value for chunks without valid cells."""
    at = np.array(indices, np.int64).reshape(len(indices), -1)
    low, high = at.min(axis=0), at.max(axis=0) + 1
    box = tuple((int(low[a]), int(high[a])) for a in level.axes)
    place = tuple(at[:, a] - low[a] for a in level.axes)
    found: Float = read_region(level.arrays[kind], box).view(group.dtype)[place].astype(np.float64)
    if not group.complete:
        found[read_region(level.arrays["count"], box)[place] == 0] = np.inf if kind == "min" else -np.inf
    return found


def extremes_of(values: Array, term: Sequence[Local], ufunc: np.ufunc) -> Array:
    """Return the extremes of each group of a term, after single positions have been selected."""
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


#: Weights (counts without weights), means, and weighted sums of squared distances from the means.
Moments = tuple[Float, Float, Float]


def segments_of(term: Sequence[Local], limit: int) -> list[tuple[tuple[slice, ...], tuple[int, ...]]] | None:
    """Return every product of segments with its number along each reduced axis, or `None` if more than `limit`."""
    folds = folds_of(term)
    if math.prod(len(term[a].starts) for a in folds) > limit:
        return None
    out = []
    for index in itertools.product(*(range(len(term[a].starts)) for a in folds)):
        cut = [slice(None)] * len(term)
        for a, k in zip(folds, index, strict=True):
            cut[a] = slice(term[a].starts[k], term[a].stops[k])
        out.append((tuple(cut), index))
    return out


def merged(parts: Moments, term: Sequence[Local], axes: Sequence[int]) -> Moments:
    """Return the moments of groups of elements, given as moments, along some axes."""
    for axis in axes:
        local = term[axis]
        element, target, coefficient, begin = _elements(local)
        weight, mean, m2 = parts
        if len(element) != weight.shape[axis] or (element[1:] != element[:-1] + 1).any():
            weight, mean, m2 = (np.take(p, element, axis) for p in parts)
        if (coefficient != 1).any():
            factor = along(coefficient, axis, weight.ndim)
            weight, m2 = weight * factor, m2 * factor
        total = np.add.reduceat(weight, begin, axis)
        centre = _ratio(np.add.reduceat(weight * mean, begin, axis), total)
        # Elements without weight are far from a large centre, and the square of that may overflow.
        shift = np.where(weight != 0, mean - np.take(centre, target, axis), 0.0)
        # Correct the rounding error of the centre, using the remaining mean distance, which is small.
        rest = _ratio(np.add.reduceat(weight * shift, begin, axis), total)
        squares = np.add.reduceat(m2 + weight * np.square(shift), begin, axis)
        np.subtract(squares, total * np.square(rest), out=squares, where=np.isfinite(squares))
        parts = total, centre + rest, np.maximum(squares, 0.0)
    return parts


def joined(a: Moments, b: Moments) -> Moments:
    """Return the moments of the union of two samples, element by element."""
    total = a[0] + b[0]
    share = _ratio(b[0], total)
    distance = np.where((a[0] != 0) & (b[0] != 0), b[1] - a[1], 0.0)
    mean = np.where(a[0] != 0, a[1] + distance * share, b[1])
    return total, mean, a[2] + b[2] + np.square(distance) * a[0] * share


def _elements(local: Local) -> tuple[Array, Array, Array, Array]:
    """Return places, groups and coefficients of elements in the order of their groups, and where groups begin."""
    segment, coefficient, begin = by_target(local)
    starts, stops = np.array(local.starts), np.array(local.stops)
    lengths = (stops - starts)[segment]
    offset = np.repeat(np.cumsum(lengths) - lengths, lengths)
    element = np.repeat(starts[segment], lengths) + np.arange(lengths.sum()) - offset
    number = np.zeros(len(segment), np.int64)
    number[begin] = 1
    target = np.repeat(np.cumsum(number) - 1, lengths)
    return element, target, np.repeat(coefficient, lengths), (np.cumsum(lengths) - lengths)[begin]


def _ratio(total: Array, weight: Array) -> Float:
    """Return quotients, or 0 where the divisor is 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(weight != 0, total / weight, 0.0)


#: Up to this number of boxes of a chunk are reduced one by one; more, or smaller ones, are reduced element by element.
_BOXES, _BOX = 64, 1 << 11

#: Cost above which NumPy takes longer than loading the compiler.
_COMPILED_FROM = 2e7


def moments(group: Group, request: Request) -> Moments:
    """Return weights, means and centred sums of squares of real values over the ranges of a request."""
    request = request.resolve(group.source.shape)
    kinds = needs(group, "var")
    found = plan_nodes(group, request, kinds)
    out: Moments = (np.zeros(request.lengths), np.zeros(request.lengths), np.zeros(request.lengths))
    for nodes in found.nodes:
        for term, blocks in node_blocks(nodes, kinds):
            weight = blocks[kinds[2]].astype(np.float64)
            with np.errstate(divide="ignore", invalid="ignore"):
                mean = np.where(weight != 0, blocks["sum"] / weight, 0.0)
            parts = (taken(weight, term), taken(mean, term), taken(blocks["m2"], term))
            _add(out, place_of(term), merged(parts, term, folds_of(term)))
    if found.cells is not None:
        work = _Work(group, found)
        for found_parts in in_order(work, chunks(found.cells), found.cost):
            for place, given in found_parts:
                _add(out, place, given)
    weight, mean, m2 = (p.reshape(request.shape) for p in out)
    mean = np.where(weight != 0, mean * group.scale + group.offset, 0.0)
    return weight, mean, m2 * group.scale**2


def _add(out: Moments, place: Any, parts: Moments) -> None:
    """Merge moments into results."""
    weight, mean, m2 = out
    weight[place], mean[place], m2[place] = joined((weight[place], mean[place], m2[place]), parts)


class _Work:
    """Computes the moments of the cells of a chunk that terms select."""

    def __init__(self, group: Group, found: NodePlan) -> None:
        self.group = group
        mask = group.mask
        self.options: dict[str, Any] = {
            "fills": mask.fills,
            "valid_min": mask.valid_min,
            "valid_max": mask.valid_max,
            # If the compiler is already loaded, using it costs nothing extra.
            "compiled": found.cost > _COMPILED_FROM or "numba" in sys.modules,
        }
        self.mask = mask_of(group.dtype, mask)

    def __call__(self, job: tuple[tuple[int, ...], Terms]) -> list[tuple[Any, Moments]]:
        index, terms = job
        box = hull(terms)
        block = cells_of(self.group, index, box)
        out = []
        for term in terms:
            part = block[cut(term, box)]
            weights = weights_of(self.group, index, term)
            if weights is not None:
                weights = taken(np.broadcast_to(weights, part.shape), term)
            values = taken(part, term)
            folds = folds_of(term)
            boxes = segments_of(term, min(_BOXES, values.size // _BOX)) if folds else None
            if boxes is None:
                found = merged(self.single(values, weights), term, folds)
            else:
                found = merged(self.boxes(values, weights, folds, boxes, term), _numbered(term), folds)
            out.append((place_of(term), found))
        return out

    def single(self, values: Array, weights: Array | None) -> Moments:
        """Return the moments of single cells."""
        valid = self.mask.valid(values)
        mean = np.where(valid, values, 0).astype(np.float64)
        weight = valid.astype(np.float64) if weights is None else np.where(valid, weights, 0.0)
        return weight, mean, np.zeros(mean.shape)

    def boxes(
        self,
        values: Array,
        weights: Array | None,
        folds: tuple[int, ...],
        boxes: list[tuple[tuple[slice, ...], tuple[int, ...]]],
        term: tuple[Local, ...],
    ) -> Moments:
        """Return the moments of every product of segments."""
        shape = [len(t.starts) if a in folds else n for a, (t, n) in enumerate(zip(term, values.shape, strict=True))]
        weight, mean, m2 = np.zeros(shape), np.zeros(shape), np.zeros(shape)
        for box, index in boxes:
            part = self.statistics(values[box], None if weights is None else weights[box], folds)
            place: list[Any] = [slice(None)] * len(shape)
            for a, k in zip(folds, index, strict=True):
                place[a] = k
            weight[tuple(place)] = part.count if part.weights is None else part.weights
            mean[tuple(place)] = part.mean
            m2[tuple(place)] = part.m2
        return weight, mean, m2

    def statistics(self, values: Array, weights: Array | None, folds: tuple[int, ...]) -> Statistics:
        """Return the statistics of a box over some axes."""
        try:
            found = partial_sums(values, (), weights=weights, statistics=(folds,), **self.options)
        except OverflowError:
            # The sum exceeds 64 bits; with weights of 1, integers are summed as real numbers.
            ones = np.broadcast_to(np.float64(1.0), values.shape)
            found = partial_sums(values, (), weights=ones, statistics=(folds,), **self.options)
        return found.statistics[folds]


def _numbered(term: tuple[Local, ...]) -> tuple[Local, ...]:
    """Return a term in which each segment is replaced by a single element."""
    return tuple(
        replace(local, low=0, high=n, starts=range(n), stops=range(1, n + 1)) if local.take is None else local
        for local, n in ((local, len(local.starts)) for local in term)
    )
