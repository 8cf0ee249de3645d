"""Opening rows of different lengths, with checks that the arrays and attributes of a group are consistent."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.arrays.lazy import LazyArray
from cfagg.arrays.ragged.rows import MOST_ROWS, Rows
from cfagg.errors import ConventionError, LimitError, SourceError, UnsupportedError
from cfagg.errors.arguments import a_path, a_text
from cfagg.runtime.budget import worker_count

__all__ = ["PARTS", "open_rows"]

Int64 = npt.NDArray[np.int64]

#: Arrays that make up the rows; any other one-dimensional array of their number is a label.
PARTS = ("data", "indices", "indptr")


def open_rows(
    path: str | os.PathLike[str],
    *,
    group: str | None = None,
    allow: Iterable[str | os.PathLike[str]] = (),
    storage_options: Mapping[str, Any] | None = None,
    workers: int | None = None,
) -> Rows:
    """Open rows of different lengths: those of `cfagg.write_rows`, and CSR matrices of anndata and others.

    Parameters
    ----------
    path : str or path-like
        The store, or its URL.
    group : str, optional
        The group with ``data``, ``indptr`` and perhaps ``indices``; by default the root.
    allow, storage_options, workers
        As for `cfagg.open_array`.

    Returns
    -------
    Rows
        Indexed by rows; ``batches()`` yields all of them, optionally shuffled.

    Raises
    ------
    ConventionError
        If the arrays are inconsistent.

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

    worker_count(workers)
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
    """Return the starts of rows, after checking that they fit the other arrays."""
    array, size = opened["indptr"], opened["data"].size
    if not 1 <= array.size <= MOST_ROWS:
        raise LimitError(f"{where}: indptr has {array.size:,} elements, expected from 1 to {MOST_ROWS:,}")
    # The ends first, since they show whether an array that claims to be large is stored at all.
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
    """Return the number of columns stored next to the arrays."""
    said = attributes.get("encoding-type")
    if said is not None and str(said) == "csc_matrix":
        raise UnsupportedError(f"{where} is a matrix by columns (csc_matrix), but only rows are read; write it by rows")
    shape: Any = attributes.get("shape", attributes.get("h5sparse_shape"))
    if indices is None or shape is None:
        return None
    found: Sequence[Any] = shape.reshape(-1).tolist() if isinstance(shape, np.ndarray) else [shape]
    found = list(shape) if isinstance(shape, list | tuple) else found
    if len(found) != 2 or not all(type(n) is int and 0 <= n < 2**63 for n in found) or found[0] != rows:
        raise ConventionError(f"{where}: the attribute shape is {found!r:.80}, expected [{rows}, columns]")
    return int(found[1])
