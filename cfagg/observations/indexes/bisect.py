"""The index of the published software that is a single table, searched by bisection.

It is an array ``date_index_ranges`` with the columns epoch, start and length, divided here into blocks of equal numbers
of entries.  The bisection uses the first epochs of blocks, which are cached. One block is then read, checked, cached in
a third of its size, and searched.  A search near earlier ones reads nothing.
"""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Iterable, Iterator

import numpy as np

from cfagg.errors import SourceError
from cfagg.observations.indexes.protocol import Entries, Int64, Store, checked
from cfagg.observations.indexes.table import Table, TableIndex, ZarrFormat, new_table

__all__ = ["NAME", "BisectIndex", "open_bisect", "write_bisect"]

#: Name of the array.
NAME = "date_index_ranges"

#: Number of entries of a block, which are read, checked and cached together.
_BLOCK = 8192

#: Number of first epochs of blocks that are cached.
_PROBES = 2**17

#: Number of entries of a chunk: 64 MiB as in the published software, and fewer in cfagg's own layout.
_CHUNK: dict[ZarrFormat, int] = {2: 2**26 // 24, 3: 2**18}


class BisectIndex(TableIndex):
    """A table of entries in a Zarr array (see `Index` for the methods)."""

    kind, name = "bisect", NAME

    def __init__(self, table: Table, rows: int) -> None:
        count, columns = table.shape
        if columns != 3:
            raise SourceError(f"{table.where} has {columns} columns, expected epoch, start and length")
        ends = (table.read(0, 1)[0], table.read(count - 1, count)[0]) if count else None
        super().__init__(table, rows, ends)

    @property
    def entries(self) -> int:
        """Number of entries."""
        return self._table.shape[0]

    def _forget(self) -> None:
        super()._forget()
        self._probes: dict[int, int] = {}

    def _before(self, epoch: int) -> int:
        return bisect_left(range(1, -(-self.entries // _BLOCK)), epoch, key=self._first_of)

    def _first_of(self, block: int) -> int:
        """Return the first epoch of a block."""
        first = self._probes.get(block)
        if first is None:
            first = int(self._table.read(block * _BLOCK, block * _BLOCK + 1)[0, 0])
            if len(self._probes) >= _PROBES:
                # A new dictionary, since other threads may be reading the old one.
                self._probes = {}
            self._probes[block] = first
        return first

    def _part(self, block: int) -> tuple[Int64, bool]:
        stop = min(self.entries, (block + 1) * _BLOCK + 1)
        return self._table.read(block * _BLOCK, stop), stop == self.entries

    def _tables(self, epoch: int | None = None) -> Iterator[Int64]:
        for start in range(0 if epoch is None else self._before(epoch) * _BLOCK, self.entries, _BLOCK):
            yield self._table.read(start, min(self.entries, start + _BLOCK))


def open_bisect(store: Store) -> BisectIndex:
    """Return the index of a store that is a single table."""
    return BisectIndex(Table(store.source, NAME), store.rows)


def write_bisect(group: str | os.PathLike[str], entries: Iterable[Entries], *, zarr_format: ZarrFormat = 2) -> int:
    """Write an index as one table, ``date_index_ranges``, block by block, and return the number of entries.

    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> write_bisect(folder, [(np.array([60, 120]), np.array([0, 5]), np.array([5, 1]))])
    2
    """
    # One name for each of the two dimensions: the published software names the columns, which xarray refuses.
    names = ("entry", "column")
    count = 0
    with new_table(group, NAME, 3, _CHUNK[zarr_format], names, zarr_format) as table:
        for block in checked(entries, NAME):
            table.append(np.stack(block, axis=1))
            count += len(block[0])
        table.finish({})
    return count
