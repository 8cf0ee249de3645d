"""Whether partitions fill their matrix and tile the master array, and the grid that they form."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from cfagg.conventions import limits
from cfagg.conventions.findings import Findings
from cfagg.errors import LimitError
from cfagg.model import Grid

__all__ = ["close", "matrix_size"]

Int64 = npt.NDArray[np.int64]


def matrix_size(pshape: Sequence[int]) -> int:
    """Return the number of partitions in a matrix of this shape, within `limits.MAX_PARTITIONS`."""
    size = 1
    for n in pshape:
        size *= n
    if size > limits.MAX_PARTITIONS or max(pshape, default=0) > limits.MAX_PARTITIONS:
        shown = " x ".join(map(str, pshape))
        raise LimitError(f"a partition matrix of {shown} partitions; at most {limits.MAX_PARTITIONS} are read")
    return size


def close(
    dims: Sequence[str],
    shape: Sequence[int],
    pdims: Sequence[str],
    pshape: Sequence[int],
    index: Int64,
    location: Int64,
    number: Int64,
    findings: Findings,
    *,
    complete: bool = True,
    inclusive: bool = False,
) -> tuple[Grid, Int64] | None:
    """Return the grid of a matrix of partitions and the order that sorts their list into it; None with problems."""
    # Unless `complete`, malformed ones were left out, and gaps cannot be checked.  If locations are `inclusive` in the
    # text, they are also in messages.
    before = len(findings.problems)
    size = matrix_size(pshape)
    matrix = [pshape[pdims.index(d)] if d in pdims else 1 for d in dims]
    inside = _check_index(pdims, pshape, index, number, findings)
    strides = np.cumprod([1, *matrix[:0:-1]], dtype=np.int64)[::-1] if dims else np.zeros(0, np.int64)
    flat = np.zeros(len(index), np.int64)
    for k, dim in enumerate(pdims):
        flat += index[:, k] * strides[dims.index(dim)]

    def name(position: int) -> list[int]:
        at = dict(zip(dims, _unravel(position, matrix), strict=True))
        return [at[dim] for dim in pdims]

    ordered = bool(inside.all()) and len(flat) == size and bool((flat == np.arange(size)).all())
    order = np.arange(len(flat)) if ordered else np.argsort(flat[inside], kind="stable")
    if not ordered:
        _check_twice(index[inside][order], flat[inside][order], number[inside][order], findings)
    if complete and bool(inside.all()):
        _check_missing(flat if ordered else np.unique(flat), pshape, size, findings, name)
    _check_ranges(dims, shape, location, number, findings, int(inclusive))
    if len(findings.problems) > before or not complete:
        return None
    axes = []
    for d, dim in enumerate(dims):
        position = index[:, pdims.index(dim)] if dim in pdims else np.zeros(len(index), np.int64)
        axes.append(_edges(d, dim, shape[d], matrix[d], position, location[:, d], number, findings, int(inclusive)))
    if len(findings.problems) > before:
        return None
    return Grid(axes, shape), order


def _check_index(
    pdims: Sequence[str], pshape: Sequence[int], index: Int64, number: Int64, findings: Findings
) -> npt.NDArray[np.bool_]:
    """Return which partitions are in the matrix; others are problems."""
    inside = np.ones(len(index), np.bool_)
    for k, (dim, n) in enumerate(zip(pdims, pshape, strict=True)):
        bad = (index[:, k] < 0) | (index[:, k] >= n)
        for i in np.flatnonzero(bad)[: limits.MAX_PROBLEMS]:
            findings.problem(
                f"Partitions[{number[i]}].index[{k}]",
                f"{index[i, k]} is outside the partition matrix, which has {n} along {dim!r}",
            )
        inside &= ~bad
    return inside


def _check_twice(index: Int64, flat: Int64, number: Int64, findings: Findings) -> None:
    """Note positions of the matrix that occur twice; all columns are sorted by `flat`."""
    for i in (np.flatnonzero(flat[1:] == flat[:-1]) + 1)[: limits.MAX_PROBLEMS]:
        findings.problem(
            f"Partitions[{number[i]}].index",
            f"{index[i].tolist()} is already that of Partitions[{number[i - 1]}]",
        )


def _check_missing(
    distinct: Int64, pshape: Sequence[int], size: int, findings: Findings, name: Callable[[int], list[int]]
) -> None:
    """Note the first position of the matrix without a partition."""
    absent = size - len(distinct)
    if absent:
        gaps = np.flatnonzero(distinct != np.arange(len(distinct)))
        first = int(gaps[0]) if gaps.size else len(distinct)
        more = f", and {absent - 1} more are missing" if absent > 1 else ""
        findings.problem(
            "Partitions", f"no partition has index {name(first)}{more}; pshape {list(pshape)} needs {size}"
        )


def _unravel(flat: int, matrix: Sequence[int]) -> list[int]:
    """Return the position of a flat C-order index in a matrix."""
    out = []
    for n in reversed(matrix):
        out.append(flat % n)
        flat //= n
    return out[::-1]


def _check_ranges(
    dims: Sequence[str], shape: Sequence[int], location: Int64, number: Int64, findings: Findings, last: int
) -> None:
    """Note ranges that are empty or outside the master array."""
    for d, (dim, n) in enumerate(zip(dims, shape, strict=True)):
        start, stop = location[:, d, 0], location[:, d, 1]
        for i in np.flatnonzero((start < 0) | (stop > n) | (start >= stop))[: limits.MAX_PROBLEMS]:
            what = "is empty" if start[i] >= stop[i] else f"is outside dimension {dim!r} of size {n}"
            findings.problem(f"Partitions[{number[i]}].location[{d}]", f"[{start[i]}, {stop[i] - last}] {what}")


def _edges(
    d: int,
    dim: str,
    size: int,
    count: int,
    position: Int64,
    ranges: Int64,
    number: Int64,
    findings: Findings,
    last: int,
) -> Int64:
    """Return the edges along one dimension; ragged, gapped or overlapping ranges are problems."""
    if len(position) == 0:
        if size and not count:
            findings.problem(f"location along {dim!r}", f"a gap at indices 0 to {size - 1}: there is no partition")
        return np.array([0, size] if size else [0], np.int64)
    end = np.array([0, last])
    first = np.zeros(count, np.int64)
    first[position[::-1]] = np.arange(len(position))[::-1]
    span = ranges[first]
    for i in np.flatnonzero((ranges != span[position]).any(axis=1))[: limits.MAX_PROBLEMS]:
        other = first[position[i]]
        findings.problem(
            f"Partitions[{number[i]}].location[{d}]",
            f"{(ranges[i] - end).tolist()} differs from {(ranges[other] - end).tolist()} of "
            f"Partitions[{number[other]}], which has the same position {position[i]} along {dim!r}: the partition "
            "matrix would be ragged",
        )
    stops = np.concatenate([[0], span[:, 1]])
    starts = np.concatenate([span[:, 0], [size]])
    for k in np.flatnonzero(stops != starts)[: limits.MAX_PROBLEMS]:
        left = (
            f"Partitions[{number[first[k - 1]]}] {(span[k - 1] - end).tolist()}" if k else "the start of the dimension"
        )
        right = f"Partitions[{number[first[k]]}] {(span[k] - end).tolist()}" if k < count else f"its end at {size}"
        kind = "a gap" if stops[k] < starts[k] else "an overlap"
        low, high = sorted((int(stops[k]), int(starts[k])))
        findings.problem(
            f"location along {dim!r}", f"{kind} at indices {low} to {high - 1}, between {left} and {right}"
        )
    return stops
