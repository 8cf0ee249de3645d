"""Entries of rows that come in blocks, and the index pages of a store that has another index, or none."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from cfagg.errors import SourceError, TargetError
from cfagg.kernels.lookup import entries_of_rows
from cfagg.observations.indexes.pages_writing import write_pages
from cfagg.observations.indexes.protocol import Entries, Store
from cfagg.observations.indexes.registry import open_index, stored_kinds
from cfagg.observations.indexes.table import ZarrFormat

__all__ = ["build_pages", "entries_of_blocks", "joined"]

#: Rows that are read together.
_ROWS = 2**18


class _Rows(Protocol):
    """Rows of a store."""

    def read(self, start: int, stop: int, columns: Any = None, /) -> npt.NDArray[np.float32]:
        """Return rows, or columns of them."""


class _Readable(Store, Protocol):
    """A store with its rows."""

    @property
    def data(self) -> _Rows:
        """The rows."""


def build_pages(store: _Readable, kind: str | None = None) -> int:
    """Write index pages into a store, in place of those that it has.

    Parameters
    ----------
    store : ObservationStore
        An open store, in a directory of this machine.
    kind : str, optional
        What the pages are made of: ``"bisect"``, ``"btree"`` or another kind of index, or ``"data"``, the rows
        themselves.  By default an index of the published software, and the rows where there is none.

    Returns
    -------
    int
        Number of entries.

    Raises
    ------
    ConventionError
        The index, or the order of the rows, is wrong; the message names the entry.
    SourceError
        There is no such index.
    TargetError
        The store is not on this machine or cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> from types import SimpleNamespace
    >>> from cfagg.observations.indexes import open_index, write_bisect
    >>> from cfagg.storage.local import LocalSource
    >>> folder = tempfile.mkdtemp()
    >>> _ = Path(folder, ".zgroup").write_text('{"zarr_format": 2}')
    >>> _ = write_bisect(folder, [(np.array([60, 120]), np.array([0, 5]), np.array([5, 1]))])
    >>> store = SimpleNamespace(path=folder, source=LocalSource(folder), rows=6, identity="a")
    >>> build_pages(store)
    2
    >>> open_index(store).kind, open_index(store).find(60, 61)
    ('pages', (0, 5))
    """
    path, zarr_format = _target(store)
    if kind is None:
        kind = next(iter(stored_kinds(store)), "data")
    entries = entries_of_blocks(_row_blocks(store)) if kind == "data" else _blocks(store, kind)
    return write_pages(path, entries, identity=store.identity, rows=store.rows, zarr_format=zarr_format)


def _blocks(store: Store, kind: str) -> Iterator[Entries]:
    """Return the entries of an index."""
    yield from open_index(store, kind).blocks()


def _row_blocks(store: _Readable) -> Iterator[npt.NDArray[np.float32]]:
    """Return days and seconds of all rows."""
    for start in range(0, store.rows, _ROWS):
        yield store.data.read(start, min(store.rows, start + _ROWS), slice(0, 2))


def _target(store: Store) -> tuple[Path, ZarrFormat]:
    """Return the directory of a store and its Zarr format."""
    path = Path(store.path)
    if not path.is_dir():
        raise TargetError(f"{store.path} is not a directory of this machine, so no index can be written into it")
    if (path / "zarr.json").exists():
        return path, 3
    if not (path / ".zgroup").exists():
        raise SourceError(f"{store.path} has neither .zgroup nor zarr.json, so it is not a Zarr store")
    return path, 2


def entries_of_blocks(blocks: Iterable[npt.NDArray[np.float32]]) -> Iterator[Entries]:
    """Return the entries of all rows of a store, block by block.

    Parameters
    ----------
    blocks : iterable of float32 array, shape (n, 2 or more)
        Consecutive sorted rows: days since 1970, seconds of the day, then anything.

    Yields
    ------
    epoch, start, length : int64 arrays
        One entry for each date, also where its rows are in several blocks.

    Examples
    --------
    >>> rows = np.array([[0, 5], [0, 5], [0, 7]], "f4")
    >>> [[c.tolist() for c in entry] for entry in entries_of_blocks([rows[:1], rows[1:]])]
    [[[5], [0], [2]], [[7], [2], [1]]]
    """

    def each() -> Iterator[Entries]:
        start = 0
        for rows in blocks:
            yield entries_of_rows(rows, start)
            start += len(rows)

    return joined(each())


def joined(entries: Iterable[Entries]) -> Iterator[Entries]:
    """Join the last entry of a block and the first of the next where they have the same epoch.

    >>> one = (np.array([5]), np.array([0]), np.array([1]))
    >>> two = (np.array([5]), np.array([1]), np.array([3]))
    >>> [[c.tolist() for c in entry] for entry in joined([one, two])]
    [[[5], [0], [4]]]
    """
    held: tuple[int, int, int] | None = None
    for epoch, start, length in entries:
        if not len(epoch):
            continue
        if held is None:
            columns: Entries = (epoch, start, length)
        elif epoch[0] == held[0]:
            first = np.array([held[1]], np.int64), np.array([held[2] + length[0]], np.int64)
            columns = (epoch, np.concatenate([first[0], start[1:]]), np.concatenate([first[1], length[1:]]))
        else:
            columns = (
                np.concatenate([np.array([held[0]], np.int64), epoch]),
                np.concatenate([np.array([held[1]], np.int64), start]),
                np.concatenate([np.array([held[2]], np.int64), length]),
            )
        held = (int(columns[0][-1]), int(columns[1][-1]), int(columns[2][-1]))
        if len(columns[0]) > 1:
            yield columns[0][:-1], columns[1][:-1], columns[2][:-1]
    if held is not None:
        yield np.array([held[0]], np.int64), np.array([held[1]], np.int64), np.array([held[2]], np.int64)
