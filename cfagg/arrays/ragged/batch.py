"""Rows in memory: as read, and as the batches formed from them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from cfagg.errors import ConventionError, LimitError, UnsupportedError
from cfagg.kernels.ragged import gather_rows

__all__ = ["Batch", "Held", "Row"]

Int64 = npt.NDArray[np.int64]


class Row(NamedTuple):
    """One row."""

    number: int
    data: npt.NDArray[Any]
    indices: npt.NDArray[Any] | None


@dataclass(frozen=True, eq=False)
class Batch:
    """Rows in the order in which they were requested.

    Attributes
    ----------
    numbers : int64[rows]
        Indices of the rows in the store.
    data, indices : array
        Their values and columns, row after row; `indices` is None if rows have no columns.
    indptr : int64[rows + 1]
        Where each row begins in these.
    labels : dict
        The values of each label for these rows.
    columns : int, optional
        Number of columns.
    """

    numbers: Int64
    data: npt.NDArray[Any]
    indices: npt.NDArray[Any] | None
    indptr: Int64
    labels: dict[str, npt.NDArray[Any]]
    columns: int | None
    where: str = field(repr=False, default="rows")

    def __len__(self) -> int:
        return len(self.numbers)

    def __iter__(self) -> Iterator[Row]:
        """Yield row by row, without copying."""
        for number, a, b in zip(
            self.numbers.tolist(), self.indptr[:-1].tolist(), self.indptr[1:].tolist(), strict=True
        ):
            yield Row(number, self.data[a:b], None if self.indices is None else self.indices[a:b])

    def to_dense(self) -> npt.NDArray[Any]:
        """Return the rows as a matrix, 0 without a value; values with the same index are added, as in scipy."""
        indices, columns = self._matrix()
        try:
            out = np.zeros((len(self), columns), self.data.dtype)
        except (MemoryError, ValueError) as error:
            raise LimitError(
                f"{self.where}: a matrix of {len(self):,} × {columns:,} does not fit into memory; take fewer rows, or "
                "to_scipy()"
            ) from error
        np.add.at(out, (np.repeat(np.arange(len(self)), np.diff(self.indptr)), indices), self.data)
        return out

    def to_scipy(self) -> Any:
        """Return the rows as a ``scipy.sparse.csr_array``, which shares the memory of their values."""
        indices, columns = self._matrix()
        try:
            from scipy.sparse import csr_array
        except ImportError as error:
            raise UnsupportedError("matrices of scipy need scipy: pip install scipy") from error
        return csr_array((self.data, indices, self.indptr), shape=(len(self), columns))

    def _matrix(self) -> tuple[npt.NDArray[Any], int]:
        """Return columns, all within the matrix, and their number."""
        if self.indices is None or self.columns is None:
            raise UnsupportedError(f"{self.where} have no columns, so they are not a matrix; use data and indptr")
        if len(self.indices) and not 0 <= int(self.indices.min()) <= int(self.indices.max()) < self.columns:
            bad = int(np.flatnonzero((self.indices < 0) | (self.indices >= self.columns))[0])
            row = int(self.numbers[np.searchsorted(self.indptr, bad, "right") - 1])
            raise ConventionError(
                f"{self.where}: row {row} has column {int(self.indices[bad])}, expected 0 to {self.columns - 1}; write "
                "the rows again"
            )
        return self.indices, self.columns


@dataclass(frozen=True, eq=False)
class Held:
    """Rows in memory, at any positions."""

    numbers: Int64
    arrays: tuple[npt.NDArray[Any], ...]  # data, and indices if there are any
    starts: tuple[Int64, ...]
    lengths: Int64

    def taken(self, order: Int64) -> tuple[Int64, tuple[npt.NDArray[Any], ...], Int64]:
        """Return numbers, arrays and `indptr` of some of the rows, by one call of the kernel."""
        indptr = np.zeros(len(order) + 1, np.int64)
        np.cumsum(self.lengths[order], out=indptr[1:])
        outs = tuple(np.empty(int(indptr[-1]), a.dtype) for a in self.arrays)
        gather_rows(self.arrays, tuple(s[order] for s in self.starts), indptr, outs)
        return self.numbers[order], outs, indptr

    def joined(self, other: Held) -> Held:
        """Return these rows followed by others."""
        starts = tuple(
            np.concatenate([s, o + len(a)]) for s, o, a in zip(self.starts, other.starts, self.arrays, strict=True)
        )
        arrays = tuple(np.concatenate(pair) for pair in zip(self.arrays, other.arrays, strict=True))
        return Held(
            np.concatenate([self.numbers, other.numbers]), arrays, starts, np.concatenate([self.lengths, other.lengths])
        )
