"""Statistics of the columns of observations, the same to the last bit however the rows are cut and merged.

Mean, minimum, maximum, standard deviation (divided by the count) and the number of NaN, per variable; NaN is left out
of the others.  What is accumulated is small (some kilobytes a variable) and can be stored, for a build that goes on
after a stop.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.errors import LimitError, ModelError

__all__ = [
    "FIELDS",
    "NAMES",
    "NO_KEYS",
    "Accumulator",
    "add_values",
    "key_value",
    "mean_of",
    "over_rows",
    "stdev_of",
    "totals",
]

#: Names of the statistics, as the arrays of a store are called.
NAMES = ("mean", "minimum", "maximum", "stdev", "nan_count")

#: Most rows that int64 bins surely hold.
_MOST_ROWS = 2**38


class Accumulator:
    """Statistics of columns that grow block by block."""

    __slots__ = ("_bins", "_counts", "_keys", "rows")

    def __init__(self, variables: int) -> None:
        self.rows = 0
        self._bins = np.zeros((variables, FIELDS, 3), np.int64)
        self._keys = np.tile(np.array(NO_KEYS, np.int64), (variables, 1))
        self._counts = np.zeros((variables, 3), np.int64)

    @property
    def variables(self) -> int:
        """Number of columns."""
        return len(self._keys)

    def accumulate(self, block: npt.NDArray[np.float32]) -> None:
        """Add rows, float32 (rows, variables): the variables alone, without a copy."""
        if block.dtype != np.float32 or block.ndim != 2 or block.shape[1] != self.variables:
            raise ModelError(
                f"statistics of {self.variables} variables were given a block of {block.dtype} and shape "
                f"{block.shape}; expected float32 and (rows, {self.variables})"
            )
        self._grow(len(block))
        if block.size:
            block = block if block.strides[1] == block.itemsize else np.ascontiguousarray(block)
            add_values(block, self._bins, self._keys, self._counts)

    def merge(self, other: Accumulator) -> None:
        """Add all that another accumulator has seen."""
        if other.variables != self.variables:
            raise ModelError(f"statistics of {other.variables} variables cannot be merged into {self.variables}")
        self._grow(other.rows)
        self._bins += other._bins
        self._counts += other._counts
        np.minimum(self._keys[:, 0], other._keys[:, 0], out=self._keys[:, 0])
        np.maximum(self._keys[:, 1], other._keys[:, 1], out=self._keys[:, 1])

    def _grow(self, rows: int) -> None:
        if self.rows + rows > _MOST_ROWS:
            raise LimitError(f"statistics of more than {_MOST_ROWS:,} rows cannot be summed exactly")
        self.rows += rows

    def result(self) -> dict[str, npt.NDArray[Any]]:
        """Return the statistics by name, one for each variable: NaN without values; ``nan_count`` is int64."""
        # An infinite value makes a mean infinite and a standard deviation NaN.
        mean, stdev = [], []
        for bins, (nan, above, below) in zip(self._bins, self._counts.tolist(), strict=True):
            count = self.rows - nan
            if above or below:
                mean.append(math.nan if above and below else math.inf if above else -math.inf)
                stdev.append(math.nan)
                continue
            total, squares = totals(bins)
            mean.append(mean_of(total, count))
            stdev.append(stdev_of(total, squares, count))
        low, high = ([key_value(k) for k in column] for column in self._keys.T)
        floats = (np.array(values, np.float64) for values in (mean, low, high, stdev))
        return dict(zip(NAMES, (*floats, self._counts[:, 0].copy()), strict=True))


def over_rows(
    variables: int, start: int, stop: int, read: Callable[[int, int], npt.NDArray[np.float32]], *, block: int = 2**18
) -> Accumulator:
    """Return the statistics of rows, read in blocks."""
    found = Accumulator(variables)
    for at in range(start, stop, block):
        found.accumulate(read(at, min(at + block, stop)))
    return found


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
