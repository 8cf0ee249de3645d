"""Size and time of every stored object of an array: what tells that its content was written since."""

from __future__ import annotations

import hashlib
import os

import numpy as np
import numpy.typing as npt

from cfagg.errors import FragmentReadError
from cfagg.zarrs.metadata import ZarrArray

__all__ = ["compare", "digest", "stamps"]

Stamps = npt.NDArray[np.int64]

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
        flat = _found(array, folder)
    except OSError as error:
        raise FragmentReadError(f"{array.folder}: {error.strerror or error} ({error.filename})") from error
    finally:
        os.close(folder)
    return np.array(flat, np.int64).reshape(-1, 2)


def _found(array: ZarrArray, folder: int) -> list[int]:
    """Return size and time of each object in one list.

    One call of the system for each object is nearly all of the cost, so the loop does nothing else.
    """
    stat = os.stat
    flat: list[int] = []
    add = flat.append
    for name in _names(array):
        try:
            status = stat(name, dir_fd=folder)
        except (FileNotFoundError, NotADirectoryError):
            add(-1)
            add(0)
        else:
            add(status.st_size)
            add(status.st_mtime_ns)
    return flat


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
