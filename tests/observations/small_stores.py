"""Small stores of observations in the layout of the published software, written with zarr alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import zarr
from numcodecs import Blosc

VARIABLES = ("t", "u", "v")

#: 2020-01-01T00:00:00 in seconds since 1970.
NEW_YEAR = 1577836800


def table(epochs, seed: int = 0, variables: int = 3) -> np.ndarray:
    """Rows with these dates, float32 (n, 4 + variables): other columns random, in the order of a store."""
    epochs = np.sort(np.asarray(epochs, np.int64))
    random = np.random.default_rng(seed)
    n = len(epochs)
    rows = np.empty((n, 4 + variables), np.float32)
    rows[:, 0], rows[:, 1] = epochs // 86400, epochs % 86400
    rows[:, 2] = random.integers(-90, 91, n)
    rows[:, 3] = random.integers(0, 360, n)
    rows[:, 4:] = random.normal(size=(n, variables))
    return rows[np.lexsort(rows.T[::-1])]


def epochs_of(rows: np.ndarray) -> np.ndarray:
    return rows[:, 0].astype(np.int64) * 86400 + rows[:, 1].astype(np.int64)


def write(path: Path, rows: np.ndarray, variables=VARIABLES, chunk: int = 50, **attributes) -> Path:
    """Write a store with an index of the kind bisect."""
    group = zarr.create_group(path, zarr_format=2)
    group.attrs.update(
        {"layout": "tabular", "date_indexing": "bisect", "variables": list(variables), "version": "0.22", **attributes}
    )
    codec = Blosc(cname="zstd", clevel=3, shuffle=Blosc.BITSHUFFLE)

    def put(name, values, chunks):
        array = group.create_array(
            name, shape=values.shape, chunks=chunks, dtype=values.dtype, compressors=codec, fill_value=0
        )
        array[...] = values

    put("data", rows, (chunk, rows.shape[1]))
    epochs, starts, lengths = np.unique(epochs_of(rows), return_index=True, return_counts=True)
    put("date_index_ranges", np.stack([epochs, starts, lengths], 1).astype("i8"), (1000, 3))
    values = rows[:, 4:].astype("f8")
    for name, statistic in {"mean": "mean", "minimum": "min", "maximum": "max", "stdev": "std"}.items():
        found = getattr(values, statistic)(axis=0) if len(rows) else np.zeros(values.shape[1])
        put(name, found, (max(found.size, 1),))
    return path


def hourly(path: Path, days: int = 3, per_day: int = 240, seed: int = 0, **attributes) -> tuple[Path, np.ndarray]:
    """A store of some days from 2020-01-01 at random seconds; returns its path and its rows."""
    random = np.random.default_rng(seed)
    rows = table(NEW_YEAR + random.integers(0, days * 86400, days * per_day), seed)
    return write(path, rows, **attributes), rows
