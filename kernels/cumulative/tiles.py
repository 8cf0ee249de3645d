"""One pass over a block in memory order, for sums along single axes, counts of missing values, and total statistics.

The block is processed in tiles of about a thousand elements that are contiguous in memory: whole rows, or part of one.
A tile is converted to float64 (or int64) once, in a buffer that stays in the first-level cache, and added to all its
sums from there. The sum of a tile reveals whether it has NaN or infinities; only tiles with missing values are tested
element by element. No loop over elements has branches, so that all are vectorized.
"""

from __future__ import annotations

import numpy as np
from numba import types
from numba.core.cgutils import ir

from cfagg.kernels.jit import intrinsic, jit

__all__ = ["PAIRS", "add", "double_total", "is_clean", "load_masked", "load_total", "pass_blocks", "total_of"]

PAIRS = 16
"""Number of independent pairs in which a row is summed exactly, so that additions do not wait for each other."""


def _extreme(name, sign, plain):
    """Return a function of two numbers that are not NaN, which compiles to a vector instruction within a loop."""

    def either(_typing, a, b):
        def codegen(_context, builder, _signature, args):
            if isinstance(a, types.Integer):
                return builder.select(builder.icmp_signed(sign, *args), *args)
            kind = args[0].type
            function = builder.module.declare_intrinsic(name, [kind], ir.FunctionType(kind, [kind, kind]))
            return builder.call(function, args, fastmath=("nnan", "nsz"))

        return (a(a, a), codegen) if a == b else None

    return intrinsic(plain)(either)


_lesser = _extreme("llvm.minnum", "<", min)
_greater = _extreme("llvm.maxnum", ">", max)


@jit(fastmath={"reassoc", "nsz"})
def total_of(values, start, size):
    """Return the sum of ``values[start:start + size]``, in whatever order is fastest."""
    s = values.dtype.type(0)
    for j in range(size):
        s += values[np.uintp(start + j)]
    return s


@jit
def double_total(values, start, size, pairs):
    """Return the sum of ``values[start:start + size]`` as high and low part, using `pairs`, float64[2, PAIRS]."""
    for k in range(PAIRS):
        pairs[0, k] = 0.0
        pairs[1, k] = 0.0
    for j in range(0, size, PAIRS):
        for k in range(min(PAIRS, size - j)):
            x = values[np.uintp(start + j + k)]
            a = pairs[0, k]
            s = a + x
            b = s - a
            pairs[1, k] += (a - (s - b)) + (x - b)
            pairs[0, k] = s
    high, low = 0.0, 0.0
    for k in range(PAIRS):
        x = pairs[0, k]
        s = high + x
        b = s - high
        low += (high - (s - b)) + (x - b) + pairs[1, k]
        high = s
    return high, low


@jit
def add(total, low, at, values, start, size):
    """Add ``values[start:start + size]`` to ``total[at:at + size]``; add rounding errors to `low`, if not None."""
    if low is None:
        for j in range(size):
            total[np.uintp(at + j)] += values[np.uintp(start + j)]
    else:
        for j in range(size):
            x = values[np.uintp(start + j)]
            a = total[np.uintp(at + j)]
            s = a + x
            b = s - a
            low[np.uintp(at + j)] += (a - (s - b)) + (x - b)
            total[np.uintp(at + j)] = s


@jit
def is_clean(raw, start, size, mask):
    """Return whether all elements of a run of the block pass the test of bounds and fills."""
    bad = False
    for j in range(size):
        v = raw[np.uintp(start + j)]
        bad |= not ((v >= mask[0]) & (v <= mask[1]) & (v != mask[2]) & (v != mask[3]))
    return not bad


@jit(fastmath={"reassoc", "nsz"})
def load_total(raw, start, size, values, at):
    """Convert a run of the block and return its sum, in whatever order is fastest."""
    s = values.dtype.type(0)
    for j in range(size):
        v = values.dtype.type(raw[np.uintp(start + j)])
        values[np.uintp(at + j)] = v
        s += v
    return s


