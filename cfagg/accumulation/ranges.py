"""Ranges to sum along one dimension, and splitting them into signed ranges of stored sums and of cells.

Between two neighbouring samples a sum over cells is the difference of two stored sums.  So for each such interval one
set of groups is chosen for the whole interval, using the sums (the core), and cells that belong to other groups are
corrected one by one (the edge).  The set of most cells needs the fewest corrections; for a single range this means
snapping each end to the nearest sample.

Along an axis, a term of a query uses such folded ranges, or the positions that the result keeps (`Pick`).

Source: ZEP 5, "Detailed description" (the one-dimensional example), extended to any ranges and groups.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.errors import SelectionError
from cfagg.kernels.distinct import distinct
from cfagg.model import Regular

__all__ = [
    "Edges", "Fold", "Part", "Pick", "Request", "Runs", "along", "chunk_of", "edge_of", "fold", "part_of", "spans_of",
    "split", "within",
]  # fmt: skip

Int64 = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Runs:
    """Half-open ranges along one dimension, each of a group; positions in several ranges of a group count again."""

    #: The ranges, with ``0 <= start <= stop``; empty ones are dropped.
    start: Int64
    stop: Int64
    #: The group of each range, in ``0..groups - 1``; a group may have no range.
    group: Int64
    groups: int = 1
    #: Whether the result keeps the dimension even if there is only one group.
    keep: bool = False

    def __post_init__(self) -> None:
        start, stop, group = (np.array(column, np.int64) for column in (self.start, self.stop, self.group))
        if start.ndim != 1 or not start.shape == stop.shape == group.shape:
            raise SelectionError(f"ranges need columns of one length; found {start.shape}, {stop.shape}, {group.shape}")
        for wrong, what in ((start > stop, "ends before it starts"), (start < 0, "starts before 0")):
            if wrong.any():
                i = int(np.flatnonzero(wrong)[0])
                raise SelectionError(f"range {i} ({start[i]}:{stop[i]}) {what}")
        if self.groups < 0 or (group.size and not 0 <= group.min() <= group.max() < self.groups):
            raise SelectionError(f"groups must be in 0..{self.groups - 1}; found {np.unique(group).tolist()[:9]}")
        some = stop > start
        for name, column in (("start", start[some]), ("stop", stop[some]), ("group", group[some])):
            column.flags.writeable = False
            object.__setattr__(self, name, column)

    @classmethod
    def whole(cls, length: int, *, keep: bool = False) -> Runs:
        """Return the range of a whole dimension."""
        return cls(np.array([0]), np.array([length]), np.array([0]), 1, keep)

    @classmethod
    def of_slice(cls, chosen: slice, length: int, *, keep: bool = False) -> Runs:
        """Return the positions of a slice, of any step, on a dimension of `length`."""
        positions = range(length)[chosen]
        if abs(positions.step) == 1 and len(positions):
            low, high = min(positions[0], positions[-1]), max(positions[0], positions[-1])
            return cls(np.array([low]), np.array([high + 1]), np.array([0]), 1, keep)
        return cls.of_positions(np.arange(positions.start, positions.stop, positions.step), keep=keep)

    @classmethod
    def of_positions(
        cls, positions: npt.ArrayLike, codes: npt.ArrayLike | None = None, groups: int = 1, *, keep: bool = False
    ) -> Runs:
        """Return the ranges of positions in any order, with optional codes of groups; code -1 excludes a position."""
        at = np.asarray(positions, np.int64).reshape(-1)
        group = np.zeros(at.size, np.int64) if codes is None else np.asarray(codes, np.int64).reshape(-1)
        if group.size != at.size:
            raise SelectionError(f"{group.size} groups are given for {at.size} positions")
        at, group = at[group >= 0], group[group >= 0]
        order = np.lexsort((at, group))
        at, group = at[order], group[order]
        first = np.ones(at.size, bool)
        first[1:] = (at[1:] != at[:-1] + 1) | (group[1:] != group[:-1])
        begin = np.flatnonzero(first)
        start = at[begin]
        stop = start + np.diff(np.append(begin, at.size))
        by_start = np.lexsort((group[begin], start))
        return cls(start[by_start], stop[by_start], group[begin][by_start], groups, keep)

    @property
    def stays(self) -> bool:
        """Whether the result has this dimension, of length `groups`."""
        return self.keep or self.groups != 1

    @cached_property
    def sizes(self) -> Int64:
        """Number of positions in each group, of shape (groups,); repeated positions count repeatedly."""
        out = np.zeros(self.groups, np.int64)
        np.add.at(out, self.group, self.stop - self.start)
        return out

    @cached_property
    def end(self) -> int:
        """The first position after all ranges, or 0 without ranges."""
        return int(self.stop.max(initial=0))

    def __len__(self) -> int:
        return len(self.start)


@dataclass(frozen=True, eq=False)
class Fold:
    """Ascending, disjoint segments along an axis, with the groups to which their sums are added and coefficients."""

    start: Int64
    stop: Int64
    #: Entries in the order of segments; each adds the sum of `segment` times `coefficient` to `group`.
    segment: Int64
    group: Int64
    coefficient: Int64
    groups: int

    @cached_property
    def cells(self) -> int:
        """Number of positions that are read."""
        return int((self.stop - self.start).sum())

    def __len__(self) -> int:
        return len(self.start)


def fold(runs: Runs) -> Fold:
    """Return ranges as disjoint segments, so that each cell is read once."""
    if len(runs) == 1:
        return _segments([(int(runs.start[0]), int(runs.stop[0]), 1)], int(runs.group[0]), runs.groups)
    return _fold(runs.start, runs.stop, runs.group, np.ones(len(runs), np.int64), runs.groups)


def split(runs: Runs, samples: Int64) -> tuple[Fold, Fold]:
    """Return signed samples and signed cells whose sums add up to the sums over the ranges."""
    # Sample k is the sum over cells 0 to ``samples[k] - 1``; cells after the last one are always read one by one.
    if len(runs) == 1:
        return _split_one(int(runs.start[0]), int(runs.stop[0]), samples, int(runs.group[0]), runs.groups)
    bounds = np.concatenate([[0], samples]).astype(np.int64)
    chosen = _representatives(runs, bounds)
    # A range contributes to the core of those intervals whose chosen cell it contains.
    first, last = np.searchsorted(chosen, runs.start), np.searchsorted(chosen, runs.stop)
    index = np.concatenate([last, first])
    sign = np.concatenate([np.ones(len(runs), np.int64), np.full(len(runs), -1, np.int64)])
    group = np.concatenate([runs.group, runs.group])
    stored = index > 0  # the sum over no cells is 0
    at = index[stored] - 1
    core = _fold(at, at + 1, group[stored], sign[stored], runs.groups)
    # Cells that the core has in excess or lacks at either end.
    position, end = np.concatenate([runs.stop, runs.start]), bounds[index]
    low, high = np.minimum(position, end), np.maximum(position, end)
    edge = _fold(low, high, group, np.where(position >= end, sign, -sign), runs.groups)
    return core, edge


def _split_one(start: int, stop: int, samples: Int64, group: int, groups: int) -> tuple[Fold, Fold]:
    """Return the result of `split` for a single range, the most common case, in a tenth of the time."""
    first, last = (int(np.searchsorted(samples, x, side="right")) for x in (start, stop))
    # For each end, the samples on either side; sample k is the sum up to `bounds(k)`.

    def bounds(k: int) -> int:
        return 0 if k == 0 else int(samples[k - 1])

    def nearest(k: int, x: int) -> int:
        return k + (k < len(samples) and 2 * (x - bounds(k)) > bounds(k + 1) - bounds(k))

    if first == last and first < len(samples) and 2 * (stop - start) <= bounds(first + 1) - bounds(first):
        low = high = first
    else:
        low, high = nearest(first, start), nearest(last, stop)
    if low == high:
        return _segments([], group, groups), _segments([(start, stop, 1)], group, groups)
    core = [(k - 1, k, sign) for k, sign in ((low, -1), (high, 1)) if k]
    below, above = bounds(low), bounds(high)
    edge = [(min(start, below), max(start, below), 1 if start < below else -1)] if start != below else []
    edge += [(min(stop, above), max(stop, above), 1 if stop > above else -1)] if stop != above else []
    return _segments(core, group, groups), _segments(edge, group, groups)


def _segments(segments: list[tuple[int, int, int]], group: int, groups: int) -> Fold:
    """Return segments (start, stop, coefficient) of one group, ascending and disjoint."""
    columns = np.array(segments, np.int64).reshape(-1, 3)
    segment = np.arange(len(segments))
    return Fold(columns[:, 0], columns[:, 1], segment, np.full(len(segments), group), columns[:, 2], groups)


def _representatives(runs: Runs, bounds: Int64) -> Int64:
    """Return for each interval between bounds a cell that belongs to the same groups as most of its cells."""
    out = bounds[:-1].copy()
    if not len(runs) or not len(out):
        return out
    points = distinct(np.concatenate([bounds, runs.start, runs.stop]))
    points = points[points <= bounds[-1]]
    interval = np.searchsorted(bounds, points[:-1], side="right") - 1
    crowded = np.flatnonzero(np.bincount(interval, minlength=len(out))[interval] > 1)
    if not crowded.size:
        return out
    # Cells with the same groups get the same number, the sum of random numbers of their groups (modulo 2**64).  Two
    # different sets with the same number would cost time, but give the same result.
    label = np.random.default_rng(1).integers(1, 2**63, runs.groups, np.uint64)[runs.group]
    change = np.zeros(len(points) + 1, np.uint64)
    np.add.at(change, np.searchsorted(points, runs.start), label)
    np.subtract.at(change, np.minimum(np.searchsorted(points, runs.stop), len(points)), label)
    number = np.cumsum(change, dtype=np.uint64)[crowded]
    length = (points[1:] - points[:-1])[crowded]
    order = np.lexsort((number, interval[crowded]))
    owner, number, length, cell = (c[order] for c in (interval[crowded], number, length, points[:-1][crowded]))
    new = np.ones(len(order), bool)
    new[1:] = (owner[1:] != owner[:-1]) | (number[1:] != number[:-1])
    begin = np.flatnonzero(new)
    total = np.add.reduceat(length, begin)
    best = np.lexsort((-total, owner[begin]))
    _, first = np.unique(owner[begin][best], return_index=True)
    winner = begin[best[first]]
    out[owner[winner]] = cell[winner]
    return out


def _fold(start: Int64, stop: Int64, group: Int64, sign: Int64, groups: int) -> Fold:
    """Return signed, possibly overlapping ranges as disjoint segments, without those that cancel."""
    n = len(start)
    position = np.concatenate([start, stop])
    change = np.concatenate([sign, -sign])
    owner = np.concatenate([group, group])
    order = np.lexsort((position, owner))
    position, change, owner = position[order], change[order], owner[order]
    if not n:
        empty = np.zeros(0, np.int64)
        return Fold(empty, empty, empty, empty, empty, groups)
    new = np.ones(2 * n, bool)
    new[1:] = (position[1:] != position[:-1]) | (owner[1:] != owner[:-1])
    begin = np.flatnonzero(new)
    step = np.add.reduceat(change, begin)
    position, owner = position[begin][step != 0], owner[begin][step != 0]
    # Within a group the steps add up to 0, so one running sum serves all groups.
    level = np.cumsum(step[step != 0])
    full = np.flatnonzero(level)
    low, high, owner, level = position[full], position[full + 1], owner[full], level[full]
    # Segments end wherever a range of any group ends.
    points = distinct(np.concatenate([low, high]))
    first, last = np.searchsorted(points, low), np.searchsorted(points, high)
    count = last - first
    entry = np.repeat(np.arange(len(low)), count)
    segment = np.arange(len(entry)) - np.repeat(np.cumsum(count) - count, count) + first[entry]
    by_segment = np.lexsort((owner[entry], segment))
    entry, segment = entry[by_segment], segment[by_segment]
    used, renumbered = np.unique(segment, return_inverse=True)
    return Fold(
        points[used],
        points[used + 1] if len(used) else points[:0],
        renumbered.astype(np.int64),
        owner[entry],
        level[entry],
        groups,
    )


@dataclass(frozen=True, eq=False)
class Request:
    """Reduced and kept axes of a source array; every axis is either reduced or kept."""

    #: Ranges that are summed along an axis.
    reduced: Mapping[int, Runs] = field(default_factory=dict)
    #: Positions along an axis that is kept: a slice of any step, or positions in any order and with repeats.
    kept: Mapping[int, slice | Int64] = field(default_factory=dict)

    def resolve(self, shape: Sequence[int]) -> Request:
        """Return the request for an array of this shape, with axes checked and kept ones as non-negative positions."""
        axes = [*self.reduced, *self.kept]
        if sorted(axes) != list(range(len(shape))):
            raise SelectionError(
                f"each of the {len(shape)} axes must be reduced or kept; found reduced {sorted(self.reduced)} and "
                f"kept {sorted(self.kept)}"
            )
        for axis, runs in self.reduced.items():
            if runs.end > shape[axis]:
                raise SelectionError(f"axis {axis} has length {shape[axis]}; a range ends at {runs.end}")
        kept = {axis: _positions(chosen, shape[axis], axis) for axis, chosen in self.kept.items()}
        return Request(
            MappingProxyType(dict(sorted(self.reduced.items()))), MappingProxyType(dict(sorted(kept.items())))
        )

    @property
    def lengths(self) -> tuple[int, ...]:
        """Length of every axis in the result before axes are dropped: kept positions, or groups."""
        sizes = {a: runs.groups for a, runs in self.reduced.items()} | {a: _count(p) for a, p in self.kept.items()}
        return tuple(sizes[a] for a in sorted(sizes))

    @property
    def axes(self) -> tuple[int, ...]:
        """The axes of the source that the result has, in order."""
        return tuple(sorted([*self.kept, *(a for a, runs in self.reduced.items() if runs.stays)]))

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the result; known once the request is resolved."""
        lengths = self.lengths
        return tuple(lengths[a] for a in self.axes)

    def __reduce__(self) -> tuple[type[Request], tuple[dict[int, Runs], dict[int, slice | Int64]]]:
        return Request, (dict(self.reduced), dict(self.kept))


