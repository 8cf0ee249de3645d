"""Applying a term of a query to one chunk: positions are selected, segments are summed and added to their groups.

`locate` determines the positions of each chunk that a term selects along an axis.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.accumulation.ranges import Edges, Fold, Part, Pick, along, chunk_of, edge_of, spans_of
from cfagg.kernels.cumulative.mask import Mask
from cfagg.kernels.cumulative.plain import add_exactly, double_sum
from cfagg.kernels.distinct import distinct
from cfagg.kernels.ranges import box_sums, sum_over

__all__ = [
    "Local", "contract_pair", "contract_raw", "contract_stored", "folds_of", "index_of", "locate", "place_of", "taken",
]  # fmt: skip

Array = npt.NDArray[Any]
Int64 = npt.NDArray[np.int64]
Axes = tuple[int, ...]
Place = slice | Int64
#: Function of a box and the axes to sum, which returns arrays with these axes of length 1.
Reduce = Callable[[tuple[slice, ...], Axes], tuple[Array, ...]]

#: Up to this number of pairs of segment and group, each combination of segments is summed by one call.
_FEW = 64

#: Segments of at least this length are summed by one call each, shorter ones all in one call.
_LONG = 2048


_WHOLE = slice(None)


@dataclass(frozen=True, slots=True, eq=False)
class Local:
    """The selection that a part makes in one chunk along one axis, within the range ``low..high``."""

    chunk: int
    low: int
    high: int
    #: Positions in the result; the result of this chunk has length `width` along the axis.
    target: Place
    width: int
    #: For a pick: the selected positions relative to `low`, in the order of `target`.
    take: Place | None
    #: For a fold: segments, relative to `low`, and (segment, index into `target`, coefficient) of each entry.
    starts: Sequence[int] = ()
    stops: Sequence[int] = ()
    entries: Sequence[tuple[int, int, int]] = ()


def locate(part: Part, edges: Edges, length: int) -> list[Local]:
    """Return the selection of a part in each chunk that it touches, in ascending order."""
    start, stop = spans_of(part)
    if not len(start):
        return []
    first, last = chunk_of(edges, start), chunk_of(edges, stop - 1)
    count = last - first + 1
    chunks = distinct(np.repeat(first + count - np.cumsum(count), count) + np.arange(count.sum()))
    begin, end = edge_of(edges, chunks, length).tolist(), edge_of(edges, chunks + 1, length).tolist()
    each = _pick_locals if isinstance(part, Pick) else _fold_locals
    return each(part, chunks.tolist(), begin, end)  # type: ignore[arg-type]


def _pick_locals(part: Pick, chunks: list[int], begin: list[int], end: list[int]) -> list[Local]:
    order = None if part.ascending else np.argsort(part.positions, kind="stable")
    at = part.positions if order is None else part.positions[order]
    cuts = np.searchsorted(at, begin).tolist(), np.searchsorted(at, end).tolist()
    out = []
    for chunk, origin, i, j in zip(chunks, begin, *cuts, strict=True):
        low, high = int(at[i]), int(at[j - 1]) + 1
        dense = order is None and high - low == j - i
        out.append(
            Local(
                chunk,
                low - origin,
                high - origin,
                slice(i, j) if order is None else order[i:j],
                j - i,
                _WHOLE if dense else at[i:j] - low,
            )
        )
    return out


def _fold_locals(part: Fold, chunks: list[int], begin: list[int], end: list[int]) -> list[Local]:
    firsts = np.searchsorted(part.stop, begin, side="right")
    lasts = np.searchsorted(part.start, end)
    entry = np.searchsorted(part.segment, firsts).tolist(), np.searchsorted(part.segment, lasts).tolist()
    out = []
    for chunk, a, b, i, j, p, q in zip(chunks, begin, end, firsts.tolist(), lasts.tolist(), *entry, strict=True):
        low, high = max(int(part.start[i]), a), min(int(part.stop[j - 1]), b)
        starts = (np.maximum(part.start[i:j], low) - low).tolist()
        stops = (np.minimum(part.stop[i:j], high) - low).tolist()
        group = part.group[p:q]
        if q - p == 1:
            target: Place = slice(int(group[0]), int(group[0]) + 1)
            width, local = 1, [0]
        else:
            used, inverse = np.unique(group, return_inverse=True)
            width, local = len(used), inverse.tolist()
            dense = int(used[-1]) - int(used[0]) + 1 == width
            target = slice(int(used[0]), int(used[-1]) + 1) if dense else used
        entries = list(zip((part.segment[p:q] - i).tolist(), local, part.coefficient[p:q].tolist(), strict=True))
        out.append(Local(chunk, low - a, high - a, target, width, None, starts, stops, entries))
    return out


def contract_raw(
    block: Array, term: Sequence[Local], mask: Mask | None, weights: Array | None, *, integer: bool
) -> tuple[Array, Array | None, Array]:
    """Return total, weight and count of one term over a block that spans the term's ranges ``low..high``."""
    block = taken(block, term)
    weights = None if weights is None else taken(weights, term, spread=True)

    def reduce(box: tuple[slice, ...], axes: Axes) -> tuple[Array, ...]:
        w = None
        if weights is not None:
            w = weights[tuple(s if n > 1 else slice(None) for s, n in zip(box, weights.shape, strict=True))]
        total, weight, count = box_sums(block[box], axes, mask, w, integer)
        return (total, count) if weight is None else (total, count, weight)

    total, count, *weight = _contract(reduce, block.shape, term, _by_rows(block, mask, weights, integer))
    return total, weight[0] if weight else None, count


