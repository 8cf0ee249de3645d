"""Where HDF5 keeps many small things: fractal heaps, version 2 B-trees, and the global heap of long values.

Everything is read from bytes at hand; each offset is checked against them, and work is bounded by their number.

Source: HDF5 File Format Specification, version 3.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Protocol

__all__ = [
    "UNDEFINED",
    "BrokenError",
    "Heap",
    "OverlapError",
    "Shifted",
    "Slices",
    "Space",
    "TooManyError",
    "UnusualError",
    "records",
]

#: The address of what does not exist.
UNDEFINED = 2**64 - 1

#: Bytes of the longest structure with a checksum, and bytes that may be read several times.
_LONGEST, _ROOM = 1 << 26, 1 << 20


class UnusualError(Exception):
    """Something that the HDF5 library should interpret."""


class BrokenError(UnusualError):
    """Something that cannot be in a sound file; the HDF5 library could crash on it."""


class TooManyError(UnusualError):
    """More, or longer, than is looked at."""


class OverlapError(Exception):
    """Structures share bytes, so that a small file would take for ever to read."""


class Slices(Protocol):
    """Bytes of which pieces can be had: a file in memory, or one on another machine."""

    def __len__(self) -> int:
        """Return how many there are."""

    def __getitem__(self, where: slice) -> bytes:
        """Return some."""


class Shifted:
    """The bytes behind a user block.

    Parameters
    ----------
    data : Slices
        All bytes.
    begin : int
        Bytes of the user block.
    """

    def __init__(self, data: Slices, begin: int) -> None:
        self._data, self._begin = data, begin

    def __len__(self) -> int:
        return max(len(self._data) - self._begin, 0)

    def __getitem__(self, where: slice) -> bytes:
        """Return some bytes: `where` has a start, a stop and no step."""
        return self._data[where.start + self._begin : where.stop + self._begin]


class Space:
    """The bytes of a file.

    Parameters
    ----------
    data : bytes, mmap or the like
        All of them.

    Attributes
    ----------
    checked : list of (int, int, int)
        Places and lengths of structures with a checksum, and where in them it stands.
    heaps : bool
        Whether more than the heap read last is remembered.
    """

    def __init__(self, data: Slices, *, heaps: bool = True) -> None:
        self.data, self.size, self.heaps = data, len(data), heaps
        self.checked: list[tuple[int, int, int]] = []
        self.renew()
        self._global: dict[int, dict[int, tuple[int, int]]] = {}

    def take(self, at: int, size: int) -> bytes:
        """Return bytes.

        Raises
        ------
        UnusualError
            If the file does not have them.
        """
        end = at + size
        if end > self.size:
            raise BrokenError
        if size > _LONGEST:
            raise TooManyError
        return self.data[at:end]

    def structure(self, at: int, size: int) -> bytes:
        """Return a structure that ends with its checksum, which is compared in the end."""
        self.spend(size)
        self.checked.append((at, size, size - 4))
        return self.take(at, size)

    def renew(self) -> None:
        """Count bytes from the beginning: everything may be read once more."""
        self._left = 2 * self.size + _ROOM

    def spend(self, size: int) -> None:
        """Count bytes of which each should be read once.

        Raises
        ------
        OverlapError
            If they are more than the file has.
        """
        self._left -= size
        if self._left < 0:
            raise OverlapError

    def long_value(self, length: int, heap: int, index: int) -> bytes:
        """Return a value of variable length.

        Raises
        ------
        UnusualError
            If there is none.
        """
        if not length or heap in (0, UNDEFINED):
            return b""
        at, size = self._objects(heap).get(index, (0, -1))
        if length > size:
            raise BrokenError
        self.spend(length)
        return self.data[at : at + length]

    def long_size(self, heap: int, index: int) -> int:
        """Return the bytes of a value of variable length, -1 where there is none.

        Raises
        ------
        UnusualError
            If the heap is damaged.
        """
        return self._objects(heap).get(index, (0, -1))[1]

    def _objects(self, at: int) -> dict[int, tuple[int, int]]:
        """Return place and size of the objects of a global heap collection by their numbers."""
        found = self._global.get(at)
        if found is not None:
            return found
        mark, size = struct.unpack("<8sQ", self.take(at, 16))
        if mark != b"GCOL\1\0\0\0" or size & 7 or at + size > self.size:
            raise BrokenError
        self.spend(size)
        if not self.heaps:
            self._global.clear()
        found = {}
        here, end = at + 16, at + size
        whole = self.data[at:end]
        while here + 16 <= end:
            index, length = struct.unpack_from("<H6xQ", whole, here - at)
            # What is free has the number 0, and its own sixteen bytes count.  The library would stay at the same place
            # for ever where they do not, so the whole collection is looked at.
            step = 16 + length + (-length & 7) if index else length
            if step < 16 or here + step > end:
                raise BrokenError
            if index:
                found[index] = (here + 16, length)
            here += step
        self._global[at] = found
        return found


class Heap:
    """A fractal heap.

    Parameters
    ----------
    space : Space
        The file's bytes.
    at : int
        Where the heap's header stands.

    Attributes
    ----------
    id_size : int
        Bytes of an object's identifier.

    Raises
    ------
    UnusualError
        If the heap is filtered or damaged.
    """

    def __init__(self, space: Space, at: int) -> None:
        found = struct.unpack_from("<4sBHHBI12QHQQHHQH", space.structure(at, 146))
        mark, version, self.id_size, filters, flags, largest = found[:6]
        self._huge_tree = found[7]
        self.width, self.start, self.direct, bits, _, self.root, self.rows = found[18:]
        if mark != b"FRHP" or not self.start or not self.width or bits > 64 or self.rows > 64:
            raise BrokenError
        if self.start & (self.start - 1) or self.direct & (self.direct - 1) or self.width & (self.width - 1):
            raise BrokenError
        if version or filters:
            raise UnusualError
        self.space, self.verified = space, bool(flags & 2)
        self.offset_size = (bits + 7) // 8
        self.length_size = min(_width(self.direct), _width(largest))
        self.direct_rows = (self.direct // self.start).bit_length() + 1
        self._blocks: dict[int, int] = {}
        self._huge: dict[int, tuple[int, int]] | None = None
        self._seen_blocks: set[int] = set()

    def get(self, identifier: bytes) -> bytes:
        """Return an object.

        Raises
        ------
        UnusualError
            If there is none.
        """
        kind = identifier[0] >> 4
        if kind == 0:
            end = 1 + self.offset_size
            offset = int.from_bytes(identifier[1:end], "little")
            length = int.from_bytes(identifier[end : end + self.length_size], "little")
            return self._managed(offset, length)
        if kind == 1:
            return self._large(int.from_bytes(identifier[1:9], "little"))
        if kind == 2 and self.id_size <= 18:
            return identifier[1 : 2 + (identifier[0] & 15)]
        raise UnusualError

    def messages(self, identifiers: Sequence[bytes]) -> list[bytes]:
        """Return several objects; of a heap of one block they are cut out of it at once.

        Raises
        ------
        UnusualError
            If there is one that is not there.
        """
        if self.rows or self.root == UNDEFINED or not identifiers:
            return [self.get(identifier) for identifier in identifiers]
        self._managed(0, 1)  # that the block is one
        block = self.space.take(self.root, self.start)
        middle = 1 + self.offset_size
        end, known = middle + self.length_size, int.from_bytes
        found = []
        for identifier in identifiers:
            if identifier[0] >> 4:
                found.append(self.get(identifier))
                continue
            begin, length = known(identifier[1:middle], "little"), known(identifier[middle:end], "little")
            if begin + length > self.start:
                raise BrokenError
            found.append(block[begin : begin + length])
        return found

    def _managed(self, offset: int, length: int) -> bytes:
        at, begin, size = self.root, 0, self.start
        if self.rows:
            at, begin, size = self._find(offset)
        if at == UNDEFINED or offset + length > begin + size or offset < begin:
            raise BrokenError
        if at not in self._seen_blocks:
            self._seen_blocks.add(at)
            if self.space.take(at, size)[:5] != b"FHDB\0":
                raise BrokenError
            if self.verified:
                self.space.spend(size)
                self.space.checked.append((at, size, 13 + self.offset_size))
        return self.space.take(at + offset - begin, length)

    def _find(self, offset: int) -> tuple[int, int, int]:
        """Return place, begin in the heap and size of the block of values that holds an offset."""
        at, rows, begin = self.root, self.rows, 0
        first = self.start * self.width
        for _ in range(64):
            inner = offset - begin
            row = 0 if inner < first else (inner // first).bit_length()
            if row >= rows:
                raise BrokenError
            size = self.start << max(row - 1, 0)
            column = (inner - (first << (row - 1) if row else 0)) // size
            place = at + 13 + self.offset_size + 8 * (row * self.width + column)
            if at not in self._seen_blocks:
                self._seen_blocks.add(at)
                prefix = 13 + self.offset_size
                if self.space.structure(at, prefix + 8 * rows * self.width + 4)[:5] != b"FHIB\0":
                    raise BrokenError
            child = int.from_bytes(self.space.take(place, 8), "little")
            begin += (first << (row - 1) if row else 0) + column * size
            if row < self.direct_rows:
                return child, begin, size
            at, rows = child, (size // first).bit_length()
        raise BrokenError

    def _large(self, number: int) -> bytes:
        """Return an object that stands outside of the heap's blocks."""
        if self._huge is None:
            self._huge = {}
            for record in records(self.space, self._huge_tree, 1, 24):
                place, length, key = struct.unpack("<QQQ", record)
                self._huge[key] = (place, length)
        if number not in self._huge:
            raise BrokenError
        place, length = self._huge[number]
        if place + length > self.space.size:
            raise BrokenError
        self.space.spend(length)
        return self.space.data[place : place + length]


