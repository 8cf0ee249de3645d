"""Writing one slab: it is read, conformed and cut into chunks, which are encoded and written."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.conversion.journal import Chunk
from cfagg.conversion.plan import Array
from cfagg.conversion.slabs import Slabs
from cfagg.formats.zarr.encoding import joined
from cfagg.formats.zarr.written_codecs import Codec, content_checksum

__all__ = ["Job", "Put", "Scratch", "SlabWriter", "Task", "read_slab"]

#: Writes a chunk under its key, and returns what its state is known by; it can be pickled where workers write.
Put = Callable[[str, Any], int]


@dataclass(frozen=True)
class Task:
    """One slab of one array."""

    array: int
    slab: int


@dataclass(frozen=True, eq=False)
class Job:
    """What is written, where and how: all that has to be known to write a slab, in any process."""

    arrays: Sequence[Array]
    slabs: Sequence[Slabs]
    put: Put
    codec: Codec
    zarr_format: int
    checksums: bool = False  # of the values, where these are to be verified

    def nbytes(self, task: Task) -> int:
        """Return the bytes of the values of a slab."""
        extent = self.slabs[task.array].extent(task.slab)
        itemsize: int = self.arrays[task.array].dtype.itemsize
        return itemsize * math.prod(int(e.stop - e.start) for e in extent)


@dataclass(eq=False)
class Scratch(threading.local):
    """Memory that one thread uses again and again, so that the system need not provide it anew for each slab."""

    held: dict[str, npt.NDArray[np.uint8]] = field(default_factory=dict)

    def array(self, name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
        """Return an uninitialised array."""
        if dtype.kind == "O":
            return np.empty(shape, dtype)
        count = math.prod(shape) * dtype.itemsize
        block = self.held.get(name)
        if block is None or block.nbytes < count:
            block = self.held[name] = np.empty(count, np.uint8)
        return block[:count].view(dtype).reshape(shape)


def read_slab(array: Array, extent: tuple[slice, ...], scratch: Scratch) -> npt.NDArray[Any]:
    """Return a box of an array as it is written, in memory that the next call uses again."""
    shape = tuple(e.stop - e.start for e in extent)
    stored = scratch.array("stored", shape, array.stored)
    array.reader.read(extent, stored)
    if array.unpack is None:
        return stored
    block = scratch.array("unpacked", shape, array.dtype)
    array.unpack(stored, block)
    return block


class SlabWriter:
    """Reads, encodes and writes one slab; any thread may use it."""

    def __init__(self, job: Job, stop: threading.Event) -> None:
        self._job, self._stop = job, stop
        self._encode = job.codec.lender()
        self._scratch = Scratch()

    def write(self, task: Task, put: Put | None = None) -> list[Chunk]:
        """Write all chunks of a slab, elsewhere with `put`, and return what the journal notes of them."""
        job = self._job
        put = put or job.put
        array, slabs = job.arrays[task.array], job.slabs[task.array]
        block = read_slab(array, slabs.extent(task.slab), self._scratch)
        shape = array.grid.matrix_shape
        out = []
        for index, box in slabs.walk(task.slab):
            if self._stop.is_set():
                break
            # The ellipsis keeps an element of a scalar array an array.
            place: Any = (*box, ...)
            values = block[place]
            key, encoded = self._object(array, index, values)
            state = put(key, encoded)
            number = int(np.ravel_multi_index(index, shape)) if index else 0
            content = content_checksum(values) if job.checksums else -1
            out.append((number, len(encoded), state, content))
        return out

    def _object(self, array: Array, index: tuple[int, ...], values: npt.NDArray[Any]) -> tuple[str, Any]:
        """Return the key and the bytes of a stored object."""
        there = array.stored_as
        if there is not None:
            return there.key(index), there.encoded(index, values)
        key = array.key(index, self._job.zarr_format)
        return key, self._encoded(array, values) if array.inner is None else self._shard(array, values)

    def _shard(self, array: Array, values: npt.NDArray[Any]) -> memoryview:
        """Return the bytes of one shard: its chunks that reach into the array, and where they are."""
        lengths: Any = array.inner
        counts = [n // c for n, c in zip(array.chunk_shape, lengths, strict=True)]
        chunks: list[bytes | None] = []
        for index in product(*map(range, counts)):
            place = tuple(slice(i * c, (i + 1) * c) for i, c in zip(index, lengths, strict=True))
            part = values[place]
            # What is encoded may be memory that the next chunk is encoded into.
            chunks.append(bytes(self._encoded(array, part, lengths)) if part.size else None)
        return memoryview(joined(chunks) or b"")

    def _encoded(self, array: Array, values: npt.NDArray[Any], whole: tuple[int, ...] | None = None) -> memoryview:
        """Return the bytes of one chunk, filled up where the array ends within it."""
        if whole is None:
            whole = values.shape if array.rectilinear else array.chunk_shape
        if values.shape != whole:
            chunk = self._scratch.array("chunk", whole, array.dtype)
            chunk[...] = array.padding
            chunk[tuple(slice(n) for n in values.shape)] = values
            values = chunk
        if array.dtype.kind == "O":
            from numcodecs import VLenUTF8

            raw = VLenUTF8().encode(np.ascontiguousarray(values).reshape(-1))
            chunk = np.frombuffer(raw, np.uint8)
        else:
            chunk = np.ascontiguousarray(values, dtype=array.dtype.newbyteorder("<"))
        if array.feeds is not None:
            return memoryview(chunk.reshape(-1).view(np.uint8))
        return memoryview(self._encode(chunk)).cast("B")
