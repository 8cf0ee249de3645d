"""The positions in elements of a type of values of variable length, which are stored in heaps.

Source: HDF5 File Format Specification, version 3, "The Datatype Message".
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import NamedTuple

from cfagg.formats.hdf5.space import BrokenError, UnusualError

__all__ = ["Slot", "slots_of"]

#: Classes of types.
_COMPOUND, _REFERENCE, _ENUM, _SEQUENCE, _ARRAY = 6, 7, 8, 9, 10
#: Bytes of the properties of other classes: integers, reals, times, texts, bits.
_PROPERTIES = {0: 4, 1: 12, 2: 2, 3: 0, 4: 4}

#: Kinds of references: to an object, to a region.
_OBJECT, _REGION = 0, 1

#: Bytes of a reference to a region: an address and a number.
_REGION_SIZE = 12

#: Most slots of an element, and levels of nested types.
_MOST, _DEEPEST = 1 << 12, 32


class Slot(NamedTuple):
    """A position in an element that refers to a heap."""

    at: int
    #: Bytes of one of the values to which it refers; 0 for a reference to a region, which has no length.
    size: int
    #: The slots of those values.
    below: tuple[Slot, ...] = ()
    #: Whether those values are references to objects.
    objects: bool = False


@lru_cache(256)
def slots_of(data: bytes) -> tuple[int, tuple[Slot, ...]]:
    """Return the bytes of an element of an encoded type, and its slots."""
    try:
        _, size, slots = _read(data, 0, 0)
    except (struct.error, IndexError) as error:
        raise BrokenError from error
    return size, tuple(slots)


def _read(data: bytes, at: int, depth: int) -> tuple[int, int, list[Slot]]:
    """Return the end of an encoded type, the bytes of an element, and its slots."""
    if depth > _DEEPEST:
        raise UnusualError
    class_, version = data[at] & 15, data[at] >> 4
    bits = int.from_bytes(data[at + 1 : at + 4], "little")
    (size,) = struct.unpack_from("<I", data, at + 4)
    here = at + 8
    if not size:
        raise BrokenError
    if class_ in _PROPERTIES:
        return here + _PROPERTIES[class_], size, []
    if class_ == 5:  # opaque, with a tag
        return here + (bits & 255), size, []
    if class_ == _REFERENCE:
        if version > 3 or bits & 15 > _REGION:
            raise UnusualError
        if bits & 15 == _REGION and size != _REGION_SIZE:
            raise BrokenError
        return here, size, [Slot(0, 0)] if bits & 15 == _REGION else []
    if class_ == _COMPOUND:
        return _compound(data, here, version, bits & 0xFFFF, size, depth)
    if class_ == _ENUM:
        here, base, slots = _read(data, here, depth + 1)
        if slots or base != size:
            raise BrokenError
        for _ in range(bits & 0xFFFF):
            here = _name_end(data, here, version)
        return here + (bits & 0xFFFF) * size, size, []
    if class_ == _SEQUENCE:
        objects = data[here] & 15 == _REFERENCE and data[here + 1] & 15 == _OBJECT
        here, base, slots = _read(data, here, depth + 1)
        if size != 16 or bits & 15 > 1:  # neither a sequence nor a text, which crashes the library
            raise BrokenError
        return here, size, [Slot(0, base, tuple(slots), objects and base == 8)]
    if class_ == _ARRAY:
        return _array(data, here, version, size, depth)
    raise UnusualError


def _compound(data: bytes, here: int, version: int, members: int, size: int, depth: int) -> tuple[int, int, list[Slot]]:
    found: list[Slot] = []
    width = 4 if version < 3 else max(size.bit_length() - 1, 0) // 8 + 1
    for _ in range(members):
        here = _name_end(data, here, version)
        offset = int.from_bytes(data[here : here + width], "little")
        here += width
        count = 1
        if version == 1:
            rank = data[here]
            if rank > 4:
                raise BrokenError
            for n in struct.unpack_from(f"<{rank}I", data, here + 12):
                count *= n
            here += 28
        here, inner, slots = _read(data, here, depth + 1)
        if offset + count * inner > size:
            raise BrokenError
        found += _repeated(slots, offset, inner, count)
    return here, size, found


def _array(data: bytes, here: int, version: int, size: int, depth: int) -> tuple[int, int, list[Slot]]:
    rank = data[here]
    here += 4 if version < 3 else 1
    count = 1
    for n in struct.unpack_from(f"<{rank}I", data, here):
        count *= n
    here, inner, slots = _read(data, here + (8 if version < 3 else 4) * rank, depth + 1)
    if count * inner != size:
        raise BrokenError
    return here, size, _repeated(slots, 0, inner, count)


def _repeated(slots: list[Slot], offset: int, size: int, count: int) -> list[Slot]:
    """Return the slots of several consecutive elements."""
    if count * len(slots) > _MOST:
        raise UnusualError
    if not slots:
        return []
    return [slot._replace(at=offset + i * size + slot.at) for i in range(count) for slot in slots]


def _name_end(data: bytes, at: int, version: int) -> int:
    """Return the position after a name, which older versions pad to eight bytes."""
    end = data.find(b"\0", at)
    if end < 0:
        raise BrokenError
    return end + 1 if version > 2 else at + (end - at) // 8 * 8 + 8
