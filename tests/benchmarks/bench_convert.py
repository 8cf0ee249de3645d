"""Converting a year of daily files to Zarr: against xarray with dask, and against bare decoding and encoding.

Whole processes are measured, start-up included, each from its own exit status: wall time, CPU time, peak memory.  The
files are made once, under ``.bench/convert``.  What is compared with bare decoding and encoding, which writes nothing,
is written to a file system in memory if there is one: the bar is about this program, not about the speed of a disk.
"""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import time

import numpy as np

from tests.benchmarks.table import Row

HERE = pathlib.Path(__file__).resolve().parents[2] / ".bench" / "convert"

#: A file system in memory, as Linux has it.
MEMORY = pathlib.Path("/dev/shm")

#: Name -> (steps a day, type, zlib level, 0 for contiguous files).  A year of each is 4.5 GB in the type as stored.
CASES = {"int16 packed": (6, "i2", 4), "float32": (3, "f4", 1), "float32 contiguous": (3, "f4", 0)}

OURS = """
import sys
from cfagg.conversion import convert
convert(sys.argv[1] + "/year.nca", sys.argv[2])
"""

PEER = """
import glob, sys
import xarray as xr
ds = xr.open_mfdataset(sorted(glob.glob(sys.argv[1] + "/day*.nc")), combine="nested", concat_dim="time")
ds.to_zarr(sys.argv[2])
"""

# The fastest library path to the same bytes, without CF, checks or output: raw HDF5 chunks, inflate, unshuffle; zstd.
# With one argument more it writes them too, as any conversion has to, though it does not force them to disk.
FLOOR = """
import glob, itertools, os, sys
from concurrent.futures import ThreadPoolExecutor
import h5py, numcodecs, numpy as np
try:
    from isal import isal_zlib as zlib
except ImportError:
    import zlib
level, per = 1, int(sys.argv[3])
written = itertools.count() if len(sys.argv) > 4 else None
if written:
    os.mkdir(sys.argv[2])
zstd = numcodecs.Zstd(level)
def work(raw):
    dtype, pieces = raw
    shuffle = numcodecs.Shuffle(np.dtype(dtype).itemsize)
    blocks = [p if isinstance(p, np.ndarray) else shuffle.decode(zlib.decompress(p)) for p in pieces]
    encoded = zstd.encode(np.concatenate(blocks) if len(blocks) > 1 else blocks[0])
    if written:
        with open(f"{sys.argv[2]}/{next(written)}", "wb") as file:
            file.write(encoded)
def chunks():
    for name in sorted(glob.glob(sys.argv[1] + "/day*.nc")):
        with h5py.File(name) as f:
            v = f["tas"]
            if v.chunks is None:
                raw = np.fromfile(name, v.dtype, v.size, offset=v.id.get_offset()).reshape(v.shape)
            else:
                raw = [v.id.read_direct_chunk((t, 0, 0))[1] for t in range(v.shape[0])]
            for i in range(0, len(raw), per):
                yield v.dtype.str, raw[i:i + per]
with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
    source, running = chunks(), []
    for raw in source:
        running.append(pool.submit(work, raw))
        if len(running) > 8:
            running.pop(0).result()
    for r in running:
        r.result()
"""


def rows(small: bool) -> list[Row]:
    """Return the rows of all cases."""
    out = []
    for name, (steps, dtype, level) in CASES.items():
        # Of a second's work most is start-up, which the bars are not about.
        faster, share = (None, None) if small else (3.0 if level else None, 0.9)
        days, lat, lon = (6, 90, 180) if small else (365, 721, 1440)
        folder = _data(name, days, steps, lat, lon, dtype, level)
        size = days * steps * lat * lon * np.dtype(dtype).itemsize
        per = 2 if dtype == "i2" else 1
        scripts = {
            "ours": (OURS,),
            "memory": (OURS,),
            "peer": (PEER,),
            "floor": (FLOOR, str(per)),
            "files": (FLOOR, str(per), "files"),
        }
        seen: dict[str, list[tuple[float, float, float]]] = {who: [] for who in scripts}
        for _ in range(1 if small else 3):
            for who, (script, *arguments) in scripts.items():
                seen[who].append(_measure(script, folder, *arguments, in_memory=who == "memory"))
        decoding = "decode + encode"
        wall, cpu, peak = (
            {who: statistics.median(m[k] for m in measured) for who, measured in seen.items()} for k in range(3)
        )
        job = f"convert {name}, {size / 1e9:.2g} GB, {days} files"
        xarray = "open_mfdataset -> to_zarr"
        out += [
            Row(f"{job}: CPU", cpu["ours"], cpu["peer"], xarray, cpu["peer"] / cpu["ours"], faster),
            Row(f"{job}: wall", wall["ours"], wall["peer"], xarray, wall["peer"] / wall["ours"], faster),
            Row(f"{job}: CPU", cpu["memory"], cpu["floor"], decoding, cpu["floor"] / cpu["memory"], share),
            Row(f"{job}: wall", wall["memory"], wall["floor"], decoding, wall["floor"] / wall["memory"], share),
            Row(f"{job}: CPU", cpu["ours"], cpu["files"], "the same with files", cpu["files"] / cpu["ours"], None),
            Row(f"{job}: wall", wall["ours"], wall["files"], "the same with files", wall["files"] / wall["ours"], None),
            Row(f"{job}: peak memory", peak["ours"], 400.0, "the bar", 400.0 / peak["ours"], 1.0, "MB"),
            Row(f"{job}: peak memory", peak["ours"], peak["peer"], xarray, peak["peer"] / peak["ours"], None, "MB"),
        ]
    return out


