"""Exact sums of float32 columns: whatever the order and the parts, the same bits.

Whole numbers, and a division at the very end: the mean and the standard deviation are the float64 values nearest to
the true ones.
"""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["FIELDS", "NO_KEYS", "add_values", "key_value", "mean_of", "stdev_of", "totals"]

type Floats = npt.NDArray[np.float32]
type Integers = npt.NDArray[np.int64]

#: Values of the exponent field of a float32.
FIELDS = 256

#: Smallest and largest key where there is no value; below and above all keys.
NO_KEYS = (2**31, -(2**31))

_KERNELS = "cfagg.kernels.exact_sums"
#: Elements for which compiling a kernel takes longer than doing without.
_SMALL = 2**21


def add_values(block: Floats, bins: Integers, keys: Integers, counts: Integers) -> None:
    """Add values (n, v) to bins (v, 256, 3), keys (v, 2) and counts (v, 3), in place."""
    # Small blocks are added with NumPy as long as nothing else has loaded the kernels; the bins are the same.
    bits = block.view(np.uint32)
    if _KERNELS not in sys.modules and block.size < _SMALL:
        _add_plainly(bits, bins, keys, counts)
        return
    from cfagg.kernels.exact_sums import add_values as kernel

    kernel(bits, bins, keys, counts)


def _add_plainly(bits: npt.NDArray[np.uint32], bins: Integers, keys: Integers, counts: Integers) -> None:
    """Add with NumPy: float64 weights of 24 bits are exact up to 2**29 rows."""
    for j in range(bits.shape[1]):
        column = bits[:, j].astype(np.int64)
        size = column & 0x7FFFFFFF
        nan = size > 0x7F800000
        negative = column >> 31 != 0
        infinite = size == 0x7F800000
        counts[j] += [nan.sum(), (infinite & ~negative).sum(), (infinite & negative).sum()]
        order = np.where(negative, -size, size)[~nan]
        if order.size:
            keys[j] = min(keys[j, 0], order.min()), max(keys[j, 1], order.max())
        finite = ~(nan | infinite)
        size, negative = size[finite], negative[finite]
        field = size >> 23
        significand = (size & 0x7FFFFF) | np.where(field != 0, 0x800000, 0)
        square = significand * significand
        for k, part in enumerate((np.where(negative, -significand, significand), square & 0xFFFFFF, square >> 24)):
            bins[j, :, k] += np.bincount(field, part, FIELDS).astype(np.int64)


def totals(bins: Integers) -> tuple[int, int]:
    """Return the sum of one column and that of its squares, in units of 2**-149 and 2**-298."""
    total = squares = 0
    for field in np.flatnonzero(bins.any(axis=1)).tolist():
        shift = max(field, 1) - 1
        significands, low, high = bins[field].tolist()
        total += significands << shift
        squares += (low + (high << 24)) << 2 * shift
    return total, squares


def mean_of(total: int, count: int) -> float:
    """Return the float64 nearest to a mean, of a sum in units of 2**-149; NaN of nothing."""
    # Python divides whole numbers of any size with one rounding.
    return total / (count << 149) if count else math.nan


def stdev_of(total: int, squares: int, count: int) -> float:
    """Return the float64 nearest to the standard deviation (divided by the count), of `totals`; NaN of nothing."""
    if not count:
        return math.nan
    above = count * squares - total * total
    below = count * count << 298
    # A root of at least 64 bits, and one bit more that tells whether it is exact, rounds once and rightly.
    shift = max(0, 64 - (above.bit_length() - below.bit_length()) // 2)
    whole, rest = divmod(above << 2 * shift, below)
    root = math.isqrt(whole)
    exact = rest == 0 and root * root == whole
    return (2 * root + (not exact)) / (2 << shift)


def key_value(key: Any) -> float:
    """Return the value that a key of an extreme stands for; NaN where there was none."""
    size = abs(int(key))
    if size > 0x7F800000:
        return math.nan
    value = float(np.uint32(size).view(np.float32))
    return -value if key < 0 else value
