"""Equality of arrays, exact or within a tolerance, without a threshold that would separate close values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.cf.joining.members import Int64

__all__ = ["close_values", "equal_arrays", "numbered_texts"]


#: All integers up to this one can be represented as 8-byte reals.
_EXACT = 1 << 53


def equal_arrays(arrays: Sequence[npt.NDArray[Any]], rtol: float, atol: float) -> Int64:
    """Return a number for each array, the same for equal arrays; chains of close reals count as one value.

    The width of integers does not matter, nor whether they are stored as reals.

    >>> equal_arrays([np.array([1.0, 2]), np.array([1.0, 2 + 1e-15]), np.array([1.0, 3])], 1e-12, 0).tolist()
    [0, 0, 2]
    """
    number: dict[Any, int] = {}
    distinct: list[npt.NDArray[Any]] = []
    own = np.empty(len(arrays), np.int64)
    reals = {array.shape for array in arrays if array.dtype.kind == "f"}
    for i, array in enumerate(arrays):
        if np.can_cast(array.dtype, np.int64):
            array = _widest(array, real=array.shape in reals)  # noqa: PLW2901
        values: Any = tuple(array.ravel()) if array.dtype == object else np.ascontiguousarray(array + 0).tobytes()
        key = array.dtype.kind, array.shape, values
        if key not in number:
            number[key] = len(distinct)
            distinct.append(array)
        own[i] = number[key]
    merged = np.arange(len(distinct))
    by_shape: dict[tuple[int, ...], list[int]] = {}
    for i, array in enumerate(distinct):
        if array.dtype.kind == "f":
            by_shape.setdefault(array.shape, []).append(i)
    for members in by_shape.values():
        if len(members) > 1:
            rows = np.stack([distinct[i].ravel() for i in members])
            cluster = _clusters(rows, rtol, atol)
            first = np.full(cluster.max() + 1, len(distinct))
            np.minimum.at(first, cluster, members)
            merged[members] = first[cluster]
    return merged[own]


def _widest(values: npt.NDArray[Any], *, real: bool) -> npt.NDArray[Any]:
    """Return integers in a common type, as reals if these can represent them."""
    found: npt.NDArray[Any] = values.astype(np.float64) if real and not (np.abs(values) > _EXACT).any() else values
    return found if found.dtype.kind == "f" else values.astype(np.int64)


def close_values(values: npt.NDArray[Any], rtol: float, atol: float) -> Int64:
    """Return a number for each value, the same for values that are equal, or for reals equal within a tolerance.

    >>> close_values(np.array([2.0, 1.0, 1 + 1e-15]), 1e-12, 0).tolist()
    [1, 0, 0]
    """
    if values.dtype.kind != "f" or not values.size:
        return np.unique(values, return_inverse=True)[1].reshape(values.shape).astype(np.int64, copy=False)
    return _clusters(values[:, None], rtol, atol)


def numbered_texts(texts: Sequence[Any]) -> Int64:
    """Return a number for each text, in sorted order.

    >>> numbered_texts(["b", "a", "b"]).tolist()
    [1, 0, 1]
    """
    texts = [str(text) for text in texts]
    rank = {text: k for k, text in enumerate(sorted(set(texts)))}
    return np.array([rank[text] for text in texts], np.int64)


def _clusters(rows: npt.NDArray[Any], rtol: float, atol: float) -> Int64:
    """Return a number for each row, the same for rows whose values are close in every column."""
    cluster = np.zeros(len(rows), np.int64)
    for column in rows.T:
        order = np.lexsort((column, cluster))
        of, values = cluster[order], column[order]
        near = (np.abs(np.diff(values)) <= atol + rtol * np.abs(values[:-1])) | (
            np.isnan(values[1:]) & np.isnan(values[:-1])
        )
        near |= values[1:] == values[:-1]
        new = np.r_[True, (of[1:] != of[:-1]) | ~near]
        cluster[order] = np.cumsum(new) - 1
        if cluster.max() == len(rows) - 1:
            break
    return cluster
