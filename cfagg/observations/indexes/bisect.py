"""The index of the published software that is one table, searched by halving.

An array ``date_index_ranges`` of three columns epoch, start and length.  Here it is cut into blocks of equal numbers of
entries.  The halving goes over the first epochs of blocks, which are kept once they are known; one block is then read,
checked, kept in a third of its size, and searched.  A search near earlier ones reads nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.errors import CfaggError, ConventionError, Problem, SourceError
from cfagg.observations.indexes.protocol import (
    Entries,
    Int64,
    Store,
    as_interval,
    as_intervals,
    checked,
    columns_of,
    ends_of,
)
from cfagg.observations.indexes.table import Table, TableWriter, ZarrFormat

__all__ = ["NAME", "BisectIndex", "open_bisect", "resolve", "write_bisect"]

#: Name of the array.
NAME = "date_index_ranges"

#: Entries of a block: read, checked and kept together.
_BLOCK = 8192

#: Bytes of blocks that are kept, and what keeping one takes beside them: some eight million entries.
_CACHED, _EACH = 2**26, 2**10
#: First epochs of blocks that are kept, the nodes of the search.
_PROBES = 2**17

#: Entries of a chunk: 64 MiB as the published software writes, and less where it is our own.
_CHUNK: dict[ZarrFormat, int] = {2: 2**26 // 24, 3: 2**18}


class BisectIndex:
    """A table of entries in a Zarr array (see `Index` for the methods)."""

    kind = "bisect"

    def __init__(self, table: Table, rows: int) -> None:
        self._table, self.rows = table, rows
        if table.shape[1] != 3:
            raise SourceError(f"{table.where} has {table.shape[1]} columns, expected epoch, start and length")
        self.entries = table.shape[0]
        self.first: int | None = None
        self.last: int | None = None
        self._forget()
        if self.entries:
            first, last = table.read(0, 1)[0], table.read(self.entries - 1, self.entries)[0]
            self.first, self.last = ends_of(first, last, rows, table.where)
        elif rows:
            raise ConventionError(f"{table.where} has no entries for {rows:,} rows; build the index again")

    def __repr__(self) -> str:
        return f"<BisectIndex {self._table.where}: {self.entries:,} dates of {self.rows:,} rows>"

    def _forget(self) -> None:
        """Begin with nothing kept."""
        self._cached: dict[int, _Block] = {}
        self._probes: dict[int, int] = {}
        self._room = _CACHED

    def __getstate__(self) -> dict[str, Any]:
        return {name: self.__dict__[name] for name in ("_table", "rows", "entries", "first", "last")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._forget()

    def find(self, lo: int, hi: int) -> tuple[int, int]:
        """Return the first row, and the row after the last, with ``lo <= epoch < hi``."""
        lo, hi = as_interval(lo, hi)
        start = self._row(lo)
        return start, start if hi <= lo else self._row(hi)

    def find_many(self, lo: npt.ArrayLike, hi: npt.ArrayLike) -> Int64:
        """Return ranges of rows for many intervals, shape (m, 2)."""
        return resolve(*as_intervals(lo, hi), self._rows)

    def entries_between(self, lo: int, hi: int) -> Entries:
        """Return the entries with ``lo <= epoch < hi``."""
        lo, hi = as_interval(lo, hi)
        start = self._rank(lo)
        return columns_of(self._table.read(start, max(start, self._rank(hi))))

    def blocks(self) -> Iterator[Entries]:
        """Return all entries in blocks."""
        for start in range(0, self.entries, 8 * _BLOCK):
            yield columns_of(self._table.read(start, min(self.entries, start + 8 * _BLOCK)))

    def validate(self, full: bool = False) -> list[Problem]:
        """Return what is wrong with some entries, or with all."""
        try:
            if full:
                for _ in checked(self.blocks(), self._table.where, self.rows, strict=False):
                    pass
            else:
                for i in np.unique(np.linspace(0, self.entries, 17, dtype=np.int64))[:-1].tolist():
                    self._row(int(self._table.read(i, i + 1)[0, 0]))
        except CfaggError as error:
            return [Problem(NAME, error.message)]
        return []

    def _before(self, epoch: int) -> int:
        """Return the last block that begins before an epoch, -1 for none."""
        if self.first is None or epoch <= self.first:
            return -1
        low, high = 0, -(-self.entries // _BLOCK)
        probes = self._probes
        while high - low > 1:
            middle = (low + high) // 2
            first = probes.get(middle)
            if first is None:
                first = int(self._table.read(middle * _BLOCK, middle * _BLOCK + 1)[0, 0])
                if len(probes) >= _PROBES:
                    # A new dictionary and not a smaller one: other threads may be reading the old.
                    self._probes = probes = {}
                probes[middle] = first
            if first < epoch:
                low = middle
            else:
                high = middle
        return low

    def _block(self, number: int) -> _Block:
        """Return a block, from what is kept or the store."""
        return self._cached.get(number) or self._load(number)

    def _load(self, number: int) -> _Block:
        """Read a block and the entry after it, and keep it."""
        first, where = number * _BLOCK, self._table.where
        table = self._table.read(first, min(self.entries, first + _BLOCK + 1))
        start = int(table[0, 1])
        if not 0 <= start < self.rows or (number == 0 and start):
            raise ConventionError(f"{where}: entry {first:,} starts at row {start:,} of {self.rows:,}")
        columns = (table[:, 0], table[:, 1] - start, table[:, 2])
        for _ in checked([columns], f"{where}, counted from entry {first:,}", strict=False):
            pass
        end = start + int(columns[1][-1]) + int(columns[2][-1])
        if end > self.rows or (first + len(table) == self.entries and end != self.rows):
            last = first + len(table) - 1
            raise ConventionError(
                f"{where}: entry {last:,} ends at row {end:,} of {self.rows:,}; build the index again"
            )
        block = _Block(columns[0], columns[1], start, end)
        taken = block.epochs.nbytes + block.starts.nbytes + _EACH
        self._room -= taken
        if self._room < 0:
            self._cached, self._room = {}, _CACHED - taken
        self._cached[number] = block
        return block

    def _row(self, epoch: int) -> int:
        """Return the first row that is not before an epoch."""
        number = self._before(epoch)
        if number < 0:
            return 0
        block = self._block(number)
        if epoch > block.last:
            return self._after(number, block, epoch)
        return block.row + int(block.starts[block.rank(epoch)])

    def _rank(self, epoch: int) -> int:
        """Return the number of the first entry that is not before an epoch."""
        number = self._before(epoch)
        if number < 0:
            return 0
        block = self._block(number)
        if epoch > block.last:
            self._after(number, block, epoch)
            return self.entries
        return number * _BLOCK + block.rank(epoch)

    def _after(self, number: int, block: _Block, epoch: int) -> int:
        """Return the row after all entries, where an epoch lies beyond a block, which no block but the last allows."""
        if (number + 1) * _BLOCK < self.entries:
            raise ConventionError(
                f"{self._table.where}: entry {(number + 1) * _BLOCK:,} has epoch {block.last}, expected {epoch} or "
                "later; epochs do not rise, or the table was changed; build the index again"
            )
        return block.end

    def _rows(self, wanted: Int64) -> Int64:
        """Return the first rows that are not before epochs, which rise."""
        out = np.zeros(len(wanted), np.int64)
        done = len(wanted) if self.first is None else int(wanted.searchsorted(self.first, side="right"))
        while done < len(wanted):
            number = self._before(int(wanted[done]))
            block = self._block(number)
            if wanted[done] > block.last:
                out[done:] = self._after(number, block, int(wanted[done]))
                break
            stop = int(wanted.searchsorted(block.last, side="right"))
            part = wanted[done:stop] - block.first
            ranks = block.epochs.searchsorted(part.astype(block.epochs.dtype))
            out[done:stop] = block.starts[ranks].astype(np.int64) + block.row
            done = stop
        return out


class _Block:
    """Entries that follow each other; starts are counted from the first, `row` and `end` are before and after all."""

    __slots__ = ("end", "epochs", "first", "last", "row", "starts")

    def __init__(self, epoch: Int64, start: Int64, row: int, end: int) -> None:
        self.row, self.end = row, end
        self.first, self.last = int(epoch[0]), int(epoch[-1])
        self.epochs, self.starts = _narrow(epoch - self.first), _narrow(start)

    def rank(self, epoch: int) -> int:
        """Return the number of the first entry that is not before an epoch, which lies within the block."""
        return int(self.epochs.searchsorted(self.epochs.dtype.type(epoch - self.first)))


def _narrow(rising: Int64) -> npt.NDArray[Any]:
    """Return numbers from 0 on, which rise, in 32 bits where they have room."""
    return rising.astype(np.uint32 if rising[-1] < 2**32 else np.int64)


def resolve(lo: Int64, hi: Int64, rows: Callable[[Int64], Int64]) -> Int64:
    """Return ranges of rows of intervals; `rows` finds the rows of epochs that rise, without repetition."""
    wanted, back = np.unique(np.concatenate([lo, hi]), return_inverse=True)
    found = rows(wanted)[back.reshape(-1)]
    out = np.empty((len(lo), 2), np.int64)
    out[:, 0] = found[: len(lo)]
    np.maximum(out[:, 0], found[len(lo) :], out=out[:, 1])
    return out


def open_bisect(store: Store) -> BisectIndex:
    """Return the index that a store has as one table."""
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
