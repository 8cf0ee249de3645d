"""The indexes of chunks: whether the HDF5 library can iterate one safely, and reading of small ones without it.

Source: HDF5 File Format Specification, version 3, "The Data Layout Message".
"""

from __future__ import annotations

import itertools
import operator
import struct
from bisect import bisect_right
from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import Any, NamedTuple

import numpy as np

from cfagg.formats.hdf5.bytes import Bytes
from cfagg.formats.hdf5.messages import CHUNKED, Layout, layout_of
from cfagg.formats.hdf5.newer import NOWHERE, Listed, NewerIndex, cells_of, is_below
from cfagg.formats.hdf5.space import ERRORS, UNDEFINED, BrokenError, Space
from cfagg.formats.hdf5.trees import records

__all__ = ["MOST", "check_index", "check_order", "listed", "positions"]

#: The first bytes of indexes, by their numbers; those of layout version 3 have no number.
_TREE, _OLD_TREE = b"BTHD\0", b"TREE\1"
_MARKS = {0: _OLD_TREE, 3: b"FAHD\0", 4: b"EAHD\0", 5: _TREE}
#: Position in them of the address of their first block.
_BLOCKS = {b"FAHD\0": 16, b"EAHD\0": 60}
#: And of the number of their entries.
_ENTRIES = {b"FAHD\0": 8, b"EAHD\0": 44}
#: Number of entries that is plausible for any size of the file and shape of the dataset.
_MANY = 1 << 20

#: Chunks and nodes of the largest index that is read here, rows of a node, and levels.
MOST, _DEEPEST = 1024, 16

#: Rows of a node of a version 1 B-tree, unless the superblock differs; then the library reads more.
_ROWS = 64

#: Records of chunks without and with filters.
_PLAIN, _FILTERED = 10, 11


