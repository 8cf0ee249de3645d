"""Sorted runs of rows in files, the record that says a step of a build is done, and all rows of a store in order."""

from __future__ import annotations

import json
import os
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
from cfagg.runtime.publishing import public_name, read_own, reason

__all__ = ["RowRange", "RowSource", "RowTable", "Run", "read_ranges", "read_record", "write_record", "write_run"]

type Rows = npt.NDArray[np.float32]


class RowSource(Protocol):
    """Sorted rows that can be read by number."""

    @property
    def rows(self) -> int:
        """Number of rows."""

    def read(self, start: int, stop: int, out: Rows) -> None:
        """Read rows into an array of shape (stop - start, columns)."""


@dataclass(frozen=True)
class Run:
    """A file of sorted rows, each once."""

    path: Path
    rows: int
    columns: int
    #: CRC-32 of its bytes.
    checksum: int

    def read(self, start: int, stop: int, out: Rows) -> None:  # noqa: ARG002  `out` tells where to stop
        """Read rows into an array of shape (stop - start, columns)."""
        memory = memoryview(out.reshape(-1).view(np.uint8))
        with self.path.open("rb", buffering=0) as file:
            at = 4 * self.columns * start
            while memory.nbytes:
                n = os.preadv(file.fileno(), [memory], at)
                if n == 0:
                    raise FragmentReadError(f"{self.path} ends early; start the build again with overwrite=True")
                memory, at = memory[n:], at + n

    def mapped(self) -> Rows:
        """Return the rows, mapped from the file."""
        if not self.rows:
            return np.empty((0, self.columns), np.float32)
        return np.memmap(self.path, np.float32, "r", shape=(self.rows, self.columns))

    def whole(self) -> bool:
        """Whether the file is there and is what was written."""
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
        """Return what a record says of it."""
        return {"file": self.path.name, "rows": self.rows, "columns": self.columns, "crc": self.checksum}

    @classmethod
    def from_json(cls, folder: Path, found: Mapping[str, Any]) -> Run:
        """Return the run that a record tells of."""
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


def read_ranges(ranges: Sequence[RowRange], bounds: npt.NDArray[np.int64], start: int, stop: int, columns: int) -> Rows:
    """Return rows of ranges that follow one another."""
    out = np.empty((stop - start, columns), np.float32)
    i = int(np.searchsorted(bounds, start, side="right")) - 1
    at = start
    while at < stop:
        span, first = ranges[i], int(bounds[i])
        end = min(stop, int(bounds[i + 1]))
        span.source.read(span.start + at - first, span.start + end - first, out[at - start : end - start])
        at, i = end, i + 1
    return out


def write_record(path: Path, document: Mapping[str, Any]) -> None:
    """Write that a step is done."""
    write_document(path, {"record": dict(document), "crc": _digest(document)})


def read_record(path: Path) -> dict[str, Any] | None:
    """Return what `write_record` wrote; `None` where there is nothing, or something else."""
    try:
        found = json.loads(read_own(path))
        record = found["record"]
        good = isinstance(record, dict) and _digest(record) == found["crc"]
    except FileNotFoundError:
        return None
    except OSError as error:
        raise TargetError(f"{public_name(path)} cannot be read: {reason(error, path)}") from error
    except (ValueError, KeyError, TypeError):
        return None
    return record if good else None


def _digest(document: Mapping[str, Any]) -> int:
    return crc32(json.dumps(document, sort_keys=True).encode())


@dataclass(frozen=True)
class RowTable:
    """Rows of ranges that follow one another."""

    ranges: tuple[RowRange, ...]
    #: Number of the first row of each span, and of all.
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
        return read_ranges(self.ranges, self.bounds, start, stop, self.columns)

    def epoch(self, row: int) -> int:
        """Return the date of a row, in seconds since 1970."""
        return int(epochs_of_rows(self.read(row, row + 1))[0])

    def find(self, lo: int, hi: int) -> tuple[int, int]:
        """Return the range of rows with lo <= date < hi."""
        start = self._first(lo, 0)
        return start, self._first(hi, start)

    def _first(self, epoch: int, low: int) -> int:
        """Return the first row, from `low` on, that is not before a date."""
        high = self.rows
        while low < high:
            middle = (low + high) // 2
            if self.epoch(middle) < epoch:
                low = middle + 1
            else:
                high = middle
        return low
