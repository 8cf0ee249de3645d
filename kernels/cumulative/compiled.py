"""Partial sums by the compiled pass: layout, tiles, and the sums derived from those along single axes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.kernels.cumulative.axis import spread_axis
from cfagg.kernels.cumulative.layout import Axes, Prepared, ends
from cfagg.kernels.cumulative.mask import Mask
from cfagg.kernels.cumulative.plain import Partials, double_product, double_sum, integer_sum
from cfagg.kernels.cumulative.tiles import pass_blocks
from cfagg.kernels.statistics import Statistics, merge

__all__ = ["reduce_compiled"]

Array = npt.NDArray[Any]
Sums = dict[Axes, Array]

_TILE = 1536
"""Elements of a tile, whose buffers fit into the first-level cache."""

_SHEET = 2**15
"""Number of sums along the outermost axis accumulated at a time, which fit into the second-level cache."""


def reduce_compiled(
    blocks: Array,
    sets: Sequence[Axes],
    mask: Mask,
    weights: Array | None,
    double_double: bool,
    wanted: Sequence[Axes],
) -> Partials:
    """Return the sums of blocks over several sets of their axes, and statistics over others.

    Parameters
    ----------
    blocks : array of native type
        One or more blocks along the first axis, each of more than one element.
    sets : sequence of tuple of int
        Axes of a block.
    mask : Mask
        The mask for their type.
    weights : float64 array, optional
        Broadcast to the shape of `blocks`.
    double_double : bool
    wanted : sequence of tuple of int
        Sets of axes for statistics.

    Raises
    ------
    OverflowError
        A sum of integers exceeds int64.
    """
    prepared = Prepared.of(blocks, mask, weights, (*sets, *wanted))
    layout = prepared.layout
    inner = {t: layout.inner(t) for t in (*sets, *wanted)}

    def outer(sums: Sums | None) -> Sums | None:
        return None if sums is None else {t: layout.outer(sums[inner[t]], t) for t in sets}

    whole = layout.everything in (inner[t] for t in wanted)
    found = _sums(prepared, list(inner.values()), double_double, whole=whole)
    heavy: tuple[Sums | None, Sums | None] = (None, None)
    counts: Sums | None = None
    some = found.missing > 0
    if some.any():
        counts = {t: layout.outer(layout.cells(inner[t]) - found.gone[inner[t]], t) for t in sets}
    if weights is not None:
        heavy = _heavy_sums(prepared, weights, inner, sets, double_double, some)
    return Partials(
        sums=outer(found.sums) or {},
        low=outer(found.low),
        counts=counts,
        weights=heavy[0],
        weights_low=heavy[1],
        statistics={t: _statistics(prepared, found, t) for t in wanted},
        missing=found.missing,
        nonfinite=found.infinite,
    )


def _heavy_sums(
    prepared: Prepared, weights: Array, inner: Mapping[Axes, Axes], sets: Sequence[Axes], double_double: bool,
    some: npt.NDArray[np.bool_],
) -> tuple[Sums, Sums | None]:  # fmt: skip
    """Return the sums of the weights of elements that count, and their low parts; in `some` blocks, not all count."""
    constant = _constant_sums(weights, sets, double_double)
    if not some.any():
        return constant
    layout = prepared.layout
    found = _sums(prepared, [inner[t] for t in sets], double_double, ones=True)
    out: list[Sums | None] = []
    for summed, known in zip((found.sums, found.low), constant, strict=True):
        if summed is None or known is None:
            out.append(None)
            continue
        made = {t: layout.outer(summed[inner[t]], t) for t in sets}
        out.append({t: np.where(some.reshape(-1, *[1] * (a.ndim - 1)), a, known[t]) for t, a in made.items()})
    return out[0] or {}, out[1]


def _constant_sums(weights: Array, sets: Sequence[Axes], double_double: bool) -> tuple[Sums, Sums | None]:
    """Return the sums of weights if every element counts, and their low parts."""
    # An axis along which the weights are constant is not iterated over.
    few = weights[tuple(slice(None) if step else slice(1) for step in weights.strides)]
    sums: Sums = {}
    low: Sums = {}
    for t in sets:
        axes = tuple(1 + a for a in t)
        shape = [n for a, n in enumerate(weights.shape) if a not in axes]
        times = math.prod(weights.shape[a] // few.shape[a] for a in axes)
        if double_double:
            high, rest = double_product(*double_sum(few, None, axes), times)
            low[t] = np.broadcast_to(rest, shape)
        else:
            high = np.add.reduce(few, axes) * times
        sums[t] = np.broadcast_to(high, shape)
    return sums, low if double_double else None


@dataclass(frozen=True, slots=True)
class _Sums:
    """Sums over sets of the layout's axes, the number of excluded elements in each, and statistics of the whole.

    All arrays have the blocks along their first axis.
    """

    sums: Sums
    low: Sums | None
    gone: Sums
    whole: Statistics | None
    missing: npt.NDArray[np.int64]
    infinite: npt.NDArray[np.int64]


def _sums(
    block: Prepared, sets: Sequence[Axes], double_double: bool, *, whole: bool = False, ones: bool = False
) -> _Sums:
    """Return sums over sets of the layout's axes, from the pass over single axes or derived from its results."""
    layout = block.layout
    found = _singles(block, layout.bases(sets), double_double, whole, ones)
    sums, low, gone = dict(found.sums), None if found.low is None else dict(found.low), dict(found.gone)
    for t in sorted(set(sets), key=len):
        if t in sums:
            continue
        parent = layout.parent(t, sums)
        rest = tuple(1 + k - sum(p < k for p in parent) for k in t if k not in parent)
        if found.missing.any():
            gone[t] = np.asarray(gone[parent].sum(rest))
        if low is not None:
            sums[t], low[t] = double_sum(sums[parent], low[parent], rest)
        elif sums[parent].dtype.kind == "i":
            sums[t] = np.asarray(integer_sum(sums[parent], rest))
        else:
            sums[t] = np.asarray(np.add.reduce(sums[parent], rest))
    total = found.whole and replace(found.whole, sum=sums[layout.everything])
    return replace(found, sums=sums, low=low, gone=gone, whole=total)