@jit
def load_masked(raw, start, size, mask, values, gone):
    """Convert a run of the block, with 0 for elements that do not count; mark and count those, and count infinities."""
    bad = 0
    infinite = 0
    for j in range(size):
        v = raw[np.uintp(start + j)]
        keep = (v >= mask[0]) & (v <= mask[1]) & (v != mask[2]) & (v != mask[3])
        values[j] = values.dtype.type(v if keep else raw.dtype.type(0))
        gone[j] = 0 if keep else 1
        bad += not keep
        infinite += abs(v) == np.inf
    return bad, infinite


@jit
def _load_weights(weights, places, row, height, first, width, into):
    """Copy the weights of a tile."""
    for i in range(height):
        at, to = places[row + i, 0], i * width
        if places[row + i, 1]:
            for j in range(width):
                into[np.uintp(to + j)] = weights[np.uintp(at + first + j)]
        else:
            for j in range(width):
                into[np.uintp(to + j)] = weights[np.uintp(at)]


@jit
def _extremes(raw, start, size, gone, masked, least, most):
    """Return the smaller of `least` and the smallest value of a tile, and the same for the largest."""
    if masked:
        low, high = least, most
        for j in range(size):
            v = raw[np.uintp(start + j)]
            keep = gone[j] == 0
            # Assigned to variables, because as arguments they would become branches.
            below = v if keep else low
            above = v if keep else high
            least = _lesser(least, below)
            most = _greater(most, above)
    else:
        for j in range(size):
            v = raw[np.uintp(start + j)]
            least = _lesser(least, v)
            most = _greater(most, v)
    return least, most


@jit(fastmath={"reassoc", "nsz"})
def _squares(values, weight, gone, masked, size, mean):
    """Return the sum of squared distances from the mean of a tile, each times its weight."""
    s = 0.0
    if weight is not None:  # elements that do not count have weight 0, which times infinity is not 0
        for j in range(size):
            d = (values[j] - mean) if weight[j] != 0.0 else 0.0
            s += weight[j] * (d * d)
    elif masked:
        for j in range(size):
            d = (values[j] - mean) if gone[j] == 0 else 0.0
            s += d * d
    else:
        for j in range(size):
            d = values[j] - mean
            s += d * d
    return s


