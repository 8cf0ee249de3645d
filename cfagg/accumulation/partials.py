"""The pass over the data by threads or Dask workers: each chunk is read once and reduced over all combinations.

Chunks of the same shape are read and reduced many at a time.
"""

from __future__ import annotations

import itertools
import math
import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.accumulation.recipe import Field, Recipe, Room, batches_of, new_room, read_blocks
from cfagg.accumulation.scratch import Journal, PassingJournal, Scratch
from cfagg.accumulation.source import mask_of
from cfagg.errors import LimitError, TargetError
from cfagg.formats.fastzlib import crc32
from cfagg.formats.zarr.remote_batches import AT_ONCE
from cfagg.kernels.cumulative.mask import Mask, native_block
from cfagg.runtime.budget import worker_count
from cfagg.runtime.clusters import answers, shared, threads_of
from cfagg.runtime.threads import run_threads
from cfagg.storage.urls import Url

__all__ = ["Pass", "compute", "parts_of", "readers", "reduce_blocks", "threads_that_fit"]

Axes = tuple[int, ...]
Int64 = npt.NDArray[np.int64]

#: Number of values of a chunk from which their typical magnitude is estimated.
_SAMPLE = 512


@dataclass(frozen=True, eq=False)
class BlockSums:
    """Results for chunks of the same shape: their records, and the parts of the fields as bytes, one row for each.

    Parts with the number of elements that do not count are kept only for chunks that have such elements.
    """

    records: npt.NDArray[Any]
    parts: tuple[tuple[Field, npt.NDArray[np.uint8]], ...]

    def of(self, field: Field, parts: npt.NDArray[np.uint8]) -> tuple[Int64, npt.NDArray[np.uint8]]:
        """Return the numbers of the chunks whose parts of a field are kept, and these parts."""
        if field.kind != "excluded":
            return self.records["number"], parts
        some = self.records["missing"] > 0
        return self.records["number"][some], parts[some]


def compute(recipe: Recipe, numbers: Int64, seen: Int64, room: Room = new_room, *, look: bool = False) -> BlockSums:
    """Return the partial sums of chunks of the same shape; `seen`, `room` and `look` are as for `read_blocks`."""
    blocks, checks = read_blocks(recipe, numbers, seen, room, look=look)
    mask = recipe.meaning.mask
    partials = reduce_blocks(recipe, numbers, blocks, recipe.judged_statistics, mask.valid_min, mask.valid_max)
    records = np.zeros(len(numbers), recipe.record_type)
    records["number"], records["checksum"] = numbers, checks
    for column, name in enumerate(("size", "time", "changed", "inode")):
        records[name] = seen[:, column]
    records["missing"], records["nonfinite"] = partials.missing, partials.nonfinite
    parts = []
    for field, part in parts_of(recipe, partials, blocks.shape[1:]):
        if field.axes == recipe.whole:
            records[field.kind] = part
        else:
            parts.append((field, part.reshape(len(numbers), -1).view(np.uint8)))
    _check(records, parts)
    if recipe.judged:
        found = partials.statistics[recipe.whole]
        records["largest"] = np.maximum(*(np.abs(x.astype(np.float64)) for x in (found.minimum, found.maximum)))
        records["small"], records["middle"] = _magnitudes(blocks, mask_of(recipe.meaning.dtype, mask))
    return BlockSums(records, tuple(parts))


def _check(records: npt.NDArray[Any], parts: list[tuple[Field, npt.NDArray[np.uint8]]]) -> None:
    """Record for each chunk the checksum of its parts that are kept, one after another."""
    checks = [0] * len(records)
    some = (records["missing"] > 0).tolist()
    for field, part in parts:
        for k, row in enumerate(part):
            if some[k] or field.kind != "excluded":
                checks[k] = crc32(row, checks[k])
    records["parts"] = checks