def check_index(space: Space, message: bytes, shape: Sequence[int] | None) -> Layout | None:
    """Check the index of a dataset's chunks, and return the layout, or `None` for a different or old one."""
    if message[0] not in (3, 4, 5) or message[1] != CHUNKED:
        return None
    layout = layout_of(message)
    at, chunk, settings, sizes = layout.at, layout.chunk, layout.settings, len(layout.chunk)
    if not sizes or not all(chunk):
        raise BrokenError
    # The last size is that of an element.
    if shape is not None and len(shape) + 1 != sizes:
        raise BrokenError
    if at == UNDEFINED or layout.kind not in _MARKS:
        return layout
    mark = _MARKS[layout.kind]
    if space.take(at, len(mark)) != mark:
        raise BrokenError
    if mark == _OLD_TREE:
        _check_old(space, at, sizes)
    elif mark == _TREE:
        head = space.take(at, 38)
        kind, size = struct.unpack_from("<B4xH", head, 5)
        # The layout also has the bytes of a node, and how full it is when split or merged.
        if head[6:10] + head[14:16] != settings:
            raise BrokenError
        plain = 8 * sizes
        if (kind, size) != (_PLAIN, plain) and not (kind == _FILTERED and plain + 4 < size <= plain + 12):
            raise BrokenError
        # If they are out of order, the library lists chunks that it does not find when reading.
        rank, before = sizes - 1, b""
        for record in records(space, at, kind, size):
            # Big-endian bytes have the same order as the numbers.
            start = struct.pack(f">{rank}Q", *struct.unpack_from(f"<{rank}Q", record, size - 8 * rank))
            if start <= before:
                raise BrokenError
            before = start
    else:
        # The index repeats the settings of the layout in another order.
        head = space.take(at, _BLOCKS[mark] + 8)
        same = head[7:8] if mark == b"FAHD\0" else bytes(head[i] for i in (7, 8, 10, 9, 11))
        if same != settings or head[5] > 1 or (head[5] == 0) != (head[6] == 8):
            raise BrokenError
        (block,) = struct.unpack_from("<Q", head, _BLOCKS[mark])
        if block != UNDEFINED and space.take(block, 4) not in (b"FADB", b"EAIB"):
            raise BrokenError
        # The library iterates all of them for each chunk that it searches for.
        (entries,) = struct.unpack_from("<Q", head, _ENTRIES[mark])
        chunks = prod(-(-n // c) for n, c in zip(shape or (), chunk[:-1], strict=False))
        if entries > max(chunks, space.size, _MANY):
            raise BrokenError
    return layout


def _check_old(space: Space, root: int, sizes: int) -> None:
    """Check that each node of a version 1 B-tree is one level below its parent; else the library descends for ever."""
    key = 8 + 8 * sizes
    waiting = [(root, -1)]
    while waiting:
        at, expected = waiting.pop()
        mark, level, count = struct.unpack("<5sBH", space.take(at, 8))
        if mark != _OLD_TREE or expected not in (-1, level):
            raise BrokenError
        space.spend(24)
        if level:
            size = count * (key + 8)
            space.spend(size)
            node = space.take(at + 24, size)
            waiting += [(child, level - 1) for (child,) in struct.iter_unpack(f"<{key}xQ", node)]


def check_order(space: Space, layout: Layout) -> None:
    """Check that the keys of a checked version 1 B-tree are in order, if the layout has one."""
    # Otherwise the library lists chunks that it does not find when reading.
    if layout.version != 3 or layout.at == UNDEFINED:
        return
    entry = _entry(len(layout.chunk))
    waiting: list[tuple[int, list[int] | None]] = [(layout.at, None)]
    while waiting:
        at, first = waiting.pop()
        level, count = struct.unpack("<BH", space.take(at + 5, 3))
        size = (count + 1) * entry.itemsize - 8 if count else 0
        space.spend(24 + size)
        rows = np.frombuffer(space.take(at + 24, size) + bytes(8 if count else 0), entry)
        places = rows["start"].tolist()
        starts = (rows["start"] // np.asarray(layout.chunk, np.int64)).tolist()
        # Positions beyond the signed range become negative.
        if (
            rows["start"].min(initial=0) < 0
            or any(map(operator.ge, starts, starts[1:]))
            or (not level and rows["start"][:-1, -1].any())
        ):
            raise BrokenError
        # The first key of a node is that in its parent.
        if first is not None and places[:1] != [first]:
            raise BrokenError
        if level:
            waiting += zip(rows["child"][:-1].tolist(), places, strict=False)


def positions(
    data: Bytes, tree: int | NewerIndex, chunk: Sequence[int], indices: Sequence[tuple[int, ...]], size: int = 1
) -> list[tuple[int, int | None, int]] | None:
    """Return filter mask, byte offset and stored size of chunks, or `None` if the library has to be used."""
    # `size`: the bytes of an element.
    # Newer kinds are read whole, except for one chunk.  Positions are not compared with the size of the file.
    if isinstance(tree, NewerIndex):
        if len(indices) == 1:  # as for a point in each of thousands of files
            one = tree.one(data, indices[0], MOST)
            return None if one is None else [one]
        rows = tree.listed(data, MOST)
        if rows is None:
            return None
        counts = tuple([-(-n // c) for n, c in zip(tree.shape, chunk, strict=True)])
        numbers = np.ravel_multi_index(tuple(np.transpose(indices)), counts)
        columns = (rows.masks, rows.offset, rows.size)
        return list(zip(*(column[numbers].tolist() for column in columns), strict=True))
    # A version 1 B-tree as written by the netCDF library, which has all chunks.
    nodes: dict[int, _Node] = {}
    found: list[tuple[int, int | None, int]] = []
    try:
        for index in indices:
            start = tuple(map(operator.mul, index, chunk))
            node = nodes.get(tree) or _node(data, tree, (*chunk, size), nodes)
            while node is not None and node.level:
                # The last child that begins no later; each is one level below its parent.
                below = bisect_right(node.starts, start) - 1
                if below < 0:
                    return None
                at, level, first = node.rows[below][-1], node.level - 1, node.starts[below]
                node = nodes.get(at) or _node(data, at, (*chunk, size), nodes)
                node = None if node is None or (node.level, node.starts[0]) != (level, first) else node
            number = None if node is None else node.numbers.get(start)
            if node is None or number is None:
                return None
            stored, mask, _, place = node.rows[number]
            if place == UNDEFINED or not stored:
                return None
            found.append((mask, place, stored))
    except (OSError, *ERRORS):
        return None
    return found


class _Node(NamedTuple):
    """A node of a version 1 B-tree."""

    level: int
    #: Size, mask, key and address of each child.
    rows: list[tuple[int, int, bytes, int]]
    #: First elements, and the indices of the rows of chunks by these.
    starts: list[tuple[int, ...]]
    numbers: dict[tuple[int, ...], int]


def _node(data: Bytes, at: int, chunk: tuple[int, ...], nodes: dict[int, _Node]) -> _Node | None:
    """Read a node, and store it in `nodes`; return `None` if it is invalid, or its rows are not in order."""
    # A key has a start in each dimension and within the element, whose size is the last one of the chunk.
    entry = struct.Struct(f"<II{8 * len(chunk)}sQ")
    mark, level, count = struct.unpack("<5sBH", data[at : at + 8])
    if mark != _OLD_TREE or not 0 < count <= _ROWS or level > _DEEPEST or len(nodes) >= MOST:
        return None
    whole = data[at + 24 : at + 24 + (count + 1) * entry.size - 8]
    rows = list(entry.iter_unpack(whole + bytes(8)))
    found = _starts(tuple([row[2] for row in rows]), chunk) if len(rows) == count + 1 else None
    if found is None:
        return None
    node = nodes[at] = _Node(level, rows, *found)
    return node


@lru_cache(64)
def _starts(
    keys: tuple[bytes, ...], chunk: tuple[int, ...]
) -> tuple[list[tuple[int, ...]], dict[tuple[int, ...], int]] | None:
    """Return the first elements of the rows of a node, and of chunks the numbers by these; `None` if out of order."""
    # The last key is that behind the rows.  The files of a series mostly have the same keys.
    *found, behind = [struct.unpack(f"<{len(chunk)}Q", key) for key in keys]
    starts = [one[:-1] for one in found]
    if any(a >= b for a, b in itertools.pairwise(starts)) or not _ends(behind, found[-1], chunk):
        return None
    if any(any(map(operator.mod, one, chunk)) for one in found):
        return None
    return starts, {one[:-1]: i for i, one in enumerate(found) if not one[-1]}


def listed(
    data: Bytes, tree: int | NewerIndex, chunk: Sequence[int], shape: Sequence[int], most: int, size: int = 1
) -> Listed | None:
    """Return the locations of all chunks, perhaps beyond the file's end, or `None` if the library has to be used."""
    # `size`: the bytes of an element.
    if isinstance(tree, NewerIndex):
        return tree.listed(data, most)
    rank = len(chunk)
    counts = tuple([-(-n // c) for n, c in zip(shape, chunk, strict=True)])
    total = prod(counts)
    if not 0 < total <= most:
        return None
    found: list[bytes] = []
    waiting: list[tuple[int, int, bytes]] = [(tree, -1, b"")]
    # Bytes of a key, and of an entry: a size and a mask precede the key, and an address follows it.
    count, key, sizes = 0, 8 * (rank + 1), (*chunk, size)
    entry = key + 16
    try:
        if total == 1:
            # As for most coordinates, and for fields in files with one time.
            one = data[tree : tree + 64 + 16 * rank]
            mark, level, used, stored, mask, *start, child = struct.unpack_from(f"<5sBH16xII{rank + 1}QQ", one)
            end = struct.unpack_from(f"<{rank + 1}Q", one, 56 + 8 * rank)
            if (mark, level, used) == (_OLD_TREE, 0, 1) and not any(start) and stored and child < NOWHERE:
                return Listed.one(mask, child, stored) if _ends(end, (0,) * (rank + 1), sizes) else None
        whole = 24 + (min(total, _ROWS) + 1) * entry
        while waiting:
            at, expected, first = waiting.pop()
            node = data[at : at + whole]
            mark, level, used = struct.unpack_from("<5sBH", node)
            count += used
            # Each node is one level below its parent, so that this ends, and each is as long as in the library.
            if mark != _OLD_TREE or expected not in (-1, level) or count > 2 * most or not 0 < used <= _ROWS:
                return None
            behind = 24 + used * entry
            if behind + entry > whole:
                node = data[at : at + behind + entry]
            # The library searches from the first key of a node, which its parent also has, to the one after the last.
            upper, last = (node[8 + e : 8 + e + key] for e in (behind, behind - entry))
            if (first and node[32 : 32 + key] != first) or not _is_end(upper, last, sizes):
                return None
            if level:
                below = struct.iter_unpack(f"<8x{key}sQ", node[24:behind])
                waiting += [(child, level - 1, begin) for begin, child in below][::-1]
            else:
                found.append(node[24:behind])
    except (OSError, *ERRORS):
        return None
    rows = np.frombuffer(b"".join(found), "<i8").reshape(-1, rank + 3)
    # Comparing bytes is faster than comparing few numbers.
    cells = cells_of(counts, (*chunk, 0)).astype("<i8", copy=False)
    if len(rows) != total or rows[:, 1:-1].tobytes() != cells.tobytes():
        return None
    first_word, offset = rows[:, 0], rows[:, -1].astype(np.int64)
    stored = first_word & 0xFFFFFFFF
    if not np.minimum.reduce(stored) or not is_below(offset):
        return None
    masked = int(np.bitwise_or.reduce(first_word)) >> 32
    return Listed(first_word >> 32 & 0xFFFFFFFF if masked else None, offset, stored)


@lru_cache(1024)
def _is_end(end: bytes, last: bytes, sizes: tuple[int, ...]) -> bool:
    """Return what `_ends` does of keys as they stand."""
    form = f"<{len(sizes)}Q"
    return _ends(struct.unpack(form, end), struct.unpack(form, last), sizes)


def _ends(end: Sequence[int], last: Sequence[int], sizes: Sequence[int]) -> bool:
    """Return whether the key after the last row of a node is valid and greater, in whole chunks."""
    if end[-1] > sizes[-1] or any(map(operator.mod, end, sizes)):
        return False
    return tuple(map(operator.floordiv, end, sizes)) > tuple(map(operator.floordiv, last, sizes))


@lru_cache(64)
def _entry(sizes: int) -> np.dtype[Any]:
    """Return the type of an entry of a version 1 B-tree of chunks: a key with `sizes` numbers, and the child."""
    return np.dtype([("size", "<u4"), ("mask", "<u4"), ("start", "<i8", (sizes,)), ("child", "<u8")])
