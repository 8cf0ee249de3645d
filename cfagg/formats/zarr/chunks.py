"""Reading chunks of Zarr arrays one at a time, from any thread, with little work beyond decoding them.

Chunks that are not decoded here (rare codecs) are read through zarr-python.

*chunk*: a block of an array that is stored and compressed as a unit, in Zarr and in HDF5.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from functools import partial as partial_of
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from cfagg.conventions import limits
from cfagg.errors import FragmentReadError, LimitError, SelectionError, UnsupportedError
from cfagg.formats.codecs import check_chunk, stored_most
from cfagg.formats.zarr.codecs import DamagedError, Decoder
from cfagg.formats.zarr.fallback import read_by_zarr
from cfagg.formats.zarr.metadata import ZarrArray
from cfagg.formats.zarr.shards import Opened, identity_of
from cfagg.model import Regular
from cfagg.storage.files import Context, close_read
from cfagg.storage.positioned import fill_at, read_at
from cfagg.storage.tree import open_file
from cfagg.storage.urls import Url

__all__ = ["chunk_bytes", "decoded_chunk", "partial", "read_box", "read_chunk", "stored_chunk"]

Chunk = npt.NDArray[Any]

_CONTEXT = Context()

#: Two ranges of bytes are read by one call if at most this many bytes are between them, which is faster.
_GAP = 16384


def read_chunk(array: ZarrArray, index: Sequence[int], seen: Callable[[Any], None] | None = None) -> Chunk | None:
    """Return the elements of one chunk by its index in ``array.grid``, or `None` if it is not stored."""
    # They are in native byte order and cut at the array's end, perhaps not contiguous, never read-only. `seen` is
    # called with the stored bytes before they are decoded, except for chunks that zarr-python reads.
    lengths, valid = _shapes(array, index)
    if array.decoder is None:
        return read_by_zarr(array, index, [(0, n) for n in valid])
    raw = _decoded(array, index, lengths, array.decoder, seen)
    if raw is None:
        return None
    return _elements(array.decoder, raw, array.dtype, lengths, valid)


def _decoded(
    array: ZarrArray,
    index: Sequence[int],
    lengths: Sequence[int],
    decoder: Decoder,
    seen: Callable[[Any], None] | None = None,
) -> npt.NDArray[np.uint8] | None:
    """Return the decoded bytes of a whole chunk, or `None` if it is not stored."""
    nbytes = array.dtype.itemsize * math.prod(lengths)
    if nbytes > limits.MAX_CHUNK:
        check_chunk(nbytes, f"{array.store}: a chunk of array {array.path!r}")
    with _Place(array, index) as place:
        if not place.there:
            return None
        if not decoder.steps:
            place.check_size(nbytes)
            raw = np.empty(nbytes, np.uint8)
            place.read_into(memoryview(raw), 0)
            if seen is not None:
                seen(raw)
            return raw
        stored = place.read(stored_most(nbytes))
    if seen is not None:
        seen(stored)
    try:
        return decoder.decode(stored, nbytes)
    except DamagedError as error:
        raise place.damaged(str(error)) from error


def decoded_chunk(array: ZarrArray, index: Sequence[int], stored: bytes) -> Chunk:
    """Return the elements of one chunk, decoded here, from its stored bytes."""
    lengths, valid = _shapes(array, index)
    where = f"{array.store}: array {array.path!r}, chunk {_shown(index)}"
    nbytes = array.dtype.itemsize * math.prod(lengths)
    check_chunk(nbytes, where)
    if array.decoder is None:
        raise UnsupportedError(f"{where} has codecs that cfagg does not decode")
    try:
        raw = array.decoder.decode(stored, nbytes)
    except DamagedError as error:
        raise FragmentReadError(f"{where} is damaged: {error}; write the chunk again") from error
    return _elements(array.decoder, raw, array.dtype, lengths, valid)


def read_box(array: ZarrArray, index: Sequence[int], box: tuple[slice, ...]) -> Chunk | None:
    """Return part of one chunk, like `read_chunk`: a slice of step 1 per dimension, relative to the chunk's start."""
    # If elements are stored uncompressed (`partial`), only the required bytes are read; else the chunk is decoded.
    _, valid = _shapes(array, index)
    cut = [s.indices(n) for s, n in zip(box, valid, strict=True)]
    if any(step != 1 for _, _, step in cut):
        raise ValueError(f"a box has slices of step 1; found {box}")
    ranges = [(a, max(a, b)) for a, b, _ in cut]
    if ranges == [(0, n) for n in valid]:
        return read_chunk(array, index)
    decoder = array.decoder
    if decoder is None:
        return read_by_zarr(array, index, ranges)
    if decoder.plain:
        return _read_part(array, index, ranges, decoder.swap)
    chunk = read_chunk(array, index)
    return None if chunk is None else chunk[tuple(slice(a, b) for a, b in ranges)]


