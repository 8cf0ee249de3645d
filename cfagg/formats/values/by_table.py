"""Reading chunks located by a chunk table: positioned reads and decoding in cfagg, for any format.

No library is used and no lock is held, so that chunks are decoded on all cores.
"""

from __future__ import annotations

import itertools
import math
import operator
import threading
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.conventions import limits
from cfagg.errors import CfaggError
from cfagg.formats.codecs import check_chunk, stored_most
from cfagg.formats.values import contiguous, filters
from cfagg.formats.values.storage import Contiguous
from cfagg.model.chunks import ChunkTable, Encoding
from cfagg.storage.files import Context
from cfagg.storage.gate import Checked

__all__ = ["Entry", "Part", "Placed", "Touch", "damaged", "decoded", "entries", "raw", "scan"]

#: Rows of a table that are looked up at once.
_BATCH = 4096

#: Size in bytes of a chunk without filters from which only the selected part is read.
_LARGE = 1 << 18

#: One touched chunk: its index in the chunk grid, place in the block, place in the chunk.
Touch = tuple[tuple[int, ...], tuple[slice, ...], tuple[slice, ...]]

#: Filter mask, byte offset (`None`: never written) and stored size of a chunk.
Entry = tuple[int, int | None, int]

#: A touched chunk, its shape, the index of its cell, its entry, and the value if it was never written.
Placed = tuple[Touch, tuple[int, ...], int, Entry, Any]

#: Place of values in the block, and the values, in stored byte order.
Part = tuple[tuple[slice, ...], npt.NDArray[Any]]


def scan(checked: Checked, table: ChunkTable, slices: Sequence[slice], context: Context) -> Iterator[Part]:
    """Yield a hyperslab (0 <= start <= stop <= size, step > 0) by chunks; values are overwritten by the next step."""
    return decoded(checked, table.encoding, _placed(checked, table, slices, context), context)


def _placed(checked: Checked, table: ChunkTable, slices: Sequence[slice], context: Context) -> Iterator[Placed]:
    """Yield the chunks that a hyperslab touches."""
    grid, fill = table.grid, table.encoding.fill
    strides = [math.prod(grid.matrix_shape[d + 1 :]) for d in range(grid.ndim)]
    for batch in itertools.batched(grid.touched(slices), _BATCH):
        cells = [sum(map(operator.mul, index, strides)) for index, _, _ in batch]
        found = entries(table, cells) or itertools.repeat((0, None, 0))
        for touch, cell, entry in zip(batch, cells, found, strict=False):
            if entry[1] is None and fill is None:
                raise damaged(checked, touch[0], "it is not stored", context)
            yield touch, table.shape(touch[0]), cell, entry, fill


def entries(table: ChunkTable, cells: npt.ArrayLike) -> list[Entry] | None:
    """Return an entry per cell, or `None` if none of their chunks is stored."""
    rows = table.rows(cells)
    there = rows >= 0
    if not there.any():
        return None
    columns = (column[rows].tolist() for column in (table.mask, table.offset, table.length))
    return [e if is_there else (0, None, 0) for e, is_there in zip(zip(*columns, strict=True), there, strict=True)]


def decoded(checked: Checked, encoding: Encoding, placed: Iterable[Placed], context: Context) -> Iterator[Part]:
    """Yield place and values of chunks, like `scan`."""
    scratch = _Scratch.take()
    try:
        for ((index, place, within), shape, cell, (mask, _, _), fill), held in _held(
            checked, encoding, placed, context, scratch
        ):
            if held is None:
                yield place, np.broadcast_to(fill, [p.stop - p.start for p in place])
                continue
            if isinstance(held, Contiguous):
                yield place, contiguous.read(checked, held, shape, within, context).astype(encoding.dtype, copy=False)
                continue
            try:
                if encoding.decode is None:
                    plain = scratch.plain(math.prod(shape) * encoding.dtype.itemsize)
                    values = filters.decode(held, mask, encoding, shape, plain, within)
                else:
                    values = _own(encoding.decode(held, cell), encoding.dtype, shape)[within]
            except filters.DamagedError as error:
                raise damaged(checked, index, error, context) from error
            yield place, values
    finally:
        scratch.give_back()


