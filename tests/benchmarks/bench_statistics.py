"""Exact statistics of columns, against NumPy's in float64, and the check of a whole store."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

from cfagg.kernels import exact_sums
from cfagg.observations.checking import check_store
from cfagg.observations.statistics import Accumulator
from tests.benchmarks.table import Row, clock
from tests.observations.written import write_rows

COLUMNS = 16


def rows(small: bool) -> list[Row]:
    """Return seconds for the statistics of rows of 16 variables, and for checking a store of them."""
    count = 5_000 if small else 1_000_000
    rng = np.random.default_rng(0)
    epochs = np.sort(rng.integers(0, 30 * 86400, count))
    table = np.empty((count, 4 + COLUMNS), np.float32)
    table[:, 0], table[:, 1] = epochs // 86400, epochs % 86400
    table[:, 2], table[:, 3] = rng.uniform(-90, 90, count), rng.uniform(0, 359, count)
    table[:, 4:] = rng.normal(280, 10, (count, COLUMNS))
    table[::50, 4:] = np.nan
    table = table[np.lexsort(table.T[::-1])]
    values = table[:, 4:]
    exact_sums.add_values(values.view(np.uint32), *_bins())

    def ours():
        found = Accumulator(COLUMNS)
        found.accumulate(values)
        return found.result()

    def numpy():
        wide = values.astype(np.float64)
        return [f(wide, axis=0) for f in (np.nanmean, np.nanmin, np.nanmax, np.nanstd)], np.isnan(wide).sum(0)

    seconds, peer = clock(ours, numpy, runs=3)
    found = [
        Row(f"statistics of {count:,} rows × {COLUMNS}, exact", seconds, peer, "numpy float64", peer / seconds, 1.0)
    ]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "a.zarr")
        write_rows(path, [f"v{i}" for i in range(COLUMNS)], table)
        check, floor = clock(lambda: check_store(path, full=True), ours, runs=3)
    note = "reads, decodes and checks every row and entry"
    return [
        *found,
        Row(f"check of {count:,} rows × {COLUMNS}", check, floor, "statistics", floor / check, None, note=note),
    ]


def _bins():
    return (
        np.zeros((COLUMNS, 256, 3), np.int64),
        np.zeros((COLUMNS, 2), np.int64),
        np.zeros((COLUMNS, 3), np.int64),
    )
