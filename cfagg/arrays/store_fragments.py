"""Fragments that are arrays of Zarr stores, which only the user can name, not a file."""

from __future__ import annotations

import os
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, cast

from cfagg.cf.header import Header
from cfagg.errors import FragmentMismatchError, FragmentNotFoundError, SourceError, UnsupportedError
from cfagg.formats.opening import is_referring
from cfagg.storage.access import NamedAccess, Seen
from cfagg.storage.remote_file import state_number
from cfagg.storage.urls import Url, is_url

if TYPE_CHECKING:
    from cfagg.arrays.reader import Reader
    from cfagg.arrays.source import OtherSource, Variable

__all__ = ["STORES", "changed", "open_array", "refuse_changed"]

#: Names in partitions of the formats of fragments that are arrays in stores, including references to chunks.
STORES = ("zarr", "kerchunk")


def open_array(path: str, address: str, access: NamedAccess, name: str | None, where: str) -> tuple[Header, Reader]:
    """Return an array of a store, which is called `name`, and its reader; no chunk is read.

    Links in it may lead to places that `access` allows. A store that has changed since it was scanned is refused.
    """
    try:
        links, state = refuse_changed(path, access, name, where)
        source = _store(path, links, state)
        group, found = source.find(address)
        reader: Reader = source.reader(group.path, cast("Variable", found), 1)  # there are no aggregations in stores
    except (SourceError, UnsupportedError) as error:
        kind = FragmentNotFoundError if isinstance(error, SourceError) else UnsupportedError
        raise kind(f"{where}: {error.message}") from error
    return Header(path, found.name, found.dims, reader.shape, reader.dtype, found.attributes), reader


def refuse_changed(
    path: str, access: NamedAccess, name: str | None, where: str
) -> tuple[tuple[str, ...], tuple[int, int, int] | None]:
    """Raise an error if a store has changed since it was scanned; return where its links may lead, and its state."""
    links = tuple(one for one in access.allow if not is_url(one))
    state = _state(path, links, access.states.seen.get(name or ""))
    if name is not None and state is not None and access.states.is_changed(name, *state):
        raise changed(name, where)
    return links, state


def changed(name: str, where: str) -> FragmentMismatchError:
    """Return the error that a file is not the one that was scanned: its values would get outdated coordinates."""
    return FragmentMismatchError(f"{where}: {name} has changed since it was scanned; aggregate the files again")


@lru_cache(maxsize=64)
def _store(path: str, links: tuple[str, ...], state: tuple[int, int, int] | None) -> OtherSource:  # noqa: ARG001
    """Return the metadata of a Zarr store, or of references, in one of its states."""
    from cfagg.arrays.reference_source import open_reference_source
    from cfagg.arrays.zarr_source import open_zarr_source
    from cfagg.formats.metadata.url import file_at

    is_store = file_at(path) is None if isinstance(path, Url) else os.path.isdir(path) and not is_referring(path)  # noqa: PTH112
    return open_zarr_source(path, links) if is_store else open_reference_source(path, links)


def _state(path: str, links: tuple[str, ...], seen: Seen | None) -> tuple[int, int, int] | None:
    """Return the present state of a store, as `FileStates` has it, or `None` if it is gone."""
    if seen is not None:
        from cfagg.arrays.store_state import state_now  # this loads the formats of stores

        now = state_now(path, links, seen)
        return None if now is None else (now[0], *(state_number(now[1], now[0]),) * 2)
    document = f"{path}/.zmetadata" if os.path.isdir(path) else path  # noqa: PTH112
    with suppress(OSError):
        found = os.stat(document)  # noqa: PTH116
        return found.st_size, found.st_mtime_ns, found.st_ino
    return None
