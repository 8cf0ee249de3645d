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
    """Rows that break one rule."""

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
    """Return 1, 0 or -1 for rows above, equal to or below others, in lexicographic order."""
    # NaN is above all numbers, and one NaN is as large as another; -0.0 is 0.0.
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
    """Checks blocks of rows and tallies what breaks a rule, by the code of the rule."""

    def __init__(self) -> None:
        self.tallies = {code: Tally() for code in BREACHES}
        self.checked = 0

    def check(self, block: Floats, start: int, before: Floats | None = None) -> None:
        """Check rows, float32 (n, 4 + variables), from number `start` on; `before` is the row before them."""
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
