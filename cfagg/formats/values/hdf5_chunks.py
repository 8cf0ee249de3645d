"""Reading HDF5 chunks without the HDF5 library: positions from its chunk table, then positioned reads and own decoding.

Only the look-up of positions holds the library's lock.  Reading and decoding do not, so that partitions are decoded on
all cores.

*chunk table*: where each chunk of an array is: offset, stored size and the filters that it did not pass.
"""

from __future__ import annotations

import itertools
import math
import operator
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.errors import AccessError, CfaggError
from cfagg.formats.codecs import check_chunk
from cfagg.formats.values import contiguous, filters, hdf5, hdf5_tree
from cfagg.formats.values.hdf5_proof import UnsoundError, prove_index
from cfagg.formats.values.located import Chunked, Contiguous
from cfagg.formats.values.locks import LIBRARY
from cfagg.storage.files import Context
from cfagg.storage.gate import Checked

__all__ = ["can_read", "damaged", "raw", "read", "scan"]

#: Chunks whose positions are looked up at once, and so the share of the table that is held.
_BATCH = 1 << 14

#: As few chunks are looked up one by one.
_SINGLY = 16

#: The first HDF5 library that gives the elements at which chunks begin when it goes through its table.
_ITERATES = (1, 14, 2)

#: Bytes of a chunk without filters from which on only what is wanted is read.
_LARGE = 1 << 18

#: One touched chunk: its index in the chunk grid, place in the block, place in the chunk.
_Touch = tuple[tuple[int, ...], tuple[slice, ...], tuple[slice, ...]]


def can_read(storage: Chunked) -> bool:
    """Return whether every filter is known here."""
    return filters.known(storage.filters)


def read(
    checked: Checked, storage: Chunked, slices: Sequence[slice], context: Context, opened: Any = None
) -> npt.NDArray[Any]:
    """Read a hyperslab from the chunks that it touches.

    Parameters, errors: as `scan`.

    Returns
    -------
    ndarray
        In native byte order.
    """
    block = np.empty([len(range(s.start, s.stop, s.step)) for s in slices], storage.dtype.newbyteorder("="))
    for place, values in scan(checked, storage, slices, context, opened):
        block[place] = values
    return block


def scan(
    checked: Checked, storage: Chunked, slices: Sequence[slice], context: Context, opened: Any = None
) -> Iterator[tuple[tuple[slice, ...], npt.NDArray[Any]]]:
    """Yield a hyperslab chunk by chunk.

    Parameters
    ----------
    checked : Checked
        The variable.
    storage : Chunked
        Chunk shape, filters and type.
    slices : sequence of slice
        One per dimension with 0 <= start <= stop <= size and a positive step.
    context : Context
        For messages.
    opened : h5py.h5d.DatasetID, optional
        The same dataset where the library has it open, of which the caller holds the lock.

    Yields
    ------
    place : tuple of slice
        Where the values stand in the hyperslab.
    values : ndarray
        Values as stored, in the file's byte order.  They are overwritten by the next step.

    Raises
    ------
    FragmentReadError
        If the file is cut off or a chunk is damaged.
    LimitError
        If a chunk takes more memory than allowed.
    """
    scratch = _Scratch.take()
    try:
        for (index, place, within), mask, stored in _stored(checked, storage, slices, context, opened, scratch):
            if isinstance(stored, Contiguous):
                part = contiguous.read(checked, stored, storage.chunks, within, context)
                yield place, part.astype(storage.dtype, copy=False)
                continue
            if not isinstance(stored, np.ndarray):
                yield place, np.broadcast_to(stored, [p.stop - p.start for p in place])
                continue
            try:
                values = filters.decode(stored, mask, storage, scratch.plain(storage), within)
            except filters.DamagedError as error:
                raise damaged(checked, index, error, context) from error
            yield place, values
    finally:
        scratch.give_back()


def raw(
    checked: Checked, storage: Chunked, slices: Sequence[slice], context: Context, opened: Any
) -> Iterator[tuple[tuple[int, ...], int, npt.NDArray[np.uint8]]]:
    """Yield index, filter mask and bytes of the chunks that a hyperslab touches, as they are stored.

    Parameters, errors: as `scan`.
    """
    scratch = _Scratch.take()
    try:
        for touch, mask, stored in _stored(checked, storage, slices, context, opened, scratch):
            if isinstance(stored, np.ndarray):
                yield touch[0], mask, stored
    finally:
        scratch.give_back()


def damaged(checked: Checked, index: tuple[int, ...], error: Exception, context: Context) -> CfaggError:
    """Return the error about a chunk that does not decode."""
    return context.broken(
        context.said(
            f"chunk {index} of {checked.dataset!r} in {checked.handle.key.path} is damaged: {error}; restore the file"
        )
    )


