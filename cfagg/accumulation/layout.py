"""The arrays of an accumulation group: names, shapes, dtypes and chunks, determined before any data are read.

The convention requires the dimensions of the data in ``_ARRAY_DIMENSIONS`` of sums.  xarray requires that each name has
one length in a group and its parent groups, so everywhere else dimensions with other lengths have other names.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.accumulation.integrity import CHECKS, ROWS, STAMPS, room
from cfagg.accumulation.options import Settings
from cfagg.accumulation.source import Meaning
from cfagg.conventions.accumulation import write_array
from cfagg.conventions.accumulation_model import sample_positions
from cfagg.formats.zarr import ZarrArray
from cfagg.kernels.statistics import FAN_OUT
from cfagg.model import Regular

__all__ = ["ArraySpec", "Axes", "Layout", "Level", "Sums", "build_layout", "own_dims", "raw_dims"]

Axes = tuple[int, ...]


def own_dims(dims: Sequence[str], axes: Sequence[int], word: str) -> tuple[str, ...]:
    """Return dimension names, with the suffix `word` along `axes`, where entries are samples or chunks."""
    out = []
    for a, d in enumerate(dims):
        name = f"{d}_{word}" if a in axes else d
        while a in axes and name in dims:
            name += "_"
        out.append(name)
    return tuple(out)


def raw_dims(names: Sequence[str], dims: Sequence[str], axes: Sequence[int], word: str) -> tuple[str, ...]:
    """Return the dimensions of the data that names represent, in any order; other names are kept."""
    table = dict(zip(own_dims(dims, axes, word), dims, strict=True))
    return tuple(table.get(name, name) for name in names)


@dataclass(frozen=True)
class ArraySpec:
    """One array of the group; dimensions with other lengths than in the data have other names."""

    name: str
    #: A description of its contents.
    role: str
    dims: tuple[str, ...]
    shape: tuple[int, ...]
    chunks: tuple[int, ...]
    dtype: np.dtype[Any]
    attributes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def nbytes(self) -> int:
        """Size of all elements in bytes."""
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
    """The arrays of sums over one combination of dimensions, by quantity, either as specified or as stored."""

    #: Accumulated axes of the source, ascending; for stored arrays, the axis of the source for each of their axes.
    axes: Axes
    #: "data", multiplied by weights if there are any; "weights" of values that count; "counts", which are stored in
    #: addition to weights only if values are missing.
    arrays: Mapping[str, A]
    #: Their low parts, which are to be added; only for double-double sums.
    low: Mapping[str, A] = field(default_factory=dict)

    @property
    def data(self) -> A:
        """Sums of the data."""
        return self.arrays["data"]

    @property
    def weights(self) -> A | None:
        """The weights in terms of the convention: sums of weights, or counts if there are no weights."""
        return self.arrays.get("weights", self.arrays.get("counts"))

    def of(self, quantity: str) -> A | None:
        """Return the sums of a quantity; without weights, each cell has weight 1."""
        return self.weights if quantity == "weights" else self.arrays.get(quantity)

    def each(self, *, counts: bool = True) -> Iterator[A]:
        """Yield every array, each followed by its low parts; counts in addition to weights only if requested."""
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
    #: Those stored of ``count``, ``min``, ``max``, ``sum``, ``m2`` and ``weights``.
    arrays: Mapping[str, A]


@dataclass(frozen=True)
class Layout:
    """All arrays of the group."""

    sums: tuple[Sums[ArraySpec], ...]
    levels: tuple[Level[ArraySpec], ...]
    #: Stamps and checksums of the stored objects of the source and of related arrays.
    stamps: ArraySpec
    #: Checksums of the chunks of all arrays except this one and `stamps`.
    checksums: ArraySpec
    #: Sample positions by accumulated axis.
    boundaries: Mapping[int, ArraySpec]
    weights: ArraySpec | None
    #: Sample positions, and the number of chunks between them (1 if not accumulated), for every axis.
    samples: tuple[npt.NDArray[np.int64], ...]
    stride: tuple[int, ...]
    #: Positions and values of cells that are kept out of the sums; empty if there are none.
    outliers: tuple[ArraySpec, ...] = ()
    #: Suffix of the names of all arrays, if arrays of another build coexist with them for a while.
    suffix: str = ""
    #: The axis along which the group grows in place, or `None` if it is built as a whole.
    grows: int | None = None

    def growing(self) -> Iterator[tuple[ArraySpec, Axes, int | None]]:
        """Yield the arrays that grow along the axis, each with its accumulated axes and its level, if any."""
        for s in self.sums:
            for spec in s.each():
                yield spec, s.axes, None
        for v in self.levels:
            for spec in v.arrays.values():
                yield spec, v.axes, v.level

    def chunked(self, *, counts: bool) -> Iterator[ArraySpec]:
        """Yield every array whose chunks are listed in `checksums`; counts in addition to weights only if requested."""
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


#: Elements of 8 bytes in a chunk of sums.  A map over time then fits into one chunk, and 1 MiB decodes in about 1 ms.
_CHUNK = 1 << 17

#: Elements of a chunk that several samples may share, because the cost of smaller chunks does not depend on their size.
_SMALL = 1 << 13

#: Elements summed at a time over all samples of a combination, which bounds the memory of the second phase.
_COLUMN = 1 << 20


def build_layout(
    array: ZarrArray,
    meaning: Meaning,
    settings: Settings,
    weight_axes: Axes | None,
    previous: Mapping[str, Axes] | None = None,
    related: int = 0,
    suffix: str = "",
    grows: int | None = None,
) -> Layout:
    """Return the arrays of an accumulation of `array`, which grows in place along an axis if one is given."""
    maker = _Maker(array, meaning.dtype, settings, weight_axes is not None, previous or {}, suffix, grows)
    combinations = [tuple(array.dims.index(d) for d in c) for c in settings.dims]
    sums = tuple(maker.sums(axes) for axes in combinations)
    every = tuple(range(array.ndim))
    levels = list(maker.levels(every, ("min", "max", "std"))) if settings.statistics else []
    wanted = tuple(n for n in settings.statistics if n != "chunks")
    for axes in combinations:
        if wanted and axes != every:
            levels += maker.levels(axes, wanted)
    weights = None
    if weight_axes is not None:
        shape = tuple(array.shape[a] for a in weight_axes)
        weights = maker.plain("weights", "weights", [array.dims[a] for a in weight_axes], shape, np.float64)
    rows = array.objects.size + related
    stamps = maker.table("chunk_stamps", "stamps and checksums of stored chunks", (rows, 5), np.int64, STAMPS)
    boundaries = {
        a: maker.plain(f"boundary_{_word(array.dims[a])}", "sample positions", None, maker.samples[a].shape, np.int64)
        for a in sorted({a for c in combinations for a in c})
        if a != grows
    }
    made = Layout(
        sums, tuple(levels), stamps, stamps, boundaries, weights, maker.samples, settings.stride,
        suffix=suffix, grows=grows,
    )  # fmt: skip
    # Leave room for one chunk of each of the two arrays of outliers, which are known only after the pass over the data.
    number = 2 + sum(math.prod(spec.grid) for spec in made.chunked(counts=True))
    about = "checksums of the chunks of these arrays"
    return replace(made, checksums=maker.table("checksums", about, (number,), np.uint32, CHECKS))


@dataclass(eq=False)
class _Maker:
    """Names the arrays of one group, and chooses their shapes and chunks."""

    array: ZarrArray
    values: np.dtype[Any]
    settings: Settings
    weighted: bool
    previous: Mapping[str, Axes]
    suffix: str
    grows: int | None
    taken: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.total = np.dtype("i8" if self.settings.sums == "int64" else "f8")
        self.chunks = self.array.grid.matrix_shape
        axes = zip(self.array.grid.axes, self.array.shape, self.settings.stride, strict=True)
        self.samples = tuple(sample_positions(axis, n, s) for axis, n, s in axes)

    def sums(self, axes: Axes) -> Sums[ArraySpec]:
        """Return the arrays of one combination."""
        label, along = self._label(axes), " and ".join(self.array.dims[a] for a in axes)
        counts, reals = np.dtype("i8"), np.dtype("f8")
        named = {"data": (f"acc_{label}", f"{'weighted ' if self.weighted else ''}sums along {along}", self.total)}
        if self.weighted:
            named["weights"] = (f"acc_wt_{label}", f"weights along {along}", reals)
        named["counts"] = (f"cnt_{label}" if self.weighted else f"acc_wt_{label}", f"counts along {along}", counts)
        arrays, low = {}, {}
        for quantity, (name, role, dtype) in named.items():
            if self.settings.sums == "double-double" and quantity != "counts":
                low[quantity] = self._sum(f"{name}_low", f"low part of {name}", axes, reals)
            arrays[quantity] = self._sum(name, role, axes, dtype)
        return Sums(axes, arrays, low)

    def levels(self, axes: Axes, wanted: Sequence[str]) -> Iterator[Level[ArraySpec]]:
        """Yield the levels of one combination, from the chunk grid up to one cell."""
        label, level = self._label(axes), 0
        kinds: dict[str, np.dtype[Any]] = {"count": np.dtype("i8")}
        kinds |= {k: self.values for k in ("min", "max") if k in wanted}
        if "std" in wanted:
            kinds |= {"sum": self.total, "m2": np.dtype("f8")}
            if self.weighted:
                kinds["weights"] = np.dtype("f8")
        while True:
            shape = tuple(self._cells(a, level) if a in axes else n for a, n in enumerate(self.array.shape))
            if level and 0 in (shape[a] for a in axes):
                return  # no cell is complete yet
            suffix = f"_level{level}" if level else ""
            arrays = {}
            for kind, dtype in kinds.items():
                stem = "w" if kind == "weights" else kind
                role = f"{kind} per {'chunk' if not level else f'{FAN_OUT**level} chunks'}"
                name = self._name(f"{stem}_{label}{suffix}")
                dims = own_dims(self.array.dims, axes, f"chunks{suffix}")
                attributes = {"_ARRAY_DIMENSIONS": list(dims)}
                arrays[kind] = ArraySpec(name, role, dims, shape, self._chunks(name, shape, axes), dtype, attributes)
            yield Level(axes, level, arrays)
            if max(shape[a] for a in axes) <= 1:
                return
            level += 1

    def _cells(self, axis: int, level: int) -> int:
        """Return the number of cells of a level along an axis; along a growing one, only complete (final) cells."""
        size: int = FAN_OUT**level
        return self.chunks[axis] // size if axis == self.grows else -(-self.chunks[axis] // size)

    def table(self, name: str, role: str, shape: Axes, dtype: Any, width: int) -> ArraySpec:
        """Return a table; in a growing group, one to which rows can be appended."""
        if self.grows is None:
            return self.plain(name, role, None, shape, dtype)
        return replace(self.plain(name, role, None, (room(shape[0]), width), np.int64), chunks=(ROWS, width))

    def plain(self, name: str, role: str, dims: Sequence[str] | None, shape: Axes, dtype: Any) -> ArraySpec:
        """Return an array that is not a grid of sums."""
        name = self._name(name)
        names = tuple(dims) if dims is not None else tuple(f"{name}_{i}" for i in range(len(shape)))
        chunks = [1] * len(shape)
        _fill(chunks, shape, range(len(shape)), _CHUNK)
        attributes = {"_ARRAY_DIMENSIONS": list(names)}
        return ArraySpec(name, role, names, shape, tuple(chunks), np.dtype(dtype), attributes)

    def _sum(self, name: str, role: str, axes: Axes, dtype: np.dtype[Any]) -> ArraySpec:
        shape = tuple(len(self.samples[a]) if a in axes else n for a, n in enumerate(self.array.shape))
        dims, stride = self.array.dims, self.settings.stride
        attributes = write_array(dims, {dims[a]: stride[a] for a in axes})
        name = self._name(name)
        named = own_dims(dims, axes, "accumulated")
        return ArraySpec(name, role, named, shape, self._chunks(name, shape, axes), dtype, attributes)

    def _chunks(self, name: str, shape: Axes, axes: Axes) -> Axes:
        """Return the chunks of an array with samples along `axes` and full resolution along the others."""
        if self.grows is not None:
            return self._chunks_of_slabs(shape, axes, self.grows)
        counts = sorted(self.chunks[a] for a in axes)
        # All samples except those of one axis are in memory together.
        left = max(1, min(_CHUNK, _COLUMN // max(1, math.prod(counts[1:]))))
        chunks = [1] * len(shape)
        for a in reversed(range(len(shape))):
            if a not in axes:
                chunks[a] = _run(shape[a], left, self.array.grid.axes[a])
                left = max(1, left // chunks[a])
        _fill(chunks, shape, axes, (_SMALL if len(axes) == 1 else _CHUNK) // math.prod(chunks))
        old = self.previous.get(name)
        if old is not None and len(old) == len(chunks) and all(4 * o >= c for o, c in zip(old, chunks, strict=True)):
            return old
        return tuple(chunks)

    def _chunks_of_slabs(self, shape: Axes, axes: Axes, grows: int) -> Axes:
        """Return the chunks of an array that grows, which are small because the last ones are rewritten."""
        left, chunks = _CHUNK, [1] * len(shape)
        others = [a for a in reversed(range(len(shape))) if a != grows]
        for a in sorted(others, key=lambda a: a in axes):
            chunks[a] = max(1, min(shape[a], left)) if a in axes else _run(shape[a], left, self.array.grid.axes[a])
            left = max(1, left // chunks[a])
        chunks[grows] = max(1, _SMALL // math.prod(chunks))
        return tuple(chunks)

    def _label(self, axes: Axes) -> str:
        return "_".join(_word(self.array.dims[a]) for a in axes)

    def _name(self, name: str) -> str:
        """Return a unique name in the group, since names of dimensions such as "a_b", "c" and "a", "b_c" coincide."""
        unique, n = f"{name}{self.suffix}", 2
        while unique in self.taken:
            unique, n = f"{name}.{n}{self.suffix}", n + 1
        self.taken.add(unique)
        return unique


def _fill(chunks: list[int], shape: Axes, axes: Sequence[int], most: int) -> None:
    """Extend a chunk along some axes, the last first, up to the shape of the array and to `most` cells."""
    left = max(1, most)
    for a in reversed(axes):
        chunks[a] = max(1, min(shape[a], left))
        left = max(1, left // chunks[a])


def _word(name: str) -> str:
    """Return the name of a dimension in a form that is allowed in names of Zarr nodes."""
    return re.sub(r"[^\w.\-]", "_", name) or "_"


def _run(length: int, most: int, axis: Any) -> int:
    """Return the length of a chunk along a dimension at full resolution, in whole source chunks if they are equal."""
    if length <= most:
        return max(1, length)
    if isinstance(axis, Regular) and axis.chunk <= most:
        return most // axis.chunk * axis.chunk
    return most
