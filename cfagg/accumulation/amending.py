"""What is put right in sums that were added up: answers that are not proven, and cells that are not in the sums."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.accumulation.adding import add_up
from cfagg.accumulation.group import Group
from cfagg.accumulation.planner import Plan, make_plan
from cfagg.accumulation.request import Request
from cfagg.accumulation.runs import Runs
from cfagg.model import Regular

__all__ = ["add_outliers", "read_instead"]

Array = npt.NDArray[Any]
Totals = dict[str, Array]

#: Up to so many columns of chunks are read one by one, more of them as the smallest box that holds them.
_COLUMNS = 256


def read_instead(
    group: Group, plan: Plan, wrong: Array, totals: Totals, low: Mapping[str, Array], workers: int | None
) -> None:
    """Put sums of the cells themselves in place of those that are `wrong`; `totals` and `low` change in place."""
    for places in _columns(group, plan.request, wrong):
        part = Request(
            {a: _picked(runs, places[a]) for a, runs in plan.request.reduced.items()},
            {a: np.asarray(at)[places[a]] for a, at in plan.request.kept.items()},
        )
        exact = make_plan(group, part.resolve(group.source.shape), plan.summed, stored=False)
        found = add_up(group, exact, integer=False, workers=workers)
        index = np.ix_(*places)
        chosen = wrong[index]
        for q in plan.summed:
            totals[q] = _writable(totals[q])
            totals[q][index] = np.where(chosen, found.high[q], totals[q][index])
            if q in low:
                low[q][index] = np.where(chosen, found.low[q], low[q][index])


def _columns(group: Group, request: Request, wrong: Array) -> Iterator[list[npt.NDArray[np.int64]]]:
    """Yield boxes of places in the result that hold all wrong ones, those of one column of chunks at a time."""
    at = np.argwhere(wrong)
    chunk = np.zeros(at.shape, np.int64)
    for a, positions in request.kept.items():
        edges = group.source.grid.axes[a]
        kept = np.asarray(positions)[at[:, a]]
        chunk[:, a] = (
            kept // edges.chunk if isinstance(edges, Regular) else np.searchsorted(edges, kept, side="right") - 1
        )
    columns, number = np.unique(chunk, axis=0, return_inverse=True)
    if len(columns) > _COLUMNS:
        yield [np.unique(at[:, a]) for a in range(at.shape[1])]
        return
    for k in range(len(columns)):
        part = at[number.reshape(-1) == k]
        yield [np.unique(part[:, a]) for a in range(at.shape[1])]


def _picked(runs: Runs, groups: npt.NDArray[np.int64]) -> Runs:
    """Return the ranges of some groups, numbered anew."""
    number = np.full(runs.groups, -1, np.int64)
    number[groups] = np.arange(len(groups))
    some = number[runs.group] >= 0
    return Runs(runs.start[some], runs.stop[some], number[runs.group[some]], len(groups), keep=True)


def _writable(values: Array) -> Array:
    return values if values.flags.writeable else values.copy()


def add_outliers(group: Group, plan: Plan, totals: Totals, low: Mapping[str, Array]) -> None:
    """Add the cells that are kept out of the sums to the results whose ranges they lie in."""
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
    for k in np.flatnonzero(inside).tolist():
        position = positions[k].tolist()
        weight = _weight(group, position)
        value = float(outliers.values[k])
        for place, times in _places(request, position):
            if "data" in totals:
                summands.setdefault(place, []).append(value * weight * times)
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


def _places(request: Request, position: list[int]) -> Iterator[tuple[tuple[int, ...], int]]:
    """Yield the places in the result that a cell belongs to, and how often."""
    along: list[list[tuple[int, int]]] = []
    for a, p in enumerate(position):
        if a in request.kept:
            along.append([(i, 1) for i in np.flatnonzero(np.asarray(request.kept[a]) == p).tolist()])
            continue
        runs = request.reduced[a]
        groups = runs.group[(runs.start <= p) & (p < runs.stop)]
        number, times = np.unique(groups, return_counts=True)
        along.append(list(zip(number.tolist(), times.tolist(), strict=True)))
    for index in np.ndindex(*map(len, along)):
        chosen = [each[i] for each, i in zip(along, index, strict=True)]
        yield tuple(c[0] for c in chosen), math.prod(c[1] for c in chosen)


def _exact_sum(values: list[float]) -> float:
    """Return a sum rounded once; infinite where it is beyond float64."""
    try:
        return math.fsum(values)
    except OverflowError:
        return math.fsum(v / 2**64 for v in values) * 2.0**64
