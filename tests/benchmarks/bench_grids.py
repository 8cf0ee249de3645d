"""Reading and writing the metadata of chunk grids, against zarr-python's from the same parsed document."""

from __future__ import annotations

from typing import Any

import numpy as np
import zarr
from zarr.core.chunk_grids import ChunkGrid
from zarr.core.metadata.v3 import ArrayV3Metadata

from cfagg.formats.zarr.creating import NewArray, array_documents
from cfagg.formats.zarr.grids import chunk_grid, grid_v3
from cfagg.formats.zarr.written_codecs import Codec
from cfagg.model import Regular
from tests.benchmarks.table import Row, clock

PEER = "zarr-python's metadata and grid"


def rows(small: bool) -> list[Row]:
    """Return the cost of grids of a million chunks (small: ten thousand), unequal ones and a run of equal ones."""
    n = 10**4 if small else 10**6
    return [*_read("unequal", [5, 7] * (n // 2), 6 * n, n), *_read("one run of", [[6, n]], 6 * n, n), *_write(n)]


def _read(kind: str, entry: list[Any], size: int, n: int) -> list[Row]:
    new = NewArray(None, (size,), np.dtype("i4"), ([size],), 0, Codec("none"), {})
    document = array_documents(new, 3)["zarr.json"]
    document["chunk_grid"]["configuration"]["chunk_shapes"] = [entry]

    def peer() -> None:
        with zarr.config.set({"array.rectilinear_chunks": True}):
            ChunkGrid.from_metadata(ArrayV3Metadata.from_dict(dict(document)))

    ours, theirs = clock(lambda: grid_v3(document, (size,), [], "a"), peer, runs=3)
    return [Row(f"read a grid of {kind} {n:,} chunks", ours * 1e3, theirs * 1e3, PEER, theirs / ours, 1.0, "ms")]


def _write(n: int) -> list[Row]:
    lengths = np.tile([5, 7], n // 2)
    each, equal = clock(lambda: chunk_grid([lengths]), lambda: chunk_grid([Regular(6 * n, 6)]), runs=3)
    return [
        Row(f"write a grid of {n:,} chunks, equal", equal * 1e3, each * 1e3, "of unequal ones", each / equal, 1.0, "ms")
    ]
