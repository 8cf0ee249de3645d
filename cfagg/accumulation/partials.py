"""The pass over the data by threads or Dask workers: each chunk is read once and reduced over all combinations."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.accumulation.recipe import Field, Recipe
from cfagg.accumulation.scratch import Journal, PassingJournal, Scratch
from cfagg.accumulation.source import mask_of
from cfagg.errors import CfaggError, LimitError, StaleError, TargetError
from cfagg.formats.fastzlib import crc32
from cfagg.formats.zarr import checksum, object_checksum, stamps
from cfagg.formats.zarr.remote_batches import AT_ONCE
from cfagg.kernels.cumulative.mask import Mask, native_block
from cfagg.runtime.budget import worker_count
from cfagg.runtime.clusters import answers, threads_of
from cfagg.runtime.threads import run_threads
from cfagg.storage.urls import Url

__all__ = ["Pass", "compute", "parts_of", "read_block", "readers", "reduce_block", "threads_that_fit"]

Axes = tuple[int, ...]

#: Values of a chunk from which their typical magnitude is estimated.
_SAMPLE = 512


@dataclass(frozen=True, eq=False)
class ChunkSums:
    """The record of one chunk, and the parts of the fields that are not all zeros."""

    record: npt.NDArray[Any]
    parts: tuple[tuple[Field, npt.NDArray[Any]], ...]


def compute(recipe: Recipe, number: int, stamp: tuple[int, ...], *, look: bool = False) -> ChunkSums:
    """Return the partial sums of one chunk, of an object with this `stamp` when the build began."""
    index, checks = recipe.window.index(number), list[int]()
    block = read_block(recipe, number, stamp, checks, look=look)
    mask = recipe.meaning.mask
    partials = reduce_block(recipe, index, block, recipe.judged_statistics, mask.valid_min, mask.valid_max)
    record = np.zeros((), recipe.record_type)
    record["number"], record["checksum"] = number, sum(checks)
    record["size"], record["time"], record["changed"], record["inode"] = stamp
    record["missing"], record["nonfinite"] = partials.missing, partials.nonfinite
    parts, check = [], 0
    for field, part in parts_of(recipe, partials, block.shape):
        if field.axes == recipe.whole:
            record[field.kind] = part[0]
        else:
            check = crc32(memoryview(part.reshape(-1).view(np.uint8)), check)
            parts.append((field, part))
    record["parts"] = check
    if recipe.judged:
        found = partials.statistics[recipe.whole]
        record["largest"] = max(abs(float(found.minimum)), abs(float(found.maximum)))
        record["small"], record["middle"] = _magnitudes(block, mask_of(recipe.meaning.dtype, mask))
    return ChunkSums(record, tuple(parts))


def _magnitudes(block: npt.NDArray[Any], mask: Mask) -> tuple[float, float]:
    """Return the 5 % quantile and the median of the magnitudes of valid values other than 0."""
    step = max(1, block.size // _SAMPLE) | 1  # odd, to sample different columns in each row
    sample = native_block(block.reshape(-1)[::step])
    size = np.abs(sample[mask.valid(sample)].astype(np.float64))
    size = np.sort(size[size > 0])
    return (float(size[len(size) // 20]), float(size[len(size) // 2])) if len(size) else (0.0, 0.0)


def read_block(
    recipe: Recipe,
    number: int,
    stamp: tuple[int, ...] | None,
    checks: list[int] | None = None,
    *,
    look: bool = False,
) -> npt.NDArray[Any]:
    """Return a chunk as it is summed; `stamp` as for `compute`, `None` if it was read before."""
    # The checksum of the object that holds it goes into `checks`, for the first chunk of each object.  With `look` its
    # stamp is read again, because another machine may see another file, or none.
    window, array = recipe.window, recipe.window.array
    index = window.index(number)
    if look and (now := _stamp(recipe, index, number)) != (stamp or ())[: len(now)]:
        raise _changed(recipe, index)
    seen = None
    if checks is not None and array.objects is array.grid and array.decoder is not None:
        found = checks
        seen = lambda stored: found.append(checksum(stored))  # noqa: E731
    block = recipe.reader.chunk(index, seen=seen)
    # A stored shard need not hold all of its chunks; a missing one holds none.
    there = stamp is not None and stamp[0] >= 0
    if stamp is not None and (
        (block is None and there and array.objects is array.grid) or (block is not None and not there)
    ):
        raise _changed(recipe, index)
    if checks is not None and stamp is not None and there and not checks and window.leading[number]:
        # Once for each shard: a part of it was just read, so it is in the system's memory, or soon will be.
        held = object_checksum(array, array.object_of(index))
        if held is None or held[0] != stamp[0]:
            raise _changed(recipe, index)
        checks.append(held[1])
    if block is None:
        block = np.full(window.shape(number), array.fill_value, array.dtype)
    as_read = recipe.meaning.mask.unsigned or block.dtype.kind == "b"
    return block.view(recipe.meaning.dtype) if as_read else block


def reduce_block(
    recipe: Recipe, index: tuple[int, ...], block: npt.NDArray[Any], statistics: tuple[Axes, ...], low: Any, high: Any
) -> Any:
    """Return the partial sums of a block over values in a range."""
    from cfagg.kernels.cumulative import partial_sums

    array = recipe.window.array
    try:
        return partial_sums(
            block,
            recipe.axes_sets,
            fills=recipe.meaning.mask.fills,
            valid_min=low,
            valid_max=high,
            weights=_weights(recipe, index, block.shape),
            double_double=recipe.sums == "double-double",
            statistics=statistics,
            compiled=recipe.compiled,
        )
    except OverflowError as error:
        raise LimitError(
            f"{array.store}: array {array.path!r}, chunk {index}: {error}; sum in real numbers with "
            "precision='float64' (--precision float64)"
        ) from error


def parts_of(
    recipe: Recipe, partials: Any, shape: tuple[int, ...], *, statistics: bool = True
) -> Iterator[tuple[Field, npt.NDArray[Any]]]:
    """Yield the parts of a chunk in the order of the fields."""
    for field in recipe.fields:
        axes, kind = field.axes, field.kind
        if kind in ("min", "max", "m2") and not statistics:
            continue
        if kind == "excluded":
            if partials.counts is None:
                continue
            cells = 1
            for a in axes:
                cells *= shape[a]
            found: Any = cells - partials.counts[axes]
        elif kind == "sum":
            found = partials.sums[axes]
        elif kind in ("low", "weights", "weights_low"):
            found = getattr(partials, kind)
            # Integers have no low parts; where the field exists they are 0.
            if found is None:
                continue
            found = found[axes]
        else:
            statistics = partials.statistics[axes]
            found = getattr(statistics, {"min": "minimum", "max": "maximum"}.get(kind, kind))
        yield field, np.ascontiguousarray(found, field.dtype)


def _weights(recipe: Recipe, index: tuple[int, ...], shape: tuple[int, ...]) -> npt.NDArray[np.float64] | None:
    """Return the weights of a chunk, broadcastable to it."""
    if recipe.weights is None:
        # Weights make integers be summed in real numbers.
        wanted = recipe.sums != "int64" and recipe.meaning.dtype.kind in "iu"
        return np.broadcast_to(np.float64(1.0), shape) if wanted else None
    extent = recipe.window.array.grid.extent(index)
    part = recipe.weights[tuple(slice(*extent[a]) for a in recipe.weight_axes)]
    place = [1] * len(shape)
    for a in recipe.weight_axes:
        place[a] = shape[a]
    return part.reshape(place)


def _stamp(recipe: Recipe, index: tuple[int, ...], number: int) -> tuple[int, ...]:
    """Return a stamp that shows on any machine whether the object of a chunk was written; (-1, 0) without a file."""
    array = recipe.window.array
    if isinstance(array.store, Url):
        return tuple(stamps(array, recipe.window.objects[[number]])[0].tolist())
    try:
        status = os.stat(f"{array.folder}/{array.key(array.object_of(index))}")  # noqa: PTH116  (Path costs as much again)
    except (FileNotFoundError, NotADirectoryError):
        return (-1, 0)
    return status.st_size, status.st_mtime_ns


def _changed(recipe: Recipe, index: tuple[int, ...]) -> CfaggError:
    array = recipe.window.array
    again = "run again" if isinstance(array.store, Url) else "run again with resume=True (--resume)"
    return StaleError(
        f"{array.store}: array {array.path!r}, chunk {index} is not the one that was there when the accumulation "
        f"began (it was written since, or a Dask worker does not see it); {again} when nothing writes to it"
    )


Progress = Callable[[int, int], None]

#: Memory for a chunk in multiples of its size: as stored, decoded, and its partial sums.
_COPIES = 3

#: Bytes of the array in one Dask task: large enough to make its overhead negligible.
_BATCH = 64 << 20


def readers(workers: int | None, store: str | os.PathLike[str]) -> int:
    """Return how many threads read chunks; more for a store on another machine, where most wait for answers."""
    return max(worker_count(workers), AT_ONCE if workers is None and isinstance(store, Url) else 1)


def threads_that_fit(recipe: Recipe, memory: int, workers: int) -> int:
    """Return the number of threads whose chunks fit in memory together; refuse a chunk that does not fit."""
    array, largest = recipe.window.array, recipe.window.array.dtype.itemsize
    for lengths in recipe.window.lengths:
        largest *= int(lengths.max(initial=0))
    need = largest * _COPIES
    if need > memory:
        raise LimitError(
            f"{array.store}: a chunk of array {array.path!r} has {largest:,} bytes and takes some {need:,} to sum, "
            f"more than memory={memory:,}; allow more memory (--memory) or rewrite the array with smaller chunks"
        )
    return max(1, min(workers, memory // max(1, need)))


@dataclass(eq=False)
class Pass:
    """Reads each chunk once and keeps its partial sums; `stamps` are those of all stored objects at the start."""

    recipe: Recipe
    #: Numbers of the chunks that are not done yet.
    todo: npt.NDArray[np.int64]
    stamps: npt.NDArray[np.int64]
    scratch: Scratch
    journal: Journal | PassingJournal
    #: Called with bytes done and bytes in all.
    progress: Progress | None

    def __post_init__(self) -> None:
        self._sizes = self.recipe.window.sizes(()) * self.recipe.window.array.dtype.itemsize
        self._total = int(self._sizes.sum())
        self._done = self._total - int(self._sizes[self.todo].sum())
        if self.progress is not None:
            self.progress(self._done, self._total)

    def by_threads(self, workers: int) -> None:
        """Read chunks here; the first error of any thread stops the others."""

        def work(number: int) -> int:
            self._keep(compute(self.recipe, number, self._stamp(number)))
            return number

        numbers = self.todo.tolist()
        few = workers == 1 or len(numbers) == 1
        for done in map(work, numbers) if few else run_threads(work, iter(numbers), workers, "accumulate"):
            self._count([done])

    def by_dask(self, client: Any) -> None:
        """Read chunks on the workers of a Dask cluster, which see the store by the same path."""
        from distributed import as_completed

        batches = self._batches()
        # Sent once to every worker, not with every task.
        sent = client.scatter(self.recipe, broadcast=True, hash=False)

        def submit(numbers: list[int]) -> Any:
            return client.submit(_compute_batch, sent, numbers, [self._stamp(n) for n in numbers], pure=False)

        ahead = [submit(b) for b in itertools.islice(batches, 2 * threads_of(client))]
        pending = as_completed(ahead, with_results=True)
        for _, batch in answers(client, pending, TargetError, "; what is done is kept"):
            for found in batch:
                self._keep(found)
            self._count([int(f.record["number"]) for f in batch])
            following = next(batches, None)
            if following is not None:
                pending.add(submit(following))

    def _batches(self) -> Iterator[list[int]]:
        """Yield numbers of chunks for one task each."""
        window = self.recipe.window
        mean = window.elements * window.array.dtype.itemsize / max(1, window.size)
        length = max(1, int(_BATCH // max(1.0, mean)))
        for i in range(0, len(self.todo), length):
            yield self.todo[i : i + length].tolist()

    def _stamp(self, number: int) -> tuple[int, ...]:
        """Return the stamp of the object that holds a chunk."""
        return tuple(self.stamps[self.recipe.window.objects[number]].tolist())

    def _keep(self, found: ChunkSums) -> None:
        """Write the partial sums of a chunk, then its record."""
        number = int(found.record["number"])
        for field, part in found.parts:
            self.scratch.write(field, number, memoryview(part.reshape(-1).view(np.uint8)))
        self.journal.add(found.record)

    def _count(self, numbers: Sequence[int]) -> None:
        """Count bytes of chunks that are done."""
        if self.progress is not None:
            self._done += int(sum(self._sizes[n] for n in numbers))
            self.progress(self._done, self._total)


def _compute_batch(recipe: Recipe, numbers: Sequence[int], stamps: Sequence[tuple[int, ...]]) -> list[ChunkSums]:
    """Return the partial sums of some chunks; runs on a worker."""
    return [compute(recipe, n, s, look=True) for n, s in zip(numbers, stamps, strict=True)]
