"""Statistics of the columns of observations, identical to the last bit regardless of how the rows are split and merged.

Mean, minimum, maximum, standard deviation (divided by the count) and the number of NaN, per variable; the others ignore
NaN.  The accumulated state is small (some kilobytes per variable) and can be stored, so that a build can continue
after an interruption.
"""

from __future__ import annotations

import math
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.cf.durations import format_duration
from cfagg.errors import ConventionError, LimitError, ModelError, Problem

__all__ = ["Accumulator", "over_rows", "tendencies", "tendency_grid", "totals"]

#: Names of the statistics, which are those of the arrays of a store.
NAMES = ("mean", "minimum", "maximum", "stdev", "nan_count")

#: Largest number of rows for which int64 bins cannot overflow.
_MOST_ROWS = 2**38


class Accumulator:
    """Statistics of columns, updated block by block."""

    __slots__ = ("_bins", "_counts", "_keys", "rows")

    def __init__(self, variables: int) -> None:
        self.rows = 0
        self._bins = np.zeros((variables, FIELDS, 3), np.int64)
        self._keys = np.tile(np.array(NO_KEYS, np.int64), (variables, 1))
        self._counts = np.zeros((variables, 3), np.int64)

    @property
    def variables(self) -> int:
        """Number of columns."""
        return len(self._keys)

    def accumulate(self, block: npt.NDArray[np.float32]) -> None:
        """Add rows, float32 (rows, variables), which are not copied."""
        if block.dtype != np.float32 or block.ndim != 2 or block.shape[1] != self.variables:
            raise ModelError(
                f"statistics of {self.variables} variables were given a block of {block.dtype} and shape "
                f"{block.shape}; expected float32 and (rows, {self.variables})"
            )
        self._grow(len(block))
        if block.size:
            block = block if block.strides[1] == block.itemsize else np.ascontiguousarray(block)
            add_values(block, self._bins, self._keys, self._counts)

    def merge(self, other: Accumulator) -> None:
        """Add everything that another accumulator contains."""
        if other.variables != self.variables:
            raise ModelError(f"statistics of {other.variables} variables cannot be merged into {self.variables}")
        self._grow(other.rows)
        self._bins += other._bins
        self._counts += other._counts
        np.minimum(self._keys[:, 0], other._keys[:, 0], out=self._keys[:, 0])
        np.maximum(self._keys[:, 1], other._keys[:, 1], out=self._keys[:, 1])

    def _grow(self, rows: int) -> None:
        if self.rows + rows > _MOST_ROWS:
            raise LimitError(f"statistics of more than {_MOST_ROWS:,} rows cannot be summed exactly")
        self.rows += rows

    def result(self) -> dict[str, npt.NDArray[Any]]:
        """Return the statistics by name, one value per variable: NaN without values; ``nan_count`` is int64."""
        # An infinite value makes a mean infinite and a standard deviation NaN.
        mean, stdev = [], []
        for bins, (nan, above, below) in zip(self._bins, self._counts.tolist(), strict=True):
            count = self.rows - nan
            if above or below:
                mean.append(math.nan if above and below else math.inf if above else -math.inf)
                stdev.append(math.nan)
                continue
            total, squares = totals(bins)
            # Python divides whole numbers of any size with one rounding.
            mean.append(total / (count << 149) if count else math.nan)
            stdev.append(stdev_of(total, squares, count))
        low, high = ([key_value(k) for k in column] for column in self._keys.T)
        floats = (np.array(values, np.float64) for values in (mean, low, high, stdev))
        return dict(zip(NAMES, (*floats, self._counts[:, 0].copy()), strict=True))


#: Number of rows that are read at a time.
_BLOCK = 2**18


def over_rows(
    variables: int, start: int, stop: int, read: Callable[[int, int], npt.NDArray[np.float32]]
) -> Accumulator:
    """Return the statistics of rows, read in blocks."""
    found = Accumulator(variables)
    for at in range(start, stop, _BLOCK):
        found.accumulate(read(at, min(at + _BLOCK, stop)))
    return found


