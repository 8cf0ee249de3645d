"""Building stores of observations: rows a second and memory, from Parquet and, beside the published software, from CSV.

Each build runs in a process of its own, whose processor time and peak memory the system tells.  The published software
is measured, see `published`.
"""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess
import sys
from typing import Any

import numpy as np

from tests.benchmarks.peers import peer_python
from tests.benchmarks.table import Row

HERE = pathlib.Path(__file__).resolve().parents[2] / ".bench" / "create_observations"

OURS = """
import json, sys, cfagg
recipe, target, options = map(json.loads, sys.argv[1:])
cfagg.create_observations(recipe, target, overwrite=True, **options)
"""
LAUNCHER = """
import os, subprocess, sys, time
start = time.perf_counter()
process = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
error = process.stderr.read()
_, status, used = os.wait4(process.pid, 0)
print(time.perf_counter() - start, used.ru_utime + used.ru_stime, used.ru_maxrss / 1e3)
sys.stderr.write(error.decode())
sys.exit(os.waitstatus_to_exitcode(status))
"""

VARIABLES = 12


def rows(small: bool) -> list[Row]:
    """Measure with ten million rows, or with some thousands."""
    count, few = (20_000, 5_000) if small else (10_000_000, 1_000_000)
    table = []
    parquet = table_file(count, "parquet")
    # Kernels are compiled once for each version of cfagg.
    _build({"parquet": {"path": str(parquet)}}, "zarr2", {})
    for form in ("zarr2", "cfagg"):
        wall, cpu, peak = _build({"parquet": {"path": str(parquet)}}, form, {})
        job = f"build {count / 1e6:g} M rows of {VARIABLES} variables, {form}"
        bar = None if small else 1.0
        rate = 2 * count / cpu
        table += [
            Row(f"{job}: CPU of two", rate, 1e6, "1 M rows/s", rate / 1e6, bar, "rows/s"),
            Row(f"{job}: wall", count / wall, 1e6, "1 M rows/s", count / wall / 1e6, None, "rows/s"),
            Row(f"{job}: peak memory", peak, 1000, "1 GB", 1000 / peak, bar, "MB"),
        ]
    csv = table_file(few, "csv")
    ours = _build({"csv": {"path": str(csv)}}, "zarr2", {})
    peer = None if small else peer_python("anemoi", install=True)
    if peer is None:
        return table
    theirs = _published(peer, csv)
    job, name = f"build {few / 1e6:g} M rows from CSV", "anemoi-datasets"
    return [
        *table,
        Row(f"{job}: CPU", few / ours[1], few / theirs[1], name, theirs[1] / ours[1], 5.0, "rows/s"),
        Row(f"{job}: wall", few / ours[0], few / theirs[0], name, theirs[0] / ours[0], None, "rows/s"),
        Row(f"{job}: peak memory", ours[2], theirs[2], name, theirs[2] / ours[2], None, "MB"),
    ]


def table_file(count: int, form: str) -> pathlib.Path:
    """Return a file of observations over a year, made once; its rows are nearly in order, as files of reports are."""
    import pandas as pd

    path = HERE / f"{count}.{form}"
    if path.exists():
        return path
    chance = np.random.default_rng(0)
    # Reports come in up to an hour late.
    seconds = np.sort(chance.integers(0, 366 * 86400 - 3600, count)) + chance.integers(0, 3600, count)
    frame = pd.DataFrame(
        {
            "date": (np.datetime64("2020-01-01", "s") + seconds.astype("m8[s]")).astype("M8[us]"),
            "latitude": chance.uniform(-90, 90, count).astype("f4").round(2),
            "longitude": chance.uniform(-180, 180, count).astype("f4").round(2),
        }
    )
    for j in range(VARIABLES):
        values = chance.normal(280, 10, count).astype("f4")
        values = values.round(1) if j % 2 else values
        values[chance.random(count) < (0.1 if j % 4 == 0 else 0)] = np.nan
        frame[f"v{j}"] = values
    HERE.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    if form == "parquet":
        frame.to_parquet(part, index=False, row_group_size=1 << 17)
    else:
        frame.to_csv(part, index=False)
    part.replace(path)
    return path


def _recipe(source: dict[str, Any], form: str) -> dict[str, Any]:
    return {
        "dates": {"start": "2020-01-01T00:00:00", "end": "2020-12-31T00:00:00", "frequency": "24h"},
        "input": source,
        "output": {"layout": "tabular", "format": form, "date_indexing": "bisect"},
        "build": {"group_by": "monthly"},
    }


def _build(source: dict[str, Any], form: str, options: dict[str, Any]) -> tuple[float, float, float]:
    """Return wall seconds, processor seconds and peak megabytes of a build."""
    target = HERE / "ours.zarr"
    arguments = [json.dumps(a) for a in (_recipe(source, form), str(target), options)]
    return _run([sys.executable, "-c", OURS, *arguments])


def _published(peer: pathlib.Path, csv: pathlib.Path) -> tuple[float, float, float]:
    """Return the same of the published software."""
    import yaml

    recipe, target = HERE / "recipe.yaml", HERE / "theirs.zarr"
    recipe.write_text(yaml.safe_dump(_recipe({"csv": {"path": str(csv)}}, "zarr2")))
    try:
        return _run([str(peer.with_name("anemoi-datasets")), "create", str(recipe), str(target), "--overwrite"])
    finally:
        shutil.rmtree(target, ignore_errors=True)


def _run(command: list[str]) -> tuple[float, float, float]:
    # A system may count the memory of the process that starts another as the other's: one that has none is put between.
    done = subprocess.run(
        [sys.executable, "-S", "-c", LAUNCHER, *command],
        cwd=pathlib.Path(__file__).parents[2],
        env=os.environ,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"a benchmarked process ended with status {done.returncode}: {done.stderr[-2000:]}")
    wall, cpu, peak = map(float, done.stdout.split()[-3:])
    return wall, cpu, peak
