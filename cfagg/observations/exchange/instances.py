"""Stations, tracks and profiles in a table: which row belongs to which.

A variable of the table numbers them, or stations are told by their place.  They are found in blocks of rows, so that
memory holds a few numbers of each of them and not the table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.errors import ConventionError, OptionError, Problem
from cfagg.observations.exchange.table import META, Table, epochs_of

__all__ = ["FEATURES", "Instances", "find_instances"]

type Int64 = npt.NDArray[np.int64]
type Rows = npt.NDArray[np.float32]

#: Kinds of instances with what of them is the same in all their rows.
FEATURES = {
    "timeSeries": ("latitude", "longitude"),
    "trajectory": (),
    "profile": ("time", "latitude", "longitude"),
}


@dataclass(frozen=True)
class Instances:
    """The instances of a table."""

    feature: str
    #: The variable that numbers them; stations by their place without one.
    by: str | None
    #: What tells them apart, sorted: values of the variable, or the bits of latitude and longitude, uint64.
    keys: npt.NDArray[Any]
    #: The number in the file of each key.
    order: Int64
    #: By number: rows of each, and time and place of its first row.
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
        """What identifies them, by number: the variable's values, float32 (n,), or numbers from 0, int32 (n,)."""
        if self.by is None:
            return np.arange(len(self), dtype=np.int32)
        return self.keys


def find_instances(table: Table, by: str | None, feature: str | None) -> Instances:
    """Return the instances of a table; by default stations where each stays in its place, tracks where one moves."""
    if feature is not None and feature not in FEATURES:
        raise OptionError(f"feature={feature!r}: choose one of {', '.join(FEATURES)}")
    if by is None and feature not in (None, "timeSeries"):
        raise OptionError(f"feature={feature!r} needs by=, the variable that tells one {feature} from another")
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
        # Bits of negative latitudes are larger than others; stations are numbered from south to north.
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
    """Return what tells the instance of each row, (n,)."""
    if by is not None:
        return np.ascontiguousarray(rows[:, table.column(by)], np.float32)
    bits = (np.ascontiguousarray(rows[:, 2:4], np.float32) + np.float32(0)).view(np.uint32).astype(np.uint64)
    found: npt.NDArray[Any] = bits[:, 0] << np.uint64(32) | bits[:, 1]
    return found


def _places(keys: npt.NDArray[np.uint64]) -> Rows:
    """Return latitude and longitude of keys that are made of them, float32 (n, 2)."""
    halves = np.stack([keys >> np.uint64(32), keys & np.uint64(0xFFFFFFFF)], axis=1)
    return halves.astype(np.uint32).view(np.float32)
