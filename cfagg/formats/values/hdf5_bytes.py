"""The bytes of an HDF5 file: bounds and checksums, the superblock, and values of variable length.

Source: HDF5 File Format Specification, version 3.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator

__all__ = ["UNDEFINED", "Bytes", "UnusualError"]

#: The address of what does not exist.
UNDEFINED = 2**64 - 1

#: Longest structure, and most bytes and requests that one variable's header may take.
_LONGEST, _BYTES, _REQUESTS = 2**18, 2**22, 256


class UnusualError(Exception):
    """Something that the HDF5 library should interpret."""


class Bytes:
    """Bounded access to a file's bytes.

    Parameters
    ----------
    handle : int
        A file descriptor for positioned reads.
    head : bytes
        The first bytes of the file.
    size : int
        Bytes of the file.

    Attributes
    ----------
    root : int
        Where the header of the root group stands.

    Raises
    ------
    UnusualError
        If the superblock is none of version 2 or 3 with sizes of eight bytes, or the file is cut off.
    """

    def __init__(self, handle: int, head: bytes, size: int) -> None:
        from numcodecs.jenkins import jenkins_lookup3

        self._checksum = jenkins_lookup3
        self.handle, self.head, self.size = handle, head, size
        self.bytes = self.requests = 0
        self._taken: list[tuple[int, int]] = []
        self._heaps: dict[int, dict[int, bytes]] = {}
        whole = self.checked(0, 48)
        version, offsets, lengths, flags, base, extension, end, self.root = struct.unpack_from("<4B4Q", whole, 8)
        # Flags tell of a writer that is or was at work; an extension may change anything.
        if version not in (2, 3) or (offsets, lengths, flags, base, extension) != (8, 8, 0, 0, UNDEFINED) or end > size:
            raise UnusualError

    def take(self, at: int, size: int) -> bytes:
        """Return bytes.

        Raises
        ------
        UnusualError
            If the file does not have them, or they are too many.
        """
        end = at + size
        if end > self.size or size > _LONGEST:
            raise UnusualError
        self._taken.append((at, end))
        if end <= len(self.head):
            return self.head[at:end]
        self.bytes += size
        self.requests += 1
        if self.bytes > _BYTES or self.requests > _REQUESTS:
            raise UnusualError
        data = os.pread(self.handle, size, at)
        if len(data) != size:
            raise UnusualError
        return data

    def record(self) -> None:
        """Note from now on which bytes are taken; what was read before is read anew."""
        self._taken = []
        self._heaps = {}

    def recorded(self) -> list[slice] | None:
        """Return the places of the bytes taken since `record`; `None` where some are not among the first bytes."""
        places: list[slice] = []
        for at, end in sorted(self._taken):
            if end > len(self.head):
                return None
            if places and at <= places[-1].stop:
                places[-1] = slice(places[-1].start, max(end, places[-1].stop))
            else:
                places.append(slice(at, end))
        return places

    def checked(self, at: int, size: int) -> bytes:
        """Return bytes that end with the checksum of those before.

        Raises
        ------
        UnusualError
            If the checksum is another.
        """
        data = self.take(at, size)
        if size < 8 or self._checksum(data[:-4], 0) != int.from_bytes(data[-4:], "little"):
            raise UnusualError
        return data

    def checksum(self, data: bytes) -> int:
        """Return the checksum of bytes."""
        return int(self._checksum(data, 0))

    def sequences(self, data: bytes, count: int, size: int) -> Iterator[bytes]:
        """Yield values of variable length.

        Parameters
        ----------
        data : bytes
            Length, heap and index of each.
        count : int
            How many there are.
        size : int
            Bytes of an element.  Where it is more than 1, each must have one element.

        Raises
        ------
        UnusualError
            If one does not exist.
        """
        if len(data) < 16 * count:
            raise UnusualError
        for i in range(count):
            length, heap, index = struct.unpack_from("<IQI", data, 16 * i)
            value = self._heap(heap).get(index)
            if value is None or not length or (size > 1 and length != 1) or len(value) < length * size:
                raise UnusualError
            yield value[: length * size]

    def _heap(self, at: int) -> dict[int, bytes]:
        """Return the objects of a global heap collection."""
        found = self._heaps.get(at)
        if found is not None:
            return found
        mark, size = struct.unpack("<8sQ", self.take(at, 16))
        if mark != b"GCOL\1\0\0\0" or size & 7:
            raise UnusualError
        whole = self.take(at, size)
        found = self._heaps[at] = {}
        here = 16
        while here + 16 <= size:
            index, length = struct.unpack_from("<H6xQ", whole, here)
            # What is free has the number 0, and its own sixteen bytes count.
            step = 16 + length + (-length & 7) if index else length
            if step < 16 or here + step > size:
                raise UnusualError
            if index:
                found[index] = whole[here + 16 : here + 16 + length]
            here += step
        return found
