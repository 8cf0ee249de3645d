"""Zarr metadata of the arrays of an accumulation, how their chunks are encoded, and the store's consolidated metadata.

Sources: the Zarr v2 and v3 core specifications; consolidated metadata as zarr-python writes them.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy.typing as npt

from cfagg.accumulation.layout import ArraySpec
from cfagg.formats.zarr.documents import read_document
from cfagg.runtime.publishing import replace_file

__all__ = [
    "array_documents",
    "chunk_key",
    "codec_of",
    "encoder",
    "group_documents",
    "read_documents",
    "renew_consolidated",
    "write_json",
]

#: Levels: accumulated sums are random in their last bytes, which no level packs.
_LEVELS = {"blosc": 5, "zstd": 1, "gzip": 5}


def array_documents(spec: ArraySpec, codec: str, zarr_format: int) -> dict[str, Any]:
    """Return the metadata documents of an array by file name.

    Parameters
    ----------
    spec : ArraySpec
        The array.
    codec : {"blosc", "zstd", "gzip", "none"}
        Its compression.
    zarr_format : {2, 3}
        Version of the Zarr format.

    Examples
    --------
    >>> import numpy as np
    >>> spec = ArraySpec("s", "sums", ("time",), (5,), (5,), np.dtype("f8"), {})
    >>> array_documents(spec, "zstd", 3)["zarr.json"]["codecs"][1]
    {'name': 'zstd', 'configuration': {'level': 1, 'checksum': False}}
    """
    dtype, level = spec.dtype, _LEVELS.get(codec)
    if zarr_format == 2:
        compressor: dict[str, Any] | None = None
        if codec == "blosc":
            compressor = {"id": "blosc", "cname": "lz4", "clevel": level, "shuffle": 1, "blocksize": 0}
        elif codec != "none":
            compressor = {"id": codec, "level": level}
        document = {
            "zarr_format": 2,
            "shape": list(spec.shape),
            "chunks": list(spec.chunks),
            "dtype": dtype.newbyteorder("<").str,
            "compressor": compressor,
            # Every chunk is written; a fill value would make xarray take equal sums for missing.
            "fill_value": None,
            "order": "C",
            "filters": None,
        }
        return {".zarray": document, ".zattrs": dict(spec.attributes)}
    codecs: list[dict[str, Any]] = [{"name": "bytes", "configuration": {"endian": "little"}}]
    if dtype.itemsize == 1:
        codecs = [{"name": "bytes"}]
    if codec == "blosc":
        configuration = {
            "typesize": dtype.itemsize,
            "cname": "lz4",
            "clevel": level,
            "shuffle": "shuffle",
            "blocksize": 0,
        }
        codecs.append({"name": "blosc", "configuration": configuration})
    elif codec == "zstd":
        codecs.append({"name": "zstd", "configuration": {"level": level, "checksum": False}})
    elif codec == "gzip":
        codecs.append({"name": "gzip", "configuration": {"level": level}})
    return {
        "zarr.json": {
            "zarr_format": 3,
            "node_type": "array",
            "shape": list(spec.shape),
            "data_type": dtype.name,
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(spec.chunks)}},
            "chunk_key_encoding": {"name": "default", "configuration": {"separator": "."}},
            "fill_value": 0.0 if dtype.kind == "f" else 0,
            "codecs": codecs,
            "attributes": dict(spec.attributes),
            "dimension_names": list(spec.dims),
            "storage_transformers": [],
        }
    }


def group_documents(attributes: Mapping[str, Any], zarr_format: int) -> dict[str, Any]:
    """Return the metadata documents of a group by file name, the one that makes it a group last."""
    if zarr_format == 2:
        return {".zattrs": dict(attributes), ".zgroup": {"zarr_format": 2}}
    return {"zarr.json": {"zarr_format": 3, "node_type": "group", "attributes": dict(attributes)}}


def codec_of(document: Mapping[str, Any]) -> str:
    """Return the name of the compression of an array of an accumulation, ``"blosc"`` where it is another's.

    >>> codec_of({"zarr_format": 2, "compressor": None})
    'none'
    """
    if document.get("zarr_format") == 2:
        name = (document.get("compressor") or {"id": "none"}).get("id")
    else:
        names = [c.get("name") for c in document.get("codecs", ()) if isinstance(c, dict)]
        name = next((n for n in names if n not in ("bytes", "endian")), "none")
    return name if name in (*_LEVELS, "none") else "blosc"


def chunk_key(index: Sequence[int], zarr_format: int) -> str:
    """Return the key of a chunk below its array.

    >>> chunk_key((2, 0), 3), chunk_key((2, 0), 2)
    ('c.2.0', '2.0')
    """
    if zarr_format == 3:
        # No directory per row of chunks: making and removing them takes longer than writing the chunks.
        return ".".join(["c", *map(str, index)])
    return ".".join(map(str, index)) or "0"


def encoder(codec: str) -> Callable[[npt.NDArray[Any]], Any]:
    """Return a function from a C-contiguous chunk to its stored bytes; safe to call from any thread."""
    if codec == "blosc":
        from numcodecs import Blosc

        # It takes the size of elements from the chunk.
        encode: Callable[[npt.NDArray[Any]], Any] = Blosc(
            cname="lz4", clevel=_LEVELS["blosc"], shuffle=Blosc.SHUFFLE
        ).encode
        return encode
    from cfagg.formats.zarr.written_codecs import Codec

    return Codec(codec, _LEVELS.get(codec)).encoder()


def write_json(path: Path, document: Mapping[str, Any]) -> None:
    """Write a JSON document so that it is there whole or not at all."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    part.write_text(json.dumps(document, indent=1), encoding="utf-8")
    part.replace(path)


