"""The attributes of HDF5 objects, decoded without the HDF5 library.

Each length, position and type is compared with the file before anything is read; the library does not do so for values
of variable length, and crashes or hangs on damaged ones.

Source: HDF5 File Format Specification, version 3.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np

from cfagg.formats.hdf5.assembly import texts_of
from cfagg.formats.hdf5.bytes import Bytes
from cfagg.formats.hdf5.headers import Alike
from cfagg.formats.hdf5.lookup3 import damaged
from cfagg.formats.hdf5.messages import Type, attribute_of, attribute_type, shape_of, type_of
from cfagg.formats.hdf5.objects import ATTRIBUTES, Object, Objects, dense_at
from cfagg.formats.hdf5.space import ERRORS, UNDEFINED, Space, UnusualError
from cfagg.formats.metadata.foreign import SEVERAL, Foreign, name_of, too_long
from cfagg.formats.values.netcdf4_names import INTERNAL
from cfagg.model.dataset import AttributeValue, SharedAttributes

__all__ = ["UNUSUAL", "Attributes", "OwnAttributes"]

#: In place of a value that only the HDF5 library decodes.
UNUSUAL = Foreign("a value of an unusual type")

#: Limits of cached attributes: size of one, and bytes of all; overhead of each object in bytes.
_SHORT, _BYTES, _OBJECT = 1 << 14, 1 << 25, 256

#: Irrelevant attributes of the libraries.
_HIDDEN = ("REFERENCE_LIST", "_NCProperties")


class _Attribute:
    """An attribute that many variables of many files may share; equal ones are the same object."""

    __slots__ = ("common", "name", "value")

    def __init__(self, name: str, value: AttributeValue, *, common: bool = True) -> None:
        #: Whether the netCDF library certainly returns the same value.
        self.common = common
        self.name, self.value = name, value


#: Shown attributes, those of the library, whether these include a list of dimensions, and whether all shown ones are
#: common.
_Set = tuple[SharedAttributes, dict[str, AttributeValue], bool, bool]


class _Memory:
    """Cached attributes by bytes, texts stored elsewhere by name and value or bytes, and sets of attributes."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Clear the cache."""
        self.attributes: dict[bytes, _Attribute] = {}
        self.texts: dict[tuple[str, AttributeValue, bool], _Attribute] = {}
        #: By the bytes before the address of a text, and by the text.
        self.elsewhere: dict[bytes, dict[bytes, _Attribute]] = {}
        self.sets: dict[tuple[_Attribute, ...], _Set] = {}
        self.stored: dict[tuple[bytes, ...], _Set] = {}
        self.shown: dict[tuple[_Attribute, ...], SharedAttributes] = {}
        self.bytes = 0

    def spend(self, size: int) -> None:
        """Count cached bytes."""
        self.bytes += _OBJECT + size
        if self.bytes > _BYTES:
            self.forget()


_memory = _Memory()
_hidden, _scales = _Attribute("", None), _Attribute("DIMENSION_LIST", None)


def forget() -> None:
    """Forget all attributes, as in a new process."""
    _memory.forget()


