"""Rows of different lengths in a store, as matrices by compressed rows (CSR) are: read row by row or batch by batch.

A group has the arrays ``data``, perhaps ``indices`` (columns), and ``indptr`` (where each row begins).  What a batch
needs of the chunks is read once, of all that it touches at a time, and one kernel puts its rows one after the other.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from cfagg.arrays.lazy import LazyArray
from cfagg.arrays.plan import AxisPlan, Plan
from cfagg.arrays.reader import Reader
from cfagg.errors import ConventionError, LimitError, OptionError, SelectionError, SourceError, UnsupportedError
from cfagg.errors.arguments import a_path, a_text, an_integer
from cfagg.kernels.ragged import gather_rows
from cfagg.model import Regular
from cfagg.runtime.budget import parse_size

__all__ = ["PARTS", "Batch", "Row", "Rows", "open_rows"]

Int64 = npt.NDArray[np.int64]

#: Arrays that make up the rows; all others of one dimension of their number are labels.
PARTS = ("data", "indices", "indptr")

#: Rows in one store, and chunks that are read at a time: columns of more would not be held in memory.
MOST_ROWS = 2**28

#: Decoded bytes that are read at a time where rows are asked for one after the other.
AHEAD = 1 << 24


class Row(NamedTuple):
    """One row."""

    number: int
    data: npt.NDArray[Any]
    indices: npt.NDArray[Any] | None


@dataclass(frozen=True, eq=False)
class Batch:
    """Some rows, in the order in which they were asked for.

    Attributes
    ----------
    numbers : int64[rows]
        Which rows of the store they are.
    data, indices : array
        Their values and columns, row after row; `indices` is None where rows have no columns.
    indptr : int64[rows + 1]
        Where each row begins in these.
    labels : dict
        Of each label the values of these rows.
    columns : int, optional
        How many columns there are.
    """

    numbers: Int64
    data: npt.NDArray[Any]
    indices: npt.NDArray[Any] | None
    indptr: Int64
    labels: dict[str, npt.NDArray[Any]]
    columns: int | None
    where: str = field(repr=False, default="rows")

    def __len__(self) -> int:
        return len(self.numbers)

    def __iter__(self) -> Iterator[Row]:
        """Yield row by row, without copying."""
        for number, a, b in zip(
            self.numbers.tolist(), self.indptr[:-1].tolist(), self.indptr[1:].tolist(), strict=True
        ):
            yield Row(number, self.data[a:b], None if self.indices is None else self.indices[a:b])

    def to_dense(self) -> npt.NDArray[Any]:
        """Return the rows as a matrix, 0 where they have no value; values of one place are added, as scipy does it."""
        indices, columns = self._matrix()
        try:
            out = np.zeros((len(self), columns), self.data.dtype)
        except (MemoryError, ValueError) as error:
            raise LimitError(
                f"{self.where}: a matrix of {len(self):,} × {columns:,} does not fit into memory; take fewer rows, or "
                "to_scipy()"
            ) from error
        np.add.at(out, (np.repeat(np.arange(len(self)), np.diff(self.indptr)), indices), self.data)
        return out

    def to_scipy(self) -> Any:
        """Return the rows as a ``scipy.sparse.csr_array``, which shares the memory of their values."""
        indices, columns = self._matrix()
        try:
            from scipy.sparse import csr_array
        except ImportError as error:
            raise UnsupportedError("matrices of scipy need scipy: pip install scipy") from error
        return csr_array((self.data, indices, self.indptr), shape=(len(self), columns))

    def _matrix(self) -> tuple[npt.NDArray[Any], int]:
        """Return columns that are within the matrix."""
        if self.indices is None or self.columns is None:
            raise UnsupportedError(f"{self.where} have no columns, and so are no matrix; use data and indptr")
        if len(self.indices) and not 0 <= int(self.indices.min()) <= int(self.indices.max()) < self.columns:
            bad = int(np.flatnonzero((self.indices < 0) | (self.indices >= self.columns))[0])
            row = int(self.numbers[np.searchsorted(self.indptr, bad, "right") - 1])
            raise ConventionError(
                f"{self.where}: row {row} has column {int(self.indices[bad])}, expected 0 to {self.columns - 1}; write "
                "the rows again"
            )
        return self.indices, self.columns


@dataclass(frozen=True, eq=False)
class _Held:
    """Rows in memory, wherever they stand in it."""

    numbers: Int64
    arrays: tuple[npt.NDArray[Any], ...]  # data, and indices where there are some
    starts: tuple[Int64, ...]
    lengths: Int64

    def taken(self, order: Int64) -> tuple[Int64, tuple[npt.NDArray[Any], ...], Int64]:
        """Return numbers, arrays and `indptr` of some of them, by one call of the kernel."""
        indptr = np.zeros(len(order) + 1, np.int64)
        np.cumsum(self.lengths[order], out=indptr[1:])
        outs = tuple(np.empty(int(indptr[-1]), a.dtype) for a in self.arrays)
        gather_rows(self.arrays, tuple(s[order] for s in self.starts), indptr, outs)
        return self.numbers[order], outs, indptr

    def joined(self, other: _Held) -> _Held:
        """Return these rows and others behind them."""
        starts = tuple(
            np.concatenate([s, o + len(a)]) for s, o, a in zip(self.starts, other.starts, self.arrays, strict=True)
        )
        arrays = tuple(np.concatenate(pair) for pair in zip(self.arrays, other.arrays, strict=True))
        return _Held(
            np.concatenate([self.numbers, other.numbers]), arrays, starts, np.concatenate([self.lengths, other.lengths])
        )


class Rows:
    """Rows of different lengths, made by `cfagg.open_rows`; nothing but where they begin is held in memory.

    Attributes
    ----------
    indptr : int64[rows + 1]
        Where each row begins, and where the last one ends.
    columns : int, optional
        How many columns there are, where rows have such.
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
        """Rows and columns; None where rows have no columns."""
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
        """Return rows: of a slice, an index array or a mask in their order, of an integer this one."""
        numbers = self._numbers(key)
        unique, inverse = np.unique(numbers, return_inverse=True)
        return self._batch(self._hold(unique), inverse)

    def __iter__(self) -> Iterator[Row]:
        """Yield row by row; each chunk is read once, where rows do not go on in the next one."""
        for held in self._windows(np.arange(self._groups), AHEAD):
            yield from self._batch(held, np.arange(len(held.numbers)))

    def batches(
        self, size: int, *, shuffle: bool = False, seed: int | None = None, memory: int | str = "256 MiB",
        last: bool = True,
    ) -> Iterator[Batch]:  # fmt: skip
        """Yield all rows in batches; each chunk is read once, where rows do not go on in the next one.

        Parameters
        ----------
        size : int
            Rows of a batch.
        shuffle : bool
            Whether in a random order: chunks are read in one, as many as fit in `memory`, and the rows of these are
            drawn in one.  Where all rows fit, every order is as likely as any other.
        seed : int, optional
            Gives the same order each time.
        memory : int or str
            Decoded bytes that are held at a time, if one chunk is not more.
        last : bool
            Whether a last batch of fewer rows is given, too.
        """
        if an_integer(size, "size") < 1:
            raise OptionError(f"size={size}: a batch has 1 row at least")
        most = parse_size(memory)
        random = np.random.default_rng(None if seed is None else an_integer(seed, "seed"))
        groups = random.permutation(self._groups) if shuffle else np.arange(self._groups)
        left: _Held | None = None
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
                left = _Held(numbers, arrays, (indptr[:-1],) * len(arrays), np.diff(indptr))
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
            raise SelectionError(f"{self.where}: a row is outside the {count} that there are")
        found = np.atleast_1d(found.astype(np.int64))
        return np.where(found < 0, found + count, found)

    def _hold(self, numbers: Int64) -> _Held:
        """Return ascending rows as they are read: of each chunk they touch, from the first to the last of them."""
        first, stop = self.indptr[numbers], self.indptr[numbers + 1]
        some = stop > first
        arrays, starts = [], []
        for reader in self._readers:
            array, start = _read_spans(reader, first[some], stop[some])
            every = np.zeros(len(numbers), np.int64)
            every[some] = start
            arrays.append(array)
            starts.append(every)
        return _Held(numbers, tuple(arrays), tuple(starts), stop - first)

    def _batch(self, held: _Held, order: Int64) -> Batch:
        numbers, arrays, indptr = held.taken(order)
        labels = {name: values[numbers] for name, values in self.labels.items()}
        return Batch(
            numbers, arrays[0], arrays[1] if len(arrays) > 1 else None, indptr, labels, self.columns, self.where
        )

    @cached_property
    def _bounds(self) -> Int64:
        """Rows at which groups begin that are read together: those that begin in one chunk of the values."""
        axis = self._readers[0].grid.axes[0]
        size = int(self.indptr[-1])
        if self._readers[0].grid.size > MOST_ROWS:
            raise LimitError(
                f"{self.where}: the values are in more than {MOST_ROWS:,} chunks; write them in larger ones"
            )
        edges = np.arange(0, size, axis.chunk) if isinstance(axis, Regular) else axis[:-1]
        bounds = np.searchsorted(self.indptr[:-1], edges, "left")
        return np.unique(np.concatenate([[0], bounds, [len(self)]]))

    @property
    def _groups(self) -> int:
        return len(self._bounds) - 1

    def _windows(self, groups: Int64, memory: int) -> Iterator[_Held]:
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
    """Read ascending ranges of elements, and return what was read and where each begins in it."""
    if not len(first):
        return np.empty(0, reader.dtype), first
    axis = reader.cells.axes[0]
    if isinstance(axis, Regular):
        head, tail = first // axis.chunk, (stop - 1) // axis.chunk
    else:
        head, tail = np.searchsorted(axis, first, "right") - 1, np.searchsorted(axis, stop - 1, "right") - 1
    if int((tail - head).sum()) > MOST_ROWS:
        raise LimitError(f"{reader.label}: the rows touch more than {MOST_ROWS:,} chunks; select fewer rows")
    # Cells that any range touches: those where some begin, and those that they go on to.
    more = np.repeat(head, tail - head) + np.arange(int((tail - head).sum())) + 1
    more -= np.repeat(np.cumsum(tail - head) - (tail - head), tail - head)
    cell = np.unique(np.concatenate([head, more]))
    lower = cell * axis.chunk if isinstance(axis, Regular) else axis[cell]
    upper = np.minimum(lower + axis.chunk, reader.shape[0]) if isinstance(axis, Regular) else axis[cell + 1]
    # Of each the part from the first to the last element that is needed: ranges ascend.
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


