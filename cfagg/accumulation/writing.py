"""Writing the arrays of a group: metadata, chunks, and those of an earlier state that stay; consolidated metadata."""

from __future__ import annotations

import errno
import math
import os
import secrets
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.accumulation.group import Group
from cfagg.accumulation.integrity import BUILD, CheckedArray, chunk_number, document_crc, read_region
from cfagg.accumulation.layout import ArraySpec
from cfagg.accumulation.options import CODECS
from cfagg.accumulation.standing import Standing
from cfagg.conventions.accumulation_record import Checks, Growth
from cfagg.formats.zarr import ZarrArray, creating
from cfagg.formats.zarr.checksums import crc32c
from cfagg.formats.zarr.consolidated import with_group, without_group
from cfagg.formats.zarr.creating import NewArray, document_bytes, write_documents
from cfagg.formats.zarr.documents import read_document
from cfagg.formats.zarr.written_codecs import Codec
from cfagg.runtime.publishing import replace_file
from cfagg.storage.urls import Url

__all__ = ["Basis", "Target", "array_documents", "chunk_key", "codec_of", "read_documents", "renew_consolidated"]


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
    return name if name in CODECS else "blosc"


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


Axes = tuple[int, ...]

#: Encoded chunks of one value that are kept to be written again.
_REPEATED = 64


@dataclass(frozen=True, eq=False)
class Basis(Standing):
    """What stays of an earlier state of the accumulation, of whose array one dimension has grown."""

    group: Group


class Target:
    """The directory of the new group."""

    #: Whether arrays are those of an earlier state, so that nothing of them is written that stays.
    in_place = False

    def __init__(self, folder: Path, codec: str, zarr_format: int, build: str | None = None) -> None:
        self.folder, self.codec, self.zarr_format = folder, codec, zarr_format
        #: Name of the build, in the attributes of every array.
        self.build = build or secrets.token_hex(16)
        self.documents: dict[str, Mapping[str, Any]] = {}
        #: CRC-32C of metadata, and of every stored chunk, by array.
        self.metadata: dict[str, int] = {}
        self.checksums: dict[str, npt.NDArray[np.uint32]] = {}
        #: By what a group that grows is known, when its tables are written.
        self.known: tuple[Checks, Growth] | None = None
        self._encode = codec_named(codec).encoder()
        self._repeated: dict[Any, bytes] = {}
        self._made: set[str] = set()

    def create(self, spec: ArraySpec) -> None:
        """Write the metadata of an array."""
        path = self.folder / spec.name
        path.mkdir()
        attributes = {**spec.attributes, BUILD: self.build}
        documents = array_documents(replace(spec, attributes=attributes), self.codec, self.zarr_format)
        self.documents[spec.name] = documents
        document = documents["zarr.json" if self.zarr_format == 3 else ".zarray"]
        self.metadata[spec.name] = document_crc(document, attributes, attributes["_ARRAY_DIMENSIONS"])
        self.checksums[spec.name] = np.zeros(math.prod(spec.grid), np.uint32)
        write_documents(path, documents)

    def write(self, spec: ArraySpec, index: Axes, values: npt.NDArray[Any]) -> None:
        """Write one chunk, filled up where the array ends within it."""
        self._store(spec, index, self._encoded(spec, values))

    def write_whole(self, spec: ArraySpec, values: npt.NDArray[Any]) -> None:
        """Write all chunks of an array that is in memory."""
        for index in np.ndindex(*spec.grid):
            self.write(spec, index, values[tuple(slice(*b) for b in spec.extent(index))])

    def write_constant(self, spec: ArraySpec, index: Axes, values: npt.NDArray[Any], shape: Axes) -> None:
        """Write one chunk whose values repeat along axes where `values` has length 1; equal chunks are encoded once."""
        key = (values.tobytes(), values.shape, shape, spec.chunks, spec.dtype)
        encoded = self._repeated.get(key)
        if encoded is None:
            encoded = bytes(self._encoded(spec, np.broadcast_to(values, shape)))
            if len(self._repeated) >= _REPEATED:
                self._repeated.clear()
            self._repeated[key] = encoded
        self._store(spec, index, encoded)

    def take(self, spec: ArraySpec, index: Axes, old: ZarrArray) -> None:
        """Take over a chunk whose values stay as they are: by a link to its file where there is one like it."""
        if self._same(spec, old) and not isinstance(old.store, Url):
            source = Path(old.folder) / old.key(index)
            place = self._place(spec, index)
            try:
                os.link(source, place)
            except OSError as error:
                if error.errno in (errno.ENOENT, errno.ENOSPC, errno.EDQUOT):
                    raise
                shutil.copy2(source, place)
            # Not of the bytes that are there now: damage that was done to them before is still to be found.
            self._note(
                spec, index, old.crc(index) if isinstance(old, CheckedArray) else crc32c(Path(place).read_bytes())
            )
            return
        self.write(spec, index, read_region(old, spec.extent(index)))

    def _same(self, spec: ArraySpec, old: ZarrArray) -> bool:
        """Whether an older array's chunks are the files that would be written."""
        name = "zarr.json" if self.zarr_format == 3 else ".zarray"
        mine, other = dict(self.documents[spec.name][name]), dict(old.document)
        for key in ("shape", "attributes", "dimension_names", "storage_transformers"):
            mine.pop(key, None), other.pop(key, None)
        return mine == other

    def _encoded(self, spec: ArraySpec, values: npt.NDArray[Any]) -> Any:
        if values.shape != spec.chunks:
            chunk = np.zeros(spec.chunks, spec.dtype)
            chunk[tuple(slice(n) for n in values.shape)] = values
            values = chunk
        packed = np.ascontiguousarray(values, spec.dtype.newbyteorder("<"))
        return memoryview(self._encode(packed)).cast("B")

    def _place(self, spec: ArraySpec, index: Axes) -> str:
        path = f"{self.folder}/{spec.name}/{chunk_key(index, self.zarr_format)}"
        parent = path.rpartition("/")[0]
        if parent not in self._made:
            os.makedirs(parent, exist_ok=True)  # noqa: PTH103  (text all along)
            self._made.add(parent)
        return path

    def _note(self, spec: ArraySpec, index: Axes, crc: int) -> None:
        self.checksums[spec.name][chunk_number(index, spec.grid)] = crc

    def _store(self, spec: ArraySpec, index: Axes, encoded: Any) -> None:
        self._note(spec, index, crc32c(encoded))
        with open(self._place(spec, index), "wb", buffering=0) as file:  # noqa: PTH123
            view = memoryview(encoded)
            while view.nbytes:
                view = view[file.write(view) :]
