"""The arrays of an accumulation group: opened, checked against what the group says, and read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from cfagg.accumulation.integrity import Stored, checked, read_checked
from cfagg.accumulation.naming import raw_dims
from cfagg.conventions.accumulation import Combinations, Extra, parse_array
from cfagg.conventions.accumulation_model import Table
from cfagg.conventions.accumulation_record import Checks
from cfagg.errors import ConventionError, FragmentReadError, Problem, SourceError, UnsupportedError
from cfagg.formats.zarr.chunks import partial, read_box, read_chunk
from cfagg.formats.zarr.metadata import ZarrArray, open_array

__all__ = [
    "CellWeights",
    "Level",
    "Outliers",
    "SumArrays",
    "WeightField",
    "find",
    "find_checksums",
    "find_stamps",
    "read_outliers",
    "read_statistics",
    "read_stored",
    "read_sums",
    "read_whole",
    "takes_parts",
]

Dims = tuple[str, ...]
Positions = Mapping[str, npt.NDArray[np.int64]]

_INT, _REAL = np.dtype("i8"), np.dtype("f8")

#: Weights with more cells than this are not held in memory, nor summed cell by cell where their sums are stored.
MANY_WEIGHTS = 1 << 22


@dataclass(frozen=True, eq=False)
class SumArrays:
    """The cumulative sums of one combination of dimensions; `axes` has the source's axis of each of their axes."""

    data: ZarrArray
    #: Sums of the weights of valid cells, or their counts where there are no weights.
    weights: ZarrArray | None
    #: What is to be added to `data` and `weights`: their low parts, double-double only.
    low: ZarrArray | None
    weights_low: ZarrArray | None
    #: Counts of valid cells, where there are weights and something is missing.
    counts: ZarrArray | None
    axes: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Level:
    """Statistics of one combination at one level of its pyramid, whose cells are ``8**level`` chunks of the source."""

    level: int
    #: By ``count``, ``min``, ``max``, ``sum``, ``m2`` and ``weights``, as far as they are stored.
    arrays: Mapping[str, ZarrArray]
    axes: tuple[int, ...]


class CellWeights:
    """The weights of the cells, which may span fewer dimensions than the source."""

    #: Axis of the source of each axis of the weights, ascending.
    axes: tuple[int, ...]
    #: Whether the weight of a single cell can be told.
    known: ClassVar[bool] = True

    @property
    def many(self) -> bool:
        """Whether they are too many to be held in memory."""
        return False

    @property
    def array(self) -> npt.NDArray[np.float64]:
        """The weights; read-only."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class WeightField(CellWeights):
    """Weights that are kept in the store."""

    stored: ZarrArray
    axes: tuple[int, ...]

    @property
    def many(self) -> bool:
        """Whether they are too many to be held in memory."""
        return self.stored.size > MANY_WEIGHTS

    @cached_property
    def array(self) -> npt.NDArray[np.float64]:
        """The weights, read when they are first asked for; read-only."""
        return read_whole(self.stored)

    def __getstate__(self) -> dict[str, Any]:
        return {"stored": self.stored, "axes": self.axes}


@dataclass(frozen=True, eq=False)
class Outliers:
    """Cells that are kept out of the sums: those of larger magnitude than `limit`."""

    limit: float
    #: Where positions and values are kept.
    stored: tuple[ZarrArray, ZarrArray]

    @cached_property
    def positions(self) -> npt.NDArray[np.int64]:
        """Positions in the source, of shape (cells, dimensions), read when they are first asked for."""
        return read_whole(self.stored[0])

    @cached_property
    def values(self) -> npt.NDArray[Any]:
        """The stored values, read when they are first asked for."""
        return read_whole(self.stored[1])

    def __getstate__(self) -> dict[str, Any]:
        return {"limit": self.limit, "stored": self.stored}


def read_stored(array: ZarrArray, index: Sequence[int], box: tuple[slice, ...] | None = None) -> npt.NDArray[Any]:
    """Return a chunk of an array of the group or a box of it; of cfagg's own, the checksum of the whole is compared."""
    if isinstance(array, Stored):
        whole = read_checked(array, tuple(index))
        return whole if box is None else whole[box]
    chunk = read_chunk(array, index) if box is None else read_box(array, index, box)
    if chunk is None:
        raise FragmentReadError(
            f"{array.store}: the accumulation is damaged: {array.path!r} has no chunk {tuple(map(int, index))} "
            f"({array.folder}/{array.key(array.object_of(index))}); rebuild it with cfagg accumulate --overwrite"
        )
    return chunk


