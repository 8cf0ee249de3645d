"""Writing the arrays of a group, chunk by chunk, and taking over chunks of an earlier state that stay as they are."""

from __future__ import annotations

import errno
import math
import os
import secrets
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.accumulation.arrays import read_stored
from cfagg.accumulation.documents import array_documents, chunk_key, codec_named
from cfagg.accumulation.group import Group
from cfagg.accumulation.integrity import BUILD, Stored, document_crc
from cfagg.accumulation.layout import ArraySpec
from cfagg.formats.zarr import ZarrArray
from cfagg.formats.zarr.checksums import crc32c
from cfagg.formats.zarr.creating import write_documents

__all__ = ["Kept", "Target", "read_region"]

Axes = tuple[int, ...]
Box = tuple[tuple[int, int], ...]

#: Encoded chunks of one value that are kept to be written again.
_REPEATED = 64


@dataclass(frozen=True, eq=False)
class Kept:
    """What stays of an earlier state of the accumulation, of whose array one dimension, `axis`, has grown."""

    group: Group
    axis: int
    #: Chunks of the source, elements, and samples (where it is accumulated) before these are as they were.
    chunk: int
    position: int
    sample: int

    def limit(self, axes: Axes, level: int | None = None) -> int:
        """Return how many entries along `axis` stay: of sums over `axes`, or of statistics of a level."""
        if self.axis not in axes:
            return self.position
        if level is None:
            return self.sample
        limit = self.chunk
        for _ in range(level):
            limit //= 8
        return limit


class Target:
    """The directory of the new group."""

    def __init__(self, folder: Path, codec: str, zarr_format: int, build: str | None = None) -> None:
        self.folder, self.codec, self.zarr_format = folder, codec, zarr_format
        #: Name of the build, in the attributes of every array.
        self.build = build or secrets.token_hex(16)
        self.documents: dict[str, Mapping[str, Any]] = {}
        #: CRC-32C of metadata, and of every stored chunk, by array.
        self.metadata: dict[str, int] = {}
        self.checksums: dict[str, npt.NDArray[np.uint32]] = {}
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
            box = tuple(
                slice(i * c, min((i + 1) * c, n)) for i, c, n in zip(index, spec.chunks, spec.shape, strict=True)
            )
            self.write(spec, index, values[box])

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
        """Take over a chunk whose values stay as they are: by a link to its file where it is cut and encoded alike."""
        if self._same(spec, old):
            source = Path(old.folder) / old.key(index)
            place = self._place(spec, index)
            try:
                os.link(source, place)
            except OSError as error:
                if error.errno in (errno.ENOENT, errno.ENOSPC, errno.EDQUOT):
                    raise
                shutil.copy2(source, place)
            # Not of the bytes that are there now: damage that was done to them before is still to be found.
            self._note(spec, index, old.crc(index) if isinstance(old, Stored) else crc32c(Path(place).read_bytes()))
            return
        box = tuple((i * c, min((i + 1) * c, n)) for i, c, n in zip(index, spec.chunks, spec.shape, strict=True))
        self.write(spec, index, read_region(old, box))

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
        place = 0
        for i, n in zip(index, spec.grid, strict=True):
            place = place * n + int(i)
        self.checksums[spec.name][place] = crc

    def _store(self, spec: ArraySpec, index: Axes, encoded: Any) -> None:
        self._note(spec, index, crc32c(encoded))
        with open(self._place(spec, index), "wb", buffering=0) as file:  # noqa: PTH123
            view = memoryview(encoded)
            while view.nbytes:
                view = view[file.write(view) :]


def read_region(array: ZarrArray, box: Box) -> npt.NDArray[Any]:
    """Return a box, given by start and stop per dimension, of an array of a group."""
    out = np.empty([b - a for a, b in box], array.dtype)
    for index in touched(array.grid.axes, box):
        extent = array.grid.extent(index)
        inner = tuple(slice(max(a, s) - s, min(b, e) - s) for (a, b), (s, e) in zip(box, extent, strict=True))
        outer = tuple(slice(max(a, s) - a, min(b, e) - a) for (a, b), (s, e) in zip(box, extent, strict=True))
        out[outer] = read_stored(array, index, inner)
    return out


def touched(axes: Any, box: Box) -> Iterator[Axes]:
    """Yield the indices of the chunks of a regular grid that a box touches."""
    if any(b <= a for a, b in box):
        return
    ranges = [range(a // axis.chunk, -(-b // axis.chunk)) for axis, (a, b) in zip(axes, box, strict=True)]
    for place in np.ndindex(*map(len, ranges)):
        yield tuple(r[i] for r, i in zip(ranges, place, strict=True))
