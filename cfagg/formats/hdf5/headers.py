"""Object headers similar to ones parsed before: only the parts that differ are read from their bytes.

The files of one program have headers with the same messages and lengths, which differ in addresses and attribute
values. All other bytes of a header are compared with those of the earlier one; if equal, their meaning is the same.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from operator import itemgetter
from typing import Any

from cfagg.formats.hdf5.messages import CHUNKED, CONTIGUOUS, SETTINGS, attribute_of, shape_of, type_of
from cfagg.formats.hdf5.objects import (
    ATTRIBUTE,
    ATTRIBUTES,
    CONTINUED,
    IGNORED,
    KNOWN,
    LAYOUT,
    LINK,
    LINKS,
    SPACE,
    TIME,
    Object,
    Objects,
)
from cfagg.formats.hdf5.space import ERRORS, BrokenError
from cfagg.storage.locks import forkable

__all__ = ["Alike", "Header", "Headers", "fixed_messages", "forget"]

#: Limits of the cache: headers, headers of one file, bytes of all and of each, and structures of one length.
_MOST, _OF_FILE, _BYTES, _LONGEST, _STRUCTURES = 1 << 13, 1 << 10, 1 << 24, 1 << 16, 8

#: How a header of version 1 begins.
_OLD = b"\1"

#: Attributes that refer to other objects, of which only the values differ between files.
_REFERRING = (b"DIMENSION_LIST", b"REFERENCE_LIST")

_Picker = Callable[[Any], tuple[Any, ...]]


def _picker(keys: Sequence[int] | Sequence[slice]) -> _Picker:
    """Return a function that picks several items from bytes or a tuple at once."""
    if len(keys) == 1:
        (only,) = keys
        return lambda whole: (whole[only],)
    return itemgetter(*keys) if keys else lambda _: ()


class Header:
    """The part of a header in its fixed bytes: its messages, and which of its other values are attributes."""

    def __init__(
        self, messages: Mapping[int, bytes], kinds: Sequence[int], orders: Sequence[int], found: Object
    ) -> None:
        self.messages, self._kinds, self._orders, self.ordered = messages, kinds, orders, found.ordered
        self._attributes = [i for i, kind in enumerate(kinds) if kind == ATTRIBUTE]
        if self.ordered:
            self._attributes.sort(key=orders.__getitem__)
        #: Indices of the values of other messages, by kind; the last of several counts.
        self.last = {kind: i for i, kind in enumerate(kinds) if kind not in (ATTRIBUTE, LINK)}
        self.dense = self.last.get(ATTRIBUTES)
        #: The numbers of all messages.
        self.numbers = messages.keys() | self.last.keys()
        #: Location of the references to dimensions: the index of the value, and the byte in it.
        self.scales: tuple[int, int] | None = None
        #: Indices of the lists of users of a dimension.
        self.users: list[int] = []
        #: Whether the list of dimensions does not consist of one reference for each.
        self.odd = False
        self.plain: _Picker = _picker(())
        #: Cached by `cfagg.formats.hdf5.small`: how the values are stored.
        self.plan: Any = None
        #: Shape, which dimensions are unlimited, type and kind of a dataset, if they have been requested.
        self.described: Any = None
        #: Cached by `cfagg.formats.hdf5.variables`: the last variable.
        self.variable: Any = None

    def settle(self, values: Sequence[bytes]) -> bool:
        """Find the attributes that refer to others; return whether the result applies to all similar headers."""
        plain, listed = [], 0
        for i in self._attributes:
            name, flags, kind, space, end = attribute_of(values[i])
            if name not in _REFERRING:
                plain.append(i)
                continue
            if flags:
                return False
            if name == _REFERRING[1]:
                self.users.append(i)
            else:
                listed += 1
                if type_of(kind)[0] == "references" and shape_of(space)[0] == (len(self.shape),):
                    self.scales = i, end
                else:
                    self.odd = True
        self.plain = _picker(plain)
        orders = [self._orders[i] for i in self._attributes]
        return listed < 2 and (not self.ordered or len(set(orders)) == len(orders))

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the dimensions; empty for a group."""
        return shape_of(self.messages[SPACE])[0] if SPACE in self.messages else ()

    def object(self, values: Sequence[bytes]) -> Object:
        """Return the result of `Objects.read` for a header with these values."""
        found = Object()
        found.ordered = self.ordered
        found.messages = {**self.messages, **{kind: values[i] for kind, i in self.last.items()}}
        for i, kind in enumerate(self._kinds):
            if kind == ATTRIBUTE:
                found.attributes.append((self._orders[i], values[i]))
            elif kind == LINK:
                found.links.append(values[i])
        return found


