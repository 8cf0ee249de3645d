"""Planning a selection: our columns against zarr-python's planner, iterated to its end in the same process."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any

import numpy as np

import cfagg.arrays.plan
from cfagg.model import Grid
from tests.benchmarks.table import Row, clock

PEER = "zarr-python's BasicIndexer"
BAR = 180.0

#: Run in a process of its own: CPU seconds from nothing but NumPy to the first plan.
FIRST = """
import time, sys, numpy
from cfagg.model import Grid
start = time.process_time()
{}
print(time.process_time() - start)
"""
BY_NUMPY = """
from cfagg.arrays.plan import plan
plan(Grid.regular(({0},), (10,)), [slice(3, {0} - 3)]).cell
assert "numba" not in sys.modules
"""
BY_KERNEL = """
from cfagg.kernels.projection import project_slice_regular
project_slice_regular(3, {0} - 6, 1, 10)
"""


def rows(small: bool = False) -> list[Row]:
    """Return the rows of projection: 10^6 chunks, or 10^4 in the small size."""
    n = 10**4 if small else 10**6
    root = round(n**0.5)
    return [
        *_against_zarr(f"plan {n:,} chunks, 1-d", (10 * n,), (10,), small),
        *_against_zarr(f"plan {n:,} chunks, 2-d", (10 * root,) * 2, (10, 10), small),
        *_against_zarr(f"plan {n:,} variable chunks, 1-d", (10 * n,), None, small),
        *_against_zarr(f"plan {n:,} variable chunks, 2-d", (10 * root,) * 2, None, small),
        *_first(n),
    ]


def _against_zarr(job: str, shape: tuple[int, ...], chunks: tuple[int, ...] | None, small: bool) -> list[Row]:
    """Plan all but the rim of an array, three ways; `chunks` None makes chunks of 5 and 15 in turn."""
    import zarr
    from zarr.core.indexing import BasicIndexer
    from zarr.storage import MemoryStore

    selection = tuple(slice(3, m - 3) for m in shape)
    if chunks is None:
        sizes = [[5, 15] * (m // 20) for m in shape]
        grid = Grid.from_sizes(sizes)
        with zarr.config.set({"array.rectilinear_chunks": True}):
            array = zarr.create_array(MemoryStore(), shape=shape, chunks=sizes, dtype="i4")
    else:
        grid = Grid.regular(shape, chunks)
        array = zarr.create_array(MemoryStore(), shape=shape, chunks=chunks, dtype="i4")

    def peer() -> None:
        deque(BasicIndexer(selection, shape, array._chunk_grid), maxlen=0)

    def ours() -> None:
        cfagg.arrays.plan.plan(grid, selection).cell  # noqa: B018 - computed on access

    _same_plan(grid, selection, BasicIndexer(selection, shape, array._chunk_grid))
    theirs = clock(peer, runs=1 if small else 5, warm=0)[0]
    kernel = _with_rows(0, ours)
    numpy = _with_rows(2**62, ours)
    return [
        Row(job, kernel, theirs, PEER, theirs / kernel, BAR, note="kernels, warm"),
        Row(f"{job}, no Numba", numpy, theirs, PEER, theirs / numpy, None, note="the NumPy path of a fresh process"),
    ]


def _with_rows(threshold: int, function: Callable[[], None]) -> float:
    """Return the median CPU seconds with kernels used from so many rows on."""
    before = cfagg.arrays.plan.KERNEL_ROWS
    cfagg.arrays.plan.KERNEL_ROWS = threshold
    try:
        return clock(function, runs=15)[0]
    finally:
        cfagg.arrays.plan.KERNEL_ROWS = before


def _same_plan(grid: Grid, selection: tuple[slice, ...], indexer: Iterable[Any]) -> None:
    """Refuse to compare unless both planners say the same of the first and the last chunks."""
    p = cfagg.arrays.plan.plan(grid, selection)
    ends = deque(enumerate(indexer), maxlen=50)
    if len(p) != ends[-1][0] + 1:
        raise RuntimeError(f"{len(p)} chunks planned, zarr-python plans {ends[-1][0] + 1}")
    for k, other in (*enumerate(islice(indexer, 50)), *ends):
        coordinates = tuple(int(c) for c in np.unravel_index(p.cell[k], grid.matrix_shape))
        mine = (coordinates, p.source(k), tuple((s.start, s.stop) for s in p.target(k)))
        if mine != (other[0], other[1], tuple((s.start, s.stop) for s in other[2])):
            raise RuntimeError(f"chunk {k}: {mine} planned, zarr-python plans {other}")


def _first(n: int) -> list[Row]:
    """The first plan of a process: by NumPy, by kernels from the cache on disk, and by kernels compiled first."""
    numpy = _fresh(BY_NUMPY.format(10 * n))
    with tempfile.TemporaryDirectory() as cache:
        cold = _fresh(BY_KERNEL.format(10 * n), NUMBA_CACHE_DIR=cache)
        warm = _fresh(BY_KERNEL.format(10 * n), NUMBA_CACHE_DIR=cache)
    job, wanted = f"first plan of a process, {n:,} chunks", "3 s for any command"
    return [
        Row(f"{job}, as planned", numpy, 3.0, wanted, 3.0 / numpy, 1.0, note="NumPy: no import of Numba"),
        Row(f"{job}, cached kernel", warm, 3.0, wanted, 3.0 / warm, 1.0, note="imports Numba"),
        Row(f"{job}, cold kernel", cold, 3.0, wanted, 3.0 / cold, 1.0, note="imports Numba and compiles"),
    ]


def _fresh(code: str, **environment: str) -> float:
    """Return the CPU seconds that code takes in a new process."""
    command = [sys.executable, "-c", FIRST.format(code)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ, **environment})
    return float(done.stdout)
