"""Sums of hashes that represent sets of values at positions, and can be added when the sets are joined."""

from __future__ import annotations

import secrets

import numpy as np
import numpy.typing as npt

from cfagg.cf.joining.members import Int64

__all__ = ["mixed"]

Unsigned = npt.NDArray[np.uint64]

#: Random, so that no author of a file can construct other values with the same sums.
_SEEDS = np.array([secrets.randbits(64) | 1, secrets.randbits(64) | 1], np.uint64)


def mixed(*columns: Int64) -> Unsigned:
    """Return two hashes for each row of columns, which are broadcast: shape (..., 2)."""
    found: Unsigned = _SEEDS
    for column in columns:
        own: Unsigned = column.astype(np.uint64)[..., None]
        found = _scatter((found ^ own) * np.uint64(0x9E3779B97F4A7C15) + _SEEDS)
    return found


def _scatter(x: Unsigned) -> Unsigned:
    """Hash numbers to all 64 bits (the finalizer of SplitMix64)."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
