"""The description of a variable that contains a sub-array, in its own file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

__all__ = ["Header", "frozen", "plain"]


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


def frozen(attributes: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return attributes as a hashable key, the same only for values of the same types.

    >>> frozen({"units": "K", "levels": [[1, 2], [3]]})
    (('units', 'K'), ('levels', ('list', '[[1, 2], [3]]')))
    """
    return tuple((name, value if isinstance(value, str) else _frozen(value)) for name, value in attributes.items())


def _frozen(value: Any) -> tuple[Any, ...]:
    """Return numbers as bytes, and what only JSON has, such as lists in lists, as text."""
    found = np.asarray(value) if isinstance(value, np.ndarray | np.generic | int | float) else None
    if found is None or found.dtype == object:
        return type(value).__name__, repr(value)
    return found.dtype.str, found.shape, found.tobytes()
