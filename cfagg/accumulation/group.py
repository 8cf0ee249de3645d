"""The opened accumulation of an array: its sums, counts, weights and statistics, and a record of their sources.

An opened group is complete and consistent: every array that it names exists with the right dtype, dimensions and shape,
and its samples fit the chunks of the source.  After every query, `cfagg.accumulation.freshness` checks separately
whether the source has changed since.
"""

from __future__ import annotations

import math
import os
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.accumulation.description import Differences, Neighbour, differences
from cfagg.accumulation.integrity import GrowingTable, moved, read_whole, split
from cfagg.accumulation.layout import Level, Sums
from cfagg.arrays.chunked import ZarrReader
from cfagg.conventions.accumulation import Extra, group_name
from cfagg.conventions.accumulation_record import MaskRecord
from cfagg.display.escape import printable
from cfagg.errors import Problem, StaleError, UnsupportedError
from cfagg.formats.zarr.metadata import ZarrArray
from cfagg.model import Regular
from cfagg.storage.urls import Url

__all__ = [
    "CellWeights", "Group", "Looks", "NotInPlaceError", "Outliers", "Samples", "Standing", "SumArrays", "adopt_command",
    "command", "group_path", "missing_weights", "object_counts", "stale", "standing_of", "stored_type", "whole_objects",
]  # fmt: skip

Dims = tuple[str, ...]
#: The raw values that count as missing.
Mask = MaskRecord
type Paths = Iterable[str | os.PathLike[str]]
#: Sample positions for each axis of the source, `None` for axes that are not accumulated.
Samples = tuple[npt.NDArray[np.int64] | None, ...]


#: Weights with more cells than this are not kept in memory, nor summed cell by cell if their sums are stored.
MANY_WEIGHTS = 1 << 22


type SumArrays = Sums[ZarrArray]


def stored_type(array: ZarrArray) -> np.dtype[Any]:
    """Return the dtype in which the elements of an array are stored, even if another writer's are read in another."""
    return np.dtype(array.document["dtype"]) if array.zarr_format == 2 else array.dtype


@dataclass(frozen=True, eq=False)
class CellWeights:
    """The weights of cells, possibly with fewer dimensions than the source: stored, given, or known only as sums."""

    #: Axis of the source of each axis of the weights, ascending.
    axes: tuple[int, ...]
    stored: ZarrArray | None = None
    #: Weights in memory: those given by a user, or the cosine of `latitude`.
    given: npt.NDArray[np.float64] | None = None
    latitude: str | None = None
    #: The array, as messages name it.
    where: str = ""

    @property
    def known(self) -> bool:
        """Whether the weights of single cells are known."""
        return self.stored is not None or self.given is not None

    @property
    def many(self) -> bool:
        """Whether there are too many to keep in memory."""
        return self.stored is not None and self.stored.size > MANY_WEIGHTS

    @cached_property
    def array(self) -> npt.NDArray[np.float64]:
        """The weights, read on first use; read-only."""
        if self.given is not None:
            return self.given
        if self.stored is None:
            raise missing_weights(self.where, "this statistic needs the weights of single cells")
        return read_whole(self.stored)

    def __getstate__(self) -> dict[str, Any]:
        return {f.name: getattr(self, f.name) for f in fields(self)}


def missing_weights(where: str, why: str) -> UnsupportedError:
    """Return the error for a statistic that needs unknown weights."""
    return UnsupportedError(
        f"{where}: {why}, but its accumulation, which was not written by cfagg, holds only sums of weights; pass the "
        "weights with weights="
    )


@dataclass(frozen=True, eq=False)
class Outliers:
    """Cells whose magnitude exceeds `limit`, which are kept out of the sums."""

    limit: float
    #: The arrays of positions and values.
    stored: tuple[ZarrArray, ZarrArray]

    @cached_property
    def positions(self) -> npt.NDArray[np.int64]:
        """Positions in the source, of shape (cells, dimensions), read on first use."""
        return read_whole(self.stored[0])

    @cached_property
    def values(self) -> npt.NDArray[Any]:
        """The stored values, read on first use."""
        return read_whole(self.stored[1])

    def __getstate__(self) -> dict[str, Any]:
        return {"limit": self.limit, "stored": self.stored}


