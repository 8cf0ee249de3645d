"""Datasets without unusual properties: all their messages are supported here, and none refers to another file."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from functools import lru_cache
from typing import Any

import numpy as np

from cfagg.formats.hdf5.messages import CHUNKED, CONTIGUOUS, filters_of, layout_of, shape_of
from cfagg.formats.hdf5.newer import NewerIndex
from cfagg.formats.hdf5.objects import ATTRIBUTES, FILL, FILTERS, LAYOUT, LINKS, OLD_FILL, SPACE, TYPE
from cfagg.formats.hdf5.space import UNDEFINED, UnusualError
from cfagg.formats.values.storage import Chunked, Contiguous
from cfagg.model.chunks import Encoding

__all__ = ["is_plain", "moved", "storage_of"]

#: Supported messages of datasets and groups, which exclude external files of values, for instance.
_PLAIN = frozenset({SPACE, LINKS, TYPE, OLD_FILL, FILL, LAYOUT, FILTERS, ATTRIBUTES})

#: The message for no filters.
_NO_FILTERS = b"\2\0"


def is_plain(kinds: AbstractSet[int]) -> bool:
    """Return whether messages of these numbers are all supported here, so that none refers to another file."""
    return kinds <= _PLAIN


@lru_cache(256)
def _encoding(dtype: np.dtype[Any], filters: bytes) -> Encoding:
    """Return the encoding of chunks, from the message of their filters; cached for the variables of many files."""
    return Encoding(dtype, tuple(filters_of(filters)))


def storage_of(
    messages: Mapping[int, bytes], shape: tuple[int, ...], dtype: np.dtype[Any], name: str
) -> Chunked | Contiguous:
    """Return the storage of the values of a dataset without unusual messages."""
    layout = layout_of(messages[LAYOUT])
    if layout.class_ == CONTIGUOUS and FILTERS not in messages:
        size = dtype.itemsize
        for n in shape:
            size *= n
        if layout.at == UNDEFINED or layout.size != size:
            raise UnusualError
        return Contiguous(layout.at, 0, _encoding(dtype, _NO_FILTERS))
    # The last size is that of an element.
    chunk = layout.chunk
    if layout.class_ != CHUNKED or len(chunk) != len(shape) + 1 or chunk[-1] != dtype.itemsize or not all(chunk):
        raise UnusualError
    encoding = _encoding(dtype, messages.get(FILTERS, _NO_FILTERS))
    tree: int | NewerIndex | None = None if layout.at == UNDEFINED else layout.at
    if tree is not None and layout.version > 3:
        tree = NewerIndex(layout, shape, shape_of(messages[SPACE])[1], bool(encoding.codecs))
    return Chunked(chunk[:-1], encoding, name, tree)


def moved(storage: Chunked | Contiguous, message: bytes, name: str) -> Chunked | Contiguous | None:
    """Return the storage with the address in the message of a layout that is otherwise equal, or `None`."""
    if isinstance(storage, Contiguous):
        at = int.from_bytes(message[2:10], "little")
        return None if at == UNDEFINED else Contiguous(at, 0, storage.encoding)
    tree: Any
    if message[0] == 3:
        tree = at = int.from_bytes(message[3:11], "little")
    elif storage.tree is None:
        return None
    else:
        layout = layout_of(message)
        tree, at = storage.tree._replace(layout=layout), layout.at
    return None if at == UNDEFINED else Chunked(storage.chunks, storage.encoding, name, tree)
