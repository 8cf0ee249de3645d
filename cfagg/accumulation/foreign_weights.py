"""Weights of an accumulation that does not keep them: the cosine of a latitude, those that a user gives, or unknown."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property
from math import prod
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from cfagg.accumulation.arrays import CellWeights, WeightField
from cfagg.accumulation.foreign_deltas import elements
from cfagg.cf.roles import place_of
from cfagg.errors import ConventionError, FragmentReadError, SourceError, UnsupportedError
from cfagg.formats.zarr.codecs import Decoder, decoder
from cfagg.formats.zarr.metadata import ZarrArray, open_array
from cfagg.formats.zarr.numeric import Step
from cfagg.model import Regular

__all__ = ["CosineArray", "GivenWeights", "UnknownWeights", "find_coordinate", "find_latitude", "missing_weights"]


@dataclass(frozen=True, eq=False)
class CosineArray(ZarrArray):
    """An array of latitudes, in `degrees` of native byte order, that reads as their cosines, in float64."""

    degrees: np.dtype[Any]

    @cached_property
    def decoder(self) -> Decoder | None:
        """How chunks are decoded: all codecs undone, then the cosine taken."""
        inner = decoder(self.document, self.zarr_format, self.degrees)
        if inner is None:  # `find_latitude` has made sure that there is one
            return None
        stored = self.degrees.newbyteorder() if inner.swap else self.degrees
        count = prod(axis.chunk for axis in self.grid.axes if isinstance(axis, Regular))

        def cosine(raw: Any, fewest: int, most: int) -> Any:  # noqa: ARG001
            return np.cos(np.deg2rad(elements(raw, stored, count).astype(np.float64))).view(np.uint8)

        nbytes = count * stored.itemsize
        return Decoder((*inner.steps, Step(cosine, lambda sizes: (nbytes, nbytes))), swap=False)  # noqa: ARG005


@dataclass(frozen=True, eq=False)
class GivenWeights(CellWeights):
    """Weights that a user gave, in memory."""

    values: npt.NDArray[np.float64]
    axes: tuple[int, ...]

    @property
    def array(self) -> npt.NDArray[np.float64]:
        """The weights."""
        return self.values


@dataclass(frozen=True, eq=False)
class UnknownWeights(CellWeights):
    """Weights of which only the sums are there."""

    where: str
    axes: tuple[int, ...]

    known: ClassVar[bool] = False

    @property
    def array(self) -> npt.NDArray[np.float64]:
        """Nothing: refused."""
        raise missing_weights(self.where, "this statistic needs the weights of single cells")


def missing_weights(where: str, why: str) -> UnsupportedError:
    """Return the error for what takes weights that are not known."""
    return UnsupportedError(
        f"{where}: {why}, and its accumulation, which was not written by cfagg, holds only their sums; give them "
        "with weights="
    )


def find_coordinate(source: ZarrArray, name: str) -> ZarrArray | None:
    """Return the array beside the source that has the name of a dimension, `None` where there is none of numbers."""
    parent, slash, _ = source.path.rpartition("/")
    try:
        return open_array(source.store, f"{parent}{slash}{name}", allow=source.allow)
    except (SourceError, UnsupportedError, ConventionError):
        return None


def find_latitude(source: ZarrArray) -> WeightField | None:
    """Return the cosine of the latitude along one of the dimensions, `None` where no latitude is found."""
    for axis, (name, length) in enumerate(zip(source.dims, source.shape, strict=True)):
        coordinate = find_coordinate(source, name)
        if coordinate is None or coordinate.shape != (length,) or not _is_latitude(name, coordinate):
            continue
        wide = replace(coordinate, dtype=np.dtype("f8"))
        weights = WeightField(
            CosineArray(**{f.name: getattr(wide, f.name) for f in fields(wide)}, degrees=coordinate.dtype), (axis,)
        )
        try:
            found = weights.array
        except FragmentReadError:
            continue
        # A pole may be a little below 0 by rounding; a longitude is far below.
        if np.isfinite(found).all() and (found >= -1e-7).all():
            return weights
    return None


def _is_latitude(name: str, coordinate: ZarrArray) -> bool:
    """Return whether a coordinate is one, by its name or attributes, and can be read as it is stored."""
    attributes = coordinate.attributes
    named = name.lower() in ("lat", "latitude") or place_of(attributes) == "latitude"
    plain = coordinate.dtype.kind in "iuf" and "scale_factor" not in attributes
    whole = coordinate.objects is coordinate.grid and all(isinstance(a, Regular) for a in coordinate.grid.axes)
    return named and plain and whole and coordinate.decoder is not None