def partial(array: ZarrArray) -> bool:
    """Return whether `read_box` reads only the bytes that a box needs."""
    return array.decoder is not None and array.decoder.plain


def stored_chunk(array: ZarrArray, index: Sequence[int]) -> bytes | None:
    """Return the stored bytes of one chunk of ``array.grid``, also in a shard, or `None` if there are none."""
    lengths, _ = _shapes(array, index)
    with _Place(array, index) as place:
        return place.read(stored_most(array.dtype.itemsize * math.prod(lengths))) if place.there else None


def chunk_bytes(array: ZarrArray, index: Sequence[int]) -> int:
    """Return the size in bytes of the object that contains a chunk of ``array.grid``, or 0 if there is none."""
    key = array.key(array.object_of(index))
    if isinstance(array.store, Url):
        from cfagg.formats.zarr.remote import states

        state = states(array.store, array.folder, [key])[0]
        return 0 if state is None else state.size
    try:
        return os.stat(f"{array.folder}/{key}").st_size  # noqa: PTH116
    except (FileNotFoundError, NotADirectoryError):
        return 0


def _shapes(array: ZarrArray, index: Sequence[int]) -> tuple[list[int], list[int]]:
    """Return the full shape in which a chunk is stored, and that of the part within the array."""
    lengths, valid = [], []
    for axis, size, i in zip(array.grid.axes, array.shape, index, strict=True):
        if isinstance(axis, Regular):
            length = axis.chunk
            start = i * length
        elif 0 <= i < len(axis) - 1:
            start = int(axis[i])
            length = int(axis[i + 1]) - start
        else:
            raise _outside(array, index)
        if i < 0 or start >= size:
            raise _outside(array, index)
        lengths.append(length)
        valid.append(min(length, size - start))
    return lengths, valid


def _outside(array: ZarrArray, index: Sequence[int]) -> SelectionError:
    """Return the error about a chunk that does not exist."""
    return SelectionError(f"{array.path!r} has no chunk {tuple(map(int, index))}, only {array.grid.matrix_shape}")


def _elements(
    decoder: Decoder, raw: npt.NDArray[np.uint8], dtype: np.dtype[Any], lengths: list[int], valid: list[int]
) -> Chunk:
    """Return decoded bytes as elements in native byte order, in the shape of their chunk, cut at the array's end."""
    # The memory is new, and writable.
    flat = raw.view(dtype).byteswap(inplace=True) if decoder.swap else raw.view(dtype)
    chunk = decoder.placed(flat, lengths)
    return chunk if valid == lengths else chunk[tuple(slice(0, n) for n in valid)]


