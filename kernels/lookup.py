"""Rows by date: entries of sorted rows.

An entry is an epoch, the first row that has it, and the number of rows that do.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["entries_of_rows", "epochs_of_rows"]

Int64 = npt.NDArray[np.int64]


def epochs_of_rows(rows: npt.NDArray[np.float32]) -> Int64:
    """Return seconds since 1970 of rows of observations.

    Parameters
    ----------
    rows : float32 array, shape (n, 2 or more)
        Days since 1970 and seconds of the day, then anything.

    Returns
    -------
    int64 array, shape (n,)

    Examples
    --------
    >>> epochs_of_rows(np.array([[1, 30], [-1, 0]], "f4"))
    array([ 86430, -86400])
    """
    epoch = rows[:, 0].astype(np.int64)
    epoch *= 86400
    epoch += rows[:, 1].astype(np.int64)
    return epoch


def entries_of_rows(rows: npt.NDArray[np.float32], start: int = 0) -> tuple[Int64, Int64, Int64]:
    """Return the entries of consecutive sorted rows.

    Parameters
    ----------
    rows : float32 array, shape (n, 2 or more)
        Days since 1970 and seconds of the day, then anything; sorted by them.
    start : int
        Number of the first of these rows.

    Returns
    -------
    epoch, start, length : int64 arrays
        One entry for each run of rows of the same date.

    Examples
    --------
    >>> rows = np.array([[0, 5, 1], [0, 5, 2], [0, 7, 1]], "f4")
    >>> [column.tolist() for column in entries_of_rows(rows, 100)]
    [[5, 7], [100, 102], [2, 1]]
    """
    if not len(rows):
        return np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int64)
    epoch = epochs_of_rows(rows)
    new = np.flatnonzero(epoch[1:] != epoch[:-1]) + 1
    first = np.concatenate([np.zeros(1, np.int64), new])
    length = np.diff(first, append=len(rows))
    return epoch[first], first + start, length
