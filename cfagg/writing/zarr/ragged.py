"""Rows of different lengths as a new store, with chunk edges between rows, so that no row needs two chunks."""

from __future__ import annotations

import math
import os
import pickle
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.arrays.ragged import PARTS
from cfagg.errors import ConformError, LimitError, OptionError, TargetError
from cfagg.errors.arguments import a_mapping, an_integer, flags, shared
from cfagg.errors.extras import require
from cfagg.formats.zarr.encoding import encoder, padded
from cfagg.formats.zarr.readers import rectilinear_note
from cfagg.model import Grid
from cfagg.runtime.budget import worker_count
from cfagg.runtime.clusters import answers, cluster_of
from cfagg.writing.zarr.blocks import ASIDE, move_all
from cfagg.writing.zarr.described import described, is_regular, named, planned, store_documents
from cfagg.writing.zarr.new_store import NewPlace, new_store
from cfagg.writing.zarr.own_source import refuse_own_source
from cfagg.writing.zarr.report import StoreReport
from cfagg.writing.zarr.row_blocks import Known, an_array, blocks_of_rows, put_block, put_piece, rows_or_pieces

__all__ = ["write_rows"]

Int64 = npt.NDArray[np.int64]

#: Number of rows in a chunk of `indptr` and of labels.
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
    client: Any = None,
) -> StoreReport:
    """Write rows of different lengths, such as a sparse matrix by rows, as a Zarr store that `cfagg.open_rows` reads.

    Chunk edges are between rows, so that no row needs two chunks. The arrays are ``data``, ``indices`` and ``indptr``,
    with the attributes by which anndata recognises a matrix.

    Parameters
    ----------
    rows : matrix of scipy.sparse, tuple, or iterable of these; or pieces that are computed later
        A tuple is ``(data, indices, indptr)``, or ``(data, indptr)`` for rows without columns. Each block of an
        iterable is written before the next is requested, so that only one is in memory. Pieces are a list of functions
        without arguments or of Dask delayed objects, a bag, or a Dask array whose blocks are matrices of whole rows;
        each yields one or more blocks. Dask computes them, and each task writes its own blocks.
    target : path or URL
        The store, which exists once all of it is written.
    columns : int, optional
        Number of columns; by default that of the matrices, or the number in use.
    labels : mapping, optional
        Arrays with one value for each row, by name; Dask arrays are computed.
    chunk : int
        Size in bytes of the values in a chunk; a larger row has a chunk of its own.
    overwrite, target_options, workers
        As for `cfagg.write`; `workers` does not apply to pieces.
    client : distributed.Client or str, optional
        The Dask cluster, or the address of its scheduler, whose workers compute pieces and write them to the location
        of the store; by default the configured Dask scheduler.

    Returns
    -------
    Report
        A summary of what was written.

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
    flags(overwrite=overwrite)
    shared(target_options=target_options, workers=workers)
    size = an_integer(chunk, "chunk")
    if size < 1:
        raise OptionError(f"chunk={size}: a chunk has 1 byte at least")
    by_name = named(a_mapping(labels, "labels", "arrays by name"), "labels")
    blocks, pieces = rows_or_pieces(rows)
    _check_who(pieces, workers, client)
    refuse_own_source(target, rows if pieces is None else pieces, overwrite=overwrite)
    with cluster_of(client) as cluster:
        given = {name: an_array(values, f"labels: {name!r}") for name, values in by_name.items()}
        _check_labels(given)
        with new_store(target, overwrite=overwrite, target_options=target_options) as place:
            work = _Work(place, size)
            for block in blocks_of_rows(blocks):
                known = Known.of(block, size)
                first = work.take(known)
                key = partial(_key, first)
                work.stored += put_block(block, known, place.keys, key, worker_count(workers)).stored
            if pieces is not None:
                work.place_pieces(_computed(pieces, place, size, cluster))
            documents = work.finish(given, columns)
            place.keys.end(ASIDE)  # blocks that were computed more than once, with different results
            place.publish(documents)
    notes = (*place.notes, *(rectilinear_note(name) for name in work.unequal))
    return StoreReport(
        target=place.path, variables=tuple(work.written), chunks=work.chunks, stored=work.stored, notes=notes
    )


def _check_who(pieces: Sequence[Any] | None, workers: int | None, client: Any) -> None:
    """Raise an error if `workers` or `client` cannot be used for these rows."""
    if pieces is not None:
        require("rows that are computed later", "dask")
        if workers is not None:
            raise OptionError(f"workers={workers}: they are threads of this process, and Dask writes these rows; leave "
                              "them out")  # fmt: skip
    if client is not None:
        require("rows on a Dask cluster (client=)", "distributed")
        if pieces is None:
            raise OptionError(
                "client= is for rows that are computed later, and these are in this process; give functions or delayed "
                "objects of Dask, or leave client= out"
            )


def _computed(pieces: Sequence[Any], place: NewPlace, size: int, client: Any) -> list[list[Known]]:
    """Compute pieces with Dask, writing them aside, and return the known properties of the blocks of each."""
    import dask

    if client is not None:
        pickle.dumps(place.keys)  # raises for places that are not sent to workers, such as those with secrets
    write = dask.delayed(put_piece, pure=False)
    tasks = [write(piece, n, place.keys, size) for n, piece in enumerate(pieces)]
    if client is None:
        return list(dask.compute(*tasks))
    from distributed import as_completed

    futures = client.compute(tasks)
    numbers = {future.key: n for n, future in enumerate(futures)}
    found: dict[int, list[Known]] = {}
    for future, known in answers(client, as_completed(futures, with_results=True), TargetError):
        found[numbers[future.key]] = known
    return [found[n] for n in range(len(tasks))]


def _key(first: int, name: str, k: int, *_: Any) -> str:
    """Return the key of a chunk of a block whose chunks begin with number `first`."""
    return f"{name}/c/{first + k}"


def _check_labels(labels: Mapping[str, npt.NDArray[Any]]) -> None:
    for name, values in labels.items():
        if name in PARTS:
            raise OptionError(f"labels: {name!r} cannot be the name of a label; rename it")
        if values.ndim != 1 or values.dtype.kind not in "biufSUOT":
            raise OptionError(
                f"labels: {name!r} has {values.ndim} dimensions and type {values.dtype}; expected one number or text "
                "for each row"
            )


class _Work:
    """The state of writing the rows."""

    def __init__(self, place: NewPlace, size: int) -> None:
        self.place, self._size = place, size
        self.chunks = self.stored = 0
        self.written: dict[str, dict[str, Any]] = {}
        self.unequal: list[str] = []
        self._first: Known | None = None
        self._lengths: list[int] = []
        self._starts: list[Int64] = [np.zeros(1, np.int64)]
        self._end = 0
        self._most = -1

    def take(self, known: Known) -> int:
        """Append a block to those before, and return the number of its first chunk."""
        first = self._first = self._first or known
        if (known.kinds, known.columns) != (first.kinds, first.columns):
            other = f"{first.where.removeprefix('rows: ')} {first.signature}"
            raise ConformError(f"{known.where} has {known.signature}, and {other}; give all the same")
        self._most = max(self._most, known.most)
        count = len(self._lengths)
        self._lengths += np.diff(known.edges).tolist()
        self._starts.append(known.ends + self._end)
        self._end += known.edges[-1]
        self.chunks += (len(self._lengths) - count) * len(known.kinds)
        return count

    def place_pieces(self, pieces: Sequence[Sequence[Known]]) -> None:
        """Move the chunks of pieces, which were written aside, into place."""
        moves: list[tuple[str, str]] = []
        for known in (known for piece in pieces for known in piece):
            first = self.take(known)
            moves += ((key, _key(first, *chunk)) for key, chunk in zip(known.keys, known.chunks, strict=True))
            self.stored += known.stored
        move_all(self.place.keys, moves)

    def finish(self, labels: Mapping[str, npt.NDArray[Any]], columns: int | None) -> dict[str, bytes]:
        """Write the arrays with one value per row, and return the documents."""
        if self._first is None:
            raise OptionError("rows: there is no block of rows; give one, which may be empty")
        indptr = np.concatenate(self._starts)
        count = len(indptr) - 1
        for name, values in labels.items():
            if len(values) != count:
                raise ConformError(f"labels: {name!r} has {len(values):,} values for {count:,} rows")
        attributes = self._attributes(self._first, count, columns)
        lengths = self._lengths
        equal = Grid.regular((self._end,), (lengths[0] if lengths else 1,))
        grid = equal if len(set(lengths)) < 2 else Grid.from_sizes([lengths])
        for name, dtype in self._first.kinds.items():
            self.written[name] = described(name, ("element",), dtype, grid, {}, None)
            if not is_regular(grid):
                self.unequal.append(name)
        self._column("indptr", "row_edge", indptr)
        for name, values in labels.items():
            self._column(name, "row", values)
        return store_documents(self.written, attributes)

    def _attributes(self, first: Known, count: int, columns: int | None) -> dict[str, Any]:
        """Return the attributes of a matrix as defined by anndata."""
        if "indices" not in first.kinds:
            if columns is not None:
                raise OptionError(f"columns={columns}: these rows have no columns")
            return {}
        columns = first.columns if columns is None else an_integer(columns, "columns")
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
            self.stored += self.place.put(f"{name}/{made.key((k,))}", encode(part))
            self.chunks += 1
        self.written[name] = document
