"""All rows of a store that is being built, in order, wherever they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cfagg.kernels.lookup import epochs_of_rows
from cfagg.observations.spill import Piece, read_pieces

__all__ = ["RowTable"]

type Rows = npt.NDArray[np.float32]


@dataclass(frozen=True)
class RowTable:
    """Rows of pieces that follow one another."""

    pieces: tuple[Piece, ...]
    #: Number of the first row of each piece, and of all.
    bounds: npt.NDArray[np.int64]
    columns: int

    @classmethod
    def of(cls, pieces: Sequence[Piece], columns: int) -> RowTable:
        """Return the table of some pieces."""
        bounds = np.concatenate([[0], np.cumsum([len(p) for p in pieces])]).astype(np.int64)
        return cls(tuple(pieces), bounds, columns)

    @property
    def rows(self) -> int:
        """Number of rows."""
        return int(self.bounds[-1])

    def read(self, start: int, stop: int) -> Rows:
        """Return rows by number."""
        return read_pieces(self.pieces, self.bounds, start, stop, self.columns)

    def epoch(self, row: int) -> int:
        """Return the date of a row, in seconds since 1970."""
        return int(epochs_of_rows(self.read(row, row + 1))[0])

    def find(self, lo: int, hi: int) -> tuple[int, int]:
        """Return the range of rows with lo <= date < hi."""
        start = self._first(lo, 0)
        return start, self._first(hi, start)

    def _first(self, epoch: int, low: int) -> int:
        """Return the first row, from `low` on, that is not before a date."""
        high = self.rows
        while low < high:
            middle = (low + high) // 2
            if self.epoch(middle) < epoch:
                low = middle + 1
            else:
                high = middle
        return low
