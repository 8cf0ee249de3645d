"""Extremes and squared distances from known means along one axis: a second pass."""

from __future__ import annotations

import numpy as np

from cfagg.kernels.jit import jit

__all__ = ["spread_axis"]


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
        Every element counts.
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
