"""Reals of four bytes as the decimal numbers that they were written from."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["decimal"]


def decimal(values: npt.ArrayLike, word_size: int) -> npt.NDArray[np.float64]:
    """Return the shortest decimal numbers that are these as reals of 4 bytes; others are returned as they are.

    A grid of 0.44 degrees that starts at 339.02 has no other digits than these, as reals of 8 bytes too.

    >>> decimal(np.float32(0.44), 4).tolist(), decimal(0.1 + 0.2, 8).tolist()
    (0.44, 0.30000000000000004)
    """
    found = np.asarray(values, np.float64)
    if word_size != 4:
        return found
    single: npt.NDArray[Any] = found.astype(np.float32)
    return single.astype("U32").astype(np.float64) if single.ndim else np.asarray(float(str(single[()])))