class Alike:
    """An object header similar to an earlier one."""

    __slots__ = ("header", "values")

    def __init__(self, header: Header, values: tuple[bytes, ...]) -> None:
        self.header, self.values = header, values

    def object(self) -> Object:
        """Return the result of `Objects.read`."""
        return self.header.object(self.values)


def fixed_messages(found: Object | Alike) -> Mapping[int, bytes]:
    """Return the messages of an object, by number, that are the same in all similar headers."""
    return found.header.messages if isinstance(found, Alike) else found.messages


class _Node:
    """The information in the fixed bytes of a part of a header, and of the parts before it."""

    __slots__ = ("continued", "header", "patterns", "taken")

    def __init__(self, continued: Sequence[tuple[slice, int]], taken: Sequence[slice]) -> None:
        #: Positions of the addresses of further parts, with their lengths.
        self.continued, self.taken = tuple(continued), _picker(taken) if taken else None
        self.patterns: list[_Pattern] = []
        self.header: Header | None = None


class _Pattern:
    """Parts of one structure: which bytes are fixed, and the information in them."""

    __slots__ = ("fixed", "holes", "known")

    def __init__(self, holes: Sequence[tuple[int, int]]) -> None:
        self.holes = holes
        places, at = [], 0
        for start, stop in holes:
            places.append(slice(at, start))
            at = stop
        self.fixed = _picker(places)
        self.known: dict[tuple[bytes, ...], _Node] = {}


class _Memory:
    """The cache, by the length of the first part and the name of the object."""

    def __init__(self) -> None:
        self.lock = forkable()
        self.first: dict[tuple[int, bytes], list[_Pattern]] = {}
        self.headers = self.bytes = 0

    def forget(self) -> None:
        """Clear the cache."""
        self.first, self.headers, self.bytes = {}, 0, 0


_memory = _Memory()


def forget() -> None:
    """Forget all headers, as in a new process."""
    with _memory.lock:
        _memory.forget()


class Headers:
    """Reads the object headers of a file."""

    def __init__(self, objects: Objects) -> None:
        self.objects, self.space = objects, objects.space
        self._new = 0

    def read(self, at: int, name: bytes = b"") -> Object | Alike:
        """Read an object header; those of the same name are likely to be similar."""
        space = self.space
        before = space.state()
        prefix = space.begin(at, 32)
        # Old ones are cached if they are proven, which follows from the bytes that similar headers share.
        is_kept = prefix[:5] == b"OHDR\2" or (prefix[:1] == _OLD and space.checksum is not None)
        if is_kept:
            found = self._alike(at, prefix, name)
            if found is not None:
                return found
            space.restore(before)
        new = self.objects.read(at)
        if is_kept and self._new < _OF_FILE:
            self._new += 1
            with suppress(*ERRORS):  # which are raised when the attributes are decoded
                _remember(new, name)
            new.parts = []
        return new

    def _alike(self, at: int, prefix: bytes, name: bytes) -> Alike | None:
        """Return a header similar to an earlier one."""
        space = self.space
        if prefix[:1] == _OLD:
            take, size = space.bare, 16 + int.from_bytes(prefix[8:12], "little")
        else:
            flags = prefix[5]
            skip = 6 + (16 if flags & 32 else 0) + (4 if flags & 16 else 0)
            begin = skip + (1 << (flags & 3))
            take, size = space.structure, begin + int.from_bytes(prefix[skip:begin], "little") + 4
        patterns = _memory.first.get((size, name))
        if patterns is None:
            return None
        left, place = space.size, at
        values: tuple[bytes, ...] = ()
        waiting: list[tuple[int, int]] = []
        while True:
            part = take(place, size)
            for pattern in patterns:
                node = pattern.known.get(pattern.fixed(part))
                if node is not None:
                    break
            else:
                return None
            if node.taken is not None:
                values += node.taken(part)
            for where, length in node.continued:
                waiting.append((int.from_bytes(part[where], "little"), length))
            if not waiting:
                return None if node.header is None else Alike(node.header, values)
            place, size = waiting.pop(0)
            left -= size
            if left < 0:
                raise BrokenError
            patterns = node.patterns


