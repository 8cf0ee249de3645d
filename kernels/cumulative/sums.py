r"""Sums of a chunk along any set of dimensions in one pass, and their running sums over the chunks.

An accumulation is built in two steps.  `partial_sums` reduces each chunk over every wanted set of its dimensions, with
counts of missing values and, on request, statistics.  `cumulate` turns the partial sums of a row of chunks into
inclusive running sums, along one dimension after the other if a set has several (a summed-area table).

Integers without weights are summed exactly in int64.  Everything else is summed in float64, or as a pair of float64
numbers ("double-double").  With :math:`u = 2^{-53}`, the sum of n values has an error of at most
:math:`(n - 1) u \sum |x|` in float64 and of about :math:`u |S| + n^2 u^2 \sum |x|` as the high part of a pair, whose
low part is the rest. The running sum over chunks is computed as a pair in either case, so it adds only one rounding.

With weights, the products are rounded to float64 and summed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.kernels.cumulative.mask import Mask, native_block
from cfagg.kernels.cumulative.plain import Partials, cumulate_plain, reduce_plain
from cfagg.kernels.statistics import Statistics, merge, pyramid

__all__ = ["Partials", "Statistics", "cumulate", "merge", "partial_sums", "partial_sums_each", "pyramid"]

Axes = tuple[int, ...]
Array = npt.NDArray[Any]


def partial_sums(
    block: Array,
    axes_sets: Iterable[Axes],
    *,
    fills: Iterable[Any] = (),
    valid_min: Any = None,
    valid_max: Any = None,
    weights: Array | None = None,
    double_double: bool = False,
    statistics: Iterable[Axes] = (),
    compiled: bool = True,
) -> Partials:
    """Reduce a block over several sets of its axes at once.

    Elements that equal a fill, are outside the valid range, or are NaN or infinite do not count and add nothing.

    Parameters
    ----------
    block : array of integers or reals of at most 8 bytes
        The block, with any strides and byte order.
    axes_sets : iterable of tuple of int
        Sets of axes to sum over, each ascending and non-empty.
    fills : iterable of numbers
        Values that mean missing, in the units of the block.
    valid_min, valid_max : number, optional
        Smallest and largest value that counts.
    weights : float64 array, optional
        Weights that broadcast to the block's shape, finite and non-negative.
    double_double : bool
        Whether to return the low parts of sums of reals.
    statistics : iterable of tuple of int
        Sets of axes over which to compute count, extremes, sum and centred sum of squares.
    compiled : bool
        False for jobs that finish faster than the compiler loads, up to some ten million elements.

    Returns
    -------
    Partials

    Raises
    ------
    TypeError
        The block has an unsupported type.
    ValueError
        A set is empty, not ascending or has an axis that does not exist, or the weights do not broadcast.
    OverflowError
        A sum of integers is beyond int64.

    Examples
    --------
    >>> block = np.array([[1, 2, 3], [4, -9, 6]], "i2")
    >>> found = partial_sums(block, [(0,), (0, 1)], fills=[-9], statistics=[(0, 1)])
    >>> found.sums[(0,)], found.counts[(0,)], found.missing
    (array([5, 2, 9]), array([2, 1, 2]), 1)
    >>> found.statistics[(0, 1)].m2
    array(14.8)
    """
    block = np.asarray(block)
    if weights is not None:
        weights = np.broadcast_to(np.asarray(weights, np.float64), block.shape)[np.newaxis]
    found = partial_sums_each(
        block[np.newaxis],
        axes_sets,
        fills=fills,
        valid_min=valid_min,
        valid_max=valid_max,
        weights=weights,
        double_double=double_double,
        statistics=statistics,
        compiled=compiled,
    )
    return _only(found)


def partial_sums_each(
    blocks: Array,
    axes_sets: Iterable[Axes],
    *,
    fills: Iterable[Any] = (),
    valid_min: Any = None,
    valid_max: Any = None,
    weights: Array | None = None,
    double_double: bool = False,
    statistics: Iterable[Axes] = (),
    compiled: bool = True,
) -> Partials:
    """Reduce blocks of one shape, stacked along the first axis, each as `partial_sums` does.

    Parameters and errors are those of `partial_sums`.  Axes are those of one block; weights have the first axis too.

    Returns
    -------
    Partials
        The results for all blocks.  Every array has the blocks along its first axis, `missing` and `nonfinite` have one
        number per block, and counts are present if any block has missing values.

    Examples
    --------
    >>> found = partial_sums_each(np.array([[1, 2], [3, -9], [5, 6]], "i2"), [(0,)], fills=[-9])
    >>> found.sums[(0,)], found.missing
    (array([ 3,  3, 11]), array([0, 1, 0]))
    """
    own = blocks.dtype.newbyteorder("=")
    blocks = native_block(blocks)
    ndim = blocks.ndim - 1
    sets = tuple(dict.fromkeys(_checked(t, ndim) for t in axes_sets))
    wanted = tuple(dict.fromkeys(_checked(t, ndim) for t in statistics))
    mask = Mask.of(blocks.dtype, fills, valid_min, valid_max)
    if weights is not None:
        weights = np.broadcast_to(np.asarray(weights, np.float64), blocks.shape)
    simple = not compiled or blocks.size < 2 * len(blocks) or not (sets or wanted) or _beyond(blocks, mask)
    if simple:
        found = reduce_plain(blocks, sets, mask, weights, double_double, wanted)
    else:
        from cfagg.kernels.cumulative.compiled import reduce_compiled

        found = reduce_compiled(blocks, sets, mask, weights, double_double, wanted)
    return found if blocks.dtype == own else replace(found, statistics=_typed(found.statistics, own))


def cumulate(
    parts: Array,
    axis: int,
    carry: Array | None = None,
    carry_low: Array | None = None,
    *,
    low: Array | None = None,
    name: str = "the accumulation",
    compiled: bool = True,
) -> None:
    """Replace partial sums by their inclusive running sums along one axis, in place.

    Between calls the carry is the sum so far, which allows a long row of chunks to be processed in blocks.

    Parameters
    ----------
    parts : int64 or float64 array
        Partial sums; on return, the running sums, each rounded once.
    axis : int
        Not negative.
    carry : array of the type of `parts` without `axis`, optional
        The sum before the first part, by default 0; on return, the sum after the last part.
    carry_low : float64 array of its shape, optional
        Low parts of the carry, for reals, by default 0.
    low : float64 array of the shape of `parts`, optional
        Low parts of the partial sums; on return, those of the running sums.
    name : str
        Name of the accumulation, for messages.
    compiled : bool
        False for small jobs, which finish faster than the compiler loads.

    Raises
    ------
    TypeError, ValueError
        The types or shapes of arrays do not fit; nothing was changed.
    OverflowError
        A sum exceeds int64 or float64.

    Examples
    --------
    >>> parts = np.array([[1.0, 10.0], [2.0, 20.0], [3.0, 30.0]])
    >>> carry, rest = np.array([100.0, 0.0]), np.zeros(2)
    >>> cumulate(parts, 0, carry, rest)
    >>> parts
    array([[101.,  10.],
           [103.,  30.],
           [106.,  60.]])
    >>> carry
    array([106.,  60.])
    """
    shape = parts.shape[:axis] + parts.shape[axis + 1 :]
    if carry is None:
        carry = np.zeros(shape, parts.dtype)
    if carry_low is None:
        carry_low = np.zeros(shape)
    _check_running(parts, axis, carry, carry_low, low)
    run = _run_compiled if compiled else _run_plain
    if parts.size and run(parts, axis, carry, carry_low, low):
        raise OverflowError(f"{name}: a running sum along axis {axis} is beyond int64")
    if parts.dtype.kind == "f" and not np.isfinite(carry).all():
        raise OverflowError(f"{name}: a running sum along axis {axis} is beyond float64")


def _check_running(parts: Array, axis: int, carry: Array, carry_low: Array, low: Array | None) -> None:
    """Check types and shapes before anything is changed."""
    if parts.dtype not in (np.dtype(np.int64), np.dtype(np.float64)):
        raise TypeError(f"running sums are of int64 or float64 parts; found {parts.dtype}")
    if not 0 <= axis < parts.ndim:
        raise ValueError(f"there is no axis {axis} in parts of {parts.ndim} dimensions")
    shape = parts.shape[:axis] + parts.shape[axis + 1 :]
    float64 = np.dtype(np.float64)
    wanted = [("carry", carry, shape, parts.dtype), ("carry_low", carry_low, shape, float64)]
    wanted += [] if low is None else [("low", low, parts.shape, float64)]
    for name, array, expected, dtype in wanted:
        if array.shape != expected or array.dtype != dtype:
            raise ValueError(f"{name} must be {dtype} of shape {expected}; found {array.dtype} of shape {array.shape}")
    if low is not None and parts.dtype != float64:
        raise ValueError("integers are summed exactly and have no low parts")


def _run_plain(parts: Array, axis: int, carry: Array, carry_low: Array, low: Array | None) -> bool:
    """Compute running sums in NumPy; return whether one wrapped around."""
    below = None if low is None else np.moveaxis(low, axis, 0)
    return cumulate_plain(np.moveaxis(parts, axis, 0), below, carry, carry_low)


def _run_compiled(parts: Array, axis: int, carry: Array, carry_low: Array, low: Array | None) -> bool:
    """Compute running sums with the compiled kernels; return whether one wrapped around."""
    from cfagg.kernels.cumulative.axis import run_integers, run_reals

    length, inner = parts.shape[axis], math.prod(parts.shape[axis + 1 :])
    given = [a for a in (parts, carry, carry_low, low) if a is not None]
    flat = [np.ascontiguousarray(a).reshape(-1) for a in given]
    if parts.dtype.kind == "i":
        wrapped = bool(run_integers(flat[0], length, inner, flat[1]))
    else:
        wrapped = False
        run_reals(flat[0], flat[3] if len(flat) > 3 else None, length, inner, flat[1], flat[2])
    for array, done in zip(given, flat, strict=True):
        if not np.may_share_memory(array, done):
            array[...] = done.reshape(array.shape)
    return wrapped


def _checked(axes: Iterable[int], ndim: int) -> Axes:
    """Return a set of axes as a tuple."""
    found = tuple(int(a) for a in axes)
    if not found or list(found) != sorted(set(found)) or found[0] < 0 or found[-1] >= ndim:
        raise ValueError(f"a set of axes is ascending, not empty and within {ndim} dimensions; found {found}")
    return found


def _only(found: Partials) -> Partials:
    """Return the results of a single block, without the axis of blocks."""

    def cut(arrays: Mapping[Axes, Array] | None) -> dict[Axes, Array] | None:
        return None if arrays is None else {t: a[0, ...] for t, a in arrays.items()}

    names = ("count", "minimum", "maximum", "sum", "m2")
    return Partials(
        cut(found.sums) or {},
        cut(found.low),
        cut(found.counts),
        cut(found.weights),
        cut(found.weights_low),
        {
            t: Statistics(
                **{n: getattr(part, n)[0, ...] for n in names},
                weights=None if part.weights is None else part.weights[0, ...],
            )
            for t, part in found.statistics.items()
        },
        int(found.missing[0]),
        int(found.nonfinite[0]),
    )


def _typed(statistics: Mapping[Axes, Statistics], dtype: np.dtype[Any]) -> dict[Axes, Statistics]:
    """Return statistics with extremes in the type of the data."""
    return {
        t: replace(part, minimum=part.minimum.astype(dtype), maximum=part.maximum.astype(dtype))
        for t, part in statistics.items()
    }


def _beyond(block: Array, mask: Mask) -> bool:
    """Return whether any unsigned value that counts exceeds int64."""
    return block.dtype == np.uint64 and bool((mask.valid(block) & (block > np.uint64(2**63 - 1))).any())