def raw(
    checked: Checked, encoding: Encoding, placed: Iterable[Placed], context: Context
) -> Iterator[tuple[tuple[int, ...], int, npt.NDArray[np.uint8]]]:
    """Yield index, filter mask and stored bytes of chunks; the bytes are overwritten by the next step."""
    scratch = _Scratch.take()
    try:
        for (touch, _, _, entry, _), held in _held(checked, encoding, placed, context, scratch):
            if isinstance(held, np.ndarray):
                yield touch[0], entry[0], held
    finally:
        scratch.give_back()


def damaged(checked: Checked, index: tuple[int, ...], error: object, context: Context) -> CfaggError:
    """Return the error about a chunk that does not decode."""
    return context.damage(
        f"chunk {index} of {checked.dataset!r} in {checked.handle.key.path} is damaged: {error}; restore the file"
    )


def _own(values: Any, dtype: np.dtype[Any], shape: tuple[int, ...]) -> npt.NDArray[Any]:
    """Return the result of a format's own decoder, if it agrees with the table."""
    found = np.asarray(values)
    if found.shape != shape or found.dtype.newbyteorder("=") != dtype.newbyteorder("="):
        raise filters.DamagedError(f"it decodes to {found.dtype} of shape {found.shape}, expected {dtype} of {shape}")
    return found


def _held(
    checked: Checked, encoding: Encoding, placed: Iterable[Placed], context: Context, scratch: _Scratch
) -> Iterator[tuple[Placed, Any]]:
    """Yield chunks with their bytes, `None` for one that was never written."""
    # For a small part of a large chunk without filters, its position is returned instead.
    handle = checked.handle
    key = handle.key
    is_plain = not encoding.codecs and encoding.decode is None
    known: tuple[int, ...] | None = None
    nbytes = most = 0
    for one in placed:
        (index, _, within), shape, _, (mask, offset, size), _ = one
        if offset is None:
            yield one, None
            continue
        if shape != known:
            known, nbytes = shape, math.prod(shape) * encoding.dtype.itemsize
            if nbytes > limits.MAX_CHUNK:
                check_chunk(nbytes, context.said(f"a chunk of {checked.dataset!r} in {key.path}"))
            most = stored_most(nbytes)
        if offset + size > key.size:
            raise context.damage(
                f"{key.path} is truncated: it has {key.size} bytes, and chunk {index} of {checked.dataset!r} "
                f"reaches to byte {offset + size}; restore the file"
            )
        if size > most:
            raise damaged(checked, index, f"it is stored in {size:,} bytes, expected at most {most:,}", context)
        largest = filters.decoded_most(size, mask, encoding)
        if largest is not None and largest < nbytes:
            # Before memory is allocated for a result that is impossible.
            raise damaged(checked, index, f"it decodes to at most {largest:,} bytes, expected {nbytes:,}", context)
        if size == nbytes >= _LARGE and is_plain and filters.is_few(within, shape):
            yield one, Contiguous(offset, 0, encoding)
            continue
        stored = scratch.stored(size)
        handle.fill(stored, offset, context)
        yield one, stored


class _Scratch:
    """Memory for a chunk as stored and as decoded, reused by the next read of the same thread."""

    # Allocating fresh memory takes the system about as long as decoders take to fill it.

    #: Larger memory is not kept.
    most = 2**25

    _last = threading.local()

    def __init__(self) -> None:
        self._stored = np.empty(0, np.uint8)
        self._plain = np.empty(0, np.uint8)

    @classmethod
    def take(cls) -> _Scratch:
        """Return memory that is not in use elsewhere."""
        found = getattr(cls._last, "scratch", None)
        cls._last.scratch = None
        return found if isinstance(found, _Scratch) else cls()

    def give_back(self) -> None:
        """Keep the memory for the thread's next read."""
        if self._stored.nbytes + self._plain.nbytes <= self.most:
            self._last.scratch = self

    def stored(self, size: int) -> npt.NDArray[np.uint8]:
        """Return memory for the bytes in the file."""
        if self._stored.nbytes < size:
            self._stored = np.empty(size, np.uint8)
        return self._stored[:size]

    def plain(self, size: int) -> npt.NDArray[np.uint8]:
        """Return memory for the values of a chunk."""
        if self._plain.nbytes < size:
            self._plain = np.empty(size, np.uint8)
        return self._plain[:size]
