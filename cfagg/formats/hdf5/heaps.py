"""Fractal heaps of HDF5, in which groups and datasets with many links or attributes store them.

Source: HDF5 File Format Specification, version 3.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from cfagg.formats.hdf5.space import UNDEFINED, BrokenError, Space, UnusualError
from cfagg.formats.hdf5.trees import records, width_of

__all__ = ["Heap"]


class Heap:
    """A fractal heap, by the address of its header; filtered ones are unusual."""

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
        self.length_size = min(width_of(self.direct), width_of(largest))
        if self.id_size < 1 + self.offset_size + self.length_size:
            raise UnusualError
        self.direct_rows = (self.direct // self.start).bit_length() + 1
        self._huge: dict[int, tuple[int, int]] | None = None
        self._seen_blocks: set[int] = set()

    def get(self, identifier: bytes) -> bytes:
        """Return an object."""
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
        """Return several objects; those of the same block are sliced from it."""
        middle = 1 + self.offset_size
        end, known = middle + self.length_size, int.from_bytes
        found = []
        # Blocks with their start and end, by the index that a block of minimal size at that position would have; and
        # their bytes by address.
        blocks: dict[int, tuple[bytes, int, int]] = {}
        taken: dict[int, bytes] = {}
        nowhere = b"", 0, -1
        for identifier in identifiers:
            if identifier[0] >> 4:
                found.append(self.get(identifier))
                continue
            begin, length = known(identifier[1:middle], "little"), known(identifier[middle:end], "little")
            block, first, last = blocks.get(begin // self.start, nowhere)
            if begin + length > last:
                self._managed(begin, length)
                at, first, size = self._find(begin) if self.rows else (self.root, 0, self.start)
                block = taken[at] = taken.get(at) or self.space.take(at, size)
                blocks[begin // self.start] = block, first, first + size
            found.append(block[begin - first : begin - first + length])
        return found

    def _managed(self, offset: int, length: int) -> bytes:
        at, begin, size = self.root, 0, self.start
        if self.rows:
            at, begin, size = self._find(offset)
        if at == UNDEFINED or offset + length > begin + size or offset < begin:
            raise BrokenError
        if at not in self._seen_blocks:
            self._seen_blocks.add(at)
            space = self.space
            whole = space.structure(at, size, 13 + self.offset_size) if self.verified else space.spent(at, size)
            if whole[:5] != b"FHDB\0":
                raise BrokenError
        return self.space.take(at + offset - begin, length)

    def _find(self, offset: int) -> tuple[int, int, int]:
        """Return address, start in the heap and size of the block of values that contains an offset."""
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
        """Return an object stored outside of the heap's blocks."""
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
