"""Which arrays an accumulation group holds: names, shapes, types and chunks, known before any data are read.

The convention requires the dimensions of the data in ``_ARRAY_DIMENSIONS`` of sums.  xarray requires one length for
each name in a group and in the groups around it, so everywhere else dimensions with other lengths have other names.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["ArraySpec", "Axes", "Layout", "Level", "Sums", "own_dims", "raw_dims"]


Axes = tuple[int, ...]


def own_dims(dims: Sequence[str], axes: Sequence[int], word: str) -> tuple[str, ...]:
    """Return names of dimensions, of which those along `axes` are counted in samples or chunks, as `word` says."""
    out = []
    for a, d in enumerate(dims):
        name = f"{d}_{word}" if a in axes else d
        while a in axes and name in dims:
            name += "_"
        out.append(name)
    return tuple(out)


def raw_dims(names: Sequence[str], dims: Sequence[str], axes: Sequence[int], word: str) -> tuple[str, ...]:
    """Return the dimensions of the data that names stand for, in any order; other names are kept."""
    table = dict(zip(own_dims(dims, axes, word), dims, strict=True))
    return tuple(table.get(name, name) for name in names)


@dataclass(frozen=True)
class ArraySpec:
    """One array of the group; dimensions with other lengths than in the data have other names."""

    name: str
    #: What it holds, in words.
    role: str
    dims: tuple[str, ...]
    shape: tuple[int, ...]
    chunks: tuple[int, ...]
    dtype: np.dtype[Any]
    attributes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return math.prod(self.shape) * self.dtype.itemsize

    @property
    def grid(self) -> tuple[int, ...]:
        """Number of chunks along each dimension."""
        return tuple(-(-n // c) for n, c in zip(self.shape, self.chunks, strict=True))

    def extent(self, index: Axes) -> tuple[tuple[int, int], ...]:
        """Return start and stop of a chunk along each dimension."""
        return tuple((i * c, min((i + 1) * c, n)) for i, c, n in zip(index, self.chunks, self.shape, strict=True))


@dataclass(frozen=True, eq=False)
class Sums[A]:
    """The arrays of sums over one combination of dimensions, by quantity: as specified, or as they are in a store."""

    #: Accumulated axes of the source, ascending; for stored arrays, the source's axis of each of their axes.
    axes: Axes
    #: "data", multiplied by weights if there are any; "weights" of values that count; "counts", which are stored beside
    #: weights only if values are missing.
    arrays: Mapping[str, A]
    #: Their low parts, of double-double sums only, which are to be added.
    low: Mapping[str, A] = field(default_factory=dict)

    @property
    def data(self) -> A:
        """Sums of the data."""
        return self.arrays["data"]

    @property
    def weights(self) -> A | None:
        """What the convention calls weights: sums of weights, or counts where there are no weights."""
        return self.arrays.get("weights", self.arrays.get("counts"))

    def of(self, quantity: str) -> A | None:
        """Return the sums of a quantity; without weights, each cell has weight 1."""
        return self.weights if quantity == "weights" else self.arrays.get(quantity)

    def each(self, *, counts: bool = True) -> Iterator[A]:
        """Yield every array, each followed by its low parts; counts beside weights only if asked for."""
        for quantity, array in self.arrays.items():
            if counts or quantity != "counts" or "weights" not in self.arrays:
                yield array
            if quantity in self.low:
                yield self.low[quantity]


@dataclass(frozen=True, eq=False)
class Level[A]:
    """Statistics of one combination at one level of its pyramid, whose cells are ``8**level`` chunks of the source."""

    #: As for `Sums`.
    axes: Axes
    level: int
    #: By ``count``, ``min``, ``max``, ``sum``, ``m2`` and ``weights``, as far as they are stored.
    arrays: Mapping[str, A]


@dataclass(frozen=True)
class Layout:
    """All arrays of the group."""

    sums: tuple[Sums[ArraySpec], ...]
    levels: tuple[Level[ArraySpec], ...]
    #: Stamps and checksums of the stored objects of the source and of related arrays.
    stamps: ArraySpec
    #: Checksums of the chunks of all arrays but this one and `stamps`.
    checksums: ArraySpec
    #: Sample positions by accumulated axis.
    boundaries: Mapping[int, ArraySpec]
    weights: ArraySpec | None
    #: Sample positions, and chunks from one to the next, along every axis; 1 where it is not accumulated.
    samples: tuple[npt.NDArray[np.int64], ...]
    stride: tuple[int, ...]
    #: Positions and values of cells that are kept out of the sums; empty where there are none.
    outliers: tuple[ArraySpec, ...] = ()
    #: The end of the names of all arrays, where arrays of another build are beside them for a while.
    suffix: str = ""
    #: The axis along which the group grows in place; `None` where it is built as a whole.
    grows: int | None = None

    def growing(self) -> Iterator[tuple[ArraySpec, Axes, int | None]]:
        """Yield the arrays that get longer along the axis, each with its accumulated axes and its level, if any."""
        for s in self.sums:
            for spec in s.each():
                yield spec, s.axes, None
        for v in self.levels:
            for spec in v.arrays.values():
                yield spec, v.axes, v.level

    def chunked(self, *, counts: bool) -> Iterator[ArraySpec]:
        """Yield every array whose chunks have a place in `checksums`; counts beside weights only if asked for."""
        for s in self.sums:
            yield from s.each(counts=counts)
        for level in self.levels:
            yield from level.arrays.values()
        if self.weights is not None:
            yield self.weights
        yield from self.boundaries.values()
        yield from self.outliers

    def arrays(self, *, counts: bool) -> Iterator[ArraySpec]:
        """Yield every array."""
        yield from self.chunked(counts=counts)
        yield self.stamps
        yield self.checksums

    def places(self, *, counts: bool) -> dict[str, int]:
        """Return the position in `checksums` of the first chunk of each written array."""
        specs = list(self.chunked(counts=counts))
        begins = accumulate((math.prod(spec.grid) for spec in specs), initial=0)
        return {spec.name: place for spec, place in zip(specs, begins, strict=False)}

    def with_outliers(self, count: int, ndim: int, dtype: np.dtype[Any]) -> Layout:
        """Return the layout with arrays for a number of cells that are kept out of the sums."""
        found = []
        for name, role, shape, kind in (
            ("outlier_positions", "positions of cells kept out of the sums", (count, ndim), np.dtype("i8")),
            ("outlier_values", "values of cells kept out of the sums", (count,), dtype),
        ):
            dims = tuple(f"{name}_{i}" for i in range(len(shape)))
            attributes = {"_ARRAY_DIMENSIONS": list(dims)}
            found.append(ArraySpec(f"{name}{self.suffix}", role, dims, shape, shape, kind, attributes))
        return replace(self, outliers=tuple(found))
