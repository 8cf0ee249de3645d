"""Run-length encoding of lengths as pairs of length and number, as edges are written in metadata."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["run_lengths"]


def run_lengths(lengths: npt.ArrayLike) -> tuple[tuple[int, int], ...]:
    """Return lengths as runs of (length, number).

    >>> run_lengths([3, 3, 3, 2, 5, 5])
    ((3, 3), (2, 1), (5, 2))
    """
    array = np.asarray(lengths, dtype=np.int64)
    if not array.size:
        return ()
    starts = np.flatnonzero(np.concatenate([[True], array[1:] != array[:-1]]))
    runs = np.diff(np.concatenate([starts, [array.size]]))
    return tuple(zip(array[starts].tolist(), runs.tolist(), strict=True))
