"""Zarr groups."""

from __future__ import annotations

from cfagg.checking.model import Dataset
from cfagg.errors import UnsupportedError

__all__ = ["open_zarr"]


def open_zarr(path: str) -> Dataset:
    """Return the model."""
    raise UnsupportedError(f"{path!r}: Zarr is not read yet")