def _magnitudes(blocks: npt.NDArray[Any], mask: Mask) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Return for each block the 5 % quantile and the median of the magnitudes of valid values other than 0."""
    rows = blocks.reshape(len(blocks), -1)
    step = max(1, rows.shape[1] // _SAMPLE) | 1  # odd, to sample different columns in each row
    sample = native_block(rows[:, ::step])
    size = np.abs(sample.astype(np.float64))
    counts = mask.valid(sample) & (size > 0)
    size = np.sort(np.where(counts, size, np.inf), axis=1)
    count, each = counts.sum(axis=1), np.arange(len(blocks))
    low, middle = size[each, count // 20], size[each, count // 2]
    return np.where(count, low, 0.0), np.where(count, middle, 0.0)


def reduce_blocks(
    recipe: Recipe, numbers: Int64, blocks: npt.NDArray[Any], statistics: tuple[Axes, ...], low: Any, high: Any
) -> Any:
    """Return the partial sums of numbered blocks over values in a range."""
    from cfagg.kernels.cumulative import partial_sums_each

    array = recipe.window.array
    try:
        return partial_sums_each(
            blocks,
            recipe.axes_sets,
            fills=recipe.meaning.mask.fills,
            valid_min=low,
            valid_max=high,
            weights=_weights(recipe, numbers, blocks.shape),
            double_double=recipe.sums == "double-double",
            statistics=statistics,
            compiled=recipe.compiled,
        )
    except OverflowError as error:
        if len(numbers) > 1:
            for k in range(len(numbers)):  # the one that overflows raises the error
                reduce_blocks(recipe, numbers[k : k + 1], blocks[k : k + 1], statistics, low, high)
        raise LimitError(
            f"{array.store}: array {array.path!r}, chunk {recipe.window.index(int(numbers[0]))}: {error}; sum in real "
            "numbers with precision='float64' (--precision float64)"
        ) from error


def parts_of(
    recipe: Recipe, partials: Any, shape: tuple[int, ...], *, statistics: bool = True
) -> Iterator[tuple[Field, npt.NDArray[Any]]]:
    """Yield the parts of blocks of one shape, with the blocks along the first axis, in the order of the fields."""
    for field in recipe.fields:
        axes, kind = field.axes, field.kind
        if kind in ("min", "max", "m2") and not statistics:
            continue
        if kind == "excluded":
            if partials.counts is None:
                continue
            found: Any = math.prod(shape[a] for a in axes) - partials.counts[axes]
        elif kind == "sum":
            found = partials.sums[axes]
        elif kind in ("low", "weights", "weights_low"):
            found = getattr(partials, kind)
            # Integers have no low parts; if the field exists, they are 0.
            if found is None:
                continue
            found = found[axes]
        else:
            found = getattr(partials.statistics[axes], {"min": "minimum", "max": "maximum"}.get(kind, kind))
        yield field, np.ascontiguousarray(found, field.dtype)


def _weights(recipe: Recipe, numbers: Int64, shape: tuple[int, ...]) -> npt.NDArray[np.float64] | None:
    """Return the weights of blocks, broadcastable to their shape."""
    if recipe.weights is None:
        # Weights of 1 make sure that integers are summed as real numbers.
        wanted = recipe.sums != "int64" and recipe.meaning.dtype.kind in "iu"
        return np.broadcast_to(np.float64(1.0), shape) if wanted else None
    window, axes = recipe.window, recipe.weight_axes
    local = np.unravel_index(numbers, window.matrix_shape)
    cut, place = [], [len(numbers), *[1] * (len(shape) - 1)]
    for k, a in enumerate(axes):
        positions = window.edges[a][local[a]][:, None] + np.arange(shape[1 + a])
        cut.append(positions.reshape(len(numbers), *[1] * k, -1, *[1] * (len(axes) - 1 - k)))
        place[1 + a] = shape[1 + a]
    found: npt.NDArray[np.float64] = recipe.weights[tuple(cut)].reshape(place)
    return found


Progress = Callable[[int, int], None]

#: Memory for a chunk in multiples of its size, for its stored form, its values, and its partial sums.
_COPIES = 3

#: Bytes of chunks that one thread sums together (at least one chunk), and the smallest number of turns of a thread.
_TOGETHER, _TURNS = 4 << 20, 4

#: Bytes of the array in one Dask task: large enough to make its overhead negligible.
_BATCH = 64 << 20


def readers(workers: int | None, store: str | os.PathLike[str]) -> int:
    """Return the number of threads to read chunks; more for a remote store, where most wait for responses."""
    return max(worker_count(workers), AT_ONCE if workers is None and isinstance(store, Url) else 1)


def threads_that_fit(recipe: Recipe, memory: int, workers: int) -> int:
    """Return the number of threads whose chunks fit in memory together; refuse a chunk that does not fit."""
    array = recipe.window.array
    largest = array.dtype.itemsize * math.prod(int(lengths.max(initial=0)) for lengths in recipe.window.lengths)
    need = largest * _COPIES
    if need > memory:
        raise LimitError(
            f"{array.store}: a chunk of array {array.path!r} has {largest:,} bytes and takes some {need:,} to sum, "
            f"more than memory={memory:,}; allow more memory (--memory) or rewrite the array with smaller chunks"
        )
    return max(1, min(workers, memory // max(1, need)))


@dataclass(eq=False)
class Pass:
    """Reads each chunk once and stores its partial sums; `stamps` are those of all stored objects at the start."""

    recipe: Recipe
    #: Numbers of the chunks that remain to be done.
    todo: npt.NDArray[np.int64]
    stamps: npt.NDArray[np.int64]
    scratch: Scratch
    journal: Journal | PassingJournal
    #: Called with bytes done and total bytes.
    progress: Progress | None
    #: Limit of memory in bytes.
    memory: int

    def __post_init__(self) -> None:
        self._kept = threading.local()
        self._sizes = self.recipe.window.sizes(()) * self.recipe.window.array.dtype.itemsize
        self._total = int(self._sizes.sum())
        self._done = self._total - int(self._sizes[self.todo].sum())
        if self.progress is not None:
            self.progress(self._done, self._total)

    def by_threads(self, workers: int) -> None:
        """Read chunks in threads of this process; the first error of any thread stops the others."""

        def work(numbers: Int64) -> Int64:
            self._keep(compute(self.recipe, numbers, self._stamps(numbers), self._room))
            return numbers

        together = min(_TOGETHER, self.memory // (_COPIES * workers))
        batches = batches_of(self.recipe, self.todo, together, _TURNS * workers)
        few = workers == 1 or len(self.todo) == 1
        for done in map(work, batches) if few else run_threads(work, batches, workers, "accumulate"):
            self._count(done)

    def _room(self, nbytes: int) -> npt.NDArray[np.uint8]:
        """Return the read buffer of this thread, which is reused."""
        raw: npt.NDArray[np.uint8] | None = getattr(self._kept, "raw", None)
        if raw is None or raw.size < nbytes:
            raw = self._kept.raw = new_room(nbytes)
        return raw

    def by_dask(self, client: Any) -> None:
        """Read chunks on the workers of a Dask cluster, which can access the store under the same path."""
        from distributed import as_completed

        batches = self._batches()
        sent = shared(client, self.recipe)

        def submit(numbers: Int64) -> Any:
            return client.submit(_compute_batch, sent, numbers, self._stamps(numbers), pure=False)

        ahead = [submit(b) for b in itertools.islice(batches, 2 * threads_of(client))]
        pending = as_completed(ahead, with_results=True)
        for _, batch in answers(client, pending, TargetError, "; finished work is kept"):
            for found in batch:
                self._keep(found)
                self._count(found.records["number"])
            following = next(batches, None)
            if following is not None:
                pending.add(submit(following))

    def _batches(self) -> Iterator[Int64]:
        """Yield the numbers of the chunks of each task."""
        window = self.recipe.window
        mean = window.elements * window.array.dtype.itemsize / max(1, window.size)
        length = max(1, int(_BATCH // max(1.0, mean)))
        for i in range(0, len(self.todo), length):
            yield self.todo[i : i + length]

    def _stamps(self, numbers: Int64) -> Int64:
        """Return the stamps of the objects in which chunks are stored."""
        return self.stamps[self.recipe.window.objects[numbers]]

    def _keep(self, found: BlockSums) -> None:
        """Write the partial sums of chunks, then their records."""
        for field, parts in found.parts:
            self.scratch.write(field, *found.of(field, parts))
        self.journal.add(found.records)

    def _count(self, numbers: Int64) -> None:
        """Report progress in bytes of chunks that are done."""
        if self.progress is not None:
            self._done += int(self._sizes[numbers].sum())
            self.progress(self._done, self._total)


def _compute_batch(recipe: Recipe, numbers: Int64, seen: Int64) -> list[BlockSums]:
    """Return the partial sums of some chunks, computed on a worker."""
    return [
        compute(recipe, some, seen[np.searchsorted(numbers, some)], look=True)
        for some in batches_of(recipe, numbers, _TOGETHER, 1)
    ]
