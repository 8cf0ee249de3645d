"""A table of observations on its way to another format: rows read block by block, and what describes them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.errors import ConventionError, Problem

__all__ = ["COLUMNS", "META", "Table", "epochs_of", "text_of"]

type Rows = npt.NDArray[np.float32]
type Epochs = npt.NDArray[np.int64]

#: Columns of frames and Parquet files before the variables.
COLUMNS = ("date", "latitude", "longitude")

#: Columns before the variables: days since 1970, second of the day, latitude, longitude.
META = 4

#: Rows that are read at once, where they are not very wide.
BLOCK_ROWS, BLOCK_BYTES = 1 << 18, 64 << 20


@dataclass(frozen=True)
class Table:
    """Rows of observations that are read from somewhere."""

    name: str
    variables: tuple[str, ...]
    rows: int
    #: From a range of rows to a float32 array, shape (n, 4 + variables).
    read: Callable[[int, int], Rows]
    attributes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    #: What is known of the whole: ``title``, ``licence``, ``recipe`` ...
    about: Mapping[str, Any] = field(default_factory=dict)
    statistics: Mapping[str, npt.NDArray[Any]] = field(default_factory=dict)

    @classmethod
    def of_rows(
        cls,
        name: str,
        variables: Sequence[str],
        rows: Rows,
        attributes: Mapping[str, Mapping[str, Any]] | None = None,
        about: Mapping[str, Any] | None = None,
    ) -> Table:
        """Return the table of rows in memory, float32 (n, 4 + variables)."""
        if rows.shape[1:] != (META + len(variables),):
            raise ConventionError(f"{name}: rows of shape {rows.shape} for {len(variables)} variables")
        return cls(name, tuple(variables), len(rows), lambda a, b: rows[a:b], attributes or {}, about or {})

    @property
    def block(self) -> int:
        """Rows that are read at once."""
        return max(1, min(BLOCK_ROWS, BLOCK_BYTES // (4 * (META + len(self.variables)))))

    def blocks(self) -> Iterator[tuple[int, Rows]]:
        """Return all rows in order, in blocks: number of the first row, rows."""
        for start in range(0, self.rows, self.block):
            yield start, self.read(start, min(start + self.block, self.rows))

    def column(self, name: str) -> int:
        """Return where a variable stands in a row."""
        if name not in self.variables:
            raise ConventionError(f"{self.name} has no variable {name!r}; it has {', '.join(self.variables)}")
        return META + self.variables.index(name)

    def check_names(self) -> None:
        """Refuse variables that are called like the first columns of a frame, `COLUMNS`."""
        if clash := [v for v in self.variables if v in COLUMNS]:
            raise ConventionError(
                f"{self.name}: the file needs the names of some variables for its own columns",
                [Problem(v, "rename it, with rename= of open_observations") for v in clash],
            )


def epochs_of(rows: Rows, first: int, name: str) -> Epochs:
    """Return the times of rows in seconds since 1970; ConventionError where no other format could give them back."""
    days, seconds = rows[:, 0].astype(np.float64), rows[:, 1].astype(np.float64)
    good = (np.rint(days) == days) & (np.rint(seconds) == seconds) & (seconds >= 0) & (seconds < 86400)
    if not good.all():
        at = int(np.argmin(good))
        raise ConventionError(
            f"{name} cannot be exported: its times are not whole seconds",
            [Problem(f"row {first + at}", f"__date is {rows[at, 0]}, __time is {rows[at, 1]}")],
        )
    return 86400 * days.astype(np.int64) + seconds.astype(np.int64)


def text_of(about: Mapping[str, Any], *keys: str) -> str | None:
    """Return the first of some entries that is text."""
    return next((about[k] for k in keys if isinstance(about.get(k), str) and about[k]), None)


type Int64 = npt.NDArray[np.int64]
