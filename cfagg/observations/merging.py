"""Many sorted runs become one order of rows: what can be taken as it is, and what must be merged first.

The rows of all runs are cut at the first and the last row of every run.  Between two cuts most often there are rows of
one run only, which are taken where they are.  Others are merged, in portions that fit in memory.  Cuts are made by
whole rows, so that equal rows always come together and are met once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from cfagg.observations.sorting import sort_unique
from cfagg.observations.spill import Piece, Run, write_run

__all__ = ["Portion", "merge_portion", "plan_merge"]

type Rows = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Portion:
    """Rows between two cuts.

    Parameters
    ----------
    pieces : tuple of Piece
        Where they are, one piece for each run that has some.
    """

    pieces: tuple[Piece, ...]

    @property
    def rows(self) -> int:
        """Number of rows, equal ones counted."""
        return sum(len(p) for p in self.pieces)


def plan_merge(runs: Sequence[Run], most: int) -> list[Portion]:
    """Return portions of rows in order.

    Parameters
    ----------
    runs : sequence of Run
        Sorted runs without equal rows in one; rows of different runs may be equal.
    most : int
        Rows that may be merged at once, where there are cuts to keep to it.
    """
    runs = [r for r in runs if r.rows]
    if not runs:
        return []
    rows = [r.mapped() for r in runs]
    cuts = _cuts(rows)
    # Numbers of the cuts between which each run lies.
    first = [_place(cuts, r[:1], 0) for r in rows]
    last = [_place(cuts, r[-1:], 1) for r in rows]
    active: list[list[int]] = [[] for _ in range(len(cuts))]
    for k, (a, b) in enumerate(zip(first, last, strict=True)):
        for i in range(a, b):
            active[i].append(k)
    at = [0] * len(runs)
    portions: list[Portion] = []
    for i, members in enumerate(active):
        ends = [_find(rows[k], cuts[i + 1]) for k in members]
        spans = [(k, at[k], end) for k, end in zip(members, ends, strict=True) if end > at[k]]
        for k, _, end in spans:
            at[k] = end
        portions += _split(runs, rows, spans, most)
    return portions


def merge_portion(portion: Portion, path: Path) -> Run:
    """Merge the rows of a portion into a run, each distinct row once."""
    from cfagg.kernels.rows import merge_runs

    lengths = [len(p) for p in portion.pieces]
    bounds = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    source = portion.pieces[0].source
    columns = source.columns if isinstance(source, Run) else 0
    rows = np.empty((int(bounds[-1]), columns), np.float32)
    for piece, start, stop in zip(portion.pieces, bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        piece.source.read(piece.start, piece.stop, rows[start:stop])
    out = np.empty_like(rows)
    return write_run(path, out[: merge_runs(rows, bounds, out)])


def _cuts(rows: Sequence[Rows]) -> Rows:
    """Return cuts in order: a row, and in one more column whether the cut is after the rows equal to it."""
    ends = np.concatenate([r[[0, -1]] for r in rows])
    after = np.tile(np.array([[0], [1]], np.float32), (len(rows), 1))
    return sort_unique(np.concatenate([ends, after], axis=1))


def _place(cuts: Rows, row: Rows, after: int) -> int:
    """Return the number of a cut."""
    from cfagg.kernels.rows import lower_bound

    return int(lower_bound(cuts, np.concatenate([row, np.array([[after]], np.float32)], axis=1), False))


def _find(rows: Rows, cut: Rows) -> int:
    """Return how many rows are before a cut."""
    from cfagg.kernels.rows import lower_bound

    return int(lower_bound(rows, np.ascontiguousarray(cut[None, :-1]), bool(cut[-1])))


def _split(runs: Sequence[Run], rows: Sequence[Rows], spans: list[tuple[int, int, int]], most: int) -> list[Portion]:
    """Return the rows between two cuts as portions that are not too large."""
    total = sum(b - a for _, a, b in spans)
    if len(spans) <= 1 or total <= most:
        return [Portion(tuple(Piece(runs[k], a, b) for k, a, b in spans))] if spans else []
    # Between two of the samples there are no more rows of a run than the step.
    step = max(1, most // len(spans))
    samples = np.concatenate([rows[k][a + step : b : step] for k, a, b in spans])
    portions = []
    for row in [*sort_unique(np.array(samples)), None]:
        part = []
        for i, (k, a, b) in enumerate(spans):
            end = b if row is None else a + _find(rows[k][a:b], np.append(row, np.float32(0)))
            if end > a:
                part.append(Piece(runs[k], a, end))
            spans[i] = (k, end, b)
        if part:
            portions.append(Portion(tuple(part)))
    return portions
