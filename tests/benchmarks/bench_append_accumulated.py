"""Appending one step to an array with an accumulation beside it: processor time, early and late.

The 100,000th append may cost 1.5 times what the 100th does: of the array and of its accumulation, what is full is never
read or written again.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import zarr

import cfagg
from tests.benchmarks.table import Row

#: How often the late append may cost the early one.
BAR = 1.5

#: Latitudes and longitudes.
FIELD = (4, 6)

#: Steps in a chunk of the coordinate.
TIMES = 1024

#: Appends that are measured.
RUNS = 25


def rows(small: bool) -> list[Row]:
    """Return what an append costs at two lengths, on a regular grid and on one of runs."""
    early, late = (20, 400) if small else (100, 100_000)
    runs = 3 if small else RUNS
    found = []
    for kind in ("regular", "rectilinear"):
        first, last = (_cost(n, kind, runs) for n in (early, late))
        job = f"append one step and extend its accumulation, {kind}: the {late:,}th"
        found.append(Row(job, last * 1e3, first * 1e3 * BAR, f"{BAR:g} × the {early}th", first * BAR / last, 1.0, "ms"))
    return found


def _cost(length: int, kind: str, runs: int) -> float:
    """Return the processor time of an append to an array that has so many steps then."""
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "a.zarr"
        _store(store, length - runs - 2, kind)
        cfagg.accumulate(store, "tas")
        seen = []
        for step in range(length - runs - 2, length):
            data = {"tas": np.ones((1, *FIELD), "f4"), "time": np.array([float(step)])}
            began = time.process_time()
            cfagg.append(store, data, "time")
            seen.append(time.process_time() - began)
    # The first makes the accumulation one that grows in its place.
    return statistics.median(seen[2:])


def _store(store: Path, length: int, kind: str) -> None:
    """Write an array with a chunk for each step, without zarr-python, which takes milliseconds for each."""
    root = zarr.open_group(store, mode="w")
    names = ("time", "lat", "lon")
    root.create_array("tas", shape=(length, *FIELD), chunks=(1, *FIELD), dtype="f4", dimension_names=names,
                      compressors=None)  # fmt: skip
    root.create_array("time", shape=(length,), chunks=(TIMES,), dtype="f8", dimension_names=names[:1],
                      compressors=None, fill_value=np.nan)[:] = np.arange(length)  # fmt: skip
    if kind == "rectilinear":
        path = store / "tas" / "zarr.json"
        document: dict[str, Any] = json.loads(path.read_text())
        shapes = [[[1, length]], [FIELD[0]], [FIELD[1]]]
        document["chunk_grid"] = {"name": "rectilinear", "configuration": {"kind": "inline", "chunk_shapes": shapes}}
        path.write_text(json.dumps(document))
    values = np.random.default_rng(0).normal(280, 5, (length, *FIELD)).astype("<f4")
    for step in range(length):
        folder = store / "tas" / "c" / str(step) / "0"
        folder.mkdir(parents=True)
        (folder / "0").write_bytes(values[step].tobytes())
