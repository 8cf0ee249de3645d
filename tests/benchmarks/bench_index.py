"""Reading by a byte-offset index, against the floor: open, pread and decode the same ranges by the same codec."""

from __future__ import annotations

import os
import pathlib
import tempfile
from collections.abc import Callable
from typing import Any

import h5py
import netCDF4
import numpy as np
from isal import isal_zlib
from numcodecs.shuffle import Shuffle

from cfagg.aggregation.indexing import index
from cfagg.arrays.aggregated import AggregationReader
from cfagg.arrays.index import Index, open_index
from cfagg.arrays.index.lookup import IndexLookup
from cfagg.arrays.netcdf_source import open_source
from cfagg.formats import fastzlib
from cfagg.formats.values import find
from cfagg.storage.access import Access
from tests.benchmarks.bench_read import write_series
from tests.benchmarks.table import Row, clock

#: How files are stored.
STORED: dict[str, dict[str, Any]] = {
    "contiguous": {},
    "deflated": {"zlib": True, "complevel": 1, "shuffle": True},
}


def rows(small: bool) -> list[Row]:
    """Measure with a few small files, or with those of the performance page."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for label, storage in STORED.items():
            home = pathlib.Path(folder, label)
            home.mkdir()
            found += _series(home / "series", 40 if small else 2000, label, storage)
            found += _whole(home / "whole", 12 if small else 365, (45, 90) if small else (180, 360), label, storage)
    return found


def _indexed(path: pathlib.Path) -> tuple[Index, Callable[[], AggregationReader], float]:
    """Return the index of an aggregation, and what makes a reader that knows nothing but that."""
    (made,) = clock(lambda: index(path, overwrite=True, output=f"{path}.new"), runs=1, warm=0)
    index(path)
    found = open_index(f"{path}.cfagg-index")
    variable: Any = open_source(os.fspath(path)).root.variables["tas"]
    lookup = IndexLookup(f"{path}.cfagg-index", found)
    return found, lambda: AggregationReader(variable, Access(path), lookup=lookup), made


def _ranges(found: Index) -> list[tuple[str, int, int]]:
    """Return file, offset and length of the first chunk of each file."""
    return [(found.where(i), int(found.offset[i][0]), int(found.length[i][0])) for i in range(len(found))]


def _inflate(stored: bytes, size: int) -> Any:
    """Return a chunk as it was shuffled, by the library that we use."""
    found = fastzlib.inflate(stored, size)
    return isal_zlib.decompress(stored) if found is None else found[0]


def _series(folder: pathlib.Path, count: int, label: str, storage: dict[str, Any]) -> list[Row]:
    shape, y, x = (64, 128), 30, 40
    path = write_series(folder, count, shape, 1, **storage)
    found, reader, made = _indexed(path)
    ranges = _ranges(found)
    at = y * shape[1] + x
    seen = []

    def ours() -> None:
        find.forget()
        seen.append(reader().read([slice(None), y, x]))

    def floor() -> None:
        out = np.empty(count, "f4")
        for i, (file, offset, length) in enumerate(ranges):
            fd = os.open(file, os.O_RDONLY)
            if storage:
                plain = np.frombuffer(_inflate(os.pread(fd, length, offset), 4 * shape[0] * shape[1]), np.uint8)
                out[i : i + 1] = plain.reshape(4, -1)[:, at].copy().view("f4")
            else:
                out[i : i + 1] = np.frombuffer(os.pread(fd, 4, offset + 4 * at), "f4")
            os.close(fd)
        seen.append(out)

    def through_h5py() -> None:
        out = np.empty(count, "f4")
        for i, (file, _, _) in enumerate(ranges):
            with h5py.File(file) as f:
                out[i] = f["tas"][0, y, x]
        seen.append(out)

    mine, least, h5 = clock(ours, floor, through_h5py, runs=3 if count < 100 else 5)
    all_, h5_all = clock(ours, through_h5py, runs=3 if count < 100 else 5, cpu=False)
    _compare(seen)
    (opening,) = clock(lambda: open_index(f"{path}.cfagg-index"), runs=5)
    job = f"point series over {count} {label} files by the index"
    most = f"open, pread and decode alone: {h5 / least:.3g}"
    return [
        Row(job, mine, least, "open, pread, decode", least / mine, 1 / 5),
        Row(job, mine, h5, "h5py loop", h5 / mine, 12, note=most),
        Row(
            f"the same by wall time on {os.cpu_count()} processors",
            all_,
            h5_all,
            "h5py loop, which takes one",
            h5_all / all_,
            12,
        ),
        Row(f"open the index of {count} {label} files", opening, least, "open, pread, decode", least / opening, None),
        Row(f"make the index of {count} {label} files", made, h5, "h5py loop", h5 / made, None),
    ]


def _whole(folder: pathlib.Path, count: int, shape: tuple[int, int], label: str, storage: dict[str, Any]) -> list[Row]:
    path = write_series(folder, count, shape, 1, **storage)
    found, reader, _ = _indexed(path)
    ranges = _ranges(found)
    room = np.empty((count, *shape), "f4")
    seen = []

    def ours(workers: int | None = 1) -> None:
        find.forget()
        one = reader()
        one.workers = workers
        one.read([slice(None)] * 3, room)
        seen.append(room[:, ::7, ::11].copy())

    def floor() -> None:
        shuffle = Shuffle(4)
        for i, (file, offset, length) in enumerate(ranges):
            fd = os.open(file, os.O_RDONLY)
            if storage:
                shuffle.decode(_inflate(os.pread(fd, length, offset), room[i].nbytes), room[i])
            else:
                os.preadv(fd, [room[i]], offset)
            os.close(fd)
        seen.append(room[:, ::7, ::11].copy())

    def through_netcdf4() -> None:
        for i, (file, _, _) in enumerate(ranges):
            with netCDF4.Dataset(file) as f:
                f.set_auto_maskandscale(False)
                room[i] = f["tas"][0]
        seen.append(room[:, ::7, ::11].copy())

    runs = 3 if count < 100 else 5
    mine, least, nc = clock(ours, floor, through_netcdf4, runs=runs)
    one, all_ = clock(ours, lambda: ours(None), runs=runs, cpu=False)
    _compare(seen)
    job = f"whole array of {count} {label} files by the index, one thread"
    return [
        Row(job, mine, least, "open, pread, decode", least / mine, 1 / 2),
        Row(job, mine, nc, "netCDF4 loop", nc / mine, 2 if storage else None),
        Row(
            f"the same on all {os.cpu_count()} processors", all_, one, "one thread", one / all_, None, note="wall time"
        ),
    ]


def _compare(seen: list[Any]) -> None:
    """Refuse figures of different answers."""
    if not all(np.array_equal(one, seen[0]) for one in seen):
        raise AssertionError("the values differ")
