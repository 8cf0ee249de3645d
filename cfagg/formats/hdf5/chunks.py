"""Reading HDF5 chunks without the HDF5 library: positions from its chunk table, then positioned reads and own decoding.

Only the look-up of positions holds the library's lock.  Reading and decoding do not, so that partitions are decoded on
all cores.

*chunk table*: where each chunk of an array is: offset, stored size and the filters that it did not pass.
"""

from __future__ import annotations

import math
import operator
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.errors import AccessError, CfaggError
from cfagg.formats.codecs import check_chunk
from cfagg.formats.hdf5 import indexes, library_variables
from cfagg.formats.hdf5.boxes import Axis, Box, boxes
from cfagg.formats.hdf5.head import Head
from cfagg.formats.hdf5.listing import Listing, listing
from cfagg.formats.hdf5.proof import UnsoundError, prove_index
from cfagg.formats.values import contiguous, filters
from cfagg.formats.values.locks import LIBRARY
from cfagg.formats.values.storage import Chunked, Contiguous
from cfagg.storage.files import Context
from cfagg.storage.gate import Checked

__all__ = ["can_read", "damaged", "raw", "read", "scan"]

#: Chunks whose positions are looked up at once, and so the share of the table that is held.
_BATCH = 1 << 14

#: As few chunks are looked up one by one.
_SINGLY = 16

#: A table of so many chunks is gone through once and held.
_HELD = 1 << 16

#: The first HDF5 library that gives the elements at which chunks begin when it goes through its table.
_ITERATES = (1, 14, 2)

#: Bytes of a chunk without filters from which on only what is wanted is read.
_LARGE = 1 << 18

#: One touched chunk: its index in the chunk grid, place in the block, place in the chunk.
_Touch = tuple[tuple[int, ...], tuple[slice, ...], tuple[slice, ...]]

#: Filter mask, byte offset (`None`: never written) and stored size of a chunk.
_Entry = tuple[int, int | None, int]


def can_read(storage: Chunked) -> bool:
    """Return whether every filter is known here."""
    return filters.known(storage.filters)


def read(
    checked: Checked, storage: Chunked, slices: Sequence[slice], context: Context, opened: Any = None
) -> npt.NDArray[Any]:
    """Read a hyperslab from the chunks that it touches, in native byte order; see `scan`."""
    block = np.empty([len(range(s.start, s.stop, s.step)) for s in slices], storage.dtype.newbyteorder("="))
    for place, values in scan(checked, storage, slices, context, opened):
        block[place] = values
    return block


def scan(
    checked: Checked, storage: Chunked, slices: Sequence[slice], context: Context, opened: Any = None
) -> Iterator[tuple[tuple[slice, ...], npt.NDArray[Any]]]:
    """Yield a hyperslab (0 <= start <= stop <= size, step > 0) by chunks: place, and values in stored byte order."""
    # The values are overwritten by the next step; `opened` is the dataset where the caller has it open and holds the
    # lock.
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
    """Yield index, filter mask and bytes of the chunks that a hyperslab touches, as they are stored; see `scan`."""
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
    """Yield the chunks that a hyperslab touches with mask and bytes; of one never written, the value in it."""
    # Of a large chunk without filters of which little is wanted its place is given instead.  Many neighbours of which
    # none was written come as one.
    if any(s.start >= s.stop for s in slices):
        return
    nbytes = math.prod(storage.chunks) * storage.dtype.itemsize
    check_chunk(nbytes, context.said(f"a chunk of {storage.path!r} in {checked.handle.key.path}"))
    most = filters.stored_most(storage)
    handle = checked.handle
    key = handle.key
    table = _Table(checked, storage, context, opened)
    for box in boxes([Axis(*a) for a in zip(storage.chunks, slices, strict=True)], _BATCH):
        entries, fill = table.look_up(box)
        if entries is None:
            yield (box.first, box.place, ()), 0, fill
            continue
        for touch, (mask, offset, size) in zip(box.touches(), entries, strict=True):
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
    """Memory for a chunk as stored and as decoded, used again by the next read of the same thread."""

    # The system takes about as long to provide fresh memory as the decoders take to fill it.

    #: Larger memory is not kept.
    most = 2**25

    _last = threading.local()

    def __init__(self) -> None:
        self._stored = np.empty(0, np.uint8)
        self._plain = np.empty(0, np.uint8)

    @classmethod
    def take(cls) -> _Scratch:
        """Return memory that nobody else uses."""
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

    def plain(self, storage: Chunked) -> npt.NDArray[np.uint8]:
        """Return memory for the values of a chunk."""
        size = math.prod(storage.chunks) * storage.dtype.itemsize
        if self._plain.nbytes < size:
            self._plain = np.empty(size, np.uint8)
        return self._plain[:size]


#: The mask of a chunk that passed no filter.
_ALL = 2**32 - 1


