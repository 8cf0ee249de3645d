"""Size and time of every stored object of an array: what tells that its content was written since."""

from __future__ import annotations

import hashlib
import os
import sys
import threading
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from cfagg.errors import FragmentReadError
from cfagg.zarrs.metadata import ZarrArray

__all__ = ["compare", "digest", "stamps"]

Stamps = npt.NDArray[np.int64]

#: From so many objects on a compiled loop saves more than its threads cost.
_MANY = 1024
#: Names of so many objects are kept between calls, some tens of bytes each.
_KEPT = 2**18


def stamps(array: ZarrArray) -> Stamps:
    """Return size in bytes and modification time of each stored object.

    Returns
    -------
    numpy.ndarray of int64, shape (objects, 2)
        Size and time in nanoseconds since 1970, in C order of ``array.objects``; (-1, 0) where none is stored.

    Raises
    ------
    FragmentReadError
        A directory cannot be read.
    """
    try:
        folder = os.open(array.folder, os.O_RDONLY)
    except OSError as error:
        raise FragmentReadError(f"{array.folder} cannot be read: {error.strerror or error}") from error
    try:
        return _many(array, folder) if _compiled(array.objects.size) else _found(_names(array), folder)
    except OSError as error:
        raise FragmentReadError(f"{array.folder}: {error.strerror or error} ({error.filename})") from error
    finally:
        os.close(folder)


def _found(names: Iterable[str], folder: int) -> Stamps:
    """Return size and time of each file below an open directory.

    One call of the system for each is nearly all of the cost, so the loop does nothing else.
    """
    stat = os.stat
    flat: list[int] = []
    add = flat.append
    for name in names:
        try:
            status = stat(name, dir_fd=folder)
        except (FileNotFoundError, NotADirectoryError):
            add(-1)
            add(0)
        else:
            add(status.st_size)
            add(status.st_mtime_ns)
    return np.array(flat, np.int64).reshape(-1, 2)


def _compiled(count: int) -> bool:
    """Return whether a compiled loop pays: for many objects, where Numba is there already; loading it takes seconds."""
    if count < _MANY or "numba" not in sys.modules:
        return False
    from cfagg.zarrs.statx import usable

    return usable()


def _many(array: ZarrArray, folder: int) -> Stamps:
    """Return the same as `_found`, in two threads that do not hold Python's lock."""
    from cfagg.zarrs.statx import sizes_and_times

    known = array.__dict__.get("_object_bytes")
    if known is None:
        encoded = [os.fsencode(name) + b"\0" for name in _names(array)]
        starts = np.cumsum([0, *map(len, encoded)], dtype=np.int64)[:-1]
        known = (np.frombuffer(bytearray().join(encoded), np.uint8), starts)
        if len(encoded) <= _KEPT:
            array.__dict__["_object_bytes"] = known
    names, starts = known
    out = np.empty((len(starts), 2), np.int64)
    half = len(starts) // 2
    other = threading.Thread(target=sizes_and_times, args=(folder, names, starts[:half], out[:half]))
    other.start()
    sizes_and_times(folder, names, starts[half:], out[half:])
    other.join()
    failed = np.flatnonzero(out[:, 0] < 0)
    if failed.size:
        # Not there, or an error: Python's call tells which.
        keys = _names(array)
        out[failed] = _found([keys[i] for i in failed.tolist()], folder)
    return out


def _names(array: ZarrArray) -> list[str]:
    """Return the keys of all objects in C order; they are kept with the array, as every query asks for them."""
    known: list[str] | None = array.__dict__.get("_object_names")
    if known is not None:
        return known
    names = [array.prefix] if array.prefix else [""]
    for n in array.objects.matrix_shape:
        tails = [str(i) for i in range(n)]
        names = [f"{head}{array.separator}{tail}" if head else tail for head in names for tail in tails]
    if not array.objects.ndim:
        names = [array.key(())]
    if len(names) <= _KEPT:
        array.__dict__["_object_names"] = names
    return names


def digest(found: Stamps) -> str:
    """Return a digest of stamps: 32 hexadecimal digits that change where one of them does.

    >>> digest(np.array([[-1, 0]]))
    '8a11881022349cfb28aa3d5a2c76a1d3'
    """
    return hashlib.blake2b(np.ascontiguousarray(found, "<i8").tobytes(), digest_size=16).hexdigest()


def compare(old: Stamps, new: Stamps) -> list[int]:
    """Return the positions of objects whose stamps differ; both arrays are of one grid.

    >>> compare(np.array([[8, 1], [-1, 0]]), np.array([[8, 1], [8, 2]]))
    [1]
    """
    return [int(i) for i in np.flatnonzero((old != new).any(axis=1))]
