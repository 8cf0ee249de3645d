"""Accumulation: what building costs, and means over ranges against xarray with dask, flox and NumPy in memory.

The series are hourly global fields of float32; the longer ones repeat the first (see `series`).  Stores, datasets and
accumulations are opened once, for all alike; every answer of ours includes its look at the stamps of all chunks, and
every answer is compared with that of the peer before anything is timed.

The curve of time against length is printed, and drawn into ``.bench/accumulate/growth.png``.
"""

from __future__ import annotations

import os
import pathlib
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from typing import Any

import numpy as np

from tests.benchmarks import box_series, growth, series
from tests.benchmarks.table import Row

OURS = "import sys, cfagg; cfagg.accumulate(sys.argv[1], 'tas', overwrite=True)"
LAUNCHER = """
import os, subprocess, sys, time
start = time.perf_counter()
process = subprocess.Popen([sys.executable, "-c", *sys.argv[1:]], stdout=subprocess.DEVNULL)
_, status, used = os.wait4(process.pid, 0)
print(time.perf_counter() - start, used.ru_maxrss / 1e3)
sys.exit(os.waitstatus_to_exitcode(status))
"""
IMPORTS = "import cfagg, cfagg.accumulation.accumulating"


def rows(small: bool) -> list[Row]:
    """Measure with the series of the performance page, or with one of some seconds."""
    case = series.SMALL if small else series.LARGE
    table = []
    for codec in ("none", "zstd"):
        table += _building(case, codec, small)
        table += _asking(case, codec, small)
    return table + box_series.rows(small) + growth.rows(case, small)


# ---------------------------------------------------------------------------------------------------------------------
# Building


def _building(case: series.Case, codec: str, small: bool) -> list[Row]:
    """Compare building with reading and decoding every chunk once, with as many threads."""
    import cfagg

    store = case.series(codec)
    files = series.chunk_files(store)

    def build() -> None:
        cfagg.accumulate(store, series.VARIABLE, series.COMBINATIONS, overwrite=True)

    def floor() -> None:
        _read_all(files, codec)

    def zarr_python() -> None:
        _read_with_zarr(store, case.chunks[0])

    def one_sum() -> None:
        _read_all(files, codec, add_up=True)

    runs = 1 if small else 5
    cpu, wall = _both_clocks(build, floor, zarr_python, one_sum, runs=runs)
    disk = [_from_disk(f, files, runs) for f in (build, floor)]
    # The time until the first answer of a command: imports, kernels from their cache, and the build.
    cold, peak = _process(OURS, store)
    idle, base = _process(IMPORTS, store)
    group = store / f"{series.VARIABLE}_accumulation_group"
    size, added = series.stored_bytes(store / series.VARIABLE), series.stored_bytes(group)
    label = f"{size / 1e9:.2g} GB, {'uncompressed' if codec == 'none' else codec}"
    # Half of the floor's speed is wanted; of a small build most is setting up.
    bar = None if small else 0.5
    return [
        Row(f"build, {label}: CPU", cpu[0], cpu[1], "reading alone", cpu[1] / cpu[0], bar),
        Row(f"build, {label}: wall", wall[0], wall[1], "reading alone", wall[1] / wall[0], None),
        Row(f"build, {label}: CPU", cpu[0], cpu[2], "reading with zarr-python", cpu[2] / cpu[0], None),
        Row(f"build, {label}: wall", wall[0], wall[2], "reading with zarr-python", wall[2] / wall[0], None),
        Row(f"build, {label}: CPU", cpu[0], cpu[3], "reading and one sum", cpu[3] / cpu[0], None),
        Row(f"build, {label}: from disk, wall", *disk, "reading alone", disk[1] / disk[0], None),
        Row(f"build, {label}: new process, wall", cold, idle, "imports alone", idle / cold, None),
        Row(f"build, {label}: peak memory", peak, base, "imports alone", base / peak, None, "MB"),
        Row(f"storage, {label}", added / 1e6, size / 1e6, "the array", size / added, None, "MB", f"{added / size:.2%}"),
    ]


def _read_all(files: list[pathlib.Path], codec: str, add_up: bool = False) -> None:
    """Read, decode, and perhaps sum, every chunk, in one thread for each processor."""
    import numcodecs

    zstd = numcodecs.Zstd()

    def read(file: pathlib.Path) -> None:
        values = np.fromfile(file, "f4") if codec == "none" else np.frombuffer(zstd.decode(file.read_bytes()), "f4")
        if add_up:
            values.sum(dtype="f8")

    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        list(pool.map(read, files))


def _read_with_zarr(store: pathlib.Path, step: int) -> None:
    """Read the variable as zarr-python does, a row of chunks at a time."""
    import zarr

    array = zarr.open_group(store, mode="r")[series.VARIABLE]
    for start in range(0, array.shape[0], step):
        array[start : start + step]


