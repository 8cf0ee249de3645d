"""Reading through an aggregation: a point series over many files, a whole array, and what opening costs."""

from __future__ import annotations

import os
import pathlib
import tempfile

import h5py
import netCDF4
import numpy as np

from cfagg.arrays.aggregated import AggregationReader
from cfagg.arrays.netcdf_source import open_source
from cfagg.formats.values import find
from cfagg.formats.values.pool import close_files, set_open_files
from cfagg.storage.access import Access
from tests import nca_files
from tests.benchmarks.table import Row, clock

#: How compressed files are stored.
_DEFLATED = {"zlib": True, "complevel": 1, "shuffle": True}


def rows(small: bool) -> list[Row]:
    """Measure with a few small files, or with those of the performance page."""
    with tempfile.TemporaryDirectory() as folder:
        return [
            *_series(pathlib.Path(folder, "series"), 40 if small else 2000, "contiguous", {}),
            *_series(pathlib.Path(folder, "deflated series"), 40 if small else 2000, "deflated", _DEFLATED),
            *_whole(pathlib.Path(folder, "whole"), small),
        ]


def write_series(
    folder: pathlib.Path, count: int, shape: tuple[int, int], steps: int, **storage: object
) -> pathlib.Path:
    """Write `count` files of `steps` fields each, all with other values, and the aggregation over them."""
    rng = np.random.default_rng(0)
    folder.mkdir()
    names = [f"{i:05}.nc" for i in range(count)]
    for name in names:
        # Smooth in part, as fields are, so that compression has something to do.
        noise = rng.normal(280, 10) + rng.normal(0, 1, (steps, *shape)).cumsum(-1).astype("f4").round(2)
        nca_files.fragment(folder / name, "tas", noise, ["time", "lat", "lon"], {"units": "K"}, **storage)

    def describe(index: tuple[int, ...], location: list[list[int]]) -> dict[str, object]:
        return {"data": {"file": names[index[0]], "ncvar": "tas", "shape": [steps, *shape]}, "format": "netCDF"}

    dims = ["time", "lat", "lon"]
    content = nca_files.array(dims, [range(0, steps * count + 1, steps), [0, shape[0]], [0, shape[1]]], describe)
    sizes = dict(zip(dims, (steps * count, *shape), strict=True))
    return nca_files.aggregation(folder / "agg.nca", "tas", "f4", sizes, content, {"units": "K"})


def _reader(path: pathlib.Path) -> AggregationReader:
    return AggregationReader(open_source(path).root.variables["tas"], Access(path))


def _cold() -> None:
    """Forget open files and headers: every run starts as a new process does."""
    find.forget()
    close_files()
    set_open_files(64)


def _series(folder: pathlib.Path, count: int, label: str, storage: dict[str, object]) -> list[Row]:
    path = write_series(folder, count, (64, 128), 1, **storage)
    files = sorted(folder.glob("*.nc"))
    reader = _reader(path)
    found = []

    def ours() -> None:
        _cold()
        found.append(reader.read([slice(None), 30, 40]))

    def warm() -> None:
        reader.read([slice(None), 30, 40])

    def through_h5py() -> None:
        out = np.empty(count, "f4")
        for i, file in enumerate(files):
            with h5py.File(file) as f:
                out[i] = f["tas"][0, 30, 40]
        found.append(out)

    def through_netcdf4() -> None:
        out = np.empty(count, "f4")
        for i, file in enumerate(files):
            with netCDF4.Dataset(file) as f:
                out[i] = f["tas"][0, 30, 40]

    runs = 3 if count < 100 else 5
    mine, known, h5, nc = clock(ours, warm, through_h5py, through_netcdf4, runs=runs)
    if not np.array_equal(found[0], found[1]):
        raise AssertionError("the point series differs from h5py's")
    opening, empty = clock(lambda: open_source(path), lambda: netCDF4.Dataset(path).close(), runs=5)
    job = f"point series over {count} {label} files"
    return [
        Row(f"{job}, cold", mine, h5, "h5py loop", h5 / mine, 1.25),
        Row(f"{job}, cold", mine, nc, "netCDF4 loop", nc / mine, None),
        Row(f"{job}, headers known", known, h5, "h5py loop", h5 / known, None),
        Row(f"open an aggregation of {count} {label}", opening, empty, "netCDF4 open alone", empty / opening, None),
    ]


def _whole(folder: pathlib.Path, small: bool) -> list[Row]:
    folder.mkdir()
    count, shape = (12, (90, 180)) if small else (365, (180, 360))
    table = []
    for label, storage in (("contiguous", {}), ("deflated", _DEFLATED)):
        path = write_series(folder / label, count, shape, 1, **storage)
        files = sorted((folder / label).glob("*.nc"))
        reader = _reader(path)
        room = np.empty((count, *shape), "f4")

        def ours(reader: AggregationReader = reader, room: np.ndarray = room) -> None:
            _cold()
            reader.read([slice(None)] * 3, room)

        def loop(files: list[pathlib.Path] = files, room: np.ndarray = room) -> None:
            for i, file in enumerate(files):
                with netCDF4.Dataset(file) as f:
                    f.set_auto_mask(False)
                    room[i] = f["tas"][0]

        def plain(files: list[pathlib.Path] = files) -> None:
            for file in files:
                handle = os.open(file, os.O_RDONLY)
                os.pread(handle, 2**26, 0)
                os.close(handle)

        mine, nc, floor = clock(ours, loop, plain, runs=3 if small else 5)
        mine_wall, nc_wall = clock(ours, loop, runs=3 if small else 5, cpu=False)
        job = f"whole array, {count} {label} files"
        table += [
            Row(job, mine, nc, "netCDF4 loop", nc / mine, 1.25),
            Row(job, mine, floor, "pread of the files", floor / mine, None),
            Row(job + ", wall clock", mine_wall, nc_wall, "netCDF4 loop", nc_wall / mine_wall, None),
        ]
    return table
