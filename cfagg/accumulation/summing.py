"""Computing the cumulative sums of one combination of dimensions from partial sums of chunks.

Along one of its axes the sums are carried from block to block, so that memory is bounded for any number of chunks;
along the others all chunks are in memory together.  If the array has grown, the sums continue from the last final
sample.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.accumulation.integrity import read_region
from cfagg.accumulation.layout import ArraySpec, Layout, Sums
from cfagg.accumulation.outliers import Repairs
from cfagg.accumulation.ranges import along
from cfagg.accumulation.recipe import Recipe
from cfagg.accumulation.scratch import Scratch
from cfagg.accumulation.writing import Basis, Target
from cfagg.errors import LimitError
from cfagg.kernels.cumulative import cumulate

__all__ = ["PartialSums", "Task", "run_task", "sum_tasks"]

Axes = tuple[int, ...]
Box = tuple[tuple[int, int], ...]

#: Number of elements of partial sums that are summed at a time.
_BLOCK = 1 << 20


@dataclass(frozen=True, eq=False)
class PartialSums:
    """Partial sums of all chunks of the window."""

    recipe: Recipe
    scratch: Scratch
    #: The records of all chunks, which include the sums over all dimensions.
    records: npt.NDArray[Any]
    layout: Layout
    basis: Basis | None
    #: Whether any element of the array is missing or kept out of the sums.
    excluded: bool
    #: Corrections for chunks with cells that are kept out.
    repairs: Repairs | None = None

    def read(self, kind: str, axes: Axes, box: Box) -> npt.NDArray[Any]:
        """Return partial sums of a box in positions of the window."""
        field = next(f for f in self.recipe.fields if (f.kind, f.axes) == (kind, axes))
        if axes == self.recipe.whole:
            column = self.records[kind].reshape(self.recipe.window.matrix_shape)[tuple(slice(*b) for b in box)]
            found = np.array(column, column.dtype.newbyteorder("="))
        else:
            found = self.scratch.read(field, box)
        if self.repairs is not None:
            self.repairs.correct(field, box, found)
        return found


@dataclass(frozen=True, eq=False)
class Task:
    """One block of columns of one kind of cumulative sums, with all samples for some positions along the other axes."""

    specs: Sums[ArraySpec]
    #: "data", "weights" or "counts".
    quantity: str
    #: Index of the chunk along every axis that is not accumulated; 0 along the others.
    columns: Axes


def sum_tasks(specs: Sums[ArraySpec], *, excluded: bool, after: Basis | None = None) -> Iterator[Task]:
    """Yield the tasks of one combination, only `after` a basis if given; counts besides weights only if `excluded`."""
    for quantity, spec in specs.arrays.items():
        if 0 in spec.grid or (quantity == "counts" and "weights" in specs.arrays and not excluded):
            continue
        ranges = [range(1 if a in specs.axes else n) for a, n in enumerate(spec.grid)]
        if after is not None and after.axis not in specs.axes:
            ranges[after.axis] = range(after.position // spec.chunks[after.axis], spec.grid[after.axis])
        for columns in itertools.product(*ranges):
            yield Task(specs, quantity, columns)


def run_task(task: Task, partial: PartialSums, target: Target) -> None:
    """Compute and write the chunks of a task."""
    _Run(task, partial, target).run()


class _Run:
    """The state of one task."""

    def __init__(self, task: Task, partial: PartialSums, target: Target) -> None:
        self.task, self.partial, self.target = task, partial, target
        self.axes = task.specs.axes
        self.spec, self.low = task.specs.arrays[task.quantity], task.specs.low.get(task.quantity)
        self.window, self.basis = partial.recipe.window, partial.basis
        inside = self.basis is not None and self.basis.axis in self.axes
        #: The axis along which sums are carried from block to block.
        self.stream: int = self.basis.axis if self.basis is not None and inside else self.axes[0]
        self.first = self.basis.sample if self.basis is not None and inside else 0
        earlier = None if self.basis is None else self.basis.group.sums[self._dims()]
        self.old = None if earlier is None else earlier.arrays.get(task.quantity)
        self.old_low = None if earlier is None else earlier.low.get(task.quantity)
        #: Positions of the block along the other axes, in the array.
        self.block: list[tuple[int, int]] = [
            (0, len(partial.layout.samples[a])) if a in self.axes else (i * c, min((i + 1) * c, n))
            for a, (i, c, n) in enumerate(zip(task.columns, self.spec.chunks, self.spec.shape, strict=True))
        ]
        #: Number of positions of the block to keep, if the dimension that has grown is not accumulated.
        self.stay, self.grown = 0, -1
        if self.basis is not None and not inside:
            self.grown = self.basis.axis
            a, b = self.block[self.grown]
            self.stay = min(max(self.basis.position - a, 0), b - a)

    def run(self) -> None:
        """Write all chunks."""
        chunk = self.spec.chunks[self.stream]
        count = self.spec.grid[self.stream]
        if (
            not self.target.in_place
            and self.stay
            and self.stay == self.block[self.grown][1] - self.block[self.grown][0]
        ):
            self._take(range(count))
            return
        whole = self.first // chunk
        if not self.target.in_place:
            self._take(range(whole))
        if self.task.quantity == "counts" and not self.partial.excluded:
            for row in range(whole, count):
                self._write_row(row, None, None)
            return
        pending = self._old_rows(whole * chunk, self.first)
        if self.task.quantity == "counts":
            # Sum the numbers of missing values.
            pending = self._implied((whole * chunk, self.first)) - pending[0], None
        for values, low in self._samples():
            pending = _joined(pending, (values, low), self.stream)
            while whole < count and (
                pending[0].shape[self.stream] >= chunk or whole * chunk + pending[0].shape[self.stream] == self._length
            ):
                head, pending = _split(pending, self.stream, chunk)
                self._write_row(whole, *head)
                whole += 1

    @property
    def _length(self) -> int:
        return self.spec.shape[self.stream]

    def _samples(self) -> Iterator[tuple[npt.NDArray[Any], npt.NDArray[Any] | None]]:
        """Yield cumulative sums at the samples, starting with the first new one, some at a time along the stream."""
        stream, window, layout = self.stream, self.window, self.partial.layout
        others = [a for a in self.axes if a != stream]
        box: list[tuple[int, int]] = []
        for a, (begin, end) in enumerate(self.block):
            if a in self.axes:
                box.append((0, window.matrix_shape[a]))
            else:
                box.append((begin + self.stay * (a == self.grown) - window.start(a), end - window.start(a)))
        count, stride = window.matrix_shape[stream], layout.stride[stream]
        width = math.prod(b - a for i, (a, b) in enumerate(box) if i != stream)
        step = max(1, _BLOCK // max(1, width))
        double = self.low is not None
        carry: npt.NDArray[Any] | None = None
        carry_low: npt.NDArray[Any] | None = None
        name = f"{self.partial.recipe.window.array.path!r} along {' and '.join(self._dims())}"
        compiled = self.partial.recipe.compiled
        try:
            for begin in range(0, count, step):
                box[stream] = (begin, min(begin + step, count))
                kind, lower = _KINDS[self.task.quantity]
                parts = self.partial.read(kind, self.axes, tuple(box))
                low = self.partial.read(lower, self.axes, tuple(box)) if double else None
                for a in others:
                    cumulate(parts, a, low=low, name=name, compiled=compiled)
                    if layout.stride[a] > 1:
                        picked = np.minimum(np.arange(1, len(layout.samples[a]) + 1) * layout.stride[a], box[a][1]) - 1
                        parts = np.take(parts, picked, a)
                        low = None if low is None else np.take(low, picked, a)
                if carry is None:
                    carry, carry_low = self._carry(parts)
                cumulate(parts, stream, carry, carry_low, low=low, name=name, compiled=compiled)
                if stride == 1:
                    yield parts, low
                    continue
                chunks = np.arange(begin, box[stream][1])
                at = np.flatnonzero(((chunks + 1) % stride == 0) | (chunks == count - 1))
                yield np.take(parts, at, stream), None if low is None else np.take(low, at, stream)
        except OverflowError as error:
            remedy = "sum in real numbers with precision='float64' (--precision float64)"
            if self.partial.recipe.judged:
                remedy = "mark such values as missing (_FillValue, valid_range), or scale them down"
            raise LimitError(f"{window.array.store}: array {error}; {remedy}") from error

    def _carry(self, parts: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """Return the sums before the window along the stream, and their low parts."""
        shape = tuple(n for a, n in enumerate(parts.shape) if a != self.stream)
        if not self.first:
            return np.zeros(shape, parts.dtype), np.zeros(shape)
        high, low = self._old_rows(self.first - 1, self.first)
        if self.task.quantity == "counts":
            high = self._implied((self.first - 1, self.first)) - high
        carry = np.array(np.broadcast_to(high, self._shape(1)).reshape(shape), parts.dtype)
        rest = np.zeros(shape) if low is None else np.array(low.reshape(shape))
        return carry, rest

    def _write_row(self, row: int, values: npt.NDArray[Any] | None, low: npt.NDArray[Any] | None) -> None:
        """Write the chunks of one row of samples along the stream; `None` means counts if no values are missing."""
        chunk = self.spec.chunks[self.stream]
        samples = (row * chunk, min((row + 1) * chunk, self._length))
        constant = None
        if self.task.quantity == "counts":
            implied = self._implied(samples)
            if values is None:
                constant = implied
            else:
                values = implied - values
        if self.stay and values is not None:
            old, old_low = self._old_rows(*samples, stay=True)
            values = np.concatenate([old, values], self.grown)
            low = None if low is None or old_low is None else np.concatenate([old_low, low], self.grown)
        extent = samples[1] - samples[0]
        for index in self._row(row):
            box = [
                slice(i * c, min((i + 1) * c, n)) if a in self.axes and a != self.stream else slice(None)
                for a, (i, c, n) in enumerate(zip(index, self.spec.chunks, self.spec.shape, strict=True))
            ]
            if constant is not None:
                part = constant[tuple(box)]
                shape = tuple(
                    extent if a == self.stream else part.shape[a] if a in self.axes else b - s
                    for a, (s, b) in enumerate(self.block)
                )
                self.target.write_constant(self.spec, index, part, shape)
            elif values is not None:
                self.target.write(self.spec, index, values[tuple(box)])
            if self.low is not None and low is not None:
                self.target.write(self.low, index, low[tuple(box)])

    def _row(self, row: int) -> Iterator[Axes]:
        """Yield the indices of the chunks of one row of samples."""
        ranges = []
        for a, i in enumerate(self.task.columns):
            if a == self.stream:
                ranges.append(range(row, row + 1))
            else:
                ranges.append(range(self.spec.grid[a]) if a in self.axes else range(i, i + 1))
        for place in np.ndindex(*map(len, ranges)):
            yield tuple(r[i] for r, i in zip(ranges, place, strict=True))

    def _take(self, rows: range) -> None:
        """Take over unchanged chunks."""
        for row in rows:
            for index in self._row(row):
                if self.old is None:
                    # Counts were not stored, because no values were missing.
                    self._write_row(row, None, None)
                    break
                self.target.take(self.spec, index, self.old)
                if self.low is not None and self.old_low is not None:
                    self.target.take(self.low, index, self.old_low)

    def _old_rows(
        self, start: int, stop: int, *, stay: bool = False
    ) -> tuple[npt.NDArray[Any], npt.NDArray[Any] | None]:
        """Return earlier values and low parts of some samples; with `stay`, only at the positions to keep."""
        box = list(self.block)
        box[self.stream] = (start, stop)
        if stay:
            a = box[self.grown][0]
            box[self.grown] = (a, a + self.stay)
        if stop <= start:
            empty = np.empty(self._shape(0) if self.stay else [b - a for a, b in box], self.spec.dtype)
            return empty, None if self.low is None else empty
        if self.old is None:
            whole = np.broadcast_to(self._implied((start, stop)), [b - a for a, b in box])
            return whole, None
        high = read_region(self.old, tuple(box))
        return high, None if self.old_low is None else read_region(self.old_low, tuple(box))

    def _shape(self, count: int) -> Axes:
        """Return the shape of `count` new samples along the stream."""
        sizes = (high - low - self.stay * (a == self.grown) for a, (low, high) in enumerate(self.block))
        return tuple(count if a == self.stream else n for a, n in enumerate(sizes))

    def _implied(self, samples: tuple[int, int]) -> npt.NDArray[np.int64]:
        """Return the number of elements up to samples, including missing ones, with length 1 along the other axes."""
        out = np.ones([1] * len(self.block), np.int64)
        for a in self.axes:
            positions = self.partial.layout.samples[a]
            out = out * along(positions[slice(*samples)] if a == self.stream else positions, a, len(self.block))
        return out

    def _dims(self) -> tuple[str, ...]:
        return tuple(self.window.array.dims[a] for a in self.axes)


#: Partial sums from which running sums are computed, and their low parts; counts are the difference from all cells.
_KINDS = {"data": ("sum", "low"), "weights": ("weights", "weights_low"), "counts": ("excluded", "")}


def _joined(first: tuple[Any, Any], then: tuple[Any, Any], axis: int) -> tuple[Any, Any]:
    """Concatenate two pairs of arrays along an axis; nothing is copied if the first pair is empty."""
    if not first[0].shape[axis]:
        return then
    return (
        np.concatenate([first[0], then[0]], axis),
        None if then[1] is None or first[1] is None else np.concatenate([first[1], then[1]], axis),
    )


def _split(pair: tuple[Any, Any], axis: int, count: int) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
    """Return the first `count` entries along an axis of a pair of arrays, and the rest."""
    head: tuple[Any, ...] = (slice(None),) * axis + (slice(0, count),)
    tail: tuple[Any, ...] = (slice(None),) * axis + (slice(count, None),)
    return (
        (pair[0][head], None if pair[1] is None else pair[1][head]),
        (pair[0][tail], None if pair[1] is None else pair[1][tail]),
    )
