"""Division of the work: slabs that fit in memory, with intermediate chunks if much would be read repeatedly.

Target chunks that are long where those of the source are short, such as time series of a store of maps, need much of
the source for few values. If the source would be decoded many times for them, values are written to intermediate chunks
of a shape between both, uncompressed, which are removed at the end: each value is then read and written once more,
however large the array is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.arrays.batched import BATCH_BYTES
from cfagg.arrays.chunked import ZarrReader
from cfagg.conversion.absent import counted
from cfagg.conversion.plan import Array
from cfagg.conversion.scratch import FOLDER, ScratchReader
from cfagg.conversion.slabs import Slabs, choose_slabs, reads_of
from cfagg.conversion.variables import MAX_CHUNKS
from cfagg.errors import LimitError
from cfagg.model import Grid
from cfagg.storage.urls import Url

__all__ = ["Schedule", "Ways", "cut", "direct", "schedule"]

#: A slab, its decoded source, and the encoded chunk are in memory together; at most this many times the slab.
_COPIES = 2.5

#: For shards of an existing store, whose encoded chunks are collected before they are joined.
_COPIES_JOINED = 3.5

#: Maximum number of copies in memory of a chunk being read or written: in its order, reordered, and as stored.
_PIECES = 3

#: How often the source may be decoded before intermediate chunks, which cost one more write and read, are considered.
_MOST_READS = 4.0

#: Smallest size in bytes of an intermediate chunk that justifies a file.
_LEAST = 1 << 14

#: For each array by path, the shapes of its intermediate chunks, the first nearest to the source.
Ways = Mapping[str, Sequence[Sequence[int]]]


@dataclass(frozen=True, eq=False)
class Schedule:
    """All arrays in the order in which they are written, intermediate ones first, and their slabs."""

    arrays: tuple[Array, ...]
    slabs: tuple[Slabs, ...]
    threads: int  # number that fits in memory
    memory: int  # maximum bytes of values in memory with these threads
    ways: Ways

    @property
    def read(self) -> int:
        """Bytes of values read from the source, counted as often as they are read."""
        pairs = zip(self.arrays, self.slabs, strict=True)
        return sum(round(_reads(a, s) * _read_bytes(a)) for a, s in pairs if not isinstance(a.reader, ScratchReader))

    @property
    def scratch(self) -> int:
        """Bytes of values written to intermediate chunks."""
        return sum(a.nbytes for a in self.arrays if a.feeds is not None)


def schedule(
    arrays: Sequence[Array], memory: int, workers: int, place: Any, zarr_format: int, ways: Ways | None = None
) -> Schedule:
    """Return the schedule for writing arrays within a memory limit; `ways` are those of a run that is resumed.

    `place` is where chunks are written, and intermediate ones are read.

    Raises
    ------
    LimitError
        If a chunk does not fit in memory.
    """
    found: dict[str, Sequence[Sequence[int]]] = {}
    steps: list[list[Array]] = [[], []]  # intermediate steps; the k-th step of each array
    last = []
    for number, wanted in enumerate(arrays):
        array = wanted
        shapes = _way(array, memory, workers) if ways is None else ways.get(array.path, ())
        for k, shape in enumerate(shapes):
            scratch = _scratch(array, f"{FOLDER}/{number}-{k}", shape)
            steps[k].append(scratch)
            array = _reading(array, ScratchReader(scratch, place, zarr_format))
        found |= {array.path: [list(s) for s in shapes]} if shapes else {}
        last.append(array)
    every = (*steps[0], *steps[1], *last)
    slabs, threads, largest = _cut(every, memory, workers)
    return Schedule(every, tuple(slabs), threads, threads * largest, found)


def cut(arrays: Sequence[Array], memory: int, workers: int) -> tuple[list[Slabs], int]:
    """Return the slabs of every array, and the number of threads for which they fit in memory."""
    return _cut(arrays, memory, workers)[:2]


def direct(arrays: Sequence[Array], memory: int, workers: int) -> Schedule:
    """Return the schedule for writing arrays without intermediate chunks, to any target."""
    slabs, threads, largest = _cut(arrays, memory, workers)
    return Schedule(tuple(arrays), tuple(slabs), threads, threads * largest, {})


def _cut(arrays: Sequence[Array], memory: int, workers: int) -> tuple[list[Slabs], int, int]:
    """Return slabs, the number of threads, and the maximum bytes of one thread."""
    slabs, largest = [], 0
    for a in arrays:
        made = choose_slabs(a.grid, a.cells, _itemsize(a), _budget(a, memory, workers))
        size = _needed(a, made.largest * _itemsize(a))
        if size > memory:
            what = "chunk" if a.inner is None else "shard"
            raise LimitError(
                f"variable {a.path!r}: a {what} of shape {tuple(max(s, default=0) for s in a.grid.sizes)} takes "
                f"{size:,} bytes to convert, more than memory={memory:,}; give more memory or smaller {what}s"
            )
        slabs.append(made)
        largest = max(largest, size)
    return slabs, max(1, min(workers, memory // max(1, largest))), largest


def _copies(array: Array) -> float:
    return _COPIES if array.stored_as is None else _COPIES_JOINED


def _itemsize(array: Array) -> int:
    """Return the size in bytes of an element while it is converted."""
    return 64 if array.dtype.kind == "O" else array.dtype.itemsize + (array.stored.itemsize if array.unpack else 0)


def _budget(array: Array, memory: int, workers: int) -> int:
    """Return the size in bytes of a slab."""
    least, beside = _least(array, memory, workers), _beside(array)
    return least if beside is None else max(least, memory // workers - beside)


def _least(array: Array, memory: int, workers: int) -> int:
    """Return the size in bytes of a slab that is copied in memory."""
    return int(memory / _copies(array) / workers)


def _needed(array: Array, slab: int) -> int:
    """Return the bytes needed for a slab and everything that is in memory beside it."""
    most, beside = int(slab * _copies(array)), _beside(array)
    return most if beside is None else min(most, slab + beside)


def _beside(array: Array) -> int | None:
    """Return the bytes needed beside a slab if chunks are read directly into it, or `None` if they are not."""
    reader = array.reader
    plain = type(reader) is ZarrReader and reader.array.shards is None and not isinstance(reader.array.store, Url)
    if not (plain or isinstance(reader, ScratchReader)) or array.unpack is not None or array.stored_as is not None:
        return None
    if array.dtype.kind not in "iuf" or array.dtype == np.float16:  # others may need a second slab of another type
        return None
    pieces = (math.prod(int(np.diff(e).max(initial=1)) for e in of) for of in (array.cells, array.grid.edges))
    return BATCH_BYTES + _PIECES * sum(pieces) * array.dtype.itemsize


def _read_bytes(array: Array) -> int:
    return counted(array)[1] // array.dtype.itemsize * array.stored.itemsize


def _reads(array: Array, slabs: Slabs) -> float:
    """Return how often an element of the source is read on average."""
    return reads_of(slabs, array.cells) if array.whole_cells else 1.0


def _scratch(array: Array, path: str, shape: Sequence[int]) -> Array:
    """Return the intermediate array for the source of an array, with chunks of a given shape."""
    grid = Grid.regular(array.shape, shape)
    if grid.size > MAX_CHUNKS:
        raise LimitError(
            f"variable {array.path!r}: on the way to its chunks there would be {grid.size:,} others, more than "
            f"{MAX_CHUNKS:,}; give more memory, or choose chunks more like those of the source"
        )
    return replace(
        array, path=path, dtype=array.stored, fill=None, unstored=None, grid=grid, rectilinear=False, unpack=None,
        inner=None, feeds=array.path, absent=None,
    )  # fmt: skip


def _reading(array: Array, reader: ScratchReader) -> Array:
    """Return an array that is read from intermediate chunks."""
    return replace(array, reader=reader, cells=reader.grid.edges, whole_cells=True)


def _way(array: Array, memory: int, workers: int) -> list[tuple[int, ...]]:
    """Return the shapes of intermediate chunks of an array: none, one or two."""
    if not array.whole_cells or array.dtype.kind == "O" or not array.shape or 0 in array.shape:
        return []
    itemsize, budget = _itemsize(array), _budget(array, memory, workers)
    least = _least(array, memory, workers) // itemsize

    def reads(cells: Sequence[npt.NDArray[np.int64]], grid: Grid, room: int) -> float:
        return reads_of(choose_slabs(grid, cells, 1, room), cells)

    best, ways = reads(array.cells, array.grid, budget // itemsize), list[tuple[int, ...]]()
    # Intermediate arrays are written completely, even if hardly any of the target is.
    if best * counted(array)[0] <= _MOST_READS * array.grid.size:
        return ways
    source = [int(np.diff(c).max(initial=1)) for c in array.cells]
    target = [int(np.diff(e).max(initial=1)) for e in array.grid.edges]
    mean = [max(1, round(math.sqrt(a * b))) for a, b in zip(source, target, strict=True)]
    for sides in ([source, target], [source, mean, target]):
        room = budget // itemsize
        while True:
            shapes = [_between(array.shape, a, b, room) for a, b in pairwise(sides)]
            # The larger these chunks, the less memory remains for slabs.
            pieces = sorted(map(math.prod, [source, target, *shapes]))
            left = max(least, (memory // workers - BATCH_BYTES) // itemsize - _PIECES * sum(pieces[-2:]))
            if left >= room:
                break
            room = max(left, room * 7 // 8)
        if not all(_LEAST <= math.prod(s) * array.stored.itemsize <= memory / _COPIES for s in shapes):
            continue
        cost, cells = 0.0, array.cells
        for grid in (*(Grid.regular(array.shape, s) for s in shapes), array.grid):
            cost += reads(cells, grid, room)
            cells = grid.edges
        # Intermediate chunks are also written.
        cost += len(shapes)
        if cost < best:
            best, ways = cost, shapes
    return ways


def _between(shape: Sequence[int], source: Sequence[int], target: Sequence[int], room: int) -> tuple[int, ...]:
    """Return a chunk shape between both: in each dimension the smaller of the lengths that the two sides hold."""
    read, write = _grown(source, target, shape, room), _grown(target, source, shape, room)
    return tuple(min(r, w, n) for r, w, n in zip(read, write, shape, strict=True))


def _grown(chunk: Sequence[int], other: Sequence[int], shape: Sequence[int], room: int) -> list[int]:
    """Return a chunk grown by whole multiples, in the dimensions where the other is longer, until it fills `room`.

    >>> _grown([1, 1000], [1000, 1], [1000, 1000], 50_000)
    [50, 1000]
    """
    grown = [min(c, n) for c, n in zip(chunk, shape, strict=True)]
    while True:
        trials = []
        for d, (c, o, n) in enumerate(zip(chunk, other, shape, strict=True)):
            times = min(room // max(1, math.prod(grown)), 2)
            longer = min(grown[d] * times, n) if times > 1 else grown[d] + c
            if c < o and longer <= min(o, n) + c - 1 and longer > grown[d] and _fits(grown, d, longer, room):
                trials.append((grown[d] / o, d, longer))
        if not trials:
            return grown
        _, d, longer = min(trials)
        grown[d] = longer


def _fits(chunk: Sequence[int], d: int, length: int, room: int) -> bool:
    return math.prod(chunk) // chunk[d] * length <= room
