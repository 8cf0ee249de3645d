"""Writing what a filter leaves of an array of Dask, against finding its lengths first and making its chunks equal."""

from __future__ import annotations

import itertools
import tempfile

import dask
import dask.array as da
import numpy as np

import cfagg
from tests.benchmarks.table import Row, clock


def rows(small: bool) -> list[Row]:
    """Return the cost of blocks of values, and of a small block, with one thread."""
    with tempfile.TemporaryDirectory() as folder, dask.config.set(scheduler="sync"):
        return [_filter(folder, 2 if small else 24), _small_blocks(folder, 20 if small else 2000)]


def _filtered(blocks: int, length: int) -> da.Array:
    x = da.random.default_rng(0).normal(280, 1, blocks * length, chunks=length)
    return x[da.sin(x) > 0]


def _filter(folder: str, blocks: int) -> Row:
    names = (f"{folder}/{n}.zarr" for n in itertools.count())
    x = _filtered(blocks, 1 << 19)

    def ours() -> None:
        cfagg.write({"x": ("n", x)}, next(names))

    def theirs() -> None:
        da.to_zarr(x.compute_chunk_sizes().rechunk(1 << 19), next(names))

    mine, other = clock(ours, theirs, runs=3, warm=1)
    job = f"a filter over {blocks} blocks of 4 MiB, computed and written"
    return Row(job, mine, other, "compute_chunk_sizes, rechunk, to_zarr", other / mine, None)


def _small_blocks(folder: str, blocks: int) -> Row:
    names = (f"{folder}/s{n}.zarr" for n in itertools.count())
    x = _filtered(blocks, 64)

    def ours() -> None:
        cfagg.write({"x": ("n", x)}, next(names))

    def floor() -> None:
        np.asarray(x.compute())

    mine, other = clock(ours, floor, runs=3, warm=1)
    each, least = mine / blocks * 1e6, other / blocks * 1e6
    return Row("a block of 64 values, computed and written", each, least, "floor: computing", least / each, None, "us")
