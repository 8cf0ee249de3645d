"""Sorted runs of rows in files, and merging them into one sequence of distinct rows in bounded memory."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from cfagg.errors import FragmentReadError, TargetError
from cfagg.formats.fastzlib import crc32
from cfagg.kernels.lookup import epochs_of_rows
from cfagg.observations.layouts import write_bytes, write_document
from cfagg.runtime.publishing import public_name, read_own

__all__ = [
    "Portion", "RowRange", "RowTable", "Run", "merge_portion", "plan_merge", "read_record", "sort_unique",
    "write_record", "write_run",
]  # fmt: skip

type Rows = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Portion:
    """Rows between two cuts."""

    ranges: tuple[RowRange, ...]

    @property
    def rows(self) -> int:
        """Number of rows, including duplicates."""
        return sum(len(p) for p in self.ranges)


def plan_merge(runs: Sequence[Run], most: int) -> list[Portion]:
    """Return portions of the rows of sorted runs, in order, of at most `most` rows if the cuts allow it."""
    runs = [r for r in runs if r.rows]
    if not runs:
        return []
    searched = _Searched(runs)
    cuts = _cuts(searched)
    # Run by run, each of which is mapped once.
    between: list[list[tuple[int, int, int]]] = [[] for _ in range(len(cuts))]
    for k in range(len(runs)):
        start = 0
        for i in range(_place(cuts, searched.row(k, 0), 0), _place(cuts, searched.row(k, -1), 1)):
            end = searched.find(k, start, cuts[i + 1])
            if end > start:
                between[i].append((k, start, end))
            start = end
    portions: list[Portion] = []
    for spans in between:
        portions += _split(runs, searched, spans, most)
    return portions


def merge_portion(portion: Portion, path: Path) -> Run:
    """Merge the rows of a portion into a run of distinct rows."""
    from cfagg.kernels.rows import merge_runs

    bounds = np.concatenate([[0], np.cumsum([len(p) for p in portion.ranges])]).astype(np.int64)
    rows = np.concatenate([p.source.read(p.start, p.stop) for p in portion.ranges])
    out = np.empty_like(rows)
    return write_run(path, out[: merge_runs(rows, bounds, out)])


class _Searched:
    """Runs that are searched without keeping them in memory."""

    #: Number of searches after which runs are mapped anew: a map takes a file descriptor, of which there may be fewer
    #: than runs, and keeps the pages that were touched, each of which may be two megabytes.
    _PATIENCE = 16

    def __init__(self, runs: Sequence[Run]) -> None:
        self._runs = runs
        self._maps: dict[int, Rows] = {}
        self._searches = 0

    def __len__(self) -> int:
        return len(self._runs)

    def row(self, k: int, number: int) -> Rows:
        """Return a row, shape (1, columns); negative numbers count from the end."""
        rows = self._rows(k)
        return np.array(rows[number % len(rows)][None])

    def find(self, k: int, start: int, cut: Rows) -> int:
        """Return the number of rows of a run before a cut, which is known to be at least `start`."""
        from cfagg.kernels.rows import lower_bound

        return int(lower_bound(self._rows(k), np.ascontiguousarray(cut[None, :-1]), bool(cut[-1]), start))

    def _rows(self, k: int) -> Rows:
        if self._searches % self._PATIENCE == 0:
            self._maps.clear()
        self._searches += 1
        if k not in self._maps:
            self._maps[k] = self._runs[k].mapped()
        return self._maps[k]


def _cuts(runs: _Searched) -> Rows:
    """Return cuts in order: a row, and in a further column whether the cut is after the rows equal to it."""
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
    # Between two samples of a run there are at most as many rows as the step.
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


def sort_unique(rows: Rows) -> Rows:
    """Return the distinct rows sorted by all columns; -0.0 and NaN are normalised in place."""
    from cfagg.kernels import rows as kernel

    kernel.normalise(rows)
    if kernel.first_disorder(rows) < 0:
        return rows
    keys = np.empty(len(rows), np.int64)
    kernel.sort_keys(rows, keys)
    # NumPy sorts the keys, stably if they are mostly sorted; only ties remain.
    order = np.argsort(keys, kind="stable" if _mostly_sorted(keys) else "quicksort")
    kernel.sort_order(rows, keys, order)
    out = np.empty_like(rows)
    return out[: kernel.take_unique(rows, order, out)]


def _mostly_sorted(keys: npt.NDArray[np.int64]) -> bool:
    sample = keys[: 1 << 14]
    return bool((np.diff(sample) >= 0).mean() > 0.9) if len(sample) > 1 else True


class RowSource(Protocol):
    """Sorted rows that can be read by number."""

    def read(self, start: int, stop: int) -> Rows:
        """Return rows, shape (stop - start, columns)."""


@dataclass(frozen=True)
class Run:
    """A file of sorted, distinct rows."""

    path: Path
    rows: int
    columns: int
    #: CRC-32 of its bytes.
    checksum: int

    def read(self, start: int, stop: int) -> Rows:
        """Return rows, shape (stop - start, columns)."""
        count, offset = (stop - start) * self.columns, 4 * self.columns * start
        found = np.fromfile(self.path, np.float32, count, offset=offset)
        if len(found) < count:
            raise FragmentReadError(f"{self.path} ends early; start the build again with overwrite=True")
        return found.reshape(-1, self.columns)

    def mapped(self) -> Rows:
        """Return the rows, mapped from the file."""
        if not self.rows:
            return np.empty((0, self.columns), np.float32)
        return np.memmap(self.path, np.float32, "r", shape=(self.rows, self.columns))

    def whole(self) -> bool:
        """Whether the file exists and has the content that was written."""
        try:
            if self.path.stat().st_size != 4 * self.rows * self.columns:
                return False
            found = 0
            with self.path.open("rb") as file:
                while block := file.read(1 << 22):
                    found = crc32(block, found)
        except OSError:
            return False
        return found == self.checksum

    def to_json(self) -> dict[str, Any]:
        """Return the entry of the run in a record."""
        return {"file": self.path.name, "rows": self.rows, "columns": self.columns, "crc": self.checksum}

    @classmethod
    def from_json(cls, folder: Path, found: Mapping[str, Any]) -> Run:
        """Return the run described by an entry of a record."""
        return cls(folder / str(found["file"]), int(found["rows"]), int(found["columns"]), int(found["crc"]))


@dataclass(frozen=True)
class RowRange:
    """Some rows of a source."""

    source: RowSource
    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start


def write_run(path: Path, rows: Rows) -> Run:
    """Write sorted rows."""
    raw = memoryview(np.ascontiguousarray(rows).reshape(-1).view(np.uint8))
    write_bytes(path, raw)
    return Run(path, rows.shape[0], rows.shape[1], crc32(raw))


def write_record(path: Path, document: Mapping[str, Any]) -> None:
    """Write the record that a step is done."""
    write_document(path, {"record": dict(document), "crc": _digest(document)})


def read_record(path: Path) -> dict[str, Any] | None:
    """Return the document that `write_record` wrote, or `None` if the file is absent or anything else."""
    try:
        found = json.loads(read_own(path))
        record = found["record"]
        good = isinstance(record, dict) and _digest(record) == found["crc"]
    except FileNotFoundError:
        return None
    except OSError as error:
        raise TargetError(f"{public_name(path)} cannot be read: {error.strerror or error}") from error
    except (ValueError, KeyError, TypeError):
        return None
    return record if good else None


def _digest(document: Mapping[str, Any]) -> int:
    return crc32(json.dumps(document, sort_keys=True).encode())


@dataclass(frozen=True)
class RowTable:
    """The rows of consecutive ranges."""

    ranges: tuple[RowRange, ...]
    #: Number of the first row of each range, and the total.
    bounds: npt.NDArray[np.int64]
    columns: int

    @classmethod
    def of(cls, ranges: Sequence[RowRange], columns: int) -> RowTable:
        """Return the table of some ranges."""
        bounds = np.concatenate([[0], np.cumsum([len(p) for p in ranges])]).astype(np.int64)
        return cls(tuple(ranges), bounds, columns)

    @property
    def rows(self) -> int:
        """Number of rows."""
        return int(self.bounds[-1])

    def read(self, start: int, stop: int) -> Rows:
        """Return rows by number."""
        i = int(np.searchsorted(self.bounds, start, side="right")) - 1
        found = []
        while start < stop:
            span, first, end = self.ranges[i], int(self.bounds[i]), min(stop, int(self.bounds[i + 1]))
            found.append(span.source.read(span.start + start - first, span.start + end - first))
            start, i = end, i + 1
        return found[0] if len(found) == 1 else np.concatenate([np.empty((0, self.columns), np.float32), *found])

    def epoch(self, row: int) -> int:
        """Return the date of a row, in seconds since 1970."""
        return int(epochs_of_rows(self.read(row, row + 1))[0])

    def find(self, lo: int, hi: int) -> tuple[int, int]:
        """Return the range of rows with lo <= date < hi."""
        rows = range(self.rows)
        start = bisect_left(rows, lo, key=self.epoch)
        return start, bisect_left(rows, hi, start, key=self.epoch)
