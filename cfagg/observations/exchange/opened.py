"""The table of what is opened: a store, or the rows that the windows of a dataset hold."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.errors import SourceError, UnsupportedError
from cfagg.observations.exchange.kept import about_of
from cfagg.observations.exchange.table import META, Table

__all__ = ["table_of"]

type Int64 = npt.NDArray[np.int64]
type Rows = npt.NDArray[np.float32]


def table_of(source: Any) -> Table:
    """Return the table of a store, by its path or opened, or of a dataset of `cfagg.open_observations`."""
    from cfagg.observations.store import ObservationStore, open_store

    if isinstance(source, Table):
        return source
    if isinstance(source, str | os.PathLike):
        source = open_store(os.fspath(source))
    if isinstance(source, ObservationStore):
        return _of_store(source)
    from cfagg.observations.dataset import Observations

    if isinstance(source, Observations):
        return _of_dataset(source)
    raise SourceError(
        f"{type(source).__name__} cannot be exported; give the path of a store, or what open_observations returns"
    )


def _of_store(store: Any) -> Table:
    return Table(
        store.path,
        tuple(store.variables),
        store.rows,
        store.data.read,
        store.attributes.variables_metadata,
        about_of(store.attributes.all),
        store.statistics,
    )


def _of_dataset(dataset: Any) -> Table:
    """Return the rows that any window of a dataset holds, each once, with its variables and in its area."""
    plan, store = dataset.plan, dataset.store
    if plan.thin is not None:
        raise UnsupportedError(
            f"{dataset.path}: a dataset that thins its samples cannot be exported, because windows may keep different "
            "rows; leave out thin="
        )
    columns = np.concatenate([np.arange(META), META + plan.columns.positions(store.variables)])
    rows = merged(dataset.ranges)
    if plan.area is not None:
        kept = [np.empty(0, np.int64)]
        for start, stop in rows.tolist():
            for first in range(start, stop, 1 << 20):
                places = store.data.read(first, min(first + (1 << 20), stop), slice(2, 4))
                kept.append(first + np.flatnonzero(plan.area.mask(places[:, 0], places[:, 1])))
        rows = runs(np.concatenate(kept))
    ends = np.cumsum(rows[:, 1] - rows[:, 0])

    def read(first: int, stop: int) -> Rows:
        blocks = [np.empty((0, len(columns)), np.float32)]
        at = int(np.searchsorted(ends, first, side="right"))
        while first < stop:
            row = int(rows[at, 1] - (ends[at] - first))
            count = min(stop, int(ends[at])) - first
            blocks.append(store.data.read(row, row + count, columns))
            first, at = first + count, at + 1
        return np.concatenate(blocks)

    return Table(
        dataset.path,
        tuple(dataset.variables),
        int(ends[-1]) if len(ends) else 0,
        read,
        dataset.variables_metadata,
        {k: v for k, v in about_of(store.attributes.all).items() if k != "recipe"},
    )


def merged(ranges: Int64) -> Int64:
    """Return ranges of rows without those that are empty, and those that touch or overlap as one."""
    ranges = ranges[ranges[:, 1] > ranges[:, 0]]
    if not len(ranges):
        return ranges
    reach = np.maximum.accumulate(ranges[:, 1])
    first = np.concatenate([[True], ranges[1:, 0] > reach[:-1]])
    last = np.concatenate([first[1:], [True]])
    return np.stack([ranges[first, 0], reach[last]], axis=1)


def runs(numbers: Int64) -> Int64:
    """Return increasing numbers as ranges."""
    if not len(numbers):
        return np.empty((0, 2), np.int64)
    breaks = np.flatnonzero(np.diff(numbers) != 1)
    return np.stack([numbers[np.concatenate([[0], breaks + 1])], numbers[np.append(breaks, -1)] + 1], axis=1)
