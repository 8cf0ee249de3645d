"""Parsers of Zarr: metadata of both formats and of NCZarr, chains of codecs, shards, pages of indexes."""

from __future__ import annotations

import base64
import json
import math
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from cfagg.errors import CfaggError
from tests.fuzzing.files import _folder
from tests.fuzzing.target import target

_V2 = {
    ".zgroup": {"zarr_format": 2},
    ".zattrs": {"Conventions": "CF-1.8"},
    "a/.zarray": {
        "zarr_format": 2,
        "shape": [6, 4],
        "chunks": [3, 4],
        "dtype": "<f4",
        "compressor": {"id": "zlib", "level": 1},
        "fill_value": "NaN",
        "order": "C",
        "filters": None,
        "dimension_separator": ".",
    },
    "a/.zattrs": {"_ARRAY_DIMENSIONS": ["y", "x"], "units": "K", "_FillValue": -1.0, "scale_factor": 0.5},
    "y/.zarray": {
        "zarr_format": 2,
        "shape": [6],
        "chunks": [6],
        "dtype": "<i8",
        "compressor": None,
        "fill_value": 0,
        "order": "C",
        "filters": [{"id": "shuffle", "elementsize": 8}],
    },
    "y/.zattrs": {"_ARRAY_DIMENSIONS": ["y"]},
}
_NCZARR = {
    ".zgroup": {"zarr_format": 2, "_nczarr_group": {"dimensions": {"y": 6}, "arrays": ["y"], "groups": []}},
    ".zattrs": {"_nczarr_superblock": {"version": "2.0.0"}, "_nczarr_attr": {"types": {"a": "<i4"}}, "a": 1},
    "y/.zarray": {**_V2["y/.zarray"], "_nczarr_array": {"dimension_references": ["/y"], "storage": "chunked"}},
    "y/.zattrs": {"_nczarr_attr": {"types": {"units": ">S1"}}, "units": "m"},
}
_V3 = {
    "zarr.json": {"zarr_format": 3, "node_type": "group", "attributes": {"title": "t"}},
    "a/zarr.json": {
        "zarr_format": 3,
        "node_type": "array",
        "shape": [6, 4],
        "data_type": "float32",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [3, 4]}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": "NaN",
        "codecs": [
            {"name": "bytes", "configuration": {"endian": "little"}},
            {"name": "zstd", "configuration": {"level": 1, "checksum": False}},
            {"name": "crc32c"},
        ],
        "attributes": {"units": "K", "bytes": [1, 2]},
        "dimension_names": ["y", None],
        "storage_transformers": [],
    },
}
_SHARDS = {
    "zarr.json": {"zarr_format": 3, "node_type": "group"},
    "a/zarr.json": {
        **_V3["a/zarr.json"],
        "codecs": [
            {
                "name": "sharding_indexed",
                "configuration": {
                    "chunk_shape": [1, 2],
                    "codecs": [{"name": "bytes", "configuration": {"endian": "big"}}],
                    "index_codecs": [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}],
                    "index_location": "end",
                },
            }
        ],
    },
    "y/zarr.json": {
        **_V3["a/zarr.json"],
        "shape": [7],
        "dimension_names": ["y"],
        "chunk_grid": {"name": "rectilinear", "configuration": {"kind": "inline", "chunk_shapes": [[3, [2, 2]]]}},
        "codecs": [
            {"name": "bytes", "configuration": {"endian": "little"}},
            {"name": "gzip", "configuration": {"level": 1}},
        ],
    },
}
_WORDS: list[Any] = [
    *("<f4", ">i2", "|S3", "<U4", "<M8[ns]", "|b1", "float64", "int16", "string", "bytes", "r16", "complex64"),
    *({"id": "blosc", "cname": "lz4"}, {"name": "blosc"}, {"id": "delta", "dtype": "<i4"}, {"id": "vlen-utf8"}),
    *({"name": "transpose", "configuration": {"order": [1, 0]}}, {"name": "regular"}, "default", "v2", [2**62, 2**62]),
]


