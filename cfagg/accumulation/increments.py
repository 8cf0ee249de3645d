"""Changes of a group in its place, all recorded before the first of them is made, so that all or none take effect.

An increment writes some objects anew, the metadata of the group last.  A process that is killed in between leaves the
record, and the next one makes the recorded changes once more.  Until then the checksums of the group do not agree with
its arrays, or the array has grown, so the group gives no wrong answer.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cfagg.accumulation.group import group_path
from cfagg.errors import TargetError
from cfagg.formats.zarr import ZarrArray
from cfagg.formats.zarr.checksums import crc32c
from cfagg.formats.zarr.consolidated import with_nodes
from cfagg.formats.zarr.creating import document_bytes
from cfagg.formats.zarr.documents import parse
from cfagg.storage.objects import ObjectStore
from cfagg.storage.urls import Url
from cfagg.writing.zarr.local_place import LocalPlace
from cfagg.writing.zarr.object_place import ObjectPlace
from cfagg.writing.zarr.place import Place

__all__ = ["Increment", "finish_there", "make_there", "place_of_array", "record_key", "record_there", "replaced"]

#: What a record begins with.
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
    """What is written, by key below the group; the document that makes it an accumulation last."""

    group: str
    zarr_format: int
    #: The checksum of the attributes that is extended, and that of the new ones.
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
        """Return the increment of a record, `None` if the record is incomplete."""
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
        """Return the document of the group and its tag, `None` if the group was replaced or removed."""
        if self.group != group_path(array.path) or self.zarr_format != array.zarr_format:
            return None
        found = place.read(f"{self.group}/{self.document}")
        if found is None:
            return None
        content = parse(found[0], f"{place.store}/{self.group}/{self.document}")
        own = (content.get("attributes", {}) if self.zarr_format == 3 else content).get("cfagg", {})
        return found if isinstance(own, Mapping) and own.get("crc") in (self.before, self.after) else None

    def apply(self, array: ZarrArray, place: Place) -> bool:
        """Write everything, even what may have been written before; return `False` if the group was replaced."""
        found = self.state(array, place)
        if found is None:
            return False
        place.stage_all({f"{self.group}/{key}": data for key, data in self.objects.items() if key != self.document})
        document = self.objects[self.document]
        place.swap_all([(f"{self.group}/{self.document}", document, found[1])] if found[0] != document else [])
        self._consolidate(place)
        return True

    def _consolidate(self, place: Place) -> None:
        """Bring consolidated metadata of the groups above up to date, if they list the group."""
        if self.zarr_format == 2:
            return  # they leave the group out
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
    """Record the changes beside the arrays; fails if there is a record, since another process may be at work."""
    place.swap(record_key(increment.group), increment.encoded(), None)


def make_there(increment: Increment, array: ZarrArray, place: Place) -> None:
    """Make the changes in an object store that are recorded there, and remove the record."""
    key = record_key(increment.group)
    made = increment.apply(array, place)
    place.delete([key])
    if not made:
        raise replaced(array)


def finish_there(array: ZarrArray, place: Place) -> bool:
    """Make the changes in an object store that a killed process has recorded; return whether there were any."""
    key = record_key(group_path(array.path))
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