def _count(chosen: slice | Int64) -> int:
    """Return the number of positions of a resolved axis."""
    if isinstance(chosen, slice):
        raise SelectionError("the shape of a request is known once it is resolved; call resolve(shape) first")
    return len(chosen)


def _positions(chosen: slice | Int64, length: int, axis: int) -> Int64:
    """Return non-negative positions; negative ones count from the end."""
    if isinstance(chosen, slice):
        return np.arange(length, dtype=np.int64)[chosen]
    at = np.asarray(chosen)
    if at.ndim != 1 or (at.size and at.dtype.kind not in "iu"):
        raise SelectionError(
            f"axis {axis}: expected a slice or a list of positions, found {at.dtype} with {at.ndim} dimensions"
        )
    return within(at, length, f"axis {axis}")


def within(values: npt.NDArray[Any], length: int, where: str) -> Int64:
    """Return positions, of which negative ones count from the end, as non-negative ones; refuse others."""
    # Compared before the conversion, which would turn the largest unsigned numbers into negative ones.
    if values.size and not -length <= int(values.min()) <= int(values.max()) < length:
        bad = next(i for i in values.tolist() if not -length <= i < length)
        raise SelectionError(f"{where}: position {bad} is outside of a dimension of length {length}")
    at = values.astype(np.int64)
    return np.where(at < 0, at + length, at)


