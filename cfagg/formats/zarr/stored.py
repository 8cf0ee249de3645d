"""The stored objects of an array, from a listing, if these are few."""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from cfagg.errors import CfaggError
from cfagg.formats.zarr.metadata import ZarrArray
from cfagg.formats.zarr.remote import key_of, remote_source
from cfagg.model import Regular
from cfagg.storage.files import close_read
from cfagg.storage.tree import open_quickly
from cfagg.storage.urls import Url

__all__ = ["stored_boxes", "stored_few"]

#: Documents of an array, which are next to its objects.
_DOCUMENTS = frozenset({"zarr.json", ".zarray", ".zattrs"})

#: Most digits of the index of a chunk.
_DIGITS = 18


def stored_few(array: ZarrArray, most: int) -> npt.NDArray[np.int64] | None:
    """Return the indices of all stored objects of an array, one per row."""
    # `None` if they have to be checked one by one: if there are more than `most`, counting local directories, if
    # nothing can be listed, or if anything other than an object of the array is listed, such as a link or another name.
    # So a listing is used only if it certainly matches the objects that would be read.
    found: list[tuple[int, ...]] = []
    document = "zarr.json" if array.zarr_format == 3 else ".zarray"
    is_its_own = False
    try:
        names = _names(array)
        for seen, name in enumerate(names):
            if seen > most + len(_DOCUMENTS):
                return None
            is_its_own |= name == document
            if not name or name in _DOCUMENTS:
                continue
            index = _index(array, name)
            if index is None:
                return None
            found.append(index)
    except (CfaggError, OSError, ValueError):
        return None  # reading reports what is wrong
    # A listing without the array's own document is one of something else.
    return np.array(found, np.int64).reshape(-1, array.ndim) if is_its_own else None


def stored_boxes(array: ZarrArray, sparse: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]] | None:
    """Return start and end of each stored object, or `None` as in `stored_few` for more than one in `sparse`."""
    objects = array.objects
    rows = stored_few(array, objects.size // sparse)
    if rows is None:
        return None
    rows = rows[(rows < objects.matrix_shape).all(axis=1)]
    starts, stops = np.empty_like(rows), np.empty_like(rows)
    for d, (axis, n) in enumerate(zip(objects.axes, array.shape, strict=True)):
        index = rows[:, d]
        starts[:, d] = index * axis.chunk if isinstance(axis, Regular) else axis[index]
        stops[:, d] = np.minimum(starts[:, d] + axis.chunk if isinstance(axis, Regular) else axis[index + 1], n)
    return starts, stops


def _index(array: ZarrArray, name: str) -> tuple[int, ...] | None:
    """Return the index of an object, or `None` if a name is not exactly the key of one."""
    begin = f"{array.prefix}{array.separator}" if array.prefix else ""
    parts = name.removeprefix(begin).split(array.separator)
    if len(parts) != array.ndim or not all(p.isascii() and p.isdigit() and len(p) <= _DIGITS for p in parts):
        return None
    index = tuple(map(int, parts))
    return index if array.key(index) == name else None


def _names(array: ZarrArray) -> Iterator[str]:
    """Yield the keys below an array."""
    if array.opens is not None:
        # Stores that are not directories are listed if possible, such as Icechunk repositories.
        keys = getattr(getattr(array.opens, "__self__", None), "keys", None)
        return iter(()) if keys is None else keys(array.path)
    return _remote_names(array) if isinstance(array.store, Url) else _local_names(array)


def _remote_names(array: ZarrArray) -> Iterator[str]:
    """Yield the keys below an array; none if the server does not list them."""
    store: Url = array.store  # type: ignore[assignment]
    source, folder = remote_source(store), key_of(store, array.folder)
    if source.lists:
        for key, _ in source.objects(folder):
            yield key[len(folder) + 1 :] if folder else key


def _local_names(array: ZarrArray) -> Iterator[str]:
    """Yield the names of files below an array's directory, and an empty one for each directory."""
    # The depth of directories is given by the form of keys.
    depth = (array.ndim - 1 if array.separator == "/" else 0) + (bool(array.prefix) and array.separator == "/")
    waiting = [("", 0)]
    while waiting:
        front, steps = waiting.pop()
        within = open_quickly(array.store, f"{array.folder}/{front}".rstrip("/"))
        if within < 0:
            raise ValueError("a link leads there, or this system does not say whether one does")
        try:
            with os.scandir(within) as entries:
                for entry in entries:
                    if entry.is_symlink():
                        raise ValueError("a link is looked at by whoever reads")
                    is_folder = entry.is_dir()
                    if is_folder and steps == depth:
                        raise ValueError("there is a directory in place of a chunk")
                    if is_folder:
                        waiting.append((f"{front}{entry.name}/", steps + 1))
                    yield "" if is_folder else f"{front}{entry.name}"
        finally:
            close_read(within)
