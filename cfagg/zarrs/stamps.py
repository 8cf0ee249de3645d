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
    shape = array.objects.matrix_shape
    out = np.empty((array.objects.size, 2), np.int64)
    names = [array.key(index) for index in np.ndindex(shape)]
    stat = os.stat
    try:
        folder = os.open(array.folder, os.O_RDONLY)
    except OSError as error:
        raise FragmentReadError(f"{array.folder} cannot be read: {error.strerror or error}") from error
    try:
        flat: list[int] = []
        for name in names:
            try:
                status = stat(name, dir_fd=folder)
            except (FileNotFoundError, NotADirectoryError):
                flat += (-1, 0)
            else:
                flat += (status.st_size, status.st_mtime_ns)
        out[:] = np.array(flat, np.int64).reshape(-1, 2)
    except OSError as error:
        raise FragmentReadError(f"{array.folder}: {error}") from error
    finally:
        os.close(folder)
    return out


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
