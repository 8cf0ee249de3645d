"""Weights, means and centred sums of squares over any ranges: what variances follow from.

Differences of sums of squares would lose all digits where the spread is small beside the mean.  Parts are merged by
their means instead (Chan, Golub, LeVeque, 1983), from statistics of chunks and from cells.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.accumulation.adding import cells_of, chunks, cut, hull, in_order, threads_for, weights_of
from cfagg.accumulation.contract import by_target, folds_of, place_of, taken
from cfagg.accumulation.group import Group
from cfagg.accumulation.nodes import NodePlan, needs, node_blocks, plan_nodes
from cfagg.accumulation.parts import Local
from cfagg.accumulation.request import Request
from cfagg.accumulation.source import mask_of
from cfagg.kernels.cumulative import partial_sums
from cfagg.kernels.statistics import Statistics

__all__ = ["joined", "merged", "moments", "segments_of"]

Array = npt.NDArray[Any]
Float = npt.NDArray[np.float64]
#: Weights (counts where there are none), means, and sums of squared distances from the means times weights.
Moments = tuple[Float, Float, Float]


def segments_of(term: Sequence[Local], limit: int) -> list[tuple[tuple[slice, ...], tuple[int, ...]]] | None:
    """Return every product of segments, and its number along each reduced axis; `None` for more than `limit`."""
    folds = folds_of(term)
    number = 1
    for a in folds:
        number *= len(term[a].starts)
    if number > limit:
        return None
    out = []
    for index in itertools.product(*(range(len(term[a].starts)) for a in folds)):
        cut = [slice(None)] * len(term)
        for a, k in zip(folds, index, strict=True):
            cut[a] = slice(term[a].starts[k], term[a].stops[k])
        out.append((tuple(cut), index))
    return out


def merged(parts: Moments, term: Sequence[Local], axes: Sequence[int]) -> Moments:
    """Return the moments of groups of elements, which are moments themselves, along some axes."""
    for axis in axes:
        local = term[axis]
        element, target, coefficient, begin = _elements(local)
        weight, mean, m2 = parts
        if len(element) != weight.shape[axis] or (element[1:] != element[:-1] + 1).any():
            weight, mean, m2 = (np.take(p, element, axis) for p in parts)
        if (coefficient != 1).any():
            factor = coefficient.reshape([-1 if a == axis else 1 for a in range(weight.ndim)])
            weight, m2 = weight * factor, m2 * factor
        total = np.add.reduceat(weight, begin, axis)
        centre = _ratio(np.add.reduceat(weight * mean, begin, axis), total)
        shift = mean - np.take(centre, target, axis)
        # Rounding of the centre is taken out of it: what is left of the mean distance is small.
        rest = _ratio(np.add.reduceat(weight * shift, begin, axis), total)
        squares = np.add.reduceat(m2 + weight * np.square(shift), begin, axis) - total * np.square(rest)
        parts = total, centre + rest, np.maximum(squares, 0.0)
    return parts


def joined(a: Moments, b: Moments) -> Moments:
    """Return the moments of two samples together, element by element."""
    total = a[0] + b[0]
    share = _ratio(b[0], total)
    distance = np.where(a[0] != 0, b[1] - a[1], 0.0)
    mean = np.where(a[0] != 0, a[1] + distance * share, b[1])
    return total, mean, a[2] + b[2] + np.square(distance) * a[0] * share


def _elements(local: Local) -> tuple[Array, Array, Array, Array]:
    """Return elements in the order of their groups: place, group, how often each counts, and where groups begin."""
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
    """Return quotients, 0 where the divisor is 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(weight != 0, total / weight, 0.0)


Terms = list[tuple[Local, ...]]

#: Up to so many boxes of a chunk are reduced one by one, more of them element by element.
_BOXES = 64

#: So many cells take longer in NumPy than loading a compiler.
_COMPILED_FROM = 2e7


def moments(group: Group, request: Request, *, workers: int | None = None) -> Moments:
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
        if workers is None:
            workers = threads_for(found.cost)
        work = _Work(group, found)
        for found_parts in in_order(work, chunks(found.cells), workers):
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
    """Moments of the cells that terms take of a chunk."""

    def __init__(self, group: Group, found: NodePlan) -> None:
        self.group = group
        mask = group.mask
        self.options: dict[str, Any] = {
            "fills": mask.fills,
            "valid_min": mask.valid_min,
            "valid_max": mask.valid_max,
            # A compiler that has been loaded already costs nothing.
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
            boxes = segments_of(term, _BOXES) if folds else None
            if boxes is None:
                found = merged(self.single(values, weights), term, folds)
            else:
                found = merged(self.boxes(values, weights, folds, boxes, term), _numbered(term), folds)
            out.append((place_of(term), found))
        return out

    def single(self, values: Array, weights: Array | None) -> Moments:
        """Return the moments of every cell by itself."""
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
            # Integers whose sum has more than 64 bits: with weights of 1, they are summed in real numbers.
            ones = np.broadcast_to(np.float64(1.0), values.shape)
            found = partial_sums(values, (), weights=ones, statistics=(folds,), **self.options)
        return found.statistics[folds]


def _numbered(term: tuple[Local, ...]) -> tuple[Local, ...]:
    """Return a term with its segments in place of what they hold."""
    return tuple(
        replace(local, low=0, high=n, starts=range(n), stops=range(1, n + 1)) if local.take is None else local
        for local, n in ((local, len(local.starts)) for local in term)
    )
