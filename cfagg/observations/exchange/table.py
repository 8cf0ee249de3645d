"""A table of observations to be exported: blocks of rows, and their stations, tracks or profiles."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.errors import ConventionError, OptionError, Problem
from cfagg.errors.arguments import closest, some

__all__ = ["COLUMNS", "FEATURES", "META", "Instances", "Table", "epochs_of", "find_instances", "text_of"]

type Rows = npt.NDArray[np.float32]
type Epochs = npt.NDArray[np.int64]

#: Columns of frames and Parquet files before the variables.
COLUMNS = ("date", "latitude", "longitude")

#: Columns before the variables: days since 1970, second of the day, latitude, longitude.
META = 4

#: Number of rows that are read at once, unless they exceed a number of bytes.
BLOCK_ROWS, BLOCK_BYTES = 1 << 18, 64 << 20


@dataclass(frozen=True)
class Table:
    """Rows of observations, and a function that reads them."""

    name: str
    variables: tuple[str, ...]
    rows: int
    #: Returns a range of rows as a float32 array, shape (n, 4 + variables).
    read: Callable[[int, int], Rows]
    attributes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    #: Attributes of the whole table: ``title``, ``licence``, ``recipe`` ...
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
            raise ConventionError(f"{name}: rows of shape {rows.shape} do not fit {len(variables)} variables")
        return cls(name, tuple(variables), len(rows), lambda a, b: rows[a:b], attributes or {}, about or {})

    @property
    def block(self) -> int:
        """Number of rows that are read at once."""
        return max(1, min(BLOCK_ROWS, BLOCK_BYTES // (4 * (META + len(self.variables)))))

    def blocks(self) -> Iterator[tuple[int, Rows]]:
        """Return all rows in order, in blocks: number of the first row, rows."""
        for start in range(0, self.rows, self.block):
            yield start, self.read(start, min(start + self.block, self.rows))

    def column(self, name: str) -> int:
        """Return the position of a variable in a row."""
        if name not in self.variables:
            hint = closest(name, self.variables)
            raise ConventionError(f"{self.name} has no variable {name!r}; it has {some(self.variables)}{hint}")
        return META + self.variables.index(name)

    def check_names(self) -> None:
        """Refuse variables with the names of the first columns of a frame, `COLUMNS`."""
        if clash := [v for v in self.variables if v in COLUMNS]:
            raise ConventionError(
                f"{self.name}: some variables have names that the file needs for other columns",
                [Problem(v, "rename it, with rename= of open_observations") for v in clash],
            )


def epochs_of(rows: Rows, first: int, name: str) -> Epochs:
    """Return the times of rows in seconds since 1970; refuse those that are not whole seconds."""
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
    """Return the first of some entries that is a string."""
    return next((about[k] for k in keys if isinstance(about.get(k), str) and about[k]), None)


type Int64 = npt.NDArray[np.int64]


#: Kinds of instances, and the coordinates that are the same in all their rows.
FEATURES = {"timeSeries": ("latitude", "longitude"), "trajectory": (), "profile": ("time", "latitude", "longitude")}


@dataclass(frozen=True)
class Instances:
    """The instances of a table."""

    feature: str
    #: The variable that numbers them; without one, stations are identified by place.
    by: str | None
    #: Sorted keys that identify them: values of the variable, or the bits of latitude and longitude, uint64.
    keys: npt.NDArray[Any]
    #: The number of each key in the file.
    order: Int64
    #: By number: count of rows, and time and place of the first row.
    counts: Int64
    times: Int64
    places: Rows

    def __len__(self) -> int:
        return len(self.keys)

    def of(self, table: Table, rows: Rows) -> Int64:
        """Return the number of the instance of each row, int64 (n,)."""
        found: Int64 = self.order[np.searchsorted(self.keys, _keys(table, rows, self.by))]
        return found

    @property
    def names(self) -> npt.NDArray[Any]:
        """Identifiers by number: values of the variable, float32 (n,), or numbers from 0, int32 (n,)."""
        if self.by is None:
            return np.arange(len(self), dtype=np.int32)
        return self.keys


def find_instances(table: Table, by: str | None, feature: str | None) -> Instances:
    """Return the instances of a table; by default stations if each stays in its place, else tracks."""
    if feature is not None and feature not in FEATURES:
        raise OptionError(f"feature={feature!r}: choose one of {', '.join(FEATURES)}")
    if by is None and feature not in (None, "timeSeries"):
        raise OptionError(f"feature={feature!r} needs by=, the variable that distinguishes one {feature} from another")
    keys = _keys(table, np.empty((0, META + len(table.variables)), np.float32), by)
    for start, rows in table.blocks():
        found = np.unique(_keys(table, rows, by))
        if found.dtype.kind == "f" and np.isnan(found).any():
            at = start + int(np.argmax(np.isnan(_keys(table, rows, by))))
            raise ConventionError(
                f"{table.name}: rows without a value of {by!r} belong to no instance",
                [Problem(f"row {at}", f"{by} is missing; export with form='point', or choose another variable")],
            )
        keys = np.union1d(keys, found)
    order = np.arange(len(keys), dtype=np.int64)
    if by is None:
        # The bits of negative latitudes compare greater, but stations are numbered from south to north.
        places = _places(keys)
        order[np.lexsort((places[:, 1], places[:, 0]))] = np.arange(len(keys))
    counts, times = np.zeros(len(keys), np.int64), np.zeros(len(keys), np.int64)
    places, moves = np.zeros((len(keys), 2), np.float32), np.full(len(keys), -1, np.int64)
    draft = Instances("timeSeries", by, keys, order, counts, times, places)
    for start, rows in table.blocks():
        which, epochs = draft.of(table, rows), epochs_of(rows, start, table.name)
        new, first = np.unique(which, return_index=True)
        fresh = counts[new] == 0
        times[new[fresh]], places[new[fresh]] = epochs[first[fresh]], rows[first[fresh], 2:4]
        counts += np.bincount(which, minlength=len(keys))
        away = (rows[:, 2:4] != places[which]).any(axis=1)
        if feature == "profile":
            away |= epochs != times[which]
        for number, at in zip(*np.unique(which[away], return_index=True), strict=True):
            if moves[number] < 0:
                moves[number] = start + int(np.flatnonzero(away)[at])
    if feature is None:
        feature = "trajectory" if (moves >= 0).any() else "timeSeries"
    if feature != "trajectory" and (moves >= 0).any():
        what = "place or time" if feature == "profile" else "place"
        raise ConventionError(
            f"{table.name}: feature={feature!r} does not fit, as {by!r} has rows at more than one {what}",
            [
                Problem(f"row {moves[n]}", f"another {what} than the first row of {by} {draft.names[n]}")
                for n in np.flatnonzero(moves >= 0)
            ],
        )
    return Instances(feature, by, keys, order, counts, times, places)


def _keys(table: Table, rows: Rows, by: str | None) -> npt.NDArray[Any]:
    """Return the key of the instance of each row, (n,)."""
    if by is not None:
        return np.ascontiguousarray(rows[:, table.column(by)], np.float32)
    bits = (np.ascontiguousarray(rows[:, 2:4], np.float32) + np.float32(0)).view(np.uint32).astype(np.uint64)
    found: npt.NDArray[Any] = bits[:, 0] << np.uint64(32) | bits[:, 1]
    return found


def _places(keys: npt.NDArray[np.uint64]) -> Rows:
    """Return the latitudes and longitudes that keys consist of, float32 (n, 2)."""
    halves = np.stack([keys >> np.uint64(32), keys & np.uint64(0xFFFFFFFF)], axis=1)
    return halves.astype(np.uint32).view(np.float32)
