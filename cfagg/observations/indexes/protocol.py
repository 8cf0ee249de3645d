"""The protocol of indexes, which give the range of rows of a store with dates in an interval.

An index is a table of entries ``(epoch, start, length)``: all rows from `start` on, `length` of them, have the date
`epoch`, in seconds since 1970.  Epochs increase, and each entry starts where the previous one ends, so an interval of
dates is one range of rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from cfagg.errors import ConventionError, Problem

if TYPE_CHECKING:
    from cfagg.storage.store import Source

__all__ = [
    "Entries",
    "Index",
    "Int64",
    "Joining",
    "Store",
    "as_interval",
    "as_intervals",
    "checked",
    "columns_of",
    "together",
]

Int64 = npt.NDArray[np.int64]
#: Columns epoch, start and length of consecutive entries.
Entries = tuple[Int64, Int64, Int64]

#: Bound on the dates of entries in seconds, about the age of the universe, so that differences never overflow.
MAX_EPOCH = 2**59


class Store(Protocol):
    """The properties of a store of observations that an index needs."""

    @property
    def path(self) -> str:
        """Path or address."""

    @property
    def source(self) -> Source:
        """The stored objects."""

    @property
    def rows(self) -> int:
        """Number of rows."""

    @property
    def identity(self) -> str:
        """Text that changes with the rows."""


@runtime_checkable
class Index(Protocol):
    """An index of rows by date.  Indexes are picklable, and several threads may use them.

    Other packages may add kinds of indexes, as callables that take the store (`Store`) and return such an object, in
    the entry point group ``cfagg.indexes``.
    """

    @property
    def kind(self) -> str:
        """Name of the kind, ``"pages"``, ``"bisect"``, ``"btree"`` or that of an entry point."""

    @property
    def entries(self) -> int:
        """Number of entries."""

    @property
    def rows(self) -> int:
        """Number of rows of the store."""

    @property
    def first(self) -> int | None:
        """First epoch, or `None` if there are no entries."""

    @property
    def last(self) -> int | None:
        """Last epoch, or `None` if there are no entries."""

    def find(self, lo: int, hi: int) -> tuple[int, int]:
        """Return the first row, and the row after the last, with ``lo <= epoch < hi``.

        They are equal if there are no such rows.

        Parameters
        ----------
        lo, hi : int
            Seconds since 1970.
        """

    def find_many(self, lo: npt.ArrayLike, hi: npt.ArrayLike) -> Int64:
        """Return ranges of rows for many intervals at once.

        Parameters
        ----------
        lo, hi : array of int64, shape (m,)
            Seconds since 1970, in any order.

        Returns
        -------
        int64 array, shape (m, 2)
            As of `find`.
        """

    def entries_between(self, lo: int, hi: int) -> Entries:
        """Return the entries with ``lo <= epoch < hi``, as columns epoch, start and length."""

    def blocks(self) -> Iterator[Entries]:
        """Yield all entries, some ten thousand at a time."""

    def validate(self, full: bool = False) -> list[Problem]:
        """Return the problems of a sample of the entries, or of all entries."""


def as_interval(lo: Any, hi: Any) -> tuple[int, int]:
    """Return the ends of an interval as integers within the bounds of entries."""
    return min(max(int(lo), -MAX_EPOCH), MAX_EPOCH + 1), min(max(int(hi), -MAX_EPOCH), MAX_EPOCH + 1)


def columns_of(table: Int64) -> Entries:
    """Return copies of the columns of a table of entries, shape (n, 3)."""
    epoch, start, length = (np.array(column) for column in table.T)
    return epoch, start, length


def together(blocks: Sequence[Entries]) -> Entries:
    """Return blocks of entries as one block."""
    if len(blocks) == 1:
        return blocks[0]
    epoch, start, length = (np.concatenate([block[i] for block in blocks]) for i in range(3))
    return epoch, start, length


class Joining:
    """Joins the last entry of a block and the first of the next if they have the same epoch."""

    def __init__(self) -> None:
        self._open = np.empty((0, 3), np.int64)

    def feed(self, table: Int64) -> Int64:
        """Return the entries, shape (n, 3), that are complete after these."""
        if not len(table):
            return table
        if len(self._open) and self._open[0, 0] == table[0, 0]:
            epoch, start, length = self._open[0]
            table = np.concatenate([[(epoch, start, length + table[0, 2])], table[1:]])
        else:
            table = np.concatenate([self._open, table])
        self._open = table[-1:].copy()
        return table[:-1]

    def close(self) -> Int64:
        """Return the last entry, shape (0, 3) or (1, 3)."""
        return self._open


def as_intervals(lo: npt.ArrayLike, hi: npt.ArrayLike) -> tuple[Int64, Int64]:
    """Return ends of intervals as columns of equal length; ValueError for others."""
    ends = []
    for given in (lo, hi):
        found = np.atleast_1d(np.asarray(given))
        if found.size == 0:
            found = found.astype(np.int64)
        if found.ndim != 1 or found.dtype.kind not in "iu":
            raise ValueError(f"ends of intervals are columns of integers, found {found.dtype} of shape {found.shape}")
        ends.append(np.clip(found, -MAX_EPOCH, MAX_EPOCH + 1).astype(np.int64))
    if len(ends[0]) != len(ends[1]):
        raise ValueError(f"there are {len(ends[0])} starts and {len(ends[1])} ends of intervals")
    return ends[0], ends[1]


def checked(entries: Iterable[Entries], where: str, rows: int | None = None, strict: bool = True) -> Iterator[Entries]:
    """Pass entries on, and raise at the first that violates the definition of an index.

    `rows` is the number of rows that they must cover; two may have the same epoch only if not `strict`.

    >>> blocks = [(np.array([10, 20]), np.array([0, 3]), np.array([3, 1]))]
    >>> [len(epoch) for epoch, _, _ in checked(blocks, "index", rows=4)]
    [2]
    """
    count, end, last = 0, 0, -MAX_EPOCH - 1
    for block in entries:
        epoch, start, length = (np.ascontiguousarray(column, np.int64) for column in block)
        if not epoch.shape == start.shape == length.shape or epoch.ndim != 1:
            raise ConventionError(f"{where}: columns of entries have the shapes {[c.shape for c in block]}")
        if not len(epoch):
            continue
        step = np.diff(epoch, prepend=last)
        stop = np.empty(len(epoch), np.int64)
        stop[0] = end
        np.add(start[:-1], length[:-1], out=stop[1:])
        wrong = (step < (1 if strict else 0)) | (length < 1) | (start != stop) | (start < 0) | (epoch > MAX_EPOCH)
        if rows is not None:
            wrong |= length > rows - start
        if wrong.any():
            i = int(np.argmax(wrong))
            before = int(epoch[i - 1]) if i else last
            raise ConventionError(
                f"{where}: entry {count + i:,} is wrong: it has epoch {epoch[i]}, start {start[i]:,} and length "
                f"{length[i]:,}, expected {_expected(count + i, before, int(stop[i]), rows)}; build the index again"
            )
        count, end, last = count + len(epoch), int(start[-1] + length[-1]), int(epoch[-1])
        yield epoch, start, length
    if rows is not None and end != rows:
        raise ConventionError(f"{where}: {count:,} entries end at row {end:,} of {rows:,}; build the index again")


def _expected(i: int, before: int, stop: int, rows: int | None) -> str:
    """Return a description of the expected entry."""
    rise = f"an epoch after {before}, " if i else ""
    room = "a length of one or more" if rows is None else f"a length of 1 to {rows - stop:,}"
    return f"{rise}start {stop:,} and {room}"
