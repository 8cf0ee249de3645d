"""Growing arrays of text: their type in memory, their previous last chunk, and values as stored."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.errors import ConformError, FragmentReadError, LimitError
from cfagg.formats.zarr.codecs import named
from cfagg.formats.zarr.creating import document_bytes
from cfagg.formats.zarr.metadata import ZarrArray
from cfagg.formats.zarr.settings import open_plainly, put_sync

__all__ = ["TEXT", "former_text", "stored_text", "text_fill", "text_type"]

#: Data types of text: variable-length, fixed-length, and fixed-length bytes.
TEXT = frozenset("OUS")

#: Maximum number of characters of one element.
_LONGEST = 1 << 20

_V2_TEXT = re.compile(r"(?:<U|\|S)([1-9][0-9]*)")


def text_type(document: Mapping[str, Any], zarr_format: int, where: str) -> np.dtype[Any] | None:
    """Return the type of an array of text, `object` if of variable length, or `None` for other arrays.

    >>> text_type({"data_type": "string"}, 3, "a"), text_type({"dtype": "<U4"}, 2, "a")
    (dtype('O'), dtype('<U4'))
    """
    kind, count = "", 0
    if zarr_format == 2:
        first = (document.get("filters") or [None])[0]
        if document.get("dtype") == "|O" and isinstance(first, dict) and first.get("id") == "vlen-utf8":
            return np.dtype(object)
        found = _V2_TEXT.fullmatch(str(document.get("dtype")))
        if found is not None:
            kind, count = str(document["dtype"])[1], int(found[1])
    else:
        name, configuration = named(document.get("data_type"))
        if name == "string":
            return np.dtype(object)
        length = configuration.get("length_bytes")
        if type(length) is int and length > 0 and name in ("fixed_length_utf32", "null_terminated_bytes"):
            kind, count = ("U", length // 4) if name == "fixed_length_utf32" else ("S", length)
    if not count:
        return None
    if count > _LONGEST:
        raise LimitError(f"{where} holds text of {count:,} characters each; at most {_LONGEST:,} are written")
    return np.dtype(f"{kind}{count}")


def text_fill(document: Mapping[str, Any], dtype: np.dtype[Any]) -> Any:
    """Return the value of elements whose chunk is not stored."""
    given = document.get("fill_value")
    if dtype.kind == "S":
        return base64.standard_b64decode(given) if isinstance(given, str) and given else b""
    return given if isinstance(given, str) else ""


def former_text(tail: ZarrArray, index: Sequence[int], stored: bytes | None) -> npt.NDArray[Any]:
    """Return the values of a chunk, decoded by zarr-python from its stored bytes, or `None` if there are none."""
    from zarr.storage import MemoryStore

    store = MemoryStore()
    name = "zarr.json" if tail.zarr_format == 3 else ".zarray"
    key = ZarrArray.key(tail, tail.object_of(index))
    try:
        put_sync(store, name, document_bytes(dict(tail.document)))
        if stored is not None:
            put_sync(store, key, stored)
        box = tuple(slice(a, b) for a, b in tail.grid.extent(index))
        found: npt.NDArray[Any] = np.asarray(open_plainly(store, "", tail.zarr_format)[box]).astype(tail.dtype)
    except Exception as error:  # codecs may raise anything on damaged bytes
        raise FragmentReadError(
            f"{tail.store}: array {tail.path!r}, the last chunk ({tail.key(tail.object_of(index))}) cannot be read; "
            f"zarr-python says {type(error).__name__}: {error}"
        ) from error
    return found


def stored_text(values: npt.NDArray[Any], dtype: np.dtype[Any], fills: Sequence[Any], where: str) -> npt.NDArray[Any]:
    """Return text as an array stores it; raise an error if it cannot be represented."""
    given = np.asarray(values)
    expected = bytes if dtype.kind == "S" else str
    items = given.astype(object).reshape(-1).tolist()
    for k, item in enumerate(items):
        at = tuple(map(int, np.unravel_index(k, given.shape)))
        if not isinstance(item, expected):
            kind = type(item).__name__
            raise ConformError(f"{where}: the value {item!r} at {at} is of type {kind}, but the store holds {dtype}")
        if item in fills:
            raise ConformError(f"{where}: the text {item!r} at {at} would be read as missing; change it first")
        if dtype.kind != "O" and (len(item) > (dtype.itemsize // 4 if dtype.kind == "U" else dtype.itemsize)):
            raise ConformError(f"{where}: {item!r} at {at} is longer than the store holds ({dtype}); shorten it")
        if dtype.kind != "O" and item[-1:] in ("\0", b"\0"):
            raise ConformError(
                f"{where}: {item!r} at {at} ends with a null character, which the store drops; remove it"
            )
    out = np.empty(len(items), dtype)
    out[:] = items
    return out.reshape(given.shape)