class _Place:
    """The bytes of one chunk: a file, or a part of a shard; open while in a ``with`` block."""

    __slots__ = ("_array", "_file", "_index", "_path", "_pread", "offset", "size", "there")

    def __init__(self, array: ZarrArray, index: Sequence[int]) -> None:
        self._array, self._index = array, index
        held = array.object_of(index)
        self._path = f"{array.folder}/{array.key(held)}"
        self.offset, self.size, self.there = 0, 0, False
        self._file = -1
        try:
            is_remote = isinstance(array.store, Url) and array.opens is None
            opened = self._remote() if is_remote else self._open()
        except FragmentReadError as error:
            raise FragmentReadError(f"{array.store}: array {array.path!r}, chunk {_shown(index)}: {error}") from error
        if opened is None:
            return
        self._pread, size = opened.pread, opened.size
        try:
            place: tuple[int, int] | None = (0, size)
            if array.shards is not None:
                place = array.shards.locate(opened, array.objects, held, index)
        except LimitError as error:
            self._close()
            raise LimitError(f"{self._where}: {error}") from error
        except DamagedError as error:
            self._close()
            raise self.damaged(str(error)) from error
        except OSError as error:
            self._close()
            raise self._unreadable(error) from error
        if place is not None:
            self.there, (self.offset, self.size) = True, place

    def _open(self) -> Opened | None:
        """Open the file."""
        array = self._array
        opens = array.opens
        opened = open_file(array.store, self._path, array.allow, _CONTEXT) if opens is None else opens(self._path)
        if opened is None:
            return None
        if len(opened) == 3:
            return Opened(*opened)
        self._file, status = opened
        return Opened(partial_of(read_at, self._file), status.st_size, identity_of(status))

    def _remote(self) -> Opened | None:
        """Open a remote object; a chunk that is stored separately is read at once."""
        from cfagg.formats.zarr.remote import EDGE, open_object

        array, count = self._array, None
        if array.shards is None or array.shards.at_start:
            lengths, _ = _shapes(array, self._index)
            count = stored_most(array.dtype.itemsize * math.prod(lengths)) if array.shards is None else EDGE
        found = open_object(array.store, self._path, count)  # type: ignore[arg-type]
        return None if found is None else Opened(found.pread, found.size, found.identity)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def _close(self) -> None:
        if self._file >= 0:
            close_read(self._file)
            self._file = -1

    def check_size(self, expected: int) -> None:
        """Raise if the chunk has another number of bytes."""
        if self.size != expected:
            raise self.damaged(f"it has {self.size:,} bytes, expected {expected:,}")

    def read(self, most: int) -> bytes:
        """Return all bytes; fewer if the file was truncated since it was opened, which cannot be decoded."""
        if self.size > most:
            raise self.damaged(f"it is stored in {self.size:,} bytes, expected at most {most:,}")
        try:
            stored = self._pread(self.size, self.offset)
            while len(stored) < self.size:
                more = self._pread(self.size - len(stored), self.offset + len(stored))
                if not more:
                    break
                stored += more
        except OSError as error:
            raise self._unreadable(error) from error
        return stored

    def read_into(self, memory: memoryview, start: int) -> None:
        """Fill memory with the bytes from `start` on."""
        try:
            while len(memory):
                if self._file < 0:
                    found = self._pread(len(memory), self.offset + start)
                    count = len(found)
                    memory[:count] = found
                else:
                    count = fill_at(self._file, memory, self.offset + start)
                if not count:
                    raise self.damaged(f"it ends before byte {start + len(memory):,}")
                memory, start = memory[count:], start + count
        except FragmentReadError:
            raise
        except OSError as error:
            raise self._unreadable(error) from error

    def damaged(self, problem: str) -> FragmentReadError:
        """Return the error for bytes that are not a valid chunk."""
        return FragmentReadError(f"{self._where} is damaged: {problem}; write the chunk again")

    def _unreadable(self, error: OSError) -> FragmentReadError:
        return FragmentReadError(f"{self._where} cannot be read: {error.strerror or error}")

    @property
    def _where(self) -> str:
        array = self._array
        return f"{array.store}: array {array.path!r}, chunk {_shown(self._index)} ({self._path})"


def _shown(index: Sequence[int]) -> tuple[int, ...]:
    return tuple(map(int, index))


def _read_part(array: ZarrArray, index: Sequence[int], ranges: list[tuple[int, int]], swap: bool) -> Chunk | None:
    """Return a box of a chunk with uncompressed elements, by few reads of few bytes."""
    lengths, _ = _shapes(array, index)
    # Bytes from one index to the next along each dimension, followed by the size of an element.
    strides = [array.dtype.itemsize] * (len(lengths) + 1)
    for d in reversed(range(len(lengths))):
        strides[d] = strides[d + 1] * lengths[d]
    counts = [b - a for a, b in ranges]
    depth = _read_depth(strides, counts)
    within = (slice(None),) * (depth + 1) + tuple(slice(a, b) for a, b in ranges[depth + 1 :])
    with _Place(array, index) as place:
        if not place.there:
            return None
        place.check_size(strides[0])
        out = np.empty((*counts[: depth + 1], *lengths[depth + 1 :]), array.dtype)
        if 0 not in counts:
            view = memoryview(out.reshape(-1).view(np.uint8))
            length = counts[depth] * strides[depth + 1]
            starts = np.array([ranges[depth][0] * strides[depth + 1]], np.int64)
            for d in range(depth):
                starts = (starts[:, None] + np.arange(*ranges[d]) * strides[d + 1]).reshape(-1)
            for k, start in enumerate(starts.tolist()):
                place.read_into(view[k * length : (k + 1) * length], start)
    part = out[within]
    return part.byteswap() if swap else part


def _read_depth(strides: list[int], counts: list[int]) -> int:
    """Return the dimension along which each read extends: those before it are looped over, those after read whole."""
    best, depth = None, 0
    reads = 1
    for d, count in enumerate(counts):
        cost = reads * (count * strides[d + 1] + _GAP)
        if best is None or cost < best:
            best, depth = cost, d
        reads *= count
    return depth
