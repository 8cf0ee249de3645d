"""The messages of HDF5's object headers: types, shapes, fill values, attributes, storage.

Source: HDF5 File Format Specification, version 3.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from cfagg.formats.hdf5.space import UNDEFINED, BrokenError, UnusualError

__all__ = [
    "CHUNKED",
    "COMPACT",
    "CONTIGUOUS",
    "SETTINGS",
    "VALUES",
    "Layout",
    "Type",
    "attribute_of",
    "attribute_type",
    "enumeration_of",
    "fill_of",
    "filters_of",
    "layout_of",
    "shape_of",
    "type_of",
]

#: Classes of types.
_FIXED, _FLOAT, _STRING, _REFERENCE, _ENUMERATION, _SEQUENCE = 0, 1, 3, 7, 8, 9

#: Attributes with the type of their variable, which may be an enumeration.
VALUES = frozenset({"_FillValue", "missing_value", "valid_min", "valid_max", "valid_range", "flag_values"})

#: The kind of a type, in a word, and its NumPy type or size.
Type = tuple[str, Any]


@lru_cache(1024)
def shape_of(data: bytes) -> tuple[tuple[int, ...], tuple[int, ...], bool]:
    """Return sizes, maximum sizes (`UNDEFINED` if unlimited), and whether there is no element at all."""
    version, rank, flags, kind = data[:4]
    if version not in (1, 2) or rank > 32 or flags & ~1 or (version == 2 and (kind > 2 or (rank and kind != 1))):
        raise UnusualError
    at = 8 if version == 1 else 4
    shape = struct.unpack_from(f"<{rank}Q", data, at)
    most = struct.unpack_from(f"<{rank}Q", data, at + 8 * rank) if flags else shape
    if max(shape, default=0) >= 2**63:
        raise UnusualError
    if any(n > limit for n, limit in zip(shape, most, strict=True)):
        # After detecting this, the library may hang when closing the file.
        raise BrokenError
    return shape, most, version == 2 and kind == 2


#: Encodings of the IEEE types: bytes, sign bit, positions and sizes of exponent and mantissa, bias.
_REALS = {4: (31, 23, 8, 0, 23, 127), 8: (63, 52, 11, 0, 52, 1023)}


@lru_cache(1024)
def type_of(data: bytes) -> Type:
    """Return the kind of an encoded type, and its NumPy type or size."""
    class_, bits = data[0] & 15, data[1]
    if not 1 <= data[0] >> 4 <= 5:
        raise UnusualError
    (size,) = struct.unpack_from("<I", data, 4)
    order = ">" if bits & 1 else "<"
    if class_ == _FIXED:
        offset, precision = struct.unpack_from("<HH", data, 8)
        if size not in (1, 2, 4, 8) or offset or precision != 8 * size:
            raise UnusualError
        return "number", np.dtype(f"{order}{'i' if bits & 8 else 'u'}{size}")
    if class_ == _FLOAT:
        if size not in _REALS:
            raise UnusualError
        found = struct.unpack_from("<HHBBBBI", data, 8)
        top, place, exponent, start, mantissa, bias = _REALS[size]
        usual = found == (0, 8 * size, place, exponent, start, mantissa, bias) and data[2] == top
        # Unused bits are 0, and the leading 1 of the mantissa is not stored.
        if not usual or bits & 0x7E != 0x20:
            raise UnusualError
        return "number", np.dtype(f"{order}f{size}")
    if class_ == _STRING:
        if not size:
            raise UnusualError
        return "terminated" if bits & 15 == 0 else "fixed", size
    if class_ == _SEQUENCE:
        if bits & 15 == 1:
            return "text", None
        to_objects = len(data) >= 16 and data[8] & 15 == _REFERENCE and data[9] & 15 == 0
        if to_objects and (size, *data[12:16]) == (16, 8, 0, 0, 0):
            return "references", None
    return "other", None


def attribute_type(name: str, data: bytes) -> Type:
    """Return the type of an attribute; for enumeration values of its variable, that of the numbers."""
    return type_of(data[8:20] if name in VALUES and _is_enumeration(data) else data)


def _is_enumeration(data: bytes) -> bool:
    return data[0] & 15 == _ENUMERATION and data[8] & 15 == _FIXED


def enumeration_of(data: bytes) -> np.dtype[Any] | None:
    """Return the integer type of an encoded enumeration with its names as metadata, or `None` for other types."""
    if not _is_enumeration(data):
        return None
    base: np.dtype[Any] = type_of(data[8:20])[1]
    at, names = 20, []
    for _ in range(data[1] | data[2] << 8):
        end = data.index(0, at)
        names.append(data[at:end].decode())
        # Names are padded to eight bytes in older versions.
        at = end + 1 if data[0] >> 4 >= 3 else at + (end - at) // 8 * 8 + 8
    values = np.frombuffer(data, base, len(names), at).tolist()
    return np.dtype(base.newbyteorder("=").str, metadata={"enum": dict(zip(names, values, strict=True))})


def fill_of(messages: Mapping[int, bytes], number: int) -> bytes:
    """Return the fill value in a message of an object header, of the newer kind (5) or the older (4); empty if none."""
    data = messages.get(number)
    if data is None:
        return b""
    at = 0
    if number == 5:
        if data[0] not in (1, 2, 3):
            raise UnusualError
        defined = bool(data[1] & 32) if data[0] == 3 else data[0] == 1 or bool(data[3])
        if not defined:
            return b""
        at = 2 if data[0] == 3 else 4
    (size,) = struct.unpack_from("<i", data, at)
    if at + 4 + size > len(data):
        raise UnusualError
    return data[at + 4 : at + 4 + size] if size > 0 else b""


def attribute_of(data: bytes) -> tuple[bytes, int, bytes, bytes, int]:
    """Return name, flags (1: a named type, 2: a shared shape), type, shape, and start of the values."""
    version, flags, name, kind, space = struct.unpack_from("<BBHHH", data)
    if version not in (1, 2, 3):
        raise UnusualError
    at = 9 if version == 3 else 8
    begin = at + name
    if version == 1:
        flags, begin = 0, begin + (-name & 7)
        middle = begin + kind + (-kind & 7)
        end = middle + space + (-space & 7)
    else:
        middle = begin + kind
        end = middle + space
    if end > len(data) or not name:
        raise BrokenError
    return (
        data[at : at + name].split(b"\0")[0],
        flags,
        data[begin : begin + kind],
        data[middle : middle + space],
        end,
    )


#: Classes of layouts.
COMPACT, CONTIGUOUS, CHUNKED = 0, 1, 2

#: The number of the index of a single chunk.
_SINGLE = 1

#: Bytes of settings of indexes, which precede their address: single chunk without filters, implicit, fixed and
#: extensible arrays, and trees.
SETTINGS = {1: 0, 2: 0, 3: 1, 4: 5, 5: 6}


class Layout(NamedTuple):
    """The layout of a dataset: its class, and the address of its values or of the index of its chunks."""

    version: int
    class_: int
    #: `UNDEFINED` if nothing was written, or values are in the layout itself.
    at: int
    #: Bytes of contiguous values, or of the only chunk after its filters.
    size: int = 0
    #: Sizes of a chunk, followed by the bytes of an element.
    chunk: tuple[int, ...] = ()
    #: Number of the index of chunks; 0 in version 3, which has only one.
    kind: int = 0
    settings: bytes = b""
    #: Whether chunks that extend beyond the dataset's end pass no filter, regardless of their masks.
    plain_edges: bool = False
    #: Whether the size of the only chunk, and its mask, are those after its filters.
    filtered: bool = False
    mask: int = 0


def layout_of(data: bytes) -> Layout:
    """Return the layout of a dataset; older versions of the message, and virtual datasets, are unusual."""
    version, class_ = data[:2]
    if version not in (3, 4, 5) or class_ not in (COMPACT, CONTIGUOUS, CHUNKED):
        raise UnusualError
    if class_ == COMPACT:
        return Layout(version, class_, UNDEFINED)
    if class_ == CONTIGUOUS:
        return Layout(version, class_, *struct.unpack_from("<QQ", data, 2))
    if version == 3:
        rank, at = struct.unpack_from("<BQ", data, 2)
        return Layout(version, class_, at, chunk=struct.unpack_from(f"<{rank}I", data, 11))
    rank, width = data[3], data[4]
    end = 5 + width * rank
    chunk = _sizes(data[5:end], width)
    index, at, settings, size, mask = data[end], UNDEFINED, b"", 0, 0
    filtered = index == _SINGLE and bool(data[2] & 2)
    if index in SETTINGS:
        start = end + 1 + SETTINGS[index]
        settings = data[end + 1 : start]
        if filtered:
            size, mask = struct.unpack_from("<QI", data, start)
            start += 12
        (at,) = struct.unpack_from("<Q", data, start)
    return Layout(version, class_, at, size, chunk, index, settings, bool(data[2] & 1), filtered, mask)


@lru_cache(256)
def _sizes(data: bytes, width: int) -> tuple[int, ...]:
    """Return numbers of `width` bytes each."""
    return tuple(int.from_bytes(data[at : at + width], "little") for at in range(0, len(data), width))


def filters_of(data: bytes) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Yield number and parameters of every filter."""
    version, count = data[:2]
    if version not in (1, 2):
        raise UnusualError
    at = 8 if version == 1 else 2
    for _ in range(count):
        (number,) = struct.unpack_from("<H", data, at)
        at += 2
        length = 0
        if version == 1 or number >= 256:
            (length,) = struct.unpack_from("<H", data, at)
            at += 2
        _, n = struct.unpack_from("<HH", data, at)
        at += 4 + length + (-length & 7 if version == 1 else 0)
        yield number, struct.unpack_from(f"<{n}I", data, at)
        at += 4 * n + (4 * (n & 1) if version == 1 else 0)