def _remember(found: Object, name: bytes) -> None:
    """Cache a header that was just read, if its information applies to all similar ones."""
    size = len(name) + sum(len(body) for body, _ in found.parts)
    looked = _looked_through(found) if size <= _LONGEST else None
    if looked is None:
        return
    header, parts = looked
    with _memory.lock:
        _memory.headers += 1
        _memory.bytes += size
        if _memory.headers > _MOST or _memory.bytes > _BYTES:
            _memory.forget()
        patterns = _memory.first.setdefault((len(found.parts[0][0]), name), [])
        node = None
        for (body, _), (holes, continued, taken) in zip(found.parts, parts, strict=True):
            pattern = next((p for p in patterns if p.holes == holes), None)
            if pattern is None:
                pattern = _Pattern(holes)
                patterns.append(pattern)
                if len(patterns) > _STRUCTURES:
                    patterns.pop(0)
            node = pattern.known.setdefault(pattern.fixed(body), _Node(continued, taken))
            patterns = node.patterns
        if node is not None:
            node.header = header


#: Of a part: ranges that are not fixed, positions and lengths of further parts, and the messages that are read.
_Looked = tuple[list[tuple[int, int]], list[tuple[slice, int]], list[slice]]


def _looked_through(found: Object) -> tuple[Header, list[_Looked]] | None:
    """Return the fixed and other parts of a header, or `None` if it depends on more than its bytes."""
    messages: dict[int, bytes] = {}
    kinds: list[int] = []
    orders: list[int] = []
    values: list[bytes] = []
    parts: list[_Looked] = []
    old = found.parts[0][0][:1] == _OLD
    # The fields before a message, their bytes, and the bytes of the checksum at the end.
    form, step, behind = ("<HHB", 8, 0) if old else ("<BHB", 6 if found.ordered else 4, 4)
    for body, first in found.parts:
        # Times, before the first message, are irrelevant.
        holes = [(6, 22)] if not parts and not old and body[5] & 32 else []
        continued, taken = [], []
        here, end = first, len(body) - behind
        while here + step <= end:
            kind, size, flags = struct.unpack_from(form, body, here)
            start, stop = here + step, here + step + size
            data = body[start:stop]
            if kind in IGNORED:
                holes.append((start + 4 if kind == TIME else start, stop))
            elif flags & 2:
                if kind in KNOWN:  # it is stored elsewhere
                    return None
                messages[kind] = b""
            elif kind == CONTINUED:
                holes.append((start, start + 8))
                continued.append((slice(start, start + 8), int.from_bytes(data[8:16], "little")))
            elif kind in (ATTRIBUTE, LAYOUT, ATTRIBUTES, LINKS, LINK):
                a, b = _differing(kind, data, whole=not old)
                holes.append((min(start + a, stop), min(start + b, stop)))
                taken.append(slice(start, stop))
                kinds.append(kind)
                orders.append(body[start - 2] | body[start - 1] << 8 if step == 6 else 0)
                values.append(data)
            else:
                messages[kind] = data
            here = stop
        holes.append((end, len(body)))
        parts.append((holes, continued, taken))
    header = Header(messages, kinds, orders, found)
    return (header, parts) if header.settle(values) else None


def _differing(kind: int, data: bytes, *, whole: bool) -> tuple[int, int]:
    """Return the range in which a message differs between similar headers, `whole` attributes or only their values."""
    if kind == ATTRIBUTE:
        name, *_, end = attribute_of(data)
        return (0 if whole and name not in _REFERRING else end), len(data)
    if kind != LAYOUT:
        return (0 if kind == LINK else 2), len(data)
    version, class_ = data[:2]
    if class_ == CONTIGUOUS and version in (3, 4, 5):
        return 2, 10
    if class_ != CHUNKED or version not in (3, 4, 5):
        return len(data), len(data)
    if version == 3:
        return 3, 11
    end = 5 + data[4] * data[3]
    return end + 1 + SETTINGS.get(data[end], 0), len(data)
