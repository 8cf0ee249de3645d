"""Partial sums and prefix sums in plain NumPy, for jobs that take less time than loading a compiler."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.kernels.cumulative.mask import Mask
from cfagg.kernels.statistics import Statistics, exact_sum

__all__ = ["Partials", "add_exactly", "cumulate_plain", "double_product", "double_sum", "integer_sum", "reduce_plain"]

Array = npt.NDArray[Any]
Axes = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Partials:
    """Results of one pass over a block; arrays do not have the axes of the set to which they belong.

    For several blocks, every array has the blocks along its first axis.

    Parameters
    ----------
    sums : mapping of set of axes to int64 or float64 array
        Sums of values that count, or of their products with the weights.
    low : same, float64, optional
        Low parts of the sums; None without `double_double`, and for integers, whose sums are exact.
    counts : mapping to int64 arrays, optional
        Number of values that count; None if all do.
    weights, weights_low : mapping to float64 arrays, optional
        Sums of the weights of values that count, and their low parts; None without weights.
    statistics : mapping to Statistics
    missing : int
        Number of values that do not count, for any reason.
    nonfinite : int
        Number of these that are infinite.
    """

    sums: Mapping[Axes, Array]
    low: Mapping[Axes, Array] | None = None
    counts: Mapping[Axes, npt.NDArray[np.int64]] | None = None
    weights: Mapping[Axes, npt.NDArray[np.float64]] | None = None
    weights_low: Mapping[Axes, npt.NDArray[np.float64]] | None = None
    statistics: Mapping[Axes, Statistics] = field(default_factory=dict)
    missing: Any = 0
    nonfinite: Any = 0


def add_exactly(a: Array, b: Array) -> tuple[Array, Array]:
    """Return the rounded sum of two arrays and its rounding error (Knuth's TwoSum).

    >>> add_exactly(np.array(1.0), np.array(1e-20))
    (np.float64(1.0), np.float64(1e-20))
    """
    with np.errstate(over="ignore", invalid="ignore"):
        total = a + b
        part = total - a
        return total, (a - (total - part)) + (b - part)


def double_sum(high: Array, low: Array | None, axes: Sequence[int]) -> tuple[Array, Array]:
    """Return sums of ``high + low`` over axes with twice the digits of float64, as high and low parts.

    >>> double_sum(np.array([1e20, 1.0, -1e20]), None, [0])
    (np.float64(1.0), np.float64(0.0))
    """
    order = [a for a in range(high.ndim) if a not in axes]
    kept = tuple(high.shape[a] for a in order)
    order += list(axes)
    size = int(np.prod([high.shape[a] for a in axes]))
    high = high.transpose(order).reshape(*kept, size)
    low = np.zeros_like(high) if low is None else low.transpose(order).reshape(*kept, size)
    if size == 0:
        return np.zeros(kept), np.zeros(kept)
    while size > 1:
        half = size // 2
        total, rest = add_exactly(high[..., :half], high[..., half : 2 * half])
        rest = rest + (low[..., :half] + low[..., half : 2 * half])
        high = np.concatenate([total, high[..., 2 * half :]], -1)
        low = np.concatenate([rest, low[..., 2 * half :]], -1)
        size = high.shape[-1]
    high, low = high[..., 0], low[..., 0]
    total = high + low
    return total, low - (total - high)


def double_product(high: Array, low: Array, times: int) -> tuple[Array, Array]:
    """Return numbers with twice the digits of float64 multiplied by an integer below 2**53, as high and low parts.

    >>> double_product(np.array(0.1), np.array(0.0), 3)
    (np.float64(0.30000000000000004), np.float64(-2.7755575615628914e-17))
    """
    # Halves of 26 and 27 bits have exact products (Dekker).
    upper = high * 134217729.0
    upper = upper - (upper - high)
    many = times * 134217729.0
    many = many - (many - times)
    product = high * times
    lower, few = high - upper, times - many
    rest = ((upper * many - product) + upper * few + lower * many) + lower * few
    return add_exactly(product, rest + low * times)


def integer_sum(values: Array, axes: Sequence[int]) -> Any:
    """Return exact int64 sums over axes; raise `OverflowError` beyond int64."""
    order = [a for a in range(values.ndim) if a not in axes] + list(axes)
    kept = tuple(values.shape[a] for a in range(values.ndim) if a not in axes)
    size = int(np.prod([values.shape[a] for a in axes]))
    return exact_sum(values.transpose(order).reshape(*kept, size), len(kept))


def reduce_plain(
    blocks: Array,
    sets: tuple[Axes, ...],
    mask: Mask,
    weights: Array | None,
    double_double: bool,
    wanted: tuple[Axes, ...],
) -> Partials:
    """Return the sums of blocks over sets of their axes, and statistics over others, like the compiled pass."""
    if weights is not None:
        # Without this, the memory order, and with it the order of summation, would depend on the number of blocks.
        blocks = np.ascontiguousarray(blocks)
    valid, values, effective = _summands(blocks, mask, weights)
    every = tuple(range(1, blocks.ndim))
    missing = math.prod(blocks.shape[1:]) - np.count_nonzero(valid, every)
    some, reals = bool(missing.any()), blocks.dtype.kind == "f"
    sums, low = _sums(values, sets, double_double)
    heavy, heavy_low = (None, None) if effective is None else _sums(effective, sets, double_double)
    return Partials(
        sums=sums,
        low=low,
        counts={t: np.add.reduce(valid, _within(t), np.int64) for t in sets} if some else None,
        weights=heavy,
        weights_low=heavy_low,
        statistics={t: _statistics(blocks, valid, values, effective, _within(t)) for t in wanted},
        missing=missing,
        nonfinite=np.count_nonzero(np.isinf(blocks), every) if reals and some else np.zeros_like(missing),
    )


def _within(axes: Axes) -> Axes:
    """Return axes of a block as axes of an array with the blocks along its first axis."""
    return tuple(1 + a for a in axes)


def _sums(values: Array, sets: Sequence[Axes], double_double: bool) -> tuple[dict[Any, Any], Any]:
    """Return the sums of blocks over each set of axes, and their low parts or None."""
    if values.dtype.kind == "i":
        return {t: integer_sum(values, _within(t)) for t in sets}, None
    if not double_double:
        return {t: np.add.reduce(values, _within(t)) for t in sets}, None
    pairs = {t: double_sum(values, None, _within(t)) for t in sets}
    return {t: p[0] for t, p in pairs.items()}, {t: p[1] for t, p in pairs.items()}


def _statistics(block: Array, valid: Array, values: Array, weights: Array | None, axes: tuple[int, ...]) -> Statistics:
    """Return the statistics of an array over some axes.

    `values` are int64 or float64, 0 if not `valid`, and multiplied by weights if any; `weights` are 0 if not valid.
    """
    count = np.asarray(np.add.reduce(valid, axes, np.int64))
    dtype = block.dtype
    ends = np.finfo(dtype) if dtype.kind == "f" else np.iinfo(dtype)
    low = np.minimum.reduce(block, axes, initial=dtype.type(ends.max), where=valid)
    high = np.maximum.reduce(block, axes, initial=dtype.type(ends.min), where=valid)
    none = count == 0
    low, high = (np.where(none, dtype.type(0), x) for x in (low, high))
    total = integer_sum(values, axes) if values.dtype.kind == "i" else np.add.reduce(values, axes)
    sum_w = None if weights is None else np.asarray(np.add.reduce(weights, axes))
    part = Statistics(count, low, high, np.asarray(total), np.zeros(count.shape), sum_w)
    heavy = valid if weights is None else weights
    distance = np.where(valid, block, 0.0) - np.expand_dims(part.mean, axes)
    with np.errstate(over="ignore"):
        squares = np.square(np.where(heavy != 0, distance, 0.0)) * heavy
        m2 = np.add.reduce(squares, axes)
    return Statistics(count, low, high, part.sum, np.asarray(m2), sum_w)


def _summands(block: Array, mask: Mask, weights: Array | None) -> tuple[Array, Array, Array | None]:
    """Return the mask of elements that count, the summands (0 elsewhere), and the weights that count."""
    valid = mask.valid(block)
    if block.dtype == np.uint64 and weights is None and bool((valid & (block > np.uint64(2**63 - 1))).any()):
        raise OverflowError(f"a value is beyond int64: {block[valid].max()}")
    integer = block.dtype.kind != "f" and weights is None
    values = np.where(valid, block, block.dtype.type(0)).astype(np.int64 if integer else np.float64)
    if weights is None:
        return valid, values, None
    weights = np.where(valid, weights, 0.0)
    return valid, values * weights, weights


def cumulate_plain(parts: Array, low: Array | None, carry: Array, carry_low: Array) -> bool:
    """Replace parts by their running sums along the first axis, the carry by the last; return whether one wrapped.

    `parts` and `low` have shape (n, ...); `carry` and `carry_low` are the sums before the first part.
    """
    wrapped = False
    for k in range(parts.shape[0]):
        if parts.dtype.kind == "i":
            total = carry + parts[k]
            wrapped |= bool((((carry ^ total) & (parts[k] ^ total)) < 0).any())
            parts[k] = carry[...] = total
            continue
        total, rest = add_exactly(carry, parts[k])
        rest = carry_low + rest if low is None else carry_low + (rest + low[k])
        parts[k] = carry[...] = total + rest
        carry_low[...] = rest - (parts[k] - total)
        if low is not None:
            low[k] = carry_low
    return wrapped
