"""Sorting rows of observations, with the kernels of `cfagg.kernels.rows`."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["disorder", "sort_unique"]

type Rows = npt.NDArray[np.float32]


def disorder(rows: Rows, last: Rows | None = None) -> int | None:
    """Return the first row that is not after the one before it (`last` before the first); `None` where all are."""
    from cfagg.kernels.rows import first_disorder

    if last is not None and len(rows) and first_disorder(np.concatenate([last, rows[:1]])) >= 0:
        return 0
    found = int(first_disorder(rows))
    return None if found < 0 else found


def sort_unique(rows: Rows) -> Rows:
    """Return rows sorted by all columns, each distinct one once; -0.0 and NaN are normalised in place."""
    from cfagg.kernels import rows as kernel

    kernel.normalise(rows)
    if kernel.first_disorder(rows) < 0:
        return rows
    keys = np.empty(len(rows), np.int64)
    kernel.sort_keys(rows, keys)
    # NumPy's sort is quick on what is sorted in parts and on what is not; only ties are left.
    order = np.argsort(keys, kind="stable" if _mostly_sorted(keys) else "quicksort")
    kernel.sort_order(rows, keys, order)
    out = np.empty_like(rows)
    return out[: kernel.take_unique(rows, order, out)]


def _mostly_sorted(keys: npt.NDArray[np.int64]) -> bool:
    sample = keys[: 1 << 14]
    return bool((np.diff(sample) >= 0).mean() > 0.9) if len(sample) > 1 else True
