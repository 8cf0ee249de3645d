"""A term applied to one chunk for what does not follow from sums: extremes, and means with centred squares."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.accumulation.parts import Local

__all__ = ["Moments", "extremes_of", "folds_of", "joined", "merged", "place_of", "segments_of", "taken"]

Array = npt.NDArray[Any]
Float = npt.NDArray[np.float64]
#: Weights (counts where there are none), means, and sums of squared distances from the means times weights.
Moments = tuple[Float, Float, Float]


def folds_of(term: Sequence[Local]) -> tuple[int, ...]:
    """Return the axes that a term reduces."""
    return tuple(a for a, local in enumerate(term) if local.take is None)


def place_of(term: Sequence[Local]) -> Any:
    """Return the index of a term's results."""
    place = [local.target for local in term]
    if sum(not isinstance(p, slice) for p in place) > 1:
        return np.ix_(*(np.arange(p.start, p.stop) if isinstance(p, slice) else p for p in place))
    return tuple(place)


def taken(block: Array, term: Sequence[Local]) -> Array:
    """Return a block with single positions taken, where a term keeps these."""
    for axis, local in enumerate(term):
        if local.take is not None and not isinstance(local.take, slice):
            block = block[_at(block.ndim, axis, local.take)]
    return block


def segments_of(term: Sequence[Local], limit: int) -> list[tuple[tuple[slice, ...], tuple[int, ...]]] | None:
    """Return every product of segments, and its number along each reduced axis; `None` for more than `limit`."""
    folds = folds_of(term)
    number = 1
    for a in folds:
        number *= len(term[a].starts)
    if number > limit:
        return None
    out = []
    for index in itertools.product(*(range(len(term[a].starts)) for a in folds)):
        cut = [slice(None)] * len(term)
        for a, k in zip(folds, index, strict=True):
            cut[a] = slice(term[a].starts[k], term[a].stops[k])
        out.append((tuple(cut), index))
    return out


def extremes_of(values: Array, term: Sequence[Local], ufunc: np.ufunc) -> Array:
    """Return the smallest or largest values of each group of what a term takes, single positions taken."""
    single = tuple(a for a in folds_of(term) if len(term[a].entries) == 1)
    cut = [slice(None)] * values.ndim
    for a in single:
        cut[a] = slice(term[a].starts[0], term[a].stops[0])
    if single:
        values = ufunc.reduce(values[tuple(cut)], axis=single, keepdims=True)
    for axis in folds_of(term):
        if axis in single:
            continue
        local = term[axis]
        within = np.concatenate([np.arange(a, b) for a, b in zip(local.starts, local.stops, strict=True)])
        starts = np.cumsum([0, *(b - a for a, b in zip(local.starts, local.stops, strict=True))])[:-1]
        whole = len(within) == values.shape[axis]
        parts = ufunc.reduceat(values if whole else np.take(values, within, axis), starts, axis)
        segment, _, begin = _by_target(local)
        values = ufunc.reduceat(np.take(parts, segment, axis), begin, axis)
    return values


def merged(parts: Moments, term: Sequence[Local], axes: Sequence[int]) -> Moments:
    """Return the moments of groups of elements, which are moments themselves, along some axes."""
    for axis in axes:
        local = term[axis]
        element, target, coefficient, begin = _elements(local)
        weight, mean, m2 = parts
        if len(element) != weight.shape[axis] or (element[1:] != element[:-1] + 1).any():
            weight, mean, m2 = (np.take(p, element, axis) for p in parts)
        if (coefficient != 1).any():
            factor = coefficient.reshape([-1 if a == axis else 1 for a in range(weight.ndim)])
            weight, m2 = weight * factor, m2 * factor
        total = np.add.reduceat(weight, begin, axis)
        centre = _ratio(np.add.reduceat(weight * mean, begin, axis), total)
        shift = mean - np.take(centre, target, axis)
        # Rounding of the centre is taken out of it: what is left of the mean distance is small.
        rest = _ratio(np.add.reduceat(weight * shift, begin, axis), total)
        squares = np.add.reduceat(m2 + weight * np.square(shift), begin, axis) - total * np.square(rest)
        parts = total, centre + rest, np.maximum(squares, 0.0)
    return parts


def joined(a: Moments, b: Moments) -> Moments:
    """Return the moments of two samples together, element by element."""
    total = a[0] + b[0]
    share = _ratio(b[0], total)
    distance = np.where(a[0] != 0, b[1] - a[1], 0.0)
    mean = np.where(a[0] != 0, a[1] + distance * share, b[1])
    return total, mean, a[2] + b[2] + np.square(distance) * a[0] * share


def _at(ndim: int, axis: int, index: Any) -> tuple[Any, ...]:
    return tuple(index if a == axis else slice(None) for a in range(ndim))


def _by_target(local: Local) -> tuple[Array, Array, Array]:
    """Return segments in the order of their groups, how often each counts, and where groups begin."""
    entries = np.array(local.entries, np.int64).reshape(-1, 3)
    entries = entries[np.argsort(entries[:, 1], kind="stable")]
    segment, target, coefficient = entries.T
    begin = np.flatnonzero(np.concatenate([[True], target[1:] != target[:-1]]))
    return segment, coefficient, begin


def _elements(local: Local) -> tuple[Array, Array, Array, Array]:
    """Return elements in the order of their groups: place, group, how often each counts, and where groups begin."""
    segment, coefficient, begin = _by_target(local)
    starts, stops = np.array(local.starts), np.array(local.stops)
    lengths = (stops - starts)[segment]
    offset = np.repeat(np.cumsum(lengths) - lengths, lengths)
    element = np.repeat(starts[segment], lengths) + np.arange(lengths.sum()) - offset
    number = np.zeros(len(segment), np.int64)
    number[begin] = 1
    target = np.repeat(np.cumsum(number) - 1, lengths)
    return element, target, np.repeat(coefficient, lengths), (np.cumsum(lengths) - lengths)[begin]


def _ratio(total: Array, weight: Array) -> Float:
    """Return quotients, 0 where the divisor is 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(weight != 0, total / weight, 0.0)
