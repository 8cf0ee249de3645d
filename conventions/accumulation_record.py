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
    """Return lengths of chunks as runs.

    >>> run_lengths([90, 45, 45])
    ((90, 1), (45, 2))
    """
    array = np.asarray(lengths, dtype=np.int64)
    if not array.size:
        return ()
    starts = np.flatnonzero(np.concatenate([[True], array[1:] != array[:-1]]))
    runs = np.diff(np.concatenate([starts, [array.size]]))
    return tuple(zip(array[starts].tolist(), runs.tolist(), strict=True))


@dataclass(frozen=True, slots=True)
class Source:
    """The array whose sums these are, as it was when they were built.

    Parameters
    ----------
    name : str
        Its name in the parent group.
    dims : tuple of str
        Its dimensions.
    shape : tuple of int
        Its shape.
    chunks : tuple
        Per dimension the length of its chunks, or runs of (length, number).
    dtype : str
        NumPy's name of its type, as stored.
    encoding : Table
        What else of its metadata decides which values its stored bytes are (fill value, codecs, byte order, keys of
        objects ...): JSON text, in canonical form, by name.
    objects : int
        Number of its objects, stored or not: the first rows of the table of stamps.
    """

    name: str
    dims: Dims
    shape: tuple[int, ...]
    chunks: tuple[Chunks, ...]
    dtype: str
    encoding: Table[str, str]
    objects: int

    @classmethod
    def of(
        cls, name: str, dims: Dims, grid: Grid, dtype: npt.DTypeLike, encoding: Table[str, str], objects: int
    ) -> Source:
        """Return the description of an array with this grid of chunks.

        >>> Source.of("tas", ("time",), Grid.from_sizes([(90, 45, 45)]), "f4", Table(), 3).chunks
        (((90, 1), (45, 2)),)
        """
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
    """Which stored (packed) values count as missing, besides NaN and infinities, which always do.

    Parameters
    ----------
    fills : tuple of int or float
        Values that mean missing.
    valid_min, valid_max : int or float, optional
        Smallest and largest value that does not.
    unsigned : bool
        Whether integers are read as unsigned although stored as signed.
    """

    fills: tuple[int | float, ...] = ()
    valid_min: int | float | None = None
    valid_max: int | float | None = None
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
    """Where the weights came from and where they are kept.

    Parameters
    ----------
    kind : {"area", "variable", "array"}
        Areas of cells, a variable of the store, or an array that was given.
    name : str, optional
        The variable that they were made from.
    array : str
        Array of the group that keeps them, float64.
    dims : tuple of str
        Dimensions that they span, in the order of the source.
    """

    kind: str
    name: str | None
    array: str
    dims: Dims


@dataclass(frozen=True, slots=True)
class Related:
    """Another array of the store on which answers depend: a coordinate, or what weights were made from.

    Parameters
    ----------
    path : str
        Its path in the store.
    use : {"coordinate", "weights"}
        What it is used for; of one that is used for both, ``"weights"``.
    description : Table
        What of its metadata matters, as JSON text in canonical form by name; empty where there is no such array, so
        that something else was used in its place.
    objects : int
        Number of its objects, stored or not: its rows in the table of stamps, which follow those of what is listed
        before it.
    """

    path: str
    use: str
    description: Table[str, str]
    objects: int


@dataclass(frozen=True, slots=True)
class Checks:
    """By what the arrays of a group are known to be those of one build, and undamaged.

    Parameters
    ----------
    build : str
        Name of the build, hexadecimal; each array repeats it in its attributes.
    array : str
        Array of CRC-32C of the stored chunks of all other arrays.
    places : Table
        By name of an array: number of its first chunk in that array, number of its chunks, and CRC-32C of its metadata.
    own : Table
        By name of an array: CRC-32C of its metadata, then of its chunks; of that array and of the stamps.
    """

    build: str
    array: str
    places: Table[str, tuple[int, int, int]]
    own: Table[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class LevelNames:
    """Names of the statistics of one combination of dimensions at one level of its pyramid.

    Parameters
    ----------
    dims : tuple of str
        Dimensions along which a cell is a whole chunk, or ``8**level`` chunks.
    level : int
        0 is the chunk grid itself.
    arrays : Table
        Names of arrays by ``count``, ``min``, ``max``, ``sum``, ``m2`` and ``weights``, as far as they are stored.
    """

    dims: Dims
    level: int
    arrays: Table[str, str]


@dataclass(frozen=True, slots=True)
class MagnitudesRecord:
    """How large the summed values are, from which the error of an answer is bounded.

    Parameters
    ----------
    small : float
        In no chunk are more than some 5 % of the values that are not 0 smaller than this; 0 where that is not known.
    largest : float
        No value in the sums is larger, in magnitude.
    heaviest : float
        No weight is larger; 1 without weights.
    """

    small: float
    largest: float
    heaviest: float = 1.0


@dataclass(frozen=True, slots=True)
class OutliersRecord:
    """Cells that are kept out of the sums, their weights and counts included, for they would cost the others digits.

    Parameters
    ----------
    limit : int or float
        Stored values of larger magnitude are kept out.
    positions : str
        Array of the group with their positions, int64 of shape (cells, dimensions).
    values : str
        Array of the group with their stored values.
    """

    limit: int | float
    positions: str
    values: str


@dataclass(frozen=True, slots=True)
class Extra:
    """The attribute ``cfagg`` of an accumulation group.

    Parameters
    ----------
    source : Source
        What was summed.
    packing : Packing, optional
        How stored values become real ones; the sums are of stored ones.
    mask : MaskRecord
        Which stored values count as missing.
    weights : WeightsRecord, optional
        Weights of the weighted sums.
    sums : {"float64", "int64", "double-double"}
        In which numbers was summed.
    stride : Table
        Chunks between two samples per accumulated dimension.
    missing, nonfinite : int
        Elements left out; the infinite ones among them.
    low : Table
        Name of the low parts by name of the array they belong to; double-double only.
    counts : Table
        Names of cumulative counts by combination, where weights are used and something is missing.
    statistics : tuple of LevelNames
        Statistics of the chunks.
    stamps : str
        Array of stamps and checksums of the stored objects of the source, and then of the related arrays.
    checks : Checks
        By what the arrays are known to be undamaged.
    related : tuple of Related
        Other arrays of the store on which answers depend.
    boundaries : Table
        Name of the array of sample positions by accumulated dimension.
    created_by : str
        Program and version that wrote the group.
    magnitudes : MagnitudesRecord, optional
        How large the values are; None where sums are exact, and in groups of older versions.
    outliers : OutliersRecord, optional
        Cells that are kept out of the sums.
    """

    source: Source
    stamps: str
    checks: Checks
    packing: Packing | None = None
    mask: MaskRecord = field(default_factory=MaskRecord)
    weights: WeightsRecord | None = None
    sums: str = "float64"
    stride: Table[str, int] = field(default_factory=Table)
    missing: int = 0
    nonfinite: int = 0
    low: Table[str, str] = field(default_factory=Table)
    counts: Table[Dims, str] = field(default_factory=Table)
    statistics: tuple[LevelNames, ...] = ()
    boundaries: Table[str, str] = field(default_factory=Table)
    related: tuple[Related, ...] = ()
    created_by: str = "cfagg"
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
    """Return a small one, for examples and tests.

    >>> example().arrays
    ('count_time_lat', 'min_time_lat', 'max_time_lat', 'chunk_stamps', 'checksums', 'boundary_time')
    """
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
