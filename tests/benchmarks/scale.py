"""What each job costs for each partition and chunk, from a thousand of them: ``python -m tests.benchmarks.scale``.

The figures go into ``docs/making/scale.json``, from which ``docs/making/scale.py`` makes the page.  Metadata are
simulated; values are real, in chunks of 1 KiB, so that next to nothing but the cost of a chunk is measured.  Times are
CPU seconds of this process, the best of some runs.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

import cfagg
from cfagg.arrays.plan import plan
from cfagg.conventions import nca, nca_write
from cfagg.formats.zarr.grids import grid_v3
from cfagg.model import Grid
from tests.benchmarks.bench_parse import text_of
from tests.benchmarks.scale_cases import SMALL, large, long_store, netcdf_files, small_store
from tests.benchmarks.scale_requests import requests

__all__ = ["JOBS", "RATES", "best_of", "measured"]

#: Where figures are kept.
KEPT = Path(__file__).resolve().parents[2] / "docs/making/scale.json"


@dataclass(frozen=True)
class Job:
    """A job, what its cost is counted by, how many of those are tried at most, and what makes one trial."""

    name: str
    unit: str
    most: int
    trial: Callable[[int, Path], Any]  # a context: within it stands the function that is timed
    once: bool = False  # its cost is that of one such job among so many chunks, not of each
    grows: bool = False  # that cost grows with their number


def best(function: Callable[[], Any], runs: int = 3) -> float:
    """Return the CPU seconds of the fastest of some runs."""
    found = []
    for _ in range(runs):
        start = time.process_time()
        function()
        found.append(time.process_time() - start)
    return min(found)


@contextmanager
def nca_read(n: int, _: Path) -> Iterator[Callable[[], Any]]:
    text, sizes = text_of(n), {"time": 12 * n, "lat": 64, "lon": 128}
    yield lambda: nca.parse("tas", {"nca_dimensions": "time lat lon", "nca_array": text}, "f4", sizes)


@contextmanager
def nca_written(n: int, here: Path) -> Iterator[Callable[[], Any]]:
    with nca_read(n, here) as read:
        aggregation = read()
    yield lambda: nca_write.write(aggregation)


def _document(shapes: Any) -> bytes:
    grid = {"name": "rectilinear", "configuration": {"kind": "inline", "chunk_shapes": [shapes]}}
    return json.dumps({"chunk_grid": grid, "codecs": [{"name": "bytes"}]}).encode()


@contextmanager
def equal_grid(n: int, _: Path) -> Iterator[Callable[[], Any]]:
    text = _document([[12, n]])
    yield lambda: grid_v3(json.loads(text), (12 * n,), [], "a")


@contextmanager
def unequal_grid(n: int, _: Path) -> Iterator[Callable[[], Any]]:
    text = _document([5, 7] * (n // 2))
    yield lambda: grid_v3(json.loads(text), (6 * n,), [], "a")


@contextmanager
def planned(n: int, _: Path) -> Iterator[Callable[[], Any]]:
    grid = Grid.from_sizes([np.tile([5, 7], n // 2)])
    yield lambda: plan(grid, [slice(3, 6 * n - 3)]).cell


@contextmanager
def planned_short(n: int, _: Path) -> Iterator[Callable[[], Any]]:
    grid = Grid.from_sizes([np.tile([5, 7], n // 2)])
    middle = 3 * n
    yield lambda: plan(grid, [slice(middle, middle + 30)]).cell


@contextmanager
def _stored(n: int, here: Path, codec: str) -> Iterator[Path]:
    store = here / f"{codec}-{n}.zarr"
    small_store(store, n, codec)
    try:
        yield store
    finally:
        shutil.rmtree(store)


@contextmanager
def raw_read(n: int, here: Path) -> Iterator[Callable[[], Any]]:
    with _stored(n, here, "none") as store:
        yield lambda: cfagg.open_array(store, "v")[...]


@contextmanager
def zstd_read(n: int, here: Path) -> Iterator[Callable[[], Any]]:
    with _stored(n, here, "zstd") as store:
        yield lambda: cfagg.open_array(store, "v")[...]


@contextmanager
def accumulated(n: int, here: Path) -> Iterator[Callable[[], Any]]:
    with _stored(n, here, "zstd") as store:
        yield lambda: cfagg.accumulate(store, "v", dims=["time"], overwrite=True)


@contextmanager
def asked(n: int, here: Path) -> Iterator[Callable[[], Any]]:
    with _stored(n, here, "zstd") as store:
        cfagg.accumulate(store, "v", dims=["time"])
        found = cfagg.open_accumulated(store, "v")
        inside = slice(SMALL // 2, SMALL * n - SMALL // 2)
        yield lambda: found.mean("time", isel={"time": inside})


@contextmanager
def _grown(n: int, here: Path, pattern: list[int]) -> Iterator[Callable[[], Any]]:
    """Append to an array of which only the description is there."""
    store = here / f"long-{n}.zarr"
    step = count(long_store(store, np.tile(pattern, n // len(pattern))))

    def once() -> None:
        data = {"v": np.ones((1, SMALL), "f4"), "time": np.array([float(next(step))])}
        # No chunk of the coordinate is there, so that its values say nothing of an order.
        cfagg.append(store, data, "time", any_order=True)

    yield once
    shutil.rmtree(store)


def appended(n: int, here: Path) -> Any:
    return _grown(n, here, [1])


def appended_unequal(n: int, here: Path) -> Any:
    return _grown(n, here, [2, 1])


@contextmanager
def joined(n: int, here: Path) -> Iterator[Callable[[], Any]]:
    folder, number = here / f"joined-{n}", count()
    folder.mkdir()
    with _stored(n // 2, here, "zstd") as store:

        def once() -> None:
            parts = [cfagg.open_array(store, "v")] * 2
            cfagg.write(cfagg.concatenate(parts), folder / f"{next(number)}.zarr")

        yield once
    shutil.rmtree(folder)


@contextmanager
def rows_written(n: int, here: Path) -> Iterator[Callable[[], Any]]:
    """Write rows of 0 to 9 values in chunks of 256."""
    random = np.random.default_rng(0)
    ends = np.concatenate([[0], np.cumsum(random.integers(0, 10, n))])
    data = np.round(random.normal(size=ends[-1]), 2).astype("f4")
    yield lambda: cfagg.write_rows((data, ends), here / "rows.zarr", chunk=SMALL, overwrite=True)
    shutil.rmtree(here / "rows.zarr", ignore_errors=True)


@contextmanager
def rows_read(n: int, here: Path) -> Iterator[Callable[[], Any]]:
    with rows_written(n, here) as write:
        write()
        rows = cfagg.open_rows(here / "rows.zarr")
        yield lambda: [len(batch) for batch in rows.batches(1000)]


@contextmanager
def converted(n: int, here: Path) -> Iterator[Callable[[], Any]]:
    with _stored(n, here, "zstd") as store:
        yield lambda: cfagg.convert(store, here / "out.zarr", chunks={"time": SMALL}, overwrite=True)
        shutil.rmtree(here / "out.zarr", ignore_errors=True)


@contextmanager
def converted_to_netcdf(n: int, here: Path) -> Iterator[Callable[[], Any]]:
    with _stored(n, here, "zstd") as store:
        yield lambda: cfagg.convert(store, here / "out.nc", overwrite=True)
        (here / "out.nc").unlink(missing_ok=True)


@contextmanager
def aggregated(n: int, here: Path) -> Iterator[Callable[[], Any]]:
    files = netcdf_files(here / f"files-{n}", n)
    made = cfagg.aggregate(files, output=here / f"out-{n}.nca", overwrite=True)
    if made["v"].shape != (n, SMALL):
        raise RuntimeError(f"the files did not become one array: {made}")
    yield lambda: cfagg.aggregate(files, output=here / f"out-{n}.nca", overwrite=True)
    shutil.rmtree(here / f"files-{n}")


@contextmanager
def indexed(n: int, here: Path) -> Iterator[Callable[[], Any]]:
    files = netcdf_files(here / f"files-{n}", n)
    cfagg.aggregate(files, output=here / f"out-{n}.nca", overwrite=True)
    yield lambda: cfagg.index(here / f"out-{n}.nca", overwrite=True)
    shutil.rmtree(here / f"files-{n}")


@contextmanager
def column_read(n: int, here: Path) -> Iterator[Callable[[], Any]]:
    files = netcdf_files(here / f"files-{n}", n)
    cfagg.aggregate(files, output=here / f"out-{n}.nca", overwrite=True)
    yield lambda: cfagg.open_array(here / f"out-{n}.nca", "v")[:, 7]
    shutil.rmtree(here / f"files-{n}")


#: In the order of the page.
JOBS = (
    Job("read an aggregation's description", "partition", 10**6, nca_read),
    Job("write an aggregation's description", "partition", 10**6, nca_written),
    Job("read the grid of equal chunks", "chunk", 10**7, equal_grid),
    Job("read the grid of unequal chunks", "chunk", 10**7, unequal_grid),
    Job("plan the whole array", "chunk", 10**7, planned),
    Job("plan 30 steps of it", "plan", 10**7, planned_short, once=True),
    Job("read all chunks, uncompressed", "chunk", 10**5, raw_read),
    Job("read all chunks, zstd", "chunk", 10**5, zstd_read),
    Job("build an accumulation", "chunk", 10**4, accumulated),
    Job("mean of all by its accumulation", "chunk", 10**4, asked),
    Job("append a step to equal chunks", "call", 10**6, appended, once=True),
    Job("append a step to unequal chunks", "call", 10**5, appended_unequal, once=True, grows=True),
    Job("join arrays without decoding them", "chunk", 10**4, joined),
    Job("convert to other chunks of the same size", "chunk", 10**4, converted),
    Job("convert to netCDF-4", "chunk", 10**5, converted_to_netcdf),
    Job("write rows of about 5 values", "row", 10**6, rows_written),
    Job("read them in batches of 1,000", "row", 10**6, rows_read),
    Job("aggregate files", "file", 10**3, aggregated),
    Job("locate the chunks of a file", "file", 10**3, indexed),
    Job("read a value of each file through an aggregation", "file", 10**3, column_read),
)


#: What moves values, by megabytes of them a second and core.
RATES: dict[str, Callable[[Path, Path, Path], Any]] = {
    "read netCDF-4, deflate": lambda nc, _, __: cfagg.open_array(nc, "v")[...],
    "read Zarr, zstd": lambda _, store, __: cfagg.open_array(store, "v")[...],
    "convert netCDF-4 to Zarr": lambda nc, _, here: cfagg.convert(nc, here / "converted.zarr", overwrite=True),
    "accumulate over time": lambda _, store, __: cfagg.accumulate(store, "v", dims=["time"], overwrite=True),
}


def measured(largest: int, only: str = "", log: Callable[[str], Any] = lambda _: None) -> dict[str, Any]:
    """Return the CPU seconds of every job at powers of ten up to `largest`, and the rates of what moves values."""
    found: dict[str, Any] = {
        "machine": _machine(),
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "jobs": {},
        "rates": {},
    }
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder)
        for job in JOBS:
            if only not in job.name:
                continue
            sizes = [10**k for k in range(2 if job.most <= 10**3 else 3, 8) if 10**k <= min(job.most, largest)]
            times = {}
            for n in sizes:
                with job.trial(n, here) as function:
                    function()
                    times[str(n)] = float(f"{best(function, 3 if n < 10**6 else 2):.4g}")
                log(f"{job.name}: {n:,}: {times[str(n)]:.3g} s")
            found["jobs"][job.name] = {"unit": job.unit, "once": job.once, "grows": job.grows, "seconds": times}
        if not only:
            nc, store, size = large(here)
            for name, move in RATES.items():
                move(nc, store, here)
                found["rates"][name] = float(f"{size / 1e6 / best(lambda move=move: move(nc, store, here)):.4g}")
                log(f"{name}: {found['rates'][name]} MB/s")
            found["requests"] = requests(here)
            aggregation = nca.parse(
                "tas",
                {"nca_dimensions": "time lat lon", "nca_array": text_of(10**4)},
                "f4",
                {"time": 12 * 10**4, "lat": 64, "lon": 128},
            )
            found["bytes of a partition in memory"] = round(aggregation.partitions.nbytes / 10**4, 1)
    return found


def best_of(kept: dict[str, Any], found: dict[str, Any]) -> dict[str, Any]:
    """Return the least times and highest rates of two measurements; a shared machine is not always as fast."""
    jobs = {**kept["jobs"], **found["jobs"]}
    for name in kept["jobs"].keys() & found["jobs"].keys():
        one, other = kept["jobs"][name]["seconds"], found["jobs"][name]["seconds"]
        seconds = {n: min(times[n] for times in (one, other) if n in times) for n in {**one, **other}}
        jobs[name] = {**found["jobs"][name], "seconds": seconds}
    order = [job.name for job in JOBS if job.name in jobs]
    rates = {name: max(rate, found["rates"].get(name, 0.0)) for name, rate in kept["rates"].items()}
    dates = " and ".join(dict.fromkeys([*kept["date"].split(" and "), found["date"]]))
    return {**kept, **found, "date": dates, "jobs": {name: jobs[name] for name in order}, "rates": rates}


def _machine() -> str:
    """Return what the figures were measured on, as far as it decides them."""
    python = f"Python {platform.python_version()}, NumPy {np.__version__}"
    return f"{platform.machine()}, {os.cpu_count()} cores, {python}"


def main() -> None:
    """Measure, print and keep the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--largest", type=int, default=10**7)
    parser.add_argument("--only", default="", help="part of the names of jobs; nothing is kept without --again")
    parser.add_argument("--again", action="store_true", help="keep the best of the figures that were kept and these")
    args = parser.parse_args()
    found = measured(args.largest, args.only, lambda said: print(said, file=sys.stderr, flush=True))
    if args.again:
        found = best_of(json.loads(KEPT.read_text(encoding="utf-8")), found)
    if args.only and not args.again:
        print(json.dumps(found, indent=1))
    else:
        KEPT.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
