"""Arrays that grow along an axis."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from hypothesis import strategies as st

DIMS = ("time", "lat", "lon")
COMBINATIONS = [("time",), ("lat",), ("lon",), ("lat", "lon"), ("time", "lat"), ("time", "lat", "lon")]


def grow(store: Path, raw: np.ndarray, axis: int, start: int) -> None:
    """Make an array longer along an axis and write what is new."""
    array = zarr.open_group(store, mode="r+")["tas"]
    array.resize(raw.shape)
    place = (slice(None),) * axis + (slice(start, None),)
    array[place] = raw[place]


@st.composite
def values(draw: Any, shape: Sequence[int], axis: int, more: int) -> np.ndarray:
    """Draw an array of which so much is new along an axis, and nothing, some, or only what is old or new is missing."""
    final = list(shape)
    final[axis] += more
    dtype = draw(st.sampled_from(["f4", "i2"]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    raw = (rng.normal(scale=20, size=final) if dtype == "f4" else rng.integers(0, 99, final)).astype(dtype)
    where = draw(st.sampled_from(["no", "all", "old", "new"]))
    holes = rng.random(final) < (0.0 if where == "no" else 0.3)
    half = (slice(None),) * axis + ((slice(shape[axis], None) if where == "old" else slice(0, shape[axis])),)
    if where in ("old", "new"):
        holes[half] = False
    raw[holes] = np.nan if dtype == "f4" else 77
    return raw


def source(raw: np.ndarray, form: int) -> dict[str, Any]:
    """Return how the array is stored, in Zarr of a format."""
    return {
        "zarr_format": form,
        "attributes": {"missing_value": 77} if raw.dtype.kind == "i" else {},
        "coordinates": False,
        "fill_value": 250 if raw.dtype.kind == "i" else -12345.0,
    }
