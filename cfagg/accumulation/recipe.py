"""The computations of a build: which chunks are summed, over which dimensions, and which results are kept.

Chunks of the same shape are read many at a time into one buffer, with checksums of the stored bytes.
"""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.accumulation.ranges import along
from cfagg.accumulation.source import Meaning
from cfagg.arrays.chunked import ZarrReader
from cfagg.conventions import limits
from cfagg.errors import CfaggError, StaleError
from cfagg.formats.zarr import ZarrArray, checksum, object_checksum, stamps
from cfagg.formats.zarr.batches import MISSING, ODD, Memory, read_chunks
from cfagg.model import Regular
from cfagg.runtime.direct import aligned
from cfagg.storage.urls import Url

__all__ = ["Field", "Recipe", "Room", "Window", "batches_of", "new_room", "read_block", "read_blocks"]

Int64 = npt.NDArray[np.int64]
Axes = tuple[int, ...]

#: With at most this number of elements, the whole build takes less time than loading the compiler.
_SMALL_JOB = 10_000_000


@dataclass(frozen=True)
class Window:
    """A box of chunks: the whole array, or its part from chunk `first` of `axis` onwards."""

    # Chunks are numbered in C order within the window.  Positions along a dimension are relative to the window's start:
    # chunk numbers if a combination of dimensions accumulates it, else elements.

    array: ZarrArray
    axis: int | None = None
    first: int = 0

    @cached_property
    def edges(self) -> tuple[Int64, ...]:
        """Edges of the window's chunks in elements of the array, the last cut at the array's end."""
        cut = [np.minimum(e, n) for e, n in zip(self.array.grid.edges, self.array.shape, strict=True)]
        if self.axis is not None:
            cut[self.axis] = cut[self.axis][self.first :]
        return tuple(cut)

    @property
    def matrix_shape(self) -> tuple[int, ...]:
        """Number of chunks along each dimension."""
        return tuple(len(e) - 1 for e in self.edges)

    @property
    def size(self) -> int:
        """Number of chunks."""
        return math.prod(self.matrix_shape)

    @property
    def elements(self) -> int:
        """Number of elements in them."""
        return math.prod(int(e[-1] - e[0]) for e in self.edges)

    @cached_property
    def lengths(self) -> tuple[Int64, ...]:
        """Lengths of the chunks along each dimension."""
        return tuple(np.diff(e) for e in self.edges)

    def start(self, axis: int) -> int:
        """Return the first element of the window along a dimension."""
        return int(self.edges[axis][0])

    def first_chunk(self, axis: int) -> int:
        """Return the first chunk of the window along a dimension."""
        return self.first if axis == self.axis else 0

    def index(self, number: int) -> tuple[int, ...]:
        """Return the index in the array's grid of a chunk of the window."""
        local = [int(i) for i in np.unravel_index(number, self.matrix_shape)]
        if self.axis is not None:
            local[self.axis] += self.first
        return tuple(local)

    def indices(self, numbers: Int64) -> Iterator[tuple[int, ...]]:
        """Yield the indices in the array's grid of chunks of the window."""
        local = list(np.unravel_index(numbers, self.matrix_shape))
        if self.axis is not None:
            local[self.axis] = local[self.axis] + self.first
        return zip(*(i.tolist() for i in local), strict=True)

    def shape(self, number: int) -> tuple[int, ...]:
        """Return the shape of a chunk of the window."""
        local = np.unravel_index(number, self.matrix_shape)
        return tuple(int(n[i]) for n, i in zip(self.lengths, local, strict=True))

    def sizes(self, axes: Axes) -> Int64:
        """Return for each chunk the number of elements that remain after summing over `axes`."""
        return self._outer([np.ones_like(n) if a in axes else n for a, n in enumerate(self.lengths)])

    def bounds(self, axes: Axes) -> tuple[Int64, ...]:
        """Return for each dimension the edges of the chunks' partial sums over `axes`, in positions of the window."""
        return tuple(np.arange(len(e), dtype=np.int64) if a in axes else e - e[0] for a, e in enumerate(self.edges))

    @cached_property
    def objects(self) -> Int64:
        """For each chunk the number of the object in which it is stored."""
        array, number = self.array, np.zeros(self.matrix_shape, np.int64)
        for a, (inner, outer) in enumerate(zip(array.grid.edges, array.objects.edges, strict=True)):
            held = np.searchsorted(outer, inner[self.first_chunk(a) : -1], side="right") - 1
            number = number * array.objects.matrix_shape[a] + along(held, a, array.ndim)
        return number.reshape(-1)

    @cached_property
    def kinds(self) -> Int64:
        """For each chunk a number that is the same for chunks of equal shapes, both as stored and as summed."""
        number = np.zeros(self.matrix_shape, np.int64)
        for a, (edges, lengths) in enumerate(zip(self.array.grid.edges, self.lengths, strict=True)):
            stored = np.diff(edges)[self.first_chunk(a) :]
            found = np.unique(np.stack([stored, lengths]), axis=1, return_inverse=True)[1].reshape(-1)
            number = number * (int(found.max(initial=0)) + 1) + along(found, a, self.array.ndim)
        return number.reshape(-1)

    @cached_property
    def leading(self) -> npt.NDArray[np.bool_]:
        """For each chunk whether it is the first of the window in its object."""
        out = np.zeros(self.size, bool)
        out[np.unique(self.objects, return_index=True)[1]] = True
        return out

    def _outer(self, factors: Sequence[Any]) -> Int64:
        """Return products of one factor for each dimension, flattened in C order of the chunks."""
        out = np.ones(self.matrix_shape, np.int64)
        for a, f in enumerate(factors):
            out *= along(np.asarray(f, np.int64), a, len(factors))
        return out.reshape(-1)


