"""Where the chunks of an array are stored, and how they are encoded, in the same form for every format.

An HDF5 chunk, a Zarr chunk, a netCDF-3 record and a PP field are treated alike: each is a range of bytes with a codec
and a place in an array.

*chunk table*: where each chunk of an array is: its cell, its offset and length in bytes, and the codecs that were
skipped for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.errors import ModelError, Problem
from cfagg.model.grid import Grid

__all__ = ["ChunkTable", "Codec", "Decode", "Encoding"]

Int64 = npt.NDArray[np.int64]

#: Number of a filter, as registered by The HDF Group (1: deflate, 2: shuffle, 32015: zstd, …), and its parameters.
Codec = tuple[int, tuple[int, ...]]

#: Converts the stored bytes of a chunk, given its cell, to values.
Decode = Callable[[npt.NDArray[np.uint8], int], npt.NDArray[Any]]


@dataclass(frozen=True, slots=True)
class Encoding:
    """How all chunks of one array are encoded.

    Parameters
    ----------
    dtype : numpy.dtype
        Type of the values, with the byte order in which they are stored.
    codecs : tuple of (int, tuple of int)
        Codecs in the order in which they were applied when writing; see `Codec`.
    fill : scalar, optional
        Value of chunks that are not stored; `None` if all must be.
    decode : callable, optional
        A format-specific decoder of a chunk, in place of `codecs`. Called with the stored bytes and the cell, it
        returns values of the shape of the cell and of `dtype`, in any byte order.
    """

    dtype: np.dtype[Any]
    codecs: tuple[Codec, ...] = ()
    fill: Any = None
    decode: Decode | None = None

    @property
    def is_plain(self) -> bool:
        """Whether values are stored uncompressed, without codecs."""
        return not self.codecs and self.decode is None


@dataclass(frozen=True, slots=True, eq=False)
class ChunkTable:
    """The chunks of one array, one row each; a chunk without a row was never written.

    A chunk has the shape of its cell, even if the last cell extends beyond the array.

    Parameters
    ----------
    grid : Grid
        The cells of the array.
    encoding : Encoding
        Shared by all chunks.
    cell : array_like of int
        Number of each chunk's cell in C order, strictly increasing.
    offset, length : array_like of int
        Position of its first byte, and number of bytes.
    mask : array_like of int
        Bits of the codecs that were skipped, as in HDF5.
    key : array_like of int
        Index into `keys` of the object that contains it.
    keys : sequence of str
        Names of objects; the empty one is the file in which the array was found.

    Raises
    ------
    ModelError
        Lists every problem.

    Examples
    --------
    >>> table = ChunkTable(Grid.regular((4,), (2,)), Encoding(np.dtype(">i2")), cell=[0, 1], offset=[64, 68], length=4)
    >>> table.rows(np.array([1, 0])).tolist()
    [1, 0]
    """

    grid: Grid
    encoding: Encoding
    cell: Int64
    offset: Int64
    length: Int64
    mask: Int64 = field(default_factory=lambda: np.zeros((), np.int64))
    key: Int64 = field(default_factory=lambda: np.zeros((), np.int64))
    keys: Sequence[str] = ("",)

    def __post_init__(self) -> None:
        problems: list[Problem] = []
        cell = _integers("cell", self.cell, problems)
        object.__setattr__(self, "cell", cell)
        if cell.ndim != 1 or (cell.size and not (cell[0] >= 0 and cell[-1] < self.grid.size)):
            problems.append(Problem("cell", f"a list of numbers below {self.grid.size:,}"))
        elif (cell[1:] <= cell[:-1]).any():  # a difference could wrap around
            problems.append(Problem("cell", "they increase strictly"))
        most = {"mask": 2**32, "key": len(self.keys)}
        for name in ("offset", "length", "mask", "key"):
            column = _integers(name, getattr(self, name), problems)
            if column.shape not in ((), cell.shape):
                problems.append(Problem(name, f"one for each of {cell.size:,} cells, or one for all"))
            elif column.size and not (column.min() >= 0 and column.max() < most.get(name, 2**62)):
                problems.append(Problem(name, f"from 0 to {most.get(name, 2**62) - 1:,}"))
            else:
                # A value common to all is stored once.
                column = np.broadcast_to(column, cell.shape)
            object.__setattr__(self, name, column)
        if problems:
            raise ModelError("not a chunk table", problems)

    def shape(self, index: Sequence[int]) -> tuple[int, ...]:
        """Return the shape of a chunk, by the index of its cell."""
        return self.grid.whole(index)

    def rows(self, cells: npt.ArrayLike) -> Int64:
        """Return the row of each cell, or -1 if there is none."""
        wanted = np.asarray(cells, np.int64)
        if self.cell.size == self.grid.size:
            return wanted
        if not self.cell.size:
            return np.full(wanted.shape, -1)
        found = np.minimum(np.searchsorted(self.cell, wanted), self.cell.size - 1)
        return np.where(self.cell[found] == wanted, found, -1)


def _integers(name: str, given: npt.ArrayLike, problems: list[Problem]) -> Int64:
    """Return a column."""
    found = np.asarray(given)
    if found.size and found.dtype.kind not in "iu":
        problems.append(Problem(name, f"integers; found {found.dtype}"))
        return np.zeros(found.shape, np.int64)
    column = found.astype(np.int64, copy=False).view()
    column.flags.writeable = False
    return column
