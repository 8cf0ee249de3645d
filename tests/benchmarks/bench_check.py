"""Checking CF compliance beside the two other checkers: user CPU of whole processes, in turn, in one run."""

from __future__ import annotations

import os
import statistics
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import netCDF4
import numpy as np

from tests.benchmarks.checkers import CLI, commands
from tests.benchmarks.peers import peer_python
from tests.benchmarks.table import Row

#: Our user CPU is at most this share of the other's: (a small file, many variables, many files).
BARS = {"cfchecker": (0.8, 0.25, 0.2), "compliance-checker": (1 / 3, 0.25, 0.2)}

#: Seconds of CPU after which a command is not run again.
_LONG = 60

#: Seconds after which it is stopped; its time is at least this.
_LONGEST = 150


def rows(small: bool) -> list[Row]:
    """Measure one small file, one with many variables and many files, and the growth with their numbers."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        one = [_write(folder / "one.nc", 2)]
        many = [_write(folder / "many.nc", 40 if small else 1000)]
        few = [_write(folder / "few.nc", 10 if small else 250)]
        files = [_write(folder / f"part_{n}.nc", 2) for n in range(5 if small else 100)]
        runs = 1 if small else 5
        python = peer_python("checkers", install=not small)
        found = [
            *_against(python, folder, one, "check: one small file", 0, runs),
            *_against(python, folder, many, f"check: {40 if small else 1000} variables", 1, runs),
            *_against(python, folder, files, f"check: {len(files)} files in one call", 2, runs),
        ]
        ours = _ours(few)
        less, more = _user([ours, _ours(many)], runs)
        base = _user([_ours(one)], runs)[0]
        growth = max(more - base, 1e-3) / max(less - base, 1e-3)
        found.append(
            Row("check: 4 times the variables, time beyond start", growth, 4.0, "linear", 4.0 / growth, None, "")
        )
        return found


def _ours(files: Sequence[Path]) -> list[str]:
    return [*CLI, *map(str, files)]


def _against(python: Path | None, folder: Path, files: Sequence[Path], job: str, bar: int, runs: int) -> list[Row]:
    """Return a row for each other checker; without them, one row for ours alone."""
    if python is None:
        ours = _user([_ours(files)], runs)[0]
        return [Row(job, ours, ours, "no other checker is installed", 1.0, None)]
    told = commands(python, folder, files)
    times = dict(zip(told, _user(list(told.values()), runs), strict=True))
    return [
        Row(job, times["cfagg"], times[other], other, times[other] / times["cfagg"], 1 / shares[bar])
        for other, shares in BARS.items()
    ]


def _user(told: list[list[str]], runs: int) -> list[float]:
    """Return the median user CPU of each command, run in turn; that of the processes it starts is counted.

    What takes longer than `_LONG` seconds is run once.
    """
    seen: list[list[float]] = [[] for _ in told]
    # Not in a project whose settings are looked for and read.
    cwd, nowhere = tempfile.gettempdir(), subprocess.DEVNULL
    # Installed packages have byte code: all of them write it on the first round of the first row.
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    for n in range(runs + (runs > 1)):
        for command, found in zip(told, seen, strict=True):
            if found and found[0] > _LONG:
                continue
            before = os.times()
            # Each tells what it found with its exit status.  A time limit keeps one from stopping the rest.
            with subprocess.Popen(command, env=env, cwd=cwd, stdout=nowhere, stderr=nowhere) as process:
                try:
                    process.wait(timeout=_LONGEST)
                except subprocess.TimeoutExpired:
                    process.kill()
            spent = os.times().children_user - before.children_user
            if n or runs == 1 or spent > _LONG:
                found.append(spent)
    return [max(statistics.median(found), 1e-3) for found in seen]


def _write(path: Path, variables: int) -> Path:
    """Write a small grid of so many variables with ten attributes each, as models write them, and return its path."""
    with netCDF4.Dataset(path, "w") as file:
        file.Conventions = "CF-1.8"
        file.title = "grid"
        file.createDimension("bnds", 2)
        for name, size, standard_name, units, axis in (
            ("time", 2, "time", "days since 2000-01-01", "T"),
            ("lat", 3, "latitude", "degrees_north", "Y"),
            ("lon", 4, "longitude", "degrees_east", "X"),
        ):
            file.createDimension(name, size)
            axis_ = file.createVariable(name, "f8", (name,))
            axis_[:] = np.arange(size)
            axis_.setncatts({"standard_name": standard_name, "units": units, "axis": axis, "long_name": name})
            axis_.bounds = f"{name}_bnds"
            file.createVariable(f"{name}_bnds", "f8", (name, "bnds"))[:] = np.arange(size)[:, None] + [-0.5, 0.5]
        file["time"].calendar = "standard"
        height = file.createVariable("height", "f8", ())
        height.setncatts(
            {"standard_name": "height", "long_name": "height", "units": "m", "positive": "up", "axis": "Z"}
        )
        height[...] = 2.0
        area = file.createVariable("areacella", "f4", ("lat", "lon"))
        area.setncatts({"standard_name": "cell_area", "long_name": "area", "units": "m2"})
        for n in range(variables):
            field = file.createVariable(f"tas_{n}", "f4", ("time", "lat", "lon"), fill_value=np.float32(1e20))
            field.setncatts(
                {
                    "standard_name": "air_temperature",
                    "long_name": f"temperature {n}",
                    "units": "K",
                    "cell_methods": "area: time: mean",
                    "cell_measures": "area: areacella",
                    "coordinates": "height",
                    "missing_value": np.float32(1e20),
                    "comment": "written for a benchmark",
                    "original_name": "t2m",
                }
            )
    return path
