"""A coordinate of a field or of an array of fields, before it becomes a variable of a dataset."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Coordinate", "counted"]


@dataclass(frozen=True, eq=False, slots=True)
class Coordinate:
    """Values with their attributes; `bounds` has an additional last dimension of size 2.

    With `dimension` it is the coordinate variable of its one dimension.
    """

    name: str
    values: npt.NDArray[Any]
    attributes: dict[str, Any]
    bounds: npt.NDArray[Any] | None = None
    dims: tuple[str, ...] = ()
    dimension: bool = False
    climatology: bool = False
    #: Attributes of the bounds, by default those of the coordinate.
    bounds_attributes: dict[str, Any] = field(default_factory=dict)

    @property
    def is_constant(self) -> bool:
        """Whether it has the same value and bounds everywhere."""
        same = (self.values == self.values.reshape(-1)[0]).all()
        return bool(same and (self.bounds is None or (self.bounds == self.bounds.reshape(-1, 2)[0]).all()))

    @property
    def is_monotonic(self) -> bool:
        """Whether it may be the coordinate variable of a dimension."""
        if self.values.dtype.kind not in "iuf" or not np.isfinite(self.values).all():
            return False
        steps = np.diff(self.values)
        return bool((steps > 0).all() or (steps < 0).all())

    def along(self, dims: tuple[str, ...], *, dimension: bool = False) -> Coordinate:
        """Return it with other dimensions; a scalar one has none."""
        if dims:
            return replace(self, dims=dims, dimension=dimension)
        return self.first()

    def first(self) -> Coordinate:
        """Return its first value as a scalar coordinate."""
        bounds = None if self.bounds is None else self.bounds.reshape(-1, 2)[0]
        return replace(self, values=self.values.reshape(-1)[:1].reshape(()), bounds=bounds, dims=(), dimension=False)

    def shaped(self, shape: tuple[int, ...]) -> Coordinate:
        """Return it with its values in a shape."""
        bounds = None if self.bounds is None else self.bounds.reshape(*shape, 2)
        return replace(self, values=self.values.reshape(shape), bounds=bounds)

    def taken(self, shape: tuple[int, ...], axis: int) -> Coordinate:
        """Return its values along one axis of a shape if they are equal along all others."""
        at = tuple(slice(None) if a == axis else 0 for a in range(len(shape)))
        whole = self.shaped(shape)
        return replace(whole, values=whole.values[at], bounds=None if whole.bounds is None else whole.bounds[at])


def counted(name: str, values: npt.NDArray[np.int64], attributes: dict[str, Any]) -> Coordinate:
    """Return a coordinate of numbers, as integers of 4 bytes if they fit."""
    small = values.astype(np.int32)
    return Coordinate(name, small if (small == values).all() else values, {**attributes, "units": "1"})
