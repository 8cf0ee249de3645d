"""Objects of other libraries."""

from __future__ import annotations

from typing import Any

from cfagg.checking.model import Dataset
from cfagg.errors import UnsupportedError

__all__ = ["open_object"]


def open_object(source: Any) -> Dataset:
    """Return the model."""
    raise UnsupportedError(f"{source!r}: objects are not read yet")