class Attributes:
    """Decodes the attributes of objects; if `strict`, only those that the netCDF library certainly decodes equally.

    If `partial`, values of unusual types are left to others, who find `UNUSUAL` in their place.
    """

    def __init__(self, objects: Objects, *, strict: bool = False, partial: bool = False) -> None:
        self.objects, self.strict, self.partial = objects, strict, partial

    def of(
        self, found: Object | Alike, rank: int = 0
    ) -> tuple[dict[str, AttributeValue], dict[str, AttributeValue], list[int | None] | None]:
        """Return the shown attributes, those of the library, and the addresses of the dimensions."""
        if isinstance(found, Alike):
            header, values = found.header, found.values
            if _has_all(found):
                shown, internal, listed, common = self._set(header.plain(values))
                # The earlier header may have had another attribute of this length instead of the list of dimensions.
                if not listed and (not self.strict or (common and not header.odd)):
                    if header.scales is None:
                        return shown, internal, None
                    i, end = header.scales
                    return shown, internal, self._dimensions(values[i], end, rank)
        stored = self.stored(found)
        attributes = self._known([data for _, data in stored])
        scales: list[int | None] | None = None
        for one, (_, data) in zip(attributes, stored, strict=True):
            if one is _scales:
                _, flags, kind, space, end = attribute_of(data)
                kind = self.objects.named(kind) if flags & 1 else kind
                if shape_of(space)[0] == (rank,) and type_of(kind)[0] == "references":
                    scales = self._dimensions(data, end, rank)
                elif self.strict:
                    raise UnusualError
        shown, internal, _, common = _set(attributes)
        if self.strict and not common:
            raise UnusualError
        return shown, internal, scales

    def _dimensions(self, data: bytes, at: int, rank: int) -> list[int | None]:
        """Return the addresses in a list of dimensions; several for one dimension are unusual in netCDF."""
        if self.strict and any(n != 1 for n, _ in struct.iter_unpack("<I12s", data[at : at + 16 * rank])):
            raise UnusualError
        return self.objects.space.references(data, at, rank)

    def users(self, found: Object | Alike) -> list[bytes]:
        """Return the attributes of an object that include the list of users of a dimension."""
        if isinstance(found, Alike) and _has_all(found):
            return [found.values[i] for i in found.header.users]
        return [data for _, data in self.stored(found) if b"REFERENCE_LIST" in data]

    def stored(self, found: Object | Alike) -> list[tuple[int, bytes]]:
        """Return the attributes of an object as messages, by creation order if it is tracked."""
        found = found.object() if isinstance(found, Alike) else found
        stored = [*found.attributes, *self.objects.dense_attributes(found.messages.get(ATTRIBUTES))]
        if found.ordered:
            stored.sort()
        return stored

    def _set(self, stored: tuple[bytes, ...]) -> _Set:
        """Return the set of attributes by their bytes, cached if these determine it."""
        found = _memory.stored.get(stored)
        if found is None:
            found = _set(self._known(stored))
            if all(map(_memory.attributes.__contains__, stored)):
                _memory.stored[stored] = found
                _memory.spend(64 + sum(map(len, stored)))
        return found

    def _known(self, stored: Sequence[bytes]) -> tuple[_Attribute, ...]:
        """Return attributes by their bytes."""
        found = tuple(map(_memory.attributes.get, stored))
        if None in found:
            return tuple(one or self._attribute(data) for one, data in zip(found, stored, strict=True))
        return found  # type: ignore[return-value]

    def _attribute(self, data: bytes) -> _Attribute:
        """Return an attribute that is not cached by its bytes."""
        # One text that is stored elsewhere, as by h5py: together with these bytes it is complete.
        texts = _memory.elsewhere.get(data[:-16])
        text = None if texts is None else self._short_text(*struct.unpack("<IQI", data[-16:]))
        if texts and text in texts:
            return texts[text]
        raw, flags, kind, space, end = attribute_of(data)
        if flags & 2:
            raise UnusualError
        name = name_of(raw)
        if name in _HIDDEN:
            return _hidden
        if flags & 1:
            kind = self.objects.named(kind)
        shape, _, empty = shape_of(space)
        try:
            type_ = attribute_type(name, kind)
        except UnusualError:
            if not self.partial:
                raise
            return _Attribute(name, UNUSUAL, common=False)
        if name == "DIMENSION_LIST":
            _memory.spend(len(data))
            return _memory.attributes.setdefault(data, _scales)
        if text is None and type_[0] == "text" and not (shape or empty or flags) and len(data) == end + 16:
            text = self._short_text(*struct.unpack_from("<IQI", data, end))
        if text is None:
            value = self._value(name, type_, shape, empty, data, end)
        else:
            value = texts_of(name, [text], scalar=True)
        common = not flags and not empty and len(shape) < 2 and _is_common(name, kind, value, data[end:])
        made = _Attribute(name, value, common=common)
        size = len(data)
        if type_[0] == "text":
            if isinstance(made.value, tuple):
                size += sum(map(len, made.value))
            elif isinstance(made.value, str | bytes):
                size += len(made.value)
                made = _memory.texts.setdefault((name, made.value, common), made)
                if text is not None and size <= _SHORT:
                    _memory.elsewhere.setdefault(data[:end], {})[text] = made
                    size += size
        elif type_[0] != "other" and not flags & 1 and size <= _SHORT:
            made = _memory.attributes.setdefault(data, made)
        _memory.spend(size)
        return made

    def _short_text(self, length: int, heap: int, index: int) -> bytes | None:
        """Return a text that may be cached, `None` for a longer one."""
        return self.objects.space.long_value(length, heap, index) if length <= _SHORT else None

    def _value(
        self, name: str, type_: Type, shape: tuple[int, ...], empty: bool, data: bytes, at: int
    ) -> AttributeValue:
        what, detail = type_
        if len(shape) > 1:
            return SEVERAL
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
                length, heap, index = struct.unpack_from("<IQI", data, at + 16 * i)
                total += length
                foreign = too_long(name, total)
                if foreign is not None:
                    return foreign
                found.append(self.objects.space.long_value(length, heap, index))
            return texts_of(name, found, scalar=not shape) if found else ()
        return Foreign("a value of a user-defined type")


