"""Values of records as nodes, each with a tag, the nodes that it refers to, and bytes."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable
from enum import IntEnum
from hashlib import blake2b
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.aggregation.record_types import Instances

__all__ = [
    "LEAVES",
    "MAGIC",
    "MAX_DEPTH",
    "MAX_WEIGHT",
    "PLAIN",
    "PYTHON",
    "SUM",
    "WITH_BYTES",
    "Makers",
    "Node",
    "Tag",
    "checksum",
]  # fmt: skip

#: The beginning of the shared part: the kind of data, and its version.
MAGIC = b"cfaggRC8"

#: Size in bytes of a checksum.
SUM = 8

#: Maximum nesting depth of values, and maximum number of values in one file, counted as often as they are used.
MAX_DEPTH, MAX_WEIGHT = 64, 1 << 22

#: NumPy data types in the notation of NumPy.
PLAIN = re.compile(r"\|O|[<>|=][biufcmMSUV]\d{1,10}(\[\d{0,9}[a-zA-Z]{1,7}\])?", re.ASCII)

#: Python types to which NumPy data types refer.
PYTHON: dict[bytes, type] = {b"str": str, b"bytes": bytes, b"int": int, b"float": float, b"bool": bool}

#: A node: its tag, the numbers of the nodes that it refers to, and bytes.
Node = tuple[int, tuple[int, ...], bytes]

Array = npt.NDArray[Any]


class Tag(IntEnum):
    """The kind of a node; those before `TUPLE` do not refer to other nodes."""

    NONE, TRUE, FALSE, INT, FLOAT, TEXT, BYTES, PYTHON, PLAIN, STRINGS = range(10)
    TUPLE, LIST, DICT, SCALAR, ARRAY, OBJECTS, STRUCTURE, SUBARRAY, METADATA, RECORD = range(10, 20)


LEAVES = frozenset(range(Tag.TUPLE))
WITH_BYTES = frozenset((Tag.INT, Tag.FLOAT, Tag.TEXT, Tag.BYTES, Tag.PYTHON, Tag.PLAIN, Tag.ARRAY, Tag.RECORD))


def checksum(data: bytes, key: bytes = b"") -> bytes:
    """Return the checksum of bytes that belong to data with another checksum, `key`."""
    return blake2b(data, digest_size=SUM, key=key).digest()


class Makers:
    """Builds the values of nodes; for invalid nodes, some Python or NumPy error is raised."""

    def __init__(self) -> None:
        records = Instances()
        self._of: list[Callable[[list[Any], bytes], Any]] = [_VALUES[tag] for tag in range(Tag.RECORD)]
        self._of.append(lambda kids, data: records.make(data[0] if len(data) == 1 else 255, kids))

    def make(self, tag: int, kids: list[Any], data: bytes) -> Any:
        """Return the value of a node."""
        return self._of[tag](kids, data)


def _dict(kids: list[Any], _: bytes) -> dict[str, Any]:
    keys = kids[::2]
    if len(kids) % 2 or len(set(map(_text, keys))) != len(keys):
        raise ValueError("a mapping with keys that are not texts, or with one key twice")
    return dict(zip(keys, kids[1::2], strict=True))


def _text(value: Any) -> str:
    if type(value) is not str:
        raise TypeError("something other than text")
    return value


def _dtype(value: Any) -> np.dtype[Any]:
    if not isinstance(value, np.dtype):
        raise TypeError("something other than a type of NumPy")
    return value


def _plain(_: list[Any], data: bytes) -> np.dtype[Any]:
    text = str(data[:64], "ascii")
    if len(data) > 64 or PLAIN.fullmatch(text) is None:
        raise ValueError("a type that NumPy lacks")
    return np.dtype(text)


def _shape(value: Any) -> tuple[int, ...]:
    if type(value) is not tuple or not all(type(n) is int and 0 <= n < 2**62 for n in value):
        raise ValueError("an impossible shape")
    return value


def _scalar(kids: list[Any], _: bytes) -> Any:
    (array,) = kids
    if type(array) is not np.ndarray or array.ndim or array.dtype.hasobject:
        raise TypeError("a scalar that is not a scalar")
    return array[()]


def _array(kids: list[Any], data: bytes) -> Array:
    dtype, shape = _dtype(kids[0]), _shape(kids[1])
    # Limit arrays of zero-size elements, since something may iterate over them.
    if len(kids) > 2 or dtype.hasobject or math.prod(shape) * dtype.itemsize != len(data):
        raise ValueError("an array of another length")
    if not dtype.itemsize and math.prod(shape) > 1 << 16:
        raise ValueError("too many values without bytes")
    raw = np.frombuffer(bytearray(data), np.uint8)
    if (dtype.kind == "b" and raw.max(initial=0) > 1) or (dtype.kind == "U" and _is_no_text(raw, dtype)):
        raise ValueError("values that their type does not have")
    found = np.ndarray(shape, dtype, raw if raw.size else None)
    found.flags.writeable = False
    return found


def _is_no_text(raw: npt.NDArray[np.uint8], dtype: np.dtype[Any]) -> bool:
    return bool(raw.view(np.dtype("u4").newbyteorder(dtype.byteorder)).max(initial=0) > 0x10FFFF)


def _objects(kids: list[Any], _: bytes) -> Array:
    dtype, shape, *values = kids
    if not _dtype(dtype).hasobject or dtype.names is not None or math.prod(_shape(shape)) != len(values):
        raise ValueError("an array of another length")
    found = np.empty(len(values), dtype)
    for place, value in enumerate(values):
        found[place] = value
    found = found.reshape(shape)
    found.flags.writeable = False
    return found


def _structure(kids: list[Any], _: bytes) -> np.dtype[Any]:
    names, formats, offsets, titles, size, aligned = kids
    spec: dict[str, Any] = {"names": list(map(_text, names)), "formats": list(map(_dtype, formats))}
    spec |= {"offsets": list(_shape(offsets)), "itemsize": _shape((size,))[0]}
    if any(title is not None for title in titles):
        spec["titles"] = [None if title is None else _text(title) for title in titles]
    return np.dtype(spec, align=bool(aligned))  # type: ignore[call-overload,no-any-return]


def _subarray(kids: list[Any], _: bytes) -> np.dtype[Any]:
    base, shape = kids
    return np.dtype((_dtype(base), _shape(shape)))


def _metadata(kids: list[Any], _: bytes) -> np.dtype[Any]:
    base, metadata = kids
    return np.dtype(_dtype(base), metadata=metadata)


_VALUES: dict[int, Callable[[list[Any], bytes], Any]] = {
    Tag.NONE: lambda *_: None,
    Tag.TRUE: lambda *_: True,
    Tag.FALSE: lambda *_: False,
    Tag.INT: lambda _, data: int.from_bytes(data, "little", signed=True),
    Tag.FLOAT: lambda _, data: struct.unpack("<d", data)[0],
    Tag.TEXT: lambda _, data: str(data, "utf-8", "surrogatepass"),
    Tag.BYTES: lambda _, data: data,
    Tag.PYTHON: lambda _, data: PYTHON[data],
    Tag.PLAIN: _plain,
    Tag.STRINGS: lambda *_: np.dtypes.StringDType(),
    Tag.TUPLE: lambda kids, _: tuple(kids),
    Tag.LIST: lambda kids, _: kids,
    Tag.DICT: _dict,
    Tag.SCALAR: _scalar,
    Tag.ARRAY: _array,
    Tag.OBJECTS: _objects,
    Tag.STRUCTURE: _structure,
    Tag.SUBARRAY: _subarray,
    Tag.METADATA: _metadata,
}
