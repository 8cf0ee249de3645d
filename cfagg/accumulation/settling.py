"""Whether an array is being written while it is summed."""

from __future__ import annotations

import time

import numpy as np
import numpy.typing as npt

from cfagg.errors import StaleError
from cfagg.zarrs import ZarrArray, compare, stamps
from cfagg.zarrs.metadata import current_signature

__all__ = ["settled", "unchanged"]

#: A file may be written twice within one tick of the system's clock and look the same; seconds until that is over.
_TICK, _COARSE_TICK = 0.02, 2.1


def settled(array: ZarrArray) -> npt.NDArray[np.int64]:
    """Return the stamps of all objects once none of them may be written again within the same tick of the clock."""
    for _ in range(100):
        now = time.time_ns()
        found = stamps(array)
        times = found[found[:, 0] >= 0, 1]
        tick = _TICK if not len(times) or (times % 10**9).any() else _COARSE_TICK
        age = (now - int(times.max(initial=0))) / 1e9
        if abs(age) >= tick:
            break
        time.sleep(min(tick, abs(tick - age)) + 0.001)
    return found


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
