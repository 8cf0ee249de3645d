"""Stamps of stored objects, which show without reading them whether they may have been written since."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.errors import FragmentReadError
from cfagg.formats.zarr.metadata import ZarrArray
from cfagg.storage.files import close_read
from cfagg.storage.urls import Url

__all__ = ["ABSENT", "WIDTH", "aged_stamps", "compare", "stamps", "unsure"]

Stamps = npt.NDArray[np.int64]

#: Numbers in a stamp: bytes, modification time and change time in nanoseconds since 1970, and inode.
WIDTH = 4

#: The stamp of an object that is not stored.
ABSENT = (-1, 0, 0, 0)

#: Inodes of some file systems use the 64th bit.
_MOST = 2**63 - 1

#: If less than one in this many objects is requested, names of the others are not created.
_FEW = 64

#: Most names of objects that are kept between calls, some tens of bytes each.
_KEPT = 2**18


def stamps(array: ZarrArray, which: npt.NDArray[np.int64] | None = None) -> Stamps:
    """Return size, modification and change time in nanoseconds, and inode of stored objects, int64 (objects, 4)."""
    # For a remote object its ETag replaces the inode. The modification time can be set to any value, as archives do;
    # the change time cannot, and a file that replaces another has another inode. `which` are indices in C order of
    # `array.objects`; `ABSENT` means not stored.
    if isinstance(array.store, Url):
        return _of_states(_states(array, which))
    try:
        folder = os.open(array.folder, os.O_RDONLY)
    except OSError as error:
        raise FragmentReadError(f"{array.folder} cannot be read: {error.strerror or error}") from error
    try:
        return _found(_names(array, which), folder)
    except OSError as error:
        raise FragmentReadError(f"{array.folder}: {error.strerror or error} ({error.filename})") from error
    finally:
        close_read(folder)


def unsure(array: ZarrArray, which: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Return which objects may be read in another state than that of their stamps: all except those in memory."""
    store: Any = array.store
    recent = store.recent if isinstance(store, Url) else None
    if recent is None:
        return np.ones(len(which), bool)
    within = array.folder[len(store.rstrip("/")) + 1 :]
    return np.array([not recent.is_sure(f"{within}/{name}") for name in _names(array, which)], bool)


def aged_stamps(array: ZarrArray) -> tuple[Stamps, float]:
    """Return the stamps of a remote array, and the seconds, by the server's clock, since the last write."""
    found = _states(array, None)
    return _of_states(found), min(((s.now - s.modified) / 1e9 for s in found if s is not None), default=math.inf)


def _states(array: ZarrArray, which: npt.NDArray[np.int64] | None) -> list[Any]:
    from cfagg.formats.zarr.remote import states

    store: Any = array.store
    return states(store, array.folder, _names(array, which))


def _of_states(states: Iterable[Any]) -> Stamps:
    from cfagg.formats.zarr.remote import number_of

    rows = [ABSENT if s is None else (s.size, s.modified, s.modified, number_of(s.tag)) for s in states]
    return np.array(rows, np.int64).reshape(-1, WIDTH)


def _found(names: Iterable[str], folder: int) -> Stamps:
    """Return the stamp of each file below an open directory."""
    # One system call for each is nearly all of the cost, so the loop does nothing else.
    stat = os.stat
    flat: list[tuple[int, ...]] = []
    add = flat.append
    for name in names:
        try:
            status = stat(name, dir_fd=folder)
        except (FileNotFoundError, NotADirectoryError):
            add(ABSENT)
        else:
            add((status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino & _MOST))
    return np.array(flat, np.int64).reshape(-1, WIDTH)


def _names(array: ZarrArray, which: npt.NDArray[np.int64] | None) -> list[str]:
    """Return the keys of objects; all of them are kept with the array, since every query needs them."""
    known: list[str] | None = array.__dict__.get("_object_names")
    few = which is not None and len(which) * _FEW < array.objects.size and known is None
    if which is not None and array.objects.ndim and (few or array.objects.size > _KEPT):
        index = np.unravel_index(which, array.objects.matrix_shape)
        return [array.key(place) for place in zip(*(i.tolist() for i in index), strict=True)]
    if known is None:
        known = _all_names(array)
        if len(known) <= _KEPT:
            array.__dict__["_object_names"] = known
    return known if which is None else [known[i] for i in which.tolist()]


def _all_names(array: ZarrArray) -> list[str]:
    """Return the keys of all objects in C order."""
    if not array.objects.ndim:
        return [array.key(())]
    names = [array.prefix] if array.prefix else [""]
    for n in array.objects.matrix_shape:
        tails = [str(i) for i in range(n)]
        names = [f"{head}{array.separator}{tail}" if head else tail for head in names for tail in tails]
    return names


def compare(old: Stamps, new: Stamps) -> list[int]:
    """Return the positions of objects whose stamps differ; both arrays describe the same objects."""
    return [int(i) for i in np.flatnonzero((old != new).any(axis=1))]