type Floats = npt.NDArray[np.float32]
type Integers = npt.NDArray[np.int64]

#: Values of the exponent field of a float32.
FIELDS = 256

#: Smallest and largest key if there is no value; below and above all keys.
NO_KEYS = (2**31, -(2**31))

_KERNELS = "cfagg.kernels.exact_sums"
#: Number of elements below which NumPy is faster than compiling a kernel.
_SMALL = 2**21


def add_values(block: Floats, bins: Integers, keys: Integers, counts: Integers) -> None:
    """Add values (n, v) to bins (v, 256, 3), keys (v, 2) and counts (v, 3), in place."""
    # Small blocks are added with NumPy until the kernels have been loaded; the bins are the same.
    bits = block.view(np.uint32)
    if _KERNELS not in sys.modules and block.size < _SMALL:
        _add_plainly(bits, bins, keys, counts)
        return
    from cfagg.kernels.exact_sums import add_values as kernel

    kernel(bits, bins, keys, counts)


def _add_plainly(bits: npt.NDArray[np.uint32], bins: Integers, keys: Integers, counts: Integers) -> None:
    """Add with NumPy: float64 weights of 24 bits are exact up to 2**29 rows."""
    for j in range(bits.shape[1]):
        column = bits[:, j].astype(np.int64)
        size = column & 0x7FFFFFFF
        nan = size > 0x7F800000
        negative = column >> 31 != 0
        infinite = size == 0x7F800000
        counts[j] += [nan.sum(), (infinite & ~negative).sum(), (infinite & negative).sum()]
        order = np.where(negative, -size, size)[~nan]
        if order.size:
            keys[j] = min(keys[j, 0], order.min()), max(keys[j, 1], order.max())
        finite = ~(nan | infinite)
        size, negative = size[finite], negative[finite]
        field = size >> 23
        significand = (size & 0x7FFFFF) | np.where(field != 0, 0x800000, 0)
        square = significand * significand
        for k, part in enumerate((np.where(negative, -significand, significand), square & 0xFFFFFF, square >> 24)):
            bins[j, :, k] += np.bincount(field, part, FIELDS).astype(np.int64)


def totals(bins: Integers) -> tuple[int, int]:
    """Return the sum of one column and that of its squares, in units of 2**-149 and 2**-298."""
    total = squares = 0
    for field in np.flatnonzero(bins.any(axis=1)).tolist():
        shift = max(field, 1) - 1
        significands, low, high = bins[field].tolist()
        total += significands << shift
        squares += (low + (high << 24)) << 2 * shift
    return total, squares


