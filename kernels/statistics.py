r"""Count, extremes, sum and centred sum of squares, with those of a whole computed from those of its parts.

Two parts with weights :math:`W_i` (their counts if nothing is weighted), means :math:`\bar x_i` and centred sums of
squares :math:`M_i` make a whole with :math:`M = \sum M_i + \sum W_i (\bar x_i - \bar x)^2`, which does not suffer from
cancellation, unlike a difference of sums of squares (Chan, Golub, LeVeque, 1983).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["FAN_OUT", "Statistics", "exact_sum", "merge", "pyramid"]

FAN_OUT = 8
"""Number of cells of one level along each dimension that make up one cell of the next."""

_LIMIT = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Statistics:
    """Statistics of the cells of a grid, as arrays of one shape.

    Parameters
    ----------
    count : int64 array
        Values that are not missing.
    minimum, maximum : array of the data's type
        Smallest and largest of them; 0 if there are none.
    sum : int64 or float64 array
        Their sum, or that of their products with the weights.
    m2 : float64 array
        Sum of squared distances from the mean, each times its weight.
    weights : float64 array, optional
        Sum of the weights of values that are not missing, if there are weights.
    """

    count: npt.NDArray[np.int64]
    minimum: npt.NDArray[Any]
    maximum: npt.NDArray[Any]
    sum: npt.NDArray[Any]
    m2: npt.NDArray[np.float64]
    weights: npt.NDArray[np.float64] | None = None

    @property
    def mean(self) -> npt.NDArray[np.float64]:
        """Means of the cells, 0 for those without weight."""
        return _ratio(self.sum, self.count if self.weights is None else self.weights)


def merge(parts: Statistics, axes: Sequence[int]) -> Statistics:
    """Return the statistics of all cells along some axes together, without these axes.

    Parameters
    ----------
    parts : Statistics
        Of any shape.
    axes : sequence of int
        Distinct axes of it, not negative.

    Raises
    ------
    OverflowError
        An integer sum is beyond int64.

    Examples
    --------
    >>> values = np.array([[1.0, 3.0], [5.0, 5.0]])
    >>> one = np.ones((2, 2), "i8")
    >>> merge(Statistics(one, values, values, values, 0 * values), [1])  # doctest: +NORMALIZE_WHITESPACE
    Statistics(count=array([2, 2]), minimum=array([1., 5.]), maximum=array([3., 5.]), sum=array([ 4., 10.]),
        m2=array([2., 0.]), weights=None)
    """
    shape = parts.count.shape
    gone = set(axes)
    if not gone:
        return parts
    if any(shape[a] == 0 for a in gone):
        left = tuple(n for a, n in enumerate(shape) if a not in gone)
        names = ("count", "minimum", "maximum", "sum", "m2")
        empty = {name: np.zeros(left, getattr(parts, name).dtype) for name in names}
        return Statistics(**empty, weights=None if parts.weights is None else np.zeros(left))
    order = [a for a in range(len(shape)) if a not in gone] + sorted(gone)
    kept = tuple(shape[a] for a in order[: len(shape) - len(gone)])
    # One axis of all merged cells, so that their mean is subtracted once.
    flat = _each(parts, lambda array: array.transpose(order).reshape(*kept, -1))
    return _each(_merge(flat, len(kept), None), lambda array: array.reshape(kept))


def pyramid(level: Statistics, axes: Sequence[int], fan_out: int = FAN_OUT) -> Statistics:
    """Return the next coarser level, in which each cell covers up to `fan_out` cells along each of some axes.

    Parameters
    ----------
    level : Statistics
        A level of the pyramid, whose lowest level is the statistics of the chunk grid.
    axes : sequence of int
        Distinct axes along which cells are chunks or groups of chunks, not negative.  The others keep their length.
    fan_out : int
        Cells along each axis that make one, at least 2; the last group may have fewer.

    Raises
    ------
    ValueError
        `fan_out` is below 2.
    OverflowError
        An integer sum is beyond int64.

    Examples
    --------
    >>> values = np.arange(10)
    >>> foot = Statistics(np.ones(10, "i8"), values, values, values, np.zeros(10))
    >>> top = pyramid(foot, [0])
    >>> top.sum, top.maximum, top.m2
    (array([28, 17]), array([7, 9]), array([42. ,  0.5]))
    """
    if fan_out < 2:
        raise ValueError(f"cells of the next level consist of 2 cells or more along each axis; found {fan_out}")
    for axis in axes:
        length = level.count.shape[axis]
        if length > 1:
            level = _merge(level, axis, np.arange(0, length, fan_out))
    return level


def exact_sum(values: npt.NDArray[np.int64], axis: int, starts: npt.NDArray[np.int64] | None = None) -> Any:
    """Return exact sums along one axis, or raise an error.

    Parameters
    ----------
    values : int64 array
    axis : int
    starts : int64[m], optional
        Start of each of m groups along the axis, which is kept; by default the axis is summed and removed.

    Raises
    ------
    OverflowError
        A sum is beyond int64.

    Examples
    --------
    >>> exact_sum(np.array([2**62, 2**62, 5]), 0)
    Traceback (most recent call last):
    OverflowError: a sum of integers is beyond int64: 9223372036854775813
    """
    total = _add(values, axis, starts)
    if values.size == 0:
        return total
    most = max(-int(values.min()), int(values.max()))
    if most * values.shape[axis] <= _LIMIT:
        return total
    # Halves of 32 bits do not overflow; the bits above them show whether the sum wrapped around.
    low = _add(values & 0xFFFFFFFF, axis, starts)
    high = _add(values >> 32, axis, starts) + (low >> 32)
    wrapped = (high < -(2**31)) | (high >= 2**31)
    if np.any(wrapped):
        at = np.unravel_index(np.argmax(wrapped), np.shape(wrapped))
        found = (int(np.asarray(high)[at]) << 32) + (int(np.asarray(low)[at]) & 0xFFFFFFFF)
        raise OverflowError(f"a sum of integers is beyond int64: {found}")
    return total


def _add(values: npt.NDArray[Any], axis: int, starts: npt.NDArray[np.int64] | None) -> Any:
    """Return sums along an axis, whole or in groups."""
    return np.add.reduce(values, axis) if starts is None else np.add.reduceat(values, starts, axis)


def _sum(values: npt.NDArray[Any], axis: int, starts: npt.NDArray[np.int64] | None) -> Any:
    """Return sums along an axis, exact for integers."""
    return exact_sum(values, axis, starts) if values.dtype.kind == "i" else _add(values, axis, starts)


def _merge(parts: Statistics, axis: int, starts: npt.NDArray[np.int64] | None) -> Statistics:
    """Merge groups of cells along one axis of length >= 1; the axis stays, with one cell a group."""
    length = parts.count.shape[axis]
    places = np.zeros(1, np.int64) if starts is None else starts
    lengths = np.diff(places, append=length)
    count = np.add.reduceat(parts.count, places, axis)
    total = _sum(parts.sum, axis, places)
    weights = None if parts.weights is None else np.add.reduceat(parts.weights, places, axis)
    mean = np.repeat(_ratio(total, count if weights is None else weights), lengths, axis)
    weight = parts.count if parts.weights is None else parts.weights
    shift = weight * np.square(np.where(weight != 0, parts.mean - mean, 0.0))
    empty = parts.count == 0
    low, high = parts.minimum, parts.maximum
    if empty.any():
        least, most = _ends(low.dtype)
        low, high = np.where(empty, most, low), np.where(empty, least, high)
    low, high = np.minimum.reduceat(low, places, axis), np.maximum.reduceat(high, places, axis)
    none = count == 0
    if none.any():
        low, high = np.where(none, low.dtype.type(0), low), np.where(none, high.dtype.type(0), high)
    return Statistics(count, low, high, total, np.add.reduceat(parts.m2 + shift, places, axis), weights)


def _each(parts: Statistics, change: Any) -> Statistics:
    """Return statistics with the same change applied to every array."""
    weights = None if parts.weights is None else change(parts.weights)
    names = ("count", "minimum", "maximum", "sum", "m2")
    return replace(parts, **{name: change(getattr(parts, name)) for name in names}, weights=weights)


def _ratio(total: npt.NDArray[Any], weight: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Return quotients, 0 if the divisor is 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(weight != 0, np.divide(total, weight), 0.0)


def _ends(dtype: np.dtype[Any]) -> tuple[Any, Any]:
    """Return the smallest and largest value of a type."""
    if dtype.kind == "f":
        return dtype.type(-np.inf), dtype.type(np.inf)
    info = np.iinfo(dtype)
    return dtype.type(info.min), dtype.type(info.max)
