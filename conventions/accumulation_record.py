"""The attribute ``cfagg`` of an accumulation group as a value that does not change; see `accumulation_extra`."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from cfagg.conventions.accumulation_model import Dims, Table
from cfagg.model import Grid, Regular

__all__ = [
    "KINDS_OF_SUMS",
    "KINDS_OF_WEIGHTS",
    "STATISTICS",
    "USES",
    "VERSION",
    "Checks",
    "Chunks",
    "Extra",
    "LevelNames",
    "MagnitudesRecord",
    "MaskRecord",
    "OutliersRecord",
    "Packing",
    "Related",
    "Source",
    "WeightsRecord",
    "example",
    "run_lengths",
]

#: Version of the attribute that is written, and the only one that is read.
VERSION = 2

#: In which numbers was summed.
KINDS_OF_SUMS = ("float64", "int64", "double-double")

#: Where weights came from.
KINDS_OF_WEIGHTS = ("area", "variable", "array")

#: What another array of the store is to an accumulated one.
USES = ("coordinate", "weights")

#: Statistics that a level of the chunk grid may hold, by their keys.
STATISTICS = ("count", "min", "max", "sum", "m2", "weights")

#: Chunks of one dimension: their length where it is one, else runs of (length, number).
Chunks = int | tuple[tuple[int, int], ...]


def run_lengths(lengths: npt.ArrayLike) -> tuple[tuple[int, int], ...]:
    """Return lengths of chunks as runs."""
    array = np.asarray(lengths, dtype=np.int64)
    if not array.size:
        return ()
    starts = np.flatnonzero(np.concatenate([[True], array[1:] != array[:-1]]))
    runs = np.diff(np.concatenate([starts, [array.size]]))
    return tuple(zip(array[starts].tolist(), runs.tolist(), strict=True))


@dataclass(frozen=True, slots=True)
class Source:
    """The array whose sums these are, as it was when they were built."""

    name: str
    dims: Dims
    shape: tuple[int, ...]
    #: Per dimension the length of its chunks, or runs of (length, number).
    chunks: tuple[Chunks, ...]
    #: NumPy's name of its type, as stored.
    dtype: str
    #: What else of its metadata decides which values its bytes are: canonical JSON text by name.
    encoding: Table[str, str]
    #: Number of its objects, stored or not: the first rows of the table of stamps.
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


@dataclass(frozen=True, slots=True)
class Packing:
    """How stored values x mean scale_factor * x + add_offset."""

    scale_factor: float
    add_offset: float


@dataclass(frozen=True, slots=True)
class MaskRecord:
    """Which stored (packed) values count as missing, besides NaN and infinities, which always do."""

    fills: tuple[int | float, ...] = ()
    #: Smallest and largest value that is not missing.
    valid_min: int | float | None = None
    valid_max: int | float | None = None
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
    """Where the weights came from and where they are kept."""

    #: "area", "variable" of the store, or "array" that was given.
    kind: str
    #: The variable that they were made from.
    name: str | None
    #: Array of the group that keeps them, float64, and the dimensions they span in the source's order.
    array: str
    dims: Dims


@dataclass(frozen=True, slots=True)
class Related:
    """Another array of the store on which answers depend: a coordinate, or what weights were made from."""

    path: str
    #: "coordinate" or "weights"; of one that is used for both, "weights".
    use: str
    #: Canonical JSON text of what of its metadata matters; empty where something else was used instead.
    description: Table[str, str]
    #: Its objects, stored or not: its rows in the table of stamps, after those of what is listed before.
    objects: int


@dataclass(frozen=True, slots=True)
class Checks:
    """By what the arrays of a group are known to be those of one build, and undamaged."""

    #: Hexadecimal; each array repeats it in its attributes.
    build: str
    #: Array of CRC-32C of the stored chunks of all other arrays.
    array: str
    #: By array: number of its first chunk in that array, number of its chunks, CRC-32C of its metadata.
    places: Table[str, tuple[int, int, int]]
    #: CRC-32C of metadata, then of chunks, of that array itself and of the stamps.
    own: Table[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class LevelNames:
    """Names of the statistics of one combination at one level of its pyramid, by kind as far as stored."""

    dims: Dims
    #: A cell is ``8**level`` chunks along these dimensions.
    level: int
    arrays: Table[str, str]


@dataclass(frozen=True, slots=True)
class MagnitudesRecord:
    """How large the summed values are, from which the error of an answer is bounded."""

    #: In no chunk are more than some 5 % of the values that are not 0 smaller; 0 where not known.
    small: float
    #: No value in the sums is larger in magnitude, and no weight heavier.
    largest: float
    heaviest: float = 1.0


@dataclass(frozen=True, slots=True)
class OutliersRecord:
    """Cells that are kept out of the sums, weights and counts, for they would cost the others digits."""

    #: Stored values of larger magnitude are kept out.
    limit: int | float
    #: Arrays of the group: positions as int64 of shape (cells, dimensions), and stored values.
    positions: str
    values: str


@dataclass(frozen=True, slots=True)
class Extra:
    """The attribute ``cfagg`` of an accumulation group."""

    #: What was summed.
    source: Source
    #: Array of stamps and checksums of the stored objects of the source, and then of the related arrays.
    stamps: str
    checks: Checks
    #: How stored values become real ones; the sums are of stored ones.
    packing: Packing | None = None
    mask: MaskRecord = field(default_factory=MaskRecord)
    weights: WeightsRecord | None = None
    #: One of `KINDS_OF_SUMS`.
    sums: str = "float64"
    #: Chunks between two samples per accumulated dimension.
    stride: Table[str, int] = field(default_factory=Table)
    #: Elements left out; the infinite ones among them.
    missing: int = 0
    nonfinite: int = 0
    #: Name of the low parts by name of the array they belong to; double-double only.
    low: Table[str, str] = field(default_factory=Table)
    #: Names of cumulative counts by combination, where weights are used and something is missing.
    counts: Table[Dims, str] = field(default_factory=Table)
    statistics: tuple[LevelNames, ...] = ()
    #: Name of the array of sample positions by accumulated dimension.
    boundaries: Table[str, str] = field(default_factory=Table)
    #: Other arrays of the store on which answers depend.
    related: tuple[Related, ...] = ()
    #: Program and version that wrote the group.
    created_by: str = "cfagg"
    #: None where sums are exact, and in groups of older versions.
    magnitudes: MagnitudesRecord | None = None
    outliers: OutliersRecord | None = None

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


def example() -> Extra:
    """Return a small one, for examples and tests."""
    arrays = Table({kind: f"{kind}_time_lat" for kind in ("count", "min", "max")})
    return Extra(
        source=Source("tas", ("time", "lat"), (12, 7), (5, ((3, 2), (1, 1))), "int16", Table({"fill_value": "0"}), 9),
        packing=Packing(0.01, 273.15),
        mask=MaskRecord(fills=(-32767,)),
        sums="int64",
        stride=Table({"time": 2}),
        statistics=(LevelNames(("time", "lat"), 0, arrays),),
        stamps="chunk_stamps",
        checks=Checks(
            "0123456789abcdef" * 2,
            "checksums",
            Table({"acc_time": (0, 2, 2**32 - 1)}),
            Table({"checksums": (1, 2), "chunk_stamps": (3, 4)}),
        ),
        boundaries=Table({"time": "boundary_time"}),
        related=(Related("time", "coordinate", Table({"units": '"days since 2001-01-01"'}), 1),),
    )
