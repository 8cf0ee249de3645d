"""Locating the HDF5 chunks of a selection; `cfagg.formats.values.by_table` reads and decodes them.

The library's lock is held only while positions are looked up in its tables.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from cfagg.conventions import limits
from cfagg.errors import AccessError, CfaggError, LimitError
from cfagg.formats.codecs import check_chunk
from cfagg.formats.hdf5 import indexes
from cfagg.formats.hdf5.head import Head
from cfagg.formats.hdf5.library import ERRORS
from cfagg.formats.hdf5.space import UnsoundError
from cfagg.formats.values import by_table, filters
from cfagg.formats.values.locks import LIBRARY
from cfagg.formats.values.storage import Chunked
from cfagg.model import Grid, Regular
from cfagg.model.chunks import ChunkTable
from cfagg.model.grid import touched
from cfagg.storage.files import Context
from cfagg.storage.gate import Checked

if TYPE_CHECKING:
    from cfagg.formats.hdf5.listing import Listing

__all__ = ["can_read", "raw", "read", "scan", "table"]

#: Chunks whose positions are looked up at once, which limits the part of the table in memory.
_BATCH = 1 << 14

#: Up to this many chunks are looked up one by one.
_SINGLY = 16

#: A table of up to this many chunks is iterated once and kept.
_HELD = 1 << 16

#: The first HDF5 version that returns the first elements of chunks when its table is iterated.
_ITERATES = (1, 14, 2)

#: The mask of a chunk that passed no filter.
_ALL = 2**32 - 1


class _Rows(NamedTuple):
    """Neighbouring chunks along an axis: their length, the selected elements, and the place of the first."""

    # Only written chunks are listed one by one, since there may be millions of others.
    chunk: int
    picked: range
    place: int = 0

    @property
    def size(self) -> int:
        """Number of chunks, each of which is touched."""
        if self.picked.step >= self.chunk:
            return len(self.picked)
        return self.picked[-1] // self.chunk - self.picked[0] // self.chunk + 1

    @property
    def indices(self) -> list[int]:
        """Indices of the chunks."""
        if self.picked.step >= self.chunk:
            return [p // self.chunk for p in self.picked]
        return list(range(self.picked[0] // self.chunk, self.picked[-1] // self.chunk + 1))

    def parts(self, most: int) -> Iterator[_Rows]:
        """Split them into parts of at most `most` chunks."""
        picked, at = self.picked, 0
        while at < len(picked):
            last = (picked[at] // self.chunk + most) * self.chunk  # the first element beyond the part
            end = at + most if picked.step >= self.chunk else at - (picked[at] - last) // picked.step
            part = picked[at:end]
            yield _Rows(self.chunk, part, self.place + at)
            at += len(part)

    def touched(self) -> Iterator[tuple[int, slice, slice]]:
        """Yield each chunk with its place in the block and the place in the chunk."""
        for index, place, within in touched(Regular(self.picked[-1] + 1, self.chunk), self.picked):
            yield index, slice(self.place + place.start, self.place + place.stop), within


#: Neighbouring chunks: some touched ones of each axis.
_Box = Sequence[_Rows]


def can_read(storage: Chunked) -> bool:
    """Return whether every filter is known here."""
    return filters.known(storage.encoding.codecs)


def read(
    checked: Checked, storage: Chunked, slices: Sequence[slice], context: Context, opened: Any = None
) -> npt.NDArray[Any]:
    """Read a hyperslab from the chunks that it touches, in native byte order; see `scan`."""
    dtype = storage.encoding.dtype.newbyteorder("=")
    block = np.empty([len(range(s.start, s.stop, s.step)) for s in slices], dtype)
    for place, values in scan(checked, storage, slices, context, opened):
        block[place] = values
    return block


def scan(
    checked: Checked, storage: Chunked, slices: Sequence[slice], context: Context, opened: Any = None
) -> Iterator[by_table.Part]:
    """Yield a hyperslab (0 <= start <= stop <= size, step > 0) by chunks: place, and values in stored byte order."""
    # The values are overwritten by the next step; `opened` is the dataset if the caller has it open and holds the lock.
    return by_table.decoded(checked, storage.encoding, _placed(checked, storage, slices, context, opened), context)


def raw(
    checked: Checked, storage: Chunked, slices: Sequence[slice], context: Context, opened: Any
) -> Iterator[tuple[tuple[int, ...], int, npt.NDArray[np.uint8]]]:
    """Yield index, filter mask and stored bytes of the chunks that a hyperslab touches; see `scan`."""
    return by_table.raw(checked, storage.encoding, _placed(checked, storage, slices, context, opened), context)


def few(checked: Checked, storage: Chunked, shape: Sequence[int], context: Context, most: int) -> ChunkTable | None:
    """Return the table of all chunks of a dataset, or `None` if these are more than `most`, or damaged."""
    try:
        return table(checked, storage, shape, context, min(most, _HELD))
    except CfaggError:
        return None  # reading reports what is wrong


def table(
    checked: Checked, storage: Chunked, shape: Sequence[int], context: Context, most: int | None = None
) -> ChunkTable:
    """Return the table of all chunks of a non-empty dataset; raise `LimitError` for more than `most`."""
    box = [_Rows(c, range(n)) for c, n in zip(storage.chunks, shape, strict=True)]
    made = _Table(checked, storage, [slice(0, n, 1) for n in shape], context, None, most)
    entries, fill = made.look_up(box, whole=True)
    if made.held is not None:
        return replace(made.held, encoding=replace(storage.encoding, fill=fill))
    rows = [(cell, *e) for cell, e in enumerate(entries or ()) if e[1] is not None]
    cell, mask, offset, length = np.array(rows, np.int64).reshape(-1, 4).T
    encoding = replace(storage.encoding, fill=fill)
    return ChunkTable(Grid.regular(shape, storage.chunks), encoding, cell, offset, length, mask)


def _placed(
    checked: Checked, storage: Chunked, slices: Sequence[slice], context: Context, opened: Any
) -> Iterator[by_table.Placed]:
    """Yield the chunks that a hyperslab touches; many unwritten neighbours are combined into one."""
    if any(s.start >= s.stop for s in slices):
        return
    shape = storage.chunks
    nbytes = math.prod(shape) * storage.encoding.dtype.itemsize
    if nbytes > limits.MAX_CHUNK:
        check_chunk(nbytes, context.said(f"a chunk of {storage.path!r} in {checked.handle.key.path}"))
    touch = _single(shape, slices)
    if touch is not None and storage.tree is not None:
        known = indexes.positions(
            Head(checked.handle), storage.tree, shape, [touch[0]], storage.encoding.dtype.itemsize
        )
        if known is not None:
            yield touch, shape, 0, known[0], None
            return
    table = _Table(checked, storage, slices, context, opened)
    picked = [_Rows(c, range(s.start, s.stop, s.step)) for c, s in zip(shape, slices, strict=True)]
    for box in _boxes(picked, _BATCH):
        entries, fill = table.look_up(box)
        if entries is None:
            first = tuple(rows.picked[0] // rows.chunk for rows in box)
            place = tuple(slice(rows.place, rows.place + len(rows.picked)) for rows in box)
            yield (first, place, ()), shape, 0, (0, None, 0), fill
            continue
        for chosen, entry in zip(itertools.product(*(rows.touched() for rows in box)), entries, strict=True):
            index, place, within = zip(*chosen, strict=True)
            yield (index, place, within), shape, 0, entry, fill


def _single(chunks: Sequence[int], slices: Sequence[slice]) -> by_table.Touch | None:
    """Return the single chunk that a hyperslab touches, or `None` if it touches several."""
    index, place, within = [], [], []
    for chunk, s in zip(chunks, slices, strict=True):
        picked = range(s.start, s.stop, s.step)
        at, first = divmod(s.start, chunk)
        end = first + picked[-1] - s.start
        if end >= chunk:
            return None
        index.append(at)
        place.append(slice(0, len(picked)))
        within.append(slice(first, end + 1, s.step))
    return tuple(index), tuple(place), tuple(within)


def _boxes(axes: Sequence[_Rows], most: int) -> Iterator[_Box]:
    """Split the chunks that a hyperslab touches into boxes of at most `most`, in C order."""
    rows, *inner = axes
    count = math.prod(axis.size for axis in inner)
    if count <= most:
        for part in rows.parts(most // count):
            yield [part, *inner]
        return
    for row in rows.parts(1):
        for box in _boxes(inner, most):
            yield [row, *box]


def _count(box: _Box) -> int:
    return math.prod(rows.size for rows in box)


def _indices(box: _Box) -> Iterator[tuple[int, ...]]:
    return itertools.product(*(rows.indices for rows in box))


class _Table:
    """The locations of chunks in the file, looked up for one hyperslab."""

    def __init__(
        self,
        checked: Checked,
        storage: Chunked,
        slices: Sequence[slice],
        context: Context,
        opened: Any,
        most: int | None = None,
    ) -> None:
        self._most = most
        self.checked, self.storage, self.context, self.opened = checked, storage, context, opened
        self._last = [range(s.start, s.stop, s.step)[-1] // c for s, c in zip(slices, storage.chunks, strict=True)]
        self.held: ChunkTable | None = None
        self._fill: Any = None

    def look_up(self, box: _Box, *, whole: bool = False) -> tuple[list[by_table.Entry] | None, Any]:
        """Return an entry per chunk, or `None` if no chunk was ever written, and the value of unwritten ones."""
        # For the `whole`, no entries are created if the table is kept from now on.
        if self.held is None:
            # A table written by the netCDF library is read without the HDF5 library, if it is small and complete.
            if self.storage.tree is not None and _count(box) <= indexes.MOST:
                head = Head(self.checked.handle)
                size = self.storage.encoding.dtype.itemsize
                known = indexes.positions(head, self.storage.tree, self.storage.chunks, list(_indices(box)), size)
                if known is not None:
                    return known, None
            found = self._ask(box)
            if found is not None:
                return (found if any(e[1] is not None for e in found) else None), self._fill
        if self.held is None or whole:
            return None, self._fill
        indices: Any = np.ix_(*(rows.indices for rows in box))
        cells: Any = np.ravel_multi_index(indices, self.held.grid.matrix_shape)
        return by_table.entries(self.held, cells.reshape(-1)), self._fill

    def _ask(self, box: _Box) -> list[by_table.Entry] | None:
        """Look up entries through the library; return `None` if the whole table is kept from now on."""
        import h5py

        from cfagg.formats.hdf5 import library_variables
        from cfagg.formats.hdf5.listing import listing
        from cfagg.formats.hdf5.proof import prove_index

        checked, context = self.checked, self.context
        with LIBRARY:
            try:
                dataset = library_variables.dataset(checked, context) if self.opened is None else self.opened
                layout = prove_index(checked.handle, h5py.h5i.get_file_id(dataset), dataset)
                kind = layout.kind if layout is not None else 0
                plain_edges = layout is not None and layout.plain_edges
                found = self._found(dataset, box, listing(dataset, kind, self.storage.chunks), plain_edges)
                if self._fill is None and (found is None or any(offset is None for _, offset, _ in found)):
                    # For other types only references are checked, and there are none.
                    dtype = self.storage.encoding.dtype
                    self._fill = (
                        np.void(bytes(dtype.itemsize)) if dtype.kind == "V" else library_variables.fill(dataset)
                    )
            except (AccessError, LimitError):
                raise
            except (*ERRORS, UnsoundError) as error:
                raise context.damage(
                    f"the chunk table of {self.storage.path!r} in {checked.handle.key.path} is damaged: {error}; "
                    "restore the file"
                ) from error
        return found

    def _found(self, dataset: Any, box: _Box, listed: Listing | None, plain_edges: bool) -> list[by_table.Entry] | None:
        """Return the entries of a box, or `None` after the whole table was read."""
        # With plain edges, chunks across the dataset's end pass no filter, which the library's masks do not show.
        import h5py

        chunks = self.storage.chunks
        whole = tuple(map(operator.floordiv, dataset.shape, chunks))
        if self._most is not None and dataset.get_num_chunks() > self._most:
            raise LimitError(f"{self.storage.path!r} has more than {self._most:,} chunks")
        at_once = _count(box) > _SINGLY and h5py.version.hdf5_version_tuple >= _ITERATES
        if not at_once or dataset.get_num_chunks() > _HELD:
            indices = _indices(box) if listed is None else map(listed.listed, _indices(box))
            found = _looked_up(dataset, [tuple(map(operator.mul, index, chunks)) for index in indices], at_once)
            if plain_edges:
                edges = (any(map(operator.ge, index, whole)) for index in _indices(box))
                found = [(_ALL, *e[1:]) if edge else e for e, edge in zip(found, edges, strict=True)]
            return found
        grid = Grid.regular(dataset.shape, chunks)
        if any(map(operator.ge, self._last, grid.matrix_shape)):
            raise UnsoundError("it has fewer chunks than its header says")
        rows: list[tuple[int, ...]] = []

        def note(info: Any) -> None:
            if info.byte_offset is not None:
                index = tuple(map(operator.floordiv, info.chunk_offset, chunks))
                index = index if listed is None else listed.actual(index)
                rows.append((*index, info.filter_mask, info.byte_offset, info.size))

        dataset.chunk_iter(note)
        columns = np.array(rows, np.int64).reshape(-1, grid.ndim + 3)
        columns = columns[(columns[:, : grid.ndim] < grid.matrix_shape).all(axis=1)]
        if plain_edges:
            columns[(columns[:, : grid.ndim] >= whole).any(axis=1), -3] = _ALL
        cell: Any = np.ravel_multi_index(tuple(columns.T[: grid.ndim]), grid.matrix_shape)
        order = np.argsort(cell)
        mask, offset, length = columns[order, -3:].T
        self.held = ChunkTable(grid, self.storage.encoding, cell[order], offset, length, mask)
        return None


def _looked_up(dataset: Any, starts: list[tuple[int, ...]], at_once: bool) -> list[by_table.Entry]:
    """Return the entries of the chunks that begin at given elements."""
    if not at_once:
        infos = map(dataset.get_chunk_info_by_coord, starts)
        return [(int(i.filter_mask), i.byte_offset, int(i.size)) for i in infos]
    # The library iterates the whole table for each chunk, so this does it once for all of them.
    table: dict[tuple[int, ...], by_table.Entry] = {}
    missing = set(starts)

    def note(info: Any) -> bool | None:
        if info.chunk_offset in missing:
            missing.remove(info.chunk_offset)
            table[info.chunk_offset] = int(info.filter_mask), info.byte_offset, int(info.size)
        return None if missing else True

    dataset.chunk_iter(note)
    return [table.get(start, (0, None, 0)) for start in starts]
