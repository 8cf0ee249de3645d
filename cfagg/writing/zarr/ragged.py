"""Rows of different lengths in a new store, with edges of chunks between rows: no row needs two of them."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.arrays.ragged import PARTS
from cfagg.conventions import limits
from cfagg.errors import ConformError, LimitError, OptionError, UnsupportedError
from cfagg.errors.arguments import a_mapping, an_integer
from cfagg.formats.zarr.encoding import Encoder, encoder, padded
from cfagg.formats.zarr.readers import rectilinear_note
from cfagg.model import Grid
from cfagg.runtime.budget import worker_count
from cfagg.writing.zarr.described import described, is_regular, named, planned, store_documents
from cfagg.writing.zarr.new_store import NewPlace, new_store
from cfagg.writing.zarr.report import StoreReport

__all__ = ["write_rows"]

Int64 = npt.NDArray[np.int64]

#: Rows in a chunk of `indptr` and of labels.
_ROWS = 1 << 18


def write_rows(
    rows: Any,
    target: str | os.PathLike[str],
    *,
    columns: int | None = None,
    labels: Mapping[str, npt.ArrayLike] | None = None,
    chunk: int = 1 << 22,
    overwrite: bool = False,
    target_options: Mapping[str, Any] | None = None,
    workers: int | None = None,
) -> StoreReport:
    """Write rows of different lengths, such as a sparse matrix by rows, as a Zarr store that `cfagg.open_rows` reads.

    Edges of chunks stand between rows, so that no row needs two chunks.  Its arrays are ``data``, ``indices`` and
    ``indptr``, with the attributes by which anndata knows a matrix.

    Parameters
    ----------
    rows : matrix of scipy.sparse, tuple, or iterable of these
        A tuple is ``(data, indices, indptr)``, or ``(data, indptr)`` of rows without columns.  Of an iterable, each
        block of rows is written before the next is asked for, so that any number takes the memory of one.
    target : path or URL
        The store, which is there when all of it is written.
    columns : int, optional
        How many columns there are; by default as the matrices say, or as many as are used.
    labels : mapping, optional
        Arrays with one value for each row, by name.
    chunk : int
        Bytes of values in a chunk; a row with more has one alone.
    overwrite, target_options, workers
        As of `cfagg.write`.

    Returns
    -------
    Report
        What was written.

    Raises
    ------
    ConformError
        If blocks, columns or labels do not fit together.

    Examples
    --------
    >>> import tempfile, cfagg, numpy as np
    >>> store = tempfile.mkdtemp() + "/rows.zarr"
    >>> report = cfagg.write_rows((np.arange(6.0), np.array([0, 1, 5, 6])), store, chunk=32)
    >>> report.chunks, cfagg.open_array(store, "data").chunks
    (4, ((1, 4, 1),))
    >>> [row.data.tolist() for row in cfagg.open_rows(store)]
    [[0.0], [1.0, 2.0, 3.0, 4.0], [5.0]]
    """
    size = an_integer(chunk, "chunk")
    if size < 1:
        raise OptionError(f"chunk={size}: a chunk has 1 byte at least")
    by_name = named(a_mapping(labels, "labels", "arrays by name"), "labels")
    given = {name: _array(values, f"labels: {name!r}") for name, values in by_name.items()}
    _check_labels(given)
    with new_store(target, overwrite=overwrite, target_options=target_options) as place:
        work = _Work(place, size, worker_count(workers))
        for block in _blocks(rows):
            work.add(*block)
        documents = work.finish(given, columns)
        place.publish(documents)
    notes = tuple(rectilinear_note(name) for name in work.unequal)
    return StoreReport(
        target=place.path, variables=tuple(work.written), chunks=work.chunks, stored=work.stored, notes=notes
    )


def _check_labels(labels: Mapping[str, npt.NDArray[Any]]) -> None:
    for name, values in labels.items():
        if name in PARTS:
            raise OptionError(f"labels: {name!r} cannot be the name of one; give it another")
        if values.ndim != 1 or values.dtype.kind not in "biufSUOT":
            raise OptionError(
                f"labels: {name!r} has {values.ndim} dimensions and type {values.dtype}; expected one number or text "
                "for each row"
            )


def _array(given: Any, where: str) -> npt.NDArray[Any]:
    """Return an array of what was given; a mask has no place in a store, and is never left out."""
    if isinstance(given, np.ma.MaskedArray) and np.ma.is_masked(given):
        raise ConformError(f"{where} are masked, which chunks are not; leave these out, or fill them")
    try:
        return np.asarray(given)
    except ValueError as error:
        raise ConformError(f"{where} are no array: {error}") from error


def _blocks(rows: Any) -> Iterator[tuple[npt.NDArray[Any], npt.NDArray[Any] | None, Int64, int | None]]:
    """Yield values, columns, where rows begin, and the number of columns of block after block."""
    if isinstance(rows, tuple) or hasattr(rows, "tocsr"):
        rows = [rows]
    if not isinstance(rows, Iterable) or isinstance(rows, Mapping | str | np.ndarray):
        raise OptionError(
            f"rows: an object of type {type(rows).__name__}; expected a matrix of scipy.sparse, (data, indices, "
            "indptr), (data, indptr), or an iterable of these"
        )
    for number, given in enumerate(rows):
        where = f"rows: block {number}"
        if hasattr(given, "tocsr") and len(given.shape) != 2:
            raise OptionError(f"{where} has {len(given.shape)} dimensions; expected a matrix of rows and columns")
        matrix = given.tocsr() if hasattr(given, "tocsr") else None
        columns = None if matrix is None else int(matrix.shape[1])
        block = given if matrix is None else (matrix.data, matrix.indices, matrix.indptr)
        if not isinstance(block, tuple) or len(block) not in (2, 3):
            raise OptionError(
                f"{where} is of type {type(block).__name__}; expected a matrix or a tuple of 2 or 3 arrays"
            )
        data, indptr = _array(block[0], f"{where}: values"), _array(block[-1], f"{where}: indptr")
        indices = _array(block[1], f"{where}: indices") if len(block) == 3 else None
        if indices is not None and not indices.size and indices.dtype.kind == "f":
            indices = indices.astype(np.int64)  # of an empty list
        yield data, indices, _checked(data, indices, indptr, where), columns


def _checked(data: npt.NDArray[Any], indices: npt.NDArray[Any] | None, indptr: npt.NDArray[Any], where: str) -> Int64:
    """Return where rows begin; a block that does not fit together is refused."""
    if data.ndim != 1 or indptr.ndim != 1 or not len(indptr) or indptr.dtype.kind not in "iu":
        raise ConformError(f"{where}: expected values of one dimension, and indptr as 1 integer more than rows")
    found = indptr.astype(np.int64)
    if found[0] != 0 or found[-1] != len(data) or (np.diff(found) < 0).any():
        raise ConformError(f"{where}: indptr should rise from 0 to {len(data)}, the number of values")
    if indices is not None:
        if indices.shape != data.shape or (indices.dtype.kind not in "iu" and len(indices)):
            raise ConformError(f"{where}: {len(data)} values have columns of shape {indices.shape} and {indices.dtype}")
        if len(indices) and int(indices.min()) < 0:
            raise ConformError(f"{where}: column {int(indices.min())} is negative")
    return found


class _Work:
    """Writes block after block."""

    def __init__(self, place: NewPlace, size: int, workers: int) -> None:
        self.place, self._size, self._workers = place, size, workers
        self.chunks = self.stored = 0
        self.written: dict[str, dict[str, Any]] = {}
        self.unequal: list[str] = []
        self._parts: dict[str, np.dtype[Any]] = {}
        self._encoders: dict[str, Encoder] = {}
        self._lengths: list[int] = []
        self._starts: list[Int64] = [np.zeros(1, np.int64)]
        self._end = 0
        self._columns: int | None = None
        self._most = -1
        self._blocks = 0

    def add(self, data: npt.NDArray[Any], indices: npt.NDArray[Any] | None, indptr: Int64, columns: int | None) -> None:
        """Write one block of rows."""
        parts = {"data": data} if indices is None else {"data": data, "indices": indices}
        kinds = {name: np.dtype(a.dtype).newbyteorder("=") for name, a in parts.items()}
        if not self._blocks:
            self._begin(kinds)
            self._columns = columns
        elif kinds != self._parts or columns != self._columns:
            raise ConformError(
                f"rows: block {self._blocks} has {_told(kinds, columns)}, and block 0 "
                f"{_told(self._parts, self._columns)}; give all the same"
            )
        self._blocks += 1
        if indices is not None and len(indices):
            self._most = max(self._most, int(indices.max()))
        edges = _cut(indptr, max(self._size // data.itemsize, 1))
        largest = max(np.diff(edges).tolist(), default=0) * max(k.itemsize for k in kinds.values())
        if largest > limits.MAX_CHUNK:
            raise LimitError(
                f"rows: block {self._blocks - 1} has a row or chunk of {largest:,} bytes, more than "
                f"{limits.MAX_CHUNK:,}"
            )
        first = len(self._lengths)
        tasks = [(n, k, slice(a, b)) for k, (a, b) in enumerate(pairwise(edges)) for n in parts]

        def write(task: tuple[str, int, slice]) -> int:
            name, k, part = task
            return self.place.put(f"{name}/c/{first + k}", self._encoders[name].encode(parts[name][part]))

        with ThreadPoolExecutor(self._workers) as pool:
            for stored in pool.map(write, tasks):
                self._count(stored)
        self._lengths += np.diff(edges).tolist()
        self._starts.append(indptr[1:] + self._end)
        self._end += len(data)

    def _begin(self, kinds: dict[str, np.dtype[Any]]) -> None:
        """Take the types of the first block for all."""
        self._parts = kinds
        for name, dtype in kinds.items():
            if dtype.kind not in "biuf":
                raise UnsupportedError(f"rows: {name} are of type {dtype}; expected numbers")
            document = described(name, ("element",), dtype, Grid.regular((1,), (1,)), {}, None)
            self._encoders[name] = encoder(planned(name, document))

    def finish(self, labels: Mapping[str, npt.NDArray[Any]], columns: int | None) -> dict[str, bytes]:
        """Write what there is one of for each row, and return the documents."""
        if not self._blocks:
            raise OptionError("rows: there is no block of rows; give one, which may be empty")
        indptr = np.concatenate(self._starts)
        count = len(indptr) - 1
        for name, values in labels.items():
            if len(values) != count:
                raise ConformError(f"labels: {name!r} has {len(values):,} values for {count:,} rows")
        attributes = self._attributes(count, columns)
        lengths = self._lengths
        equal = Grid.regular((self._end,), (lengths[0] if lengths else 1,))
        grid = equal if len(set(lengths)) < 2 else Grid.from_sizes([lengths])
        for name, dtype in self._parts.items():
            self.written[name] = described(name, ("element",), dtype, grid, {}, None)
            if not is_regular(grid):
                self.unequal.append(name)
        self._column("indptr", "row_edge", indptr)
        for name, values in labels.items():
            self._column(name, "row", values)
        return store_documents(self.written, attributes)

    def _attributes(self, count: int, columns: int | None) -> dict[str, Any]:
        """Return the attributes of a matrix, as anndata has them."""
        if "indices" not in self._parts:
            if columns is not None:
                raise OptionError(f"columns={columns}: these rows have no columns")
            return {}
        columns = self._columns if columns is None else an_integer(columns, "columns")
        columns = self._most + 1 if columns is None else columns
        if not 0 <= columns < 2**63:
            raise LimitError(f"rows: {columns} columns; expected from 0 to {2**63 - 1}")
        if columns <= self._most:
            raise ConformError(f"rows: column {self._most} is used, and there are {columns} columns")
        return {"encoding-type": "csr_matrix", "encoding-version": "0.1.0", "shape": [count, columns]}

    def _column(self, name: str, dim: str, values: npt.NDArray[Any]) -> None:
        """Write an array with one value for each row."""
        if values.dtype.kind in "OUT":
            odd = [type(v).__name__ for v in values if not isinstance(v, str)]
            if odd:
                raise ConformError(f"labels: {name!r} holds an object of type {odd[0]}; expected numbers or text")
            values = values.astype(object)
        native = values.dtype.newbyteorder("=")
        document = described(name, (dim,), native, Grid.regular(values.shape, (_ROWS,)), {}, None)
        made = planned(name, document)
        encode = encoder(made).encode
        for k in range(math.ceil(len(values) / _ROWS)):
            part = padded(values[k * _ROWS : (k + 1) * _ROWS], made.grid.whole((k,)), made.fill_value)
            self._count(self.place.put(f"{name}/{made.key((k,))}", encode(part)))
        self.written[name] = document

    def _count(self, stored: int) -> None:
        self.chunks += 1
        self.stored += stored


def _told(kinds: Mapping[str, np.dtype[Any]], columns: int | None) -> str:
    parts = " and ".join(f"{name} of type {dtype}" for name, dtype in kinds.items())
    return parts if columns is None else f"{parts} in {columns} columns"


def _cut(indptr: Int64, most: int) -> Sequence[int]:
    """Return the edges of chunks of whole rows with at most so many elements, or of one row with more."""
    edges, end = [0], int(indptr[-1])
    while edges[-1] < end:
        last = int(indptr[np.searchsorted(indptr, edges[-1] + most, "right") - 1])
        if last == edges[-1]:  # the next row is longer
            last = int(indptr[np.searchsorted(indptr, last, "right")])
        edges.append(last)
    return edges
