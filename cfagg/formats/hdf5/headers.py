"""Object headers like others that were parsed before: only what differs is taken from their bytes.

The files of one program have headers of the same messages and lengths, which differ in places and in values of
attributes.  All other bytes of a header are compared with those of the earlier one, from which the same follows.
"""

from __future__ import annotations

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
    Object,
    Objects,
)
from cfagg.formats.hdf5.space import ERRORS, BrokenError
from cfagg.storage.locks import forkable

__all__ = ["Alike", "Header", "Headers", "fixed_messages", "forget"]

#: Headers that are remembered, and of one file, their bytes together and each, and their structures of one length.
_MOST, _OF_FILE, _BYTES, _LONGEST, _STRUCTURES = 1 << 13, 1 << 10, 1 << 24, 1 << 16, 8

#: Attributes that refer to other objects, of which only the values differ from file to file.
_REFERRING = (b"DIMENSION_LIST", b"REFERENCE_LIST")

_Picker = Callable[[Any], tuple[Any, ...]]


def _picker(keys: Sequence[int] | Sequence[slice]) -> _Picker:
    """Return what takes several items out of bytes or out of a tuple, at once."""
    if len(keys) == 1:
        (only,) = keys
        return lambda whole: (whole[only],)
    return itemgetter(*keys) if keys else lambda _: ()


class Header:
    """What follows from the fixed bytes of a header: its messages, and where among its other values attributes are."""

    def __init__(
        self, messages: Mapping[int, bytes], kinds: Sequence[int], orders: Sequence[int], found: Object
    ) -> None:
        self.messages, self._kinds, self._orders, self.ordered = messages, kinds, orders, found.ordered
        self._attributes = [i for i, kind in enumerate(kinds) if kind == ATTRIBUTE]
        if self.ordered:
            self._attributes.sort(key=orders.__getitem__)
        #: Where the values of other messages stand: the last of several of a kind counts.
        self.last = {kind: i for i, kind in enumerate(kinds) if kind not in (ATTRIBUTE, LINK)}
        self.dense = self.last.get(ATTRIBUTES)
        #: The numbers of all messages.
        self.numbers = messages.keys() | self.last.keys()
        #: Where the references to dimensions stand: the number of the value, and the byte in it.
        self.scales: tuple[int, int] | None = None
        #: Where what uses a dimension is listed.
        self.users: list[int] = []
        #: Whether the list of dimensions is none of references, one for each.
        self.odd = False
        self.plain: _Picker = _picker(())
        #: What `cfagg.formats.hdf5.small` knows of how the values are stored.
        self.plan: Any = None
        #: Shape, which dimensions grow, type and kind of a dataset, where they were asked for.
        self.described: Any = None
        #: What `cfagg.formats.hdf5.variables` knows of the last variable.
        self.variable: Any = None

    def settle(self, values: Sequence[bytes]) -> bool:
        """Find out which attributes refer to others; return whether what is known of these holds for all like it."""
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
        """Sizes of the dimensions; none of a group."""
        return shape_of(self.messages[SPACE])[0] if SPACE in self.messages else ()

    def object(self, values: Sequence[bytes]) -> Object:
        """Return what `Objects.read` does of a header with these values."""
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
    """An object header like an earlier one."""

    __slots__ = ("header", "values")

    def __init__(self, header: Header, values: tuple[bytes, ...]) -> None:
        self.header, self.values = header, values

    def object(self) -> Object:
        """Return what `Objects.read` does."""
        return self.header.object(self.values)


def fixed_messages(found: Object | Alike) -> Mapping[int, bytes]:
    """Return those messages of an object by their numbers that are the same in all headers like it."""
    return found.header.messages if isinstance(found, Alike) else found.messages


class _Node:
    """What follows from the fixed bytes of a part of a header, and of the parts before it."""

    __slots__ = ("continued", "header", "patterns", "taken")

    def __init__(self, continued: Sequence[tuple[slice, int]], taken: Sequence[slice]) -> None:
        #: Where the places of further parts stand, with their lengths.
        self.continued, self.taken = tuple(continued), _picker(taken) if taken else None
        self.patterns: list[_Pattern] = []
        self.header: Header | None = None


class _Pattern:
    """Parts of one structure: what of them is fixed, and what follows from it."""

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
    """All that is remembered, by the length of the first part and the name of the object."""

    def __init__(self) -> None:
        self.lock = forkable()
        self.first: dict[tuple[int, bytes], list[_Pattern]] = {}
        self.headers = self.bytes = 0

    def forget(self) -> None:
        """Begin anew."""
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
        """Read an object header; those of one name are likely to be alike."""
        space = self.space
        before = space.state()
        prefix = space.begin(at, 32)
        if prefix[:5] == b"OHDR\2":
            found = self._alike(at, prefix, name)
            if found is not None:
                return found
            space.restore(before)
        new = self.objects.read(at)
        if new.parts and self._new < _OF_FILE:
            self._new += 1
            with suppress(*ERRORS):  # which are raised where the attributes are decoded
                _remember(new, name)
            new.parts = []
        return new

    def _alike(self, at: int, prefix: bytes, name: bytes) -> Alike | None:
        """Return a header like an earlier one."""
        flags = prefix[5]
        skip = 6 + (16 if flags & 32 else 0) + (4 if flags & 16 else 0)
        begin = skip + (1 << (flags & 3))
        size = begin + int.from_bytes(prefix[skip:begin], "little") + 4
        patterns = _memory.first.get((size, name))
        if patterns is None:
            return None
        space = self.space
        left, place = space.size, at
        values: tuple[bytes, ...] = ()
        waiting: list[tuple[int, int]] = []
        while True:
            part = space.structure(place, size)
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
    """Remember a header that was just read, if what follows from it holds for all like it."""
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


#: Of a part: what is not fixed, where the places and lengths of further parts stand, and the messages that are taken.
_Looked = tuple[list[tuple[int, int]], list[tuple[slice, int]], list[slice]]


def _looked_through(found: Object) -> tuple[Header, list[_Looked]] | None:
    """Return what is fixed in a header and what is not, `None` where more than its bytes decides."""
    messages: dict[int, bytes] = {}
    kinds: list[int] = []
    orders: list[int] = []
    values: list[bytes] = []
    parts: list[_Looked] = []
    step = 6 if found.ordered else 4
    for body, first in found.parts:
        # Times, in front of the first message, say nothing.
        holes = [(6, 22)] if not parts and body[5] & 32 else []
        continued, taken = [], []
        here, end = first, len(body) - 4
        while here + step <= end:
            kind, start = body[here], here + step
            stop = start + int.from_bytes(body[here + 1 : here + 3], "little")
            data = body[start:stop]
            if kind in IGNORED:
                holes.append((start, stop))
            elif body[here + 3] & 2:
                if kind in KNOWN:  # it stands elsewhere
                    return None
                messages[kind] = b""
            elif kind == CONTINUED:
                holes.append((start, start + 8))
                continued.append((slice(start, start + 8), int.from_bytes(data[8:16], "little")))
            elif kind in (ATTRIBUTE, LAYOUT, ATTRIBUTES, LINKS, LINK):
                begin, behind = _differing(kind, data)
                holes.append((min(start + begin, stop), min(start + behind, stop)))
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


def _differing(kind: int, data: bytes) -> tuple[int, int]:
    """Return from where to where a message differs between headers that are alike."""
    if kind == ATTRIBUTE:
        name, *_, end = attribute_of(data)
        return (end if name in _REFERRING else 0), len(data)
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
