"""The plan that every read follows: which cells of a grid a selection touches, and where their elements go.

A plan is a product of one `AxisPlan` per dimension, so a million chunks are described by a few columns of integers and
not by an object each.  Small plans are made with NumPy; large ones with the kernels of `cfagg.kernels.projection` if
Numba is loaded anyway.  Both follow the same algorithm (docs/projection.md).

*selection*: the requested indices, a range or a list along each dimension.
"""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.errors import LimitError, SelectionError
from cfagg.model import Grid, Regular

__all__ = ["AxisPlan", "Plan", "plan"]

Int64 = npt.NDArray[np.int64]

#: Rows or indices from which kernels are used; below, NumPy needs milliseconds, less than loading a kernel.
KERNEL_ROWS = 2**18
#: The same if Numba has to be imported and kernels compiled first, which takes seconds.
IMPORT_ROWS = 2**27
#: Most cells in one plan: more must be a mistake, and the columns would not fit in memory.
MAX_CELLS = 2**28


@dataclass(frozen=True, slots=True, eq=False)
class AxisPlan:
    """The projections of a selection on the cells of one dimension, as columns with one row per touched cell.

    Cells ascend.  No row is empty.
    """

    cell: Int64  # index of the cell along the dimension
    # first element, from the cell's lower edge; with `index`: start of the row in `index` and `position`
    start: Int64
    count: Int64  # number of elements, at least 1
    out: Int64  # position in the output of the row's first element; if `position` is given: of its smallest
    step: int  # distance of the elements in the source
    sign: int  # -1 if the output is reversed relative to the source
    size: int  # length of the output
    # for index arrays: the elements, from the lower edge of their cells, ascending in every row
    index: Int64 | None = None
    position: Int64 | None = None  # for index arrays that are not sorted: the output position of every entry of `index`

    def __len__(self) -> int:
        return len(self.cell)

    def source(self, row: int) -> slice | Int64:
        """Return the elements to read, from the cell's lower edge: a slice of positive step, or ascending indices."""
        a, n = int(self.start[row]), int(self.count[row])
        if self.index is None:
            return slice(a, a + (n - 1) * self.step + 1, self.step)
        index = self.index[a : a + n]
        step = _progression(index)
        return slice(int(index[0]), int(index[-1]) + 1, step) if step > 0 else index

    def target(self, row: int) -> slice | Int64:
        """Return their place in the output: a slice, perhaps of negative step, or indices without repeats."""
        n = int(self.count[row])
        if self.position is not None:
            a = int(self.start[row])
            position = self.position[a : a + n]
            step = _progression(position)
            if not step:
                return position
            first, last = int(position[0]), int(position[-1])
        else:
            step = self.sign
            first = int(self.out[row])
            last = first + (n - 1) * step
        end = last + (1 if step > 0 else -1)
        return slice(first, end if end >= 0 else None, step)


