"""Start-up: whole processes against bare Python and against importing netCDF4, in the same run.

Other work on the machine makes a process late, so what is measured is the CPU time of each process.
"""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import tempfile

import numpy as np
import xarray as xr

import cfagg
from cfagg.demo import sample
from tests.benchmarks.table import Row


def rows(small: bool) -> list[Row]:
    """Measure whole commands and `import cfagg`; the bars of the first two are seconds beyond bare Python."""
    python = sys.executable
    # As the installed command does, without the options of `python -m` that look for the module.
    command = [python, "-c", "import sys; from cfagg.cli.main import main; sys.exit(main())"]
    with tempfile.TemporaryDirectory() as folder:
        return _measured(python, command, _store(folder), small)


def _measured(python: str, command: list[str], store: str, small: bool) -> list[Row]:
    bare, netcdf, version, imported, shown, xarray, mean = _seconds(
        [
            [python, "-c", "pass"],
            [python, "-c", "import netCDF4"],
            [*command, "--version"],
            [python, "-c", "import cfagg"],
            [*command, "show", str(sample("temperature2.nca"))],
            [python, "-c", "import xarray"],
            [*command, "mean", store, "tas", "--over", "time", "--select", "time=2001-01-05/2001-03-31"],
        ],
        runs=3 if small else 15,
    )
    return [
        _beyond("start: cfagg --version", version, bare, 0.15),
        _beyond("start: import cfagg", imported, bare, 0.1),
        Row("start: cfagg show, 2 partitions", shown, netcdf, "import netCDF4", netcdf / shown, None),
        Row("start: cfagg mean, cold", mean, 1.5 * xarray, "1.5 × import xarray", 1.5 * xarray / mean, 1.0),
    ]


def _store(folder: str) -> str:
    """Return a store with an accumulation."""
    dates = xr.date_range("2001-01-01", periods=120, freq="D")
    coords = {"time": dates, "lat": ("lat", np.linspace(-80, 80, 9), {"units": "degrees_north"})}
    values = np.random.default_rng(0).normal(280, 10, (120, 9, 18)).astype("f4")
    tas = xr.DataArray(values, coords, ("time", "lat", "lon"), "tas")
    tas.chunk(time=10).to_dataset().to_zarr(f"{folder}/a.zarr", consolidated=False)
    cfagg.accumulate(f"{folder}/a.zarr", "tas")
    return f"{folder}/a.zarr"


def _beyond(job: str, ours: float, bare: float, limit: float) -> Row:
    """Return a row whose ratio is how often what the job adds to bare Python fits into `limit` seconds."""
    added = max(ours - bare, 1e-4)
    return Row(job, ours, bare, f"bare Python + {limit:g} s", limit / added, 1.0, note=f"adds {added:.3f} s")


def _seconds(commands: list[list[str]], runs: int) -> list[float]:
    """Return the median CPU seconds of each command's process, the commands run in turn."""
    seen: list[list[float]] = [[] for _ in commands]
    for n in range(runs + 1):
        for command, found in zip(commands, seen, strict=True):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            # The first round writes byte code and warms the disk's cache.
            if n:
                found.append(spent)
    return [statistics.median(found) for found in seen]
