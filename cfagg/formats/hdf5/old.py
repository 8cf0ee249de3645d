"""HDF5's older structures: object headers of version 1, and groups with their members in a symbol table.

They have no checksums.  netCDF-4 files have newer ones; h5py writes these, and so do older files of other programs.

Whereas others must have a correct checksum (`Space.checksum`), these are verified field by field, so that the file
means the same to every reader of the format.  Structures are accepted only as written by the HDF5 library, and
everything else is unusual: it is left to the library, which accepts it or reports an error in its own words.

- Superblock: all versions, sizes of addresses, flags and reserved bytes; the length of the file; the tables of the root
  group, which must be the same there and in its header.
- Structures: signature, version, reserved bytes; they are within the file as far as the library would read them, and do
  not overlap.
- Object headers: the given number of messages, which fill every part to its end; known kinds and flags, with one of
  each kind except attributes; each message has the versions, lengths, padding and types that the library of that time
  wrote, including messages that are not needed, because the library decodes them, too.
- Groups: decreasing levels of the tree, nodes within the superblock's limits, names within the heap, distinct and in
  order between the keys of all parent nodes, so that a search by key finds everything that is listed; the heap's free
  list without cycles; valid cached kinds.

Errors that no reader can detect, such as a letter in a name, are read as by the library.

Source: HDF5 File Format Specification, version 3.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from functools import lru_cache
from math import prod

from cfagg.formats.hdf5.messages import attribute_of, type_of
from cfagg.formats.hdf5.space import UNDEFINED, BrokenError, Space, UnusualError

__all__ = ["check_fill", "check_top", "messages", "symbols"]

#: Numbers of header messages, as in `objects`, which imports this module.
_NIL, _SPACE, _TYPE, _OLD_FILL, _FILL, _LAYOUT, _FILTERS, _ATTRIBUTE, _CONTINUED, _SYMBOLS, _TIME = (
    *(0, 1, 3, 4, 5, 8, 11, 12, 16, 17, 18),
)

#: Beginning of the file.
_SIGNATURE = b"\x89HDF\r\n\x1a\n"

#: Flags of messages that may not change, and of those that may not be shared.
_CONSTANT, _OWN = 1, 4

#: Deflate, and the number of values of other filters: shuffle, Fletcher-32.
_DEFLATE, _VALUES = 1, {2: 1, 3: 0}

#: Most levels of a tree of names.
_DEEPEST = 8

#: Types: a one-byte integer and a character, the elements of texts; an object reference, the element of lists of
#: dimensions; and a user of a dimension, with its axis.
_LETTERS = (bytes.fromhex("100000000100000000000800"), bytes.fromhex("1300000001000000"))
_REFERENCE = bytes.fromhex("1700000008000000")
_USER = b"".join(
    (
        bytes.fromhex("1602000010000000"),
        *(b"dataset\0", bytes(32), _REFERENCE),
        *(b"dimension".ljust(16, b"\0"), b"\x08".ljust(32, b"\0"), bytes.fromhex("1000000004000000000020000000")[:12]),
    )
)


def _usual(*facts: object) -> None:
    """Raise an error unless everything is as usual."""
    if not all(facts):
        raise UnusualError


def check_top(head: bytes, size: int) -> tuple[tuple[int, int], bytes]:
    """Check a superblock of version 0; return the most entries of nodes and leaves, and the root group's tables."""
    # Version 1 is written only for trees of chunks with unusual nodes.
    leaf, node, flags = struct.unpack_from("<HHI", head, 16)
    base, free, end, driver, name, _, cached, reserved = struct.unpack_from("<6QII", head, 24)
    _usual(
        head[:8] == _SIGNATURE,
        len(head) == 96,
        head[8:16] == b"\0\0\0\0\0\x08\x08\0",
        0 < leaf < 1 << 15,
        0 < node < 1 << 15,
        not flags,
    )
    _usual(not base, free == driver == UNDEFINED, end == size, not name, cached < 2, not reserved)
    return (2 * node, 2 * leaf), head[80:96] if cached else b""


def messages(space: Space, at: int, read: list[tuple[bytes, int]] | None = None) -> Iterator[tuple[int, int, bytes]]:
    """Yield number, flags and bytes of the messages of an object header of version 1."""
    # Its parts are added to `read`, with where in each the messages begin.
    version, reserved, count, links, size, behind = struct.unpack("<BBHIII", space.take(at, 16))
    if version != 1:
        raise BrokenError
    strict = space.checksum is not None
    if strict:
        _usual(not reserved, not behind, links)
    single = set()
    parts = [(at, 16 + size)]
    for k, (place, length) in enumerate(parts):
        body, here = space.bare(place, length), 0 if k else 16
        if read is not None:
            read.append((body, here))
        while here + 8 <= length and (count or strict):
            kind, size, flags = struct.unpack_from("<HHB", body, here)
            here += 8
            if here + size > length:
                raise BrokenError
            data = body[here : here + size]
            if strict:
                _usual(not any(body[here - 3 : here]), not size % 8, flags in (0, _CONSTANT, _OWN), kind not in single)
                _check(kind, data)
                if kind not in (_NIL, _ATTRIBUTE, _CONTINUED):
                    single.add(kind)
            here += size
            count -= 1
            if kind == _CONTINUED:
                parts.append(struct.unpack_from("<QQ", data))
            else:
                yield kind, flags, data
        if strict:
            _usual(here == length)
    if strict:
        _usual(not count)