def _has_all(found: Alike) -> bool:
    """Return whether the header of an object includes all of its attributes."""
    dense = found.header.dense
    return dense is None or dense_at(found.values[dense]) == UNDEFINED


def _is_common(name: str, kind: bytes, value: AttributeValue, data: bytes) -> bool:
    """Return whether the netCDF library certainly returns this value: text has many forms, and may not be UTF-8."""
    if isinstance(value, Foreign) or "\\" in name:  # bytes that are not UTF-8 are shown with backslashes
        return False
    what, size = type_of(kind)
    if what == "number":
        return True
    if what in ("fixed", "terminated"):
        return isinstance(value, str) and kind[1] & 15 < 2 and b"\0" not in data[:size].rstrip(b"\0")
    texts = value if isinstance(value, tuple) else (value,)
    return bool(texts) and all(isinstance(t, str) and t and "\0" not in t and "\\" not in t for t in texts)


def _set(attributes: tuple[_Attribute, ...]) -> _Set:
    """Return the shown attributes and those of the library, as the same objects for the same attributes."""
    known = _memory.sets.get(attributes)
    if known is None:
        every = [one for one in attributes if one is not _hidden and one is not _scales]
        internal = {one.name: one.value for one in every if one.name in INTERNAL}
        visible = tuple(one for one in every if one.name not in INTERNAL)
        shown = SharedAttributes({one.name: one.value for one in visible})
        if len(shown) + len(internal) != len(every):
            raise UnusualError  # several of the same name
        shown = _memory.shown.setdefault(visible, shown)
        common = all(one.common for one in visible)
        known = _memory.sets[attributes] = shown, internal, _scales in attributes, common
        _memory.spend(64 * len(every))
    return known


class OwnAttributes:
    """The attributes of single objects of a file that the library has open, from its bytes without a user block."""

    def __init__(self, data: Bytes) -> None:
        self._space = Space(data)
        self._objects = Objects(self._space)
        self._attributes = Attributes(self._objects, partial=True)

    def read(
        self, at: int, rank: int
    ) -> tuple[dict[str, AttributeValue], dict[str, AttributeValue], list[int | None] | None] | None:
        """Return the result of `Attributes.of`, or `None` if the object is unusual or damaged."""
        before = len(self._space.checked)
        try:
            found = self._attributes.of(self._objects.read(at), rank)
        except ERRORS:
            return None
        return None if damaged(self._space.data, self._space.checked[before:]) else found