class _Table:
    """Where chunks stand in the file, as one reading of a hyperslab asks for them."""

    def __init__(self, checked: Checked, storage: Chunked, context: Context, opened: Any) -> None:
        self.checked, self.storage, self.context, self.opened = checked, storage, context, opened
        self._held: dict[tuple[int, ...], _Entry] | None = None
        #: Indices of the chunks in a table that is held.
        self._indices: Any = None
        self._fill: Any = None

    def look_up(self, box: Box) -> tuple[list[_Entry] | None, Any]:
        """Return an entry per chunk, or `None` where no chunk was ever written, and the value of unwritten ones."""
        if self._held is None:
            # A table that the netCDF library writes is read without the HDF5 library, if it is small and complete.
            if self.storage.tree is not None and box.count <= indexes.MOST:
                head = Head(self.checked.handle)
                known = indexes.positions(head, self.storage.tree, self.storage.chunks, list(box.indices()))
                if known is not None:
                    return known, None
            found = self._ask(box)
            if found is not None:
                return (found if any(e[1] is not None for e in found) else None), self._fill
        held = self._held or {}
        inside = (self._indices >= box.first) & (self._indices <= box.last)
        if not inside.all(axis=1).any():
            return None, self._fill
        return [held.get(index, (0, None, 0)) for index in box.indices()], self._fill

    def _ask(self, box: Box) -> list[_Entry] | None:
        """Let the library look; `None` where the whole table is held from now on."""
        import h5py

        checked, context = self.checked, self.context
        with LIBRARY:
            try:
                dataset = library_variables.dataset(checked, context) if self.opened is None else self.opened
                layout = prove_index(checked.handle, h5py.h5i.get_file_id(dataset), dataset)
                kind = layout.kind if layout is not None else 0
                found = self._found(dataset, box, listing(dataset, kind, self.storage.chunks))
                if layout is not None and layout.plain_edges:
                    found = self._without_filters(dataset.shape, box, found)
                if self._fill is None and (found is None or any(offset is None for _, offset, _ in found)):
                    # Of other types only what refers to something is looked at, and nothing is there.
                    void = self.storage.dtype.kind == "V"
                    self._fill = (
                        np.void(bytes(self.storage.dtype.itemsize)) if void else library_variables.fill(dataset)
                    )
            except AccessError:
                raise
            except (*library_variables.ERRORS, UnsoundError) as error:
                raise context.broken(
                    context.said(
                        f"the chunk table of {self.storage.path!r} in {checked.handle.key.path} is damaged: {error}; "
                        "restore the file"
                    )
                ) from error
        return found

    def _without_filters(self, shape: Sequence[int], box: Box, found: list[_Entry] | None) -> list[_Entry] | None:
        """Return entries whose masks say that chunks across a dataset's end pass no filter; the library's do not."""
        whole = tuple(map(operator.floordiv, shape, self.storage.chunks))

        def entry(index: tuple[int, ...], known: _Entry) -> _Entry:
            return (_ALL, *known[1:]) if any(map(operator.ge, index, whole)) else known

        if found is not None:
            return list(map(entry, box.indices(), found))
        self._held = {index: entry(index, known) for index, known in (self._held or {}).items()}
        return None

    def _found(self, dataset: Any, box: Box, listed: Listing | None) -> list[_Entry] | None:
        """Return the entries of a box, or `None` after the whole table was read."""
        import h5py

        chunks = self.storage.chunks
        at_once = box.count > _SINGLY and h5py.version.hdf5_version_tuple >= _ITERATES
        if not at_once or dataset.get_num_chunks() > _HELD:
            indices = box.indices() if listed is None else map(listed.listed, box.indices())
            return _looked_up(dataset, [tuple(map(operator.mul, index, chunks)) for index in indices], at_once)
        table: dict[tuple[int, ...], _Entry] = {}

        def note(info: Any) -> None:
            index = tuple(map(operator.floordiv, info.chunk_offset, chunks))
            index = index if listed is None else listed.actual(index)
            table[index] = int(info.filter_mask), info.byte_offset, int(info.size)

        dataset.chunk_iter(note)
        self._held = table
        self._indices = np.array(list(table), np.int64).reshape(-1, len(chunks))
        return None


def _looked_up(dataset: Any, starts: list[tuple[int, ...]], at_once: bool) -> list[_Entry]:
    """Return the entries of the chunks that begin at some elements."""
    if not at_once:
        infos = map(dataset.get_chunk_info_by_coord, starts)
        return [(int(i.filter_mask), i.byte_offset, int(i.size)) for i in infos]
    # The library goes through the whole table for each chunk, and so once for all of them.
    table: dict[tuple[int, ...], _Entry] = {}
    missing = set(starts)

    def note(info: Any) -> bool | None:
        if info.chunk_offset in missing:
            missing.remove(info.chunk_offset)
            table[info.chunk_offset] = int(info.filter_mask), info.byte_offset, int(info.size)
        return None if missing else True

    dataset.chunk_iter(note)
    return [table.get(start, (0, None, 0)) for start in starts]
