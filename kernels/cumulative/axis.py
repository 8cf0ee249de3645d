"""Compiled loops along one axis, for squared distances from known means (a second pass) and running sums of blocks."""

from __future__ import annotations

import numpy as np

from cfagg.kernels.jit import jit

__all__ = ["run_integers", "run_reals", "spread_axis"]


@jit
def spread_axis(raw, rows, width, column, mask, every, weights, places, mean, least, most, squares):
    """Update extremes and sums of squared distances along one axis with a block.

    Parameters
    ----------
    raw : 1-D contiguous array
        The block, in C order.
    rows, width : int
        Rows of the block, and elements of each.
    column : 2 int
        Rows from one step of the axis to the next, and from one step of the axes outside it to the next; 0 if it is the
        last axis.
    mask : tuple of smallest and largest valid value, two fills, and whether bounds or fills exclude any number
    every : bool
        Whether every element counts.
    weights : float64[m] or None
    places : int64[rows, 2]
        Start of a row's weights, and their step: 1 if they are consecutive, 0 if the row has a single weight.
    mean : float64[n]
        Means along the axis.
    least, most : arrays of the type of `raw`[n]
        Updated in place; initially the largest and the smallest valid value.
    squares : float64[n]
        Updated in place.
    """
    inner, whole = column
    for row in range(rows):
        start = row * width
        here, step = (0, 0) if weights is None else (places[row, 0], places[row, 1])
        if inner > 0:
            at = (row // whole * inner + row % inner) * width
            for j in range(width):
                v = raw[np.uintp(start + j)]
                keep = every | ((v >= mask[0]) & (v <= mask[1]) & (v != mask[2]) & (v != mask[3]))
                to = np.uintp(at + j)
                least[to] = v if keep & (v < least[to]) else least[to]
                most[to] = v if keep & (v > most[to]) else most[to]
                d = (np.float64(v) - mean[to]) if keep else 0.0
                squares[to] += d * d if weights is None else weights[np.uintp(here + j * step)] * d * d
        else:
            low, high, total, middle = least[row], most[row], 0.0, mean[row]
            for j in range(width):
                v = raw[np.uintp(start + j)]
                keep = every | ((v >= mask[0]) & (v <= mask[1]) & (v != mask[2]) & (v != mask[3]))
                low = v if keep & (v < low) else low
                high = v if keep & (v > high) else high
                d = (np.float64(v) - middle) if keep else 0.0
                total += d * d if weights is None else weights[np.uintp(here + j * step)] * d * d
            least[row], most[row] = low, high
            squares[row] += total


@jit
def run_integers(parts, length, inner, carry):
    """Replace int64 parts by their running sums and the carry by the last sum; return whether any wrapped around.

    `parts` has ``outer * length * inner`` elements; `carry` has ``outer * inner``, the sums before the first part.
    """
    wrapped = 0
    for outer in range(parts.size // (length * inner)):
        for k in range(length):
            at, here = (outer * length + k) * inner, outer * inner
            for j in range(inner):
                a, x = carry[np.uintp(here + j)], parts[np.uintp(at + j)]
                s = a + x
                wrapped |= (a ^ s) & (x ^ s)
                carry[np.uintp(here + j)] = s
                parts[np.uintp(at + j)] = s
    return wrapped < 0


@jit
def run_reals(parts, low, length, inner, carry, carry_low):
    """Replace float64 parts, and their low parts if any, by running sums, and the carry by the last sum.

    `parts` has ``outer * length * inner`` elements; `carry` and `carry_low` have ``outer * inner``, the sums before the
    first part.
    """
    for outer in range(parts.size // (length * inner)):
        for k in range(length):
            at, here = (outer * length + k) * inner, outer * inner
            for j in range(inner):
                to, place = np.uintp(here + j), np.uintp(at + j)
                a, x = carry[to], parts[place]
                s = a + x
                b = s - a
                rest = carry_low[to] + ((a - (s - b)) + (x - b))
                if low is not None:
                    rest += low[place]
                high = s + rest
                rest -= high - s
                carry[to] = high
                carry_low[to] = rest
                parts[place] = high
                if low is not None:
                    low[place] = rest