def read_documents(folder: Path, zarr_format: int) -> dict[str, dict[str, Any]]:
    """Return the metadata documents of a group that is in its place, by path below it and file name."""
    names = (".zgroup", ".zarray", ".zattrs") if zarr_format == 2 else ("zarr.json",)
    found: dict[str, dict[str, Any]] = {}
    for node in (folder, *sorted(p for p in folder.iterdir() if p.is_dir())):
        held = {n: read_document(str(node), n, str(folder)) for n in names}
        found["" if node == folder else node.name] = {n: d.content for n, d in held.items() if d is not None}
    return found


def renew_consolidated(
    store: Path, group: str, nodes: Mapping[str, Mapping[str, Any]], zarr_format: int, aside: Path
) -> None:
    """Bring the store's consolidated metadata up to date, where it has any.

    Those of version 3 list the group.  Those of version 2 do not: xarray opens every group that they list, and the
    names of dimensions that the convention prescribes are of other lengths there than in the data.

    Parameters
    ----------
    store : Path
        The store, or a group in it.
    group : str
        Path of the group below `store`.
    nodes : mapping
        Documents by file name, by path below the group; ``""`` is the group itself.
    zarr_format : {2, 3}
        Version of the Zarr format.
    aside : Path
        A directory on the same file system in which the new document is written.
    """
    path = store / (".zmetadata" if zarr_format == 2 else "zarr.json")
    found = read_document(str(store), path.name)
    if found is None:
        return
    whole = found.content
    if zarr_format == 2:
        held = whole.get("metadata")
        if not isinstance(held, dict) or not any(k.startswith(f"{group}/") for k in held):
            return
        whole["metadata"] = {k: v for k, v in held.items() if not k.startswith(f"{group}/")}
    else:
        consolidated = whole.get("consolidated_metadata")
        held = consolidated.get("metadata") if isinstance(consolidated, dict) else None
        if not isinstance(held, dict):
            return
        kept = {k: v for k, v in held.items() if k != group and not k.startswith(f"{group}/")}
        for name, documents in nodes.items():
            document = dict(documents["zarr.json"])
            if document["node_type"] == "group":
                document["consolidated_metadata"] = {"kind": "inline", "must_understand": False, "metadata": {}}
            kept["/".join(filter(None, (group, name)))] = document
        if kept == held:
            return
        whole["consolidated_metadata"]["metadata"] = dict(sorted(kept.items()))
    part = aside / f".{path.name}.part"
    part.write_text(json.dumps(whole, indent=1), encoding="utf-8")
    shutil.copymode(path, part)
    replace_file(part, path)
