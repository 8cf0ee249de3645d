"""Version 2 B-trees of HDF5.

Source: HDF5 File Format Specification, version 3.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator

from cfagg.formats.hdf5.space import UNDEFINED, BrokenError, Space, UnusualError

__all__ = ["records", "width_of"]

#: Bytes of a node that are plausible for any size of the file.
_ROOM = 1 << 20


def records(space: Space, at: int, kind: int, size: int) -> Iterable[bytes]:
    """Return the records of a version 2 B-tree in order, which must be of this kind and size."""
    mark, version, found, node, each, depth, split, merge, root, count, total = struct.unpack_from(
        "<4sBBIHHBBQHQ", space.structure(at, 38)
    )
    if mark != b"BTHD" or found != kind or not size or each != size or total * size > space.size:
        raise BrokenError
    if not (0 < split <= 100 and 0 < merge <= 100):
        raise BrokenError
    if node > max(space.size, _ROOM):
        # The library allocates this much memory when it opens the tree, and aborts the process.
        raise BrokenError
    if version or depth > 16:
        raise UnusualError
    if root == UNDEFINED or not count:
        if total:
            raise BrokenError
        return ()
    if not depth:
        if count != total:
            raise BrokenError
        return _leaf(space, root, count, kind, size, node)
    most = max((node - 10) // size, 1)
    width = width_of(most)
    # Bytes of the number of records below a child, by depth.
    totals, below = [0], most
    for _ in range(depth):
        pointer = 8 + width + totals[-1]
        here = max((node - 10 - pointer) // (size + pointer), 1)
        below = (here + 1) * below + here
        totals.append(width_of(below))
    return _counted(_below(space, root, count, depth, kind, size, (width, totals, node)), total)


def _counted(found: Iterable[bytes], total: int) -> Iterator[bytes]:
    """Yield records, of which there must be `total`."""
    left = total
    for record in found:
        left -= 1
        yield record
    if left:
        raise BrokenError


def _leaf(space: Space, place: int, count: int, kind: int, size: int, node: int) -> list[bytes]:
    """Return the records of a leaf node."""
    leaf = space.structure(place, 6 + count * size + 4)
    if leaf[:6] != b"BTLF\0" + bytes([kind]) or len(leaf) > node:
        raise BrokenError
    return [leaf[at : at + size] for at in range(6, 6 + count * size, size)]


def _below(
    space: Space, place: int, count: int, level: int, kind: int, size: int, widths: tuple[int, list[int], int]
) -> Iterator[bytes]:
    """Yield the records of a node and of all nodes below it, in order; there are few levels."""
    width, totals, node = widths
    if level == 0:
        yield from _leaf(space, place, count, kind, size, node)
        return
    pointer = 8 + width + totals[level - 1]
    inner = space.structure(place, 6 + count * size + (count + 1) * pointer + 4)
    if inner[:6] != b"BTIN\0" + bytes([kind]) or len(inner) > node:
        raise BrokenError
    here = 6 + count * size
    for i in range(count + 1):
        child = inner[here + i * pointer : here + (i + 1) * pointer]
        below = int.from_bytes(child[8 : 8 + width], "little")
        yield from _below(space, int.from_bytes(child[:8], "little"), below, level - 1, kind, size, widths)
        if i < count:
            yield inner[6 + i * size : 6 + (i + 1) * size]


def width_of(number: int) -> int:
    """Return the bytes of a field for numbers up to `number`."""
    return max(number.bit_length() - 1, 0) // 8 + 1