def _from_disk(function: Callable[[], None], files: list[pathlib.Path], runs: int) -> float:
    """Return the median wall seconds where the system has forgotten the files."""
    seen = []
    for _ in range(runs):
        for file in files:
            with file.open("rb") as handle:
                os.posix_fadvise(handle.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        start = time.perf_counter()
        function()
        seen.append(time.perf_counter() - start)
    return statistics.median(seen)


def _process(script: str, store: pathlib.Path) -> tuple[float, float]:
    """Return wall seconds and peak megabytes of a process of its own."""
    # A system may count the memory of the process that starts another as the other's: one that has none is put between.
    done = subprocess.run(
        [sys.executable, "-S", "-c", LAUNCHER, script, str(store)],
        cwd=pathlib.Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"a benchmarked process ended with status {done.returncode}: {done.stderr}")
    wall, peak = map(float, done.stdout.split()[-2:])
    return wall, peak


# ---------------------------------------------------------------------------------------------------------------------
# Asking


def _asking(case: series.Case, codec: str, small: bool) -> list[Row]:
    """Compare maps, box means, area-mean series and monthly means."""
    import cfagg

    store = case.series(codec)
    acc = cfagg.open_accumulated(store, series.VARIABLE)
    data = series.opened(store)
    memory = series.values(store) if codec == "none" else None
    label = "uncompressed" if codec == "none" else codec
    unaligned = 150.0 if codec == "none" else 30.0
    jobs = [
        # name, dimensions averaged over, selection, bar
        ("map, aligned", ("time",), case.pick(True, False), 500.0),
        ("box mean, aligned", series.DIMS, case.pick(True, True), 500.0),
        ("map, unaligned", ("time",), case.pick(False, False), unaligned),
        ("box mean, unaligned", series.DIMS, case.pick(False, True), unaligned),
        ("global-mean series", series.DIMS[1:], {"time": slice(None)}, None),
        ("box-mean series, unaligned", series.DIMS[1:], {**case.pick(False, True), "time": slice(None)}, None),
    ]
    table = []
    for name, dims, where, bar in jobs:
        functions: list[Callable[[], Any]] = [
            lambda dims=dims, where=where: acc.mean(dims, isel=where),
            lambda dims=dims, where=where: data.isel(where).mean(dims).compute(),
        ]
        if memory is not None:
            functions.append(lambda dims=dims, where=where: _in_memory(memory, dims, where))
        _same(name, *(np.asarray(f()) for f in functions))
        cpu, wall = _both_clocks(*functions, runs=1 if small else 5)
        job = f"{name}, {label}"
        table += _against(job, "xarray + dask", cpu[0], cpu[1], wall[0], wall[1], None if small else bar)
        if memory is not None:
            table += _against(job, "NumPy in memory", cpu[0], cpu[2], wall[0], wall[2], None)[:1]
    return table + _months(acc, data, label, small) + _extremes(case, acc, data, label, small)


def _months(acc: Any, data: Any, label: str, small: bool) -> list[Row]:
    """Compare the means of all months, with xarray's own grouping where flox is not there (as in the test suite)."""
    flox = find_spec("flox") is not None

    def peer() -> Any:
        if not flox:
            return data.groupby("time.month").mean().compute()
        from flox.xarray import xarray_reduce

        return xarray_reduce(data, data.time.dt.month, func="mean").compute()

    functions = [lambda: acc.groupby("time.month").mean(), peer]
    _same("monthly means", *(np.asarray(f().transpose("month", ...)) for f in functions))
    cpu, wall = _both_clocks(*functions, runs=1 if small else 5)
    # A prototype's 0.54 s against 11.2 s, uncompressed, is to be beaten; with zstd every seventh chunk is decoded, for
    # months end in it.
    bar = None if small or label != "uncompressed" else 20.7
    against = "flox" if flox else "xarray + dask"
    return _against(f"monthly means, {label}", against, cpu[0], cpu[1], wall[0], wall[1], bar)


def _extremes(case: series.Case, acc: Any, data: Any, label: str, small: bool) -> list[Row]:
    """Compare the other statistics, for information."""
    where = case.pick(False, True)
    table = []
    for name in ("max", "std"):
        functions = [
            lambda name=name: getattr(acc, name)(series.DIMS, isel=where),
            lambda name=name: getattr(data.isel(where), name)(series.DIMS).compute(),
        ]
        _same(name, *(np.asarray(f()) for f in functions))
        cpu, wall = _both_clocks(*functions, runs=1 if small else 5)
        table += _against(f"{name} of a box, {label}", "xarray + dask", cpu[0], cpu[1], wall[0], wall[1], None)
    return table


def _in_memory(memory: np.ndarray, dims: tuple[str, ...], where: dict[str, slice]) -> Any:
    index = tuple(where.get(d, slice(None)) for d in series.DIMS)
    return memory[index].mean(axis=tuple(series.DIMS.index(d) for d in dims), dtype="f8")


def _same(name: str, ours: np.ndarray, *others: np.ndarray) -> None:
    """Compare before timing: a fast wrong answer is worth nothing.  xarray adds up in float32."""
    for other in others:
        np.testing.assert_allclose(ours, other, rtol=1e-9 if other.dtype == np.float64 else 2e-4, err_msg=name)


def _against(
    job: str, peer: str, ours: float, other: float, ours_wall: float, other_wall: float, bar: float | None
) -> list[Row]:
    """Return the rows of one job by CPU time, which has the bar, and by the clock on the wall."""
    return [
        Row(f"{job}: CPU", ours, other, peer, other / ours, bar),
        Row(f"{job}: wall", ours_wall, other_wall, peer, other_wall / ours_wall, None),
    ]


def _both_clocks(*functions: Callable[[], Any], runs: int) -> tuple[list[float], list[float]]:
    """Return the median CPU and wall seconds of each function, of the same runs taken in turn."""
    for f in functions:
        f()
    cpu: list[list[float]] = [[] for _ in functions]
    wall: list[list[float]] = [[] for _ in functions]
    for _ in range(runs):
        for f, used, passed in zip(functions, cpu, wall, strict=True):
            began, start = time.process_time(), time.perf_counter()
            f()
            passed.append(time.perf_counter() - start)
            used.append(time.process_time() - began)
    return [statistics.median(seen) for seen in cpu], [statistics.median(seen) for seen in wall]
