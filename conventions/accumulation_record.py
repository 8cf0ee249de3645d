"""The attribute ``cfagg`` of an accumulation group as an immutable value; see `accumulation_extra`.

The annotations describe each value in JSON; reading, checking and writing are derived from them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt

from cfagg.conventions import limits
from cfagg.conventions.accumulation_fields import (
    DIMS,
    FINITE,
    NODE,
    NUMBER,
    TEXT,
    Kind,
    Place,
    integer,
    kind,
    listing,
    one_of,
    record,
    table,
)
from cfagg.conventions.accumulation_model import Dims, Table
from cfagg.conventions.dtypes import is_known, numpy_dtype
from cfagg.errors import ModelError
from cfagg.model import Grid, Regular
from cfagg.model.runs import run_lengths

__all__ = [
    "GROWING",
    "VERSION",
    "Checks",
    "Chunks",
    "Excluded",
    "Extra",
    "Growth",
    "LevelNames",
    "MagnitudesRecord",
    "MaskRecord",
    "OutliersRecord",
    "Packing",
    "Related",
    "Source",
    "WeightsRecord",
    "run_lengths",
]

#: Version of the attribute that is written; the version for groups that grow in place, written for these only.
VERSION, GROWING = 2, 3

#: Keys of the statistics that a level of the chunk grid may have.
STATISTICS = ("count", "min", "max", "sum", "m2", "weights")

#: Chunks of one dimension: their length if it is the same for all, else runs of (length, number).
Chunks = int | tuple[tuple[int, int], ...]

_TOKEN = kind(
    "8 to 128 hexadecimal digits", lambda v: isinstance(v, str) and re.fullmatch(r"[0-9a-f]{8,128}", v) is not None
)
_MANY = limits.MAX_COMBINATIONS
_TEXTS = table(TEXT, _MANY)
_NUMBERS = listing(integer(), limits.MAX_PARTITIONS)


def _read_chunks(value: Any, place: Place) -> Chunks:
    """Return the chunks of one dimension: one length, or a bounded number of runs of lengths."""
    if type(value) is int and 0 < value < 2**63:
        return value
    if not isinstance(value, list):
        place.wrong("a length of at least 1 or a list of [length, run] pairs", value)
        return 1
    count = reach = 0
    for i, pair in enumerate(value):
        if not (isinstance(pair, list) and len(pair) == 2 and all(type(n) is int and n > 0 for n in pair)):
            place.at(i).wrong("a pair [length, run] of integers of at least 1", pair)
            return 1
        count, reach = count + pair[1], reach + pair[0] * pair[1]
        if count > limits.MAX_PARTITIONS or reach >= 2**63:
            place.problem(f"more than {limits.MAX_PARTITIONS} chunks, or a length beyond 64 bits")
            return 1
    return tuple((length, run) for length, run in value)


def _is_numeric(value: Any) -> bool:
    return isinstance(value, str) and is_known(value) and getattr(numpy_dtype(value), "kind", "O") in "biuf"


@dataclass(frozen=True, slots=True)
class Source:
    """The array that was summed, as it was when the sums were built."""

    name: str
    dims: Annotated[Dims, DIMS]
    shape: Annotated[tuple[int, ...], listing(integer())]
    #: Per dimension the length of its chunks, or runs of (length, number).
    chunks: Annotated[tuple[Chunks, ...], listing(Kind(_read_chunks, lambda: 1))]
    #: NumPy's name of its stored type.
    dtype: Annotated[str, kind("a numeric type", _is_numeric)]
    #: Other metadata that determine how its bytes are decoded: canonical JSON text by name.
    encoding: Annotated[Table[str, str], _TEXTS]
    #: Number of its objects, stored or not, which are the first rows of the table of stamps.
    objects: int

    @classmethod
    def of(
        cls, name: str, dims: Dims, grid: Grid, dtype: npt.DTypeLike, encoding: Table[str, str], objects: int
    ) -> Source:
        """Return the description of an array with this grid of chunks."""
        chunks = tuple(a.chunk if isinstance(a, Regular) else run_lengths(np.diff(a)) for a in grid.axes)
        return cls(name, tuple(dims), grid.shape, chunks, np.dtype(dtype).name, encoding, objects)

    @property
    def grid(self) -> Grid:
        """The grid of chunks."""
        axes: list[Regular | npt.ArrayLike] = []
        for length, chunk in zip(self.shape, self.chunks, strict=True):
            if isinstance(chunk, int):
                axes.append(Regular(length, chunk))
            else:
                lengths, runs = np.array(chunk, dtype=np.int64).reshape(-1, 2).T
                axes.append(np.concatenate([[0], np.cumsum(np.repeat(lengths, runs))]))
        return Grid(axes, self.shape)

    def check(self, place: Place) -> None:
        """Note dimensions, sizes and chunks that do not match."""
        if not len(self.dims) == len(self.shape) == len(self.chunks):
            place.problem(f"{len(self.dims)} dims, {len(self.shape)} sizes in shape and {len(self.chunks)} chunks")
            return
        try:
            _ = self.grid
        except ModelError as error:
            for problem in error.problems:
                place.at("chunks").problem(str(problem))


@dataclass(frozen=True, slots=True)
class Packing:
    """How stored values x mean scale_factor * x + add_offset."""

    scale_factor: Annotated[float, FINITE]
    add_offset: Annotated[float, FINITE]


@dataclass(frozen=True, slots=True)
class MaskRecord:
    """Which stored (packed) values count as missing, besides NaN and infinities, which always do."""

    fills: Annotated[tuple[int | float, ...], listing(NUMBER)] = ()
    #: Smallest and largest value that is not missing.
    valid_min: Annotated[int | float | None, NUMBER.nullable] = None
    valid_max: Annotated[int | float | None, NUMBER.nullable] = None
    #: Whether integers are read as unsigned although stored as signed.
    unsigned: bool = False

    def _key(self) -> tuple[object, ...]:
        # NaN is a fill value like any other here: it equals itself, and 0 is not 0.0 in a uint64 beyond 2**53.
        return (tuple(map(repr, self.fills)), repr(self.valid_min), repr(self.valid_max), self.unsigned)

    def __eq__(self, other: object) -> bool:
        return self._key() == other._key() if isinstance(other, MaskRecord) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key())


@dataclass(frozen=True, slots=True)
class WeightsRecord:
    """The origin of the weights and where they are stored."""

    #: A variable of the store, or an array passed by the caller.
    kind: Annotated[str, one_of(("area", "variable", "array"))]
    #: The variable that they were computed from.
    name: Annotated[str | None, TEXT.nullable]
    #: Array of the group that stores them, float64, and the dimensions they span in the source's order.
    array: Annotated[str, NODE]
    dims: Annotated[Dims, DIMS]


@dataclass(frozen=True, slots=True)
class Related:
    """Another array of the store on which answers depend: a coordinate, or the source of the weights."""

    path: str
    #: "weights" for an array that is used for both.
    use: Annotated[str, one_of(("coordinate", "weights"))]
    #: Canonical JSON text of its relevant metadata; empty if something else was used instead.
    description: Annotated[Table[str, str], _TEXTS]
    #: Number of its objects, stored or not, which are its rows in the table of stamps, in the order of this list.
    objects: int


def _read_triple(value: Any, place: Place) -> tuple[int, ...]:
    found: tuple[int, ...] = _NUMBERS.read(value, place)
    if isinstance(value, list) and len(value) != 3:
        place.wrong("a list of 3 numbers", value)
    return found


@dataclass(frozen=True, slots=True)
class Checks:
    """Evidence that the arrays of a group are from one build and undamaged."""

    #: Hexadecimal; each array repeats it in its attributes.
    build: Annotated[str, _TOKEN]
    #: Array of CRC-32C of the stored chunks of all other arrays.
    array: Annotated[str, NODE]
    #: By array: index of its first chunk in that array, number of its chunks, CRC-32C of its metadata.
    places: Annotated[Table[str, tuple[int, int, int]], table(Kind(_read_triple, tuple), _MANY)]
    #: CRC-32C of the metadata and then of the chunks, for that array itself and for the stamps.
    own: Annotated[Table[str, tuple[int, ...]], table(_NUMBERS, 2)]


def _read_level(value: Mapping[str, Any], place: Place) -> Table[str, str]:
    return Table({name: NODE.read(value[name], place.at(name)) for name in STATISTICS if name in value})


@dataclass(frozen=True, slots=True)
class LevelNames:
    """Names of the statistics of one combination at one level of its pyramid, by kind, if stored."""

    dims: Annotated[Dims, DIMS]
    #: A cell is ``8**level`` chunks along these dimensions.
    level: int
    arrays: Annotated[Table[str, str], Kind(_read_level, Table, inline=True)]


_REAL = replace(FINITE, read=lambda value, place: float(FINITE.read(value, place)), fits=None)


@dataclass(frozen=True, slots=True)
class MagnitudesRecord:
    """Magnitudes of the summed values, which give a bound on the error of an answer."""

    #: At most some 5 % of the nonzero values of any chunk are smaller; 0 if not known.
    small: Annotated[float, _REAL]
    #: Upper bounds of the magnitude of any value in the sums, and of any weight.
    largest: Annotated[float, _REAL]
    heaviest: Annotated[float, _REAL] = 1.0

    def check(self, place: Place) -> None:
        """Note numbers that contradict each other."""
        if not (0 <= self.small <= self.largest and self.heaviest >= 0):
            place.problem(f"0 <= small <= largest and heaviest >= 0 expected, found {self}")


@dataclass(frozen=True, slots=True)
class OutliersRecord:
    """Cells that are excluded from the sums, weights and counts because they would cost the others precision."""

    #: Stored values of larger magnitude are excluded.
    limit: Annotated[int | float, FINITE]
    #: Arrays of the group: positions as int64 of shape (cells, dimensions), and stored values.
    positions: Annotated[str, NODE]
    values: Annotated[str, NODE]

    def check(self, place: Place) -> None:
        """Note a limit that excludes everything."""
        if self.limit <= 0:
            place.at("limit").wrong("a number above 0", self.limit)


def _read_four(value: Any, place: Place) -> tuple[int, ...]:
    found: tuple[int, ...] = _NUMBERS.read(value, place)
    if len(found) != 4:
        place.wrong("a list of 4 numbers", value)
        return 0, 0, 0, 0
    return found


_FOUR = Kind(_read_four, lambda: (0, 0, 0, 0))


@dataclass(frozen=True, slots=True)
class Growth:
    """Growth of a group in place along one dimension: the valid rows of its two tables, and their checksums."""

    #: The dimension that grows.
    dim: str
    #: For the table of stamps: the number of rows that stay unchanged and their CRC-32C, then those of the rows after
    #: them, which may change.
    stamps: Annotated[tuple[int, int, int, int], _FOUR]
    #: The same for the table of checksums.
    checks: Annotated[tuple[int, int, int, int], _FOUR]
    #: Infinite elements in the part of the array that stays; others are counted again when they are read again.
    infinite: int = 0


@dataclass(frozen=True, slots=True)
class Excluded:
    """Number of excluded elements, and of the infinite ones among them."""

    missing: int = 0
    nonfinite: int = 0


@dataclass(frozen=True, slots=True)
class CountNames:
    """Name of the cumulative counts of one combination."""

    dims: Annotated[Dims, DIMS]
    array: Annotated[str, NODE]


_COUNTS = listing(record(CountNames), _MANY)


def _read_counts(value: Any, place: Place) -> Table[Dims, str]:
    found: tuple[CountNames, ...] = _COUNTS.read(value, place)
    seen: set[Dims] = set()
    for i, entry in enumerate(found):
        if entry.dims in seen:
            place.at(i).at("dims").problem(f"the counts of {list(entry.dims)} occur twice")
        seen.add(entry.dims)
    return Table((e.dims, e.array) for e in found)


def _write_counts(counts: Mapping[Dims, str]) -> Any:
    return _COUNTS.write([CountNames(dims, name) for dims, name in counts.items()])


@dataclass(frozen=True, slots=True)
class Extra:
    """The attribute ``cfagg`` of an accumulation group."""

    #: The summed array.
    source: Annotated[Source, record(Source)]
    #: Array of stamps and checksums of the stored objects of the source, and then of the related arrays.
    stamps: Annotated[str, NODE]
    checks: Annotated[Checks, record(Checks)]
    #: How stored values are unpacked; the sums are of stored ones.
    packing: Annotated[Packing | None, record(Packing).nullable] = None
    mask: Annotated[MaskRecord, record(MaskRecord)] = field(default_factory=MaskRecord)
    weights: Annotated[WeightsRecord | None, record(WeightsRecord).nullable] = None
    #: The number type of the sums.
    sums: Annotated[str, one_of(("float64", "int64", "double-double"))] = "float64"
    #: Chunks between two samples per accumulated dimension.
    stride: Annotated[Table[str, int], table(integer(1), limits.MAX_RANK)] = field(default_factory=Table)
    excluded: Annotated[Excluded, record(Excluded)] = field(default_factory=Excluded)
    #: Names of the arrays of low parts, by the arrays they belong to; double-double only.
    low: Annotated[Table[str, str], table(NODE, _MANY)] = field(default_factory=Table)
    #: Names of cumulative counts by combination, if weights are used and values are missing.
    counts: Annotated[Table[Dims, str], Kind(_read_counts, Table, _write_counts)] = field(default_factory=Table)
    statistics: Annotated[tuple[LevelNames, ...], listing(record(LevelNames), _MANY)] = ()
    #: Name of the array of sample positions by accumulated dimension.
    boundaries: Annotated[Table[str, str], table(NODE, limits.MAX_RANK)] = field(default_factory=Table)
    #: Other arrays of the store on which answers depend.
    related: Annotated[tuple[Related, ...], listing(record(Related), _MANY)] = ()
    #: Program and version that wrote the group.
    created_by: str = "cfagg"
    #: None if sums are exact, and in groups of older versions.
    magnitudes: Annotated[MagnitudesRecord | None, record(MagnitudesRecord).optional] = None
    outliers: Annotated[OutliersRecord | None, record(OutliersRecord).optional] = None
    #: None for groups that are built as a whole.
    growth: Annotated[Growth | None, record(Growth).optional] = None

    @property
    def version(self) -> int:
        """Version of the attribute."""
        return VERSION if self.growth is None else GROWING

    @property
    def arrays(self) -> tuple[str, ...]:
        """Every array that is named, in order."""
        return (
            *([self.weights.array] if self.weights else []),
            *self.low.values(),
            *self.counts.values(),
            *(name for level in self.statistics for name in level.arrays.values()),
            self.stamps,
            self.checks.array,
            *self.boundaries.values(),
            *([self.outliers.positions, self.outliers.values] if self.outliers else []),
        )
