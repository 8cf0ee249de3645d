"""Writing the arrays of a group: metadata, new chunks, chunks taken over from an earlier state, and consolidation.

All changes of a group in place are recorded before the first of them is made, so that all or none take effect.  Such an
increment rewrites some objects, the metadata of the group last.  A process that is killed in between leaves the record,
and the next one repeats the recorded changes.  Until then the checksums of the group do not match its arrays, or the
array has grown, so the group gives no wrong results.
"""

from __future__ import annotations

import errno
import json
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

from cfagg.accumulation.group import Group, Standing, group_path
from cfagg.accumulation.integrity import BUILD, CheckedArray, chunk_number, document_crc, read_region
from cfagg.accumulation.layout import ArraySpec
from cfagg.accumulation.options import CODECS
from cfagg.conventions.accumulation_record import Checks, Growth
from cfagg.errors import TargetError
from cfagg.formats.zarr import ZarrArray, creating
from cfagg.formats.zarr.checksums import crc32c
from cfagg.formats.zarr.consolidated import with_group, with_nodes, without_group
from cfagg.formats.zarr.creating import NewArray, document_bytes, write_documents
from cfagg.formats.zarr.documents import parse, read_document
from cfagg.formats.zarr.written_codecs import Codec
from cfagg.runtime.publishing import replace_file
from cfagg.storage.objects import ObjectStore
from cfagg.storage.urls import Url
from cfagg.writing.zarr.local_place import LocalPlace
from cfagg.writing.zarr.object_place import ObjectPlace
from cfagg.writing.zarr.place import Place

__all__ = [
    "Basis", "Increment", "Target", "array_documents", "chunk_key", "codec_of", "finish_there", "make_there",
    "place_of_array", "read_documents", "record_key", "record_there", "renew_consolidated", "replaced",
]  # fmt: skip


def array_documents(spec: ArraySpec, codec: str, zarr_format: int) -> dict[str, Any]:
    """Return the metadata documents of an array by file name."""
    new = NewArray(
        # In version 2, the names are in the attributes: those that the convention requires, which may differ.
        dims=spec.dims if zarr_format == 3 else None,
        shape=spec.shape,
        dtype=spec.dtype,
        chunks=spec.chunks,
        # Every chunk is written; with a fill value, xarray would treat sums equal to it as missing.
        fill=0 if zarr_format == 3 else None,
        codec=codec_named(codec),
        attributes=spec.attributes,
        separator="." if zarr_format == 3 else None,
    )
    return creating.array_documents(new, zarr_format)


def codec_of(document: Mapping[str, Any]) -> str:
    """Return the compression of an array of an accumulation, or ``"blosc"`` if it is not an option of `accumulate`."""
    if document.get("zarr_format") == 2:
        name = (document.get("compressor") or {"id": "none"}).get("id")
    else:
        names = [c.get("name") for c in document.get("codecs", ()) if isinstance(c, dict)]
        name = next((n for n in names if n not in ("bytes", "endian")), "none")
    return name if name in CODECS else "blosc"


def chunk_key(index: Sequence[int], zarr_format: int) -> str:
    """Return the key of a chunk below its array."""
    if zarr_format == 3:
        # Avoids a directory per row of chunks, which would take longer to create and remove than the chunks.
        return ".".join(["c", *map(str, index)])
    return ".".join(map(str, index)) or "0"


def codec_named(name: str) -> Codec:
    """Return a fast codec, since the last bytes of accumulated sums are random, and no codec compresses them."""
    return Codec(name, inner="lz4")


def read_documents(folder: Path, zarr_format: int) -> dict[str, dict[str, Any]]:
    """Return the metadata documents of a group that is already in place, by path below it and file name."""
    names = (".zgroup", ".zarray", ".zattrs") if zarr_format == 2 else ("zarr.json",)
    found: dict[str, dict[str, Any]] = {}
    for node in (folder, *sorted(p for p in folder.iterdir() if p.is_dir())):
        held = {n: read_document(str(node), n, str(folder)) for n in names}
        found["" if node == folder else node.name] = {n: d.content for n, d in held.items() if d is not None}
    return found