@dataclass(frozen=True, eq=False)
class Group:
    """The opened accumulation of one array; its sums and statistics are those of stored values."""

    store: str
    variable: str
    folder: str
    #: The array as it was when the group was opened.
    source: ZarrArray
    dims: Dims
    #: By combination: the tuple of accumulated dimensions, in the order of `dims`.
    sums: Mapping[Dims, SumArrays]
    #: For each axis its positions b: sample k is the sum over ``[0, b[k])``; None for axes at full resolution.
    samples: Mapping[Dims, Samples]
    #: Levels of the pyramid by combination, finest first.
    statistics: Mapping[Dims, tuple[Level[ZarrArray], ...]]
    #: A stored value x represents ``scale * x + offset``.
    scale: float
    offset: float
    #: The dtype of stored values as read: that of `source`, or its unsigned counterpart if ``mask.unsigned``.
    dtype: np.dtype[Any]
    mask: Mask
    weights: CellWeights | None
    #: The kind of numbers in which values were summed: "float64", "int64" or "double-double".
    kind: str
    #: Whether there are no missing values, so that counts and weights need not be read.
    complete: bool
    #: The attribute ``cfagg``; None for a group of another writer.
    extra: Extra | None = field(repr=False)
    #: Stamps and checksums of stored objects when the group was built, first of the source, then of related arrays.
    stamps: ZarrArray | None = field(repr=False)
    #: Remarks for users about a group of another writer; `None` for cfagg's own groups.
    foreign: str | None
    #: Inode, size and times of the group's own metadata document.
    identity: tuple[int, ...] = field(repr=False)
    outliers: Outliers | None = field(default=None, repr=False)
    #: The related arrays as they were when the group was opened.
    neighbours: tuple[Neighbour, ...] = field(default=(), repr=False)
    #: The table of stamps of a group that grows in place.
    table: GrowingTable | None = field(default=None, repr=False)
    #: The checksum of the attributes that is stored in them.
    seal: int = field(default=0, repr=False)
    #: Stamps and checksums of the present objects, if they were adopted.
    adopted: npt.NDArray[np.int64] | None = field(default=None, repr=False)
    #: Index of every chunk of the source read by the query for which this copy of the group was made.
    read: set[tuple[int, ...]] | None = field(default=None, repr=False)

    def __repr__(self) -> str:
        sums = ", ".join(" x ".join(c) for c in self.sums)
        return printable(f"<Group {self.path!r} of {self.store}: sums over {sums}>")

    @property
    def grows(self) -> int | None:
        """The axis along which the group grows in place, or `None` if it is built as a whole."""
        growth = None if self.extra is None else self.extra.growth
        return None if growth is None else self.dims.index(growth.dim)

    @property
    def path(self) -> str:
        """Path of the group within the store."""
        return group_path(self.variable)

    @cached_property
    def reader(self) -> ZarrReader:
        """A reader of the source array."""
        return ZarrReader(self.source)

    @cached_property
    def differences(self) -> Differences:
        """The differences of the description of `source` from that at the time of the build."""
        return Differences() if self.extra is None else differences(self.source, self.extra)

    @cached_property
    def objects(self) -> npt.NDArray[np.int64]:
        """Stamps and checksums, read on first use; each row has bytes, two times, inode and checksum."""
        if self.adopted is not None:
            return self.adopted
        if self.stamps is None:
            return np.empty((0, 5), np.int64)
        if self.table is not None:
            return self._by_keys(self.table.rows)
        return read_whole(self.stamps)

    def _by_keys(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return rows of a growing table in the order of the objects."""
        assert self.extra is not None  # noqa: S101  (it has a table)
        counts = [self.extra.source.objects, *(r.objects for r in self.extra.related)]
        begins = np.cumsum([0, *counts])
        which, numbers = split(rows[:, 0])
        out = np.full((int(begins[-1]), 5), -1, np.int64)
        known = which < len(counts)
        known[known] &= numbers[known] < np.array(counts)[which[known]]
        out[begins[which[known]] + numbers[known]] = rows[known, 1:]
        axis = self.grows
        if axis:
            shape = object_counts(self, self.source)
            own = out[: counts[0]].reshape(*moved(shape, axis), 5)
            out[: counts[0]] = np.moveaxis(own, 0, axis).reshape(-1, 5).copy()
        out.flags.writeable = False
        return out

    @cached_property
    def looks(self) -> Looks:
        """The times when metadata and objects were last found unchanged."""
        return Looks()

    def __getstate__(self) -> dict[str, Any]:
        # Times are not pickled, since another process has to check everything itself.
        return {f.name: getattr(self, f.name) for f in fields(self)}

    def asked(self) -> Group:
        """Return a copy for one query, which records the chunks that it reads and shares earlier data."""
        # Computed now, since each copy would compute its own otherwise.
        _ = self.looks, self.objects
        return self.copied(read=set())

    def copied(self, **changed: Any) -> Group:
        """Return a copy that shares data that were read before, with some fields or cached properties changed."""
        out = object.__new__(Group)
        out.__dict__.update(self.__dict__, **changed)
        return out

    def arrays(self) -> Iterator[ZarrArray]:
        """Yield the arrays of sums and statistics."""
        for s in self.sums.values():
            yield from s.each()
        for levels in self.statistics.values():
            for level in levels:
                yield from level.arrays.values()

    def axes(self, dims: Dims) -> tuple[int, ...]:
        """Return the axes of the source with these dimensions."""
        return tuple(self.dims.index(d) for d in dims)


class Looks:
    """The times when metadata and objects were last found unchanged, by the clock of this machine."""

    def __init__(self) -> None:
        self.described = -math.inf
        self.objects: npt.NDArray[np.float64] | None = None


def group_path(variable: str) -> str:
    """Return the path of an array's accumulation group."""
    parent, slash, name = variable.strip("/").rpartition("/")
    return f"{parent}{slash}{group_name(name)}"


def command(store: str, variable: str, option: str = "") -> str:
    """Return the command that builds an accumulation."""
    return shlex.join(["cfagg", "accumulate", store, variable, *option.split()])


def adopt_command(store: str, variable: str) -> str:
    """Return the command that adopts a copy of a store, if its contents are the same."""
    return shlex.join(["cfagg", "accumulate", "--adopt", store, variable])


def stale(group: Group, problems: Iterable[Problem], *, adoptable: bool = False) -> StaleError:
    """Return the error that lists changes and commands to fix them; `adoptable` if only stamps differ."""
    what, refresh = f"the accumulation of {group.variable!r}", command(group.store, group.variable, "--refresh")
    if group.extra is None:
        replacing = command(group.store, group.variable, "--overwrite")
        message = f"{what}, by another program, does not belong to the present data; replace it with: {replacing}"
    elif isinstance(group.store, Url):
        remedy = (
            "if their contents are the same, as in a copy of a store, compare them with adopt=True (--adopt), which "
            "reads all of them once; else refresh the accumulation where it was made, and copy it again"
            if adoptable
            else "refresh it where it was made and copy it again, or rebuild it with overwrite=True (--overwrite)"
        )
        message = f"{what} does not belong to the stored objects; {remedy}"
    elif adoptable:
        message = (
            f"stored objects of {group.variable!r} were written, moved or copied since they were accumulated; if their "
            "contents are the same, as in a copy of a store, accept them with: "
            f"{adopt_command(group.store, group.variable)}; else refresh the accumulation with: {refresh}"
        )
    else:
        message = f"{what} does not belong to the present data; refresh it with: {refresh}"
    return StaleError(f"{group.store}: {message}", problems)


def object_counts(group: Group, source: ZarrArray) -> tuple[int, ...]:
    """Return the number of objects along each dimension when an accumulation was built."""
    then = group.source.grid if group.extra is None else group.extra.source.grid
    if source.objects is source.grid:
        return then.matrix_shape
    # The shape of shards cannot have changed, since codecs are compared.
    return tuple(
        -(-n // axis.chunk) if isinstance(axis, Regular) else min(int(np.searchsorted(axis, n)), len(axis) - 1)
        for axis, n in zip(source.objects.axes, then.shape, strict=True)
    )


class NotInPlaceError(Exception):
    """A group cannot be extended in place, for the reason in the message, and is rewritten instead."""


@dataclass(frozen=True)
class Standing:
    """The final extent along `axis`, in chunks of the source, elements, and samples."""

    axis: int
    chunk: int
    position: int
    sample: int

    def limit(self, axes: tuple[int, ...], level: int | None = None) -> int:
        """Return the number of final entries along `axis`, of sums over `axes` or of statistics of a level."""
        if self.axis not in axes:
            return self.position
        if level is None:
            return self.sample
        limit = self.chunk
        for _ in range(level):
            limit //= 8
        return limit


def whole_objects(array: ZarrArray, axis: int, length: int) -> int:
    """Return the number of stored objects along `axis` that are entirely within the first `length` elements."""
    held = array.objects.axes[axis]
    if isinstance(held, Regular):
        return min(length // held.chunk, held.count)
    return int(np.searchsorted(held, length, side="right")) - 1


def standing_of(array: ZarrArray, axis: int, length: int, stride: int, *, sampled: bool) -> Standing:
    """Return the final extent of sums over the first `length` elements; `sampled` if there are sums along the axis."""
    held, grid = array.objects.axes[axis], array.grid.axes[axis]
    whole = whole_objects(array, axis, length)
    position = whole * held.chunk if isinstance(held, Regular) else int(held[whole])
    position = min(position, length)
    chunk = position // grid.chunk if isinstance(grid, Regular) else int(np.searchsorted(grid, position))
    samples = chunk // stride if sampled else 0
    chunk = samples * stride if sampled else chunk
    start = chunk * grid.chunk if isinstance(grid, Regular) else int(grid[chunk])
    return Standing(axis, chunk, start, samples)