def contract_stored(block: Array, term: Sequence[Local], *, integer: bool) -> Array:
    """Return the result of one term over a block of stored sums, in int64 or float64; sums have no missing values."""
    if integer and block.dtype.kind == "f":
        block = np.rint(block).astype(np.int64)  # counts that another program stored as real numbers
    block = taken(block, term)

    def reduce(box: tuple[slice, ...], axes: Axes) -> tuple[Array, ...]:
        return (sum_over(block[box], axes, integer),)

    kind = np.int64 if integer else np.float64
    return _contract(reduce, block.shape, term, lambda: (block.astype(kind, copy=False),))[0]


def contract_pair(high: Array, low: Array | None, term: Sequence[Local]) -> tuple[Array, Array]:
    """Return the result of one term over double-double sums ``high + low``; `low` is None for zeros."""
    first = taken(high, term)
    rest = np.zeros_like(first) if low is None else taken(low, term)
    for axis, local in enumerate(term):
        if local.take is not None:
            continue
        shape = [*first.shape]
        shape[axis] = local.width
        out, out_low = np.zeros(shape), np.zeros(shape)
        for segment, target, coefficient in local.entries:
            cut = _at(first.ndim, axis, slice(local.starts[segment], local.stops[segment]))
            total, more = double_sum(first[cut], rest[cut], (axis,))
            total, error = multiply_exactly(total, float(coefficient))
            place = _at(first.ndim, axis, target)
            out[place], error_of_sum = add_exactly(out[place], total)
            out_low[place] += error_of_sum + (error + more * coefficient)
        first, rest = out, out_low
    return first, rest


def multiply_exactly(values: Array, factor: float) -> tuple[Array, Array]:
    """Return rounded products and their rounding errors (Dekker's product, for a small whole factor)."""
    total = values * factor
    if abs(factor) in (0.0, 1.0, 2.0):
        return total, np.zeros_like(total)
    # Split values into halves of the digits, whose products with a factor of at most 26 bits are exact.
    wide = values * 134217729.0
    high = wide - (wide - values)
    low = values - high
    return total, (high * factor - total) + low * factor


def _at(ndim: int, axis: int, index: Any) -> tuple[Any, ...]:
    return tuple(index if a == axis else slice(None) for a in range(ndim))


def _contract(
    reduce: Reduce, shape: tuple[int, ...], term: Sequence[Local], rows: Callable[[], tuple[Array, ...]]
) -> tuple[Array, ...]:
    """Return the sums of a term, one array for each that `reduce` returns."""
    folds = folds_of(term)
    pairs = math.prod(len(term[a].entries) for a in folds)
    if pairs > _FEW:
        return _one_by_one(reduce, shape, term, folds, rows)
    if pairs == 1:
        factor = math.prod(term[a].entries[0][2] for a in folds)
        box = tuple(slice(t.starts[0], t.stops[0]) if t.take is None else slice(None) for t in term)
        found = reduce(box, folds)
        if factor != 1:
            for f in found:
                np.multiply(f, factor, out=f)
        return found
    out: tuple[Array, ...] = ()
    done: dict[tuple[int, ...], tuple[Array, ...]] = {}
    for entries in itertools.product(*(term[a].entries for a in folds)):
        segments = tuple(e[0] for e in entries)
        if segments not in done:
            cut = [slice(None)] * len(shape)
            for a, s in zip(folds, segments, strict=True):
                cut[a] = slice(term[a].starts[s], term[a].stops[s])
            done[segments] = reduce(tuple(cut), folds)
        found = done[segments]
        if not out:
            widths = [local.width if local.take is None else n for local, n in zip(term, shape, strict=True)]
            out = tuple(np.zeros(widths, f.dtype) for f in found)
        place: list[slice] = [slice(None)] * len(shape)
        factor = 1
        for a, (_, target, coefficient) in zip(folds, entries, strict=True):
            place[a] = slice(target, target + 1)
            factor *= coefficient
        for o, f in zip(out, found, strict=True):
            o[tuple(place)] += f if factor == 1 else f * factor
    return out


