"""Making Zarr arrays of every kind with zarr-python, the oracle of this folder's tests."""

from __future__ import annotations

import itertools
import warnings
from pathlib import Path
from typing import Any

import numcodecs
import numpy as np
import zarr
import zarr.codecs as zc
import zarr.codecs.numcodecs as zcn

#: Compressors by name for Zarr v3 and v2; None is no compression.
V3: dict[str, Any] = {
    "none": None,
    "zstd": zc.ZstdCodec(level=1),
    "zstd-checksum": zc.ZstdCodec(level=1, checksum=True),
    "gzip": zc.GzipCodec(level=1),
    "blosc-lz4": zc.BloscCodec(cname="lz4", shuffle="shuffle"),
    "blosc-zstd": zc.BloscCodec(cname="zstd", shuffle="bitshuffle"),
    "crc32c": zc.Crc32cCodec(),
    "zstd+crc32c": [zc.ZstdCodec(level=1), zc.Crc32cCodec()],
    "crc32c+gzip": [zc.Crc32cCodec(), zc.GzipCodec(level=1)],
    "zstd+gzip": [zc.ZstdCodec(level=1), zc.GzipCodec(level=1)],
    "numcodecs.zlib": zcn.Zlib(level=1),
    "numcodecs.lzma": zcn.LZMA(),
    "shuffle+numcodecs.lz4": [zcn.Shuffle(elementsize=1), zcn.LZ4()],
}
V2: dict[str, Any] = {
    "none": None,
    "zstd": numcodecs.Zstd(level=1),
    "gzip": numcodecs.GZip(level=1),
    "zlib": numcodecs.Zlib(level=1),
    "lz4": numcodecs.LZ4(),
    "blosc": numcodecs.Blosc(cname="lz4", shuffle=numcodecs.Blosc.SHUFFLE),
    "bz2": numcodecs.BZ2(level=1),
    "lzma": numcodecs.LZMA(preset=1),
}


def create(store: Path | str, name: str, shape: tuple[int, ...], chunks: Any, **keywords: Any) -> zarr.Array:
    """Create an array, with rectilinear chunks where `chunks` lists them."""
    keywords.setdefault("fill_value", 0)
    with zarr.config.set({"array.rectilinear_chunks": True}), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return zarr.create_array(store, name=name, shape=shape, chunks=chunks, **keywords)


def open_peer(store: Path | str, name: str) -> zarr.Array:
    """Open an array by zarr-python."""
    with zarr.config.set({"array.rectilinear_chunks": True}):
        return zarr.open_array(f"{store}/{name}", mode="r+")


def boxes(array: Any) -> list[tuple[tuple[int, ...], tuple[slice, ...]]]:
    """Return the index and the place of every chunk of an opened `ZarrArray`."""
    cells = itertools.product(*(range(n) for n in array.grid.matrix_shape))
    return [(i, tuple(slice(a, b) for a, b in array.grid.extent(i))) for i in cells]


def values(shape: tuple[int, ...], dtype: Any, seed: int = 0) -> np.ndarray:
    """Return telling values: no two alike in small arrays, all of them in any type."""
    count = int(np.prod(shape, dtype=int))
    made = (np.arange(count) * 7 + seed) % 120 + 1
    return made.reshape(shape).astype(np.dtype(dtype).newbyteorder("="))