def _stored(
    checked: Checked, storage: Chunked, slices: Sequence[slice], context: Context, opened: Any, scratch: _Scratch
) -> Iterator[tuple[_Touch, int, Any]]:
    """Yield the chunks that a hyperslab touches with mask and bytes; of one never written, the value in it.

    Of a large chunk without filters of which little is wanted its place is given instead.
    """
    if any(s.start >= s.stop for s in slices):
        return
    nbytes = math.prod(storage.chunks) * storage.dtype.itemsize
    check_chunk(nbytes, context.said(f"a chunk of {storage.path!r} in {checked.handle.key.path}"))
    most = filters.stored_most(storage)
    touches = _touched(storage.chunks, slices)
    handle = checked.handle
    key = handle.key
    while batch := list(itertools.islice(touches, _BATCH)):
        table, fill = _positions(checked, storage, [index for index, _, _ in batch], context, opened)
        for touch, (mask, offset, size) in zip(batch, table, strict=True):
            if offset is None:
                yield touch, 0, fill
                continue
            if offset + size > key.size:
                raise context.broken(
                    context.said(
                        f"{key.path} is truncated: it has {key.size} bytes, and chunk {touch[0]} of {storage.path!r} "
                        f"reaches to byte {offset + size}; restore the file"
                    )
                )
            if size > most:
                raise damaged(
                    checked, touch[0], ValueError(f"it is stored in {size:,} bytes, expected at most {most:,}"), context
                )
            largest = filters.decoded_most(size, mask, storage)
            if largest is not None and largest < nbytes:
                # Before memory is taken for what cannot come.
                raise damaged(
                    checked,
                    touch[0],
                    ValueError(f"it decodes to at most {largest:,} bytes, expected {nbytes:,}"),
                    context,
                )
            if size == nbytes >= _LARGE and not storage.filters and filters.is_few(touch[2], storage):
                yield touch, mask, Contiguous(offset, 0, storage.dtype)
                continue
            stored = scratch.stored(size)
            handle.fill(stored, offset, context)
            yield touch, mask, stored


class _Scratch:
    """Memory for one chunk as stored and as decoded, used again by the next read of the same thread.

    The system takes about as long to provide fresh memory as the decoders take to fill it.
    """

    #: Larger memory is not kept.
    most = 2**25

    _kept = threading.local()

    def __init__(self) -> None:
        self._stored = np.empty(0, np.uint8)
        self._plain = np.empty(0, np.uint8)

    @classmethod
    def take(cls) -> _Scratch:
        """Return memory that nobody else uses."""
        found = getattr(cls._kept, "scratch", None)
        cls._kept.scratch = None
        return found if isinstance(found, _Scratch) else cls()

    def give_back(self) -> None:
        """Keep the memory for the thread's next read."""
        if self._stored.nbytes + self._plain.nbytes <= self.most:
            self._kept.scratch = self

    def stored(self, size: int) -> npt.NDArray[np.uint8]:
        """Return memory for the bytes in the file."""
        if self._stored.nbytes < size:
            self._stored = np.empty(size, np.uint8)
        return self._stored[:size]

    def plain(self, storage: Chunked) -> npt.NDArray[np.uint8]:
        """Return memory for the values of a chunk."""
        size = math.prod(storage.chunks) * storage.dtype.itemsize
        if self._plain.nbytes < size:
            self._plain = np.empty(size, np.uint8)
        return self._plain[:size]


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
    checked: Checked, storage: Chunked, indices: Sequence[tuple[int, ...]], context: Context, opened: Any
) -> tuple[list[tuple[int, int | None, int]], Any]:
    """Return filter mask, byte offset (`None`: never written) and size of chunks, and the value of unwritten ones."""
    known = None if storage.tree is None else hdf5_tree.positions(checked.handle.fd, storage, indices)
    if known is not None:
        return known, None
    import h5py

    fill = None
    with LIBRARY:
        try:
            dataset = hdf5.dataset(checked, context) if opened is None else opened
            prove_index(checked.handle, h5py.h5i.get_file_id(dataset), dataset)
            found = _looked_up(dataset, [tuple(map(operator.mul, index, storage.chunks)) for index in indices])
            if any(offset is None for _, offset, _ in found):
                # Of other types only what refers to something is looked at, and nothing is there.
                fill = np.void(bytes(storage.dtype.itemsize)) if storage.dtype.kind == "V" else hdf5.fill(dataset)
        except AccessError:
            raise
        except (*hdf5.ERRORS, UnsoundError) as error:
            raise context.broken(
                context.said(
                    f"the chunk table of {storage.path!r} in {checked.handle.key.path} is damaged: {error}; "
                    "restore the file"
                )
            ) from error
    return found, fill


def _looked_up(dataset: Any, starts: list[tuple[int, ...]]) -> list[tuple[int, int | None, int]]:
    """Return filter mask, byte offset (`None`: never written) and size of the chunks that begin at some elements."""
    import h5py

    if len(starts) <= _SINGLY or h5py.version.hdf5_version_tuple < _ITERATES:
        found = map(dataset.get_chunk_info_by_coord, starts)
        return [(int(i.filter_mask), i.byte_offset, int(i.size)) for i in found]
    # The library goes through the whole table for each chunk, and so once for all of them.
    table: dict[tuple[int, ...], tuple[int, int | None, int]] = {}
    missing = set(starts)

    def note(info: Any) -> bool | None:
        if info.chunk_offset in missing:
            missing.remove(info.chunk_offset)
            table[info.chunk_offset] = int(info.filter_mask), info.byte_offset, int(info.size)
        return None if missing else True

    dataset.chunk_iter(note)
    return [table.get(start, (0, None, 0)) for start in starts]