def write(store: Path, documents: Any) -> None:
    """Write objects of a store: documents as JSON, texts as base64."""
    for key, value in documents.items():
        if not isinstance(key, str) or not key or key.startswith("/") or ".." in key or "\0" in key or len(key) > 200:
            continue
        path = store / key
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if isinstance(value, str):
                path.write_bytes(base64.b64decode(value + "=" * (-len(value) % 4)))
            else:
                path.write_text(json.dumps(value), "utf-8", "surrogatepass")
        except (OSError, ValueError):
            continue


def _stores() -> list[Any]:
    zeros = base64.b64encode(np.arange(12, dtype="f4").tobytes()).decode()
    consolidated = {".zmetadata": {"zarr_consolidated_format": 1, "metadata": _V2}, **_V2}
    inline = {"kind": "inline", "must_understand": False, "metadata": {"a": _V3["a/zarr.json"]}}
    return [
        *(
            _V2,
            _NCZARR,
            _V3,
            _SHARDS,
            {**_V2, "a/0.0": zeros},
            {**_V3, "a/c/0/0": zeros},
            {**_SHARDS, "a/c/0/0": zeros},
        ),
        consolidated,
        {**_V3, "zarr.json": {**_V3["zarr.json"], "consolidated_metadata": inline}},
    ]


def _each(documents: Any, use: Any) -> None:
    if not isinstance(documents, dict):
        return
    with tempfile.TemporaryDirectory(dir=_folder(), suffix=".zarr") as folder:
        write(Path(folder), documents)
        use(folder)


@target("check Zarr", seeds=_stores, tokens=_WORDS)
def checked(documents: Any) -> None:
    from tests.fuzzing.files import check

    _each(documents, lambda path: check(path, data=False))


#: Chunks and values of an array that are looked at within seconds; all are looked at where there are more.
_CHUNKS, _VALUES = 1 << 13, 1 << 24


@target("check --data Zarr", seeds=_stores, tokens=_WORDS, share=0.2)
def checked_data(documents: Any) -> None:
    from tests.fuzzing.files import check

    if not _is_long(documents):
        _each(documents, lambda path: check(path, data=True))


def _is_long(documents: Any) -> bool:
    """Return whether an array is said to have so many chunks or values that it rightly takes long to look at all."""
    nodes = [d for d in documents.values() if isinstance(d, dict)] if isinstance(documents, dict) else []
    return any(_chunk_count(d) > _CHUNKS or _size(d.get("shape")) > _VALUES for d in nodes)


def _size(lengths: Any) -> int:
    given = [n for n in lengths if type(n) is int] if isinstance(lengths, list) else [0]
    return abs(math.prod(given))


def _chunk_count(document: Any) -> int:
    """Return how many chunks an array has, as far as its metadata can be understood."""
    grid = document.get("chunk_grid")
    inner = grid.get("configuration") if isinstance(grid, dict) else None
    chunks = document.get("chunks", inner.get("chunk_shape") if isinstance(inner, dict) else None)
    return _size(document.get("shape")) // max(_size(chunks), 1)


@target("read Zarr", seeds=_stores, tokens=_WORDS, share=0.2)
def read(documents: Any) -> None:
    from tests.fuzzing.files import read

    _each(documents, read)


@target("Zarr arrays", seeds=_stores, tokens=_WORDS)
def arrays(documents: Any) -> None:
    from cfagg.arrays.chunked import ZarrReader
    from cfagg.formats.zarr.chunks import read_chunk
    from cfagg.formats.zarr.metadata import open_array

    def use(path: str) -> None:
        for name in ("a", "y"):
            try:
                array = open_array(path, name)
                if array.decoder is not None and array.ndim < 5:
                    with suppress(CfaggError):
                        ZarrReader(array).read([slice(0, 3)] * array.ndim)
                read_chunk(array, (0,) * len(array.shape))
            except CfaggError:
                continue

    _each(documents, use)


