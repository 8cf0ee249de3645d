"""Observations: irregular data in Zarr stores, read by windows of time."""

from __future__ import annotations

from typing import Any

__all__ = ["set_cache_size"]


def __getattr__(name: str) -> Any:
    if name == "set_cache_size":
        from cfagg.observations.cache import set_cache_size

        return set_cache_size
    raise AttributeError(f"module 'cfagg.observations' has no attribute {name!r}")
