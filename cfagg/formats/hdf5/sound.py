"""Whether the HDF5 library can read the attributes of an object without harm.

For values of variable length the library believes the lengths and places that stand in a file: on damaged ones it
crashes, hangs, or takes all memory.  Here each is compared with what the file has, before the library sees it.

Source: HDF5 File Format Specification, version 3.
"""

from __future__ import annotations

import struct

from cfagg.formats.hdf5.lookup3 import damaged
from cfagg.formats.hdf5.objects import ATTRIBUTES, LAYOUT, SPACE, Object, Objects
from cfagg.formats.hdf5.space import UNDEFINED, BrokenError, OverlapError, Slices, Space, UnusualError, records
from cfagg.formats.hdf5.types import shape_of

__all__ = ["Sound"]

#: What comes of bytes that are unusual or damaged.
_ERRORS = (UnusualError, OverlapError, struct.error, ValueError, LookupError, OverflowError, MemoryError)

#: The class of layouts in chunks, and of their indexes, by number, the first bytes and the bytes of settings.
_CHUNKED = 2
_TREE = b"BTHD\0"
_INDEXES = {3: (b"FAHD\0", 1), 4: (b"EAHD\0", 5), 5: (_TREE, 6)}
#: Where in them the place of their first block stands.
_BLOCKS = {b"FAHD\0": 16, b"EAHD\0": 60}

#: Classes of types.
_COMPOUND, _REFERENCE, _SEQUENCE, _ARRAY = 6, 7, 9, 10


