"""Four-byte reals as the decimal numbers from which they were converted."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["decimal"]


def decimal(values: npt.ArrayLike, word_size: int) -> npt.NDArray[np.float64]:
    """Return the shortest decimal numbers that round to these 4-byte reals; others are returned unchanged."""
    # A grid of 0.44 degrees that starts at 339.02 then has only these digits as 8-byte reals, too.
    found = np.asarray(values, np.float64)
    if word_size != 4:
        return found
    single: npt.NDArray[Any] = found.astype(np.float32)
    return single.astype("U32").astype(np.float64) if single.ndim else np.asarray(float(str(single[()])))
