"""Arrays of rows in every form that a store may have, written with zarr-python."""

from __future__ import annotations

import shutil
from pathlib import Path

import numcodecs
import numpy as np
import zarr
import zarr.codecs as zc

from cfagg.observations.arrays import open_stored
from cfagg.observations.building import Budget, Work, write_store
from cfagg.observations.merging import write_run
from cfagg.observations.rows import Rows
from cfagg.observations.writing import Place
from cfagg.storage.local import LocalSource

BLOSC = numcodecs.Blosc("zstd", 3, numcodecs.Blosc.BITSHUFFLE)

#: Name -> arguments of zarr.create_array.  Blocks are small, so that chunks of a few hundred rows have several.
FORMS = {
    "published": {"zarr_format": 2, "chunks": (300, 7), "compressors": BLOSC},
    "small blocks": {
        "zarr_format": 2, "chunks": (300, 7), "compressors": numcodecs.Blosc("zstd", 1, numcodecs.Blosc.SHUFFLE, 1024),
    },
    "one block more": {
        "zarr_format": 2, "chunks": (293, 7),
        "compressors": numcodecs.Blosc("zstd", 1, numcodecs.Blosc.BITSHUFFLE, 2048),
    },
    "blosclz": {
        "zarr_format": 2, "chunks": (97, 7), "compressors": numcodecs.Blosc("blosclz", 9, numcodecs.Blosc.SHUFFLE),
    },
    "not shuffled": {
        "zarr_format": 2, "chunks": (128, 7), "compressors": numcodecs.Blosc("zstd", 1, numcodecs.Blosc.NOSHUFFLE, 600),
    },
    "stored by blosc": {"zarr_format": 2, "chunks": (100, 7), "compressors": numcodecs.Blosc("lz4", 0, 0)},
    "big-endian": {
        "zarr_format": 2, "dtype": ">f4", "chunks": (300, 7),
        "compressors": numcodecs.Blosc("zstd", 1, numcodecs.Blosc.SHUFFLE, 1024),
    },
    "columns": {
        "zarr_format": 2, "chunks": (100, 3), "compressors": numcodecs.Blosc("zstd", 1, numcodecs.Blosc.SHUFFLE, 256),
    },
    "uncompressed": {"zarr_format": 2, "chunks": (300, 7), "compressors": None},
    "uncompressed big-endian": {"zarr_format": 2, "dtype": ">f4", "chunks": (300, 2), "compressors": None},
    "gzip": {"zarr_format": 2, "chunks": (300, 7), "compressors": numcodecs.GZip(1)},
    "zarr-python": {"zarr_format": 2, "chunks": (300, 7), "compressors": numcodecs.LZMA(preset=0)},
    "zarr-python columns": {"zarr_format": 2, "chunks": (300, 4), "order": "F", "compressors": numcodecs.GZip(1)},
    "v3": {"zarr_format": 3, "chunks": (300, 7), "compressors": zc.ZstdCodec()},
    "v3 blosc": {
        "zarr_format": 3, "chunks": (300, 7), "compressors": zc.BloscCodec(cname="zstd", clevel=1, blocksize=2048),
    },
    "shards": {
        "zarr_format": 3, "chunks": (32, 7), "shards": (256, 7),
        "compressors": zc.BloscCodec(cname="lz4", shuffle="shuffle", typesize=28),
    },
    "shards of columns": {
        "zarr_format": 3, "chunks": (32, 2), "shards": (256, 4), "compressors": zc.GzipCodec(level=1),
    },
    "uncompressed shards": {"zarr_format": 3, "chunks": (50, 7), "shards": (200, 7), "compressors": None},
}  # fmt: skip


def values(rows: int = 1000, columns: int = 7, seed: int = 0) -> np.ndarray:
    """Random numbers, some of them missing; some blocks of them do not compress and some do."""
    random = np.random.default_rng(seed)
    found = random.normal(280, 10, (rows, columns)).astype("f4")
    found[:, 0] = 18262
    found[random.random(found.shape) < 0.1] = np.nan
    return found


def write_array(path: Path, form: str, found: np.ndarray, name: str = "data", present=None) -> None:
    """Write an array; where `present` is given, only these rows of it."""
    group = zarr.open_group(path, mode="a", zarr_format=FORMS[form]["zarr_format"])
    settings = {k: v for k, v in FORMS[form].items() if k != "zarr_format"}
    array = group.create_array(name, shape=found.shape, **{"dtype": "f4", "fill_value": 0.5, **settings})
    if present is None:
        array[...] = found
    else:
        array[present] = found[present]


class Counting(LocalSource):
    """A local source that also counts what is read from it."""

    def __init__(self, path) -> None:
        super().__init__(path)
        self.bytes = 0
        self.calls = 0

    def read_range(self, key, start, count):
        found = super().read_range(key, start, count)
        self.bytes += len(found)
        self.calls += 1
        return found


def rows_of(path, *, source=None, **settings) -> Rows:
    source = LocalSource(path) if source is None else source
    array = open_stored(source, "data")
    assert array is not None
    return Rows(source, array, **settings)


def write_rows(path, variables, rows, attributes=None, *, sidecar=True, overwrite=False, **how):
    """Write a store of sorted rows, and return its path."""
    place = Place(path, overwrite=overwrite)
    with place.new():
        runs = [write_run(place.work / "run", rows)]
        work = Work(place.work, place.store, Budget(2**28, 2))
        layout = how.get("format", "zarr2"), how.get("rows_per_chunk")
        write_store(runs, tuple(variables), layout, how.get("date_indexing", "bisect"), attributes or {}, work)
    if not sidecar:
        shutil.rmtree(place.target / "index_pages")
    return place.target
