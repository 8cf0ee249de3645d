"""Rows of different lengths, read row by row or batch by batch.

The parts of chunks that a batch needs are read once, all chunks together, and one kernel concatenates the rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.arrays.lazy import LazyArray
from cfagg.arrays.plan import AxisPlan, Plan
from cfagg.arrays.ragged.batch import Batch, Held, Row
from cfagg.arrays.reader import Reader
from cfagg.errors import LimitError, OptionError, SelectionError
from cfagg.errors.arguments import an_integer
from cfagg.kernels.distinct import distinct
from cfagg.model import Regular
from cfagg.runtime.budget import parse_size

__all__ = ["MOST_ROWS", "Rows"]

Int64 = npt.NDArray[np.int64]

#: Most rows in one store, and chunks that are read at a time: columns of more would not fit in memory.
MOST_ROWS = 2**28

#: Decoded bytes that are read at a time if rows are requested one after the other.
AHEAD = 1 << 24


class Rows:
    """Rows of different lengths, opened by `cfagg.open_rows`; only their starts are kept in memory.

    Attributes
    ----------
    indptr : int64[rows + 1]
        Start of each row, and the end of the last.
    columns : int, optional
        Number of columns, if rows have any.
    dtype
        Type of the values.
    labels : dict of arrays
        One value for each row, by name; read when they are first used.
    """

    def __init__(
        self, where: str, data: Reader, indices: Reader | None, indptr: Int64, columns: int | None,
        labels: Mapping[str, LazyArray],
    ) -> None:  # fmt: skip
        self.where, self.indptr, self.columns, self.dtype = where, indptr, columns, data.dtype
        self._readers = (data,) if indices is None else (data, indices)
        self._labels = dict(labels)

    def __len__(self) -> int:
        return len(self.indptr) - 1

    @property
    def shape(self) -> tuple[int, int | None]:
        """Numbers of rows and columns; None if rows have no columns."""
        return len(self), self.columns

    def __repr__(self) -> str:
        labels = f", labels {', '.join(self._labels)}" if self._labels else ""
        columns = "" if self.columns is None else f" of {self.columns:,} columns"
        return f"<Rows: {len(self):,}{columns}, {int(self.indptr[-1]):,} values {self.dtype}{labels}>"

    def _repr_html_(self) -> str:
        from cfagg.display.chunks import rows_html

        labels = [(name, array.dtype) for name, array in self._labels.items()]
        return rows_html(np.diff(self.indptr), self.columns, self.dtype, self._readers[0].grid.size, labels)

    @cached_property
    def labels(self) -> dict[str, npt.NDArray[Any]]:
        """One value for each row, by name."""
        return {name: np.asarray(array) for name, array in self._labels.items()}

    def __getitem__(self, key: Any) -> Batch:
        """Return the rows of a slice, an index array or a mask in their order, or a single one for an integer."""
        numbers = self._numbers(key)
        unique, inverse = np.unique(numbers, return_inverse=True)
        return self._batch(self._hold(unique), inverse)

    def __iter__(self) -> Iterator[Row]:
        """Yield row by row; each chunk is read once, unless rows extend into the next one."""
        for held in self._windows(np.arange(self._groups), AHEAD):
            yield from self._batch(held, np.arange(len(held.numbers)))

    def batches(
        self, size: int, *, shuffle: bool = False, seed: int | None = None, memory: int | str = "256 MiB",
        last: bool = True,
    ) -> Iterator[Batch]:  # fmt: skip
        """Yield all rows in batches; each chunk is read once, unless rows extend into the next one.

        Parameters
        ----------
        size : int
            Rows of a batch.
        shuffle : bool
            Whether the order is random: chunks are read in random order, as many as fit in `memory`, and their rows are
            shuffled.  If all rows fit, every order is equally likely.
        seed : int, optional
            Seed for a reproducible order.
        memory : int or str
            Decoded bytes that are kept at a time, unless one chunk is larger.
        last : bool
            Whether to yield a last batch of fewer rows, too.
        """
        if an_integer(size, "size") < 1:
            raise OptionError(f"size={size}: a batch has 1 row at least")
        most = parse_size(memory)
        random = np.random.default_rng(None if seed is None else an_integer(seed, "seed"))
        groups = random.permutation(self._groups) if shuffle else np.arange(self._groups)
        left: Held | None = None
        for held in self._windows(groups, most if shuffle else min(most, AHEAD)):
            whole = held if left is None else left.joined(held)
            count = len(whole.numbers)
            order = random.permutation(count) if shuffle else np.arange(count)
            full = count - count % size
            for first in range(0, full, size):
                yield self._batch(whole, order[first : first + size])
            left = None
            if full < count:
                numbers, arrays, indptr = whole.taken(order[full:])
                left = Held(numbers, arrays, (indptr[:-1],) * len(arrays), np.diff(indptr))
        if left is not None and last:
            yield self._batch(left, np.arange(len(left.numbers)))

    # ---- reading

    def _numbers(self, key: Any) -> Int64:
        """Return numbers of rows, counted from the first."""
        count = len(self)
        refused = f"{self.where}: rows are selected by a slice, integers or a mask; found {key!r:.80}"
        try:
            if isinstance(key, slice):
                return np.arange(*key.indices(count), dtype=np.int64)
            found = np.asarray(key)
        except (TypeError, ValueError) as error:
            raise SelectionError(refused) from error
        if found.dtype == np.bool_ and found.ndim == 1:
            if len(found) != count:
                raise SelectionError(f"{self.where}: a mask of {len(found)} for {count} rows")
            return np.flatnonzero(found)
        if found.size == 0:
            return np.zeros(0, np.int64)
        if found.dtype.kind not in "iu" or found.ndim > 1:
            raise SelectionError(refused)
        if not -count <= int(found.min()) <= int(found.max()) < count:
            raise SelectionError(f"{self.where}: a row is outside the {count} rows")
        found = np.atleast_1d(found.astype(np.int64))
        return np.where(found < 0, found + count, found)

    def _hold(self, numbers: Int64) -> Held:
        """Return ascending rows as they are read: the part of each chunk from the first to the last of them."""
        first, stop = self.indptr[numbers], self.indptr[numbers + 1]
        some = stop > first
        arrays, starts = [], []
        for reader in self._readers:
            array, start = _read_spans(reader, first[some], stop[some])
            every = np.zeros(len(numbers), np.int64)
            every[some] = start
            arrays.append(array)
            starts.append(every)
        return Held(numbers, tuple(arrays), tuple(starts), stop - first)

    def _batch(self, held: Held, order: Int64) -> Batch:
        numbers, arrays, indptr = held.taken(order)
        labels = {name: values[numbers] for name, values in self.labels.items()}
        return Batch(
            numbers, arrays[0], arrays[1] if len(arrays) > 1 else None, indptr, labels, self.columns, self.where
        )

    @cached_property
    def _bounds(self) -> Int64:
        """First rows of groups that are read together; a group has the rows that begin in one chunk of the values."""
        axis = self._readers[0].grid.axes[0]
        size = int(self.indptr[-1])
        if self._readers[0].grid.size > MOST_ROWS:
            raise LimitError(
                f"{self.where}: the values are in more than {MOST_ROWS:,} chunks; write them in larger ones"
            )
        edges = np.arange(0, size, axis.chunk) if isinstance(axis, Regular) else axis[:-1]
        bounds = np.searchsorted(self.indptr[:-1], edges, "left")
        return distinct(np.concatenate([[0], bounds, [len(self)]]))

    @property
    def _groups(self) -> int:
        return len(self._bounds) - 1

    def _windows(self, groups: Int64, memory: int) -> Iterator[Held]:
        """Yield the rows of groups in their order, as many groups at a time as fit in memory."""
        low, high = self._bounds[groups], self._bounds[groups + 1]
        size = sum(r.dtype.itemsize for r in self._readers)
        taken = np.cumsum((self.indptr[high] - self.indptr[low]) * size + (high - low) * 24)
        first = 0
        while first < len(groups):
            before = int(taken[first - 1]) if first else 0
            last = max(int(np.searchsorted(taken, before + memory, "right")), first + 1)
            chosen = np.sort(groups[first:last])
            counts = self._bounds[chosen + 1] - self._bounds[chosen]
            numbers = np.repeat(self._bounds[chosen] - (np.cumsum(counts) - counts), counts) + np.arange(counts.sum())
            yield self._hold(numbers)
            first = last


def _read_spans(reader: Reader, first: Int64, stop: Int64) -> tuple[npt.NDArray[Any], Int64]:
    """Read ascending ranges of elements, and return the elements and the start of each range in them."""
    if not len(first):
        return np.empty(0, reader.dtype), first
    axis = reader.cells.axes[0]
    if isinstance(axis, Regular):
        head, tail = first // axis.chunk, (stop - 1) // axis.chunk
    else:
        head, tail = np.searchsorted(axis, first, "right") - 1, np.searchsorted(axis, stop - 1, "right") - 1
    if int((tail - head).sum()) > MOST_ROWS:
        raise LimitError(f"{reader.label}: the rows touch more than {MOST_ROWS:,} chunks; select fewer rows")
    # Cells that any range touches: those in which ranges begin, and those into which they extend.
    more = np.repeat(head, tail - head) + np.arange(int((tail - head).sum())) + 1
    more -= np.repeat(np.cumsum(tail - head) - (tail - head), tail - head)
    cell = distinct(np.concatenate([head, more]))
    lower = cell * axis.chunk if isinstance(axis, Regular) else axis[cell]
    upper = np.minimum(lower + axis.chunk, reader.shape[0]) if isinstance(axis, Regular) else axis[cell + 1]
    # The part of each from the first to the last element needed, since ranges ascend.
    begin = np.maximum(first[np.searchsorted(stop, lower, "right")], lower)
    end = np.minimum(stop[np.searchsorted(first, upper, "left") - 1], upper)
    count = end - begin
    out = np.cumsum(count) - count
    total = int(count.sum())
    try:
        found = np.empty(total, reader.dtype)
    except (MemoryError, ValueError) as error:
        raise LimitError(
            f"{reader.label}: {total:,} values do not fit into memory; select fewer rows, or read them in batches"
        ) from error
    reader.fill_by(Plan(reader.cells, (AxisPlan(cell, begin - lower, count, out, 1, 1, total),)), found)
    place = np.searchsorted(cell, head)
    return found, out[place] + first - begin[place]
