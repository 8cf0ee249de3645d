"""Writing the chunks: slabs are read, conformed, encoded and written by a few threads, each a whole slab at a time.

While one thread waits for the disk or the library, the others compute; all heavy steps run outside Python's lock.
Memory is bounded by construction: as many slabs are in flight as there are threads, and a slab is cut to its share.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.conversion.journal import Chunk, Journal
from cfagg.conversion.plan import Array
from cfagg.conversion.slabs import Slabs, choose_slabs
from cfagg.errors import LimitError
from cfagg.formats.fastzlib import crc32
from cfagg.formats.zarr.written_codecs import Codec, content_checksum
from cfagg.runtime.publishing import begin_sync, opened, write_all
from cfagg.runtime.threads import run_threads

__all__ = ["Task", "cut", "run"]

#: A slab, what it was decoded from, and the encoded chunk are in memory together; this many times the slab at most.
_COPIES = 2.5

#: Bytes of a chunk from which on the disk is given it at once; smaller ones it takes better many at a time.
_LARGE = 1 << 18

Progress = Callable[[int, int], None]

#: Writes a chunk under its key, where that is no directory, and returns what its state is known by.
Put = Callable[[str, Any], int]


@dataclass(frozen=True)
class Task:
    """One slab of one array."""

    array: int
    slab: int


@dataclass(eq=False)
class _Scratch(threading.local):
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


def cut(arrays: Sequence[Array], memory: int, workers: int) -> tuple[list[Slabs], int]:
    """Return the slabs of every array and the number of threads that fit in memory with them."""
    slabs, largest = [], 0
    for a in arrays:
        itemsize = 64 if a.dtype.kind == "O" else a.dtype.itemsize + (a.stored.itemsize if a.unpack else 0)
        made = choose_slabs(a.grid, a.cells, itemsize, int(memory / _COPIES / workers))
        size = int(made.largest * itemsize * _COPIES)
        if size > memory:
            raise LimitError(
                f"variable {a.path!r}: a chunk of shape {tuple(max(s, default=0) for s in a.grid.sizes)} takes "
                f"{size:,} bytes to convert, more than memory={memory:,}; give more memory or smaller chunks"
            )
        slabs.append(made)
        largest = max(largest, size)
    return slabs, max(1, min(workers, memory // max(1, largest)))


def run(
    arrays: Sequence[Array],
    slabs: Sequence[Slabs],
    root: Path | Put,
    journal: Journal,
    codec: Codec,
    zarr_format: int,
    workers: int,
    progress: Progress | None,
    *,
    checksums: bool = False,
) -> None:
    """Write every chunk that the journal does not have yet, with checksums of the values where they will be verified.

    The first error of any thread is raised; the others stop after the chunk they are at.
    """
    total = sum(a.nbytes for a in arrays)
    todo = _tasks(slabs, journal)
    left = total
    if any(done.written.any() for done in journal.done):
        left = sum(arrays[t.array].dtype.itemsize * _elements(slabs[t.array], t.slab) for t in _tasks(slabs, journal))
    written = total - left
    if progress is not None:
        progress(written, total)
    stop = threading.Event()
    writer = _Writer(arrays, slabs, root, codec, zarr_format, stop, checksums)
    with closing(run_threads(lambda task: (task, writer.write(task)), todo, workers, "convert", stop)) as results:
        for task, chunks in results:
            journal.add(task.array, chunks)
            written += arrays[task.array].dtype.itemsize * _elements(slabs[task.array], task.slab)
            if progress is not None:
                progress(written, total)
    journal.sync()


def _tasks(slabs: Sequence[Slabs], journal: Journal) -> Iterator[Task]:
    """Yield the slabs in which a chunk is still to be written."""
    for i, (s, done) in enumerate(zip(slabs, journal.done, strict=True)):
        if done.written.all():
            continue
        untouched = not done.written.any()
        written = done.written.reshape(s.grid.matrix_shape)
        for k in range(len(s)):
            if untouched or not written[tuple(slice(r.start, r.stop) for r in s.chunks(k))].all():
                yield Task(i, k)


def _elements(slabs: Slabs, k: int) -> int:
    return math.prod(e.stop - e.start for e in slabs.extent(k))


class _Writer:
    """Reads, encodes and writes one slab; any thread may use it."""

    def __init__(
        self,
        arrays: Sequence[Array],
        slabs: Sequence[Slabs],
        root: Path | Put,
        codec: Codec,
        zarr_format: int,
        stop: threading.Event,
        checksums: bool,
    ) -> None:
        self._arrays, self._slabs = arrays, slabs
        self._put = partial(self._file, root) if isinstance(root, Path) else root
        self._encode = codec.encoder()
        self._format = zarr_format
        self._stop = stop
        self._checksums = checksums
        self._scratch = _Scratch()
        self._made: set[Path] = set()

    def write(self, task: Task) -> list[Chunk]:
        """Write all chunks of a slab and return what the journal notes of them."""
        array, slabs = self._arrays[task.array], self._slabs[task.array]
        block = self._read(array, slabs.extent(task.slab))
        shape = array.grid.matrix_shape
        out = []
        for index, box in slabs.walk(task.slab):
            if self._stop.is_set():
                break
            # The ellipsis keeps an element of a scalar array an array.
            place: Any = (*box, ...)
            values = block[place]
            encoded = self._encoded(array, values)
            state = self._put(array.key(index, self._format), encoded)
            number = int(np.ravel_multi_index(index, shape)) if index else 0
            content = content_checksum(values) if self._checksums else -1
            out.append((number, len(encoded), state, content))
        return out

    def _file(self, root: Path, key: str, encoded: memoryview) -> int:
        """Write a chunk into a directory, and return its checksum."""
        path = root / key
        if path.parent not in self._made:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._made.add(path.parent)
        with opened(path, "wb") as file:
            write_all(file, encoded)
            if len(encoded) >= _LARGE:
                begin_sync(file.fileno())
        return crc32(encoded)

    def _read(self, array: Array, extent: tuple[slice, ...]) -> npt.NDArray[Any]:
        shape = tuple(e.stop - e.start for e in extent)
        stored = self._scratch.array("stored", shape, array.stored)
        array.reader.read(extent, stored)
        if array.unpack is None:
            return stored
        block = self._scratch.array("unpacked", shape, array.dtype)
        array.unpack(stored, block)
        return block

    def _encoded(self, array: Array, values: npt.NDArray[Any]) -> memoryview:
        """Return the bytes of one chunk, filled up where the array ends within it."""
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
        return memoryview(self._encode(chunk)).cast("B")
