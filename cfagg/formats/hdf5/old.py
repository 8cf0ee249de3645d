"""HDF5's older structures: object headers of version 1, and groups that keep their members in a symbol table.

They have no checksums.  netCDF-4 files have newer ones; older files of other programs have these.

Source: HDF5 File Format Specification, version 3.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from cfagg.formats.hdf5.space import BrokenError, Space, UnusualError

__all__ = ["messages", "symbols"]

_CONTINUED = 16


def messages(space: Space, at: int) -> Iterator[tuple[int, int, bytes]]:
    """Yield number, flags and bytes of the messages of an object header of version 1."""
    version, count, size = struct.unpack_from("<BxH4xI", space.take(at, 16))
    if version != 1:
        raise BrokenError
    parts = [(at + 16, size)]
    for place, length in parts:
        space.spend(length)
        body = space.take(place, length)
        here = 0
        while here + 8 <= length and count:
            kind, size, flags = struct.unpack_from("<HHB", body, here)
            here += 8
            if here + size > length:
                raise BrokenError
            data = body[here : here + size]
            here += size
            count -= 1
            if kind == _CONTINUED:
                parts.append(struct.unpack_from("<QQ", data))
            else:
                yield kind, flags, data


def symbols(space: Space, message: bytes, *, hard: bool = False) -> Iterator[tuple[bytes, int]]:
    """Yield names and places of a group's members by name; links by name are unusual, or not `hard` and passed over."""
    tree, heap = struct.unpack_from("<QQ", message)
    mark, size, _, place = struct.unpack_from("<4s4xQQQ", space.take(heap, 32))
    if mark != b"HEAP":
        raise BrokenError
    space.spend(size)
    names = space.take(place, size)
    waiting = [tree]
    while waiting:
        at = waiting.pop()
        mark = space.take(at, 4)
        if mark == b"TREE":
            kind, _, count = struct.unpack_from("<BBH", space.take(at + 4, 4))
            if kind:
                raise BrokenError
            space.spend(24 + 16 * count)
            keys = space.take(at + 24, 16 * count)
            # A key stands before each child.
            waiting.extend(reversed([child for _, child in struct.iter_unpack("<QQ", keys)]))
        elif mark == b"SNOD":
            (count,) = struct.unpack_from("<H", space.take(at + 6, 2))
            space.spend(8 + 40 * count)
            for name, header, cached in struct.iter_unpack("<QQI20x", space.take(at + 8, 40 * count)):
                end = names.find(b"\0", name)
                if end < 0 or name >= size:
                    raise BrokenError
                if cached != 2:
                    yield names[name:end], header
                elif not hard:
                    raise UnusualError
        else:
            raise BrokenError
