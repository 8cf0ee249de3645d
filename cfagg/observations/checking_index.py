"""Whether the entries of an index are those of the rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from cfagg.cf.instants import epoch_text

if TYPE_CHECKING:
    from cfagg.observations.indexes.protocol import Entries, Index

__all__ = ["EntryCheck", "Runs", "compare_part", "runs_of"]

type Int64 = npt.NDArray[np.int64]
type Floats = npt.NDArray[np.float32]

#: Bound on days, so that rows with senseless ones still have some epoch.
_MOST_DAYS = 2**40


def runs_of(block: Floats, start: int) -> Int64:
    """Return the runs of rows with one date, int64 (k, 3): epoch, first row and number of rows."""
    # What is not a number counts as 0.
    if not len(block):
        return np.empty((0, 3), np.int64)
    numbers = np.nan_to_num(block[:, :2].astype(np.float64), nan=0.0)
    day, second = np.clip(numbers, -_MOST_DAYS, _MOST_DAYS).astype(np.int64).T
    epochs = day * 86400 + second
    first = np.flatnonzero(np.concatenate([[True], epochs[1:] != epochs[:-1]]))
    return np.stack([epochs[first], first + start, np.diff(first, append=len(block))], axis=1)


class Runs:
    """Runs of consecutive blocks; those cut by the end of a block go on in the next."""

    def __init__(self) -> None:
        self._open = np.empty((0, 3), np.int64)

    def feed(self, block: Floats, start: int) -> Int64:
        """Return the runs that are complete with this block, shape (k, 3)."""
        found = runs_of(block, start)
        if not len(found):
            return found
        if len(self._open):
            if self._open[0, 0] == found[0, 0]:
                found[0] = found[0, 0], self._open[0, 1], self._open[0, 2] + found[0, 2]
            else:
                found = np.concatenate([self._open, found])
        self._open = found[-1:].copy()
        return found[:-1]

    def close(self) -> Int64:
        """Return the last run, shape (0, 3) or (1, 3)."""
        return self._open


class EntryCheck:
    """Compares all entries of an index with all runs of rows, as both come; `row` is -1 where no row is wrong."""

    def __init__(self, blocks: Iterator[Entries]) -> None:
        self.problem = ""
        self.row = -1
        self._blocks = blocks
        self._left = np.empty((0, 3), np.int64)
        self._number = 0

    def feed(self, runs: Int64) -> None:
        """Compare the next entries with runs, shape (k, 3)."""
        while len(runs) and not self.problem:
            if not self._fill():
                epoch, start, length = runs[0].tolist()
                self._say(start, f"ends after {self._number:,} entries; expected one {_text(epoch, start, length)}")
                return
            n = min(len(runs), len(self._left))
            wrong = (self._left[:n] != runs[:n]).any(axis=1)
            if wrong.any():
                i = int(np.argmax(wrong))
                found, expected = _text(*self._left[i].tolist()), _text(*runs[i].tolist())
                said = f"entry {self._number + i:,} is {found}; the rows are {expected}"
                self._say(int(runs[i, 1]), said)
                return
            runs, self._left = runs[n:], self._left[n:]
            self._number += n

    def close(self) -> None:
        """Look for entries beyond the rows."""
        if not self.problem and self._fill():
            said = f"entry {self._number:,} is {_text(*self._left[0].tolist())}, beyond the last row"
            self._say(-1, said)

    def _say(self, row: int, problem: str) -> None:
        self.row, self.problem = row, problem

    def _fill(self) -> bool:
        """Get more entries where none is left, and tell whether there are."""
        while not len(self._left):
            block = next(self._blocks, None)
            if block is None:
                return False
            self._left = np.stack([np.asarray(c, np.int64) for c in block], axis=1)
        return True


def compare_part(index: Index, runs: Int64, *, whole_start: bool, whole_end: bool) -> tuple[int, str] | None:
    """Compare the entries of an index with the runs of some rows; return a row and what is wrong."""
    # The first and the last run are left out where the choice of rows cuts them.
    runs = runs[0 if whole_start else 1 : len(runs) if whole_end else len(runs) - 1]
    if not len(runs):
        return None
    epochs = runs[:, 0]
    if (np.diff(epochs) <= 0).any():
        return None  # rows out of order are told as such
    entries = np.stack(index.entries_between(int(epochs[0]), int(epochs[-1]) + 1), axis=1)
    if np.array_equal(entries, runs):
        return None
    n = min(len(entries), len(runs))
    wrong: npt.NDArray[Any] = (entries[:n] != runs[:n]).any(axis=1)
    i = int(np.argmax(wrong)) if wrong.any() else n
    expected = f"one {_text(*runs[i].tolist())}" if i < len(runs) else "none"
    found = f"one {_text(*entries[i].tolist())}" if i < len(entries) else "none"
    at = int(runs[min(i, len(runs) - 1), 1])
    return at, f"it has {found} where the rows have {expected}"


def _text(epoch: int, start: int, length: int) -> str:
    """Return an entry in words."""
    try:
        date = epoch_text(epoch)
    except (OverflowError, ValueError):
        date = f"epoch {epoch}"
    return f"({date}, rows {start:,} to {start + length - 1:,})"
