"""The newer indexes of chunks: one chunk, chunks in a row, arrays that are fixed or extensible, and version 2 B-trees.

All of them have checksums, which are compared; whatever is unusual, damaged or not all there is left to the library.

Source: HDF5 File Format Specification, version 3, "Layout: Chunk Indexing"; what it leaves open was compared with what
the library writes.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from math import prod
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from cfagg.formats.hdf5.bytes import Bytes
from cfagg.formats.hdf5.lookup3 import compiled
from cfagg.formats.hdf5.messages import Layout
from cfagg.formats.hdf5.space import ERRORS, UNDEFINED, OverlapError, Space, UnusualError
from cfagg.formats.hdf5.trees import records

__all__ = ["NewerIndex"]

#: The numbers of the indexes.
_SINGLE, _IMPLICIT, _FIXED, _EXTENSIBLE, _TREE = 1, 2, 3, 4, 5

#: Bytes in front of the elements of each block, and of the checksum behind them.
_PREFIX, _SUM = 14, 4

#: Places and sizes from here on are none.
_NOWHERE = 2**62

#: The mask of a chunk that passed no filter.
_ALL = 2**32 - 1


class NewerIndex(NamedTuple):
    """How a file says where the chunks of a dataset stand, whose shape may grow up to `most`."""

    layout: Layout
    shape: tuple[int, ...]
    most: tuple[int, ...]
    filtered: bool

    def listed(self, data: Bytes, most: int) -> npt.NDArray[np.int64] | None:
        """Return index, mask, place and size of all chunks in C order; `None` where the library has to look."""
        layout = self.layout
        chunk = layout.chunk[:-1]
        size = prod(layout.chunk)
        if layout.kind == _SINGLE:
            if layout.filtered != self.filtered or any(n > c for n, c in zip(self.most, chunk, strict=True)):
                return None
            if layout.plain_edges and chunk != self.shape:
                return None
            row = [*[0] * len(chunk), layout.mask, layout.at, layout.size if self.filtered else size]
            return np.array([row], np.int64) if layout.at < _NOWHERE and 0 < row[-1] < _NOWHERE else None
        counts = tuple([-(-n // c) for n, c in zip(self.shape, chunk, strict=True)])
        if not 0 < prod(counts) <= most or size >= _NOWHERE:
            return None
        try:
            found = self._found(data, counts, size)
        except (OverlapError, OSError, *ERRORS):
            return None
        if found is not None and layout.plain_edges:
            edge = [n // c for n, c in zip(self.shape, chunk, strict=True)]
            found[(found[:, :-3] >= edge).any(axis=1), -3] = _ALL
        return found

    def _found(self, data: Bytes, counts: tuple[int, ...], size: int) -> npt.NDArray[np.int64] | None:
        """Return the rows of all chunks, of `size` bytes without filters, if all of them were written."""
        layout, cells = self.layout, _cells(counts)
        raw = self._tree(data) if layout.kind == _TREE else self._numbered(data, counts, cells, size)
        place = np.ascontiguousarray(raw[:, :8]).view("<u8")[:, 0]
        mask: npt.NDArray[np.int64] = np.zeros(len(raw), np.int64)
        stored = np.full(len(raw), size, np.uint64)
        if self.filtered:
            width = self._width
            padded = np.zeros((len(raw), 8), np.uint8)
            padded[:, :width] = raw[:, 8 : 8 + width]
            stored = padded.view("<u8")[:, 0]
            mask = np.ascontiguousarray(raw[:, 8 + width : 12 + width]).view("<u4")[:, 0].astype(np.int64)
        if len(raw) != len(cells) or (place >= _NOWHERE).any() or (stored >= _NOWHERE).any() or not stored.all():
            return None
        if layout.kind == _TREE:
            start = raw.shape[1] - 8 * len(counts)
            if (np.ascontiguousarray(raw[:, start:]).view("<u8") != cells).any():
                return None
        columns = (mask, place.astype(np.int64), stored.astype(np.int64))
        return np.concatenate([cells, np.stack(columns, axis=1)], axis=1)

    @property
    def _width(self) -> int:
        """Bytes of the size of a chunk behind its filters."""
        return 8 if self.layout.version > 4 else min(1 + (prod(self.layout.chunk).bit_length() + 7) // 8, 8)

    @property
    def _entry(self) -> int:
        """Bytes of an element: a place, and what filters make of the chunk."""
        return 8 + self.filtered * (self._width + 4)

    def _tree(self, data: Bytes) -> npt.NDArray[np.uint8]:
        """Return the records of a version 2 B-tree, in its order."""
        size = self._entry + 8 * len(self.shape)
        space = Space(data, checksum=compiled())
        # Bytes of a node, and how full it is when it is split or merged, stand in the layout too.
        head = space.take(self.layout.at, 16)
        if head[6:10] + head[14:16] != self.layout.settings:
            raise UnusualError
        found = b"".join(records(space, self.layout.at, 11 if self.filtered else 10, size))
        return np.frombuffer(found, np.uint8).reshape(-1, size)

    def _numbered(
        self, data: Bytes, counts: tuple[int, ...], cells: npt.NDArray[np.int64], size: int
    ) -> npt.NDArray[np.uint8]:
        """Return the elements of chunks that are numbered, in the order of `cells`."""
        layout = self.layout
        limits = [-(-n // c) for n, c in zip(self.most, layout.chunk, strict=False)]
        growing = [axis for axis, n in enumerate(self.most) if n == UNDEFINED]
        # Along the dimension without a limit last, so that what is added stands behind all others.
        if len(growing) != (layout.kind == _EXTENSIBLE):
            raise UnusualError
        order = [*growing, *(axis for axis in range(len(counts)) if axis not in growing)]
        total = prod(n for n, own in zip(limits, self.most, strict=True) if own != UNDEFINED)
        if total * max([counts[axis] for axis in growing], default=1) >= _NOWHERE:
            raise UnusualError
        number, step = np.zeros(len(cells), np.int64), 1
        for axis in reversed(order):
            number += cells[:, axis] * step
            step *= limits[axis] if axis not in growing else 1
        if layout.kind == _IMPLICIT:
            if self.filtered or layout.at + total * size >= _NOWHERE:
                raise UnusualError
            return (layout.at + number * size).astype("<u8").view(np.uint8).reshape(-1, 8)
        blocks = _Blocks(Space(data, checksum=compiled()), layout, int(self.filtered), self._entry)
        wanted = int(number[-1]) + 1
        elements = blocks.fixed(total, wanted) if layout.kind == _FIXED else blocks.extensible(wanted)
        return np.frombuffer(elements, np.uint8).reshape(-1, self._entry)[number]


@lru_cache(64)
def _cells(counts: tuple[int, ...]) -> npt.NDArray[np.int64]:
    """Return the indices of all chunks in C order."""
    return np.stack(np.unravel_index(np.arange(prod(counts)), counts), axis=1).astype(np.int64)


class _Blocks:
    """The elements of an array, `entry` bytes each, in blocks that may have pages."""

    def __init__(self, space: Space, layout: Layout, client: int, entry: int) -> None:
        self._space, self._layout, self._client, self._entry = space, layout, client, entry
        # Of more elements than that, each so many are one page with a checksum of its own.
        self._page = 1 << layout.settings[-1]

    def _head(self, mark: bytes, size: int) -> bytes:
        """Return the header of the array."""
        head = self._space.structure(self._layout.at, size)
        if head[:7] != mark + bytes([0, self._client, self._entry]):
            raise UnusualError
        return head

    def _block(self, at: int, mark: bytes, size: int) -> bytes:
        """Return what follows the prefix of a block of the array; of one that was never written, no places."""
        if at == UNDEFINED:
            return b"\xff" * size
        found = self._space.structure(at, _PREFIX + size + _SUM)
        if found[:_PREFIX] != mark + struct.pack("<BBQ", 0, self._client, self._layout.at):
            raise UnusualError
        return found[_PREFIX:-_SUM]

    def _pages(self, at: int, count: int, last: int, written: bytes, bit: int = 0) -> bytes:
        """Return pages, up to the last that is needed, of `count` elements that begin at a place."""
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
        """Return so many elements, and perhaps more, of a fixed array that has `total`."""
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
        """Return so many elements of an extensible array, and perhaps more."""
        head, entry = self._head(b"EAHD", 72), self._entry
        bits, direct, least, pointers, _ = head[7:12]
        if bytes((bits, direct, pointers, least, head[11])) != self._layout.settings:
            raise UnusualError
        if bits > 64 or not _is_power(least) or not _is_power(pointers) or wanted * entry > self._space.size:
            raise UnusualError
        (at,) = struct.unpack_from("<Q", head, 60)
        # Groups of blocks, of which the first have no block of their own for the places.
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
