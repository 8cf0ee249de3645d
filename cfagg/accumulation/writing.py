"""Writing the arrays of a group: metadata, new chunks, chunks taken over from an earlier state, and consolidation."""

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
        # In version 2, the names that the convention requires, which may differ, are in the attributes.
        dims=spec.dims if zarr_format == 3 else None,
        shape=spec.shape,
        dtype=spec.dtype,
        chunks=spec.chunks,
        # Every chunk is written; with a fill value, xarray would take equal sums for missing.
        fill=0 if zarr_format == 3 else None,
        codec=codec_named(codec),
        attributes=spec.attributes,
        separator="." if zarr_format == 3 else None,
    )
    return creating.array_documents(new, zarr_format)


def codec_of(document: Mapping[str, Any]) -> str:
    """Return the compression of an array of an accumulation, ``"blosc"`` if it is none that `accumulate` offers."""
    if document.get("zarr_format") == 2:
        name = (document.get("compressor") or {"id": "none"}).get("id")
    else:
        names = [c.get("name") for c in document.get("codecs", ()) if isinstance(c, dict)]
        name = next((n for n in names if n not in ("bytes", "endian")), "none")
    return name if name in CODECS else "blosc"


def chunk_key(index: Sequence[int], zarr_format: int) -> str:
    """Return the key of a chunk below its array."""
    if zarr_format == 3:
        # Without a directory per row of chunks, which would take longer to make and remove than the chunks.
        return ".".join(["c", *map(str, index)])
    return ".".join(map(str, index)) or "0"


def codec_named(name: str) -> Codec:
    """Return a fast compression: the last bytes of accumulated sums are random, and no codec compresses them."""
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
    # Version 3 lists the group.  Version 2 does not: xarray opens every group that is listed, and the dimensions that
    # the convention prescribes have other lengths in the group than in the data.
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
    """The part of an earlier state of the accumulation that stays, although its array has grown along one axis."""

    group: Group


class Target:
    """The directory of the new group."""

    #: Whether existing arrays are extended, so that chunks that stay are not written.
    in_place = False

    def __init__(self, folder: Path, codec: str, zarr_format: int, build: str | None = None) -> None:
        self.folder, self.codec, self.zarr_format = folder, codec, zarr_format
        #: Name of the build, in the attributes of every array.
        self.build = build or secrets.token_hex(16)
        self.documents: dict[str, Mapping[str, Any]] = {}
        #: CRC-32C of metadata, and of every stored chunk, by array.
        self.metadata: dict[str, int] = {}
        self.checksums: dict[str, npt.NDArray[np.uint32]] = {}
        #: The checks and growth record of a group that grows, once its tables are written.
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
        """Write one chunk, padded if the array ends within it."""
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
        """Take over a chunk whose values stay, by a link to its file if the same file would be written."""
        if self._same(spec, old) and not isinstance(old.store, Url):
            source = Path(old.folder) / old.key(index)
            place = self._place(spec, index)
            try:
                os.link(source, place)
            except OSError as error:
                if error.errno in (errno.ENOENT, errno.ENOSPC, errno.EDQUOT):
                    raise
                shutil.copy2(source, place)
            # Its recorded checksum, not one of the present bytes, so that earlier damage is still noticed.
            self._note(
                spec, index, old.crc(index) if isinstance(old, CheckedArray) else crc32c(Path(place).read_bytes())
            )
            return
        self.write(spec, index, read_region(old, spec.extent(index)))

    def _same(self, spec: ArraySpec, old: ZarrArray) -> bool:
        """Whether the chunks of an older array are the same files that would be written."""
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
