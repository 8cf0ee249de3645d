"""The object headers of HDF5: their contents, and the members and attributes to which they refer.

Source: HDF5 File Format Specification, version 3.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import NoReturn

from cfagg.formats.hdf5.heaps import Heap
from cfagg.formats.hdf5.space import UNDEFINED, BrokenError, Space, TooManyError, UnusualError
from cfagg.formats.hdf5.trees import records

__all__ = [
    "ATTRIBUTE",
    "ATTRIBUTES",
    "CONTINUED",
    "FILL",
    "FILTERS",
    "IGNORED",
    "KNOWN",
    "LAYOUT",
    "LINK",
    "LINKS",
    "MOST",
    "OLD_FILL",
    "SPACE",
    "SYMBOLS",
    "TIME",
    "TYPE",
    "Object",
    "Objects",
    "dense_at",
]

#: Most objects of a file.
MOST = 1 << 22

#: Numbers of header messages.
SPACE, LINKS, TYPE, OLD_FILL, FILL, LINK, EXTERNAL, LAYOUT, FILTERS = 1, 2, 3, 4, 5, 6, 7, 8, 11
ATTRIBUTE, CONTINUED, SYMBOLS, ATTRIBUTES, _TABLES = 12, 16, 17, 21, 15
KNOWN = frozenset(
    {SPACE, LINKS, TYPE, OLD_FILL, FILL, LINK, LAYOUT, ATTRIBUTE, CONTINUED, SYMBOLS, ATTRIBUTES, _TABLES}
)
#: Those that are not looked up if they are stored elsewhere: files of values, filters; and driver, free space and cache
#: of an extended superblock.
_NOTED = frozenset({EXTERNAL, FILTERS, 20, 23, 24})
#: Irrelevant ones: nil, group information, comment, times, hints for B-trees, count of references.
TIME = 18
IGNORED = frozenset({0, 10, 13, 14, TIME, 19, 22})


class Object:
    """An object header: messages by number, attributes and links."""

    __slots__ = ("attributes", "links", "messages", "ordered", "parts")

    def __init__(self) -> None:
        self.messages: dict[int, bytes] = {}
        self.attributes: list[tuple[int, bytes]] = []
        self.links: list[bytes] = []
        self.ordered = False
        #: The bytes of its parts, and the start of the messages in each.
        self.parts: list[tuple[bytes, int]] = []


class Objects:
    """Reads the object headers of a file."""

    def __init__(self, space: Space) -> None:
        self.space = space
        self._named: dict[int, bytes | None] = {}
        self._count = 0
        #: Whether the file may have structures that only an extended superblock describes.
        self.extended = True
        self.root: int | None = None
        #: Of an old superblock: the most entries of nodes and leaves of groups, and the addresses of the root's tables.
        self.expected: tuple[tuple[int, int] | None, bytes] = None, b""

    def _shared(self) -> NoReturn:
        """Raise an error for a message in the table of shared ones, which only an extended file has."""
        raise UnusualError if self.extended else BrokenError

    def top(self) -> int:
        """Return the address of the root group's header; in an unusual file `root` is that for the library."""
        head = self.space.take(0, 96)
        version = head[8]
        self.root = None
        if version == 0 and self.space.checksum is not None:
            from cfagg.formats.hdf5.old import check_top

            self.expected = check_top(head, self.space.size)
            self.space.unsealed(0, 96)
        elif version == 1 and self.space.checksum is not None:
            raise UnusualError
        if version in (0, 1):
            if head[13:15] != b"\x08\x08":
                raise UnusualError
            at = 24 if version == 0 else 28
            base, _, end, _ = struct.unpack_from("<4Q", head, at)
            (root,) = struct.unpack_from("<Q", head, at + 40)
            self.extended = False
        elif version in (2, 3):
            offsets, lengths, flags = head[9:12]
            base, extension, end, root = struct.unpack_from("<4Q", head, 12)
            self.space.structure(0, 48)
            if (offsets, lengths) != (8, 8):
                raise UnusualError
            self.extended = extension != UNDEFINED and _TABLES in self.read(extension).messages
            # Flags show that a writer is or was at work; an extension may change anything.
            if flags or extension != UNDEFINED:
                self.root = int(root)
                raise UnusualError
        else:
            raise UnusualError
        self.root = int(root)
        # The library reads nothing after that end.
        if base or end > self.space.size or (self.space.checksum is not None and end != self.space.size):
            raise UnusualError
        return int(root)

    def read(self, at: int) -> Object:
        """Read an object header."""
        space = self.space
        prefix = space.data[at : at + 32]
        if prefix[:4] != b"OHDR":
            return self._read_old(at)
        if prefix[4] != 2:
            raise UnusualError
        flags = prefix[5]
        skip = 6 + (16 if flags & 32 else 0) + (4 if flags & 16 else 0)
        width = 1 << (flags & 3)
        size = int.from_bytes(prefix[skip : skip + width], "little")
        found = Object()
        found.ordered = bool(flags & 4)
        begin = skip + width
        parts = found.parts = [(space.structure(at, begin + size + 4), begin)]
        left = space.size
        step = 6 if found.ordered else 4
        for body, first in parts:
            here, end = first, len(body) - 4
            while here + step <= end:
                kind = body[here]
                start = here + step
                stop = start + body[here + 1] + (body[here + 2] << 8)
                if stop > end:
                    raise BrokenError
                if kind not in IGNORED:
                    data = body[start:stop]
                    if kind not in KNOWN and kind not in _NOTED:
                        raise UnusualError
                    if body[here + 3] & 2:
                        data = self.named(data, kind) if kind in KNOWN else b""
                    if kind == ATTRIBUTE:
                        found.attributes.append((body[start - 2] | body[start - 1] << 8 if step == 6 else 0, data))
                    elif kind == LINK:
                        found.links.append(data)
                    elif kind == CONTINUED:
                        place, length = struct.unpack_from("<QQ", data)
                        left -= length
                        more = space.structure(place, length)
                        if more[:4] != b"OCHK" or left < 0:
                            raise BrokenError
                        parts.append((more, 4))
                    else:
                        found.messages[kind] = data
                here = stop
        return found

    def _read_old(self, at: int) -> Object:
        """Read an object header of version 1."""
        from cfagg.formats.hdf5.old import check_fill, messages

        found = Object()
        for kind, flags, data in messages(self.space, at, found.parts):
            if kind in IGNORED:
                continue
            if kind not in KNOWN and kind not in _NOTED:
                raise UnusualError
            message = data
            if flags & 2:
                message = self.named(data, kind) if kind in KNOWN else b""
            if kind == ATTRIBUTE:
                found.attributes.append((0, message))
            elif kind == LINK:
                found.links.append(message)
            else:
                found.messages[kind] = message
        if self.space.checksum is not None:
            check_fill(found.messages)
        return found

    def named(self, data: bytes, kind: int = TYPE) -> bytes:
        """Return the type to which a message refers by address: a named one that refers to no other."""
        if kind != TYPE or data[0] not in (1, 2, 3) or (data[0] == 3 and data[1] != 2):
            self._shared()
        # The first version has an entry of a symbol table: the place of a name comes before the address.
        (at,) = struct.unpack_from("<Q", data, 16 if data[0] == 1 else 2)
        if at not in self._named:
            # Until it is read, in case it refers to itself.
            self._named[at] = None
            self._named[at] = self.read(at).messages.get(TYPE)
        found = self._named[at]
        if found is None:
            raise UnusualError
        return found

    def links(self, group: Object, *, hard: bool = False) -> list[tuple[bytes, int]]:
        """Return names and addresses of a group's objects, in order; soft links are unusual, or omitted if `hard`."""
        if SYMBOLS in group.messages:
            from cfagg.formats.hdf5.old import symbols

            tables = group.messages[SYMBOLS]
            # For groups other than the root, there is nothing to compare with.
            if self.space.checksum is not None and tables != self.expected[1]:
                raise UnusualError
            members = list(symbols(self.space, tables, hard=hard, most=self.expected[0]))
            self._count += len(members)
            if self._count > MOST:
                raise TooManyError
            return members
        found = []
        stored = [*group.links, *self._dense_links(group.messages.get(LINKS))]
        self._count += len(stored)
        if self._count > MOST:
            raise TooManyError
        for data in stored:
            # The address at the end of a hard link differs between files.
            kind, order, name, end = _link(data if data[1] & 8 else data[:-8])
            if kind == 1 and not hard:
                raise UnusualError  # soft links have to be followed by the library
            if kind == 0:
                (place,) = struct.unpack_from("<Q", data, end)
                found.append((order, name, place))
        found.sort()
        return [(name, place) for _, name, place in found]

    def _dense_links(self, info: bytes | None) -> list[bytes]:
        """Return the links of a group that has many."""
        if info is None:
            return []
        heap, names = struct.unpack_from("<QQ", info, 10 if info[1] & 1 else 2)
        if heap == UNDEFINED:
            return []
        found = Heap(self.space, heap)
        return found.messages([record[4:] for record in records(self.space, names, 5, 11)])

    def check_orders(self, found: Object) -> None:
        """Read the trees that list links and attributes by creation order, which must not be damaged."""
        links, attributes = found.messages.get(LINKS), found.messages.get(ATTRIBUTES)
        for info, order, kind, size in ((links, 8, 6, 15), (attributes, 2, 9, 13)):
            if info is not None and info[1] & 2:
                heap, _, tree = struct.unpack_from("<QQQ", info, 2 + (order if info[1] & 1 else 0))
                if heap != UNDEFINED and tree != UNDEFINED:
                    for _ in records(self.space, tree, kind, size):
                        pass

    def dense_attributes(self, info: bytes | None) -> list[tuple[int, bytes]]:
        """Return order and message of the attributes of an object that has many."""
        if info is None:
            return []
        if dense_at(info) == UNDEFINED:
            return []
        heap, names = struct.unpack_from("<QQ", info, 4 if info[1] & 1 else 2)
        found = list(records(self.space, names, 8, 17))
        if any(record[8] & 2 for record in found):
            self._shared()
        messages = Heap(self.space, heap).messages([record[:8] for record in found])
        return [(int.from_bytes(r[9:13], "little"), m) for r, m in zip(found, messages, strict=True)]


@lru_cache(1 << 12)
def _link(data: bytes) -> tuple[int, int, bytes, int]:
    """Return kind, order and name of a link, and the offset of its target."""
    if len(data) < 3:
        raise BrokenError
    flags = data[1]
    at = 3 if flags & 8 else 2
    kind = data[2] if flags & 8 else 0
    order = -1
    if flags & 4:
        order = int.from_bytes(data[at : at + 8], "little")
        at += 8
    at += 1 if flags & 16 else 0
    begin = at + (1 << (flags & 3))
    end = begin + int.from_bytes(data[at:begin], "little")
    if end > len(data):
        raise BrokenError
    if data[0] != 1:
        raise UnusualError
    return kind, order, data[begin:end], end


def dense_at(info: bytes) -> int:
    """Return the address of the heap with the attributes of an object, `UNDEFINED` if it has none."""
    at = 4 if info[1] & 1 else 2
    if at + 16 > len(info):
        raise BrokenError
    return int.from_bytes(info[at : at + 8], "little")
