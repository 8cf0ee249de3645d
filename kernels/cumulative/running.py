"""Inclusive running sums along one axis, carried from one block to the next."""

from __future__ import annotations

import numpy as np

from cfagg.kernels.jit import jit

__all__ = ["run_integers", "run_reals"]


@jit
def run_integers(parts, length, inner, carry):
    """Replace int64 parts by their running sums and the carry by the last; return whether any wrapped around.

    `parts` has ``outer * length * inner`` elements, `carry` ``outer * inner``: the sums before the first part.
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
    """Replace float64 parts, and their low parts if there are any, by running sums, and the carry by the last.

    `parts` has ``outer * length * inner`` elements, `carry` and `carry_low` ``outer * inner``: the sums before the
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