def _measure(script: str, folder: pathlib.Path, *arguments: str, in_memory: bool = False) -> tuple[float, float, float]:
    """Return wall seconds, CPU seconds and peak megabytes of a process; what it writes is removed.

    Modules are compiled once, as they are where a package is installed, whatever the environment says of that.
    """
    target = (MEMORY if in_memory and MEMORY.is_dir() else folder) / f"cfagg-{folder.name}.zarr"
    shutil.rmtree(target, ignore_errors=True)
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(HERE.parent / "pycache")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    start = time.perf_counter()
    process = subprocess.Popen([sys.executable, "-c", script, str(folder), str(target), *arguments], env=environment)
    _, status, used = os.wait4(process.pid, 0)
    wall = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"a benchmarked process ended with status {process.returncode}")
    shutil.rmtree(target, ignore_errors=True)
    return wall, used.ru_utime + used.ru_stime, used.ru_maxrss / 1e3


def _data(name: str, days: int, steps: int, lat: int, lon: int, dtype: str, level: int) -> pathlib.Path:
    """Return the folder with a year of daily files and their aggregation, made where it is not there yet."""
    folder = HERE / f"{name.replace(' ', '-')}-{days}x{steps}x{lat}x{lon}"
    if (folder / "year.nca").exists():
        return folder
    import netCDF4

    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(7)
    phi = np.linspace(-np.pi / 2, np.pi / 2, lat)[:, None]
    mean = (288 - 45 * np.sin(phi) ** 2).astype("f4") + np.zeros((lat, lon), "f4")
    noise = _smooth(random.normal(size=(lat, lon))).astype("f4")
    for day in range(days):
        with netCDF4.Dataset(folder / f"day{day:03}.nc", "w") as nc:
            _axes(nc, steps, lat, lon, np.arange(steps) / steps + day)
            options = {"zlib": True, "complevel": level, "shuffle": True, "chunksizes": (1, lat, lon)} if level else {}
            v = nc.createVariable("tas", dtype, ("time", "lat", "lon"), **options)
            v.setncatts({"units": "K", "standard_name": "air_temperature"})
            if dtype == "i2":
                v.setncatts({"scale_factor": 0.01, "add_offset": 250.0, "missing_value": np.int16(-32768)})
            v.set_auto_maskandscale(False)
            for s in range(steps):
                noise = 0.9 * np.roll(noise, 1, axis=1) + 0.4 * _smooth(random.normal(size=(lat, lon))).astype("f4")
                field = mean + 6 * noise + random.normal(scale=0.05, size=(lat, lon)).astype("f4")
                # Model output rarely means more than some 16 bits of a float32; the others are left out, as is usual.
                v[s] = np.rint((field - 250) / 0.01) if dtype == "i2" else _rounded(field, 7)
    _aggregation(folder, days, steps, lat, lon)
    return folder


def _smooth(field: np.ndarray) -> np.ndarray:
    """Return noise of some hundred kilometres' length with a standard deviation near 1."""
    wave = np.fft.rfft2(field)
    k = np.hypot(np.fft.fftfreq(field.shape[0])[:, None], np.fft.rfftfreq(field.shape[1])[None])
    out = np.fft.irfft2(wave / (1 + (k / 0.02) ** 2), field.shape)
    return out / out.std()


def _rounded(field: np.ndarray, bits: int) -> np.ndarray:
    """Return float32 values with the last `bits` bits of the mantissa rounded away."""
    raw = field.view("u4") + np.uint32(1 << (bits - 1))
    return (raw & np.uint32(~((1 << bits) - 1) & 0xFFFFFFFF)).view("f4")


def _axes(nc, steps: int, lat: int, lon: int, times: np.ndarray) -> None:
    """Define dimensions and coordinates."""
    for dim, size in (("time", steps), ("lat", lat), ("lon", lon)):
        nc.createDimension(dim, size)
    nc.createVariable("time", "f8", ("time",)).setncatts({"units": "days since 2001-01-01", "calendar": "standard"})
    nc["time"][:] = times
    nc.createVariable("lat", "f8", ("lat",)).units = "degrees_north"
    nc["lat"][:] = np.linspace(-90, 90, lat)
    nc.createVariable("lon", "f8", ("lon",)).units = "degrees_east"
    nc["lon"][:] = np.arange(lon) * 360 / lon


def _aggregation(folder: pathlib.Path, days: int, steps: int, lat: int, lon: int) -> None:
    """Write the aggregation of all days, last of all: its presence says that the data are complete."""
    import netCDF4

    partitions = [
        {
            "index": [day],
            "location": [[day * steps, (day + 1) * steps], [0, lat], [0, lon]],
            "data": {"file": f"day{day:03}.nc", "ncvar": "tas", "shape": [steps, lat, lon]},
        }
        for day in range(days)
    ]
    directions = dict.fromkeys(("time", "lat", "lon"), True)
    array = {"directions": directions, "pdimensions": ["time"], "pshape": [days], "Partitions": partitions}
    with netCDF4.Dataset(folder / "year.part", "w") as nc:
        nc.Conventions = "CF-1.5 NCA"
        _axes(nc, days * steps, lat, lon, np.arange(days * steps) / steps)
        v = nc.createVariable("tas", "f4", ())
        v.setncatts({"units": "K", "standard_name": "air_temperature"})
        v.nca_dimensions = "time lat lon"
        v.nca_array = json.dumps(array)
    (folder / "year.part").rename(folder / "year.nca")
