"""The metadata of a variable as one text, which the variables of a series share."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from cfagg.arrays.identity import Identity
from cfagg.cf.header import Header
from cfagg.formats.values import filters
from cfagg.model.chunks import Encoding

__all__ = ["StoredHeader", "read_header", "write_header"]

#: Types of values and of attributes: numbers, and single characters.
_TYPE = re.compile(r"[<>|]([iuf][1248]|S1)")
_ATTRIBUTE = re.compile(r"[<>|]([iuf][1248]|b1|S\d{1,6})")

#: Represents the packing of a field, given by LBPACK, among the numbers of HDF5 filters.
FIELD_PACKING = -1

#: Longest text, which allows for long attributes such as a history.
_LONGEST = 2**24

#: Number of cached texts of headers, and the longest of them.
_KEPT, _SHORT = 1 << 10, 1 << 12


class StoredHeader(NamedTuple):
    """The metadata shared by variables with the same header, whatever their files, shapes and positions."""

    path: str
    dims: tuple[str, ...]
    encoding: Encoding
    attributes: Mapping[str, Any]
    #: The identities of the coordinates of its dimensions, for variables with two dimensions of equal size.
    identities: Mapping[str, Identity] | None = None
    #: For a field of a PP file: its LBPACK, and whether its bytes are packed and have to be decoded.
    packing: int | None = None
    is_packed: bool = False

    def of(self, file: str, address: str, shape: tuple[int, ...]) -> Header:
        """Return the header of a variable."""
        return Header(file, address, self.dims, shape, self.encoding.dtype.newbyteorder("="), self.attributes)


#: Recently written headers, with their attributes, which variables of one series share.
_written_before: dict[Any, tuple[Mapping[str, Any], str]] = {}


def write_header(found: StoredHeader) -> str | None:
    """Return a header as JSON, or `None` if an index cannot represent it."""
    encoding = found.encoding
    if (
        encoding.fill is not None
        or encoding.decode is not None
        or encoding.dtype.metadata
        or found.identities is not None
        or found.packing is not None
    ):
        return _new(found)
    key = id(found.attributes), found.path, found.dims, encoding.dtype, encoding.codecs
    before = _written_before.get(key)
    # The id is unique as long as the object is kept here.
    if before is not None and before[0] is found.attributes:
        return before[1]
    text = _new(found)
    if text is not None and len(text) <= _SHORT:
        if len(_written_before) >= _KEPT:
            _written_before.clear()
        _written_before[key] = found.attributes, text
    return text


def _new(found: StoredHeader) -> str | None:
    """Return a header as JSON, like `write_header`."""
    encoding = found.encoding
    packed = encoding.decode is not None and found.packing is not None
    if (
        (encoding.decode is not None and not packed)
        or encoding.dtype.metadata
        or not _TYPE.fullmatch(encoding.dtype.str)
    ):
        return None
    if not filters.known(encoding.codecs):
        return None
    attributes = {}
    for name, value in found.attributes.items():
        written = _written(value)
        if written is None:
            return None
        attributes[name] = written
    document: dict[str, Any] = {
        "path": found.path,
        "dims": list(found.dims),
        "dtype": encoding.dtype.str,
        "codecs": [[number, list(parameters)] for number, parameters in encoding.codecs]
        or [[FIELD_PACKING, []]] * packed,
        "attributes": attributes,
    }
    if encoding.fill is not None:
        document["fill"] = np.asarray(encoding.fill, encoding.dtype).tobytes().hex()
    if found.identities is not None:
        document["identities"] = {name: list(one) for name, one in found.identities.items()}
    if found.packing is not None:
        document["packing"] = found.packing
    try:
        # Attributes keep their order, in which libraries show them.
        text = json.dumps(document, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        text.encode()
    except (TypeError, ValueError):
        return None
    return text if len(text) <= _LONGEST else None


def _written(value: Any) -> Any:
    """Return an attribute as JSON that preserves its type and value exactly, or `None` if that is impossible."""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(v, str) for v in value):
        return value
    if isinstance(value, np.ndarray | np.generic) and not value.dtype.metadata:
        array = np.asarray(value)
        if _ATTRIBUTE.fullmatch(array.dtype.str):
            written = {"type": array.dtype.str, "bytes": array.tobytes().hex()}
            return written if array.ndim == 0 else {**written, "shape": list(array.shape)}
    return None


def read_header(text: str) -> StoredHeader | None:
    """Return the header in a text of `write_header`, or `None` for anything else."""
    if len(text) > _LONGEST:
        return None
    try:
        return _header(json.loads(text))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError, MemoryError):
        return None


def _header(document: Mapping[str, Any]) -> StoredHeader:
    kind = document["dtype"]
    if not _TYPE.fullmatch(kind):
        raise ValueError(kind)
    dtype = np.dtype(kind)
    codecs = tuple((int(number), tuple(int(p) for p in parameters)) for number, parameters in document["codecs"])
    packed = codecs == ((FIELD_PACKING, ()),)
    codecs = () if packed else codecs
    if not filters.known(codecs) or len(codecs) > 32:
        raise ValueError(codecs)
    fill = document.get("fill")
    if fill is not None:
        fill = np.frombuffer(bytes.fromhex(fill), dtype, 1)[0]
    identities = document.get("identities")
    if identities is not None:
        identities = {_text(name): Identity(*map(_maybe_text, one)) for name, one in identities.items()}
    return StoredHeader(
        _text(document["path"]),
        tuple(map(_text, document["dims"])),
        Encoding(dtype, codecs, fill),
        {_text(name): _value(value) for name, value in document["attributes"].items()},
        identities,
        None if document.get("packing") is None else int(document["packing"]),
        packed,
    )


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(value)
    return value


def _maybe_text(value: Any) -> str | None:
    return None if value is None else _text(value)


def _value(value: Any) -> Any:
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return list(map(_text, value))
    if not _ATTRIBUTE.fullmatch(value["type"]):
        raise ValueError(value["type"])
    array = np.frombuffer(bytes.fromhex(value["bytes"]), value["type"])
    if "shape" not in value:
        return array[0] if array.size == 1 else _value(None)
    return array.reshape([int(n) for n in value["shape"]])
