"""The attributes of HDF5 objects, decoded without the HDF5 library.

Each length, place and type is compared with what the file has before anything is read; the library does not do so for
values of variable length, and crashes or hangs on damaged ones.

Source: HDF5 File Format Specification, version 3.
"""

from __future__ import annotations

import struct

import numpy as np

from cfagg.formats.hdf5.assembly import texts_of
from cfagg.formats.hdf5.bytes import Bytes
from cfagg.formats.hdf5.lookup3 import damaged
from cfagg.formats.hdf5.messages import Type, attribute_of, shape_of, type_of
from cfagg.formats.hdf5.objects import ATTRIBUTES, Object, Objects
from cfagg.formats.hdf5.space import ERRORS, Space, UnusualError
from cfagg.formats.metadata.foreign import Foreign, name_of, too_long
from cfagg.formats.values.netcdf4_names import INTERNAL
from cfagg.model.dataset import AttributeValue

__all__ = ["Attributes", "OwnAttributes"]

#: Attributes are remembered up to this size, and this many.
_SHORT, _MOST_ALIKE = 512, 1 << 16


class Attributes:
    """Decodes the attributes of objects."""

    def __init__(self, objects: Objects) -> None:
        self.objects = objects
        #: Attributes that many variables have alike, by their bytes: name, value, whether it is the library's own.
        self._alike: dict[bytes, tuple[str, AttributeValue, bool]] = {}

    def of(
        self, found: Object, rank: int = 0
    ) -> tuple[dict[str, AttributeValue], dict[str, AttributeValue], list[int | None] | None]:
        """Return the attributes that are shown, those of the library, and where the dimensions are."""
        stored = found.attributes
        info = found.messages.get(ATTRIBUTES)
        if info is not None:
            stored = [*stored, *self.objects.dense_attributes(info)]
        if found.ordered:
            stored.sort()
        shown: dict[str, AttributeValue] = {}
        internal: dict[str, AttributeValue] = {}
        scales: list[int | None] | None = None
        alike, hidden = self._alike, 0
        for _, data in stored:
            again = alike.get(data)
            if again is not None:
                (internal if again[2] else shown)[again[0]] = again[1]
                continue
            raw, flags, kind, space, end = attribute_of(data)
            if flags & 2:
                raise UnusualError
            name = name_of(raw)
            if name in ("REFERENCE_LIST", "_NCProperties"):
                hidden += 1
                continue
            if flags & 1:
                kind = self.objects.named(kind)
            shape, _, empty = shape_of(space)
            if name == "DIMENSION_LIST":
                hidden += 1
                if type_of(kind)[0] == "references" and shape == (rank,):
                    scales = [self._scale(data, end + 16 * i) for i in range(rank)]
                continue
            type_ = type_of(kind)
            value = self._value(name, type_, shape, empty, data, end)
            (internal if name in INTERNAL else shown)[name] = value
            if len(data) <= _SHORT and len(alike) < _MOST_ALIKE and type_[0] in ("number", "fixed", "terminated"):
                alike[data] = name, value, name in INTERNAL
        if len(shown) + len(internal) + hidden != len(stored):
            raise UnusualError  # several of one name
        return shown, internal, scales

    def _scale(self, data: bytes, at: int) -> int | None:
        length, heap, index = struct.unpack_from("<IQI", data, at)
        raw = self.objects.space.long_value(8 * length, heap, index)
        return int.from_bytes(raw[:8], "little") if raw else None

    def _value(
        self, name: str, type_: Type, shape: tuple[int, ...], empty: bool, data: bytes, at: int
    ) -> AttributeValue:
        what, detail = type_
        count = 1
        for n in shape:
            count *= n
        if what == "number":
            count = 0 if empty else count
            foreign = too_long(name, count * detail.itemsize)
            if foreign is not None:
                return foreign
            values = np.frombuffer(data, detail, count, at).astype(detail.newbyteorder("="))
            values.flags.writeable = False  # variables with the same attribute share it
            return values
        if what in ("fixed", "terminated"):
            if empty:
                return ""
            if at + count * detail > len(data):
                raise UnusualError
            raw = [data[at + i * detail : at + (i + 1) * detail] for i in range(count)]
            if what == "terminated":
                raw = [r.split(b"\0", 1)[0] for r in raw]
            return texts_of(name, raw, scalar=not shape) if raw else ()
        if what == "text":
            if empty:
                return ""
            if at + 16 * count > len(data):
                raise UnusualError
            found, total = [], 0
            for i in range(count):
                value = self.objects.space.long_value(*struct.unpack_from("<IQI", data, at + 16 * i))
                total += len(value)
                foreign = too_long(name, total)
                if foreign is not None:
                    return foreign
                found.append(value)
            return texts_of(name, found, scalar=not shape) if found else ()
        return Foreign("a value of a user-defined type")


class OwnAttributes:
    """The attributes of single objects of a file that the library has open, from the bytes from where HDF5 begins."""

    def __init__(self, data: Bytes) -> None:
        self._space = Space(data)
        self._objects = Objects(self._space)
        self._attributes = Attributes(self._objects)

    def read(
        self, at: int, rank: int
    ) -> tuple[dict[str, AttributeValue], dict[str, AttributeValue], list[int | None] | None] | None:
        """Return what `Attributes.of` does, `None` where the object is unusual or damaged."""
        before = len(self._space.checked)
        try:
            found = self._attributes.of(self._objects.read(at), rank)
        except ERRORS:
            return None
        return None if damaged(self._space.data, self._space.checked[before:]) else found
