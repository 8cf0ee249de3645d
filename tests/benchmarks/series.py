"""Long series of global fields in Zarr stores for benchmarks, made once under ``.bench/accumulate``.

The longer series repeats the shorter one, with files of its own: links would be cheaper, but are unusual.  Ten
years take 23 GB uncompressed and 14 GB with zstd.
"""

from __future__ import annotations

import itertools
import pathlib
import shutil
from dataclasses import dataclass
from typing import Any

import numpy as np

HERE = pathlib.Path(__file__).resolve().parents[2] / ".bench" / "accumulate"

#: Dimensions of every series.
DIMS = ("time", "latitude", "longitude")

#: Name of the variable.
VARIABLE = "tas"

#: Combinations of dimensions that are accumulated: those of the maps, and those of the area means.
COMBINATIONS = [("time",), ("latitude",), ("longitude",), ("latitude", "longitude")]


@dataclass(frozen=True)
class Case:
    """The size of a run: shape, chunks, ranges of time on and off the ends of chunks, a box, lengths of the curve."""

    shape: tuple[int, int, int]
    chunks: tuple[int, int, int]
    aligned: dict[str, slice]
    unaligned: dict[str, slice]
    growth: tuple[int, ...]

    def series(self, codec: str, times: int = 1) -> pathlib.Path:
        """Return the store of this size."""
        return series(*self.shape, self.chunks, codec, times)

    def pick(self, aligned: bool, box: bool, times: int = 1) -> dict[str, slice]:
        """Return a selection; of a longer series, as large a share of the time."""
        ranges = dict(self.aligned if aligned else self.unaligned)
        steps = self.shape[0]
        ranges["time"] = slice(ranges["time"].start, ranges["time"].stop + steps * (times - 1))
        return ranges if box else {"time": ranges["time"]}


LARGE = Case(
    (8760, 180, 360),
    (120, 90, 180),
    {"time": slice(120, 8640), "latitude": slice(10, 170), "longitude": slice(20, 340)},
    {"time": slice(167, 8605), "latitude": slice(10, 170), "longitude": slice(20, 340)},
    (1, 3, 10),
)
SMALL = Case(
    (96, 18, 36),
    (12, 9, 18),
    {"time": slice(12, 84), "latitude": slice(1, 17), "longitude": slice(2, 34)},
    {"time": slice(17, 79), "latitude": slice(1, 17), "longitude": slice(2, 34)},
    (1, 2),
)


