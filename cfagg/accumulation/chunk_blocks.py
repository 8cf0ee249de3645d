"""Chunks read for summing: many of one shape into one stretch of memory, with checksums of the stored bytes."""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.accumulation.recipe import Recipe
from cfagg.conventions import limits
from cfagg.errors import CfaggError, StaleError
from cfagg.formats.zarr import checksum, object_checksum, stamps
from cfagg.formats.zarr.batches import MISSING, ODD, Memory, read_chunks
from cfagg.model import Regular
from cfagg.runtime.direct import aligned
from cfagg.storage.urls import Url

__all__ = ["Room", "batches_of", "new_room", "read_block", "read_blocks"]

Array = npt.NDArray[Any]
Int64 = npt.NDArray[np.int64]
Room = Callable[[int], npt.NDArray[np.uint8]]

#: Chunks that are summed together at most.
_MOST = 1024


def batches_of(recipe: Recipe, numbers: Int64, nbytes: int, pieces: int) -> Iterator[Int64]:
    """Yield numbers of chunks of one shape, together of at most so many bytes, cut in at least so many pieces."""
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
    """Return memory to read into: aligned, because copying files to some other places takes three times as long."""
    return np.frombuffer(aligned(nbytes), np.uint8)


def read_blocks(recipe: Recipe, numbers: Int64, seen: Int64, room: Room, *, look: bool = False) -> tuple[Array, Int64]:
    """Return chunks of one shape, one after another, and the checksum of each one's object or 0; `seen` are its stamps.

    They are read into the bytes that `room` gives.  With `look` objects are looked at again: another machine may see
    other files, or none.
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
    """Return a chunk as it is summed, and the checksum of its object if it is the first one in that, else 0.

    `seen` is the stamp of the object when the build began, `None` where the chunk was read before.
    """
    window, array = recipe.window, recipe.window.array
    index = window.index(number)
    if look and _is_another(recipe, number, seen):
        raise _changed(recipe, number)
    found: list[int] = []
    summed = seen is not None and array.objects is array.grid and array.decoder is not None
    block = recipe.reader.chunk(index, seen=(lambda stored: found.append(checksum(stored))) if summed else None)
    # A stored shard need not hold all of its chunks; a missing one holds none.
    there = seen is not None and bool(seen[0] >= 0)
    if seen is not None and (
        (block is None and there and array.objects is array.grid) or (block is not None and not there)
    ):
        raise _changed(recipe, number)
    if seen is not None and there and not found and window.leading[number]:
        # Once for each shard: a part of it was just read, so it is in the system's memory, or soon will be.
        held = object_checksum(array, array.object_of(index))
        if held is None or held[0] != seen[0]:
            raise _changed(recipe, number)
        found.append(held[1])
    if block is None:
        block = np.full(window.shape(number), array.fill_value, array.dtype)
    return _as_summed(recipe, block), sum(found)


def _read_files(recipe: Recipe, numbers: Int64, memory: Memory, checks: Int64) -> Int64:
    """Read chunks that are files of this machine, note their checksums, and return what became of each."""
    array, done = recipe.window.array, list[int]()

    def seen(k: int, stored: Any) -> None:
        checks[k] = checksum(stored)

    keys = ((f"{array.folder}/{array.key(index)}").rpartition("/") for index in recipe.window.indices(numbers))
    for folder, some in itertools.groupby(keys, lambda key: key[0]):
        read_chunks(array, folder, [key[2] for key in some], memory, len(done), done, seen)
    return np.array(done)


def _stored_lengths(recipe: Recipe, number: int) -> list[int]:
    """Return the lengths of a chunk as it is stored, also what is beyond the array's end."""
    axes = recipe.window.array.grid.axes
    return [
        e.chunk if isinstance(e, Regular) else int(e[i + 1] - e[i])
        for e, i in zip(axes, recipe.window.index(number), strict=True)
    ]


def _as_summed(recipe: Recipe, elements: Array) -> Array:
    """Return stored elements in the type in which they are read."""
    as_read = recipe.meaning.mask.unsigned or elements.dtype.kind == "b"
    return elements.view(recipe.meaning.dtype) if as_read else elements


def _is_another(recipe: Recipe, number: int, seen: Int64 | None) -> bool:
    """Whether the object of a chunk is not, on this machine, the one that was seen."""
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