@dataclass(frozen=True)
class Field:
    """One kind of partial sums over one combination of axes."""

    #: ``sum``, ``low``, ``weights``, ``weights_low``, ``excluded``, ``min``, ``max`` or ``m2``.
    kind: str
    axes: Axes
    #: The dtype by its name in NumPy.
    dtype: str

    @property
    def file(self) -> str:
        """Name of the file."""
        return f"{self.kind}-{'-'.join(map(str, self.axes))}"


_RECORD = [
    ("number", "<i8"),
    # Stamp of the object from which the chunk was read, and, for the first chunk of each object, its checksum.
    ("size", "<i8"),
    ("time", "<i8"),
    ("changed", "<i8"),
    ("inode", "<i8"),
    ("checksum", "<i8"),
    ("missing", "<i8"),
    ("nonfinite", "<i8"),
    # CRC-32 of the partial sums, and of the record.
    ("parts", "<u4"),
    ("check", "<u4"),
]

#: Present if sums may lose digits: a low quantile, the median and the maximum of the magnitudes of values.
_MAGNITUDES = [("small", "<f8"), ("middle", "<f8"), ("largest", "<f8")]


@dataclass(frozen=True, eq=False)
class Recipe:
    """The computation for every chunk; small enough to be sent to another machine."""

    window: Window
    meaning: Meaning
    #: Combinations of axes to sum over.
    axes_sets: tuple[Axes, ...]
    #: The combinations that have statistics.
    statistics: tuple[Axes, ...]
    sums: str
    #: Weights along `weight_axes` only.
    weights: npt.NDArray[np.float64] | None = None
    weight_axes: Axes = ()

    @cached_property
    def reader(self) -> ZarrReader:
        """A reader of the array."""
        return ZarrReader(self.window.array)

    @cached_property
    def whole(self) -> Axes:
        """The combination of all axes."""
        return tuple(range(self.window.array.ndim))

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        """The kinds of partial sums that are kept for every chunk."""
        total, values = ("<i8" if self.sums == "int64" else "<f8"), self.meaning.dtype.newbyteorder("<").str
        double = self.sums == "double-double"
        sums = {"sum": total, "excluded": "<i8"} | ({"low": "<f8"} if double else {})
        if self.weights is not None:
            sums |= {"weights": "<f8"} | ({"weights_low": "<f8"} if double else {})
        statistics = {"min": values, "max": values, "m2": "<f8"}
        return tuple(
            Field(kind, axes, dtype)
            for axes in self.axes_sets
            for kind, dtype in (sums | (statistics if axes in self.statistics else {})).items()
        )

    @cached_property
    def files(self) -> tuple[Field, ...]:
        """The fields that are stored in files; those over all dimensions, one number each, are in the records."""
        return tuple(f for f in self.fields if f.axes != self.whole)

    @cached_property
    def record_type(self) -> np.dtype[Any]:
        """The dtype of the record of a chunk."""
        own = [(f.kind, f.dtype) for f in self.fields if f.axes == self.whole]
        return np.dtype([*_RECORD, *(_MAGNITUDES if self.judged else ()), *own])

    @property
    def judged(self) -> bool:
        """Whether sums may lose digits, so that the magnitudes of values matter."""
        return self.sums != "int64"

    @property
    def judged_statistics(self) -> tuple[Axes, ...]:
        """Combinations of axes whose statistics are computed, including that of all axes if magnitudes matter."""
        more = self.judged and self.whole not in self.statistics
        return (*self.statistics, self.whole) if more else self.statistics

    @property
    def compiled(self) -> bool:
        """Whether the job is large enough for compiled code."""
        return self.window.elements > _SMALL_JOB


