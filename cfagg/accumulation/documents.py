"""What the Zarr metadata of the arrays of an accumulation say, and bringing consolidated metadata up to date."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cfagg.accumulation.layout import ArraySpec
from cfagg.formats.zarr import creating
from cfagg.formats.zarr.consolidated import with_group, without_group
from cfagg.formats.zarr.creating import NewArray, document_bytes
from cfagg.formats.zarr.documents import read_document
from cfagg.formats.zarr.written_codecs import Codec
from cfagg.runtime.publishing import replace_file

__all__ = ["array_documents", "chunk_key", "codec_named", "codec_of", "read_documents", "renew_consolidated"]

#: Compressions that an accumulation may have.
_CODECS = ("blosc", "zstd", "gzip", "none")


def array_documents(spec: ArraySpec, codec: str, zarr_format: int) -> dict[str, Any]:
    """Return the metadata documents of an array by file name."""
    new = NewArray(
        # Names of version 2 are those that the convention wants, which may be others and stand among the attributes.
        dims=spec.dims if zarr_format == 3 else None,
        shape=spec.shape,
        dtype=spec.dtype,
        chunks=spec.chunks,
        # Every chunk is written; a fill value would make xarray take equal sums for missing.
        fill=0 if zarr_format == 3 else None,
        codec=codec_named(codec),
        attributes=spec.attributes,
        separator="." if zarr_format == 3 else None,
    )
    return creating.array_documents(new, zarr_format)


def codec_of(document: Mapping[str, Any]) -> str:
    """Return the name of the compression of an array of an accumulation, ``"blosc"`` where it is another's."""
    if document.get("zarr_format") == 2:
        name = (document.get("compressor") or {"id": "none"}).get("id")
    else:
        names = [c.get("name") for c in document.get("codecs", ()) if isinstance(c, dict)]
        name = next((n for n in names if n not in ("bytes", "endian")), "none")
    return name if name in _CODECS else "blosc"


def chunk_key(index: Sequence[int], zarr_format: int) -> str:
    """Return the key of a chunk below its array."""
    if zarr_format == 3:
        # No directory per row of chunks: making and removing them takes longer than writing the chunks.
        return ".".join(["c", *map(str, index)])
    return ".".join(map(str, index)) or "0"


def codec_named(name: str) -> Codec:
    """Return the compression of an accumulation: accumulated sums are random in their last bytes, which none packs."""
    return Codec(name, inner="lz4")


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
    """Bring the consolidated metadata of a store, or of a group in it, up to date, where it has any."""
    path = store / (".zmetadata" if zarr_format == 2 else "zarr.json")
    found = read_document(str(store), path.name)
    if found is None:
        return
    root = found.content
    # Those of version 3 list the group.  Those of version 2 do not: xarray opens every group that they list, and the
    # names of dimensions that the convention prescribes are of other lengths there than in the data.
    whole = without_group(root, group) if zarr_format == 2 else with_group(root, group, nodes)
    if whole is None:
        return
    part = aside / f".{path.name}.part"
    part.write_bytes(document_bytes(whole))
    shutil.copymode(path, part)
    replace_file(part, path)