@cache
def _chunks() -> list[Any]:
    """Return chains of codecs and what they have encoded: [document, format, base64]."""
    import numcodecs
    import zarr
    from numcodecs.abc import Codec

    from tests.formats.zarr.stores import V2, V3, create

    found: list[Any] = []
    for format_, kinds in ((2, V2), (3, V3)):
        for compressor in kinds.values():
            with tempfile.TemporaryDirectory(dir=_folder()) as folder:
                array = create(folder, "a", (20,), (20,), dtype="i4", zarr_format=format_, compressors=compressor)
                array[:] = np.arange(20)
                document = json.loads(Path(folder, "a", ".zarray" if format_ == 2 else "zarr.json").read_bytes())
                raw = Path(folder, "a", "0" if format_ == 2 else "c/0").read_bytes()
            found.append([document, format_, base64.b64encode(raw).decode()])
    assert isinstance(numcodecs.Zlib(), Codec)
    assert zarr.__version__
    return found


@target("codecs", seeds=_chunks, tokens=_WORDS)
def codecs(given: Any) -> None:
    from cfagg.formats.zarr.codecs import DamagedError, decoder

    if not (isinstance(given, list) and len(given) > 2 and isinstance(given[0], dict) and given[1] in (2, 3)):
        return
    try:
        raw = base64.b64decode(given[2] + "=" * (-len(given[2]) % 4))
    except (TypeError, ValueError):
        return
    try:
        made = decoder(given[0], given[1], np.dtype("i4"))
        if made is not None:
            decoded = made.decode(raw, 80) if hasattr(made, "decode") else made(raw, 80)
            if decoded is not None and len(memoryview(decoded).cast("B")) != 80:
                raise AssertionError("another length than was said")
    except DamagedError:
        return


@cache
def _observations() -> list[Any]:
    """Return stores of observations with each kind of index."""
    from cfagg.observations.indexes.registry import entries_of_blocks
    from tests.observations import small_stores

    found = []
    for kind in ("bisect", "btree", "pages"):
        with tempfile.TemporaryDirectory(dir=_folder()) as folder:
            path, rows = small_stores.hourly(Path(folder, "s.zarr"), days=1, per_day=60)
            if kind == "btree":
                from cfagg.observations.indexes.btree import write_btree

                write_btree(path, entries_of_blocks([rows]))
            if kind == "pages":
                from cfagg.observations.indexes.registry import build_pages
                from cfagg.observations.store import open_store

                build_pages(open_store(path))
            found.append(_packed(path))
    return found


def _packed(path: Path) -> dict[str, Any]:
    packed: dict[str, Any] = {}
    for file in sorted(path.rglob("*")):
        if file.is_file():
            raw = file.read_bytes()
            try:
                packed[str(file.relative_to(path))] = json.loads(raw)
            except ValueError:
                packed[str(file.relative_to(path))] = base64.b64encode(raw).decode()
    return packed


@target("observation stores", seeds=_observations, tokens=_WORDS)
def observations(documents: Any) -> None:
    from cfagg.observations.indexes.registry import open_index
    from cfagg.observations.store import open_store

    def use(path: str) -> None:
        store = open_store(path)
        for kind in (None, "bisect", "btree", "pages"):
            try:
                index = open_index(store, kind)
                first, last = index.find(1577836800, 1577923200)
                index.find_many([0, 1577836800], [2**40, 1577840000])
                index.validate(full=True)
                index.entries_between(1577836800, 1577840000)
                for _ in zip(range(3), index.blocks(), strict=False):
                    pass
                if 0 <= first <= last <= store.rows <= 10_000:
                    store.read_rows(first, last) if hasattr(store, "read_rows") else None
            except CfaggError:
                continue

    _each(documents, use)