@dataclass(frozen=True, eq=False)
class Plan:
    """The cells that a selection touches: the product of the axes' rows, in C order.

    >>> grid = Grid([[0, 12, 48], [0, 64]])
    >>> p = plan(grid, [slice(10, 20, 3), slice(None, None, -1)])
    >>> p.shape, p.cell.tolist()
    ((4, 64), [0, 1])
    >>> [(p.axes[0].source(i), p.axes[0].target(i)) for i, _ in map(p.rows, range(len(p)))]
    [(slice(10, 11, 3), slice(0, 1, 1)), (slice(1, 8, 3), slice(1, 4, 1))]
    """

    grid: Grid
    axes: tuple[AxisPlan, ...]
    dropped: tuple[int, ...] = ()  # selected by an integer; they stay in `shape` with size 1

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the output, with size 1 for integers."""
        return tuple(axis.size for axis in self.axes)

    @cached_property
    def counts(self) -> tuple[int, ...]:
        """Number of rows of every axis."""
        return tuple(len(axis) for axis in self.axes)

    @cached_property
    def _cells(self) -> int:
        return math.prod(self.counts)

    def __len__(self) -> int:
        return self._cells

    @cached_property
    def cell(self) -> Int64:
        """Flat C-order index of every touched cell in the grid, shape (len(plan),)."""
        if self.grid.size >= 2**63:
            raise LimitError(f"the grid {self.grid!r} has more cells than a 64-bit index can count")
        flat = np.zeros(1, np.int64)
        for axis, m in zip(self.axes, self.grid.matrix_shape, strict=True):
            flat = np.add.outer(flat * m, axis.cell).reshape(-1)
        return flat

    def rows(self, k: int) -> tuple[int, ...]:
        """Return the row of every axis that makes up cell `k` of the plan."""
        k = operator.index(k)
        if not 0 <= k < self._cells:
            raise IndexError(f"row {k} of a plan of {len(self)} cells")
        rows = []
        for m in reversed(self.counts):
            k, row = divmod(k, m)
            rows.append(row)
        return tuple(reversed(rows))

    def index(self, k: int) -> tuple[int, ...]:
        """Return the index of cell `k` in the grid."""
        return tuple(int(axis.cell[row]) for axis, row in zip(self.axes, self.rows(k), strict=True))

    def source(self, k: int) -> tuple[slice | Int64, ...]:
        """Return the elements to read of cell `k` along every dimension (see `AxisPlan.source`)."""
        return tuple(axis.source(row) for axis, row in zip(self.axes, self.rows(k), strict=True))

    def target(self, k: int) -> tuple[slice | Int64, ...]:
        """Return their place in the output along every dimension (see `AxisPlan.target`)."""
        return tuple(axis.target(row) for axis, row in zip(self.axes, self.rows(k), strict=True))

    def __iter__(self) -> Iterator[tuple[int, tuple[int, ...]]]:
        """Yield the flat cell index and the rows of every touched cell."""
        for k in range(len(self)):
            yield int(self.cell[k]), self.rows(k)


def plan(grid: Grid, selection: Sequence[slice | int | npt.ArrayLike]) -> Plan:
    """Intersect a selection with a grid, each dimension independently (outer indexing).

    An entry is a slice of either sign, an integer (the dimension keeps size 1 and is listed in `Plan.dropped`), an
    array of integers in any order and with repeats, or a mask. Negative indices count from the end.

    Source: the chunk projection algorithm for Zarr-based netCDF, corrected as described in docs/projection.md.

    >>> p = plan(Grid.regular((10,), (4,)), [np.array([9, 1, 9])])
    >>> p.cell.tolist(), p.source(1), p.target(1)
    ([0, 2], (array([1, 1]),), (slice(0, 3, 2),))
    """
    if len(selection) != grid.ndim:
        raise SelectionError(f"{len(selection)} selections for {grid.ndim} dimensions; give one for each")
    axes = []
    dropped = []
    for d, (entry, axis, length) in enumerate(zip(selection, grid.axes, grid.shape, strict=True)):
        chosen = _normalise(entry, d, length)
        if isinstance(chosen, int):
            dropped.append(d)
            chosen = range(chosen, chosen + 1)
        axes.append(_project_range(axis, chosen) if isinstance(chosen, range) else _project_index(axis, chosen))
    result = Plan(grid, tuple(axes), tuple(dropped))
    if len(result) > MAX_CELLS:
        raise _too_many(len(result))
    return result


def _too_many(cells: int) -> LimitError:
    """Return the error of a plan whose columns would not fit in memory."""
    return LimitError(f"the selection touches {cells} cells, more than {MAX_CELLS}; read it in parts")


def _normalise(entry: Any, d: int, length: int) -> range | int | Int64:
    """Return a range, a non-negative integer, or an array of non-negative integers."""
    if isinstance(entry, slice):
        try:
            return range(*entry.indices(length))
        except (TypeError, ValueError) as error:
            raise SelectionError(f"dimension {d}: {entry} is not a slice of integers: {error}") from error
    try:
        array = np.asarray(entry)
    except ValueError as error:  # a ragged list
        raise SelectionError(f"dimension {d}: {error}") from error
    if array.dtype == np.bool_:
        if array.shape != (length,):
            raise SelectionError(f"dimension {d}: a mask needs the dimension's shape ({length},); found {array.shape}")
        return _as_range(np.flatnonzero(array))
    if array.size == 0 and array.ndim == 1:
        return range(0)
    if array.dtype.kind not in "iu" or array.ndim > 1:
        raise SelectionError(
            f"dimension {d}: expected a slice, an integer, a 1-d array of integers or a mask; "
            f"found {type(entry).__name__} of type {array.dtype} and shape {array.shape}"
        )
    low, high = int(array.min()), int(array.max())
    if low < -length or high >= length:
        raise SelectionError(f"dimension {d}: index {high if high >= length else low} is outside size {length}")
    if array.ndim == 0:
        return low % length
    index = array.astype(np.int64)
    if low < 0:
        index[index < 0] += length
    return _as_range(index)


def _as_range(index: Int64) -> range | Int64:
    """Return an arithmetic progression as a range, any other array unchanged."""
    if len(index) == 0:
        return range(0)
    step = _progression(index)
    return range(int(index[0]), int(index[-1]) + (1 if step > 0 else -1), step) if step else index


def _progression(values: Int64) -> int:
    """Return the constant difference of consecutive values; 1 for a single value, 0 if there is none."""
    if len(values) == 1:
        return 1
    step = int(values[1] - values[0])
    if not step or int(values[-1] - values[0]) != step * (len(values) - 1):
        return 0
    return step if bool((np.diff(values) == step).all()) else 0


def _use_kernels(rows: int) -> bool:
    """Return whether a kernel is worth while: if Numba is not loaded yet, only for very many rows."""
    return rows >= (KERNEL_ROWS if "numba" in sys.modules else IMPORT_ROWS)


def _project_range(axis: Regular | Int64, chosen: range) -> AxisPlan:
    """Project a range; one that descends is reversed and its target flipped."""
    total = len(chosen)
    if total == 0:
        none = np.empty(0, np.int64)
        return AxisPlan(none, none, none, none, 1, 1, 0)
    sign = 1 if chosen.step > 0 else -1
    if sign < 0:
        chosen = chosen[::-1]
    first, last = chosen[0], chosen[-1]
    step = chosen.step if total > 1 else 1
    if isinstance(axis, Regular):
        head, tail = first // axis.chunk, last // axis.chunk
    else:
        head, tail = (int(c) for c in np.searchsorted(axis, (first, last), "right") - 1)
    if head == tail:
        low = head * axis.chunk if isinstance(axis, Regular) else int(axis[head])
        table = np.array([head, first - low, total, 0 if sign > 0 else total - 1], np.int64)
        return AxisPlan(table[:1], table[1:2], table[2:3], table[3:], step, sign, total)
    rows = min(total, tail - head + 1)
    if rows > MAX_CELLS:
        raise _too_many(rows)
    if _use_kernels(rows):
        from cfagg.kernels import projection

        ends = (first, total, step) if sign > 0 else (last, total, -step)
        if isinstance(axis, Regular):
            table = projection.project_slice_regular(*ends, axis.chunk)
        else:
            table = projection.project_slice_edges(*ends, axis)
        cell, start, count, out = table
    else:
        cell, start, count, begin = _columns(axis, first, total, step, head, tail)
        out = begin if sign > 0 else total - 1 - begin
    return AxisPlan(cell, start, count, out, step, sign, total)


def _columns(
    axis: Regular | Int64, first: int, total: int, step: int, head: int, tail: int
) -> tuple[Int64, Int64, Int64, Int64]:
    """Return cell, start, count and output position of an ascending progression between two cells, by NumPy alone."""
    if total < tail - head + 1:
        # Fewer elements than cells: start from the elements, so that only touched cells are visited.
        element = np.arange(total, dtype=np.int64) * step + first
        cell = element // axis.chunk if isinstance(axis, Regular) else np.searchsorted(axis, element, "right") - 1
        cell = cell[np.flatnonzero(np.diff(cell, prepend=-1))]
    else:
        cell = np.arange(head, tail + 1, dtype=np.int64)
    lower = cell * axis.chunk if isinstance(axis, Regular) else axis[cell]
    # The first element at or above the lower edge of each cell, as a position in the output.
    begin = np.maximum(-((first - lower) // step), 0)
    count = np.diff(begin, append=total)
    if not count.all():
        kept = np.flatnonzero(count)
        cell, lower, begin, count = cell[kept], lower[kept], begin[kept], count[kept]
    return cell, begin * step + (first - lower), count, begin


def _project_index(axis: Regular | Int64, index: Int64) -> AxisPlan:
    """Project an array of non-negative indices in any order, with repeats."""
    kernels = _use_kernels(len(index))
    if kernels:
        from cfagg.kernels import projection
    position = None
    if bool((index[1:] < index[:-1]).any()):
        position = projection.stable_order(index) if kernels else np.argsort(index, kind="stable")
        index = index[position]
    if kernels:
        if isinstance(axis, Regular):
            table, within = projection.project_index_regular(index, axis.chunk)
        else:
            table, within = projection.project_index_edges(index, axis)
        cell, start, count = table
    else:
        every = index // axis.chunk if isinstance(axis, Regular) else np.searchsorted(axis, index, "right") - 1
        within = index - (every * axis.chunk if isinstance(axis, Regular) else axis[every])
        start = np.flatnonzero(np.diff(every, prepend=-1))
        cell, count = every[start], np.diff(start, append=len(index))
    out = start if position is None else np.minimum.reduceat(position, start)
    return AxisPlan(cell, start, count, out, 1, 1, len(index), within, position)
