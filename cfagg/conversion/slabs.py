"""Dividing an array into slabs: boxes of whole target chunks that are read, encoded and written in one go.

A slab ends where an edge of the target's chunks coincides with an edge of the source's cells, so that no source cell is
decoded twice. If such a slab would not fit in memory, it is divided further, along the axis that repeats the least.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, product

import numpy as np
import numpy.typing as npt

from cfagg.model import Grid

__all__ = ["Slabs", "choose_slabs", "reads_of"]

Int64 = npt.NDArray[np.int64]

#: Smaller slabs are joined up to this size in bytes, to spread their overhead.
_WORTHWHILE = 4 << 20


@dataclass(frozen=True, eq=False)
class Slabs:
    """Slabs of a chunk grid, numbered in C order."""

    grid: Grid
    cuts: tuple[Int64, ...]  # per dimension, the number of the first chunk of each slab, and the number of chunks

    @property
    def counts(self) -> tuple[int, ...]:
        """Number of slabs along each dimension."""
        return tuple(len(c) - 1 for c in self.cuts)

    def __len__(self) -> int:
        n = 1
        for m in self.counts:
            n *= m
        return n

    def holding(self, wanted: npt.NDArray[np.bool_]) -> Int64:
        """Return the numbers of the slabs that contain a wanted chunk; `wanted` is by chunk number in C order."""
        found = wanted.reshape(self.grid.matrix_shape)
        for d, c in enumerate(self.cuts):
            found = np.logical_or.reduceat(found, c[:-1], axis=d)
        return np.flatnonzero(found)

    def chunks(self, k: int) -> tuple[range, ...]:
        """Return the chunk numbers of slab `k` along each dimension."""
        index = np.unravel_index(k, self.counts) if self.cuts else ()
        return tuple(range(int(c[i]), int(c[i + 1])) for c, i in zip(self.cuts, index, strict=True))

    def extent(self, k: int) -> tuple[slice, ...]:
        """Return the box of the array that slab `k` spans."""
        return self.spanned(self.chunks(k))

    def spanned(self, chunks: Sequence[range]) -> tuple[slice, ...]:
        """Return the box of the array that some chunks span."""
        return tuple(
            slice(int(e[r.start]), min(int(e[r.stop]), n))
            for e, r, n in zip(self.grid.edges, chunks, self.grid.shape, strict=True)
        )

    def walk(self, chunks: Sequence[range]) -> Iterator[tuple[tuple[int, ...], tuple[slice, ...]]]:
        """Yield index and box of each of some chunks, the box relative to all of them and clipped to the array."""
        boxes = []
        for e, r, n, whole in zip(self.grid.edges, chunks, self.grid.shape, self.spanned(chunks), strict=True):
            ends = np.minimum(e[r.start : r.stop + 1], n) - whole.start
            boxes.append(list(map(slice, ends[:-1].tolist(), ends[1:].tolist())))
        return zip(product(*chunks), product(*boxes), strict=True)

    @property
    def largest(self) -> int:
        """Number of elements of the largest slab, or of a whole chunk if that reaches further beyond the array."""
        one = math.prod(int(np.diff(e).max(initial=0)) for e in self.grid.edges)
        return max(_largest(_within(self.grid), self.cuts), one)


def choose_slabs(grid: Grid, source: Sequence[npt.ArrayLike], itemsize: int, budget: int) -> Slabs:
    """Return slabs of at most `budget` bytes, or of one chunk if that is larger; `source` are the edges of its cells.

    >>> grid = Grid.regular((12, 10), (4, 10))
    >>> slabs = choose_slabs(grid, [[0, 6, 12], [0, 10]], 10**6, 10**9)
    >>> slabs.cuts[0]  # chunks end at 4, 8, 12 and partitions at 6, 12: they meet at 12 only
    array([0, 3])
    >>> choose_slabs(grid, [[0, 6, 12], [0, 10]], 10**6, 5 * 10**7).cuts[0]
    array([0, 1, 2, 3])
    """
    edges = _within(grid)
    cells = [np.asarray(s, dtype=np.int64) for s in source]
    together = [_meeting(e, c) for e, c in zip(grid.edges, cells, strict=True)]
    most = [int(np.diff(t).max(initial=1)) for t in together]
    cuts = list(together)
    while _largest(edges, cuts) * itemsize > budget and any(m > 1 for m in most):
        trials = []
        for d, m in enumerate(most):
            if m > 1:
                trial = _split(together[d], (m + 1) // 2)
                repeats = _repeats(edges[d][trial], cells[d]) / _repeats(edges[d][cuts[d]], cells[d])
                trials.append((repeats, d, trial))
        _, d, trial = min(trials, key=lambda t: t[:2])
        cuts[d] = trial
        most[d] = (most[d] + 1) // 2
    worthwhile = min(_WORTHWHILE, budget)
    for d in reversed(range(len(cuts))):
        group = worthwhile // max(1, _largest(edges, cuts) * itemsize)
        if group > 1 and len(cuts[d]) > 2:
            joined = cuts[d][:-1:group]
            cuts[d] = np.append(joined, cuts[d][-1])
    return Slabs(grid, tuple(cuts))


def _within(grid: Grid) -> tuple[Int64, ...]:
    """Return the edges of chunks, clipped to the array."""
    return tuple(np.minimum(e, n) for e, n in zip(grid.edges, grid.shape, strict=True))


def _meeting(edges: Int64, cells: Int64) -> Int64:
    """Return the chunk numbers at whose lower edges a source cell also begins, and the number of chunks."""
    # Both are ascending, and there may be very many cells.
    found = np.searchsorted(cells, edges[1:-1])
    inner = np.flatnonzero(cells[np.minimum(found, len(cells) - 1)] == edges[1:-1]) + 1 if len(cells) else found[:0]
    return np.concatenate([[0], inner, [len(edges) - 1]]) if len(edges) > 1 else np.zeros(1, np.int64)


def _split(cuts: Int64, most: int) -> Int64:
    """Return `cuts` with slabs of at most `most` chunks."""
    parts = [np.arange(a, b, most) for a, b in pairwise(cuts.tolist())]
    return np.concatenate([*parts, cuts[-1:]])


def _repeats(slabs: Int64, cells: Int64) -> float:
    """Return how often a source cell is read on average, by slabs with these edges."""
    if len(cells) < 2:
        return 1.0
    # Cells are read once, and once more for each edge of a slab within them.
    inner = slabs[(slabs > cells[0]) & (slabs < cells[-1])]
    found = np.searchsorted(cells, inner)
    return 1.0 + float(np.count_nonzero(cells[found] != inner)) / (len(cells) - 1)


def reads_of(slabs: Slabs, source: Sequence[npt.ArrayLike]) -> float:
    """Return how often an element is read on average, if source cells with these edges are always read as a whole.

    >>> grid = Grid.regular((8, 8), (8, 1))
    >>> reads_of(choose_slabs(grid, [range(9), [0, 8]], 1, 16), [range(9), [0, 8]])  # rows, in slabs of two columns
    4.0
    """
    times = 1.0
    for edges, cuts, cells in zip(slabs.grid.edges, slabs.cuts, source, strict=True):
        times *= _repeats(edges[cuts], np.asarray(cells, dtype=np.int64))
    return times


def _largest(edges: Sequence[Int64], cuts: Sequence[Int64]) -> int:
    """Return the number of elements of the largest slab."""
    n = 1
    for e, c in zip(edges, cuts, strict=True):
        n *= int(np.diff(e[c]).max(initial=0))
    return n
