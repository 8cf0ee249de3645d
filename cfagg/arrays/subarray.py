"""The elements of a sub-array that a selection needs, in a form in which a file can be read.

A partition may be a part of its sub-array, may be reversed relative to the master array, and may be selected only in
part.  The three are composed into one range or list of indices per dimension; a file is then read forward, in few runs,
and elements are reversed, repeated or reordered in memory.

*sub-array*: the part of a fragment that fills a partition, in its stored form.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.cf.header import Header
from cfagg.formats.values.storage import StoredVariable
from cfagg.kernels.distinct import distinct
from cfagg.model import Layout

__all__ = ["AxisRead", "Fragment", "Indices", "assemble", "compose", "place_of", "push"]

Int64 = npt.NDArray[np.int64]

#: Indices along one dimension: a range, or an array if they are irregular.
Indices = range | Int64

#: Bytes that are read and discarded rather than skipped by another request.
GAP_BYTES = 2**16


@dataclass(frozen=True, slots=True)
class AxisRead:
    """How one dimension of a sub-array is read."""

    runs: tuple[slice, ...]  # slices with 0 <= start < stop and a positive step, ascending and disjoint
    count: int  # elements read, all runs together
    pick: slice | Int64 | None = None  # which of them to use, in which order; `None`: all in this order


def compose(indices: Indices, chosen: slice | Int64, flip: bool) -> Indices:
    """Return the indices into a sub-array for a selection of one partition along one dimension.

    `indices` are the part that is the partition's data array, `chosen` ascends in the master's direction from the
    partition's lower edge. The result has the sub-array's direction: with `flip`, the last selected element comes
    first.

    >>> compose(range(10, 0, -2), slice(1, 4, 2), False)
    range(8, 2, -4)
    >>> compose(range(5), slice(0, 2, 1), True)
    range(3, 5)
    """
    n = len(indices)
    if isinstance(chosen, slice):
        place = range(*chosen.indices(n))
        if flip:
            place = range(n - 1 - place[-1], n - place[0], place.step) if place else place
        return indices[place.start : place.stop : place.step]
    where = (n - 1 - chosen)[::-1] if flip else chosen
    if isinstance(indices, range):
        return indices.start + indices.step * where
    return indices[where]


def push(indices: Indices, element_bytes: int, chunk: int = 1) -> AxisRead:
    """Return how to read indices of a dimension; `element_bytes` determine whether a gap is skipped or read.

    Gaps within a chunk of the file are read, since every run would decode it once more.

    >>> push(range(9, 2, -3), 8)
    AxisRead(runs=(slice(3, 10, 3),), count=3, pick=slice(None, None, -1))
    >>> push(np.array([7, 2, 3, 2]), 10**6)
    AxisRead(runs=(slice(2, 4, 1), slice(7, 8, 1)), count=3, pick=array([2, 0, 1, 0]))
    """
    if isinstance(indices, range):
        if not indices:
            return AxisRead((), 0)
        ahead = indices if indices.step > 0 else indices[::-1]
        step = ahead.step if len(ahead) > 1 else 1
        run = slice(ahead[0], ahead[-1] + 1, step)
        return AxisRead((run,), len(ahead), None if ahead is indices or len(ahead) == 1 else slice(None, None, -1))
    if len(indices) == 0:
        return AxisRead((), 0)
    needed = distinct(indices)
    far = np.diff(needed) > 1 + GAP_BYTES // max(element_bytes, 1)
    cuts = np.flatnonzero(far & (np.diff(needed // chunk) > 0)) + 1
    first = needed[np.concatenate([[0], cuts])]
    last = needed[np.concatenate([cuts, [len(needed)]]) - 1]
    lengths = last - first + 1
    base = np.cumsum(lengths) - lengths
    run_of = np.searchsorted(first, indices, "right") - 1
    pick = base[run_of] + (indices - first[run_of])
    count = int(lengths.sum())
    runs = tuple(slice(int(a), int(b) + 1, 1) for a, b in zip(first, last, strict=True))
    if len(pick) == count and np.array_equal(pick, np.arange(count)):
        return AxisRead(runs, count)
    return AxisRead(runs, count, pick)


def assemble(
    axes: Sequence[AxisRead], dtype: np.dtype[Any], read: Callable[[tuple[slice, ...]], npt.NDArray[Any]]
) -> npt.NDArray[Any]:
    """Read every run and return one block with the picked elements, perhaps a view with negative strides."""
    if all(len(axis.runs) == 1 for axis in axes):
        block = read(tuple(axis.runs[0] for axis in axes))
    else:
        block = np.empty([axis.count for axis in axes], dtype)
        for runs in itertools.product(*(_placed(axis.runs) for axis in axes)):
            block[tuple(place for place, _ in runs)] = read(tuple(run for _, run in runs))
    for k, axis in enumerate(axes):
        if isinstance(axis.pick, slice):
            block = block[(slice(None),) * k + (axis.pick,)]
        elif axis.pick is not None:
            block = block.take(axis.pick, axis=k)
    return block


def _placed(runs: Sequence[slice]) -> list[tuple[slice, slice]]:
    """Return every run with its place in the block."""
    placed = []
    at = 0
    for run in runs:
        n = len(range(run.start, run.stop, run.step))
        placed.append((slice(at, at + n), run))
        at += n
    return placed


@dataclass(frozen=True, slots=True)
class Fragment:
    """A sub-array that can be read."""

    header: Header
    chunks: tuple[int, ...] | None  # shape of its chunks in the file
    # the stored values of one slice per dimension, in native byte order
    read: Callable[[Sequence[slice]], npt.NDArray[Any]]
    where: str  # file, variable and partition, for messages
    # the same in parts, each with its place; a part is overwritten by the next
    scan: Callable[[Sequence[slice]], Iterable[tuple[tuple[slice, ...], npt.NDArray[Any]]]] | None = None
    layout: Layout | None = None  # of a sub-array, from the aggregation and its file
    stored: StoredVariable | None = None  # the location of its values, if they are read as stored

    @property
    def place(self) -> str:
        """File, variable and partition of the aggregation, and the variable and file of the fragment."""
        return place_of(self.where, self.header.variable, self.header.file)


def place_of(where: str, variable: str, file: str) -> str:
    """Return the place of a partition together with the variable and the file of its fragment, for messages."""
    return f"{where}, fragment {variable!r} of {file}"