def _singles(block: Prepared, axes: Sequence[int], double_double: bool, whole: bool, ones: bool) -> _Sums:
    """Run the pass for sums along single axes of the layout."""
    layout, raw, count = block.layout, block.raw, block.count
    lengths, each = layout.lengths, raw.size // count
    last = len(lengths) - 1
    shape, tile, tiles = _tiles(lengths, 0 in axes and last > 0)
    integer = raw.dtype.kind == "i" and block.weights is None
    places: dict[int, int] = {}
    columns, size, rows = [], 0, -1
    for k in axes:
        places[k] = size
        if k == last:
            rows = size
        else:
            inner = math.prod(lengths[k + 1 : last])
            columns.append((inner, inner * lengths[k], size, k == last - 1 and shape[2] > 1))
        size += each // lengths[k]
    total: Array = np.zeros((count, size), np.int64 if integer else np.float64)
    low: Array | None = np.zeros((count, size)) if double_double and not integer else None
    gone = np.zeros((count, size), np.int64)
    # Only 64-bit integers can overflow within a block, which can be detected from their extremes.
    moments = np.empty((count * (tiles if whole or (integer and raw.itemsize == 8) else 0), 3))
    missing, infinite = np.empty(count, np.int64), np.empty(count, np.int64)
    least, most = (np.full(count, end) for end in ends(raw.dtype))
    pass_blocks(
        raw,
        count,
        shape,
        tile,
        block.mask,
        block.weights,
        block.places,
        ones,
        total.reshape(-1),
        None if low is None else low.reshape(-1),
        gone.reshape(-1),
        np.array(columns, np.int64).reshape(-1, 4),
        rows,
        moments,
        missing,
        infinite,
        least,
        most,
    )
    if low is not None:
        high = total + low
        low = low - (high - total)
        total = high
    some = missing < each
    if integer and raw.itemsize == 8 and some.any():
        _check_range(block, axes, max(-int(least[some].min()), int(most[some].max())))

    def cut(array: Array, k: int) -> Array:
        kept = [n for d, n in enumerate(lengths) if d != k]
        return array[:, places[k] : places[k] + each // lengths[k]].reshape(count, *kept)

    return _Sums(
        sums={(k,): cut(total, k) for k in axes},
        low=None if low is None else {(k,): cut(low, k) for k in axes},
        gone={(k,): cut(gone, k) for k in axes},
        whole=_whole(block, each - missing, least, most, moments.reshape(count, -1, 3)) if whole else None,
        missing=missing,
        infinite=infinite,
    )


@lru_cache(maxsize=256)
def _tiles(lengths: tuple[int, ...], outermost: bool) -> tuple[tuple[int, ...], tuple[int, ...], int]:
    """Return the shape and tile for the pass, and the number of tiles."""
    width = lengths[-1]
    if len(lengths) == 2 and 2 * width > _TILE:
        outer, between, height = lengths[0], 1, 1
    elif len(lengths) < 3:
        outer, between, height = 1, 1, lengths[0] if len(lengths) == 2 else 1
    else:
        outer, between, height = lengths[0], math.prod(lengths[1:-2]), lengths[-2]
    n_wide = -(-width // _TILE)
    n_tall = 1 if n_wide == 1 and height * width <= _TILE else -(-height // max(1, _TILE // width))
    tall, wide = -(-height // n_tall), -(-width // n_wide)
    tiles = between * -(-height // tall) * -(-width // wide)
    run = max(1, _SHEET // (tall * wide)) if outermost else tiles
    return (outer, between, height, width), (tall, wide, run), outer * tiles


def _whole(block: Prepared, count: npt.NDArray[np.int64], least: Array, most: Array, moments: Array) -> Statistics:
    """Return the statistics of whole blocks, except the sum, from those of their tiles."""
    weight, mean, m2 = moments[:, :, 0], moments[:, :, 1], moments[:, :, 2]
    heavy = weight.sum(1)
    middle = np.divide(np.vecdot(weight, mean), heavy, out=np.zeros(block.count), where=heavy > 0.0)
    low, high = (np.where(count > 0, x, x.dtype.type(0)) for x in (least, most))
    return Statistics(
        count=count,
        minimum=low,
        maximum=high,
        sum=np.zeros(block.count),
        m2=m2.sum(1) + np.vecdot(weight, np.square(np.where(weight > 0.0, mean - middle[:, None], 0.0))),
        weights=None if block.weights is None else heavy,
    )


def _statistics(block: Prepared, found: _Sums, axes: Axes) -> Statistics:
    """Return the statistics over a set of the blocks' axes."""
    layout = block.layout
    inner = layout.inner(axes)
    result = found.whole if inner == layout.everything else None
    if result is None:
        base = max((k for k in inner if (k,) in found.sums), key=lambda k: (layout.lengths[k], k))
        rest = tuple(1 + k - (base < k) for k in inner if k != base)
        result = merge(_spread(block, found, base), rest)
    outer = {n: layout.outer(getattr(result, n), axes) for n in ("count", "minimum", "maximum", "sum", "m2")}
    for name in ("minimum", "maximum"):
        outer[name] = outer[name].astype(block.dtype, copy=False)
    weights = None if result.weights is None else layout.outer(result.weights, axes)
    return Statistics(**outer, weights=weights)


def _spread(block: Prepared, found: _Sums, axis: int) -> Statistics:
    """Return the statistics along a single axis of the layout, whose sums are known."""
    lengths, raw = block.layout.lengths, block.raw
    last = len(lengths) - 1
    inner = 0 if axis == last else math.prod(lengths[axis + 1 : last])
    total, gone = found.sums[axis,], found.gone[axis,]
    count = lengths[axis] - gone
    weights = None if block.weights is None else _singles(block, [axis], False, False, True).sums[axis,]
    size = raw.size // lengths[axis]
    least, most = (np.full(size, end) for end in ends(raw.dtype))
    squares = np.zeros(size)
    part = Statistics(count, least, most, total, squares, weights)
    spread_axis(
        raw,
        raw.size // lengths[last],
        lengths[last],
        (inner, inner * lengths[axis]),
        block.mask,
        raw.dtype.kind == "i" and not block.mask[4],
        block.weights,
        block.places,
        part.mean.reshape(-1),
        least,
        most,
        squares,
    )
    none, zero = count.reshape(-1) == 0, raw.dtype.type(0)
    low, high = (np.where(none, zero, x).reshape(count.shape) for x in (least, most))
    return replace(part, minimum=low, maximum=high, m2=squares.reshape(count.shape))


def _check_range(block: Prepared, axes: Sequence[int], most: int) -> None:
    """Check that no sum of a block along a single axis wrapped around if the extremes cannot rule it out."""
    lengths = block.layout.lengths
    if most * max(lengths[k] for k in axes) < 2**63:
        return
    low, high, first, second, tested = block.mask
    values = block.raw
    if tested:
        values = np.where((values >= low) & (values <= high) & (values != first) & (values != second), values, 0)
    for k in axes:
        integer_sum(values.reshape(block.count, *lengths), (1 + k,))