def check_fill(found: dict[int, bytes]) -> None:
    """Check that fill values have the length of the elements of a dataset."""
    if _TYPE not in found:
        return
    (size,) = struct.unpack_from("<I", found[_TYPE], 4)
    old, new = found.get(_OLD_FILL), found.get(_FILL)
    if old is not None:
        _usual(struct.unpack_from("<I", old)[0] in (0, size))
    if new is not None and new[3]:
        _usual(struct.unpack_from("<I", new, 4)[0] in (0, size))


@lru_cache(4096)
def _check(kind: int, data: bytes) -> None:
    """Check that a message is as written by the library into headers of version 1."""
    length = len(data)
    if kind == _ATTRIBUTE:
        _check_attribute(data)
    elif kind == _SPACE:
        _usual(_space(data)[0] == length)
    elif kind == _TYPE:
        _usual(_type(data) + 7 & ~7 == length)
    elif kind == _FILL:
        version, early, when, defined = data[:4]
        _usual(version == 2, 0 < early < 4, when < 3, defined < 2)
        (size,) = struct.unpack_from("<I", data, 4) if defined else (0,)
        _usual(size + 8 + 7 & ~7 == length)
    elif kind == _OLD_FILL:
        (size,) = struct.unpack_from("<I", data)
        _usual(size + 4 + 7 & ~7 == length)
    elif kind == _LAYOUT:
        _check_layout(data)
    elif kind == _FILTERS:
        _check_filters(data)
    elif kind in (_CONTINUED, _SYMBOLS):
        _usual(length == 16)
    elif kind == _TIME:
        _usual(length == 8, data[:4] == b"\1\0\0\0")
    else:
        _usual(kind == _NIL)


def _check_attribute(data: bytes) -> None:
    """Check an attribute."""
    name, flags, kind, space, end = attribute_of(data)
    version, _, length = struct.unpack_from("<BBH", data)
    _usual(version in (1, 3), not flags, not data[1], len(name) == length - 1, version == 1 or data[8] < 2)
    used, count = _space(space)
    _usual(_type(kind) == len(kind), used == len(space))
    (size,) = struct.unpack_from("<I", kind, 4)
    _usual(0 <= len(data) - end - size * count < 8)


def _space(data: bytes) -> tuple[int, int]:
    """Return the bytes of a shape, and its number of elements."""
    version, rank, flags = data[:3]
    _usual(version == 1, rank <= 32, flags < 2, not any(data[3:8]))
    return 8 + 8 * rank * (1 + flags), prod(struct.unpack_from(f"<{rank}Q", data, 8))


def _type(data: bytes) -> int:
    """Return the bytes of an encoded type."""
    version, class_ = divmod(data[0], 16)
    _usual(0 < version < 4, not data[3])
    if class_ == 9:
        size, base = data[4:8], data[8:20]
        _usual(size == b"\x10\0\0\0")
        if data[1:4] == b"\0\0\0":
            _usual(version == 1, base[:8] == _REFERENCE)
            return 16
        _usual(data[1] & 15 == 1, data[1] >> 4 < 3, data[2] < 2)
        letter = next((each for each in _LETTERS if base.startswith(each)), None)
        _usual(letter)
        return 8 + len(letter or b"")
    if class_ == 6:
        _usual(data[: len(_USER)] == _USER)
        return len(_USER)
    what, _ = type_of(data)
    if what == "number":
        _usual(class_ or (data[1] < 16 and not data[2]))
        return 20 if class_ else 12
    _usual(what in ("fixed", "terminated"), data[1] & 15 < 3, data[1] >> 4 < 2, not data[2])
    return 8


def _check_layout(data: bytes) -> None:
    """Check the location of values."""
    version, class_, rank = data[:3]
    _usual(version == 3, class_ < 3)
    size = (4 + int.from_bytes(data[2:4], "little"), 18, 11 + 4 * rank)[class_]
    _usual(size + 7 & ~7 == len(data))


