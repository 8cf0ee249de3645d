"""Weights, means and centred sums of squares over any ranges: what variances follow from.

Differences of sums of squares would lose all digits where the spread is small beside the mean.  Parts are merged by
their means instead (Chan, Golub, LeVeque, 1983), from statistics of chunks and from cells.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.accumulation.adding import cells_of, chunks, cut, hull, in_order, threads_for, weights_of
from cfagg.accumulation.cover import Cover, cover, needs
from cfagg.accumulation.group import Group
from cfagg.accumulation.lattice import Moments, folds_of, joined, merged, place_of, segments_of, taken
from cfagg.accumulation.nodes import node_blocks
from cfagg.accumulation.parts import Local
from cfagg.accumulation.request import Request
from cfagg.kernels.cumulative import partial_sums
from cfagg.kernels.cumulative.mask import Mask, native_type
from cfagg.kernels.statistics import Statistics

__all__ = ["moments"]

Array = npt.NDArray[Any]
Terms = list[tuple[Local, ...]]

#: Up to so many boxes of a chunk are reduced one by one, more of them element by element.
_BOXES = 64

#: So many cells take longer in NumPy than loading a compiler.
_COMPILED_FROM = 2e7


def moments(group: Group, request: Request, *, workers: int | None = None) -> Moments:
    """Return weights, means and centred sums of squares of real values over the ranges of a request."""
    request = request.resolve(group.source.shape)
    kinds = needs(group, "var")
    found = cover(group, request, kinds)
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
        for gifts in in_order(work, chunks(found.cells), workers):
            for place, given in gifts:
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

    def __init__(self, group: Group, found: Cover) -> None:
        self.group = group
        mask = group.mask
        self.options: dict[str, Any] = {
            "fills": mask.fills,
            "valid_min": mask.valid_min,
            "valid_max": mask.valid_max,
            # A compiler that has been loaded already costs nothing.
            "compiled": found.cost > _COMPILED_FROM or "numba" in sys.modules,
        }
        self.mask = Mask.of(native_type(group.dtype), mask.fills, mask.valid_min, mask.valid_max)

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
