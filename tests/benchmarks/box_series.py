"""Area means over a box whose edges lie within chunks, as a series of all times.

Without sums along single dimensions, the chunks that an edge of the box goes through have to be read: decoding each of
them once is the floor.  With such sums only chunks at its corners are read, so that decoding these once is given, too;
xarray with dask decodes all that the box touches.  User CPU time is compared, in turn within one process.
"""

from __future__ import annotations

import itertools
import pathlib
import resource
import shutil
import statistics
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tests.benchmarks.table import Row

FOLDER = pathlib.Path(__file__).parents[2] / ".bench" / "accumulate"
CHUNKS = (73, 60, 60)
BOX = {"lat": slice(85, 290), "lon": slice(100, 611)}
DIMS = ("lat", "lon")


def rows(small: bool) -> list[Row]:
    """Measure with 1460 times, or with 146."""
    table = []
    shape = (146 if small else 1460, 360, 720)
    for codec in ("none", "zstd"):
        table += _measured(_store(shape, codec), shape, codec, small)
    return table


def _store(shape: tuple[int, ...], codec: str) -> pathlib.Path:
    """Return a store with its accumulation, made at the first call; every chunk has data of its own."""
    import zarr

    import cfagg

    store = FOLDER / f"box-{shape[0]}-{codec}.zarr"
    if (store / "tas_accumulation_group").exists():
        return store
    shutil.rmtree(store, ignore_errors=True)
    compressors = None if codec == "none" else zarr.codecs.ZstdCodec(level=3)
    array = zarr.create_array(
        store,
        name="tas",
        shape=shape,
        chunks=CHUNKS,
        dtype="f4",
        dimension_names=("time", *DIMS),
        compressors=compressors,
    )
    rng = np.random.default_rng(0)
    lat, lon = np.linspace(-90, 90, shape[1])[:, None], np.linspace(0, 360, shape[2])
    for start in range(0, shape[0], CHUNKS[0]):
        day = np.arange(start, start + CHUNKS[0])[:, None, None] / 7
        field = 250 + 40 * np.cos(np.deg2rad(lat)) + 5 * np.sin(np.deg2rad(lon) + day)
        field += rng.normal(0, 1, field.shape)
        array[start : start + CHUNKS[0]] = np.round(field, 2).astype("f4")
    cfagg.accumulate(store, "tas", ["time", "lat", "lon", DIMS], overwrite=True)
    return store


def _measured(store: pathlib.Path, shape: tuple[int, ...], codec: str, small: bool) -> list[Row]:
    import xarray as xr

    import cfagg
    from cfagg.accumulation.adding import chunks, in_order
    from cfagg.accumulation.query import query
    from cfagg.accumulation.sums import plan_sums
    from cfagg.formats.zarr import read_chunk

    acc = cfagg.open_accumulated(store, "tas")
    array = xr.open_zarr(store, consolidated=False, chunks={})["tas"]
    request = query(acc.labels, shape, DIMS, acc.labels.pick(BOX, None, None, None)).request
    plan = plan_sums(acc.group, request)
    cut = sorted({index for r in plan.readings if r.quantity == "raw" for index, _ in chunks(r)})

    def ours() -> Any:
        return acc.mean(DIMS, isel=BOX)

    def peer() -> Any:
        return array.isel(BOX).mean(DIMS).compute()

    edge = list(_on_an_edge(shape))

    def decoding(some: list[tuple[int, ...]]) -> Callable[[], None]:
        def floor() -> None:
            # In as many threads as ours.
            for _ in in_order(lambda index: read_chunk(acc.group.source, index), iter(some), plan.cost):
                pass

        return floor

    np.testing.assert_allclose(ours(), peer(), rtol=2e-4)
    used = _user_cpu(ours, peer, decoding(edge), decoding(cut), runs=1 if small else 5)
    label = f"area means of an unaligned box as a series, {shape} in {CHUNKS}, {'raw' if codec == 'none' else codec}"
    bars = (None, None) if small else (40.0, None) if codec == "none" else (None, 1 / 1.3)
    return [
        Row(f"{label}: user CPU", used[0], used[1], "xarray + dask", used[1] / used[0], bars[0]),
        Row(f"{label}: user CPU", used[0], used[2], f"{len(edge)} chunks of edges once", used[2] / used[0], bars[1]),
        Row(f"{label}: user CPU", used[0], used[3], f"the {len(cut)} chunks read once", used[3] / used[0], bars[1]),
    ]


def _on_an_edge(shape: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Return the index of each chunk that holds cells of the box and others."""
    for index in itertools.product(*(range(-(-n // c)) for n, c in zip(shape, CHUNKS, strict=True))):
        inside = touched = True
        for dim, i, chunk in zip(DIMS, index[1:], CHUNKS[1:], strict=True):
            low, high, box = i * chunk, (i + 1) * chunk, BOX[dim]
            inside &= box.start <= low and high <= box.stop
            touched &= box.start < high and low < box.stop
        if touched and not inside:
            yield index


def _user_cpu(*functions: Callable[[], Any], runs: int) -> list[float]:
    """Return the median user CPU seconds of each function, of the same runs taken in turn."""
    seen: list[list[float]] = [[] for _ in functions]
    for _ in range(runs):
        for f, each in zip(functions, seen, strict=True):
            before = resource.getrusage(resource.RUSAGE_SELF).ru_utime
            f()
            # The system may count in steps larger than a small case.
            each.append(max(resource.getrusage(resource.RUSAGE_SELF).ru_utime - before, 1e-6))
    return [statistics.median(each) for each in seen]