def open_rows(
    path: str | os.PathLike[str],
    *,
    group: str | None = None,
    allow: Iterable[str | os.PathLike[str]] = (),
    storage_options: Mapping[str, Any] | None = None,
    workers: int | None = None,
) -> Rows:
    """Open rows of different lengths: those of `cfagg.write_rows`, and matrices by rows of anndata and others.

    Parameters
    ----------
    path : str or path-like
        The store, or its URL.
    group : str, optional
        The group with ``data``, ``indptr`` and perhaps ``indices``; by default the root.
    allow, storage_options, workers
        As of `cfagg.open_array`.

    Returns
    -------
    Rows
        Indexed by rows; ``batches()`` gives all of them, also shuffled.

    Raises
    ------
    ConventionError
        If the arrays do not fit together.

    Examples
    --------
    >>> import tempfile, cfagg
    >>> store = tempfile.mkdtemp() + "/rows.zarr"
    >>> given = ([5.0, 6.0, 7.0], [0, 2, 1], [0, 2, 2, 3])  # data, indices, indptr
    >>> _ = cfagg.write_rows(given, store, columns=3, labels={"kind": [1, 2, 1]})
    >>> rows = cfagg.open_rows(store)
    >>> rows
    <Rows: 3 of 3 columns, 3 values float64, labels kind>
    >>> batch = rows[[2, 0]]
    >>> batch.to_dense(), batch.labels["kind"]
    (array([[0., 7., 0.],
           [5., 0., 6.]]), array([1, 1]))
    """
    from cfagg.arrays.opening import open_any, open_reader
    from cfagg.errors.arguments import paths
    from cfagg.storage.urls import a_place

    name = a_path(path, expected="name a Zarr store")
    places = paths(allow)
    top = "" if group is None else a_text(group, "group", "the path of a group").strip("/")
    source = open_any(a_place(path, storage_options, places), places)
    inside = source.group(f"/{top}")
    where = f"{name}, group /{top}"

    def opening(array: str) -> LazyArray:
        return LazyArray(open_reader(source, f"{top}/{array}", source.access(places), workers=workers), name=array)

    lacking = [n for n in ("data", "indptr") if n not in inside.variables]
    if lacking:
        raise SourceError(f"{where} holds no rows: it has no array {lacking[0]!r}; expected data, indptr and indices")
    opened = {n: opening(n) for n in PARTS if n in inside.variables}
    for part, array in opened.items():
        if array.ndim != 1 or (part != "data" and array.dtype.kind not in "iu"):
            raise ConventionError(
                f"{where}: {part} has shape {array.shape} and type {array.dtype}; expected one dimension"
                f"{'' if part == 'data' else ' of integers'}"
            )
    indptr = _indptr(opened, where)
    labels = {
        n: opening(n) for n, v in inside.variables.items() if n not in PARTS and tuple(v.shape) == (len(indptr) - 1,)
    }
    indices = opened["indices"].reader if "indices" in opened else None
    columns = _columns(dict(inside.attributes), opened.get("indices"), len(indptr) - 1, where)
    return Rows(where, opened["data"].reader, indices, indptr, columns, labels)