Array = npt.NDArray[Any]
Room = Callable[[int], npt.NDArray[np.uint8]]

#: Largest number of chunks that are summed together.
_MOST = 1024


def batches_of(recipe: Recipe, numbers: Int64, nbytes: int, pieces: int) -> Iterator[Int64]:
    """Yield batches of chunks of equal shape, each of at most `nbytes` bytes, at least `pieces` batches if possible."""
    window = recipe.window
    kinds = window.kinds[numbers]
    room = max(1, min(_MOST, len(numbers) // pieces))
    order = np.argsort(kinds, kind="stable")
    for some in np.split(numbers[order], np.flatnonzero(np.diff(kinds[order])) + 1):
        if len(some):
            size = math.prod(_stored_lengths(recipe, int(some[0]))) * window.array.dtype.itemsize
            count = max(1, min(room, nbytes // max(1, size)))
            yield from (some[i : i + count] for i in range(0, len(some), count))


def new_room(nbytes: int) -> npt.NDArray[np.uint8]:
    """Return a buffer to read into, aligned because copying files to some other addresses takes three times as long."""
    return np.frombuffer(aligned(nbytes), np.uint8)


def read_blocks(recipe: Recipe, numbers: Int64, seen: Int64, room: Room, *, look: bool = False) -> tuple[Array, Int64]:
    """Return chunks of the same shape, and the checksum of each one's object or 0; `seen` are the stamps.

    They are read into the buffer returned by `room`.  With `look`, stamps of objects are compared again, since another
    machine may see other files, or none.
    """
    array, count = recipe.window.array, len(numbers)
    first, decoder = int(numbers[0]), array.decoder
    lengths = _stored_lengths(recipe, first)
    size = math.prod(lengths) * array.dtype.itemsize
    here = array.objects is array.grid and array.opens is None and not isinstance(array.store, Url)
    together = here and decoder is not None and bool(array.ndim) and 0 < size <= limits.MAX_CHUNK
    if count == 1 and not together:
        block, check = read_block(recipe, first, seen[0], look=look)
        return block[np.newaxis], np.array([check], np.int64)
    raw = room(count * size)
    elements = raw[: count * size].view(array.dtype)
    order = range(array.ndim) if decoder is None or decoder.order is None else decoder.order
    blocks = elements.reshape(count, *(lengths[a] for a in order)).transpose(0, *(1 + np.argsort(order)))
    blocks = blocks[(slice(None), *(slice(0, n) for n in recipe.window.shape(first)))]
    done, checks = np.full(count, ODD), np.zeros(count, np.int64)
    if together:
        done = _read_files(recipe, numbers, Memory(raw, list(range(0, count * size, size)), [size] * count), checks)
        if decoder is not None and decoder.swap:
            elements.byteswap(inplace=True)
    absent, odd = done == MISSING, done == ODD
    wrong = ~odd & (absent == (seen[:, 0] >= 0))
    for k in range(count) if look else ():
        wrong[k] |= _is_another(recipe, int(numbers[k]), seen[k])
    if wrong.any():
        raise _changed(recipe, int(numbers[wrong][0]))
    if absent.any():
        blocks[absent] = array.fill_value
    blocks = _as_summed(recipe, blocks)
    for k in np.flatnonzero(odd).tolist():
        blocks[k], checks[k] = read_block(recipe, int(numbers[k]), seen[k])
    return blocks, checks


def read_block(recipe: Recipe, number: int, seen: Int64 | None = None, *, look: bool = False) -> tuple[Array, int]:
    """Return a chunk as it is summed, and the checksum of its object if it is the first chunk in the object, else 0.

    `seen` is the stamp of the object when the build began, or `None` if the chunk was read before.
    """
    window, array = recipe.window, recipe.window.array
    index = window.index(number)
    if look and _is_another(recipe, number, seen):
        raise _changed(recipe, number)
    found: list[int] = []
    summed = seen is not None and array.objects is array.grid and array.decoder is not None
    block = recipe.reader.chunk(index, seen=(lambda stored: found.append(checksum(stored))) if summed else None)
    # A stored shard need not contain all of its chunks; a missing shard contains none.
    there = seen is not None and bool(seen[0] >= 0)
    if seen is not None and (
        (block is None and there and array.objects is array.grid) or (block is not None and not there)
    ):
        raise _changed(recipe, number)
    if seen is not None and there and not found and window.leading[number]:
        # Once for each shard, a part of which was just read, so that it is in the system's memory, or soon will be.
        held = object_checksum(array, array.object_of(index))
        if held is None or held[0] != seen[0]:
            raise _changed(recipe, number)
        found.append(held[1])
    if block is None:
        block = np.full(window.shape(number), array.fill_value, array.dtype)
    return _as_summed(recipe, block), sum(found)


def _read_files(recipe: Recipe, numbers: Int64, memory: Memory, checks: Int64) -> Int64:
    """Read chunks that are local files, record their checksums, and return the status of each."""
    array, done = recipe.window.array, list[int]()

    def seen(k: int, stored: Any) -> None:
        checks[k] = checksum(stored)

    keys = ((f"{array.folder}/{array.key(index)}").rpartition("/") for index in recipe.window.indices(numbers))
    for folder, some in itertools.groupby(keys, lambda key: key[0]):
        read_chunks(array, folder, [key[2] for key in some], memory, len(done), done, seen)
    return np.array(done)


def _stored_lengths(recipe: Recipe, number: int) -> list[int]:
    """Return the lengths of a chunk as stored, including the part beyond the end of the array."""
    axes = recipe.window.array.grid.axes
    return [
        e.chunk if isinstance(e, Regular) else int(e[i + 1] - e[i])
        for e, i in zip(axes, recipe.window.index(number), strict=True)
    ]


def _as_summed(recipe: Recipe, elements: Array) -> Array:
    """Return stored elements in the dtype in which they are read."""
    as_read = recipe.meaning.mask.unsigned or elements.dtype.kind == "b"
    return elements.view(recipe.meaning.dtype) if as_read else elements


def _is_another(recipe: Recipe, number: int, seen: Int64 | None) -> bool:
    """Return whether the object of a chunk differs, on this machine, from the one that was seen."""
    array = recipe.window.array
    now: tuple[int, ...]
    if isinstance(array.store, Url):
        now = tuple(stamps(array, recipe.window.objects[[number]])[0].tolist())
    else:
        try:
            status = os.stat(f"{array.folder}/{array.key(array.object_of(recipe.window.index(number)))}")  # noqa: PTH116  (Path costs as much again)
            now = status.st_size, status.st_mtime_ns
        except (FileNotFoundError, NotADirectoryError):
            now = -1, 0
    return seen is None or now != tuple(seen[: len(now)].tolist())


def _changed(recipe: Recipe, number: int) -> CfaggError:
    array, index = recipe.window.array, recipe.window.index(number)
    again = "run again" if isinstance(array.store, Url) else "run again with resume=True (--resume)"
    return StaleError(
        f"{array.store}: array {array.path!r}, chunk {index} has changed since the accumulation began, or a Dask "
        f"worker does not see it; {again} when nothing writes to it"
    )