def takes_parts(array: ZarrArray) -> bool:
    """Return whether reading a box of a chunk reads no more than the bytes that the box needs."""
    return partial(array) and not isinstance(array, Stored)


def read_whole(array: ZarrArray) -> npt.NDArray[Any]:
    """Return all elements of an array of the group; read-only."""
    out = np.empty(array.shape, array.dtype)
    for index in np.ndindex(array.grid.matrix_shape):
        out[tuple(slice(a, b) for a, b in array.grid.extent(index))] = read_stored(array, index)
    out.flags.writeable = False
    return out


@dataclass(frozen=True)
class _Finder:
    """Opens arrays of one group, and notes what is wrong with them."""

    source: ZarrArray
    path: str
    dims: Dims
    shape: tuple[int, ...]
    checks: Checks
    book: ZarrArray | None
    problems: list[Problem] = field(default_factory=list)

    @classmethod
    def of(cls, source: ZarrArray, path: str, extra: Extra, book: ZarrArray | None, problems: list[Problem]) -> _Finder:
        return cls(source, path, extra.source.dims, extra.source.shape, extra.checks, book, problems)

    def along(self, sizes: Mapping[str, int]) -> dict[str, int]:
        """Return the sizes of all dimensions, these in place of the source's."""
        return {d: sizes.get(d, n) for d, n in zip(self.dims, self.shape, strict=True)}

    def open(
        self,
        name: str,
        dtypes: Sequence[np.dtype[Any]],
        sizes: Mapping[str, int],
        order: Dims | None = None,
        counted: tuple[Dims, str] | None = None,
    ) -> ZarrArray | None:
        """Return an array with these dimensions, in this order if one is given, else in any."""
        # `counted` are dimensions along which it has a name of its own for what it counts, and that name's last part.
        array = find(self.source, self.path, name, self.problems)
        if array is None:
            return None
        before = len(self.problems)
        array = checked(array, self.checks, self.book, self.problems)
        if counted is not None:
            axes = [self.dims.index(d) for d in counted[0]]
            array = replace(array, dims=raw_dims(array.dims, self.dims, axes, counted[1]))
        if array.dtype not in dtypes:
            expected = " or ".join(dict.fromkeys(t.name for t in dtypes))
            self.problems.append(Problem(name, f"type {expected} expected, found {array.dtype.name}"))
        if set(array.dims) != set(sizes):
            self.problems.append(Problem(name, f"dimensions {list(sizes)} expected, found {list(array.dims)}"))
        elif order is not None and array.dims != order:
            self.problems.append(
                Problem(name, f"dimensions {list(order)} expected in this order, found {list(array.dims)}")
            )
        elif array.shape != (expected_shape := tuple(sizes[d] for d in array.dims)):
            self.problems.append(Problem(name, f"shape {expected_shape} expected, found {array.shape}"))
        return array if len(self.problems) == before else None

    def check_stride(self, array: ZarrArray, combination: Dims, stride: Mapping[str, int]) -> None:
        """Note attributes of an array of sums that disagree with the group."""
        try:
            parsed = parse_array(
                {**array.attributes, "_ARRAY_DIMENSIONS": list(array.dims)},
                ndim=array.ndim,
                dims=self.dims,
                combination=combination,
                source=array.name,
            )
        except ConventionError as error:
            self.problems.extend(Problem(f"{array.name}.{p.where}", p.message) for p in error.problems)
            return
        for d, n in zip(parsed.dims, parsed.stride, strict=True):
            if n != (expected := stride[d] if d in combination else 0):
                self.problems.append(Problem(array.name, f"stride {n} along {d!r}, but the group says {expected}"))


