"""Entries of rows that come in blocks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt

from cfagg.kernels.lookup import entries_of_rows
from cfagg.observations.indexes.protocol import Entries

__all__ = ["entries_of_blocks", "joined"]


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
