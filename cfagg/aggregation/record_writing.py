"""Encoding descriptions of scanned files as bytes: each value once, as nodes that refer to earlier ones."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from cfagg.aggregation.record_book import Book
from cfagg.aggregation.record_nodes import (
    MAX_DEPTH,
    MAX_WEIGHT,
    PLAIN,
    PYTHON,
    Node,
    Tag,
)
from cfagg.aggregation.record_types import CLASSES
from cfagg.aggregation.scanning import Scanned
from cfagg.errors import UnsupportedError

__all__ = ["encode", "encode_beside"]

#: Types whose objects do not change during encoding, and texts.
_HELD = frozenset({str, dict, tuple, np.ndarray, *CLASSES})

#: Names of the fields of each class.
_FIELDS = {cls: [f.name for f in fields(cls)] for cls in CLASSES}

_SEQUENCES: dict[type, int] = {tuple: Tag.TUPLE, list: Tag.LIST}


def encode(scanned: Iterable[Scanned]) -> tuple[list[bytes], bytes]:
    """Return a record of each scanned file, and the part shared by several files.

    The record of a file that cannot be recorded is empty. Equal files give equal bytes, whether or not their values are
    the same objects. All objects of a file must stay alive until the end.
    """
    writer = _Writer()
    for one in scanned:
        writer.add(one)
    return writer.book.written()


def encode_beside(shared: Iterable[Node], scanned: Iterable[Scanned]) -> tuple[list[bytes], bytes]:
    """Return a record of each scanned file beside the nodes that files before it share, and the part now shared."""
    writer = _Writer()
    writer.book.begin(shared)
    for one in scanned:
        writer.add(one)
    return writer.book.written()


class _Writer:
    """Creates nodes for values."""

    def __init__(self) -> None:
        self.book = Book()
        self._shared, self._own = self.book.shared, self.book.own

    def add(self, value: Scanned) -> None:
        """Add a file, without a record if it cannot be recorded."""
        try:
            root = self._fresh(value, 0)
        except UnsupportedError:
            self.book.end(None)
            return
        self.book.end(root if self.book.weight(root) <= MAX_WEIGHT else None)

    def _add(self, value: Any, depth: int) -> int:
        """Return the number of the node of a value that the caller keeps alive."""
        kind = type(value)
        key = value if kind is str else id(value)
        found = self._shared.get(key)
        if found is None:
            found = self._own.get(key)
        if found is None:
            found = self._fresh(value, depth)
            if kind in _HELD:
                self.book.note(key, found)
        return found

    def _fresh(self, value: Any, depth: int) -> int:
        """Return the number of the node of a short-lived value."""
        return self.book.node(self._parts(value, depth))

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
            return Tag.SCALAR, (self.book.node(self._array(np.asarray(value), depth + 1)),), b""
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
                (self.book.node(self._dtype(value, depth, bare=True)), self._fresh(value.metadata, depth)),
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


def _tidy(value: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return a structured array without padding between fields, which could contain anything."""
    if value.dtype.hasobject:
        raise UnsupportedError("structures with texts or arrays of their own lengths in them are not recorded")
    found = np.zeros(value.shape, value.dtype)
    for name in value.dtype.names or ():
        inner = value[name]
        found[name] = inner if inner.dtype.names is None else _tidy(inner)
    return found
