"""What the workers of a loader run; a module of its own, so that spawned processes can import it."""

from __future__ import annotations

import numpy as np


def digest(job) -> tuple[int, float, float, int]:
    """Read one sample in this process; returns its number, rows, and sums of its values, places and time offsets."""
    ds, i = job
    x = ds[i]
    return len(x), float(np.asarray(x, "f8").sum()), float(x.latitudes.sum(dtype="f8")), int(x.timedeltas.sum())


def sample(job):
    """Read one sample in this process, and return it."""
    ds, i = job
    return ds[i]
