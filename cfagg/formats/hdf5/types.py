"""How HDF5 encodes types and shapes.

Source: HDF5 File Format Specification, version 3.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

import numpy as np

from cfagg.formats.hdf5.space import UNDEFINED, BrokenError, UnusualError

__all__ = ["Type", "fill_of", "shape_of", "type_of"]

#: Classes of types.
_FIXED, _FLOAT, _STRING, _REFERENCE, _SEQUENCE = 0, 1, 3, 7, 9

#: What a type is, in a word, and its NumPy type or size.
Type = tuple[str, Any]


def shape_of(data: bytes) -> tuple[tuple[int, ...], tuple[bool, ...], bool]:
    """Return sizes, which of them may grow, and whether there is no element at all."""
    version, rank, flags, kind = data[:4]
    if version not in (1, 2) or rank > 32 or flags & ~1:
        raise UnusualError
    at = 8 if version == 1 else 4
    shape = struct.unpack_from(f"<{rank}Q", data, at)
    most = struct.unpack_from(f"<{rank}Q", data, at + 8 * rank) if flags else shape
    if max(shape, default=0) >= 2**63:
        raise UnusualError
    if any(n > limit for n, limit in zip(shape, most, strict=True)):
        # Having noticed this, the library may never come to the end of closing the file.
        raise BrokenError
    return shape, tuple(n == UNDEFINED for n in most), version == 2 and kind == 2


#: Encodings of the IEEE types: bytes, highest bit of the sign, bits and places of exponent and mantissa, bias.
_REALS = {4: (31, 23, 8, 0, 23, 127), 8: (63, 52, 11, 0, 52, 1023)}


def type_of(data: bytes) -> Type:
    """Return what an encoded type is."""
    class_, bits = data[0] & 15, data[1]
    (size,) = struct.unpack_from("<I", data, 4)
    order = ">" if bits & 1 else "<"
    if class_ == _FIXED:
        offset, precision = struct.unpack_from("<HH", data, 8)
        if size not in (1, 2, 4, 8) or offset or precision != 8 * size:
            raise UnusualError
        return "number", np.dtype(f"{order}{'i' if bits & 8 else 'u'}{size}")
    if class_ == _FLOAT:
        found = struct.unpack_from("<HHBBBBI", data, 8)
        top, place, exponent, start, mantissa, bias = _REALS.get(size, (0,) * 6)
        usual = found == (0, 8 * size, place, exponent, start, mantissa, bias) and data[2] == top
        # Bits that are not used are 0, and the first digit, which is 1, is not stored.
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
        if len(data) >= 16 and data[8] & 15 == _REFERENCE and data[9] & 15 == 0:
            return "references", None
    return "other", None


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
