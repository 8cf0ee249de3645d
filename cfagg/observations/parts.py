"""Reading one part of a recipe into sorted runs, and recording that it is done."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from cfagg.errors import ConventionError
from cfagg.observations.dates import Part
from cfagg.observations.frames import COMPULSORY, META, add_attributes, attributes_of, conform, encode_frame, file_of
from cfagg.observations.merging import Run, read_record, sort_unique, write_record, write_run
from cfagg.observations.recipe import Recipe

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["PartRead", "arrange", "part_text", "read_elsewhere", "read_part", "recorded"]

type Rows = npt.NDArray[np.float32]

#: Whole numbers above this are rounded by float32.
_EXACT = 2**24

#: Whole numbers above this are rounded by float64.
_MOST = 2**53


@dataclass(frozen=True)
class PartRead:
    """The result of reading one part."""

    number: int
    #: The variables in the order of its rows; empty if it has no rows.
    variables: tuple[str, ...]
    attributes: dict[str, dict[str, Any]]
    #: Number of rows that were read, including duplicates.
    rows: int
    #: Variables of whole numbers that float32 had to round.
    rounded: tuple[str, ...]
    runs: tuple[Run, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the part's record."""
        return {
            "number": self.number,
            "variables": list(self.variables),
            "attributes": self.attributes,
            "rows": self.rows,
            "rounded": list(self.rounded),
            "runs": [r.to_json() for r in self.runs],
        }


def part_text(number: int, part: Part) -> str:
    """Return the number and the dates of a part, for messages."""
    return f"part {number} ({part[0].isoformat()} to {part[1].isoformat()})"


def read_part(recipe: Recipe, number: int, part: Part, folder: Path, run_bytes: int) -> PartRead:
    """Read a part, and keep its rows in sorted runs of about `run_bytes` bytes."""
    reading = _Reading(folder, number, run_bytes, part_text(number, part))
    for frame in recipe.frames(part):
        if len(frame):
            reading.add(frame, recipe.build.allow_nans)
    reading.flush()
    _give_back()
    return _keep(folder, reading.result())


def read_elsewhere(recipe: Recipe, number: int, part: Part, folder: Path, run_bytes: int) -> PartRead:
    """Read a part in a process in which the sources are not prepared; see `read_part`."""
    recipe.prepare(folder)
    return read_part(recipe, number, part, folder, run_bytes)


def arrange(found: PartRead, variables: Sequence[str], folder: Path) -> PartRead:
    """Reorder the columns of a part, and sort its rows by the new order."""
    order = [*range(len(META)), *(len(META) + found.variables.index(v) for v in variables)]
    runs = []
    for run in found.runs:
        rows = sort_unique(np.ascontiguousarray(run.mapped()[:, order]))
        runs.append(write_run(run.path, rows))
    return _keep(
        folder, PartRead(found.number, tuple(variables), found.attributes, found.rows, found.rounded, tuple(runs))
    )


def recorded(folder: Path, number: int) -> PartRead | None:
    """Return a part that was read before, or `None` if it was not or if its files are incomplete."""
    record = read_record(folder / f"part-{number:06d}.json")
    if record is None:
        return None
    runs = tuple(Run.from_json(folder, r) for r in record["runs"])
    if not all(r.whole() for r in runs):
        return None
    return PartRead(
        number, tuple(record["variables"]), record["attributes"], record["rows"], tuple(record["rounded"]), runs
    )


def _keep(folder: Path, found: PartRead) -> PartRead:
    write_record(folder / f"part-{found.number:06d}.json", found.to_json())
    return found


def _give_back() -> None:
    """Return memory that Arrow keeps for later use to the system, if sources have used Arrow."""
    arrow = sys.modules.get("pyarrow")
    if arrow is not None:
        arrow.default_memory_pool().release_unused()


class _Reading:
    """Rows of a part while they are read."""

    def __init__(self, folder: Path, number: int, run_bytes: int, where: str) -> None:
        self._folder, self._number, self._run_bytes, self._where = folder, number, run_bytes, where
        self._variables: tuple[str, ...] | None = None
        self._attributes: dict[str, dict[str, Any]] = {}
        self._rounded: set[str] = set()
        self._runs: list[Run] = []
        self._rows = self._filled = 0
        self._buffer = np.empty((0, 0), np.float32)

    def add(self, frame: pd.DataFrame, allow_nans: bool | tuple[str, ...]) -> None:
        """Add a frame that has rows."""
        if self._variables is None:
            self._variables = tuple(str(c) for c in frame.columns if c not in COMPULSORY)
            width = len(META) + len(self._variables)
            self._buffer = np.empty((max(1, self._run_bytes // (4 * width)), width), np.float32)
        file = file_of(frame)
        where = self._where if file is None else f"{self._where}, {file}"
        frame = conform(frame, self._variables, where)
        add_attributes(self._attributes, attributes_of(frame), where)
        self._rounded |= {v for v in self._variables if v not in self._rounded and _is_rounded(frame[v])}
        no_nans = _without_nans(self._variables, allow_nans, where)
        at = 0
        while at < len(frame):
            n = min(len(frame) - at, len(self._buffer) - self._filled)
            out = self._buffer[self._filled : self._filled + n]
            encode_frame(frame.iloc[at : at + n], self._variables, out, where, no_nans)
            at, self._filled, self._rows = at + n, self._filled + n, self._rows + n
            if self._filled == len(self._buffer):
                self.flush()

    def flush(self) -> None:
        """Write the rows read so far as a run."""
        if self._filled:
            path = self._folder / f"run-{self._number:06d}-{len(self._runs):04d}"
            self._runs.append(write_run(path, sort_unique(self._buffer[: self._filled])))
            self._filled = 0

    def result(self) -> PartRead:
        """Return the part as read so far."""
        return PartRead(
            self._number,
            self._variables or (),
            self._attributes,
            self._rows,
            tuple(sorted(self._rounded)),
            tuple(self._runs),
        )


def _is_rounded(column: Any) -> bool:
    """Return whether float32 cannot represent every value of a column of whole numbers, whatever its type."""
    # Whole numbers from text files and from tables with gaps are float64.
    if column.dtype.kind not in "iuf" or (column.dtype.kind == "f" and column.dtype.itemsize <= 4):
        return False
    values = column.to_numpy()
    if values.dtype.kind != "f":
        return bool(len(values) and (values.max() > _EXACT or values.min() < -_EXACT))
    with np.errstate(over="ignore", invalid="ignore"):
        large = np.abs(values) > _EXACT
        if not large.any():
            return False
        values = values[np.isfinite(values)]
        # Above 2**53 every float64 is whole, so counts cannot be recognised.
        counts = bool((values == np.rint(values)).all() and (np.abs(values) <= _MOST).all())
        return counts and bool((values.astype(np.float32) != values).any())


def _without_nans(variables: Sequence[str], allow: bool | tuple[str, ...], where: str) -> Sequence[str]:
    """Return the variables that must not have NaN."""
    if isinstance(allow, bool):
        return () if allow else variables
    unknown = [v for v in allow if v not in variables]
    if unknown:
        raise ConventionError(f"{where}: build.allow_nans names {', '.join(unknown)}, which are not variables")
    return [v for v in variables if v not in allow]