def renew_consolidated(
    store: Path, group: str, nodes: Mapping[str, Mapping[str, Any]], zarr_format: int, aside: Path
) -> None:
    """Update the consolidated metadata, if any, of a store or of a group in it."""
    path = store / (".zmetadata" if zarr_format == 2 else "zarr.json")
    found = read_document(str(store), path.name)
    if found is None:
        return
    root = found.content
    # Version 3 lists the group.  Version 2 does not, because xarray opens every listed group, and the dimensions that
    # the convention prescribes have other lengths in the group than in the data.
    whole = without_group(root, group) if zarr_format == 2 else with_group(root, group, nodes)
    if whole is None:
        return
    part = aside / f".{path.name}.part"
    part.write_bytes(document_bytes(whole))
    shutil.copymode(path, part)
    replace_file(part, path)


Axes = tuple[int, ...]

#: Number of cached encoded chunks of constant values.
_REPEATED = 64


@dataclass(frozen=True, eq=False)
class Basis(Standing):
    """The part of an earlier state of the accumulation that remains after its array has grown along one axis."""

    group: Group


class Target:
    """The directory of the new group."""

    #: Whether existing arrays are extended, so that unchanged chunks are not written.
    in_place = False

    def __init__(self, folder: Path, codec: str, zarr_format: int, build: str | None = None) -> None:
        self.folder, self.codec, self.zarr_format = folder, codec, zarr_format
        #: Name of the build, in the attributes of every array.
        self.build = build or secrets.token_hex(16)
        self.documents: dict[str, Mapping[str, Any]] = {}
        #: CRC-32C of metadata, and of every stored chunk, by array.
        self.metadata: dict[str, int] = {}
        self.checksums: dict[str, npt.NDArray[np.uint32]] = {}
        #: The checks and growth record of a growing group, once its tables are written.
        self.known: tuple[Checks, Growth] | None = None
        self._encode = codec_named(codec).encoder()
        self._repeated: dict[Any, bytes] = {}
        self._made: set[str] = set()

    def create(self, spec: ArraySpec) -> None:
        """Write the metadata of an array."""
        path = self.folder / spec.name
        path.mkdir()
        self.checksums[spec.name] = np.zeros(math.prod(spec.grid), np.uint32)
        write_documents(path, self._described(spec))

    def _described(self, spec: ArraySpec) -> dict[str, dict[str, Any]]:
        """Record and return the metadata of an array."""
        attributes = {**spec.attributes, BUILD: self.build}
        documents = array_documents(replace(spec, attributes=attributes), self.codec, self.zarr_format)
        self.documents[spec.name] = documents
        document = documents["zarr.json" if self.zarr_format == 3 else ".zarray"]
        self.metadata[spec.name] = document_crc(document, attributes, attributes["_ARRAY_DIMENSIONS"])
        return documents

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
        """Take over an unchanged chunk, by a link to its file if the same file would be written."""
        if self._same(spec, old) and not isinstance(old.store, Url):
            source = Path(old.folder) / old.key(index)
            place = self._place(spec, index)
            try:
                os.link(source, place)
            except OSError as error:
                if error.errno in (errno.ENOENT, errno.ENOSPC, errno.EDQUOT):
                    raise
                shutil.copy2(source, place)
            # Note the recorded checksum, not that of the present bytes, so that earlier damage is still detected.
            self._note(
                spec, index, old.crc(index) if isinstance(old, CheckedArray) else crc32c(Path(place).read_bytes())
            )
            return
        self.write(spec, index, read_region(old, spec.extent(index)))

    def _same(self, spec: ArraySpec, old: ZarrArray) -> bool:
        """Return whether the chunks of an older array are identical to the files that would be written."""
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


#: The first bytes of a record.
_FORM = b"cfagg increment 1\n"

#: Attempts to write consolidated metadata that other processes write too.
_ATTEMPTS = 4


def record_key(group: str) -> str:
    """Return the key of the record of a group in an object store."""
    return f"{group}/.increment"


def place_of_array(array: ZarrArray) -> Place:
    """Return the store of an array as a place to write to."""
    store: Any = array.store
    if isinstance(store, Url):
        return ObjectPlace(store, ObjectStore(store, store.options.given))
    return LocalPlace(store)


