"""The index of the published software that is one table, searched by halving.

An array ``date_index_ranges`` of three columns epoch, start and length.  Here a search decodes single blocks of its
chunks and keeps them; many intervals are searched for together, in order of time.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator

import numpy as np
import numpy.typing as npt

from cfagg.errors import CfaggError, ConventionError, Problem, SourceError
from cfagg.observations.indexes.protocol import Entries, Int64, Store, as_interval, as_intervals, checked
from cfagg.observations.indexes.table import Table
from cfagg.observations.indexes.table_writing import TableWriter, ZarrFormat

__all__ = ["NAME", "BisectIndex", "open_bisect", "resolve", "write_bisect"]

#: Name of the array.
NAME = "date_index_ranges"

#: Entries that are read together.
_BLOCK = 8192

#: So many entries are rather read than halved.
_FEW = 2048

#: Entries of a chunk: 64 MiB as the published software writes, and less where it is our own.
_CHUNK: dict[ZarrFormat, int] = {2: 2**26 // 24, 3: 2**18}


class BisectIndex:
    """A table of entries in a Zarr array (see `Index` for the methods).

    Parameters
    ----------
    table : Table
        Columns epoch, start and length.
    rows : int
        Rows of the store.
    """

    kind = "bisect"

    def __init__(self, table: Table, rows: int) -> None:
        self._table, self.rows = table, rows
        if table.shape[1] != 3:
            raise SourceError(f"{table.where} has {table.shape[1]} columns, expected epoch, start and length")
        self.entries = table.shape[0]
        self.first: int | None = None
        self.last: int | None = None
        if self.entries:
            first, last = table.read(0, 1)[0], table.read(self.entries - 1, self.entries)[0]
            self.first, self.last = int(first[0]), int(last[0])
            if first[1] != 0 or last[2] < 1 or last[1] + last[2] != rows or self.first > self.last:
                raise ConventionError(
                    f"{table.where}: its first entry is {first.tolist()} and its last {last.tolist()}, which do not "
                    f"cover {rows:,} rows; build the index again"
                )
        elif rows:
            raise ConventionError(f"{table.where} has no entries for {rows:,} rows; build the index again")

    def find(self, lo: int, hi: int) -> tuple[int, int]:
        """Return the first row, and the row after the last, with ``lo <= epoch < hi``."""
        lo, hi = as_interval(lo, hi)
        start = self._row(self._rank(lo))
        return start, start if hi <= lo else self._row(self._rank(hi))

    def find_many(self, lo: npt.ArrayLike, hi: npt.ArrayLike) -> Int64:
        """Return ranges of rows for many intervals, shape (m, 2)."""
        return resolve(*as_intervals(lo, hi), self._rows)

    def entries_between(self, lo: int, hi: int) -> Entries:
        """Return the entries with ``lo <= epoch < hi``."""
        lo, hi = as_interval(lo, hi)
        start = self._rank(lo)
        found = self._table.read(start, max(start, self._rank(hi)))
        return _columns(found)

    def blocks(self) -> Iterator[Entries]:
        """Return all entries in blocks."""
        for start in range(0, self.entries, 8 * _BLOCK):
            yield _columns(self._table.read(start, min(self.entries, start + 8 * _BLOCK)))

    def validate(self, full: bool = False) -> list[Problem]:
        """Return what is wrong with some entries, or with all."""
        try:
            if full:
                for _ in checked(self.blocks(), self._table.where, self.rows, strict=False):
                    pass
            else:
                for i in np.unique(np.linspace(0, self.entries, 17, dtype=np.int64))[:-1].tolist():
                    epoch = int(self._table.read(i, i + 1)[0, 0])
                    self._row(self._rank(epoch))
        except CfaggError as error:
            return [Problem(NAME, error.message)]
        return []

    def _rank(self, epoch: int, start: int = 0) -> int:
        """Return the number of the first entry, from `start` on, that is not before an epoch."""
        low, step = start, 1
        if start:
            # Near the last one found, more often than not.
            while start + step < self.entries and self._table.read(start + step, start + step + 1)[0, 0] < epoch:
                low, step = start + step + 1, step * 2
            high = min(start + step, self.entries)
        else:
            high = self.entries
        while high - low > _FEW:
            middle = (low + high) // 2
            if self._table.read(middle, middle + 1)[0, 0] < epoch:
                low = middle + 1
            else:
                high = middle
        return low + int(np.searchsorted(self._table.read(low, high)[:, 0], epoch))

    def _row(self, rank: int) -> int:
        """Return the row at which an entry starts, after a look at the entry before it."""
        if not self.entries or rank == self.entries:
            return self.rows
        pair = self._table.read(max(0, rank - 1), rank + 1)
        return int(self._starts(pair, rank - len(pair) + 1)[-1])

    def _starts(self, table: Int64, number: int) -> Int64:
        """Return the starts of entries from one on, which are checked."""
        where, stop = self._table.where, int(table[0, 1])
        if not 0 <= stop < self.rows or (number == 0 and stop):
            raise ConventionError(f"{where}: entry {number:,} starts at row {stop:,} of {self.rows:,}")
        part = (table[:, 0], table[:, 1] - stop, table[:, 2])
        for _ in checked([part], f"{where}, counted from entry {number:,}", strict=False):
            pass
        return table[:, 1]

    def _rows(self, wanted: Int64) -> Int64:
        """Return the first rows that are not before epochs, which rise."""
        out = np.empty(len(wanted), np.int64)
        done, rank = 0, 0
        while done < len(wanted):
            rank = self._rank(int(wanted[done]), rank)
            if rank == self.entries:
                out[done:] = self.rows
                break
            first = max(0, rank - 1)
            block = self._table.read(first, min(self.entries, first + _BLOCK))
            starts = self._starts(block, first)
            stop = int(np.searchsorted(wanted, block[-1, 0], side="right"))
            # At least the one that the search was for lies within.
            stop = max(stop, done + 1)
            out[done:stop] = starts[np.searchsorted(block[:, 0], wanted[done:stop])]
            done = stop
        return out


def resolve(lo: Int64, hi: Int64, rows: Callable[[Int64], Int64]) -> Int64:
    """Return ranges of rows of intervals, from a function that finds rows of epochs.

    Parameters
    ----------
    lo, hi : int64 array, shape (m,)
        Ends of the intervals.
    rows : callable
        From epochs that rise, without repetition, to the first rows that are not before them.

    Returns
    -------
    int64 array, shape (m, 2)

    Examples
    --------
    >>> resolve(np.array([5, 1]), np.array([9, 0]), lambda epochs: epochs * 10)
    array([[50, 90],
           [10, 10]])
    """
    wanted, back = np.unique(np.concatenate([lo, hi]), return_inverse=True)
    found = rows(wanted)[back.reshape(-1)]
    out = np.empty((len(lo), 2), np.int64)
    out[:, 0] = found[: len(lo)]
    np.maximum(out[:, 0], found[len(lo) :], out=out[:, 1])
    return out


def open_bisect(store: Store) -> BisectIndex:
    """Return the index that a store has as one table.

    Raises
    ------
    SourceError
        It has none.
    ConventionError
        It does not cover the rows of the store.
    """
    return BisectIndex(Table(store.source, NAME), store.rows)


def write_bisect(group: str | os.PathLike[str], entries: Iterable[Entries], *, zarr_format: ZarrFormat = 2) -> int:
    """Write an index as one table, ``date_index_ranges``.

    Parameters
    ----------
    group : path
        Directory of the store.
    entries : iterable of (epoch, start, length)
        Columns of int64 of consecutive entries, which are never in memory together.
    zarr_format : {2, 3}
        Zarr v2 with the chunks and codec of the published software, or Zarr v3.

    Returns
    -------
    int
        Number of entries.

    Raises
    ------
    ConventionError
        Epochs do not rise, lengths are below one, or an entry does not start where the one before it ends.
    TargetError
        The array cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> write_bisect(folder, [(np.array([60, 120]), np.array([0, 5]), np.array([5, 1]))])
    2
    """
    # Two names for two dimensions: the published software names the columns, which xarray refuses.
    names = ("entry", "column")
    count = 0
    with TableWriter(group, NAME, 3, _CHUNK[zarr_format], names, zarr_format) as table:
        for block in checked(entries, NAME):
            table.append(np.stack(block, axis=1))
            count += len(block[0])
        table.finish({})
    return count


def _columns(table: Int64) -> Entries:
    return (
        np.ascontiguousarray(table[:, 0]),
        np.ascontiguousarray(table[:, 1]),
        np.ascontiguousarray(table[:, 2]),
    )
