"""Zarr to Zarr: shards of small chunks, and rows to columns in little memory, against bare decoding and encoding.

Whole processes are measured, start-up included.  The floor of shards decodes each chunk and encodes what it becomes, in
threads, and writes nothing; shards are written to a file system in memory if there is one.  That of rows to columns has
the whole array in memory, which a conversion does not.
"""

from __future__ import annotations

import pathlib
import shutil
import statistics

import numpy as np

from tests.benchmarks.bench_convert import _measure
from tests.benchmarks.table import Row

HERE = pathlib.Path(__file__).resolve().parents[2] / ".bench" / "rechunk"

SHARDS = """
import sys
from cfagg.conversion import convert
chunks = {"t": 1, "y": 256, "x": 256}
convert(sys.argv[1] + "/maps.zarr", sys.argv[2], chunks=chunks, shards={"y": -1, "x": -1}, codec="zstd")
"""

SHARDS_FLOOR = """
import json, os, pathlib, sys
from concurrent.futures import ThreadPoolExecutor
import numcodecs, numpy as np
from numcodecs import Zstd
zstd = Zstd(1)
array = pathlib.Path(sys.argv[1], "maps.zarr", "v")
shape = json.loads((array / "zarr.json").read_text())["shape"][1:]
def work(path):
    field = np.frombuffer(zstd.decode(path.read_bytes()), "f4").reshape(shape)
    for i in range(0, shape[0], 256):
        for j in range(0, shape[1], 256):
            zstd.encode(np.ascontiguousarray(field[i:i + 256, j:j + 256]))
with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
    list(pool.map(work, sorted(p for p in (array / "c").rglob("*") if p.is_file())))
"""

COLUMNS = """
import sys
from cfagg.conversion import convert
convert(sys.argv[1] + "/rows.zarr", sys.argv[2], chunks={"y": -1, "x": 16}, codec="zstd")
"""

COLUMNS_FLOOR = """
import json, os, pathlib, sys
from concurrent.futures import ThreadPoolExecutor
import numpy as np
from numcodecs import Zstd
zstd = Zstd(1)
array = pathlib.Path(sys.argv[1], "rows.zarr", "v")
shape = json.loads((array / "zarr.json").read_text())["shape"]
field = np.empty(shape, "f4")
def read(i):
    field[i] = np.frombuffer(zstd.decode((array / "c" / str(i) / "0").read_bytes()), "f4")
def write(j):
    zstd.encode(np.ascontiguousarray(field[:, j:j + 16]))
with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
    list(pool.map(read, range(shape[0])))
    list(pool.map(write, range(0, shape[1], 16)))
"""

PEER = """
import sys
import xarray as xr
ds = xr.open_zarr(sys.argv[1] + "/rows.zarr", chunks={})
n = ds.sizes["y"]
ds = ds.chunk({"y": -1, "x": 16})
ds.v.encoding = {}
ds.to_zarr(sys.argv[2], encoding={"v": {"chunks": (n, 16)}})
"""


def rows(small: bool) -> list[Row]:
    """Return the rows of both jobs."""
    maps, size = (8, 512) if small else (256, 2048)
    n = 512 if small else 16384
    folder = _data(maps, size, n)
    seen: dict[str, list[tuple[float, float, float]]] = {}
    scripts = {"shards": SHARDS, "shards floor": SHARDS_FLOOR, "columns": COLUMNS, "columns floor": COLUMNS_FLOOR}
    if small or n <= 4096:
        scripts["columns peer"] = PEER  # whose memory is not bounded
    for _ in range(1 if small else 3):
        for who, script in scripts.items():
            seen.setdefault(who, []).append(_measure(script, folder, in_memory=who == "shards"))
    wall, cpu, peak = (
        {who: statistics.median(m[k] for m in measured) for who, measured in seen.items()} for k in range(3)
    )
    share = None if small else 0.9
    first = f"maps to shards of 256² chunks, {maps * size * size * 4 / 1e9:.2g} GB"
    second = f"rows to columns, {n}², {n * n * 4 / 1e9:.2g} GB"
    floor = "decode + encode"
    return [
        Row(f"{first}: CPU", cpu["shards"], cpu["shards floor"], floor, cpu["shards floor"] / cpu["shards"], share),
        Row(f"{first}: wall", wall["shards"], wall["shards floor"], floor, wall["shards floor"] / wall["shards"],
            share),
        Row(f"{first}: peak memory", peak["shards"], 400.0, "the bar", 400.0 / peak["shards"], 1.0, "MB"),
        Row(f"{second}: CPU", cpu["columns"], cpu["columns floor"], f"{floor}, all in memory",
            cpu["columns floor"] / cpu["columns"], None),
        Row(f"{second}: wall", wall["columns"], wall["columns floor"], f"{floor}, all in memory",
            wall["columns floor"] / wall["columns"], None),
        Row(f"{second}: peak memory", peak["columns"], 400.0, "the bar", 400.0 / peak["columns"], 1.0, "MB"),
    ] + [
        Row(f"{second}: {what}", figure["columns"], figure["columns peer"], "xarray and dask",
            figure["columns peer"] / figure["columns"], None)
        for what, figure in (("CPU", cpu), ("wall", wall)) if "columns peer" in figure
    ]  # fmt: skip


def _data(maps: int, size: int, n: int) -> pathlib.Path:
    """Return the folder with both stores, made where they are not there yet."""
    import zarr

    folder = HERE / f"{maps}x{size}x{n}"
    if (folder / "done").exists():
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    random = np.random.default_rng(5)
    for name, dims, shape, chunks in (
        ("maps", ("t", "y", "x"), (maps, size, size), (1, size, size)),
        ("rows", ("y", "x"), (n, n), (1, n)),
    ):
        group = zarr.open_group(folder / f"{name}.zarr", mode="w")
        codec = zarr.codecs.ZstdCodec(level=1)
        array = group.create_array(
            "v", shape=shape, chunks=chunks, dtype="f4", dimension_names=dims, compressors=[codec]
        )
        for i in range(0, shape[0], step := 1 if name == "maps" else 256):
            part = (min(step, shape[0] - i), *shape[1:])
            array[i : i + part[0]] = np.cumsum(random.integers(-3, 4, part), axis=-1).astype("f4")
    (folder / "done").touch()
    return folder