def _indptr(opened: Mapping[str, LazyArray], where: str) -> Int64:
    """Return where rows begin, once it fits the other arrays."""
    array, size = opened["indptr"], opened["data"].size
    if not 1 <= array.size <= MOST_ROWS:
        raise LimitError(f"{where}: indptr has {array.size:,} elements, expected from 1 to {MOST_ROWS:,}")
    # The ends first: of an array that claims to be large, and is not stored, they are no such numbers.
    found: Int64 = array[[0, -1]].astype(np.int64)
    if int(found[0]) == 0 and int(found[-1]) == size:
        found = np.asarray(array).astype(np.int64)
    problem = None
    if int(found[0]) != 0 or int(found[-1]) != size:
        problem = f"indptr goes from {int(found[0]):,} to {int(found[-1]):,}, expected 0 to {size:,}, the values"
    elif (found[1:] < found[:-1]).any():
        problem = f"indptr falls at row {int(np.flatnonzero(found[1:] < found[:-1])[0])}; rows are not in order"
    elif "indices" in opened and opened["indices"].size != size:
        problem = f"there are {opened['indices'].size:,} indices for {size:,} values"
    if problem:
        raise ConventionError(f"{where}: {problem}; write the rows again")
    return found


def _columns(attributes: Mapping[str, Any], indices: LazyArray | None, rows: int, where: str) -> int | None:
    """Return the number of columns, as it is written beside the arrays."""
    said = attributes.get("encoding-type")
    if said is not None and str(said) == "csc_matrix":
        raise UnsupportedError(f"{where} is a matrix by columns (csc_matrix), and rows are read; write it by rows")
    shape: Any = attributes.get("shape", attributes.get("h5sparse_shape"))
    if indices is None or shape is None:
        return None
    found: Sequence[Any] = shape.reshape(-1).tolist() if isinstance(shape, np.ndarray) else [shape]
    found = list(shape) if isinstance(shape, list | tuple) else found
    if len(found) != 2 or not all(type(n) is int and 0 <= n < 2**63 for n in found) or found[0] != rows:
        raise ConventionError(f"{where}: the attribute shape is {found!r:.80}, expected [{rows}, columns]")
    return int(found[1])
