"""Reading HDF5 chunks without the HDF5 library: positions from its chunk table, then positioned reads and own decoding.

Only the look-up of positions holds the library's lock.  Reading and decoding do not, so that partitions are decoded on
all cores.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.readers import filters, hdf5
from cfagg.readers.files import Context, FileKey, open_plain, read_exactly
from cfagg.readers.located import Chunked
from cfagg.readers.locks import LIBRARY

__all__ = ["can_read", "read"]

#: Chunks whose positions are looked up at once, and so the share of the table that is held.
_BATCH = 1024

#: One touched chunk: its index in the chunk grid, place in the block, place in the chunk.
_Touch = tuple[tuple[int, ...], tuple[slice, ...], tuple[slice, ...]]


def can_read(storage: Chunked) -> bool:
    """Return whether every filter is known here."""
    return filters.known(storage.filters)


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
                    values = filters.decode(data, mask, storage)
                except filters.ERRORS as error:
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
