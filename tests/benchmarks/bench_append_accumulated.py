"""Appending one step to an array with an accumulation beside it: processor time, early and late.

The 100,000th append may cost 1.5 times what the 100th does: of the array and of its accumulation, what is full is never
read or written again.
"""

from __future__ import annotations

import json
import os
import shutil
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

#: Appends that are measured of each grid.
RUNS = 25

KINDS = ("regular", "rectilinear")


def rows(small: bool) -> list[Row]:
    """Return what an append costs at two lengths, on a regular grid and on one of runs."""
    early, late = (20, 400) if small else (100, 100_000)
    runs = 3 if small else RUNS
    costs = [_costs(length, runs) for length in (early, late)]
    found = []
    for kind, first, last in zip(KINDS, *costs, strict=True):
        job = f"append one step and extend its accumulation, {kind}: the {late:,}th"
        found.append(Row(job, last * 1e3, first * 1e3 * BAR, f"{BAR:g} × the {early}th", first * BAR / last, 1.0, "ms"))
    return found


def _costs(length: int, runs: int) -> list[float]:
    """Return the processor time of an append to an array that has so many steps then, for each kind of grid."""
    # In memory, where there is such a file system: 100,000 files are made and removed, which is not what is measured.
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as folder:
        store = Path(folder) / "a.zarr"
        start = length - 2 * runs - 4
        _write(store, start)
        costs = []
        for kind in KINDS:
            if kind == "rectilinear":
                _make_rectilinear(store, start)
            cfagg.accumulate(store, "tas")
            seen = []
            for step in range(start, start + runs + 2):
                field = np.random.default_rng(step).normal(280, 5, (1, *FIELD)).astype("f4")
                data = {"tas": field, "time": np.array([float(step)])}
                began = time.process_time()
                cfagg.append(store, data, "time")
                seen.append(time.process_time() - began)
            # The first makes the accumulation one that grows in its place.
            costs.append(statistics.median(seen[2:]))
            start += runs + 2
    return costs


def _write(store: Path, length: int) -> None:
    """Write an array with a chunk for each step, without zarr-python, which takes milliseconds for each."""
    root = zarr.open_group(store, mode="w")
    names = ("time", "lat", "lon")
    flat = {"name": "default", "separator": "."}
    root.create_array("tas", shape=(length, *FIELD), chunks=(1, *FIELD), dtype="f4", dimension_names=names,
                      compressors=None, chunk_key_encoding=flat)  # fmt: skip
    root.create_array("time", shape=(length,), chunks=(TIMES,), dtype="f8", dimension_names=names[:1],
                      compressors=None, fill_value=np.nan)[:] = np.arange(length)  # fmt: skip
    values = np.random.default_rng(0).normal(280, 5, (length, *FIELD)).astype("<f4")
    for step in range(length):
        (store / "tas" / f"c.{step}.0.0").write_bytes(values[step].tobytes())


def _make_rectilinear(store: Path, length: int) -> None:
    """Describe the same chunks as a grid of runs, and forget the accumulation."""
    shutil.rmtree(store / "tas_accumulation_group")
    path = store / "tas" / "zarr.json"
    document: dict[str, Any] = json.loads(path.read_text())
    shapes = [[[1, length]], [FIELD[0]], [FIELD[1]]]
    document["chunk_grid"] = {"name": "rectilinear", "configuration": {"kind": "inline", "chunk_shapes": shapes}}
    path.write_text(json.dumps(document))
    # The next append consolidates them again.
    root = json.loads((store / "zarr.json").read_text())
    del root["consolidated_metadata"]
    (store / "zarr.json").write_text(json.dumps(root))