def _one_by_one(
    reduce: Reduce, shape: tuple[int, ...], term: Sequence[Local], folds: Axes, rows: Callable[[], tuple[Array, ...]]
) -> tuple[Array, ...]:
    """Return the sums of a term with many segments, axis by axis, starting with the one that shrinks most."""
    first = max(folds, key=lambda a: ((term[a].high - term[a].low) / len(term[a].starts), a))
    local = term[first]
    cells = int(np.prod([n for a, n in enumerate(shape) if a != first], dtype=np.int64))
    cells = cells * (local.high - local.low) // len(local.starts)
    if cells >= _LONG or len(local.starts) == 1:
        parts = [
            reduce(_at(len(shape), first, slice(i, j)), (first,))
            for i, j in zip(local.starts, local.stops, strict=True)
        ]
        found = tuple(np.concatenate(p, axis=first) for p in zip(*parts, strict=True))
    else:
        found = tuple(_segment_sums(values, first, local) for values in rows())
    out = tuple(_distribute(values, first, local) for values in found)
    for axis in folds:
        if axis != first:
            out = tuple(_distribute(_segment_sums(values, axis, term[axis]), axis, term[axis]) for values in out)
    return out


def _segment_sums(values: Array, axis: int, local: Local) -> Array:
    """Return the sums of all segments along an axis, in int64 or float64."""
    kind = np.int64 if values.dtype.kind in "iub" else np.float64
    cuts = np.array([local.starts, local.stops]).T.reshape(-1)
    if cuts[-1] == values.shape[axis]:
        cuts = cuts[:-1]
    # Every other result is of a gap between segments (one element if empty), and is dropped.
    sums: Array = np.add.reduceat(values, cuts, axis, dtype=kind)[_at(values.ndim, axis, slice(None, None, 2))]
    return sums


def _distribute(sums: Array, axis: int, local: Local) -> Array:
    """Return the sums of groups, adding the sums of segments times their coefficients."""
    segment, coefficient, begin = by_target(local)
    # In place, so that integers remain integers.
    parts = np.take(sums, segment, axis)
    parts *= along(coefficient, axis, sums.ndim)
    out: Array = np.add.reduceat(parts, begin, axis)
    return out


def _by_rows(block: Array, mask: Mask | None, weights: Array | None, integer: bool) -> Callable[[], tuple[Array, ...]]:
    """Return a function that computes the summands of all elements of a small block: values, ones and weights."""

    def rows() -> tuple[Array, ...]:
        valid = np.ones(block.shape, bool) if mask is None else mask.valid(block)
        values = np.where(valid, block, block.dtype.type(0))
        values = values.astype(np.int64) if integer else values.astype(np.float64)
        if weights is None:
            return values, valid
        return values * weights, valid, np.where(valid, weights, 0.0)

    return rows


def folds_of(term: Sequence[Local]) -> tuple[int, ...]:
    """Return the axes that a term reduces."""
    return tuple(a for a, local in enumerate(term) if local.take is None)


def place_of(term: Sequence[Local]) -> Any:
    """Return the index of a term's results."""
    return index_of([local.target for local in term])


def index_of(place: Sequence[slice | Array]) -> Any:
    """Return the index of a product of slices and positions."""
    if sum(not isinstance(p, slice) for p in place) > 1:
        return np.ix_(*(np.arange(p.start, p.stop) if isinstance(p, slice) else p for p in place))
    return tuple(place)


def taken(block: Array, term: Sequence[Local], *, spread: bool = False) -> Array:
    """Return a block reduced to the positions that a term keeps; with `spread`, axes of length 1 are broadcast."""
    for axis, local in enumerate(term):
        if local.take is not None and not isinstance(local.take, slice) and not (spread and block.shape[axis] == 1):
            block = block[_at(block.ndim, axis, local.take)]
    return block


def by_target(local: Local) -> tuple[Array, Array, Array]:
    """Return segments in the order of their groups, their coefficients, and where groups begin."""
    entries = np.array(local.entries, np.int64).reshape(-1, 3)
    entries = entries[np.argsort(entries[:, 1], kind="stable")]
    segment, target, coefficient = entries.T
    begin = np.flatnonzero(np.concatenate([[True], target[1:] != target[:-1]]))
    return segment, coefficient, begin
