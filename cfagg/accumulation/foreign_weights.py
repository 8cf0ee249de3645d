"""Weights of an accumulation that does not keep them: the cosine of a latitude."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from cfagg.accumulation.arrays import WeightField
from cfagg.accumulation.foreign_check import read_region
from cfagg.errors import ConventionError, SourceError, UnsupportedError
from cfagg.zarrs.metadata import ZarrArray, open_array

__all__ = ["CosineWeights", "find_coordinate", "find_latitude"]


@dataclass(frozen=True, eq=False)
class CosineWeights(WeightField):
    """Weights that are the cosine of a latitude; `stored` is the latitude in degrees."""

    @cached_property
    def array(self) -> npt.NDArray[np.float64]:
        """The weights, float64, read when they are first asked for; read-only."""
        degrees = read_region(self.stored, [(0, n) for n in self.stored.shape])
        weights: npt.NDArray[np.float64] = np.cos(np.deg2rad(degrees.astype(np.float64)))
        weights.flags.writeable = False
        return weights


def find_coordinate(source: ZarrArray, name: str) -> ZarrArray | None:
    """Return the array beside the source that has the name of a dimension, `None` where there is none of numbers."""
    parent, slash, _ = source.path.rpartition("/")
    try:
        return open_array(source.store, f"{parent}{slash}{name}")
    except (SourceError, UnsupportedError, ConventionError):
        return None


def find_latitude(source: ZarrArray) -> CosineWeights | None:
    """Return the cosine of the latitude along one of the dimensions."""
    for axis, (name, length) in enumerate(zip(source.dims, source.shape, strict=True)):
        coordinate = find_coordinate(source, name)
        if coordinate is None or coordinate.shape != (length,) or coordinate.dtype.kind not in "iuf":
            continue
        attributes = coordinate.attributes
        known = (
            name.lower() in ("lat", "latitude")
            or attributes.get("standard_name") == "latitude"
            or str(attributes.get("units")).lower() in ("degrees_north", "degree_north", "degrees_n", "degree_n")
        )
        if known and "scale_factor" not in attributes:
            weights = CosineWeights(coordinate, (axis,))
            # A pole may be a little below 0 by rounding; a longitude is far below.
            if np.isfinite(weights.array).all() and (weights.array >= -1e-7).all():
                return weights
    return None