def series(
    steps: int, lat: int, lon: int, chunks: tuple[int, int, int], codec: str = "none", times: int = 1
) -> pathlib.Path:
    """Return the store of an hourly series of `steps` float32 fields, repeated `times` times.

    Parameters
    ----------
    steps, lat, lon : int
        Shape of what is repeated; `steps` is a multiple of ``chunks[0]`` where `times` is not 1.
    chunks : tuple of int
        Shape of a chunk.
    codec : str
        ``"none"`` or ``"zstd"`` (as zarr-python compresses by default).
    times : int
        Repetitions.
    """
    name = f"{steps}x{lat}x{lon}-{'x'.join(map(str, chunks))}-{codec}"
    target = HERE / (f"{name}.zarr" if times == 1 else f"{name}-{times}.zarr")
    if (target / "zarr.json").exists():
        return target
    part = target.with_suffix(".part")
    shutil.rmtree(part, ignore_errors=True)
    HERE.mkdir(parents=True, exist_ok=True)
    array = _create(part, (steps * times, lat, lon), chunks, codec)
    if times == 1:
        for start in range(0, steps, chunks[0]):
            array[start : start + chunks[0]] = _fields(start, min(chunks[0], steps - start), lat, lon)
    else:
        if steps % chunks[0]:
            raise ValueError(f"{steps} steps are not a multiple of a chunk's {chunks[0]}")
        _copy(series(steps, lat, lon, chunks, codec), part, steps // chunks[0], times)
    shutil.rmtree(target, ignore_errors=True)
    part.rename(target)
    return target


def _create(path: pathlib.Path, shape: tuple[int, int, int], chunks: tuple[int, int, int], codec: str):
    """Create the store with its coordinates, and the variable without a chunk."""
    import zarr

    group = zarr.create_group(path, zarr_format=3)
    axes = {
        "time": (
            np.arange(shape[0], dtype="f8"),
            {"standard_name": "time", "units": "hours since 2001-01-01", "calendar": "standard"},
        ),
        "latitude": (
            (np.arange(shape[1]) + 0.5) * 180 / shape[1] - 90,
            {"standard_name": "latitude", "units": "degrees_north"},
        ),
        "longitude": (
            (np.arange(shape[2]) + 0.5) * 360 / shape[2],
            {"standard_name": "longitude", "units": "degrees_east"},
        ),
    }
    for dim, (values, attributes) in axes.items():
        axis = group.create_array(
            dim, shape=values.shape, dtype="f8", chunks=values.shape, dimension_names=[dim], attributes=attributes
        )
        axis[:] = values
    return group.create_array(
        VARIABLE,
        shape=shape,
        dtype="f4",
        chunks=chunks,
        compressors="auto" if codec == "zstd" else None,
        fill_value=np.float32(np.nan),
        dimension_names=list(DIMS),
        attributes={"standard_name": "air_temperature", "units": "K"},
    )


def _fields(start: int, count: int, lat: int, lon: int) -> np.ndarray:
    """Return hourly temperatures: a mean state, the year, the day and the weather."""
    random = np.random.default_rng(start)
    phi = np.linspace(-np.pi / 2, np.pi / 2, lat, dtype="f4")[:, None]
    around = np.linspace(0, 2 * np.pi, lon, endpoint=False, dtype="f4")[None]
    weather = random.normal(size=(lat, lon)).astype("f4")
    out = np.empty((count, lat, lon), "f4")
    for step, hour in enumerate(range(start, start + count)):
        weather = 0.97 * np.roll(weather, 1, axis=1) + 0.24 * random.standard_normal((lat, lon), "f4")
        year = 15 * np.sin(phi) * np.float32(np.cos(2 * np.pi * hour / 8760))
        day = 4 * np.cos(phi) * np.cos(2 * np.pi * hour / 24 + around)
        out[step] = 288 - 45 * np.sin(phi) ** 2 - year - day + 5 * weather
    # Model output rarely means more than some 16 bits of a float32; the others are left out, as is usual.
    raw = out.view("u4")
    return ((raw + np.uint32(64)) & np.uint32(0xFFFFFF80)).view("f4")


def _copy(source: pathlib.Path, target: pathlib.Path, rows: int, times: int) -> None:
    """Copy the chunk files of a series, again and again, into one of `times` times its length."""
    folder = source / VARIABLE / "c"
    for row, again in itertools.product(range(rows), range(times)):
        for file in sorted((folder / str(row)).rglob("*")):
            name = target / VARIABLE / "c" / str(again * rows + row) / file.relative_to(folder / str(row))
            if file.is_dir():
                name.mkdir(parents=True, exist_ok=True)
            else:
                name.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file, name)


def chunk_files(store: pathlib.Path) -> list[pathlib.Path]:
    """Return the paths of all chunk files of the variable."""
    return sorted(p for p in (store / VARIABLE / "c").rglob("*") if p.is_file())


def values(store: pathlib.Path) -> np.ndarray:
    """Return the whole variable in memory."""
    import zarr

    return np.asarray(zarr.open_group(store, mode="r")[VARIABLE])


def stored_bytes(folder: pathlib.Path) -> int:
    """Return the bytes of all files below a folder."""
    return sum(p.stat().st_size for p in folder.rglob("*") if p.is_file())


def opened(store: pathlib.Path) -> Any:
    """Return the array as xarray opens it, with a dask chunk for each chunk."""
    import xarray as xr

    return xr.open_zarr(store, chunks={}, consolidated=False)[VARIABLE]