@jit
def pass_blocks(
    raw, count, shape, tile, mask, weights, places, ones, total, low, gone, columns, rows, moments, missing, infinite,
    least, most,
):  # fmt: skip
    """Sum `count` blocks of one shape, consecutive in memory, each along single axes.

    Arrays with values of blocks have those of one block after another.

    Parameters
    ----------
    raw : 1-D contiguous array
        The blocks, each of shape ``shape`` in C order.
    count : int
    shape : 4 int
        An outer axis, all axes in between, the axis of the rows within a tile, and the length of a row.
    tile : 3 int
        Rows of a tile, elements of a row in it (less than a row only if it has one row), and how many tiles are
        processed for all steps of the outer axis, so that the sums along it stay in the cache.
    mask : tuple of smallest and largest valid value, two fills, and whether bounds or fills exclude any number
    weights : float64[m] or None
    places : int64[rows, 2]
        Start of a row's weights, and their step: 1 if they are consecutive, 0 if the row has a single weight.
    ones : bool
        Sum the weights instead of the weighted values.
    total : int64[t] or float64[t]
        All sums, updated in place.
    low : float64[t] or None
        Low parts.
    gone : int64[t]
        Number of elements that do not count in each sum, updated in place.
    columns : int64[k, 4]
        For each summed axis except the last: the rows from one of its steps to the next, those from one step of the
        axes outside it to the next, the position of its sums in `total`, whether it is the axis of rows in a tile.
    rows : int
        Position of the sums along the last axis in `total`, -1 for none.
    moments : float64[tiles, 3]
        Written: weight, mean, and sum of squared distances from it of each tile. Empty: none are computed.
    missing, infinite : int64[count]
        Written: number of elements that do not count, and of those that are infinite.
    least, most : arrays of the type of `raw`
        Initial values: the largest and the smallest valid value. Written: extremes of those that count, if moments are
        computed.
    """
    outer, between, height, width = shape
    tall, wide, run = tile
    n_tall = (height + tall - 1) // tall
    n_wide = (width + wide - 1) // wide
    tiles = between * n_tall * n_wide
    values = np.empty(tall * wide, total.dtype)
    excluded = np.empty(tall * wide, np.int64)
    weight = None if weights is None else np.empty(tall * wide)
    products = values if weights is None else np.empty(tall * wide)
    sums, pairs, part = np.empty(tall, total.dtype), np.empty((2, PAIRS)), np.empty(2)
    zero = 0
    # The pass over one block is not a separate function, because that would be compiled twice, alone and inlined here.
    for block in range(count):
        before, to_sums = block * (raw.size // count), block * (total.size // count)
        to_places, done = block * (places.shape[0] // count), block * (moments.shape[0] // count)
        absent, endless = 0, 0
        smallest, largest = least[block], most[block]
        suspect = False
        for first in range(0, tiles, run):
            for step in range(outer):
                for q in range(first, min(first + run, tiles)):
                    column = q % n_wide * wide
                    row = q // n_wide % n_tall * tall
                    w, h = min(wide, width - column), min(tall, height - row)
                    n = w * h
                    row += (step * between + q // (n_wide * n_tall)) * height
                    start = before + row * width + column
                    bad, inf = 0, 0
                    # A tile next to one with missing values is likely to have some too.
                    if not suspect and mask[4]:
                        suspect = not is_clean(raw, start, n, mask)
                    s = total.dtype.type(0)
                    if not suspect:
                        for i in range(h):
                            sums[i] = load_total(raw, start + i * w, w, values, i * w)
                            s += sums[i]
                        suspect = not abs(s) < np.inf
                    if suspect:
                        bad, inf = load_masked(raw, start, n, mask, values, excluded)
                        s = total.dtype.type(0)
                        for i in range(h):
                            sums[i] = total_of(values, i * w, w)
                            s += sums[i]
                    suspect = bad > 0
                    absent += bad
                    endless += inf
                    if weight is not None:
                        _load_weights(weights, places, to_places + row, h, column, w, weight)
                        if bad > 0:
                            for j in range(n):
                                weight[j] = weight[j] if excluded[j] == 0 else 0.0
                        for j in range(n):
                            products[j] = weight[j] if ones else weight[j] * values[j]
                    for k in range(columns.shape[0]):
                        inner = columns[k, 0]
                        at = to_sums + columns[k, 2] + (row // columns[k, 1] * inner + row % inner) * width + column
                        single = columns[k, 3] == 1
                        size = w if single else n
                        for j in range(0, n, size):
                            add(total, low, at, products, j, size)
                            if bad > 0:
                                add(gone, None, at, excluded, j, size)
                    if rows >= 0:
                        for i in range(h):
                            at = to_sums + rows + row + i
                            to = np.uintp(at)
                            if low is not None:
                                part[0], part[1] = double_total(products, i * w, w, pairs)
                                add(total, low, at, part, zero, 1)
                                low[to] += part[1]
                            elif weight is not None:
                                total[to] += total_of(products, i * w, w)
                            else:
                                total[to] += sums[i]
                            if bad > 0:
                                gone[to] += total_of(excluded, i * w, w)
                    if moments.shape[0] > 0:
                        heavy = np.float64(n - bad)
                        if weight is not None:
                            heavy = total_of(weight, zero, n)
                            s = total_of(products, zero, n)
                        mean = s / heavy if heavy > 0.0 else 0.0
                        moments[done, 0] = heavy
                        moments[done, 1] = mean
                        moments[done, 2] = _squares(values, weight, excluded, bad > 0, n, mean)
                        smallest, largest = _extremes(raw, start, n, excluded, bad > 0, smallest, largest)
                    done += 1
        missing[block], infinite[block], least[block], most[block] = absent, endless, smallest, largest
