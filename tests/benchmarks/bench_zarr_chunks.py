"""Reading chunks of a Zarr store one at a time against zarr-python, and stamps of its objects against bare calls."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import numpy as np
import zarr
import zarr.codecs as zc

from cfagg.formats.zarr import open_array, read_box, read_chunk, stamps
from tests.benchmarks.table import Row, clock

#: Microseconds of processor time that a small chunk may cost beyond its decoding.
BAR = 20.0

CODECS = {
    "uncompressed": None,
    "zstd": zc.ZstdCodec(level=1),
    "blosc lz4": zc.BloscCodec(cname="lz4"),
    "gzip": zc.GzipCodec(level=1),
}


def rows(small: bool) -> list[Row]:
    """Return the cost of a small chunk, of part of a large one, and of the stamps of a year's chunks."""
    with tempfile.TemporaryDirectory() as folder:
        return [*_small_chunks(folder, 100 if small else 20_000), *_boxes(folder, small), *_stamps(folder, small)]


def _small_chunks(folder: str, count: int) -> list[Row]:
    values = np.random.default_rng(0).normal(280, 1, (2 * count, 200)).astype("f4")
    found = []
    for name, codec in CODECS.items():
        made = zarr.create_array(folder, name="x", data=values, chunks=(2, 200), compressors=codec, overwrite=True)
        array = open_array(folder, "x")
        decoder = array.decoder
        assert decoder is not None
        stored = [Path(f"{array.folder}/{array.key((i, 0))}").read_bytes() for i in range(count)]
        few = max(1, count // 20)

        def ours(array=array) -> None:
            for i in range(count):
                read_chunk(array, (i, 0))

        def decode(decoder=decoder, stored=stored) -> None:
            for i in range(count):
                decoder.decode(stored[i], 1600)

        def theirs(made=made, few=few) -> None:
            for i in range(few):
                made[2 * i : 2 * i + 2]

        mine, decoding, other = clock(ours, decode, theirs, runs=5)
        each, floor, peer = mine / count * 1e6, decoding / count * 1e6, other / few * 1e6
        job = f"a chunk of 1.6 kB, {name}"
        found.append(Row(job, each, peer, "zarr-python", peer / each, None, "us"))
        beyond = max(each - floor, 0.1)
        found.append(Row(f"{job}, beyond decoding", beyond, BAR, "the bar itself", BAR / beyond, 1.0, "us"))
    return found


def _boxes(folder: str, small: bool) -> list[Row]:
    shape = (12, 9, 18) if small else (120, 90, 180)
    values = np.random.default_rng(0).normal(280, 1, shape).astype("f4")
    made = zarr.create_array(folder, name="y", data=values, chunks=shape, compressors=None)
    array = open_array(folder, "y")
    box = (slice(0, shape[0] // 4), slice(0, shape[1]), slice(0, shape[2]))
    mine, other = clock(lambda: read_box(array, (0, 0, 0), box), lambda: made[box], runs=9)
    return [Row("a quarter of an uncompressed chunk", mine * 1e3, other * 1e3, "zarr-python", other / mine, None, "ms")]


def _stamps(folder: str, small: bool) -> list[Row]:
    counts = (5, 2, 2) if small else (730, 2, 2)
    zarr.create_array(folder, name="z", shape=counts, chunks=(1, 1, 1), dtype="u1", fill_value=0)
    array = open_array(folder, "z")
    for index in np.ndindex(counts):
        path = Path(f"{array.folder}/{array.key(index)}")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")
    paths = [f"{array.folder}/{array.key(index)}" for index in np.ndindex(counts)]

    def bare() -> None:
        for path in paths:
            os.stat(path)  # noqa: PTH116

    mine, other = clock(lambda: stamps(array), bare, runs=9)
    shutil.rmtree(array.folder)
    job = f"stamps of {len(paths):,} chunks"
    return [Row(job, mine * 1e3, other * 1e3, "as many bare calls of stat", other / mine, 1.0, "ms")]