def _check_filters(data: bytes) -> None:
    """Check a list of filters."""
    version, count = data[:2]
    _usual(version == 1, 0 < count <= 32, not any(data[2:8]))
    at = 8
    for _ in range(count):
        number, length, flags, values = struct.unpack_from("<HHHH", data, at)
        at += 8
        name = data[at : at + length]
        _usual(number, not length % 8, flags < 2, not length or b"\0" in name)
        at += length
        # The library does not accept unknown levels, or counts of values that these filters do not have.
        if number == _DEFLATE:
            _usual(values == 1, data[at] < 10, not any(data[at + 1 : at + 4]))
        elif number in _VALUES:
            _usual(values == _VALUES[number], not values or any(data[at : at + 4]))
        at += 4 * (values + (values & 1))
    _usual(at + 7 & ~7 == len(data))


def symbols(
    space: Space, message: bytes, *, hard: bool = False, most: tuple[int, int] | None = None
) -> Iterator[tuple[bytes, int]]:
    """Yield names and addresses of a group's members by name; soft links are unusual, or skipped if `hard`."""
    # `most`: the most entries of nodes and leaves; checked only if given.
    tree, heap = struct.unpack_from("<QQ", message)
    mark, size, free, place = struct.unpack_from("<4s4xQQQ", head := space.take(heap, 32))
    if mark != b"HEAP":
        raise BrokenError
    space.spend(size)
    names = space.take(place, size)
    if space.unsealed(heap, 32):
        _usual(most, not any(head[4:8]))
        space.unsealed(place, size)
        _check_free(names, free)
    waiting = [(tree, -1)]
    # Lower (exclusive) and upper (inclusive) bound of the names in each leaf.
    between: dict[int, tuple[bytes, bytes]] = {}
    while waiting:
        at, expected = waiting.pop()
        mark = space.take(at, 4)
        if mark == b"TREE":
            kind, level, count = struct.unpack("<BBH", space.take(at + 4, 4))
            if kind:
                raise BrokenError
            space.spend(24 + 16 * count)
            keys = space.take(at + 24, 16 * count)
            # A key precedes each child.
            children = [child for _, child in struct.iter_unpack("<QQ", keys)]
            if most is not None and space.unsealed(at, 32 + 16 * most[0]):
                _usual(count <= most[0], level <= _DEEPEST, expected in (-1, level + 1), expected == -1 or count)
                _between(between, at, children, [_name(names, k) for k in _keys(space, at, count)])
            waiting.extend((child, level) for child in reversed(children))
        elif mark == b"SNOD":
            version, reserved, count = struct.unpack("<BBH", space.take(at + 4, 4))
            space.spend(8 + 40 * count)
            entries = list(struct.iter_unpack("<QQIIQQ", space.take(at + 8, 40 * count)))
            if most is not None and space.unsealed(at, 8 + 40 * most[1]):
                _usual(version == 1, not reserved, 0 < count <= most[1], expected == 0)
                _check_entries(names, entries, between[at], space.size)
            for name, header, cached, *_ in entries:
                end = names.find(b"\0", name)
                if end < 0 or name >= size:
                    raise BrokenError
                if cached != 2:
                    yield names[name:end], header
                elif not hard:
                    raise UnusualError
        else:
            raise BrokenError


def _keys(space: Space, at: int, count: int) -> list[int]:
    """Return the keys of a node, one more than it has children."""
    whole = space.take(at + 24, 16 * count + 8)
    return [int.from_bytes(whole[k : k + 8], "little") for k in range(0, 16 * count + 8, 16)] if count else []


def _between(between: dict[int, tuple[bytes, bytes]], at: int, children: list[int], keys: list[bytes]) -> None:
    """Record the bounds of the names in children; the keys are in order, and between those of the parent node."""
    for child, low, high in zip(children, keys, keys[1:], strict=False):
        _usual(low < high, child not in between)
        between[child] = low, high
    if at in between and keys:
        _usual(between[at][0] <= keys[0], keys[-1] <= between[at][1])


def _check_entries(names: bytes, entries: list[tuple[int, ...]], between: tuple[bytes, bytes], size: int) -> None:
    """Check the members in a leaf: their names are in order, and their addresses are possible."""
    before, last = between
    for offset, header, cached, reserved, first, _ in entries:
        name = _name(names, offset)
        _usual(before < name, not reserved, cached < 3)
        before = name
        if cached == 2:
            _usual(header == UNDEFINED, _name(names, first & 0xFFFFFFFF))
        else:
            _usual(96 <= header < size)
    _usual(before <= last)


def _name(names: bytes, at: int) -> bytes:
    """Return a name in a heap."""
    end = names.find(b"\0", at) if at < len(names) else -1
    _usual(end >= 0)
    return names[at:end]


def _check_free(heap: bytes, at: int) -> None:
    """Check the free list of a heap, in which each part has the position of the next."""
    seen = 0
    while at != 1:
        _usual(at + 16 <= len(heap), at)
        following, length = struct.unpack_from("<QQ", heap, at)
        _usual(following, at + length <= len(heap), length >= 16)
        seen += length
        _usual(seen <= len(heap))
        at = following
