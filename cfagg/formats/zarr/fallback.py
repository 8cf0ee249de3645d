"""Reading through zarr-python chunks that cfagg does not decode: slower, with the same values."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.errors import CfaggError, FragmentReadError, SourceError, SourceNotFoundError, UnsupportedError
from cfagg.formats.zarr.metadata import ZarrArray, open_array
from cfagg.formats.zarr.settings import no_codec, open_plainly
from cfagg.storage.locks import forkable
from cfagg.storage.urls import Url

__all__ = ["open_by_zarr", "read_by_zarr", "store_of"]

_opening = forkable()


def read_by_zarr(array: ZarrArray, index: Sequence[int], ranges: Sequence[tuple[int, int]]) -> npt.NDArray[Any] | None:
    """Return a box of a chunk, relative to its start, or `None` if the object that contains it is not stored."""
    key = array.key(array.object_of(index))
    path = f"{array.folder}/{key}"
    if isinstance(array.store, Url):
        from cfagg.formats.zarr.remote import states

        if states(array.store, array.folder, [key])[0] is None:
            return None
    elif not os.path.lexists(path):
        return None
    extent = array.grid.extent(index)
    box = tuple(slice(a + low, a + high) for (a, _), (low, high) in zip(extent, ranges, strict=True))
    opened = _opened(array)
    try:
        read = np.asarray(opened[box], array.dtype)
    except CfaggError:
        raise
    except Exception as error:  # codecs may raise any exception for damaged bytes
        raise FragmentReadError(
            f"{array.store}: array {array.path!r}, chunk {tuple(map(int, index))} ({path}) cannot be read; zarr-python "
            f"raises {type(error).__name__}: {error}"
        ) from error
    return read if read.flags.writeable else read.copy()


def open_by_zarr(store: Any, path: str, zarr_format: int | None) -> Any:
    """Return an array of a store from `store_of`, opened by zarr-python; a `SourceError` reports damage."""
    where = f"{store.path}: array {path!r}"
    try:
        return open_plainly(store, path, zarr_format)
    except CfaggError:
        raise
    except FileNotFoundError as error:
        raise SourceNotFoundError(f"{store.path} has no Zarr array {path!r}") from error
    except Exception as error:  # damaged metadata can raise many kinds
        if (lacking := no_codec(error)) is not None:
            raise UnsupportedError(f"{where} {lacking}") from error
        try:
            open_array(store.path, path, allow=store.allow)
        except UnsupportedError as ours:
            raise SourceError(f"{where} has metadata that cfagg does not understand: {ours}") from error
        # Nothing is known to be wrong with it: zarr-python lacks some combinations of codecs that others write.
        raise UnsupportedError(
            f"{where} is left to zarr-python because of its type or codecs, which raises {type(error).__name__}: "
            f"{str(error)[:300]}; write it again in another form"
        ) from error


def store_of(store: str, allow: Sequence[str]) -> Any:
    """Return a local or remote store for zarr-python."""
    if not isinstance(store, Url):
        from cfagg.formats.zarr.checked_store import CheckedStore

        return CheckedStore(store, allow=allow)
    from cfagg.formats.metadata.remote_store import KeyStore
    from cfagg.formats.zarr.remote import remote_source

    return KeyStore(remote_source(store), store)


def _opened(array: ZarrArray) -> Any:
    """Return the array of zarr-python, opened once."""
    opened = array.__dict__.get("_by_zarr_python")
    if opened is not None:
        return opened
    try:
        with _opening:
            opened = open_plainly(store_of(array.store, array.allow), array.path, array.zarr_format)
    except CfaggError:
        raise
    except Exception as error:  # codecs and metadata can raise many kinds
        raise FragmentReadError(
            f"{array.store}: array {array.path!r} can only be read with zarr-python, which raises "
            f"{type(error).__name__}: {error}"
        ) from error
    if opened.shape != array.shape:
        raise FragmentReadError(
            f"{array.store}: array {array.path!r} has changed from shape {array.shape} to {opened.shape} since it was "
            "opened; open it again"
        )
    array.__dict__["_by_zarr_python"] = opened
    return opened
