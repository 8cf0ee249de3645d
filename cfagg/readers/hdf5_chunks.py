"""Reading HDF5 chunks without the HDF5 library: positions from its chunk table, then positioned reads and own decoding.

Only the look-up of positions holds the library's lock.  Reading and decoding do not, so that partitions are decoded on
all cores.

Sources: the HDF5 file format specification, "Data Storage - Filter Pipeline"; the registered HDF5 filters.
"""

from __future__ import annotations

import itertools
import os
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.readers import hdf5
from cfagg.readers.files import Context, FileKey, open_plain, read_exactly
from cfagg.readers.located import Chunked
from cfagg.readers.locks import LIBRARY

__all__ = ["can_read", "read"]

_DEFLATE, _SHUFFLE, _FLETCHER32, _ZSTD = 1, 2, 3, 32015

#: Chunks whose positions are looked up at once, and so the share of the table that is held.
_BATCH = 1024

#: One touched chunk: its index in the chunk grid, place in the block, place in the chunk.
_Touch = tuple[tuple[int, ...], tuple[slice, ...], tuple[slice, ...]]


class _DecodeError(Exception):
    """Bytes that are not what the filters made."""


def can_read(storage: Chunked) -> bool:
    """Return whether every filter is known here."""
    return all(number in _DECODERS for number, _ in storage.filters)


def read(key: FileKey, storage: Chunked, slices: Sequence[slice], context: Context) -> npt.NDArray[Any]:
    """Read a hyperslab from the chunks that it touches.

    Parameters
    ----------
    key : FileKey
        The file.
    storage : Chunked
        Chunk shape, filters and type.
    slices : sequence of slice
        One per dimension with 0 <= start <= stop <= size and a positive step.
    context : Context
        For messages.

    Returns
    -------
    ndarray
        In native byte order.

    Raises
    ------
    FragmentReadError
        If the file is cut off or a chunk is damaged.
    """
    block = np.empty([len(range(s.start, s.stop, s.step)) for s in slices], storage.dtype.newbyteorder("="))
    if block.size == 0:
        return block
    touches = _touched(storage.chunks, slices)
    handle = open_plain(key, context)
    try:
        while batch := list(itertools.islice(touches, _BATCH)):
            table, fill = _positions(key, storage, [index for index, _, _ in batch], context)
            for (index, place, within), (mask, offset, size) in zip(batch, table, strict=True):
                if offset is None:
                    block[place] = fill
                    continue
                if offset + size > key.size:
                    raise context.broken(
                        context.said(
                            f"{key.path} is truncated: it has {key.size} bytes, and chunk {index} of {storage.path!r} "
                            f"reaches to byte {offset + size}; restore the file"
                        )
                    )
                data = read_exactly(handle, size, offset, key, context)
                try:
                    values = _decode(data, mask, storage)
                except (_DecodeError, zlib.error, RuntimeError, ValueError) as error:
                    raise context.broken(
                        context.said(
                            f"chunk {index} of {storage.path!r} in {key.path} is damaged: {error}; restore the file"
                        )
                    ) from error
                block[place] = values[within]
    finally:
        os.close(handle)
    return block


def _touched(chunks: Sequence[int], slices: Sequence[slice]) -> Iterator[_Touch]:
    """Yield the chunks that a hyperslab touches."""
    axes = []
    for chunk, s in zip(chunks, slices, strict=True):
        rows = []
        picked = range(s.start, s.stop, s.step)
        at = 0
        while at < len(picked):
            index = picked[at] // chunk
            count = min(-(-((index + 1) * chunk - picked[at]) // s.step), len(picked) - at)
            first = picked[at] - index * chunk
            rows.append((index, slice(at, at + count), slice(first, first + (count - 1) * s.step + 1, s.step)))
            at += count
        axes.append(rows)
    for chosen in itertools.product(*axes):
        yield tuple(r[0] for r in chosen), tuple(r[1] for r in chosen), tuple(r[2] for r in chosen)


def _positions(
    key: FileKey, storage: Chunked, indices: Sequence[tuple[int, ...]], context: Context
) -> tuple[list[tuple[int, int | None, int]], Any]:
    """Return filter mask, byte offset (`None`: never written) and size of chunks, and the value of unwritten ones."""
    found = []
    fill = None
    with LIBRARY:
        try:
            dataset = hdf5.dataset(key, storage.path)
            for index in indices:
                info = dataset.get_chunk_info_by_coord(tuple(i * c for i, c in zip(index, storage.chunks, strict=True)))
                found.append((int(info.filter_mask), info.byte_offset, int(info.size)))
            if any(offset is None for _, offset, _ in found):
                fill = hdf5.fill(dataset)
        except hdf5.ERRORS as error:
            raise context.broken(
                context.said(f"the chunk table of {storage.path!r} in {key.path} is damaged: {error}; restore the file")
            ) from error
    return found, fill


def _decode(data: bytes, mask: int, storage: Chunked) -> npt.NDArray[Any]:
    """Undo the filters, last first, but those that the chunk's mask says were skipped."""
    expected = storage.dtype.itemsize
    for n in storage.chunks:
        expected *= n
    plain: Any = data
    for k in range(len(storage.filters) - 1, -1, -1):
        if not mask >> k & 1:
            number, parameters = storage.filters[k]
            # A checksum, where there is one, is decoded as part of what follows it.
            plain = _DECODERS[number](plain, parameters, expected)
    found = memoryview(plain).nbytes
    if found != expected:
        raise _DecodeError(f"it has {found} bytes decoded, expected {expected}")
    return np.frombuffer(plain, storage.dtype).reshape(storage.chunks)


def _inflate(data: Any, parameters: tuple[int, ...], expected: int) -> bytes:  # noqa: ARG001
    # Bounded, so that a few bytes cannot fill the memory; a checksum of four bytes may still follow the values.
    most = expected + 4
    inflater = zlib.decompressobj()
    plain = inflater.decompress(data, most + 1)
    if len(plain) > most or not inflater.eof:
        raise _DecodeError(f"it inflates to more than the {expected} bytes expected, or is cut off")
    return plain


def _unshuffle(data: Any, parameters: tuple[int, ...], expected: int) -> Any:  # noqa: ARG001
    size = parameters[0] if parameters else 1
    raw = np.frombuffer(data, np.uint8)
    whole = raw.size // size * size
    if size < 2 or not whole:
        return data
    plain = np.empty(raw.size, np.uint8)
    plain[:whole].reshape(-1, size)[...] = raw[:whole].reshape(size, -1).T
    # What does not fill an element is left as it is at the end.
    plain[whole:] = raw[whole:]
    return plain


def _check(data: Any, parameters: tuple[int, ...], expected: int) -> Any:  # noqa: ARG001
    from numcodecs.fletcher32 import Fletcher32

    if memoryview(data).nbytes <= 4:
        raise _DecodeError("it is too short for its checksum")
    return Fletcher32().decode(data)


def _unzstd(data: Any, parameters: tuple[int, ...], expected: int) -> Any:  # noqa: ARG001
    from numcodecs import zstd

    # The frame says how large its content is; it is refused before memory is taken for it.
    out = np.empty(expected, np.uint8)
    return zstd.decompress(data, out)


_DECODERS: dict[int, Callable[[Any, tuple[int, ...], int], Any]] = {
    _DEFLATE: _inflate,
    _SHUFFLE: _unshuffle,
    _FLETCHER32: _check,
    _ZSTD: _unzstd,
}
