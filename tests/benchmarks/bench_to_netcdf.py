"""Converting a Zarr store to one netCDF-4 file: against xarray with dask, and against bare decoding and encoding.

Whole processes are measured, start-up included, each from its own exit status.  The store is made once, under
``.bench/to_netcdf``.  All write deflate of level 1 with shuffle in the chunks of the source.
"""

from __future__ import annotations

import os
import pathlib
import statistics
import subprocess
import sys
import time

import numpy as np

from tests.benchmarks.table import Row

HERE = pathlib.Path(__file__).resolve().parents[2] / ".bench" / "to_netcdf"

OURS = """
import sys, cfagg
cfagg.convert(sys.argv[1], sys.argv[2])
"""

PEER = """
import sys, xarray as xr
ds = xr.open_zarr(sys.argv[1])
packed = {"zlib": True, "complevel": 1, "shuffle": True}
ds.to_netcdf(sys.argv[2], encoding={n: {**packed, "chunksizes": v.encoding["chunks"]} for n, v in ds.data_vars.items()})
"""

# The fastest library path to the same bytes: zstd decoded, shuffled, deflated by ISA-L, and stored as they are.
FLOOR = """
import itertools, pathlib, sys, threading
from concurrent.futures import ThreadPoolExecutor
import h5py, numcodecs, numpy as np, zarr
try:
    from isal import isal_zlib as zlib
except ImportError:
    import zlib
array = zarr.open_group(sys.argv[1], mode="r")["tas"]
zstd, lock = numcodecs.Zstd(), threading.Lock()
with h5py.File(sys.argv[2], "w") as f:
    made = f.create_dataset("tas", array.shape, array.dtype, chunks=array.chunks, shuffle=True, compression="gzip",
                            compression_opts=1)
    size = array.dtype.itemsize
    def work(index):
        raw = pathlib.Path(sys.argv[1], "tas", "c", *map(str, index)).read_bytes()
        plain = np.frombuffer(zstd.decode(raw), "u1").reshape(-1, size)
        packed = zlib.compress(np.ascontiguousarray(plain.T), 1)
        with lock:
            made.id.write_direct_chunk(tuple(i * c for i, c in zip(index, array.chunks)), packed)
    counts = [range(-(-n // c)) for n, c in zip(array.shape, array.chunks)]
    with ThreadPoolExecutor(2) as pool:
        for _ in pool.map(work, itertools.product(*counts)):
            pass
"""


def rows(small: bool) -> list[Row]:
    """Return the rows."""
    steps = 24 if small else 960
    folder = _data(steps)
    seen: dict[str, list[tuple[float, float, float]]] = {"ours": [], "peer": [], "floor": []}
    for _ in range(1 if small else 3):
        for who, script in (("ours", OURS), ("peer", PEER), ("floor", FLOOR)):
            seen[who].append(_measure(script, folder))
    wall, cpu, peak = (
        {who: statistics.median(m[k] for m in measured) for who, measured in seen.items()} for k in range(3)
    )
    job = f"Zarr -> netCDF-4, {steps * 361 * 720 * 4 / 1e9:.2g} GB of float32"
    xarray, floor = "open_zarr -> to_netcdf", "decode + encode"
    faster, share = (None, None) if small else (3.0, 0.9)
    return [
        Row(f"{job}: CPU", cpu["ours"], cpu["peer"], xarray, cpu["peer"] / cpu["ours"], faster),
        Row(f"{job}: wall", wall["ours"], wall["peer"], xarray, wall["peer"] / wall["ours"], faster),
        Row(f"{job}: CPU", cpu["ours"], cpu["floor"], floor, cpu["floor"] / cpu["ours"], share),
        Row(f"{job}: wall", wall["ours"], wall["floor"], floor, wall["floor"] / wall["ours"], share),
        Row(f"{job}: peak memory", peak["ours"], 400.0, "the bar", 400.0 / peak["ours"], 1.0, "MB"),
    ]


def _measure(script: str, folder: pathlib.Path) -> tuple[float, float, float]:
    """Return wall seconds, CPU seconds and peak megabytes of a process; what it writes is removed."""
    target = folder / "out.nc"
    target.unlink(missing_ok=True)
    start = time.perf_counter()
    process = subprocess.Popen([sys.executable, "-W", "ignore", "-c", script, str(folder / "a.zarr"), str(target)])
    _, status, used = os.wait4(process.pid, 0)
    wall = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"a benchmarked process ended with status {process.returncode}")
    target.unlink()
    return wall, used.ru_utime + used.ru_stime, used.ru_maxrss / 1e3


def _data(steps: int) -> pathlib.Path:
    """Return the folder with a store, made where it is not there yet; what is left out of the values is as usual."""
    folder = HERE / str(steps)
    if (folder / "a.zarr" / "zarr.json").exists():
        return folder
    import zarr

    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(7)
    root = zarr.open_group(str(folder / "a.zarr"), mode="w")
    made = root.create_array("tas", shape=(steps, 361, 720), chunks=(4, 361, 720), dtype="f4",
                             dimension_names=("time", "lat", "lon"), attributes={"units": "K"})  # fmt: skip
    wave = 280 + 20 * np.sin(np.linspace(0, 40, 361 * 720)).reshape(361, 720)
    for start in range(0, steps, 4):
        field = (wave + random.normal(scale=0.5, size=(4, 361, 720))).astype("f4")
        made[start : start + 4] = (field.view("u4") & np.uint32(0xFFFFFF80)).view("f4")
    return folder
