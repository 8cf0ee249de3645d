"""Statistics of the columns of observations, the same to the last bit however the rows are cut and merged.

Mean, minimum, maximum, standard deviation (divided by the count) and the number of NaN, per variable; NaN is left out
of the others.  What is accumulated is small (some kilobytes a variable) and can be stored, for a build that goes on
after a stop.
"""

from __future__ import annotations

import math
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from cfagg.errors import LimitError, ModelError
from cfagg.observations import exact

__all__ = ["NAMES", "Accumulator", "over_rows"]

#: Names of the statistics, as the arrays of a store are called.
NAMES = ("mean", "minimum", "maximum", "stdev", "nan_count")

#: Most rows that int64 bins surely hold.
_MOST_ROWS = 2**38


class Accumulator:
    """Statistics of columns that grow block by block."""

    __slots__ = ("_bins", "_counts", "_keys", "rows")

    def __init__(self, variables: int) -> None:
        self.rows = 0
        self._bins = np.zeros((variables, exact.FIELDS, 3), np.int64)
        self._keys = np.tile(np.array(exact.NO_KEYS, np.int64), (variables, 1))
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
            exact.add_values(block, self._bins, self._keys, self._counts)

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
            total, squares = exact.totals(bins)
            mean.append(exact.mean_of(total, count))
            stdev.append(exact.stdev_of(total, squares, count))
        low, high = ([exact.key_value(k) for k in column] for column in self._keys.T)
        floats = (np.array(values, np.float64) for values in (mean, low, high, stdev))
        return dict(zip(NAMES, (*floats, self._counts[:, 0].copy()), strict=True))


class Reader(Protocol):
    """What reads rows of a store."""

    def __call__(self, start: int, stop: int, /) -> npt.NDArray[np.float32]:
        """Return the variables of rows `start` to `stop`, shape (stop - start, variables)."""


def over_rows(variables: int, start: int, stop: int, read: Reader, *, block: int = 2**18) -> Accumulator:
    """Return the statistics of rows, read in blocks."""
    found = Accumulator(variables)
    for at in range(start, stop, block):
        found.accumulate(read(at, min(at + block, stop)))
    return found
