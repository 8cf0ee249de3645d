"""The chunk grid of an array that refers to chunks in many files, with equal or varying chunk lengths."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from cfagg.model import Grid
from cfagg.writing.exports.tiles import Tiles

__all__ = ["Block", "Cut", "cut_of", "unequal_cut"]

Int64 = npt.NDArray[np.int64]

#: Maximum size in bytes of one chunk of contiguous values, if they can be divided.
_MOST = 1 << 26


class Block(NamedTuple):
    """The block of a fragment that fills a partition."""

    tiles: Tiles
    start: tuple[int, ...]  # first element along each axis of the fragment
    axes: tuple[int, ...]  # the fragment's axis for each dimension, -1 if it has none

    def chunk(self) -> tuple[int, ...] | None:
        """Return the chunk shape by dimensions of the array, or `None` if there are no chunks."""
        found = self.tiles.chunk
        return None if found is None else tuple(found[k] if k >= 0 else 1 for k in self.axes)

    def of_file(self, lengths: Sequence[int]) -> list[int]:
        """Return lengths by the axes of the file, 1 for axes that the array lacks."""
        found = [1] * len(self.tiles.shape)
        for k, n in zip(self.axes, lengths, strict=True):
            if k >= 0:
                found[k] = n
        return found


@dataclass(frozen=True)
class Cut:
    """Chunk lengths along each dimension for each partition along it; if `equal`, one length for all."""

    edges: tuple[Int64, ...]  # of partitions
    lengths: tuple[tuple[int, ...], ...]
    equal: bool

    def grid(self) -> Grid:
        """Return the grid of chunks."""
        shape = [int(e[-1]) for e in self.edges]
        if self.equal:
            return Grid.regular(shape, [c[0] for c in self.lengths])
        axes = []
        for edges, lengths in zip(self.edges, self.lengths, strict=True):
            ends = [np.zeros(1, np.int64)]
            for a, b, c in zip(edges[:-1].tolist(), edges[1:].tolist(), lengths, strict=True):
                ends += [np.arange(a + c, b, c), np.array([b])]
            axes.append(np.concatenate(ends))
        return Grid(axes, shape)

    def cells(self, index: Sequence[int]) -> list[range]:
        """Return the chunks that a partition overlaps along each dimension."""
        if not self.equal:
            return [range(int(first[p]), int(first[p + 1])) for first, p in zip(self._firsts, index, strict=True)]
        return [
            range(int(e[p]) // c[0], -(-int(e[p + 1]) // c[0]))
            for e, c, p in zip(self.edges, self.lengths, index, strict=True)
        ]

    @cached_property
    def _firsts(self) -> tuple[Int64, ...]:
        """The number of the first chunk of each partition along each dimension, followed by the total."""
        counts = [-(-np.diff(e) // np.array(c)) for e, c in zip(self.edges, self.lengths, strict=True)]
        return tuple(np.concatenate([[0], np.cumsum(n)]) for n in counts)

    def misfit(self, index: Sequence[int], block: Block) -> tuple[str, str, str] | None:
        """Return the property of a partition that does not fit the chunks, its value and why; `None` if it fits."""
        own = block.chunk()
        chunk = tuple(c[0] if self.equal else c[p] for c, p in zip(self.lengths, index, strict=True))
        for d, (edges, p) in enumerate(zip(self.edges, index, strict=True)):
            a, b, c = int(edges[p]), int(edges[p + 1]), chunk[d]
            if own is not None and own[d] != c:
                return "shape of chunks", str(list(own)), f"others have {list(chunk)}, and chunks have one shape"
            if self.equal and a % c:
                return "edges", f"{a} along dimension {d}", f"it is not on the edge of a chunk of {c}"
            if (b - a) % c and (own is None or not self.equal or b != int(edges[-1])):
                why = "a chunk that is stored whole ends where the array or the next partition does not"
                return "a partial last chunk", f"{b - a} along dimension {d} in chunks of {c}", why
            if own is not None and block.axes[d] >= 0 and block.start[block.axes[d]] % c:
                return "part", f"from {block.start[block.axes[d]]} along dimension {d}", "it cuts through a chunk"
        if own is None and not block.tiles.in_one_row(block.of_file(chunk)):
            return "order of bytes", f"chunks of {list(chunk)}", "their values do not follow each other in the file"
        if own is not None and any(n != 1 for k, n in enumerate(block.tiles.chunk or ()) if k not in block.axes):
            return "shape of chunks", str(list(block.tiles.chunk or ())), "it has a dimension that the array lacks"
        return None


def cut_of(edges: tuple[Int64, ...], blocks: Sequence[Block]) -> Cut:
    """Return the chunk shape of most partitions, or one for contiguous data if no partition is chunked."""
    seen = Counter(chunk for block in blocks if (chunk := block.chunk()) is not None)
    if seen:
        return Cut(edges, tuple((c,) for c in seen.most_common(1)[0][0]), True)
    lengths = [math.gcd(*np.diff(e).tolist()) or 1 for e in edges]
    kinds = {(b.tiles.shape, b.tiles.strides, b.axes): b for b in blocks}
    return Cut(edges, tuple((c,) for c in _in_rows(lengths, list(kinds.values()))), True)


def unequal_cut(edges: tuple[Int64, ...], indices: Sequence[Sequence[int]], blocks: Sequence[Block]) -> Cut:
    """Return chunk lengths that may differ from partition to partition along each dimension."""
    chunks = [block.chunk() for block in blocks]
    found = []
    for d, e in enumerate(edges):
        sizes = np.diff(e).tolist()
        seen: list[Counter[int]] = [Counter() for _ in sizes]
        rows: dict[int, tuple[Sequence[int], Block]] = {}
        for index, chunk, block in zip(indices, chunks, blocks, strict=True):
            if chunk is not None:
                seen[index[d]][chunk[d]] += 1
            elif index[d] not in rows:
                rows[index[d]] = index, block
        lengths = []
        for p, counter in enumerate(seen):
            if counter:
                lengths.append(counter.most_common(1)[0][0])
                continue
            if p not in rows:
                lengths.append(sizes[p])
                continue
            at, block = rows[p]
            whole = [int(other[i + 1] - other[i]) for other, i in zip(edges, at, strict=True)]
            lengths.append(_in_rows(whole, [block])[d])
        found.append(tuple(lengths))
    return Cut(edges, tuple(found), False)


def _in_rows(lengths: Sequence[int], blocks: Sequence[Block]) -> list[int]:
    """Return divisors of the given lengths that make the values of each chunk contiguous and few enough."""
    found = list(lengths)
    while True:
        fits = all(b.tiles.in_one_row(b.of_file(found)) for b in blocks)
        size = max((b.tiles.dtype.itemsize for b in blocks), default=1) * math.prod(found)
        d = next((k for k, n in enumerate(found) if n > 1), None)
        if (fits and size <= _MOST) or d is None:
            return found
        found[d] = 1 if not fits else found[d] // _divisor(found[d])


def _divisor(number: int) -> int:
    """Return the smallest divisor of a number above 1."""
    return next((k for k in itertools.chain([2], range(3, math.isqrt(number) + 1, 2)) if number % k == 0), number)
