"""The bytes of an HDF5 file, read as structures: bounds, checksums, a budget, and the global heap of long values.

Source: HDF5 File Format Specification, version 3.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Callable

import numpy as np

from cfagg.formats.hdf5.bytes import Bytes

__all__ = [
    "ERRORS",
    "UNDEFINED",
    "BrokenError",
    "OverlapError",
    "Space",
    "TooManyError",
    "UnsoundError",
    "UnusualError",
]

#: The address of an object that does not exist.
UNDEFINED = 2**64 - 1

#: Bytes of the longest structure with a checksum, and bytes that may be read several times.
_LONGEST, _ROOM = 1 << 26, 1 << 20

#: Bytes of the smallest global heap collection.
_SMALLEST = 4096

#: Number of objects of a heap from which they are processed together.
_MANY = 16

#: The header of each of them.
_OBJECT = np.dtype([("index", "<u2"), ("count", "<u2"), ("free", "<u4"), ("length", "<u8")])


class UnusualError(Exception):
    """Something that the HDF5 library has to interpret."""


class BrokenError(UnusualError):
    """Something that cannot be in a sound file; the HDF5 library could crash on it."""


class TooManyError(UnusualError):
    """More, or longer, than the limits."""


class OverlapError(Exception):
    """Structures share bytes, so that a small file would take for ever to read."""


class UnsoundError(Exception):
    """Something that the library must not read."""


#: Errors for bytes that are unusual or damaged, besides `OverlapError`.
ERRORS = (UnusualError, struct.error, ValueError, LookupError, OverflowError, MemoryError)


class Space:
    """The bytes of a file, with a record of those that were read."""

    def __init__(self, data: Bytes, *, heaps: bool = True, checksum: Callable[[bytes], int] | None = None) -> None:
        # Whether more than the last heap is cached.
        self.heaps = heaps
        # With a function checksums are verified immediately, and structures without one in another way (`unsealed`).
        # Otherwise they are recorded, to be verified together at the end: position and length of a structure, and the
        # position of its checksum.
        self.data, self.size, self.checksum = data, len(data), checksum
        # The first bytes, if they are in memory.
        self.near: bytes = getattr(data, "near", b"")
        self.checked: list[tuple[int, int, int]] = []
        #: Start and end of structures without checksums, in order.
        self._unsealed: list[tuple[int, int]] = []
        self.renew()
        self._global: dict[int, dict[int, tuple[int, int]]] = {}
        #: Position and bytes of the heap that was read last.
        self._heap = 0, b""

    def take(self, at: int, size: int) -> bytes:
        """Return bytes, all of which must be in the file."""
        end = at + size
        if end > self.size:
            raise BrokenError
        if end <= len(self.near):
            return self.near[at:end]
        if size > _LONGEST:
            raise TooManyError
        return self.data[at:end]

    def begin(self, at: int, size: int) -> bytes:
        """Return bytes, fewer if the file ends."""
        return self.near[at : at + size] if at + size <= len(self.near) else self.data[at : at + size]

    def structure(self, at: int, size: int, mark: int | None = None) -> bytes:
        """Return a structure with a checksum at its end, or at byte `mark`, which then counts as zeros."""
        # Like `spend` and `take`, inlined because this is called most.
        self._left -= size
        if self._left < 0:
            raise OverlapError
        data = self.near[at : at + size] if at + size <= len(self.near) else self.take(at, size)
        if self.checksum is None:
            self.checked.append((at, size, size - 4 if mark is None else mark))
        else:
            if mark is None:
                wanted, summed = data[-4:], data[:-4]
            else:
                wanted, summed = data[mark : mark + 4], data[:mark] + bytes(4) + data[mark + 4 :]
            if size < 4 or self.checksum(summed) != int.from_bytes(wanted, "little"):
                raise BrokenError
        return data

    def bare(self, at: int, size: int) -> bytes:
        """Return a structure without a checksum, as `unsealed`."""
        self.spend(size)
        self.unsealed(at, size)
        return self.take(at, size)

    def unsealed(self, at: int, size: int) -> bool:
        """Return whether a structure without a checksum needs other verification; it must not overlap others."""
        if self.checksum is None:
            return False
        here, known = (at, at + size), self._unsealed
        i = bisect_left(known, here)
        if known[i : i + 1] != [here]:
            is_free = (not i or known[i - 1][1] <= at) and (i == len(known) or known[i][0] >= here[1])
            if here[1] > self.size or not is_free:
                raise UnusualError
            if size:
                known.insert(i, here)
        return True

    @property
    def proven(self) -> bool:
        """Whether structures without checksums were read, and verified in another way."""
        return bool(self._unsealed)

    def renew(self) -> None:
        """Restart counting bytes, so that everything may be read once more."""
        self._left = 2 * self.size + _ROOM

    def state(self) -> tuple[int, int]:
        """Return the amount read so far, for `restore`."""
        return self._left, len(self.checked)

    def restore(self, before: tuple[int, int]) -> None:
        """Treat everything read since then as not read."""
        self._left = before[0]
        del self.checked[before[1] :]

    def spend(self, size: int) -> None:
        """Count bytes, each of which should be read once."""
        self._left -= size
        if self._left < 0:
            raise OverlapError

    def spent(self, at: int, size: int) -> bytes:
        """Return bytes, all of which must be in the file, and count them."""
        self.spend(size)
        return self.take(at, size)

    def long_value(self, length: int, heap: int, index: int) -> bytes:
        """Return the first `length` bytes of a value of variable length."""
        if not length or heap in (0, UNDEFINED):
            return b""
        at, size = (self._global.get(heap) or self._objects(heap)).get(index, (0, -1))
        # The library requires the exact length.
        if length > size or (self.checksum is not None and length != size):
            raise BrokenError
        self.spend(length)
        begin, whole = self._heap
        first = at - begin
        return whole[first : first + length] if 0 < first <= len(whole) - length else self.begin(at, length)

    def references(self, values: bytes, at: int, count: int) -> list[int | None]:
        """Return the first address in each of several lists of addresses, which are values of variable length."""
        found: list[int | None] = []
        for length, heap, index in struct.iter_unpack("<IQI", values[at : at + 16 * count]):
            first = self.long_value(8 * length, heap, index)[:8]
            found.append(int.from_bytes(first, "little") if first else None)
        if len(found) != count:
            raise BrokenError
        return found

    def long_size(self, heap: int, index: int) -> int:
        """Return the bytes of a value of variable length, or -1 if there is none."""
        return self._objects(heap).get(index, (0, -1))[1]

    def long_sizes(self, heap: int, indices: list[int]) -> list[int]:
        """Return the result of `long_size` for several values in one heap."""
        found = self._objects(heap)
        none = (0, -1)
        return [found.get(index, none)[1] for index in indices]

    def _objects(self, at: int) -> dict[int, tuple[int, int]]:
        """Return position and size of the objects of a global heap collection by their numbers."""
        found = self._global.get(at)
        if found is not None:
            return found
        mark, size = struct.unpack("<8sQ", self.take(at, 16))
        # The library does not read a smaller one, and netCDF-C then crashes.
        if mark != b"GCOL\1\0\0\0" or size & 7 or size < _SMALLEST or at + size > self.size:
            raise BrokenError
        self.spend(size)
        if not self.heaps:
            self._global.clear()
        end = at + size
        # Of a longer one, which may have more bytes than the disk, only the headers behind these are read.
        whole = self.begin(at, min(size, _LONGEST))
        self._heap = at, whole
        last = at + len(whole)
        found, here = _alike(whole, at)
        free = False
        while here + 16 <= end:
            head, begin = (whole, here - at) if here + 16 <= last else (self.begin(here, 16), 0)
            index, length = struct.unpack_from("<H6xQ", head, begin)
            # Free space has the number 0, and its own sixteen bytes count.  Otherwise the library would never advance,
            # so the whole collection is checked.
            step = 16 + length + (-length & 7) if index else length
            # If a number occurs twice, the library gives up in the middle, and netCDF-C crashes.
            if step < 16 or here + step > end or (index in found if index else free):
                raise BrokenError
            if index:
                found[index] = (here + 16, length)
            else:
                free = True
            here += step
        if here < end and free:  # fewer bytes than a header needs are free space, too
            raise BrokenError
        self._global[at] = found
        return found


def _alike(heap: bytes, at: int) -> tuple[dict[int, tuple[int, int]], int]:
    """Return the first objects of a global heap that need equal space, such as similar texts, and their end."""
    # Processing many together is faster than one by one.
    start = at + 16
    if len(heap) < 32:
        return {}, start
    first = int.from_bytes(heap[24:32], "little")
    step = 16 + first + (-first & 7)
    count = (len(heap) - 16) // step
    again = 16 + _MANY * step
    if count <= _MANY or heap[again + 8 : again + 16] != heap[24:32]:
        return {}, start
    headers = np.frombuffer(heap, np.uint8, count * step, 16).reshape(count, step)[:, :16]
    columns = np.ascontiguousarray(headers).view(_OBJECT).ravel()
    length = columns["length"]
    # The number 0 means free space; the padding of a longer object ends elsewhere.
    same = (columns["index"] != 0) & (length <= step - 16) & (length + 7 >= step - 16)
    last = count if same.all() else int(np.argmin(same))
    columns = columns[:last]
    places = range(start + 16, start + 16 + last * step, step)
    found = dict(zip(columns["index"].tolist(), zip(places, columns["length"].tolist(), strict=True), strict=True))
    if len(found) < last:
        raise BrokenError
    return found, start + last * step
