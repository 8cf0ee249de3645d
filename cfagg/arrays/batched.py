"""Reading the chunks that a plan touches many at a time, directly into the output if they are adjacent there.

A plan is cut into batches: products of runs of its rows, which are of one kind (chunks that are read whole, or not) and
of one shard.  A batch is read into one block of memory by `cfagg.formats.zarr.batches`, if possible that of the output
itself, and otherwise copied from there to its place at once.  Special cases are left to a function that reads one
chunk.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.arrays.blocks import Work, constant, copy, place, run
from cfagg.arrays.plan import AxisPlan, Plan
from cfagg.conventions import limits
from cfagg.formats.zarr.batches import MISSING, ODD, READ, Memory, positions, read_chunks, read_shard, worth_compiling
from cfagg.formats.zarr.codecs import Decoder
from cfagg.formats.zarr.metadata import ZarrArray
from cfagg.formats.zarr.remote_batches import AT_ONCE, read_remote_chunks, read_remote_shard
from cfagg.model import Regular
from cfagg.storage.urls import Url

__all__ = ["batches", "cut", "grain", "is_remote"]

Int64 = npt.NDArray[np.int64]

#: Decoded bytes and chunks of one batch; one chunk alone may be larger.
BATCH_BYTES = 1 << 20
BATCH_CHUNKS = 1024

#: Threads pay off for compressed chunks that are smaller by this factor than chunks that are only read.
UNPACKED = 8

#: Remote chunks that one thread reads before others may take over.
_ASKED = 64

#: Number of bytes that is worth threads whatever the data.
FORCED = 1 << 62

#: If larger chunks are stored uncompressed, only the required bytes are read.
LARGE = 1 << 16


@dataclass(frozen=True)
class _Rows:
    """The rows of a plan along one dimension, as columns."""

    plan: AxisPlan
    cell: Int64
    length: Int64  # elements of the stored chunk, including those beyond the array's end
    whole: npt.NDArray[np.bool_]  # the whole chunk is selected
    shard: Int64 | None  # index of the shard
    within: Int64 | None  # position in the shard

    def runs(self, most: int, *, mixed: bool) -> list[slice]:
        """Return runs of at most `most` rows, of one shard each, and of one kind unless they may be `mixed`."""
        count = len(self.cell)
        differs = (self.whole[1:] != self.whole[:-1]) & (not mixed)
        if self.shard is not None:
            differs |= self.shard[1:] != self.shard[:-1]
        ends = [0, *(np.flatnonzero(differs) + 1).tolist(), count]
        return [slice(i, min(i + most, b)) for a, b in itertools.pairwise(ends) for i in range(a, b, most)]


def batches(
    array: ZarrArray,
    decoder: Decoder,
    made: Plan,
    out: npt.NDArray[Any],
    alone: Callable[[int], None],
    at_once: int | None = None,
) -> Iterator[Work]:
    """Yield the work that fills `out` with the part of an array in a plan; `alone` reads one cell of the plan.

    For a remote array that is a single piece of work, which issues `at_once` requests concurrently.
    """
    rows = [_rows(array, d, axis) for d, axis in enumerate(made.axes)]
    largest = array.dtype.itemsize * math.prod(int(r.length.max()) if len(r.cell) else 0 for r in rows)
    if largest > limits.MAX_CHUNK:
        # Read in part if possible, else an error.
        yield from (partial(alone, k) for k in range(len(made)))
        return
    room = min(max(BATCH_BYTES // max(largest, 1), 1), BATCH_CHUNKS)
    read = _Job(array, decoder, rows, made, out, alone).read
    if not is_remote(array):
        yield from (partial(read, box, 1) for box in _boxes(rows, room, mixed=False))
        return
    threads = AT_ONCE if at_once is None else max(at_once, 1)
    if array.shards is None:
        room = max(min(room, len(made) // threads, _ASKED), 1)
    # Putting chunks in their places one by one costs less than another request.
    few = list(itertools.islice(_boxes(rows, room, mixed=True), threads))
    each = max(threads // max(len(few), 1), 1)
    works = (partial(read, box, each) for box in _boxes(rows, room, mixed=True))
    yield partial(run, works, FORCED, len(few))


def grain(array: ZarrArray, made: Plan) -> int:
    """Return the number of parts of a plan that are read without contention for the interpreter lock."""
    if array.shards is None and not is_remote(array) and worth_compiling(array.decoder, len(made)):
        import cfagg.kernels.files  # noqa: F401 - from here on it is used

        return -(-len(made) // BATCH_CHUNKS)
    packed = array.decoder is not None and array.decoder.steps
    return -(-len(made) // UNPACKED) if packed else len(made)


def is_remote(array: ZarrArray) -> bool:
    """Return whether every read of an object is a request to another machine."""
    return isinstance(array.store, Url) and array.opens is None


def _boxes(rows: Sequence[_Rows], room: int, *, mixed: bool) -> Iterator[tuple[slice, ...]]:
    """Yield batches of at most `room` chunks, in C order."""
    runs: list[list[slice]] = []
    for r in reversed(rows):
        found = r.runs(room, mixed=mixed)
        runs.insert(0, found)
        room = max(room // max((s.stop - s.start for s in found), default=1), 1)
    return itertools.product(*runs)


def _rows(array: ZarrArray, d: int, axis: AxisPlan) -> _Rows:
    """Return the rows of one dimension as columns."""
    grid, cell = array.grid.axes[d], axis.cell
    if isinstance(grid, Regular):
        length = np.broadcast_to(np.int64(grid.chunk), cell.shape)
    else:
        length = grid[cell + 1] - grid[cell]
    whole = (axis.start == 0) & (axis.count == length) & (axis.index is None) & (axis.sign > 0)
    if axis.step != 1:
        whole &= length == 1
    shard = within = None
    if array.objects is not array.grid:
        inner: Any = grid  # chunks within shards all have the same length
        start = cell * inner.chunk
        held = array.objects.axes[d]
        if isinstance(held, Regular):
            shard = start // held.chunk
            within = (start - shard * held.chunk) // inner.chunk
        else:
            shard = np.searchsorted(held, start, "right") - 1
            within = (start - held[shard]) // inner.chunk
    return _Rows(axis, cell, length, whole, shard, within)


@dataclass(frozen=True)
class _Job:
    """The common state of all batches of one plan."""

    array: ZarrArray
    decoder: Decoder
    rows: Sequence[_Rows]
    made: Plan
    out: npt.NDArray[Any]
    alone: Callable[[int], None]

    def read(self, box: tuple[slice, ...], at_once: int) -> None:
        """Read one batch and put it in its place."""
        array, decoder = self.array, self.decoder
        lengths = [r.length[s] for r, s in zip(self.rows, box, strict=True)]
        total = math.prod(len(n) for n in lengths)
        equal = all(bool((n == n[0]).all()) for n in lengths)
        whole = all(bool(r.whole[s].all()) for r, s in zip(self.rows, box, strict=True))
        sizes, starts = _places(array.dtype.itemsize, lengths, equal=equal)
        if decoder.plain and not whole and max(sizes) > LARGE:
            for k in _numbers(self.made, box):
                self.alone(k)
            return
        # NumPy has views of up to twice 32 dimensions.
        view = self._joined(box, lengths) if whole and equal and len(box) <= 32 else None
        straight = view if view is not None and view.flags.c_contiguous else None
        raw = np.empty(sum(sizes), np.uint8) if straight is None else straight.reshape(-1).view(np.uint8)
        memory = Memory(raw, starts, sizes)
        done = self._fill(box, memory, at_once)
        # Memory that nothing was read into is not touched.
        if decoder.swap and READ in done:
            raw.view(array.dtype).byteswap(inplace=True)
        if view is not None:
            if done.count(MISSING) == total:
                view[...] = array.fill_value
                return
            if straight is None and READ in done:
                view[...] = raw.view(array.dtype).reshape(view.shape)
            if not any(done):
                return
        self._place(box, memory, done, placed=view is not None)

    def _joined(self, box: Sequence[slice], lengths: Sequence[Int64]) -> npt.NDArray[Any]:
        """Return the place of a batch of equal, whole chunks in the output: rows of chunks, then elements as stored."""
        region: list[Any] = []
        split: list[int] = []
        for r, s, n in zip(self.rows, box, lengths, strict=True):
            begin, length = int(r.plan.out[s.start]), int(n[0])
            region.append(slice(begin, begin + len(n) * length))
            split += [len(n), length]
        ndim = len(self.rows)
        order = range(ndim) if self.decoder.order is None else self.decoder.order
        view = self.out[(*region, ...)].reshape(split)
        return view.transpose([*range(0, 2 * ndim, 2), *(2 * d + 1 for d in order)])

    def _fill(self, box: Sequence[slice], memory: Memory, at_once: int) -> list[int]:
        """Read the chunks of a batch into memory, and return the outcome for each."""
        array, rows = self.array, self.rows
        if array.shards is not None:
            held, places = [], []
            for r, s in zip(rows, box, strict=True):
                assert r.shard is not None  # noqa: S101
                assert r.within is not None  # noqa: S101
                held.append(int(r.shard[s.start]))
                places.append(r.within[s])
            inside = positions(array.shards.counts(array.objects, held), places)
            if is_remote(array):
                return read_remote_shard(array, array.shards, held, inside, memory, at_once)
            return read_shard(array, array.shards, held, inside, memory)
        if is_remote(array):
            cells = itertools.product(*(r.cell[s].tolist() for r, s in zip(rows, box, strict=True)))
            return read_remote_chunks(array, self.decoder, [array.key(c) for c in cells], memory, at_once)
        done: list[int] = []
        folder, prefix, separator = array.folder, array.prefix, array.separator
        if not rows:
            read_chunks(array, folder, [array.key(())], memory, 0, done)
            return done
        names = [list(map(str, r.cell[s].tolist())) for r, s in zip(rows, box, strict=True)]
        last = names.pop()
        joins = separator == "/"
        for head in itertools.product(*names):
            front = separator.join((prefix, *head) if prefix else head)
            if joins:
                read_chunks(array, f"{folder}/{front}" if front else folder, last, memory, len(done), done)
            else:
                keys = [f"{front}{separator}{n}" for n in last] if front else last
                read_chunks(array, folder, keys, memory, len(done), done)
        return done

    def _place(self, box: Sequence[slice], memory: Memory, done: Sequence[int], *, placed: bool) -> None:
        """Put chunks in their places one by one: all, or only missing ones if the batch has already been placed."""
        out, rows, dtype = self.out, self.rows, self.array.dtype
        numbers = _numbers(self.made, box)
        shapes = itertools.product(*(r.length[s].tolist() for r, s in zip(rows, box, strict=True)))
        sources = itertools.product(*(_slices(r.plan, s, source=True) for r, s in zip(rows, box, strict=True)))
        targets = itertools.product(*(_slices(r.plan, s, source=False) for r, s in zip(rows, box, strict=True)))
        for k, (shape, source, target) in enumerate(zip(shapes, sources, targets, strict=True)):
            state = done[k]
            if state == MISSING:
                constant(out, target, self.array.fill_value)()
            elif state == ODD:
                self.alone(numbers[k])
            elif state == READ and not placed:
                chunk = self.decoder.placed(memory.place(k).view(dtype), shape)
                if all(type(s) is slice for s in (*source, *target)):
                    out[(*target, ...)] = chunk[(*source, ...)]
                else:
                    place(out, target, partial(copy, cut(chunk, source)))


def _places(itemsize: int, lengths: Sequence[Int64], *, equal: bool) -> tuple[list[int], list[int]]:
    """Return the number of bytes of each chunk of a batch, and where they begin if chunks are contiguous."""
    if equal:
        size = itemsize * math.prod(int(n[0]) for n in lengths)
        total = math.prod(len(n) for n in lengths)
        return [size] * total, list(range(0, size * total, max(size, 1)))
    each = np.full(1, itemsize, np.int64)
    for n in lengths:
        each = np.multiply.outer(each, n).reshape(-1)
    return each.tolist(), [0, *np.cumsum(each)[:-1].tolist()]


def _numbers(made: Plan, box: Sequence[slice]) -> list[int]:
    """Return the indices of the cells of a batch in a plan."""
    flat = np.zeros(1, np.int64)
    for n, s in zip(made.counts, box, strict=True):
        flat = np.add.outer(flat * n, np.arange(s.start, s.stop)).reshape(-1)
    found: list[int] = flat.tolist()
    return found


def cut(chunk: npt.NDArray[Any], source: Sequence[slice | Int64]) -> npt.NDArray[Any]:
    """Return the part of a chunk that a plan selects."""
    for d, s in enumerate(source):
        chunk = chunk[(slice(None),) * d + (s,)] if isinstance(s, slice) else chunk.take(s, axis=d)
    return chunk


def _slices(axis: AxisPlan, rows: slice, *, source: bool) -> list[Any]:
    """Return the selection of each cell, or its place in the output, like `AxisPlan.source` and `AxisPlan.target`."""
    if axis.index is not None:
        return [(axis.source if source else axis.target)(row) for row in range(rows.start, rows.stop)]
    counts = axis.count[rows].tolist()
    if source:
        step = axis.step
        starts = axis.start[rows].tolist()
        return [slice(a, a + (n - 1) * step + 1, step) for a, n in zip(starts, counts, strict=True)]
    outs = axis.out[rows].tolist()
    if axis.sign > 0:
        return [slice(a, a + n) for a, n in zip(outs, counts, strict=True)]
    return [slice(a, a - n if a >= n else None, -1) for a, n in zip(outs, counts, strict=True)]
