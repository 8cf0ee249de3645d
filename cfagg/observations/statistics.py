"""Statistics of the columns of observations, the same to the last bit however the rows are cut and merged.

Mean, minimum, maximum, standard deviation (divided by the count) and the number of NaN, per variable; NaN is left out
of the others.  What is accumulated is small (some kilobytes a variable) and can be stored, for a build that goes on
after a stop.
"""

from __future__ import annotations

import hashlib
import math
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Protocol, Self

import numpy as np
import numpy.typing as npt

from cfagg.errors import ConventionError, FragmentReadError, LimitError, ModelError
from cfagg.observations import exact
from cfagg.runtime.files import write_aside
from cfagg.storage.files import read_regular

__all__ = ["NAMES", "Accumulator", "Piece", "over_rows"]

#: Names of the statistics, as the arrays of a store are called.
NAMES = ("mean", "minimum", "maximum", "stdev", "nan_count")

#: Most rows that int64 bins surely hold.
_MOST_ROWS = 2**38

_MAGIC = b"cfagg-statistics-1\n"
_HEAD = struct.Struct("<qqq")
_DIGEST = 16


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

    def to_bytes(self) -> bytes:
        """Return all that is accumulated, for `from_bytes`; equal statistics give equal bytes."""
        places = np.flatnonzero(self._bins.any(axis=2))
        arrays = (self._counts, self._keys, places, self._bins.reshape(-1, 3)[places])
        body = _HEAD.pack(self.variables, self.rows, len(places)) + b"".join(a.astype("<i8").tobytes() for a in arrays)
        return _MAGIC + hashlib.blake2b(body, digest_size=_DIGEST).digest() + body

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Return what `to_bytes` wrote."""
        start = len(_MAGIC) + _DIGEST
        body = data[start:]
        known = data.startswith(_MAGIC) and len(body) >= _HEAD.size
        if not known or hashlib.blake2b(body, digest_size=_DIGEST).digest() != data[len(_MAGIC) : start]:
            raise ConventionError("accumulated statistics are damaged, or of another version; build them again")
        variables, rows, count = _HEAD.unpack_from(body)
        found = cls(variables)
        found.rows = rows
        numbers = np.frombuffer(body, "<i8", offset=_HEAD.size).astype(np.int64)
        counts, keys, places, bins = np.split(numbers, np.cumsum([3 * variables, 2 * variables, count]))
        found._counts[:] = counts.reshape(-1, 3)
        found._keys[:] = keys.reshape(-1, 2)
        found._bins.reshape(-1, 3)[places] = bins.reshape(-1, 3)
        return found

    def save(self, path: str | Path) -> None:
        """Write all that is accumulated into a file, which appears whole or not at all."""
        target = Path(path)
        write_aside(target, self.to_bytes())

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Return what `save` wrote."""
        try:
            return cls.from_bytes(read_regular(path))
        except ConventionError as error:
            raise FragmentReadError(f"{path}: {error.message}") from error


class Piece(Protocol):
    """Statistics of some rows of a store, from `start` to `stop`."""

    @property
    def start(self) -> int:
        """First row."""

    @property
    def stop(self) -> int:
        """Row after the last."""

    @property
    def statistics(self) -> Accumulator:
        """Of exactly these rows."""


class Reader(Protocol):
    """What reads rows of a store."""

    def __call__(self, start: int, stop: int, /) -> npt.NDArray[np.float32]:
        """Return the variables of rows `start` to `stop`, shape (stop - start, variables)."""


def over_rows(
    variables: int,
    start: int,
    stop: int,
    read: Reader,
    pieces: Iterable[Piece] = (),
    *,
    block: int = 2**18,
) -> Accumulator:
    """Return the statistics of rows, reading only those that no piece covers."""
    found = Accumulator(variables)
    at = start
    for piece in sorted((p for p in pieces if start <= p.start < p.stop <= stop), key=lambda p: p.start):
        if piece.start < at:
            continue
        _read(found, at, piece.start, read, block)
        found.merge(piece.statistics)
        at = piece.stop
    _read(found, at, stop, read, block)
    return found


def _read(found: Accumulator, start: int, stop: int, read: Reader, block: int) -> None:
    """Accumulate rows that are read."""
    for at in range(start, stop, block):
        found.accumulate(read(at, min(at + block, stop)))