def records(space: Space, at: int, kind: int, size: int) -> Iterator[bytes]:
    """Yield the records of a version 2 B-tree in order.

    Parameters
    ----------
    space : Space
        The file's bytes.
    at : int
        Where the tree's header stands.
    kind : int
        Number of the kind of records.
    size : int
        Bytes of a record.

    Raises
    ------
    UnusualError
        If the tree is another, or damaged.
    """
    mark, version, found, node, each, depth, split, merge, root, count, total = struct.unpack_from(
        "<4sBBIHHBBQHQ", space.structure(at, 38)
    )
    if mark != b"BTHD" or found != kind or not size or each != size or total * size > space.size:
        raise BrokenError
    if not (0 < split <= 100 and 0 < merge <= 100):
        raise BrokenError
    if node > max(space.size, _ROOM):
        # The library takes so much memory on opening the tree, and aborts the process.
        raise BrokenError
    if version or depth > 16:
        raise UnusualError
    if root == UNDEFINED or not count:
        if total:
            raise BrokenError
        return
    most = max((node - 10) // size, 1)
    width = _width(most)
    # Bytes that tell how many records there are below a child, by depth.
    totals, below = [0], most
    for _ in range(depth):
        pointer = 8 + width + totals[-1]
        here = max((node - 10 - pointer) // (size + pointer), 1)
        below = (here + 1) * below + here
        totals.append(_width(below))
    left = total
    for record in _below(space, root, count, depth, kind, size, (width, totals, node)):
        left -= 1
        yield record
    if left:
        raise BrokenError


def _below(
    space: Space, place: int, count: int, level: int, kind: int, size: int, widths: tuple[int, list[int], int]
) -> Iterator[bytes]:
    """Yield the records of a node and of all below it, in order; there are few levels."""
    width, totals, node = widths
    if level == 0:
        leaf = space.structure(place, 6 + count * size + 4)
        if leaf[:6] != b"BTLF\0" + bytes([kind]) or len(leaf) > node:
            raise BrokenError
        for i in range(count):
            yield leaf[6 + i * size : 6 + (i + 1) * size]
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


def _width(number: int) -> int:
    """Return the bytes that a number up to `number` takes."""
    return max(number.bit_length() - 1, 0) // 8 + 1