def find(source: ZarrArray, path: str, name: str, problems: list[Problem]) -> ZarrArray | None:
    """Return an array of a group, or note why it cannot be opened."""
    try:
        return open_array(source.store, f"{path}/{name}", allow=source.allow)
    except (SourceError, UnsupportedError, ConventionError) as error:
        problems.append(Problem(name, str(error)))
        return None


def read_sums(
    source: ZarrArray,
    path: str,
    combinations: Combinations,
    extra: Extra,
    positions: Positions,
    book: ZarrArray | None,
    problems: list[Problem],
) -> dict[Dims, SumArrays]:
    """Return the arrays of every combination, and note those that are missing or not as they should be."""
    finder = _Finder.of(source, path, extra, book, problems)
    weighted = extra.weights is not None
    value = [_INT] if extra.sums == "int64" else [_REAL]
    weight = [_REAL] if weighted else [_INT]
    out = {}
    for combination, names in combinations.items():
        sizes = finder.along({d: len(positions[d]) for d in combination})
        # `parse_extra` has checked that both are named.
        data_name = str(names.weighted if weighted else names.unweighted)
        data = finder.open(data_name, value, sizes)
        order = None if data is None else data.dims
        weights = finder.open(str(names.weights), weight, sizes, order)
        for array in (data, weights):
            if array is not None:
                finder.check_stride(array, combination, extra.stride)
        low, weights_low, counts = (
            None if name is None else finder.open(name, [dtype], sizes, order)
            for name, dtype in (
                (extra.low.get(data_name), _REAL),
                (extra.low.get(str(names.weights)), _REAL),
                (extra.counts.get(combination), _INT),
            )
        )
        if weighted and (extra.missing or extra.nonfinite or extra.outliers) and combination not in extra.counts:
            problems.append(Problem(data_name, "values are missing, and the group names no counts for these sums"))
        if data is not None:
            axes = tuple(extra.source.dims.index(d) for d in data.dims)
            out[combination] = SumArrays(data, weights, low, weights_low, counts, axes)
    return out


