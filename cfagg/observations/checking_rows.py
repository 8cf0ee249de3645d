"""Rules that the rows of a store keep: order, no duplicates, dates, places."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["BREACHES", "RowRules", "Tally", "compared"]

type Floats = npt.NDArray[np.float32]
type Mask = npt.NDArray[np.bool_]

#: What is told of rows that break a rule: the column, and what is wrong.
BREACHES = {
    "OBS011": ("", "rows are not in the order of all their columns"),
    "OBS012": ("", "duplicate rows"),
    "OBS013": ("date ", "dates are not whole days since 1970"),
    "OBS014": ("time ", "times are not whole seconds of a day"),
    "OBS015": ("latitude ", "latitudes outside -90 to 90"),
    "OBS016": ("longitude ", "longitudes below 0, or 360 and above"),
}

#: So many rows are named of each rule.
NAMED = 5

_DAY = 86400
#: Days since 1970 that can be meant: whole float32 numbers below 2**24 have exact neighbours.
_MOST_DAYS = 2**24


@dataclass
class Tally:
    """Rows that break one rule.

    Parameters
    ----------
    count : int
        How many were found.
    rows : list of int
        The first of them.
    texts : list of str
        What was found there.
    """

    count: int = 0
    rows: list[int] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)

    def add(self, wrong: Mask, start: int, text: Callable[[int], str]) -> None:
        """Add the rows of a block where `wrong` is true; `text` says of a row of the block what was found."""
        if not wrong.any():
            return
        at = np.flatnonzero(wrong)
        self.count += len(at)
        for i in at[: NAMED - len(self.rows)].tolist():
            self.rows.append(start + i)
            self.texts.append(text(i))


def compared(rows: Floats, before: Floats) -> npt.NDArray[np.int8]:
    """Return how rows compare with others in lexicographic order.

    Parameters
    ----------
    rows, before : float32 arrays, shape (n, c)
        NaN is above all numbers, and one NaN is as large as another; -0.0 is 0.0.

    Returns
    -------
    int8 array, shape (n,)
        1 where the row is above the other, 0 where they are equal, -1 where it is below.

    Examples
    --------
    >>> compared(np.array([[1, 2], [1, np.nan], [1, 2]], "f4"), np.array([[1, 2], [1, 5], [1, np.nan]], "f4"))
    array([ 0,  1, -1], dtype=int8)
    """
    found = np.zeros(len(rows), np.int8)
    # Few rows are equal in their first columns, so each column is looked at for fewer rows.
    left = np.arange(len(rows))
    for j in range(rows.shape[1]):
        a, b = rows[left, j], before[left, j]
        above = (a > b) | (np.isnan(a) & ~np.isnan(b))
        below = (a < b) | (np.isnan(b) & ~np.isnan(a))
        found[left[above]] = 1
        found[left[below]] = -1
        left = left[~(above | below)]
        if not left.size:
            break
    return found


class RowRules:
    """Checks blocks of rows and counts what breaks a rule.

    Attributes
    ----------
    tallies : dict of str to Tally
        By the code of the rule.
    checked : int
        Rows looked at.

    Examples
    --------
    >>> rules = RowRules()
    >>> rules.check(np.array([[0, 0, 10, 360, 1], [0, 0, 10, 20, 1]], "f4"), 0)
    >>> {code: (tally.rows, tally.texts) for code, tally in rules.tallies.items() if tally.count}
    {'OBS011': ([1], ['it sorts before row 0']), 'OBS016': ([0], ['360.0'])}
    """

    def __init__(self) -> None:
        self.tallies = {code: Tally() for code in BREACHES}
        self.checked = 0

    def check(self, block: Floats, start: int, before: Floats | None = None) -> None:
        """Check rows.

        Parameters
        ----------
        block : float32 array, shape (n, 4 + variables)
            Rows of the store.
        start : int
            Number of the first of them.
        before : float32 array, shape (1, 4 + variables), optional
            The row before the first; `None` where there is none.
        """
        self.checked += len(block)
        if not len(block):
            return
        self._order(block, start, before)
        day, second, latitude, longitude = (block[:, j] for j in range(4))
        with np.errstate(invalid="ignore"):
            whole_day = (np.abs(day) < _MOST_DAYS) & (day == np.floor(day))
            whole_second = (second >= 0) & (second < _DAY) & (second == np.floor(second))
            self._add("OBS013", ~whole_day, start, day)
            self._add("OBS014", ~whole_second, start, second)
            self._add("OBS015", ~(np.abs(latitude) <= 90), start, latitude)
            self._add("OBS016", ~((longitude >= 0) & (longitude < 360)), start, longitude)

    def _add(self, code: str, wrong: Mask, start: int, values: npt.NDArray[Any]) -> None:
        self.tallies[code].add(wrong, start, lambda i: str(values[i]))

    def _order(self, block: Floats, start: int, before: Floats | None) -> None:
        if before is None:
            order, first = compared(block[1:], block[:-1]), start + 1
        else:
            order, first = compared(block, np.concatenate([before, block[:-1]])), start
        self.tallies["OBS011"].add(order < 0, first, lambda i: f"it sorts before row {first + i - 1:,}")
        self.tallies["OBS012"].add(order == 0, first, lambda i: f"it equals row {first + i - 1:,}")