class Sound:
    """Looks at the attributes of objects of a file.

    Parameters
    ----------
    data : Slices
        The file's bytes, from where HDF5 begins.
    """

    def __init__(self, data: Slices) -> None:
        self._space = Space(data)
        self._objects = Objects(self._space)
        self._known: dict[int, bool] = {}
        #: Each object is looked at once, for the bytes that may be read are counted.
        self._unproven: dict[int, frozenset[bytes] | None] = {}

    def check(self) -> None:
        """Look at all objects of the file; what is only unusual is left to the library.

        Raises
        ------
        BrokenError
            If the structure of one is damaged.
        """
        seen: set[int] = set()
        try:
            waiting = [self._objects.top()]
        except BrokenError:
            raise
        except UnusualError:
            if self._objects.root is None:
                return
            waiting = [self._objects.root]
        except (struct.error, IndexError) as error:
            raise BrokenError from error
        while waiting:
            at = waiting.pop()
            if at not in seen:
                seen.add(at)
                try:
                    waiting += self._below(at)
                except BrokenError:
                    raise
                except UnusualError:
                    continue
                except (OverlapError, struct.error, IndexError) as error:
                    raise BrokenError from error

    def _below(self, at: int) -> list[int]:
        """Return the objects that one links, after a look at its attributes."""
        found = self._objects.read(at)
        if LAYOUT in found.messages:
            self._layout(found.messages[LAYOUT], found.messages.get(SPACE))
        self._objects.check_orders(found)
        for data in self._stored(found):
            self._attribute(data)
        return [place for _, place in self._objects.links(found, hard=True)]

    def _layout(self, data: bytes, space: bytes | None) -> None:
        """Look whether the index of a dataset's chunks stands where its layout says."""
        version, class_ = data[:2]
        if class_ != _CHUNKED or version not in (3, 4, 5):
            return
        if version == 3:
            rank, at = struct.unpack_from("<BQ", data, 2)
            mark, step, first = b"TREE\1", 4, 11
        else:
            rank, step, first = data[3], data[4], 5
            end = first + step * rank
            known = _INDEXES.get(data[end])
            if known is None:
                return
            mark, skip = known
            (at,) = struct.unpack_from("<Q", data, end + 1 + skip)
        sizes = [data[first + step * i : first + step * (i + 1)] for i in range(rank)]
        if not rank or not all(map(any, sizes)) or (space is not None and len(shape_of(space)[0]) + 1 != rank):
            raise BrokenError
        if at == UNDEFINED:
            return
        if self._space.take(at, len(mark)) != mark:
            raise BrokenError
        if mark == _TREE:
            kind, size = struct.unpack_from("<B4xH", self._space.take(at, 38), 5)
            if kind not in (10, 11):
                raise BrokenError
            for _ in records(self._space, at, kind, size):
                pass
        elif version > 3:
            (block,) = struct.unpack_from("<Q", self._space.take(at, _BLOCKS[mark] + 8), _BLOCKS[mark])
            if block != UNDEFINED and self._space.take(block, 4) not in (b"FADB", b"EAIB"):
                raise BrokenError

    def _stored(self, found: Object) -> list[bytes]:
        """Return the attributes of an object."""
        dense = self._objects.dense_attributes(found.messages.get(ATTRIBUTES))
        return [data for _, data in (*found.attributes, *dense)]

    def unproven(self, at: int) -> frozenset[bytes] | None:
        """Return the names of the attributes of an object that may do harm; `None` where the object cannot be read.

        Attributes of compound types and of arrays are among them, because what they hold is not looked at.
        """
        if at not in self._unproven:
            self._unproven[at] = self._look(at)
        return self._unproven[at]

    def _look(self, at: int) -> frozenset[bytes] | None:
        before = len(self._space.checked)
        try:
            found = self._objects.read(at)
            names = frozenset(name for name, sound in map(self._attribute, self._stored(found)) if not sound)
        except _ERRORS:
            return None
        return None if damaged(self._space.data, self._space.checked[before:]) else names

    def is_object(self, at: int) -> bool:
        """Return whether an object stands at a place."""
        if at not in self._known:
            before = len(self._space.checked)
            try:
                self._objects.read(at)
                self._known[at] = not damaged(self._space.data, self._space.checked[before:])
            except _ERRORS:
                self._known[at] = False
        return self._known[at]

    def _attribute(self, data: bytes) -> tuple[bytes, bool]:
        """Return the name of an attribute, and whether all its values exist."""
        version, flags = data[0], data[1]
        length, kind_size, space_size = struct.unpack_from("<HHH", data, 2)
        if version not in (1, 2, 3):
            raise UnusualError
        pad = 7 if version == 1 else 0
        at = 9 if version == 3 else 8
        begin = at + length + (-length & pad)
        middle = begin + kind_size + (-kind_size & pad)
        end = middle + space_size + (-space_size & pad)
        if end > len(data):
            raise BrokenError
        name = data[at : at + length].split(b"\0")[0]
        if version > 1 and flags & 2:
            return name, False
        kind = data[begin : begin + kind_size]
        if version > 1 and flags & 1:
            kind = self._objects.named(kind)
        shape, _, empty = shape_of(data[middle : middle + space_size])
        count = 0 if empty else 1
        for n in shape:
            count *= n
        (size,) = struct.unpack_from("<I", kind, 4)
        if end + count * size > len(data):
            return name, False
        class_ = kind[0] & 15
        if class_ == _SEQUENCE:
            try:
                return name, self._sequences(kind, data, end, count)
            except _ERRORS:
                return name, False
        return name, class_ not in (_COMPOUND, _ARRAY)

    def _sequences(self, kind: bytes, data: bytes, at: int, count: int) -> bool:
        """Return whether values of variable length exist, with their very lengths."""
        (size,) = struct.unpack_from("<I", kind, 12)
        inner = kind[8] & 15
        if inner in (_COMPOUND, _SEQUENCE, _ARRAY):
            return False
        for i in range(count):
            length, heap, index = struct.unpack_from("<IQI", data, at + 16 * i)
            if not length and heap in (0, UNDEFINED):
                continue
            if self._space.long_size(heap, index) != length * size:
                return False
            if inner == _REFERENCE and size == 8:
                raw = self._space.long_value(8 * length, heap, index)
                if not all(self.is_object(place) for (place,) in struct.iter_unpack("<Q", raw)):
                    return False
        return True
