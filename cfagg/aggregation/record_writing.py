"""Descriptions of scanned files as bytes: all values stand once, as nodes that refer to earlier ones."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from cfagg.aggregation.record_nodes import (
    LEAVES,
    MAGIC,
    MAX_DEPTH,
    MAX_WEIGHT,
    PLAIN,
    PYTHON,
    SUM,
    WITH_BYTES,
    Node,
    Tag,
    checksum,
)
from cfagg.aggregation.record_types import CLASSES, schema
from cfagg.aggregation.scanning import Scanned
from cfagg.errors import UnsupportedError

__all__ = ["encode"]

#: Types of objects that stay what they are while something is written.
_HELD = frozenset({dict, tuple, np.ndarray, *CLASSES})

#: Names of the fields of each class.
_FIELDS = {cls: [f.name for f in fields(cls)] for cls in CLASSES}

_SEQUENCES: dict[type, int] = {tuple: Tag.TUPLE, list: Tag.LIST}


def encode(scanned: Sequence[Scanned]) -> tuple[list[bytes], bytes]:
    """Return a record of each scanned file, and what several files share.

    The record of a file that holds what cannot be recorded is empty.  Equal files give equal bytes, whether or not
    their values are the same objects.
    """
    book = _Book()
    roots = [book.root(number, one) for number, one in enumerate(scanned)]
    return book.written(roots)


class _Book:
    """Nodes, each once, and which files use them."""

    def __init__(self) -> None:
        self._known: dict[Node, int] = {}
        self._nodes: list[Node] = []
        self._weights: list[int] = []
        #: The one file that uses a node, -1 where several do.
        self._users: list[int] = []
        #: Nodes that each file was the first to use.
        self._own: list[list[int]] = []
        #: Nodes of objects by their identity, so that what files share is looked at once; the caller holds them.
        self._seen: dict[int, int] = {}
        self._texts: dict[str, int] = {}

    def root(self, file: int, value: Scanned) -> int | None:
        """Return the number of the node of a file, `None` where it cannot be recorded."""
        self._file = file
        self._own.append([])
        try:
            found = self._add(value, 0)
        except UnsupportedError:
            return None
        return found if self._weights[found] <= MAX_WEIGHT else None

    def _add(self, value: Any, depth: int) -> int:
        """Return the number of the node of a value that the caller holds."""
        kind = type(value)
        is_text = kind is str
        found = self._texts.get(value) if is_text else self._seen.get(id(value))
        if found is not None:
            if self._users[found] != self._file:
                self._use(found)
            return found
        found = self._fresh(value, depth)
        if is_text:
            self._texts[value] = found
        elif kind in _HELD:
            self._seen[id(value)] = found
        return found

    def _fresh(self, value: Any, depth: int) -> int:
        """Return the number of the node of a value that is gone soon."""
        return self._node(self._parts(value, depth))

    def _node(self, node: Node) -> int:
        number = self._known.setdefault(node, len(self._nodes))
        if number < len(self._nodes):
            if self._users[number] != self._file:
                self._use(number)
            return number
        self._nodes.append(node)
        self._weights.append(1 + sum([self._weights[k] for k in node[1]]))
        self._users.append(self._file)
        self._own[-1].append(number)
        return number

    def _use(self, number: int) -> None:
        """Note that the file uses a node, and what that refers to."""
        waiting = [number]
        while waiting:
            one = waiting.pop()
            if self._users[one] not in (-1, self._file):
                self._users[one] = -1
                waiting += self._nodes[one][1]

    def _parts(self, value: Any, depth: int) -> Node:
        kind = type(value)
        if kind is str:
            return Tag.TEXT, (), value.encode("utf-8", "surrogatepass")
        if value is None or kind is bool:
            return Tag.NONE if value is None else Tag.TRUE if value else Tag.FALSE, (), b""
        if kind is int:
            return Tag.INT, (), value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
        if kind is float:
            return Tag.FLOAT, (), struct.pack("<d", value)
        if kind is bytes:
            return Tag.BYTES, (), value
        if depth >= MAX_DEPTH:
            raise UnsupportedError(f"values nested {MAX_DEPTH} deep are not recorded")
        if kind in CLASSES:
            got = [getattr(value, name) for name in _FIELDS[kind]]
            return Tag.RECORD, self._all(got, depth), bytes([CLASSES.index(kind)])
        if kind in _SEQUENCES:
            return _SEQUENCES[kind], self._all(value, depth), b""
        if isinstance(value, Mapping):
            return Tag.DICT, self._all((x for pair in value.items() for x in pair), depth), b""
        if kind is np.ndarray:
            return self._array(value, depth)
        if isinstance(value, np.dtype):
            return self._dtype(value, depth)
        if isinstance(value, np.generic) and value.dtype.kind not in "US":
            return Tag.SCALAR, (self._node(self._array(np.asarray(value), depth + 1)),), b""
        if isinstance(value, type) and value in PYTHON.values():
            return Tag.PYTHON, (), value.__name__.encode()
        raise UnsupportedError(f"a value of type {kind.__module__}.{kind.__qualname__} is not recorded")

    def _all(self, values: Iterable[Any], depth: int) -> tuple[int, ...]:
        return tuple([self._add(v, depth + 1) for v in values])

    def _array(self, value: npt.NDArray[Any], depth: int) -> Node:
        dtype = value.dtype
        head = (self._fresh(dtype, depth + 1), self._fresh(value.shape, depth + 1))
        if dtype.names is not None:
            value = _tidy(value)
        elif dtype.hasobject:
            return Tag.OBJECTS, (*head, *self._all(value.ravel().tolist(), depth)), b""
        return Tag.ARRAY, head, np.ascontiguousarray(value).tobytes()

    def _dtype(self, value: np.dtype[Any], depth: int, *, bare: bool = False) -> Node:
        if value.metadata is not None and not bare:
            return (
                Tag.METADATA,
                (self._node(self._dtype(value, depth, bare=True)), self._fresh(value.metadata, depth)),
                b"",
            )
        if value.subdtype is not None:
            return Tag.SUBARRAY, tuple([self._fresh(x, depth + 1) for x in value.subdtype]), b""
        if value.names is not None:
            fields_of = cast("Mapping[str, Any]", value.fields)
            own = [fields_of[name] for name in value.names]
            formats, offsets = tuple(f[0] for f in own), tuple(f[1] for f in own)
            titles = tuple(f[2] if len(f) > 2 else None for f in own)
            given = (value.names, formats, offsets, titles, value.itemsize, value.isalignedstruct)
            return Tag.STRUCTURE, tuple([self._fresh(x, depth + 1) for x in given]), b""
        if value == np.dtypes.StringDType():
            return Tag.STRINGS, (), b""
        if PLAIN.fullmatch(value.str) is None or np.dtype(value.str) != value:
            raise UnsupportedError(f"the type {value} is not recorded")
        return Tag.PLAIN, (), value.str.encode("ascii")

    def written(self, roots: Sequence[int | None]) -> tuple[list[bytes], bytes]:
        """Return a record for each file, and what they share."""
        common = [n for n, user in enumerate(self._users) if user == -1]
        places = dict(zip(common, range(len(common)), strict=True))
        body = b"".join([MAGIC, schema(), *self._listed(common, places)])
        shared = body + checksum(body)
        records = []
        for root, made_here in zip(roots, self._own, strict=True):
            if root is None:
                records.append(b"")
                continue
            own = [n for n in made_here if self._users[n] != -1]
            places.update(zip(own, range(len(common), len(common) + len(own)), strict=True))
            body = b"".join([*self._listed(own, places), _number(places[root])])
            # It belongs to these shared nodes and to no others.
            records.append(body + checksum(body, shared[-SUM:]))
        return records, shared

    def _listed(self, numbers: Sequence[int], places: Mapping[int, int]) -> Iterable[bytes]:
        """Give nodes as they are written."""
        yield _number(len(numbers))
        for number in numbers:
            tag, kids, data = self._nodes[number]
            yield bytes([tag])
            if tag not in LEAVES:
                yield _number(len(kids)) + b"".join([_number(places[k]) for k in kids])
            if tag in WITH_BYTES:
                yield _sized(data)


def _tidy(value: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return an array of structures in which nothing stands between fields, where anything may have stood."""
    if value.dtype.hasobject:
        raise UnsupportedError("structures with texts or arrays of their own lengths in them are not recorded")
    found = np.zeros(value.shape, value.dtype)
    for name in value.dtype.names or ():
        inner = value[name]
        found[name] = inner if inner.dtype.names is None else _tidy(inner)
    return found


def _number(value: int) -> bytes:
    """Return a count or a place: seven bits a byte, the lowest first."""
    if value < 128:
        return bytes([value])
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def _sized(data: bytes) -> bytes:
    return _number(len(data)) + data
