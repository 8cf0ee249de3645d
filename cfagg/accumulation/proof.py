"""Error bounds of results from stored sums; results that are too uncertain are computed from the array itself.

A result is a difference of running sums, plus and minus sums of cells at the ends of its range.  Rounding errors of the
running sums depend on their size, not on that of the result: after a value of 1e16, sums of values of 1e-3 are lost.
So the error of every result is bounded, and a result whose bound is too large is not used.

With u = 2**-53, the error of a sum is at most the sum of three parts:

- rounding the running sums once each and adding them up: ``(4 + n) u |S|``, where n is their number and ``|S|`` the sum
  of their magnitudes;
- the partial sums of the chunks that the range touches, and of the cells at its ends: ``c u X``, where c is the longest
  chain of additions and X the sum of the magnitudes of all these values;
- the same for the weights, relative to their sum.

The error is small enough if it is below ``TOLERANCE`` times the weight of the range times the larger of the magnitude
of the mean and that of small values in the array.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.accumulation.adding import Sum, add_up
from cfagg.accumulation.group import Group, stored_type
from cfagg.accumulation.integrity import read_stored
from cfagg.accumulation.query_plan import Plan, Reading, make_plan
from cfagg.accumulation.ranges import Fold, Request, Runs, chunk_of, fold
from cfagg.errors import LimitError
from cfagg.kernels.distinct import distinct
from cfagg.model import Regular

__all__ = ["TOLERANCE", "Proof", "add_outliers", "read_instead"]

Array = npt.NDArray[Any]

#: Errors of means are smaller than this fraction of the magnitude of the values.
TOLERANCE = 2.0**-30

#: The share of it for the sum of the values, and also for that of the weights.
_PART = TOLERANCE / 2

#: Sums of other writers are used if rounding errors are known to be smaller than this fraction of a result.
_FOREIGN = 2.0**-4

#: Unit roundoff of float64.
_UNIT = 2.0**-53

#: Longest chain of additions within a chunk in addition to one for each step along its axes: the size of the blocks in
#: which contiguous values are added up.
_ROW = 1536


class Proof:
    """Bounds of the errors of the results of a plan."""

    def __init__(self, group: Group, plan: Plan) -> None:
        self.group, self.plan = group, plan
        stored = [r for r in plan.readings if r.quantity != "raw"]
        self.sums = [r for r in stored if r.quantity == "data"]
        self.weights = [r for r in stored if r.quantity == "weights" and r.array.dtype.kind == "f"]
        magnitudes = None if group.extra is None else group.extra.magnitudes
        self.small = 0.0 if magnitudes is None else magnitudes.small
        #: Upper bound of the stored values in the sums.
        self.largest = math.inf if magnitudes is None else magnitudes.largest

    @property
    def needed(self) -> bool:
        """Whether errors are possible; sums of integers, and of values that are read cell by cell, are exact."""
        return self.group.kind != "int64" and bool(self.sums)

    def at_once(self) -> bool:
        """Return whether every result is proven by the sizes of the array and of the ranges alone."""
        if not self.group.complete or self.group.weights is not None or not self.small:
            return False
        sums = sum(self._reach(r) * _height(self.group, r) for r in self.sums) * self.largest
        # Results without cells have no errors.
        sizes = [runs.sizes[runs.sizes > 0] for runs in self.plan.request.reduced.values()]
        fewest = math.prod(float(each.min()) if len(each) else 0.0 for each in sizes)
        return self._error(sums) <= _PART * fewest * self.small

    def wrong(self, found: Sum, total: Array, weight: Array | None, count: Array | None) -> Array:
        """Return a boolean array of unproven results; `found` has the magnitudes of the stored sums."""
        if self.group.extra is None:
            data, weights = self.lost(found, total, weight)
            return data | weights
        sums = sum(found.peaks.get(id(r), 0.0) * self._reach(r) for r in self.sums)
        size = np.abs(total.astype(np.float64, copy=False))
        if weight is not None and self.small:
            size = np.maximum(size, weight * self.small)
        bad: Array = ~(size * _PART >= self._error(sums))
        if self.weights and weight is not None:
            sums = sum(found.peaks.get(id(r), 0.0) * self._reach(r) for r in self.weights)
            bad |= ~(weight * _PART >= self._rounding(sums, self.weights) + self._within * self._weighty)
        if count is None and weight is not None and weight.dtype.kind == "i":
            count = weight
        return bad if count is None else bad & (count > 0)

    def lost(self, found: Sum, total: Array, weight: Array | None) -> tuple[Array, Array]:
        """Return boolean arrays of sums and weights from another writer that may consist of rounding errors."""
        # No sharper bound is possible, since it is unknown how such sums were added up.
        out = []
        for readings, values in ((self.sums, total), (self.weights, weight)):
            if not readings or values is None:
                out.append(np.zeros(total.shape, bool))
                continue
            types = [stored_type(r.array) for r in readings]
            unit = max((float(np.finfo(t).eps) for t in types if t.kind == "f"), default=0.0)
            sums = sum(found.peaks.get(id(r), 0.0) * self._reach(r) for r in readings)
            steps = 1.0
            if readings is self.weights and self.group.weights is not None:
                # Without counts there may be no values at all; rounding errors grow with the number of samples at most.
                steps = float(max(map(self._samples, readings)))
            bad = ~(np.abs(values) * _FOREIGN >= self._rounding(sums, readings) / _UNIT * unit * steps)
            out.append(bad & (weight > 0) if weight is not None and weight.dtype.kind == "i" else bad)
        return out[0], out[1]

    def _samples(self, reading: Reading) -> int:
        """Return the total number of samples along the summed axes of an array."""
        return sum(reading.array.shape[reading.axes.index(a)] for a in self.group.axes(reading.combination))

    def _error(self, sums: float) -> float:
        """Return a bound of the error of sums of values computed from stored sums of this total magnitude."""
        within = self._within * self._weighty
        # 0 times infinity is taken as 0, since nothing was rounded.
        return self._rounding(sums, self.sums) + (within * self.largest if within else 0.0)

    def _rounding(self, sums: float, readings: list[Reading]) -> float:
        """Return a bound of the rounding errors of stored sums, and of adding them up."""
        steps = 4.0 + sum(self._reach(r) for r in readings)
        if self.group.kind == "double-double":
            # A sum of pairs, one for each chunk, is accurate to some u**2.
            steps = 8 * _UNIT * (steps + sum(self.group.source.grid.matrix_shape))
        return steps * _UNIT * sums

    @cached_property
    def _weighty(self) -> float:
        """The largest weight."""
        field, extra = self.group.weights, self.group.extra
        if field is None:
            return 1.0
        if extra is not None and extra.magnitudes is not None:
            return extra.magnitudes.heaviest
        if field.stored is None:
            return float(field.array.max(initial=0.0))
        chunks = np.ndindex(field.stored.grid.matrix_shape)
        return max((float(read_stored(field.stored, index).max(initial=0.0)) for index in chunks), default=0.0)

    @cached_property
    def _within(self) -> float:
        """Relative error of sums within chunks, times the largest number of cells in a result, added or subtracted."""
        if self.group.kind == "double-double" and all(r.quantity != "raw" for r in self.plan.readings):
            return 0.0
        cells, lengths = 1.0, []
        for a, runs in self.plan.request.reduced.items():
            length, edges = self.group.source.shape[a], self.group.source.grid.axes[a]
            lengths.append(min(edges.chunk, length) if isinstance(edges, Regular) else int(np.diff(edges).max()))
            lists = [each for each in (s[a] for s in self.group.samples.values()) if each is not None]
            gap = max((int(np.diff(each, prepend=0).max(initial=1)) for each in lists), default=1)
            each = np.bincount(runs.group, np.minimum(runs.stop - runs.start + 2 * gap, length), runs.groups)
            cells *= max(1.0, float(each.max(initial=0.0)))
        row = sum(lengths) + min(_ROW, math.prod(lengths))
        return 2.0 * row * _UNIT * cells

    def _reach(self, reading: Reading) -> float:
        """Return the largest number of stored sums in one result."""
        return sum(math.prod(_most(part) for part in term.parts if isinstance(part, Fold)) for term in reading.terms)


def _most(part: Fold) -> float:
    """Return the largest number of elements that are added to or subtracted from one group."""
    sizes = (part.stop - part.start)[part.segment] * np.abs(part.coefficient)
    return float(np.bincount(part.group, sizes, part.groups).max(initial=0.0))


def _height(group: Group, reading: Reading) -> float:
    """Return the largest number of cells in a running sum."""
    return math.prod(group.source.shape[a] for a in group.axes(reading.combination))


Totals = dict[str, Array]

#: Up to this number of columns of chunks are read one by one; more are read as their smallest common box.
_COLUMNS = 256


def read_instead(group: Group, plan: Plan, wrong: Array, totals: Totals, low: Mapping[str, Array]) -> None:
    """Replace sums that are `wrong` by sums of the cells themselves; `totals` and `low` change in place."""
    for places in _columns(group, plan.request, wrong):
        part = Request(
            {a: _picked(runs, places[a]) for a, runs in plan.request.reduced.items()},
            {a: np.asarray(at)[places[a]] for a, at in plan.request.kept.items()},
        )
        exact = make_plan(group, part.resolve(group.source.shape), plan.summed, stored=False)
        found = add_up(group, exact, integer=False)
        index = np.ix_(*places)
        chosen = wrong[index]
        for q in plan.summed:
            totals[q] = _writable(totals[q])
            totals[q][index] = np.where(chosen, found.high[q], totals[q][index])
            if q in low:
                low[q][index] = np.where(chosen, found.low[q], low[q][index])


def _columns(group: Group, request: Request, wrong: Array) -> Iterator[list[npt.NDArray[np.int64]]]:
    """Yield boxes of places in the result that together cover all wrong ones, one column of chunks at a time."""
    at = np.argwhere(wrong)
    chunk = np.zeros(at.shape, np.int64)
    for a, positions in request.kept.items():
        chunk[:, a] = chunk_of(group.source.grid.axes[a], np.asarray(positions)[at[:, a]])
    columns, number = np.unique(chunk, axis=0, return_inverse=True)
    if len(columns) > _COLUMNS:
        yield [distinct(at[:, a]) for a in range(at.shape[1])]
        return
    for k in range(len(columns)):
        part = at[number.reshape(-1) == k]
        yield [distinct(part[:, a]) for a in range(at.shape[1])]


def _picked(runs: Runs, groups: npt.NDArray[np.int64]) -> Runs:
    """Return the ranges of some groups, with groups renumbered."""
    number = np.full(runs.groups, -1, np.int64)
    number[groups] = np.arange(len(groups))
    some = number[runs.group] >= 0
    return Runs(runs.start[some], runs.stop[some], number[runs.group[some]], len(groups), keep=True)


def _writable(values: Array) -> Array:
    return values if values.flags.writeable else values.copy()


def add_outliers(group: Group, plan: Plan, totals: Totals, low: Mapping[str, Array]) -> None:
    """Add the cells that are kept out of the sums to the results whose ranges contain them."""
    outliers, request = group.outliers, plan.request
    if outliers is None or not all(request.lengths):
        return
    positions = outliers.positions
    inside = np.ones(len(positions), bool)
    for a, at in request.kept.items():
        inside &= np.isin(positions[:, a], np.asarray(at))
    for a, runs in request.reduced.items():
        column = positions[:, a]
        inside &= np.searchsorted(np.sort(runs.start), column, side="right") > np.searchsorted(
            np.sort(runs.stop), column, side="right"
        )
    summands: dict[tuple[int, ...], list[float]] = {}
    finders = _finders(request)
    for k in np.flatnonzero(inside).tolist():
        position = positions[k].tolist()
        weight = _weight(group, position)
        value = float(outliers.values[k])
        along = [find(p) for find, p in zip(finders, position, strict=True)]
        for chosen in itertools.product(*along):
            place, times = tuple(i for i, _ in chosen), math.prod(n for _, n in chosen)
            if "data" in totals:
                summand = value * weight * times
                if math.isinf(summand):
                    raise LimitError(
                        f"{group.store}: array {group.variable!r}, cell {tuple(position)}: its value {value:g} times "
                        f"its weight {weight:g} is beyond float64; scale the weights down, or mark such values as "
                        "missing (_FillValue, valid_range)"
                    )
                summands.setdefault(place, []).append(summand)
            if "weights" in plan.summed:
                totals["weights"] = _writable(totals["weights"])
                totals["weights"][place] += times if group.weights is None else weight * times
            if "counts" in plan.summed and group.weights is not None:
                totals["counts"] = _writable(totals["counts"])
                totals["counts"][place] += times
    if summands:
        totals["data"] = _writable(totals["data"])
    for place, values in summands.items():
        rest = low["data"][place] if "data" in low else 0.0
        totals["data"][place] = _exact_sum([float(totals["data"][place]), float(rest), *values])
        if "data" in low:
            low["data"][place] = 0.0


def _weight(group: Group, position: list[int]) -> float:
    """Return the weight of a cell."""
    if group.weights is None:
        return 1.0
    return float(group.weights.array[tuple(position[a] for a in group.weights.axes)])


def _finders(request: Request) -> list[Callable[[int], list[tuple[int, int]]]]:
    """Return for each axis a function from a position to the places in the result to which it adds, and how often."""

    def of_kept(at: npt.NDArray[np.int64]) -> Callable[[int], list[tuple[int, int]]]:
        order = np.argsort(at, kind="stable")
        ascending = at[order]

        def find(position: int) -> list[tuple[int, int]]:
            i, j = np.searchsorted(ascending, [position, position + 1])
            return [(place, 1) for place in order[i:j].tolist()]

        return find

    def of_reduced(part: Fold) -> Callable[[int], list[tuple[int, int]]]:
        def find(position: int) -> list[tuple[int, int]]:
            segment = int(np.searchsorted(part.start, position, side="right")) - 1
            if segment < 0 or position >= part.stop[segment]:
                return []
            i, j = np.searchsorted(part.segment, [segment, segment + 1])
            return list(zip(part.group[i:j].tolist(), part.coefficient[i:j].tolist(), strict=True))

        return find

    return [
        of_kept(np.asarray(request.kept[a])) if a in request.kept else of_reduced(fold(request.reduced[a]))
        for a in range(len(request.lengths))
    ]


def _exact_sum(values: list[float]) -> float:
    """Return a sum with a single rounding, infinite beyond the range of float64."""
    try:
        return math.fsum(values)
    except OverflowError:
        return math.fsum(v / 2**64 for v in values) * 2.0**64
