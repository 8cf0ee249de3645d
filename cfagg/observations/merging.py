"""Many sorted runs become one order of rows: what can be taken as it is, and what must be merged first.

The rows of all runs are cut at the first and the last row of every run.  Between two cuts most often there are rows of
one run only, which are taken where they are.  Others are merged, in portions that fit in memory.  Cuts are made by
whole rows, so that equal rows always come together and are met once.
"""

from __future__ import annotations

import mmap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from cfagg.observations.spill import RowRange, Run, write_run

__all__ = ["Portion", "disorder", "merge_portion", "plan_merge", "sort_unique"]

type Rows = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Portion:
    """Rows between two cuts."""

    ranges: tuple[RowRange, ...]

    @property
    def rows(self) -> int:
        """Number of rows, equal ones counted."""
        return sum(len(p) for p in self.ranges)


def plan_merge(runs: Sequence[Run], most: int) -> list[Portion]:
    """Return portions of the rows of sorted runs, in order; of `most` rows where there are cuts for it."""
    runs = [r for r in runs if r.rows]
    if not runs:
        return []
    searched = _Searched(runs)
    cuts = _cuts(searched)
    # Numbers of the cuts between which each run lies.
    active: list[list[int]] = [[] for _ in range(len(cuts))]
    for k in range(len(runs)):
        for i in range(_place(cuts, searched.row(k, 0), 0), _place(cuts, searched.row(k, -1), 1)):
            active[i].append(k)
    at = [0] * len(runs)
    portions: list[Portion] = []
    for i, members in enumerate(active):
        spans = []
        for k in members:
            end = searched.find(k, at[k], cuts[i + 1])
            if end > at[k]:
                spans.append((k, at[k], end))
            at[k] = end
        portions += _split(runs, searched, spans, most)
    return portions


def merge_portion(portion: Portion, path: Path) -> Run:
    """Merge the rows of a portion into a run, each distinct row once."""
    from cfagg.kernels.rows import merge_runs

    lengths = [len(p) for p in portion.ranges]
    bounds = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    source = portion.ranges[0].source
    columns = source.columns if isinstance(source, Run) else 0
    rows = np.empty((int(bounds[-1]), columns), np.float32)
    for span, start, stop in zip(portion.ranges, bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        span.source.read(span.start, span.stop, rows[start:stop])
    out = np.empty_like(rows)
    return write_run(path, out[: merge_runs(rows, bounds, out)])


class _Searched:
    """Runs in which rows are looked for, without keeping them in memory."""

    #: After so many searches the pages that they touched are given back; one may be two megabytes.
    _PATIENCE = 16

    def __init__(self, runs: Sequence[Run]) -> None:
        self._rows = [r.mapped() for r in runs]
        self._touched: list[int] = []

    def __len__(self) -> int:
        return len(self._rows)

    def row(self, k: int, number: int) -> Rows:
        """Return a row, shape (1, columns); of negative number from the end."""
        self._touch(k)
        rows = self._rows[k]
        return np.array(rows[number % len(rows)][None])

    def find(self, k: int, start: int, cut: Rows) -> int:
        """Return how many rows of a run are before a cut, `start` of which are known to be."""
        from cfagg.kernels.rows import lower_bound

        self._touch(k)
        return int(lower_bound(self._rows[k], np.ascontiguousarray(cut[None, :-1]), bool(cut[-1]), start))

    def _touch(self, k: int) -> None:
        self._touched.append(k)
        if len(self._touched) < self._PATIENCE:
            return
        for held in (getattr(self._rows[t], "_mmap", None) for t in set(self._touched)):
            if held is not None and hasattr(mmap, "MADV_DONTNEED"):
                held.madvise(mmap.MADV_DONTNEED)
        self._touched.clear()


def _cuts(runs: _Searched) -> Rows:
    """Return cuts in order: a row, and in one more column whether the cut is after the rows equal to it."""
    ends = np.concatenate([runs.row(k, end) for k in range(len(runs)) for end in (0, -1)])
    after = np.tile(np.array([[0], [1]], np.float32), (len(runs), 1))
    return sort_unique(np.concatenate([ends, after], axis=1))


def _place(cuts: Rows, row: Rows, after: int) -> int:
    """Return the number of a cut."""
    from cfagg.kernels.rows import lower_bound

    return int(lower_bound(cuts, np.concatenate([row, np.array([[after]], np.float32)], axis=1), False, 0))


def _split(runs: Sequence[Run], searched: _Searched, spans: list[tuple[int, int, int]], most: int) -> list[Portion]:
    """Return the rows between two cuts as portions that are not too large."""
    total = sum(b - a for _, a, b in spans)
    if len(spans) <= 1 or total <= most:
        return [Portion(tuple(RowRange(runs[k], a, b) for k, a, b in spans))] if spans else []
    # Between two of the samples there are no more rows of a run than the step.
    step = max(1, most // len(spans))
    samples = [searched.row(k, i) for k, a, b in spans for i in range(a + step, b, step)]
    cuts: list[Rows | None] = [*sort_unique(np.concatenate(samples))] if samples else []
    portions = []
    for row in [*cuts, None]:
        part = []
        for i, (k, a, b) in enumerate(spans):
            end = b if row is None else min(b, searched.find(k, a, np.append(row, np.float32(0))))
            if end > a:
                part.append(RowRange(runs[k], a, end))
            spans[i] = (k, end, b)
        if part:
            portions.append(Portion(tuple(part)))
    return portions


def disorder(rows: Rows, last: Rows | None = None) -> int | None:
    """Return the first row that is not after the one before it (`last` before the first); `None` where all are."""
    from cfagg.kernels.rows import first_disorder

    if last is not None and len(rows) and first_disorder(np.concatenate([last, rows[:1]])) >= 0:
        return 0
    found = int(first_disorder(rows))
    return None if found < 0 else found


def sort_unique(rows: Rows) -> Rows:
    """Return rows sorted by all columns, each distinct one once; -0.0 and NaN are normalised in place."""
    from cfagg.kernels import rows as kernel

    kernel.normalise(rows)
    if kernel.first_disorder(rows) < 0:
        return rows
    keys = np.empty(len(rows), np.int64)
    kernel.sort_keys(rows, keys)
    # NumPy's sort is quick on what is sorted in parts and on what is not; only ties are left.
    order = np.argsort(keys, kind="stable" if _mostly_sorted(keys) else "quicksort")
    kernel.sort_order(rows, keys, order)
    out = np.empty_like(rows)
    return out[: kernel.take_unique(rows, order, out)]


def _mostly_sorted(keys: npt.NDArray[np.int64]) -> bool:
    sample = keys[: 1 << 14]
    return bool((np.diff(sample) >= 0).mean() > 0.9) if len(sample) > 1 else True
