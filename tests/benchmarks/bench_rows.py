"""Rows of a sparse matrix from a store: in order, shuffled, and by index, against zarr-python with scipy.

The peer has what its users have: regular chunks as large as ours, and for rows by index one slice for each, which is
how a matrix that stays in its store is read without us.
"""

from __future__ import annotations

import tempfile
from itertools import pairwise
from pathlib import Path

import numpy as np
import zarr
from scipy.sparse import csr_array

import cfagg
from cfagg.formats.zarr.chunks import read_chunk
from cfagg.formats.zarr.metadata import open_array
from tests.benchmarks.table import Row, clock

#: Rows of a batch.
BATCH = 256


def rows(small: bool) -> list[Row]:
    """Return what an epoch in order, a shuffled one, and batches by index cost."""
    count = 2_000 if small else 60_000
    with tempfile.TemporaryDirectory() as folder:
        random = np.random.default_rng(0)
        lengths = random.integers(20, 140, count)
        indptr = np.concatenate([[0], np.cumsum(lengths)])
        data = random.poisson(2, int(indptr[-1])).astype("f4")
        indices = random.integers(0, 2000, int(indptr[-1])).astype("i4")
        ours, theirs = f"{folder}/ours.zarr", f"{folder}/theirs.zarr"
        cfagg.write_rows((data, indices, indptr), ours, columns=2000, chunk=1 << 18)
        group = zarr.open_group(theirs, mode="w")
        for name, values in (("data", data), ("indices", indices)):
            group.create_array(name, data=values, chunks=(1 << 16,), compressors=zarr.codecs.ZstdCodec(level=1))
        return [*_epochs(ours, theirs, indptr), _by_index(ours, theirs, indptr, 2 if small else 8)]


def _epochs(ours: str, theirs: str, indptr: np.ndarray) -> list[Row]:
    """All rows in batches: the floor decodes each chunk once, the peer slices its arrays batch by batch."""
    arrays = [open_array(ours, name) for name in ("data", "indices")]
    group = zarr.open_group(theirs, mode="r")
    edges = [*range(0, len(indptr) - 1, BATCH), len(indptr) - 1]

    def in_order() -> None:
        for batch in cfagg.open_rows(ours).batches(BATCH):
            batch.to_scipy()

    def shuffled() -> None:
        for batch in cfagg.open_rows(ours).batches(BATCH, shuffle=True, seed=0):
            batch.to_scipy()

    def decoded() -> None:
        for array in arrays:
            for k in range(array.grid.size):
                read_chunk(array, (k,))

    def sliced() -> None:
        for a, b in pairwise(edges):
            part = slice(int(indptr[a]), int(indptr[b]))
            csr_array((group["data"][part], group["indices"][part], indptr[a : b + 1] - indptr[a]), shape=(b - a, 2000))

    mine, mixed, floor, peer = clock(in_order, shuffled, decoded, sliced, runs=5)
    size = sum(p.stat().st_size for p in Path(ours).rglob("*") if p.is_file()) / 1e6
    job = f"all of {len(indptr) - 1:,} rows ({size:.0f} MB) in batches of {BATCH}"
    return [
        Row(job, mine, peer, "zarr-python, scipy", peer / mine, None),
        Row(f"{job}, shuffled", mixed, peer, "zarr-python, scipy, in order", peer / mixed, None),
        Row(f"{job}, shuffled", mixed, floor, "floor: decoding", floor / mixed, None),
    ]


def _by_index(ours: str, theirs: str, indptr: np.ndarray, batches: int) -> Row:
    """Rows drawn from all over the store."""
    group = zarr.open_group(theirs, mode="r")
    data, indices = group["data"], group["indices"]
    random = np.random.default_rng(1)
    drawn = [random.integers(0, len(indptr) - 1, BATCH) for _ in range(batches)]
    rows = cfagg.open_rows(ours)

    def mine() -> None:
        for numbers in drawn:
            rows[numbers].to_scipy()

    def theirs_() -> None:
        numbers = drawn[0]
        parts = [slice(int(indptr[n]), int(indptr[n + 1])) for n in numbers]
        values = np.concatenate([data[p] for p in parts])
        columns = np.concatenate([indices[p] for p in parts])
        ends = np.concatenate([[0], np.cumsum([p.stop - p.start for p in parts])])
        csr_array((values, columns, ends), shape=(len(numbers), 2000))

    own, other = clock(mine, theirs_, runs=3)
    each = own / batches
    return Row(f"a batch of {BATCH} rows by index", each, other, "zarr-python, scipy, row by row", other / each, None)
