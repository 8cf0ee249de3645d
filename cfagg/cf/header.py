"""The description of a variable that contains a sub-array, in its own file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

__all__ = ["Header", "plain"]


@dataclass(frozen=True)
class Header:
    """A variable as its file describes it, without decoding; file and name are used in messages."""

    file: str
    variable: str
    dims: tuple[str, ...]
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    attributes: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "dtype", np.dtype(self.dtype))
        object.__setattr__(self, "dims", tuple(self.dims))
        object.__setattr__(self, "shape", tuple(map(int, self.shape)))


def plain(value: Any) -> Any:
    """Return an attribute of the model in the form that netCDF4-python returns."""
    if isinstance(value, tuple):
        return list(value)
    return value[0] if isinstance(value, np.ndarray) and value.size == 1 else value