def read_statistics(
    source: ZarrArray, path: str, extra: Extra, book: ZarrArray | None, problems: list[Problem]
) -> dict[Dims, tuple[Level, ...]]:
    """Return the levels of the statistics by combination, and note what is wrong with them."""
    finder = _Finder.of(source, path, extra, book, problems)
    chunks = dict(zip(extra.source.dims, extra.source.grid.matrix_shape, strict=True))
    raw = np.dtype(extra.source.dtype)
    values = [raw, np.dtype(raw.str.replace("i", "u"))] if extra.mask.unsigned else [raw]
    values = [np.dtype("u1")] if raw.kind == "b" else values
    kinds = {
        "count": [_INT],
        "min": values,
        "max": values,
        "sum": [_INT, _REAL],
        "m2": [_REAL],
        "weights": [_REAL],
    }
    out: dict[Dims, list[Level]] = {}
    for entry in extra.statistics:
        combination = tuple(d for d in extra.source.dims if d in entry.dims)
        sizes = finder.along({d: -(-chunks[d] // 8**entry.level) for d in combination})
        order: Dims | None = None
        arrays = {}
        for kind, name in entry.arrays.items():
            word = f"chunks_level{entry.level}" if entry.level else "chunks"
            array = finder.open(name, kinds[kind], sizes, order, (combination, word))
            if array is not None:
                arrays[kind], order = array, array.dims
        axes = tuple(extra.source.dims.index(d) for d in order or ())
        out.setdefault(combination, []).append(Level(entry.level, Table(arrays), axes))
    return {c: tuple(sorted(levels, key=lambda level: level.level)) for c, levels in out.items()}


def read_weights(
    source: ZarrArray, path: str, extra: Extra, book: ZarrArray | None, problems: list[Problem]
) -> WeightField | None:
    """Return the weights, and note what is wrong with them."""
    if extra.weights is None:
        return None
    finder = _Finder.of(source, path, extra, book, problems)
    dims = tuple(d for d in extra.source.dims if d in extra.weights.dims)
    sizes = finder.along({})
    stored = finder.open(extra.weights.array, [_REAL], {d: sizes[d] for d in dims}, dims)
    return None if stored is None else WeightField(stored, tuple(extra.source.dims.index(d) for d in dims))


def read_outliers(
    source: ZarrArray, path: str, extra: Extra, book: ZarrArray | None, problems: list[Problem]
) -> Outliers | None:
    """Return the cells that are kept out of the sums, and note what is wrong with them."""
    if extra.outliers is None:
        return None
    positions, values = (find(source, path, n, problems) for n in (extra.outliers.positions, extra.outliers.values))
    if positions is None or values is None:
        return None
    positions, values = (checked(array, extra.checks, book, problems) for array in (positions, values))
    ndim, raw = len(extra.source.shape), np.dtype(extra.source.dtype)
    if positions.dtype != _INT or positions.ndim != 2 or positions.shape[1] != ndim:
        message = f"int64 of shape (cells, {ndim}) expected, found {positions.dtype.name} of {positions.shape}"
        problems.append(Problem(extra.outliers.positions, message))
    elif values.shape != positions.shape[:1] or values.dtype.itemsize != raw.itemsize:
        message = f"{raw.name} of shape {positions.shape[:1]} expected, found {values.dtype.name} of {values.shape}"
        problems.append(Problem(extra.outliers.values, message))
    else:
        return Outliers(extra.outliers.limit, (positions, values))
    return None


def check_boundaries(
    source: ZarrArray, path: str, extra: Extra, positions: Positions, book: ZarrArray | None, problems: list[Problem]
) -> None:
    """Note stored boundaries that are not those of the chunks and strides that the group names."""
    for d, name in extra.boundaries.items():
        array = find(source, path, name, problems)
        if array is None:
            continue
        array = checked(array, extra.checks, book, problems)
        if array.shape != positions[d].shape or array.dtype.kind not in "iu":
            problems.append(Problem(name, f"{len(positions[d])} integers expected, found shape {array.shape}"))
            continue
        try:
            stored = read_whole(array)
        except FragmentReadError as error:
            problems.append(Problem(name, str(error)))
            continue
        if not np.array_equal(stored, positions[d]):
            problems.append(Problem(name, f"not the boundaries of every {extra.stride[d]} chunks along {d!r}"))


def find_stamps(source: ZarrArray, path: str, extra: Extra, problems: list[Problem]) -> ZarrArray | None:
    """Return the array of stamps, and note what is wrong with it."""
    rows = extra.source.objects + sum(r.objects for r in extra.related)
    return _own(source, path, extra, extra.stamps, _INT, (rows, 5), problems)


def find_checksums(source: ZarrArray, path: str, extra: Extra, problems: list[Problem]) -> ZarrArray | None:
    """Return the array of checksums, and note what is wrong with it."""
    count = sum(number for _, number, _ in extra.checks.places.values())
    return _own(source, path, extra, extra.checks.array, np.dtype("u4"), (count,), problems, or_more=True)


def _own(
    source: ZarrArray,
    path: str,
    extra: Extra,
    name: str,
    dtype: np.dtype[Any],
    shape: tuple[int, ...],
    problems: list[Problem],
    *,
    or_more: bool = False,
) -> ZarrArray | None:
    """Return an array whose checksums are in the attributes of the group."""
    array = find(source, path, name, problems)
    if array is None:
        return None
    fits = array.shape == shape or (or_more and array.ndim == 1 and array.shape >= shape)
    if array.dtype != dtype or not fits:
        problems.append(Problem(name, f"{dtype.name} of shape {shape} expected, found {array.dtype.name} of "
                                      f"{array.shape}"))  # fmt: skip
        return None
    if name not in extra.checks.own:
        problems.append(Problem(name, "the group keeps no checksums of it"))
        return None
    return checked(array, extra.checks, None, problems)