@dataclass(frozen=True, eq=False)
class Increment:
    """The objects to write, by key below the group, with the document that makes it an accumulation last."""

    group: str
    zarr_format: int
    #: The checksum of the attributes before the change, and that of the new ones.
    before: int
    after: int
    objects: Mapping[str, bytes]

    @property
    def document(self) -> str:
        """The key of the document of the group."""
        return "zarr.json" if self.zarr_format == 3 else ".zattrs"

    def encoded(self) -> bytes:
        """Return the record of the increment."""
        sizes = [[key, len(data)] for key, data in self.objects.items()]
        head = {
            "group": self.group, "format": self.zarr_format, "before": self.before, "after": self.after,
            "objects": sizes,
        }  # fmt: skip
        body: bytes = b"".join([_FORM, json.dumps(head).encode(), b"\n", *self.objects.values()])
        return body + crc32c(body).to_bytes(4, "little")

    @classmethod
    def decoded(cls, record: bytes) -> Increment | None:
        """Return the increment of a record, or `None` if the record is incomplete."""
        body, end = record[:-4], record[-4:]
        if not body.startswith(_FORM) or crc32c(body).to_bytes(4, "little") != end:
            return None
        line = body.index(b"\n", len(_FORM))
        head = json.loads(body[len(_FORM) : line])
        at, objects = line + 1, {}
        for key, size in head["objects"]:
            objects[key] = body[at : at + size]
            at += size
        return cls(head["group"], head["format"], head["before"], head["after"], objects)

    def state(self, array: ZarrArray, place: Place) -> tuple[bytes, Any] | None:
        """Return the document of the group and its tag, or `None` if the group was replaced or removed."""
        if self.group != group_path(array.path) or self.zarr_format != array.zarr_format:
            return None
        found = place.read(f"{self.group}/{self.document}")
        if found is None:
            return None
        content = parse(found[0], f"{place.store}/{self.group}/{self.document}")
        own = (content.get("attributes", {}) if self.zarr_format == 3 else content).get("cfagg", {})
        return found if isinstance(own, Mapping) and own.get("crc") in (self.before, self.after) else None

    def apply(self, array: ZarrArray, place: Place) -> bool:
        """Write all objects, even if some may have been written before; return `False` if the group was replaced."""
        found = self.state(array, place)
        if found is None:
            return False
        place.stage_all({f"{self.group}/{key}": data for key, data in self.objects.items() if key != self.document})
        document = self.objects[self.document]
        place.swap_all([(f"{self.group}/{self.document}", document, found[1])] if found[0] != document else [])
        self._consolidate(place)
        return True

    def _consolidate(self, place: Place) -> None:
        """Update consolidated metadata of the groups above, if they list the group."""
        if self.zarr_format == 2:
            return  # these do not list the group
        names = self.group.split("/")
        nodes = {
            key.rpartition("/")[0]: parse(data, key)
            for key, data in self.objects.items()
            if key.rpartition("/")[2] == "zarr.json"
        }
        for depth in range(len(names)):
            self._renew("/".join([*names[:depth], "zarr.json"]), "/".join(names[depth:]), nodes, place)

    def _renew(self, key: str, group: str, nodes: Mapping[str, Mapping[str, Any]], place: Place) -> None:
        for left in reversed(range(_ATTEMPTS)):
            found = place.known(key) if left == _ATTEMPTS - 1 else place.read(key)
            if found is None:
                return
            whole = with_nodes(parse(found[0], f"{place.store}/{key}"), group, nodes)
            if whole is None:
                return
            try:
                place.swap(key, document_bytes(whole), found[1])
            except TargetError:
                if not left:
                    raise
            else:
                return


def record_there(increment: Increment, place: Place) -> None:
    """Record the changes next to the arrays; fail if there is a record, since another process may be at work."""
    place.swap(record_key(increment.group), increment.encoded(), None)


def make_there(increment: Increment, array: ZarrArray, place: Place) -> None:
    """Make the changes that are recorded in an object store, and remove the record."""
    key = record_key(increment.group)
    made = increment.apply(array, place)
    place.delete([key])
    if not made:
        raise replaced(array)


def finish_there(array: ZarrArray) -> bool:
    """Make the changes that a killed process has recorded in an object store; return whether there were any."""
    key, place = record_key(group_path(array.path)), place_of_array(array)
    found = place.read(key)
    if found is not None:
        increment = Increment.decoded(found[0])
        if increment is not None:
            increment.apply(array, place)
        place.delete([key])
    return found is not None


def replaced(array: ZarrArray) -> TargetError:
    """Return the error for a group that was replaced meanwhile."""
    where = f"{array.store}: the accumulation of {array.path!r}"
    return TargetError(f"{where} was written by another run meanwhile and left unchanged; run again")
