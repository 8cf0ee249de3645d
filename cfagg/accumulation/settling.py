"""Whether an array is being written while it is summed."""

from __future__ import annotations

import ctypes
import os
import sys
import time
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.errors import StaleError
from cfagg.formats.zarr import ZarrArray, compare, stamps
from cfagg.formats.zarr.metadata import current_signature
from cfagg.storage.files import close_read

__all__ = ["settled", "unchanged", "write_back"]

#: A file may be written twice within one tick of the system's clock and look the same; seconds until that is over.
_TICK, _COARSE_TICK = 0.02, 2.1


def settled(array: ZarrArray) -> npt.NDArray[np.int64]:
    """Return the stamps of all objects once none of them may be written again within the same tick of the clock."""
    for _ in range(100):
        now = time.time_ns()
        found = stamps(array)
        # Modification times may be set to anything, and some systems tell no other.
        times = found[found[:, 0] >= 0, 1:3]
        tick = _TICK if not times.size or (times % 10**9).any() else _COARSE_TICK
        age = int(np.abs(now - times).min(initial=2**62)) / 1e9
        if age >= tick:
            return found
        time.sleep(tick - age + 0.001)
    raise StaleError(f"{array.store}: array {array.path!r} is being written; run again when it is not")


def write_back(array: ZarrArray) -> None:
    """Let the system begin to write what was stored in the objects through memory maps, before they are read."""
    # A page of a map that was written, and not yet written out, can be written again without any trace in the times of
    # its file.  Once its writing out has begun the next store into it sets these times, and is found.  File systems in
    # memory write nothing out, and set no times for maps.
    begin = _sync_file_range()
    if begin is None:
        return
    for index in np.ndindex(array.objects.matrix_shape):
        try:
            file = os.open(f"{array.folder}/{array.key(index)}", os.O_RDONLY | os.O_NONBLOCK)
        except OSError:
            # Not there, or not readable, which reading it will tell.
            continue
        # What a file system cannot do it says by an error, which changes nothing.
        begin(file, ctypes.c_int64(0), ctypes.c_int64(0), 2)
        close_read(file)


@cache
def _sync_file_range() -> Any:
    """Return Linux's function that begins to write out pages of a file, `None` elsewhere."""
    return getattr(ctypes.CDLL(None), "sync_file_range", None) if sys.platform == "linux" else None


def unchanged(array: ZarrArray, seen: npt.NDArray[np.int64]) -> None:
    """Refuse an array that was written since its stamps were taken."""
    where = f"{array.store}: array {array.path!r}"
    remedy = "run again with resume=True (--resume) when it is not being written"
    if current_signature(array) != array.signature:
        raise StaleError(f"the metadata of {where} were written while it was accumulated; {remedy}")
    changed = compare(seen, stamps(array))
    if changed:
        first = np.unravel_index(changed[0], array.objects.matrix_shape)
        raise StaleError(
            f"{where}: {len(changed):,} of its stored chunks were written while it was accumulated, the first being "
            f"{tuple(map(int, first))}; {remedy}"
        )
