"""The newer indexes of chunks: single chunk, implicit, fixed and extensible arrays, and version 2 B-trees.

Their checksums are verified; anything unusual, damaged or incomplete is left to the library.

Source: HDF5 File Format Specification, version 3, "Layout: Chunk Indexing"; open questions were resolved by comparison
with files written by the library.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from cfagg.formats.hdf5.bytes import Bytes
from cfagg.formats.hdf5.lookup3 import compiled
from cfagg.formats.hdf5.messages import Layout
from cfagg.formats.hdf5.space import ERRORS, UNDEFINED, OverlapError, Space, UnusualError
from cfagg.formats.hdf5.trees import records

__all__ = ["NOWHERE", "Listed", "NewerIndex", "cells_of", "is_below"]

Int64 = npt.NDArray[np.int64]

#: The numbers of the indexes.
_SINGLE, _IMPLICIT, _FIXED, _EXTENSIBLE, _TREE = 1, 2, 3, 4, 5

#: Bytes before the elements of each block, and of the checksum after them.
_PREFIX, _SUM = 14, 4

#: Positions and sizes from here on are invalid.
NOWHERE = 2**62

#: The mask of a chunk that passed no filter.
_ALL = 2**32 - 1

#: Records of version 2 B-trees, for chunks without and with filters.
_PLAIN, _FILTERED = 10, 11

#: Most chunks whose indices are cached.
_REMEMBERED = 2**12


class Listed(NamedTuple):
    """Filter mask, byte offset and stored size of all chunks of a dataset, in C order."""

    #: `None` if all of them passed all filters.
    mask: Int64 | None
    offset: Int64
    size: Int64

    @classmethod
    def one(cls, mask: int, offset: int, size: int) -> Listed:
        """Return the entry of a dataset with one chunk."""
        return cls(
            np.array([mask], np.int64) if mask else None, np.array([offset], np.int64), np.array([size], np.int64)
        )

    @property
    def masks(self) -> Int64:
        """The filter mask of each chunk."""
        return np.zeros(len(self.offset), np.int64) if self.mask is None else self.mask


class NewerIndex(NamedTuple):
    """The index of the chunks of a dataset, whose shape may grow up to `most`."""

    layout: Layout
    shape: tuple[int, ...]
    most: tuple[int, ...]
    filtered: bool

    def listed(self, data: Bytes, most: int) -> Listed | None:
        """Return the locations of all chunks, or `None` if the library has to be used."""
        if self.layout.kind == _SINGLE:
            only = self._only()
            return None if only is None else Listed.one(*only)
        counts, size = self._counts, prod(self.layout.chunk)
        if not 0 < prod(counts) <= most or size >= NOWHERE:
            return None
        try:
            found = self._found(data, counts, size)
        except (OverlapError, OSError, *ERRORS):
            return None
        if found is not None and self.layout.plain_edges:
            edge = [n // c for n, c in zip(self.shape, self.layout.chunk, strict=False)]
            masks = np.where((cells_of(counts) >= edge).any(axis=1), _ALL, found.masks)
            found = found._replace(mask=masks if masks.any() else None)
        return found

    def one(self, data: Bytes, index: tuple[int, ...], most: int) -> tuple[int, int, int] | None:
        """Return filter mask, byte offset and stored size of a chunk, or `None` if the library has to be used."""
        layout = self.layout
        if layout.kind == _SINGLE:
            return self._only()
        if layout.kind not in (_FIXED, _EXTENSIBLE):
            rows = self.listed(data, most)
            n = 0 if rows is None else np.ravel_multi_index(index, self._counts)
            return None if rows is None else (int(rows.masks[n]), int(rows.offset[n]), int(rows.size[n]))
        stored, mask, number, step = prod(layout.chunk), 0, 0, 1
        if not 0 < prod(self._counts) <= most:
            return None
        try:
            axis, limits = self._limits()
            for d in _order(axis, len(index)):
                number += index[d] * step
                step *= limits[d]
            width = self._width(stored)
            entry = 12 + width if width else 8
            element = self._elements(data, axis, limits, number + 1, entry)[number * entry : (number + 1) * entry]
        except (OverlapError, OSError, *ERRORS):
            return None
        if width:
            stored, mask = int.from_bytes(element[8:-4], "little"), int.from_bytes(element[-4:], "little")
        if layout.plain_edges and any(i >= n // c for i, n, c in zip(index, self.shape, layout.chunk, strict=False)):
            mask = _ALL
        at = int.from_bytes(element[:8], "little")
        return (mask, at, stored) if at < NOWHERE > stored > 0 else None

    def _only(self) -> tuple[int, int, int] | None:
        """Return the same as `one` for the only chunk."""
        layout, chunk = self.layout, self.layout.chunk[:-1]
        if layout.filtered != self.filtered or any(n > c for n, c in zip(self.most, chunk, strict=True)):
            return None
        if layout.plain_edges and chunk != self.shape:
            return None
        stored = layout.size if self.filtered else prod(layout.chunk)
        return (layout.mask, layout.at, stored) if layout.at < NOWHERE > stored > 0 else None

    @property
    def _counts(self) -> tuple[int, ...]:
        """Number of chunks along each dimension."""
        return _counts(self.shape, self.layout.chunk)

    def _found(self, data: Bytes, counts: tuple[int, ...], size: int) -> Listed | None:
        """Return the locations of all chunks, of `size` bytes without filters, if all of them were written."""
        is_tree = self.layout.kind == _TREE
        axis, limits = (0, counts) if is_tree else self._limits()
        number = None if axis < 1 and counts[1:] == limits[1:] else _numbers(counts, axis, limits)
        wanted = prod(counts) if number is None else int(number[-1]) + 1
        if self.layout.kind == _IMPLICIT:
            if self.filtered or self.layout.at + size * wanted >= NOWHERE:
                return None
            offset = self.layout.at + size * (np.arange(wanted) if number is None else number)
            return Listed(None, offset, np.full(len(offset), size))
        width = self._width(size)
        kind = _entry(width, len(counts) if is_tree else 0)
        if is_tree:
            rows = np.frombuffer(self._tree(data, kind.itemsize), kind)
            if not np.array_equal(rows["index"], cells_of(counts)):
                return None
        else:
            rows = np.frombuffer(self._elements(data, axis, limits, wanted, kind.itemsize), kind)
            rows = rows[:wanted] if number is None else rows[number]
        offset = rows["place"].astype(np.int64)
        if not is_below(offset):
            return None
        if not width:
            return Listed(None, offset, np.full(len(offset), size))
        # Copies, because operations on unaligned numbers take several times as long.
        stored = (rows["size"].astype(np.uint64) >> np.uint64(64 - 8 * width)).view(np.int64)
        masks = rows["mask"].astype(np.int64)
        if not np.minimum.reduce(stored) or (width == 8 and not is_below(stored)):
            return None
        return Listed(masks if np.bitwise_or.reduce(masks) else None, offset, stored)

    def _width(self, size: int) -> int:
        """Return the bytes of the field for the size after filters of a chunk of `size` bytes, or 0 without filters."""
        if not self.filtered:
            return 0
        return 8 if self.layout.version > 4 else min(1 + (size.bit_length() + 7) // 8, 8)

    def _elements(self, data: Bytes, axis: int, limits: Sequence[int], wanted: int, entry: int) -> bytes:
        """Return at least `wanted` elements, `entry` bytes each, of a fixed or extensible array."""
        blocks = _Blocks(Space(data, checksum=compiled()), self.layout, int(self.filtered), entry)
        return blocks.fixed(prod(limits), wanted) if axis < 0 else blocks.extensible(wanted)

    def _tree(self, data: Bytes, size: int) -> bytes:
        """Return the records of a version 2 B-tree, in its order."""
        # The layout also has the bytes of a node, and how full it is when split or merged.
        space = Space(data, checksum=compiled())
        head = space.take(self.layout.at, 16)
        if head[6:10] + head[14:16] != self.layout.settings:
            raise UnusualError
        return b"".join(records(space, self.layout.at, _FILTERED if self.filtered else _PLAIN, size))

    def _limits(self) -> tuple[int, tuple[int, ...]]:
        """Return the unlimited dimension, or -1 if there is none, and the most chunks along each."""
        growing = self.most.count(UNDEFINED)
        if growing != (self.layout.kind == _EXTENSIBLE):
            raise UnusualError
        return self.most.index(UNDEFINED) if growing else -1, _counts(self.most, self.layout.chunk)


@lru_cache(1024)
def _counts(sizes: tuple[int, ...], chunk: tuple[int, ...]) -> tuple[int, ...]:
    """Return the number of chunks along each dimension; the last size of a chunk is that of an element."""
    return tuple([-(-n // c) for n, c in zip(sizes, chunk, strict=False)])


def _numbers(counts: tuple[int, ...], axis: int, limits: Sequence[int]) -> Int64:
    """Return the numbers of chunks, the highest last; `axis` is unlimited, or -1 if none is."""
    if counts[axis] * prod(n for d, n in enumerate(limits) if d != axis) >= NOWHERE:
        raise UnusualError
    cells = cells_of(counts)
    number, step = np.zeros(len(cells), np.int64), 1
    for d in _order(axis, len(counts)):
        number += cells[:, d] * step
        step *= limits[d] if d != axis else 1
    return number


def _order(axis: int, rank: int) -> list[int]:
    """Return the dimensions in the order in which chunks are counted, the fastest first."""
    # The one without a limit last, so that added chunks follow all others.
    return [*(d for d in reversed(range(rank)) if d != axis), *([axis] if axis >= 0 else [])]


def is_below(numbers: Int64) -> bool:
    """Return whether all numbers, which may have been taken from unsigned ones, are below `NOWHERE`."""
    return 0 <= int(np.bitwise_or.reduce(numbers)) < NOWHERE


@lru_cache(64)
def _entry(width: int, rank: int) -> np.dtype[Any]:
    """Return the type of an element of an array or a record of a tree: address and, with `width`, size and mask."""
    end = 12 + width if width else 8
    # The last bytes of "size" are those of the size.
    fields: list[tuple[str, Any, int]] = [("place", "<u8", 0), ("size", "<u8", width), ("mask", "<u4", 8 + width)][
        : 3 if width else 1
    ]
    if rank:
        fields.append(("index", ("<i8", (rank,)), end))
    names, formats, offsets = zip(*fields, strict=True)
    return np.dtype({"names": names, "formats": formats, "offsets": offsets, "itemsize": end + 8 * rank})


def cells_of(counts: tuple[int, ...], chunk: tuple[int, ...] = ()) -> Int64:
    """Return the indices of all chunks in C order, or their first elements, with 0 for the element dimension."""
    return _few_cells(counts, chunk) if prod(counts) <= _REMEMBERED else _few_cells.__wrapped__(counts, chunk)


@lru_cache(64)
def _few_cells(counts: tuple[int, ...], chunk: tuple[int, ...]) -> Int64:
    cells = np.stack(np.unravel_index(np.arange(prod(counts)), counts), axis=1).astype(np.int64)
    return np.pad(cells, ((0, 0), (0, 1))) * chunk if chunk else cells


class _Blocks:
    """The elements of an array, `entry` bytes each, in blocks that may have pages."""

    def __init__(self, space: Space, layout: Layout, client: int, entry: int) -> None:
        self._space, self._layout, self._client, self._entry = space, layout, client, entry
        # More elements are split into pages of this many, each with its own checksum.
        self._page = 1 << layout.settings[-1]

    def _head(self, mark: bytes, size: int) -> bytes:
        """Return the header of the array."""
        head = self._space.structure(self._layout.at, size)
        if head[:7] != mark + bytes([0, self._client, self._entry]):
            raise UnusualError
        return head

    def _block(self, at: int, mark: bytes, size: int) -> bytes:
        """Return the content of a block of the array after its prefix; for an unwritten one, undefined addresses."""
        if at == UNDEFINED:
            return b"\xff" * size
        found = self._space.structure(at, _PREFIX + size + _SUM)
        if found[:_PREFIX] != mark + struct.pack("<BBQ", 0, self._client, self._layout.at):
            raise UnusualError
        return found[_PREFIX:-_SUM]

    def _pages(self, at: int, count: int, last: int, written: bytes, bit: int = 0) -> bytes:
        """Return pages, up to the last that is needed, of `count` elements that begin at an address."""
        parts = []
        for page in range(last + 1):
            size = min(self._page, count - page * self._page) * self._entry
            if written[(bit + page) // 8] & 0x80 >> (bit + page) % 8:
                place = at + page * (self._page * self._entry + _SUM)
                parts.append(self._space.structure(place, size + _SUM)[:-_SUM])
            else:
                parts.append(b"\xff" * size)
        return b"".join(parts)

    def fixed(self, total: int, wanted: int) -> bytes:
        """Return `wanted` elements, and perhaps more, of a fixed array that has `total`."""
        head = self._head(b"FAHD", 28)
        entries, block = struct.unpack_from("<QQ", head, 8)
        if head[7:8] != self._layout.settings or entries != total or total * self._entry > self._space.size:
            raise UnusualError
        if total <= self._page or block == UNDEFINED:
            return self._block(block, b"FADB", total * self._entry)
        bits = (-(-total // self._page) + 7) // 8
        written = self._block(block, b"FADB", bits)
        last = (wanted - 1) // self._page
        return self._pages(block + _PREFIX + bits + _SUM, total, last, written)

    def extensible(self, wanted: int) -> bytes:
        """Return `wanted` elements of an extensible array, and perhaps more."""
        head, entry = self._head(b"EAHD", 72), self._entry
        bits, direct, least, pointers, _ = head[7:12]
        if bytes((bits, direct, pointers, least, head[11])) != self._layout.settings:
            raise UnusualError
        if bits > 64 or not _is_power(least) or not _is_power(pointers) or wanted * entry > self._space.size:
            raise UnusualError
        used, made, at = struct.unpack_from("<QQQ", head, 44)
        # The library reads no elements after the last used one, and iterates all before it.
        if not wanted <= used <= made or made * entry > self._space.size:
            raise UnusualError
        # Groups of blocks, the first of which have no separate block for the addresses.
        groups, within, offset = 1 + bits - (least.bit_length() - 1), 2 * (pointers.bit_length() - 1), (bits + 7) // 8
        data = 2 * (pointers - 1)
        if groups < within:
            raise UnusualError
        index = self._block(at, b"EAIB", direct * entry + 8 * (data + groups - within))
        places = struct.unpack_from(f"<{data + groups - within}Q", index, direct * entry)
        parts, have, used = [index[: direct * entry]], direct, 0
        for group in range(groups):
            if have >= wanted:
                break
            blocks, size = 1 << group // 2, least << (group + 1) // 2
            pages, written = size // self._page if size > self._page else 0, b""
            if group < within:
                if pages:
                    raise UnusualError
                some, used = places[used : used + blocks], used + blocks
            else:
                bitmap = blocks * ((pages + 7) // 8)
                above = self._block(places[data + group - within], b"EASB", offset + bitmap + 8 * blocks)
                written = above[offset : offset + bitmap]
                some = struct.unpack_from(f"<{blocks}Q", above, offset + bitmap)
            for k, place in enumerate(some):
                if have >= wanted:
                    break
                if pages:
                    self._block(place, b"EADB", offset)
                    last = min(wanted - have - 1, size - 1) // self._page
                    parts.append(self._pages(place + _PREFIX + offset + _SUM, size, last, written, k * pages))
                else:
                    parts.append(self._block(place, b"EADB", offset + size * entry)[offset:])
                have += size
        if have < wanted:
            raise UnusualError
        return b"".join(parts)


def _is_power(number: int) -> bool:
    """Return whether a number is a power of two."""
    return number > 0 and not number & number - 1
