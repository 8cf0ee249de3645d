"""The comparisons of a check: rows with their rules, index entries with rows, statistics with rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from cfagg.cf.instants import epoch_text
from cfagg.errors import OptionError, SelectionError
from cfagg.findings.finding import Finding
from cfagg.observations.dates import first_second, last_second
from cfagg.observations.findings import finding_of

if TYPE_CHECKING:
    from cfagg.observations.indexes.protocol import Entries, Index
    from cfagg.observations.statistics import Accumulator
    from cfagg.observations.store import ObservationStore

__all__ = [
    "BREACHES", "EntryCheck", "RowRules", "chosen_range", "compare_part", "compare_statistics", "compared",
    "plausible_statistics", "runs_of",
]  # fmt: skip

type Floats = npt.NDArray[np.float32]
type Mask = npt.NDArray[np.bool_]

#: For messages about rows that break a rule: the column and the problem.
BREACHES = {
    "OBS011": ("", "rows are not in the order of all their columns"),
    "OBS012": ("", "duplicate rows"),
    "OBS013": ("date ", "dates are not whole days since 1970"),
    "OBS014": ("time ", "times are not whole seconds of a day"),
    "OBS015": ("latitude ", "latitudes outside -90 to 90"),
    "OBS016": ("longitude ", "longitudes below 0, or 360 and above"),
}

#: Number of rows that are named for each rule.
NAMED = 5

_DAY = 86400
#: Bound on days since 1970: float32 represents integers exactly below 2**24.
_MOST_DAYS = 2**24


@dataclass
class Tally:
    """Rows that break one rule."""

    count: int = 0
    rows: list[int] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)

    def add(self, wrong: Mask, start: int, text: Callable[[int], str]) -> None:
        """Add the rows of a block where `wrong` is true; `text` describes the value of a row."""
        if not wrong.any():
            return
        at = np.flatnonzero(wrong)
        self.count += len(at)
        for i in at[: NAMED - len(self.rows)].tolist():
            self.rows.append(start + i)
            self.texts.append(text(i))


def compared(rows: Floats, before: Floats) -> npt.NDArray[np.int8]:
    """Return 1, 0 or -1 for rows above, equal to or below others, in lexicographic order."""
    # NaN is above all numbers and equal to itself; -0.0 equals 0.0.
    found = np.zeros(len(rows), np.int8)
    # Few rows are equal in their first columns, so each further column is compared for fewer rows.
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
    """Checks blocks of rows and tallies violations by the code of the rule."""

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


type Int64 = npt.NDArray[np.int64]

#: Bound on days, so that rows with nonsensical days still have an epoch.
_SENSELESS_DAYS = 2**40


def runs_of(block: Floats, start: int) -> Int64:
    """Return the runs of rows with one date, int64 (k, 3): epoch, first row and number of rows."""
    # NaN counts as 0.
    if not len(block):
        return np.empty((0, 3), np.int64)
    numbers = np.nan_to_num(block[:, :2].astype(np.float64), nan=0.0)
    day, second = np.clip(numbers, -_SENSELESS_DAYS, _SENSELESS_DAYS).astype(np.int64).T
    epochs = day * 86400 + second
    first = np.flatnonzero(np.concatenate([[True], epochs[1:] != epochs[:-1]]))
    return np.stack([epochs[first], first + start, np.diff(first, append=len(block))], axis=1)


class EntryCheck:
    """Compares the entries of an index with successive runs of rows; `row` is -1 if no row is wrong."""

    def __init__(self, blocks: Iterator[Entries]) -> None:
        self.problem = ""
        self.row = -1
        self._blocks = blocks
        self._left = np.empty((0, 3), np.int64)

    def feed(self, runs: Int64) -> None:
        """Compare the next entries with runs, shape (k, 3)."""
        while len(runs) and not self.problem:
            there = self._fill()
            n = min(len(runs), len(self._left))
            wrong = (self._left[:n] != runs[:n]).any(axis=1)
            if wrong.any() or not there:
                i = int(np.argmax(wrong)) if there else 0
                found = _text(*self._left[i].tolist()) if there else "none"
                self.row = int(runs[i, 1])
                self.problem = f"the rows have an entry {_text(*runs[i].tolist())}, but the index has {found}"
            runs, self._left = runs[n:], self._left[n:]

    def close(self) -> None:
        """Search for entries beyond the rows."""
        if not self.problem and self._fill():
            self.problem = f"the index has an entry {_text(*self._left[0].tolist())}, but the rows have none"

    def _fill(self) -> bool:
        """Get more entries if none are left, and return whether there are any."""
        while not len(self._left):
            block = next(self._blocks, None)
            if block is None:
                return False
            self._left = np.stack([np.asarray(c, np.int64) for c in block], axis=1)
        return True


def compare_part(index: Index, runs: Int64, *, whole_start: bool, whole_end: bool) -> EntryCheck | None:
    """Compare the entries of an index with the runs of some rows, or return `None` if there is nothing to compare."""
    # The first and last run are left out if the choice of rows cuts them.
    runs = runs[0 if whole_start else 1 : len(runs) if whole_end else len(runs) - 1]
    epochs = runs[:, 0]
    if not len(runs) or (np.diff(epochs) <= 0).any():
        return None  # rows out of order are reported by another rule
    check = EntryCheck(iter([index.entries_between(int(epochs[0]), int(epochs[-1]) + 1)]))
    check.feed(runs)
    check.close()
    return check


def _text(epoch: int, start: int, length: int) -> str:
    """Return an entry in words."""
    try:
        date = epoch_text(epoch)
    except (OverflowError, ValueError):
        date = f"epoch {epoch}"
    return f"({date}, rows {start:,} to {start + length - 1:,})"


type Values = Mapping[str, npt.NDArray[Any]]

#: Relative tolerance for means and standard deviations of other software.
_TOLERANCE = 1e-6
#: Arrays of a store of the published software.
_EXPECTED = ("mean", "minimum", "maximum", "stdev")


def chosen_range(store: ObservationStore, index: Index | None) -> tuple[int, int] | None:
    """Return the rows that a store declares for its statistics, else all, or `None` if they are unclear."""
    given = store.attributes.all.get("statistics_rows")
    if given is not None:
        fits = isinstance(given, list) and len(given) == 2 and all(type(n) is int for n in given)
        return (given[0], given[1]) if fits and 0 <= given[0] <= given[1] <= store.rows else None
    start, end = store.attributes.statistics_start_date, store.attributes.statistics_end_date
    if start is None and end is None:
        return 0, store.rows
    if index is None:
        return None
    try:
        lo = -(2**62) if start is None else first_second(start)
        hi = 2**62 if end is None else last_second(end) + 1
    except (OptionError, SelectionError):
        return None
    return index.find(lo, max(lo, hi))


def compare_statistics(store: ObservationStore, found: Accumulator) -> list[Finding]:
    """Return which statistics differ from those of the rows; means and deviations may differ by rounding."""
    findings: list[Finding] = []
    expected = found.result()
    size = np.nan_to_num(np.abs(expected["mean"]), nan=0, posinf=0) + np.nan_to_num(expected["stdev"], nan=0)
    for name, stored in store.statistics.items():
        right = np.asarray(expected[name], np.float64)
        with np.errstate(invalid="ignore"):
            near = np.abs(stored - right) <= (_TOLERANCE * size if name in ("mean", "stdev") else 0)
        same = near | (stored == right) | (np.isnan(stored) & np.isnan(right))
        if name == "stdev":
            # Infinite values have no standard deviation, though other software may store one.
            same |= np.isinf(expected["mean"])
        wrong = np.flatnonzero(~same).tolist()
        if wrong:
            said = [f"{store.variables[i]} {stored[i]:.9g}, of its rows {right[i]:.9g}" for i in wrong[:5]]
            more = f"; and {len(wrong) - 5} more variables" if len(wrong) > 5 else ""
            findings.append(finding_of("OBS031", f"statistics.{name}", "; ".join(said) + more))
    return findings


def plausible_statistics(store: ObservationStore) -> list[Finding]:
    """Return which statistics are absent or impossible, without reading rows."""
    given: Values = store.statistics
    absent = [name for name in _EXPECTED if name not in given]
    findings = [finding_of("OBS032", "statistics", f"the store has no {', '.join(absent)}")] if absent else []
    first, stop = chosen_range(store, None) or (0, store.rows)
    if not absent and first == stop and store.rows:
        said = "they are those of no row; give statistics= when the store is opened, or build it with others"
        findings.append(finding_of("OBS032", "statistics", said))
    rules: list[tuple[str, npt.NDArray[np.bool_], str]] = []
    if not absent:
        mean, low, high, stdev = (given[name] for name in _EXPECTED)
        slack = _TOLERANCE * np.nan_to_num(np.maximum(np.abs(low), np.abs(high)), nan=0, posinf=0)
        with np.errstate(invalid="ignore"):
            rules += [
                ("minimum", low > high, "is above the maximum"),
                ("mean", (mean < low - slack) | (mean > high + slack), "is not between minimum and maximum"),
                ("stdev", (stdev < 0) | (stdev > (high - low) / 2 + slack), "is impossible with these extremes"),
            ]
    if "nan_count" in given:
        count = given["nan_count"]
        rules.append(("nan_count", ~((count >= 0) & (count <= store.rows)), f"is not 0 to {store.rows:,}"))
    for name, wrong, said in rules:
        for i in np.flatnonzero(wrong)[:5].tolist():
            value = f"{given[name][i]:.9g}"
            findings.append(finding_of("OBS031", f"statistics.{name}", f"{value} of {store.variables[i]} {said}"))
    return findings
