"""Writing one slab: it is read, conformed and divided into chunks, which are encoded and written."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from operator import mul
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.conversion.absent import boxes
from cfagg.conversion.journal import Chunk
from cfagg.conversion.plan import Array
from cfagg.conversion.slab_reading import Scratch, read_slab
from cfagg.conversion.slabs import Slabs
from cfagg.formats.zarr.encoding import holds_only, shard_index
from cfagg.formats.zarr.written_codecs import Codec, content_checksum

__all__ = ["Job", "Put", "SlabWriter", "Task"]

#: Writes a chunk under its key and returns an identifier of its state; it can be pickled if workers write.
Put = Callable[[str, Any], int]


@dataclass(frozen=True)
class Task:
    """One slab of one array."""

    array: int
    slab: int


@dataclass(frozen=True, eq=False)
class Job:
    """What is written, where and how: everything needed to write a slab, in any process."""

    arrays: Sequence[Array]
    slabs: Sequence[Slabs]
    put: Put
    codec: Codec
    zarr_format: int
    checksums: bool = False  # of the values, if these are to be verified

    def nbytes(self, task: Task) -> int:
        """Return the size in bytes of the values of a slab."""
        extent = self.slabs[task.array].extent(task.slab)
        itemsize: int = self.arrays[task.array].dtype.itemsize
        return itemsize * math.prod(int(e.stop - e.start) for e in extent)


class SlabWriter:
    """Reads, encodes and writes one slab; it is thread-safe."""

    def __init__(self, job: Job, stop: threading.Event) -> None:
        self._job, self._stop = job, stop
        self._encode = job.codec.lender()
        self._scratch = Scratch()

    def write(self, task: Task, put: Put | None = None) -> list[Chunk]:
        """Write the chunks of a slab, using `put` if given, and return their records for the journal.

        Chunks that are not stored are recorded with 0 bytes.
        """
        job = self._job
        put = put or job.put
        array, slabs = job.arrays[task.array], job.slabs[task.array]
        shape = array.grid.matrix_shape
        absent = None if array.absent is None else array.absent.reshape(shape)
        steps = [math.prod(shape[d + 1 :]) for d in range(len(shape))]
        out: list[Chunk] = []
        for chunks in self._parts(slabs.chunks(task.slab), absent):
            block = read_slab(array, slabs.spanned(chunks), self._scratch)
            for index, box in slabs.walk(chunks):
                if self._stop.is_set():
                    return out
                if absent is not None and absent[index]:
                    continue
                # The ellipsis keeps an element of a scalar array as an array.
                place: Any = (*box, ...)
                values = block[place]
                key, encoded = self._object(array, index, values)
                size, state = (0, 0) if encoded is None else (len(encoded), put(key, encoded))
                number = sum(map(mul, index, steps))
                content = content_checksum(values) if job.checksums else -1
                out.append((number, size, state, content))
        return out

    def _parts(self, chunks: tuple[range, ...], absent: npt.NDArray[np.bool_] | None) -> Iterator[tuple[range, ...]]:
        """Yield the chunks of a slab in boxes that are read together and contain few absent chunks."""
        if absent is None:
            yield chunks
            return
        for box in boxes(~absent[tuple(slice(r.start, r.stop) for r in chunks)]):
            yield tuple(r[b] for r, b in zip(chunks, box, strict=True))

    def _object(self, array: Array, index: tuple[int, ...], values: npt.NDArray[Any]) -> tuple[str, Any]:
        """Return the key and the bytes of a stored object, `None` for one that contains only the fill value."""
        there = array.stored_as
        if there is not None:
            return there.key(index), there.encoded(index, values)
        key = array.key(index, self._job.zarr_format)
        if array.inner is not None:
            return key, self._shard(array, values)
        return key, None if self._is_empty(array, values) else self._encoded(array, values)

    def _is_empty(self, array: Array, values: npt.NDArray[Any]) -> bool:
        """Whether a chunk need not be stored, since readers know its values from the metadata."""
        # Unstored chunks of a version 2 array without a declared fill value are undefined.
        known = array.feeds is None and (array.fill is not None or self._job.zarr_format == 3)
        return known and holds_only(values, array.padding)

    def _shard(self, array: Array, values: npt.NDArray[Any]) -> memoryview | None:
        """Return the bytes of one shard: its chunks that are not empty, and their index; `None` if there are none."""
        lengths: Any = array.inner
        counts = [n // c for n, c in zip(array.chunk_shape, lengths, strict=True)]
        # Large enough for incompressible values, with the overhead of codecs; pages that are not written use no memory.
        room = values.nbytes + values.nbytes // 64 + 128 * math.prod(counts)
        shard, at = self._scratch.array("shard", (room,), np.dtype(np.uint8)), 0
        places: list[tuple[int, int] | None] = []
        for index in product(*map(range, counts)):
            place = tuple(slice(i * c, (i + 1) * c) for i, c in zip(index, lengths, strict=True))
            part = values[place]
            if not part.size or self._is_empty(array, part):
                places.append(None)
                continue
            encoded = self._encoded(array, part, lengths)
            shard = self._added(shard, at, encoded)
            places.append((at, len(encoded)))
            at += len(encoded)
        if not at:
            return None
        tail = shard_index(places)
        return memoryview(self._added(shard, at, tail))[: at + len(tail)]

    def _added(self, shard: npt.NDArray[np.uint8], at: int, data: Any) -> npt.NDArray[np.uint8]:
        """Return the memory of a shard, enlarged if necessary, with more data added."""
        end = at + len(data)
        if end > len(shard):
            grown = self._scratch.array("shard", (end + end // 2,), shard.dtype)
            grown[:at] = shard[:at]
            shard = grown
        shard[at:end] = np.frombuffer(data, np.uint8)
        return shard

    def _encoded(self, array: Array, values: npt.NDArray[Any], whole: tuple[int, ...] | None = None) -> memoryview:
        """Return the bytes of one chunk, padded if the array ends within it."""
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
            chunk = values
            kind = array.dtype.newbyteorder("<")
            if values.dtype != kind or not values.flags.c_contiguous:
                chunk = self._scratch.array("contiguous", values.shape, kind)
                chunk[...] = values
        if array.feeds is not None:
            return memoryview(chunk.reshape(-1).view(np.uint8))
        return memoryview(self._encode(chunk)).cast("B")
