"""Checks that the HDF5 library can read a file's objects, attributes and values safely.

For values of variable length the library trusts the lengths and addresses in a file: on damaged ones it crashes, hangs,
or uses all memory.  Here each is compared with the file before the library reads it.

Source: HDF5 File Format Specification, version 3.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from cfagg.formats.hdf5.bytes import Bytes
from cfagg.formats.hdf5.indexes import check_index, check_order
from cfagg.formats.hdf5.lookup3 import damaged
from cfagg.formats.hdf5.messages import COMPACT, Layout, attribute_of, fill_of, layout_of, shape_of
from cfagg.formats.hdf5.objects import ATTRIBUTES, FILL, LAYOUT, OLD_FILL, SPACE, TYPE, Object, Objects
from cfagg.formats.hdf5.slots import Slot, slots_of
from cfagg.formats.hdf5.space import ERRORS, UNDEFINED, BrokenError, OverlapError, Space, TooManyError, UnusualError

__all__ = ["Sound"]

#: Errors for bytes that are unusual or damaged.
_ERRORS = (OverlapError, *ERRORS)

#: References to heaps: for values of variable length, and for regions.
_SEQUENCE = np.dtype([("length", "<u4"), ("heap", "<u8"), ("index", "<u4")])
_REGION = np.dtype([("heap", "<u8"), ("index", "<u4")])

#: Most levels of nested values.
_DEEPEST = 8


class Sound:
    """Checks the objects of a file without its user block; `heaps`: more than the last heap is cached."""

    def __init__(self, data: Bytes, *, heaps: bool = True) -> None:
        self._space = Space(data, heaps=heaps)
        self._objects = Objects(self._space)
        self._known: dict[int, bool] = {}
        self._indexed: dict[int, Layout | None] = {}
        self._ordered: set[int] = set()
        #: Each object is checked once, since the bytes that may be read are limited.
        self._unproven: dict[int, frozenset[bytes] | None] = {}
        self._is_checked = False

    def check(self) -> None:
        """Check all objects of the file, once."""
        if self._is_checked:
            return
        # Objects that need a table of shared messages, or are too many, are left to the library.
        seen: set[int] = set()
        self._space.renew()
        try:
            waiting = [self._objects.top()]
        except BrokenError:
            raise
        except UnusualError as error:
            if self._objects.root is None:
                raise BrokenError from error
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
                except TooManyError:
                    continue
                except UnusualError as error:
                    if not self._objects.extended:
                        raise BrokenError from error
                except (OverlapError, struct.error, IndexError) as error:
                    raise BrokenError from error
        self._space.renew()
        self._is_checked = True

    def _below(self, at: int) -> list[int]:
        """Return the objects linked by one, after checking its attributes."""
        found = self._objects.read(at)
        self._index(at, found)
        self._check_fill(found)
        self._objects.check_orders(found)
        for data in self._stored(found):
            self._attribute(data)
        return [place for _, place in self._objects.links(found, hard=True)]

    def _index(self, at: int, found: Object) -> None:
        """Check the index of a dataset's chunks, once."""
        if LAYOUT in found.messages and at not in self._indexed:
            space = found.messages.get(SPACE)
            shape = None if space is None else shape_of(space)[0]
            self._indexed[at] = check_index(self._space, found.messages[LAYOUT], shape)

    def _check_fill(self, found: Object) -> None:
        """Check that the fill value of a dataset exists if it has a variable length."""
        kind = found.messages.get(TYPE)
        values = [v for v in (fill_of(found.messages, FILL), fill_of(found.messages, OLD_FILL)) if v]
        if kind is None or not values:
            return
        try:
            size, slots = slots_of(kind)
        except BrokenError:
            raise
        except UnusualError:
            return  # its values are not read
        if slots and not all(len(value) == size and self._exist(value, size, slots) for value in values):
            raise BrokenError

    def index(self, at: int) -> Layout | None:
        """Check the index of the chunks of a dataset, and return the result of `check_index`."""
        try:
            if at not in self._indexed:
                self._index(at, self._objects.read(at))
            layout = self._indexed.get(at)
            if layout is not None and at not in self._ordered:
                check_order(self._space, layout)
                self._ordered.add(at)
        except BrokenError:
            raise
        except _ERRORS as error:
            raise BrokenError from error
        return layout

    def type(self, at: int) -> tuple[int, tuple[Slot, ...]]:
        """Return the bytes of an element of a dataset, and its references to heaps."""
        try:
            return slots_of(self._objects.read(at).messages[TYPE])
        except (OverlapError, struct.error, IndexError, KeyError) as error:
            raise BrokenError from error

    def compact(self, at: int) -> bytes:
        """Return the values of a dataset that are stored in its header."""
        layout = self._objects.read(at).messages[LAYOUT]
        (size,) = struct.unpack_from("<H", layout, 2)
        if layout_of(layout).class_ != COMPACT or 4 + size > len(layout):
            raise BrokenError
        return layout[4 : 4 + size]

    def exist(self, raw: bytes, size: int, slots: tuple[Slot, ...]) -> bool:
        """Return whether all values to which elements of `size` bytes refer exist, with exactly their lengths."""
        # The limit applies to the bytes of one read.
        try:
            return all(Sound(self._space.data, heaps=bool(s.below or s.objects))._exist(raw, size, (s,)) for s in slots)
        except _ERRORS:
            return False

    def _stored(self, found: Object) -> list[bytes]:
        """Return the attributes of an object."""
        dense = self._objects.dense_attributes(found.messages.get(ATTRIBUTES))
        return [data for _, data in (*found.attributes, *dense)]

    def unproven(self, at: int) -> frozenset[bytes] | None:
        """Return the names of the attributes of an object that may be unsafe, or `None` if it cannot be read."""
        if at not in self._unproven:
            self._unproven[at] = self._look(at)
        return self._unproven[at]

    def _look(self, at: int) -> frozenset[bytes] | None:
        return self._proven(
            lambda: frozenset(n for n, sound in map(self._attribute, self._stored(self._objects.read(at))) if not sound)
        )

    def _proven[T](self, read: Callable[[], T]) -> T | None:
        """Return the result of `read`, or `None` if it is unusual or a checksum is wrong."""
        before = len(self._space.checked)
        try:
            found = read()
        except _ERRORS:
            return None
        return None if damaged(self._space.data, self._space.checked[before:]) else found

    def is_object(self, at: int) -> bool:
        """Return whether there is an object at an address."""
        if at not in self._known:
            self._known[at] = self._proven(lambda: self._objects.read(at)) is not None
        return self._known[at]

    def _attribute(self, data: bytes) -> tuple[bytes, bool]:
        """Return the name of an attribute, and whether all its values exist."""
        name, flags, kind, space, end = attribute_of(data)
        if flags & 2:
            return name, False
        if flags & 1:
            kind = self._objects.named(kind)
        shape, _, empty = shape_of(space)
        count = 0 if empty else 1
        for n in shape:
            count *= n
        (size,) = struct.unpack_from("<I", kind, 4)
        if end + count * size > len(data):
            return name, False
        try:
            element, slots = slots_of(kind)
            return name, element == size and self._exist(data[end : end + count * size], size, slots)
        except _ERRORS:
            return name, False

    def _exist(self, raw: bytes, size: int, slots: tuple[Slot, ...], depth: int = 0) -> bool:
        """Return the result of `exist`."""
        whole = np.frombuffer(raw, np.uint8).reshape(-1, size)
        return all(self._slot(np.ascontiguousarray(whole[:, s.at : s.at + 16]), s, depth) for s in slots)

    def _slot(self, raw: npt.NDArray[np.uint8], slot: Slot, depth: int) -> bool:
        """Return whether the targets of all references in one slot exist."""
        if not slot.size:
            regions = np.ascontiguousarray(raw[:, :12]).view(_REGION).ravel()
            regions = regions[(regions["heap"] != 0) & (regions["heap"] != UNDEFINED)]
            return all(self._space.long_size(int(r["heap"]), int(r["index"])) >= 8 for r in regions)
        found = raw.view(_SEQUENCE).ravel()
        found = found[(found["length"] != 0) | ((found["heap"] != 0) & (found["heap"] != UNDEFINED))]
        # Sorted by heap, so that each is read once.
        found = found[np.argsort(found["heap"], kind="stable")]
        if not (slot.below or slot.objects):
            starts = np.flatnonzero(np.diff(found["heap"], prepend=found["heap"][:1] + 1))
            for part in np.split(found, starts[1:]) if found.size else ():
                wanted = [n * slot.size for n in part["length"].tolist()]
                if self._space.long_sizes(int(part["heap"][0]), part["index"].tolist()) != wanted:
                    return False
                # Many references to the same bytes could use any amount of memory.
                self._space.spend(sum(wanted))
            return True
        for n, heap, index in found.tolist():
            if self._space.long_size(heap, index) != n * slot.size:
                return False
            if not n:
                continue
            value = self._space.long_value(n * slot.size, heap, index)
            if slot.objects and not all(self.is_object(place) for (place,) in struct.iter_unpack("<Q", value)):
                return False
            if slot.below and (depth > _DEEPEST or not self._exist(value, slot.size, slot.below, depth + 1)):
                return False
        return True
