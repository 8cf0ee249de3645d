"""Fragments that are arrays of Zarr stores, which only the user can name, not a file."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, cast

from cfagg.cf.header import Header
from cfagg.errors import FragmentNotFoundError, SourceError, UnsupportedError
from cfagg.formats.opening import is_referring
from cfagg.storage.urls import is_url

if TYPE_CHECKING:
    from cfagg.arrays.reader import Reader
    from cfagg.arrays.source import OtherSource, Variable

__all__ = ["STORES", "open_array"]

#: Names in partitions of the formats of fragments that are arrays in stores, including references to chunks.
STORES = ("zarr", "kerchunk")

#: Documents at the root of a store.
_DOCUMENTS = ("zarr.json", ".zmetadata", ".zgroup", ".zattrs")


def open_array(path: str, address: str, allow: Iterable[str], where: str) -> tuple[Header, Reader]:
    """Return an array of a store, whose links may point to `allow`, and its reader; no chunk is read."""
    links = tuple(one for one in allow if not is_url(one))
    try:
        source = _store(path, links, _stamp(path))
        group, found = source.find(address)
        reader: Reader = source.reader(group.path, cast("Variable", found), 1)  # there are no aggregations in stores
    except (SourceError, UnsupportedError) as error:
        kind = FragmentNotFoundError if isinstance(error, SourceError) else UnsupportedError
        raise kind(f"{where}: {error.message}") from error
    return Header(path, found.name, found.dims, reader.shape, reader.dtype, found.attributes), reader


@lru_cache(maxsize=64)
def _store(path: str, links: tuple[str, ...], stamp: tuple[int, ...]) -> OtherSource:  # noqa: ARG001
    """Return the metadata of a Zarr store, or of references; `stamp` distinguishes states of its root."""
    from cfagg.arrays.reference_source import open_reference_source
    from cfagg.arrays.zarr_source import open_zarr_source

    is_store = is_url(path) or (os.path.isdir(path) and not is_referring(path))  # noqa: PTH112
    return open_zarr_source(path, links) if is_store else open_reference_source(path, links)


def _stamp(path: str) -> tuple[int, ...]:
    """Return the modification times of the metadata of the root of a store."""
    found: list[int] = []
    for name in () if is_url(path) else (f"{path}/{document}" for document in _DOCUMENTS):
        with suppress(OSError):
            state = os.stat(name if os.path.isdir(path) else path)  # noqa: PTH112, PTH116
            found += [state.st_mtime_ns, state.st_ino]
    return tuple(found)
