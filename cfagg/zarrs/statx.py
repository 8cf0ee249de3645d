"""Size and time of very many files by one compiled loop over the system's own call, outside Python's lock.

Linux only; `usable` tells.  Elsewhere, and for few files, Python's own call serves.  This is no kernel: it asks the
system about files.
"""

from __future__ import annotations

import ctypes
import sys
from functools import cache

import numba
import numpy as np
import numpy.typing as npt

from cfagg.kernels.jit import jit

__all__ = ["sizes_and_times", "usable"]

#: int statx(int directory, const char *path, int flags, unsigned mask, struct statx *out)
_statx = numba.types.ExternalFunction(
    "statx",
    numba.types.int32(
        numba.types.int32, numba.types.voidptr, numba.types.int32, numba.types.uint32, numba.types.voidptr
    ),
)

#: STATX_SIZE | STATX_MTIME
_MASK = 0x240


@cache
def usable() -> bool:
    """Return whether the system has the call, in the form that is known here."""
    return sys.platform == "linux" and sys.byteorder == "little" and hasattr(ctypes.CDLL(None), "statx")


@jit
def sizes_and_times(
    directory: int, names: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64], out: npt.NDArray[np.int64]
) -> None:
    """Write size and modification time of files.

    Parameters
    ----------
    directory : int
        An open directory.
    names : uint8, shape (n,)
        Paths below it, each with a zero byte at its end.
    starts : int64, shape (m,)
        Where each path starts.
    out : int64, shape (m, 2)
        Filled with bytes and nanoseconds since 1970; with (-1, 0) where the call fails, whatever the reason.

    Notes
    -----
    ``struct statx`` as 32 words of 64 bits: the size is word 5, the seconds of the modification time word 14, its
    nanoseconds the lower half of word 15 (linux/stat.h).
    """
    found = np.empty(32, np.int64)
    for i in range(starts.size):
        if _statx(directory, names.ctypes.data + starts[i], 0, _MASK, found.ctypes.data) == 0:
            out[i, 0] = found[5]
            out[i, 1] = found[14] * 1_000_000_000 + (found[15] & 0xFFFFFFFF)
        else:
            out[i, 0] = -1
            out[i, 1] = 0