@dataclass(frozen=True, eq=False)
class Pick:
    """Non-negative positions along an axis that the result keeps, in any order and with repeats."""

    positions: Int64

    @cached_property
    def ascending(self) -> bool:
        """Whether the positions increase strictly."""
        return bool((self.positions[1:] > self.positions[:-1]).all())

    @cached_property
    def spans(self) -> tuple[Int64, Int64]:
        """The positions as ascending, disjoint ranges."""
        at = self.positions if self.ascending else distinct(self.positions)
        breaks = np.flatnonzero(at[1:] != at[:-1] + 1)
        first = np.concatenate([at[:1], at[breaks + 1]])
        last = np.concatenate([at[breaks], at[-1:]])
        return first, last + 1

    def __len__(self) -> int:
        return len(self.positions)


Part = Pick | Fold
Edges = Regular | Int64


def part_of(request: Request, axis: int) -> Part:
    """Return the whole of what a resolved request uses along an axis."""
    return fold(request.reduced[axis]) if axis in request.reduced else Pick(np.asarray(request.kept[axis]))


def along(values: npt.NDArray[Any], axis: int, ndim: int) -> npt.NDArray[Any]:
    """Return values along one axis, with length 1 along the other axes."""
    return values.reshape([-1 if a == axis else 1 for a in range(ndim)])


def spans_of(part: Part) -> tuple[Int64, Int64]:
    """Return the ranges of an axis that a part uses, ascending."""
    return part.spans if isinstance(part, Pick) else (part.start, part.stop)


def chunk_of(edges: Edges, at: Int64) -> Int64:
    """Return the chunks that contain positions along an axis."""
    if isinstance(edges, Regular):
        return at // edges.chunk
    return np.searchsorted(edges, at, side="right") - 1


def edge_of(edges: Edges, chunk: Int64, length: int) -> Int64:
    """Return the starts of chunks, cut at the end of the array."""
    at = chunk * edges.chunk if isinstance(edges, Regular) else edges[chunk]
    return np.minimum(at, length)
