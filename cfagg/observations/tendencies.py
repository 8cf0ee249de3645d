"""Statistics of how observations change from one time step to a later one.

Stations may move or fall silent, so each row is put into a cell of a common grid, here of latitude and longitude, and a
slot of time; what changes is the mean of a cell between two slots.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.cf.durations import format_duration
from cfagg.errors import ConventionError, Problem
from cfagg.observations.statistics import Accumulator

__all__ = ["TendencyGrid", "cells_of", "tendencies", "tendency_grid"]

type Floats = npt.NDArray[np.float32]
type Find = Callable[[int, int], tuple[int, int]]
type Read = Callable[[int, int], Floats]

#: Finer cells than this are a mistake, and their numbers would not fit.
_FINEST, _COARSEST = Fraction(1, 1000), 180
#: Slots of the past that are kept.
_MOST_SLOTS = 1000


@dataclass(frozen=True, slots=True)
class TendencyGrid:
    """The common grid, and the steps of time."""

    #: Height and width of the cells, which are counted from 90°S and 0°E; the last ones may be smaller.
    degrees: Fraction
    #: Differences of time in seconds.
    steps: tuple[int, ...]
    #: Length of a slot in seconds, counted from 1970; every step is a multiple of it.
    slot: int

    @property
    def columns(self) -> int:
        """Cells around the Earth."""
        return -(-360 // self.degrees)


def tendency_grid(degrees: float, steps: Sequence[timedelta]) -> TendencyGrid:
    """Return the grid of cells of so many degrees, and slots that all steps are multiples of."""
    problems = []
    size = Fraction(str(degrees))
    if not _FINEST <= size <= _COARSEST:
        said = f"{degrees:g} is not a size of cells, expected degrees from {float(_FINEST)} to {_COARSEST}"
        problems.append(Problem("statistics.grid", said))
    seconds = [step.total_seconds() for step in steps]
    places = [f"statistics.tendencies[{i}]" for i in range(len(steps))]
    problems += [
        Problem(place, f"the step {n:g}s is not a whole number of seconds")
        for place, n in zip(places, seconds, strict=True)
        if n % 1
    ]
    slot = math.gcd(*(int(n) for n in seconds))
    if not problems:
        problems += [
            Problem(place, f"{_text(int(n))} is more than {_MOST_SLOTS:,} times the slot {_text(slot)}")
            for place, n in zip(places, seconds, strict=True)
            if n // slot > _MOST_SLOTS
        ]
    if problems:
        raise ConventionError("tendencies cannot be computed", problems)
    return TendencyGrid(size, tuple(sorted({int(n) for n in seconds})), slot)


def _text(seconds: int) -> str:
    return format_duration(Fraction(seconds))


def cells_of(latitudes: Floats, longitudes: Floats, grid: TendencyGrid) -> npt.NDArray[np.int64]:
    """Return the cell of each place, from 0 at 90°S and 0°E, eastwards, then northwards; -1 where there is no place."""
    size = float(grid.degrees)
    rows = -(-180 // grid.degrees)
    with np.errstate(invalid="ignore"):
        row = np.floor((latitudes.astype("f8") + 90) / size)
        column = np.floor(longitudes.astype("f8") / size)
        # The pole belongs to the last row.
        cell = np.minimum(row, rows - 1) * grid.columns + np.clip(column, 0, grid.columns - 1)
        known = np.isfinite(cell) & (np.abs(latitudes) <= 90)
    return np.where(known, cell, -1).astype(np.int64)


def tendencies(
    grid: TendencyGrid,
    variables: int,
    first: int,
    last: int,
    find: Find,
    read: Read,
    *,
    block: int = 2**18,
) -> dict[int, dict[str, npt.NDArray[Any]]]:
    """Return statistics of tendencies for each step: differences of the means of a cell, rounded to float32."""
    # `first` and `last` are the seconds that are known whole: slots that reach beyond are left out, because the mean of
    # a part of a slot is not a mean of the slot.  ``find(lo, hi)`` returns the rows with lo <= date < hi. ``nan_count``
    # counts cells whose mean is not known in one of two slots with rows.
    found = {step: Accumulator(variables) for step in grid.steps}
    past: deque[tuple[int, _Slot]] = deque()
    for number, start, stop in _slots(grid, first, last, find):
        slot = _Slot(np.empty(0, np.int64), np.empty((0, variables)), np.empty((0, variables), np.int64))
        for at in range(start, stop, block):
            slot = _joined(slot, _means(read(at, min(at + block, stop)), grid))
        while past and past[0][0] < number - grid.steps[-1] // grid.slot:
            past.popleft()
        for step in grid.steps:
            before = next((s for n, s in past if n == number - step // grid.slot), None)
            if before is not None:
                found[step].accumulate(_difference(before, slot))
        past.append((number, slot))
    return {step: accumulator.result() for step, accumulator in found.items()}


def _slots(grid: TendencyGrid, first: int, last: int, find: Find) -> Iterator[tuple[int, int, int]]:
    """Yield the number and rows of every slot with rows; long gaps are passed over at once."""
    number, end = -(-first // grid.slot), (last + 1) // grid.slot - 1
    while number <= end:
        lo, hi = max(first, number * grid.slot), min(last + 1, (number + 1) * grid.slot)
        start, stop = find(lo, hi)
        if start < stop:
            yield number, start, stop
            number += 1
            continue
        # Double the stride until rows are met, then go back by halves.
        stride = 1
        while number + stride <= end:
            start, stop = find(lo, min(last + 1, (number + 2 * stride) * grid.slot))
            if start < stop:
                break
            stride *= 2
        number += stride


@dataclass(frozen=True, slots=True)
class _Slot:
    """Sums of the cells that have rows, in the order of their numbers."""

    cells: npt.NDArray[np.int64]
    sums: npt.NDArray[np.float64]
    counts: npt.NDArray[np.int64]


def _means(rows: Floats, grid: TendencyGrid) -> _Slot:
    """Return the sums of some rows by their cells."""
    cells = cells_of(rows[:, 2], rows[:, 3], grid)
    order = np.argsort(cells, kind="stable")
    order = order[np.searchsorted(cells[order], 0) :]
    values = np.asarray(rows[order, 4:], np.float64)
    known = ~np.isnan(values)
    values[~known] = 0
    return _reduced(cells[order], values, known)


def _joined(one: _Slot, other: _Slot) -> _Slot:
    """Return the sums of two parts of a slot together."""
    if not one.cells.size:
        return other
    cells = np.concatenate([one.cells, other.cells])
    order = np.argsort(cells, kind="stable")
    sums, counts = np.concatenate([one.sums, other.sums]), np.concatenate([one.counts, other.counts])
    return _reduced(cells[order], sums[order], counts[order])


def _reduced(cells: npt.NDArray[np.int64], sums: npt.NDArray[np.float64], counts: npt.NDArray[Any]) -> _Slot:
    """Return one entry a cell."""
    if not cells.size:
        return _Slot(cells, sums, counts.astype(np.int64))
    starts = np.flatnonzero(np.diff(cells, prepend=-1))
    return _Slot(cells[starts], np.add.reduceat(sums, starts), np.add.reduceat(counts, starts, dtype=np.int64))


def _difference(before: _Slot, after: _Slot) -> Floats:
    """Return by how much the means changed in the cells that both slots have."""
    _, i, j = np.intersect1d(before.cells, after.cells, assume_unique=True, return_indices=True)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        then, now = before.sums[i] / before.counts[i], after.sums[j] / after.counts[j]
        return (now - then).astype(np.float32)
