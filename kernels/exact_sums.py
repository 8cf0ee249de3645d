"""Exact sums of float32 values and of their squares, which do not depend on the order of summation.

A float32 is an integer of 24 bits times a power of two.  Integers of one power are added in an int64 without rounding.
There are only 254 powers, with one bin for each.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from cfagg.kernels.jit import jit

__all__ = ["add_values"]


type Int64 = npt.NDArray[np.int64]


@jit
def add_values(bits: npt.NDArray[np.uint32], bins: Int64, keys: Int64, counts: Int64) -> None:
    """Add a block of values, column by column, to bins.

    Parameters
    ----------
    bits : uint32[n, v]
        Bits of float32 values; any strides.
    bins : int64[v, 256, 3]
        Per column and exponent field of the values, added to in place: the sum of their signed significands (24 bits,
        in units of 2**(max(field, 1) - 150)), and the sums of the low and of the high 24 bits of the squared
        significands.  Field 255 stays 0.  The caller keeps n below 2**38 in all, so that nothing overflows.
    keys : int64[v, 2]
        Smallest and largest value, changed in place, as integers in the order of the values: the bits without their
        sign, negated for negative values, so that -0.0 and 0.0 are one.
    counts : int64[v, 3]
        Added to in place: values that are NaN, +infinity and -infinity.  Infinities count among the extremes.

    Raises
    ------
    ValueError
        The shapes do not fit; nothing was added.
    """
    rows, columns = bits.shape
    if bins.shape != (columns, 256, 3) or keys.shape != (columns, 2) or counts.shape != (columns, 3):
        raise ValueError("bins, keys and counts do not have the shapes (v, 256, 3), (v, 2) and (v, 3) for v columns")
    for i in range(rows):
        for j in range(columns):
            word = np.int64(bits[i, j])
            key = word & 0x7FFFFFFF
            if key > 0x7F800000:
                counts[j, 0] += 1
                continue
            field = key >> 23
            significand = key & 0x7FFFFF
            if field == 255:
                counts[j, 1 + (word >> 31)] += 1
            else:
                if field != 0:
                    significand |= 0x800000
                square = significand * significand
                # Both signs by arithmetic, since a branch on the sign could not be predicted.
                sign = 1 - 2 * (word >> 31)
                bins[j, field, 0] += sign * significand
                bins[j, field, 1] += square & 0xFFFFFF
                bins[j, field, 2] += square >> 24
            if word >> 31:
                key = -key
            keys[j, 0] = min(keys[j, 0], key)
            keys[j, 1] = max(keys[j, 1], key)