def stdev_of(total: int, squares: int, count: int) -> float:
    """Return the float64 nearest to the standard deviation (divided by the count), from `totals`; NaN if empty."""
    if not count:
        return math.nan
    above = count * squares - total * total
    below = count * count << 298
    # A root of at least 64 bits, and a further bit that shows whether it is exact, is rounded once and correctly.
    shift = max(0, 64 - (above.bit_length() - below.bit_length()) // 2)
    whole, rest = divmod(above << 2 * shift, below)
    root = math.isqrt(whole)
    exact = rest == 0 and root * root == whole
    return (2 * root + (not exact)) / (2 << shift)


def key_value(key: Any) -> float:
    """Return the value that the key of an extreme represents, or NaN if there was none."""
    size = abs(int(key))
    if size > 0x7F800000:
        return math.nan
    value = float(np.uint32(size).view(np.float32))
    return -value if key < 0 else value


type Find = Callable[[int, int], tuple[int, int]]
type Read = Callable[[int, int], Floats]

#: Smallest and largest size of cells in degrees; the numbers of smaller cells would not fit.
_FINEST, _COARSEST = Fraction(1, 1000), 180
#: Largest number of past slots that are kept.
_MOST_SLOTS = 1000


@dataclass(frozen=True, slots=True)
class TendencyGrid:
    """The common grid and the time steps of tendencies."""

    #: Height and width of the cells in degrees, counted from 90°S and 0°E; the last ones may be smaller.
    degrees: Fraction
    #: Differences of time in seconds.
    steps: tuple[int, ...]
    #: Length of a slot in seconds, counted from 1970; every step is a multiple of it.
    slot: int

    @property
    def columns(self) -> int:
        """Number of cells around the Earth."""
        return -(-360 // self.degrees)


def tendency_grid(degrees: float, steps: Sequence[timedelta]) -> TendencyGrid:
    """Return the grid of cells of `degrees` degrees, with slots that divide all steps."""
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
    """Return the cell of each place, from 0 at 90°S and 0°E, eastwards, then northwards; -1 if it has no place."""
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
    grid: TendencyGrid, variables: int, first: int, last: int, find: Find, read: Read
) -> dict[int, dict[str, npt.NDArray[Any]]]:
    """Return statistics of tendencies for each step: differences of the means of a cell, rounded to float32."""
    # `first` and `last` bound the seconds with complete data. Slots that extend beyond are left out, since the mean of
    # a part of a slot is not a mean of the slot.  ``find(lo, hi)`` returns the rows with lo <= date < hi. ``nan_count``
    # counts cells whose mean is unknown in one of two slots with rows.
    found = {step: Accumulator(variables) for step in grid.steps}
    past: deque[tuple[int, _Slot]] = deque()
    for number, start, stop in _slots(grid, first, last, find):
        slot = _Slot(np.empty(0, np.int64), np.empty((0, variables)), np.empty((0, variables), np.int64))
        for at in range(start, stop, _BLOCK):
            slot = _joined(slot, _means(read(at, min(at + _BLOCK, stop)), grid))
        while past and past[0][0] < number - grid.steps[-1] // grid.slot:
            past.popleft()
        for step in grid.steps:
            before = next((s for n, s in past if n == number - step // grid.slot), None)
            if before is not None:
                found[step].accumulate(_difference(before, slot))
        past.append((number, slot))
    return {step: accumulator.result() for step, accumulator in found.items()}


def _slots(grid: TendencyGrid, first: int, last: int, find: Find) -> Iterator[tuple[int, int, int]]:
    """Yield the number and rows of every slot with rows, skipping long gaps at once."""
    number, end = -(-first // grid.slot), (last + 1) // grid.slot - 1
    while number <= end:
        lo, hi = max(first, number * grid.slot), min(last + 1, (number + 1) * grid.slot)
        start, stop = find(lo, hi)
        if start < stop:
            yield number, start, stop
            number += 1
            continue
        # Double the stride until rows are found, then go back by bisection.
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
    """Return the sums of some rows by cell."""
    cells = cells_of(rows[:, 2], rows[:, 3], grid)
    order = np.argsort(cells, kind="stable")
    order = order[np.searchsorted(cells[order], 0) :]
    values = np.asarray(rows[order, 4:], np.float64)
    known = ~np.isnan(values)
    values[~known] = 0
    return _reduced(cells[order], values, known)


def _joined(one: _Slot, other: _Slot) -> _Slot:
    """Return the combined sums of two parts of a slot."""
    if not one.cells.size:
        return other
    cells = np.concatenate([one.cells, other.cells])
    order = np.argsort(cells, kind="stable")
    sums, counts = np.concatenate([one.sums, other.sums]), np.concatenate([one.counts, other.counts])
    return _reduced(cells[order], sums[order], counts[order])


def _reduced(cells: npt.NDArray[np.int64], sums: npt.NDArray[np.float64], counts: npt.NDArray[Any]) -> _Slot:
    """Return one entry per cell."""
    if not cells.size:
        return _Slot(cells, sums, counts.astype(np.int64))
    starts = np.flatnonzero(np.diff(cells, prepend=-1))
    return _Slot(cells[starts], np.add.reduceat(sums, starts), np.add.reduceat(counts, starts, dtype=np.int64))


def _difference(before: _Slot, after: _Slot) -> Floats:
    """Return the change of the means in the cells that both slots have."""
    _, i, j = np.intersect1d(before.cells, after.cells, assume_unique=True, return_indices=True)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        then, now = before.sums[i] / before.counts[i], after.sums[j] / after.counts[j]
        return (now - then).astype(np.float32)
