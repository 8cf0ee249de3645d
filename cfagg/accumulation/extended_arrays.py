"""What is written to an existing group, kept in memory until all of it is known."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from cfagg.accumulation.group import Group
from cfagg.accumulation.growing import NotInPlaceError
from cfagg.accumulation.integrity import BUILD, document_crc, numbered
from cfagg.accumulation.layout import ArraySpec, Layout
from cfagg.accumulation.writing import Target, array_documents, chunk_key, codec_of
from cfagg.formats.zarr import ZarrArray
from cfagg.formats.zarr.checksums import crc32c
from cfagg.formats.zarr.creating import document_bytes

__all__ = ["Writes"]

Axes = tuple[int, ...]


class Writes(Target):
    """What is written to an existing group: nothing reaches the store before all of it is known."""

    in_place = True

    def __init__(self, group: Group, layout: Layout) -> None:
        extra = group.extra
        assert extra is not None  # noqa: S101  (the group grows)
        codec = codec_of(next(iter(group.sums.values())).data.document)
        super().__init__(Path(group.folder), codec, group.source.zarr_format, extra.checks.build)
        self.objects: dict[str, bytes] = {}
        #: CRC-32C of the chunks that are written, by array and number.
        self.crcs: dict[str, dict[int, int]] = {}
        self._before = {name: place[2] for name, place in extra.checks.places.items()}
        self._before |= {name: own[0] for name, own in extra.checks.own.items()}
        self._old = {array.name: array for sums in group.sums.values() for array in sums.each()}
        #: Existing statistics by name: the arrays of their level, and the kind among these.
        self._statistics = {
            name: (level.arrays, kind)
            for level, kind, name in (
                (level, entry_kind, entry_name)
                for record in extra.statistics
                for level in group.statistics[tuple(d for d in group.dims if d in record.dims)]
                if level.level == record.level
                for entry_kind, entry_name in record.arrays.items()
            )
        }
        self._grows = {spec.name: layout.grows for spec, _, _ in layout.growing()}

    def keep(self, spec: ArraySpec) -> None:
        """Leave an array as it is."""
        if spec.name not in self._before:
            raise NotInPlaceError("a level of its statistics is missing")
        self.metadata[spec.name] = self._before[spec.name]

    def _there(self, name: str) -> ZarrArray | None:
        """Return the existing array of a name, `None` if it is new."""
        if name in self._statistics:
            arrays, kind = self._statistics[name]
            return arrays[kind]
        return self._old.get(name)

    def create(self, spec: ArraySpec) -> None:
        """Write the metadata of an array, unless they are unchanged."""
        attributes = {**spec.attributes, BUILD: self.build}
        documents = array_documents(replace(spec, attributes=attributes), self.codec, self.zarr_format)
        self.documents[spec.name] = documents
        document = documents["zarr.json" if self.zarr_format == 3 else ".zarray"]
        self.metadata[spec.name] = document_crc(document, attributes, attributes["_ARRAY_DIMENSIONS"])
        old = self._there(spec.name)
        if old is not None and not self._same(spec, old):
            raise NotInPlaceError(f"{spec.name} is stored otherwise")
        if self._before.get(spec.name) != self.metadata[spec.name]:
            for name, each in documents.items():
                self.objects[f"{spec.name}/{name}"] = document_bytes(each)

    def take(self, spec: ArraySpec, index: Axes, old: ZarrArray) -> None:
        """Leave a chunk as it is."""

    def _store(self, spec: ArraySpec, index: Axes, encoded: Any) -> None:
        data = bytes(encoded)
        number = numbered(index, spec.grid, self._grows.get(spec.name))
        self.crcs.setdefault(spec.name, {})[number] = crc32c(data)
        self.objects[f"{spec.name}/{chunk_key(index, self.zarr_format)}"] = data
