"""The partition matrix formed by members, however they fill their array: cells, and the part of a member in each.

A member fills a range of indices along each dimension, or several ranges if others are in between. The ends of all
ranges are the edges of the matrix.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import numpy.typing as npt

from cfagg.cf.joining import Boxes
from cfagg.conventions.closure import matrix_size
from cfagg.errors import ConventionError
from cfagg.model import Grid

__all__ = ["Blocks", "Matrix", "blocks_of", "irregular", "matrix_of"]

Int64 = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False, slots=True)
class Blocks:
    """Ranges of an array filled by members, with one row for a range in all dimensions.

    Parameters
    ----------
    row : int64 array, shape (n,)
        The member.
    low, high : int64 array, shape (n, dims)
        The range of indices of the array.
    start : int64 array, shape (n, dims)
        Where the range begins in the member, in the direction of the array.
    size : int64 array, shape (n, dims)
        The sizes of the member as a whole.
    """

    row: Int64
    low: Int64
    high: Int64
    start: Int64
    size: Int64


@dataclass(frozen=True, eq=False, slots=True)
class Matrix:
    """A partition matrix: the block of each cell, and where the cell begins in the member of the block."""

    grid: Grid
    block: Int64
    start: Int64
    count: Int64


def blocks_of(boxes: Boxes, rows: Int64, axes: Sequence[int | None], sizes: Int64) -> Blocks:
    """Return the ranges filled by members of a box; `sizes` has the shape (n, dims); each fills a `None` axis."""
    low, count = np.zeros_like(sizes), sizes.copy()
    for d, axis in enumerate(axes):
        if axis is not None:
            low[:, d], count[:, d] = boxes.start[rows, axis], boxes.count[rows, axis]
    regular = ~irregular(boxes, rows, [a for a in axes if a is not None])
    found = [Blocks(rows[regular], low[regular], (low + count)[regular], np.zeros_like(low[regular]), sizes[regular])]
    odd = np.flatnonzero(~regular).tolist()
    found += [_irregular(boxes, int(rows[k]), axes, sizes[k], low[k], count[k]) for k in odd]
    made = Blocks(*(np.concatenate([getattr(one, name) for one in found]) for name in Blocks.__slots__))
    kept = (made.high > made.low).all(axis=1)
    return made if kept.all() else Blocks(*(getattr(made, name)[kept] for name in Blocks.__slots__))


def irregular(boxes: Boxes, rows: Int64, axes: Sequence[int]) -> npt.NDArray[np.bool_]:
    """Return which members do not fill a single range completely along some axes."""
    if not boxes.scattered and not boxes.trimmed:
        return np.zeros(rows.size, bool)
    return np.array(
        [any((r, a) in boxes.scattered or (r, a) in boxes.trimmed for a in axes) for r in rows.tolist()], bool
    )


def _irregular(boxes: Boxes, row: int, axes: Sequence[int | None], size: Int64, low: Int64, count: Int64) -> Blocks:
    """Return the ranges of one member that does not fill a single range completely."""
    runs = []
    for d, axis in enumerate(axes):
        n = int(size[d])
        if axis is None:
            runs.append([(0, n, 0)])
            continue
        flip = bool(boxes.flipped[row, axis])
        places = boxes.scattered.get((row, axis))
        if places is None:
            own = range(*boxes.trimmed.get((row, axis), slice(None)).indices(n))
            begin = (n - own.stop) if flip else own.start
            runs.append([(int(low[d]), int(low[d] + count[d]), begin)])
            continue
        there = places[::-1] if flip else places  # of each element in the direction of the array
        breaks = np.flatnonzero((np.diff(there) != 1) | (there[1:] < 0)) + 1
        starts = np.concatenate([[0], breaks]).astype(np.int64)
        ends = np.concatenate([breaks, [there.size]]).astype(np.int64)
        pairs = zip(starts.tolist(), ends.tolist(), strict=True)
        runs.append([(int(there[a]), int(there[a]) + b - a, a) for a, b in pairs if there[a] >= 0])
    table = np.array(list(product(*runs)), np.int64).reshape(-1, len(axes), 3)
    n = len(table)
    return Blocks(np.full(n, row), table[..., 0], table[..., 1], table[..., 2], np.broadcast_to(size, (n, len(axes))))


def matrix_of(blocks: Blocks, shape: Sequence[int], where: str) -> Matrix:
    """Return the matrix of blocks that fill an array of a shape."""
    extent = np.asarray(shape, np.int64)
    if (extent == 0).any():
        grid = Grid([[0] if n == 0 else [0, n] for n in shape])
        none = np.zeros((0, len(shape)), np.int64)
        return Matrix(grid, np.zeros(0, np.int64), none, none)
    edges = [np.unique(np.r_[0, n, blocks.low[:, d], blocks.high[:, d]]) for d, n in enumerate(extent.tolist())]
    matrix = tuple(e.size - 1 for e in edges)
    matrix_size(matrix)
    pairs = [(np.searchsorted(e, blocks.low[:, d]), np.searchsorted(e, blocks.high[:, d])) for d, e in enumerate(edges)]
    first = np.stack([a for a, _ in pairs], axis=1) if pairs else np.zeros((len(blocks.row), 0), np.int64)
    last = np.stack([b for _, b in pairs], axis=1) if pairs else first
    block = np.full(matrix, -1)
    cells = (last - first).prod(axis=1)
    single = np.flatnonzero(cells == 1)
    if single.size and matrix:
        block[tuple(first[single].T)] = single
    elif single.size:
        block[()] = single[0]
    for k in np.flatnonzero(cells > 1).tolist():
        block[tuple(slice(a, b) for a, b in zip(first[k].tolist(), last[k].tolist(), strict=True))] = k
    # If two fill the same cell, the cell is counted for only one of them.
    if block.min(initial=0) < 0 or int(cells.sum()) != block.size:
        raise ConventionError(
            f"{where}: the joined variables do not fill each part of the array exactly once; report this"
        )
    flat = block.reshape(-1)
    index = np.unravel_index(np.arange(flat.size), matrix) if matrix else ()
    begin = np.stack([e[i] for e, i in zip(edges, index, strict=True)], axis=1) if matrix else _bare(flat)
    count = np.stack([np.diff(e)[i] for e, i in zip(edges, index, strict=True)], axis=1) if matrix else _bare(flat)
    return Matrix(Grid(edges, shape), flat, begin - blocks.low[flat] + blocks.start[flat], count)


def _bare(flat: Int64) -> Int64:
    return np.zeros((flat.size, 0), np.int64)
