"""The positions that a term takes along an axis of a stored array, the chunks that they touch, and their cost."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from cfagg.accumulation.integrity import takes_parts
from cfagg.accumulation.ranges import Fold
from cfagg.formats.codecs import unblosc
from cfagg.formats.zarr import ZarrArray
from cfagg.model import Regular

__all__ = ["Extent", "Local", "Part", "Pick", "chunk_of", "extent", "locate", "reading_cost"]

#: Nanoseconds of a chunk beyond its bytes, and of a read beyond its bytes.
_CHUNK, _READ = 60_000.0, 2_000.0

#: Nanoseconds for a byte that is stored uncompressed, by Blosc, and by other compression.
_PLAIN, _BLOSC, _DECODED = 0.15, 0.35, 1.5


def reading_cost(array: ZarrArray, extents: Sequence[Extent]) -> float:
    """Return the estimated nanoseconds of reading what is needed along each axis of an array."""
    chunks, size = math.prod(e.chunks for e in extents), float(array.dtype.itemsize)
    if not takes_parts(array):
        return chunks * _CHUNK + size * math.prod(e.decoded for e in extents) * _rate(array)
    # A read runs along one dimension: those before it are looped over, those after it are read whole, as in `read_box`.
    best, looped = math.inf, 1.0
    for d, e in enumerate(extents):
        reads = looped * math.prod(later.chunks for later in extents[d:])
        looped *= e.boxed
        read = size * looped * math.prod(later.decoded for later in extents[d + 1 :])
        best = min(best, reads * _READ + read * _PLAIN)
    return chunks * _CHUNK + (best if extents else size * _PLAIN)


def _rate(array: ZarrArray) -> float:
    """Return the nanoseconds of a byte of a decoded chunk."""
    steps = None if array.decoder is None else array.decoder.steps
    if steps is None:
        return _DECODED
    return _PLAIN + sum(_BLOSC if step.undo is unblosc else _DECODED for step in steps)


Int64 = npt.NDArray[np.int64]
Place = slice | Int64
Edges = Regular | Int64

_WHOLE = slice(None)


@dataclass(frozen=True, eq=False)
class Pick:
    """Non-negative positions along an axis that the result keeps, in any order and with repeats."""

    positions: Int64

    @cached_property
    def ascending(self) -> bool:
        """Whether the positions increase strictly."""
        return bool((self.positions[1:] > self.positions[:-1]).all())

    @cached_property
    def spans(self) -> tuple[Int64, Int64]:
        """The positions as ascending, disjoint ranges."""
        at = self.positions if self.ascending else np.unique(self.positions)
        breaks = np.flatnonzero(at[1:] != at[:-1] + 1)
        first = np.concatenate([at[:1], at[breaks + 1]])
        last = np.concatenate([at[breaks], at[-1:]])
        return first, last + 1

    def __len__(self) -> int:
        return len(self.positions)


Part = Pick | Fold


@dataclass(frozen=True, slots=True)
class Extent:
    """How much of one axis of a stored array a part touches."""

    chunks: int
    #: Total length of these chunks.
    decoded: int
    #: Total length of the shortest ranges within these chunks that hold what is taken.
    boxed: int
    cells: int


def _spans(part: Part) -> tuple[Int64, Int64]:
    return part.spans if isinstance(part, Pick) else (part.start, part.stop)


def chunk_of(edges: Edges, at: Int64) -> Int64:
    """Return the chunks in which positions along an axis lie."""
    if isinstance(edges, Regular):
        return at // edges.chunk
    return np.searchsorted(edges, at, side="right") - 1


def _edge(edges: Edges, chunk: Int64, length: int) -> Int64:
    """Return where chunks begin, cut at the array's end."""
    at = chunk * edges.chunk if isinstance(edges, Regular) else edges[chunk]
    return np.minimum(at, length)


def extent(part: Part, edges: Edges, length: int) -> Extent:
    """Return how much of an axis with these chunks and this length a part touches."""
    start, stop = _spans(part)
    if not len(start):
        return Extent(0, 0, 0, 0)
    if len(start) == 1:
        return _extent_of_range(int(start[0]), int(stop[0]), edges, length)
    first, last = chunk_of(edges, start), chunk_of(edges, stop - 1)
    same = first[1:] == last[:-1]  # in one chunk with the range before
    shared = first[1:][same]
    decoded = (_edge(edges, last + 1, length) - _edge(edges, first, length)).sum() - (
        _edge(edges, shared + 1, length) - _edge(edges, shared, length)
    ).sum()
    cells = int((stop - start).sum())
    return Extent(
        int((last - first + 1).sum()) - int(same.sum()),
        int(decoded),
        cells + int((start[1:] - stop[:-1])[same].sum()),
        cells,
    )


def _extent_of_range(start: int, stop: int, edges: Edges, length: int) -> Extent:
    """Return `extent` of a single range."""
    if isinstance(edges, Regular):
        first, last = start // edges.chunk, (stop - 1) // edges.chunk
        low, high = first * edges.chunk, (last + 1) * edges.chunk
    else:
        first, last = (int(k) - 1 for k in np.searchsorted(edges, [start, stop - 1], side="right"))
        low, high = int(edges[first]), int(edges[last + 1])
    return Extent(last - first + 1, min(high, length) - low, stop - start, stop - start)


@dataclass(frozen=True, slots=True, eq=False)
class Local:
    """What a part takes of one chunk along one axis: the range ``low..high`` of it."""

    chunk: int
    low: int
    high: int
    #: Positions in the result, whose length of this chunk along the axis is `width`.
    target: Place
    width: int
    #: For a pick: which of ``low..high - 1``, counted from `low`, in the order of `target`.
    take: Place | None
    #: For a fold: segments, counted from `low`, and (segment, index into `target`, coefficient) of each entry.
    starts: Sequence[int] = ()
    stops: Sequence[int] = ()
    entries: Sequence[tuple[int, int, int]] = ()


def locate(part: Part, edges: Edges, length: int) -> list[Local]:
    """Return what a part takes of each chunk that it touches, ascending."""
    start, stop = _spans(part)
    if not len(start):
        return []
    first, last = chunk_of(edges, start), chunk_of(edges, stop - 1)
    chunks = (
        np.arange(first[0], last[0] + 1)
        if len(start) == 1
        else np.unique(np.concatenate([np.arange(a, b + 1) for a, b in zip(first, last, strict=True)]))
    )
    begin, end = _edge(edges, chunks, length).tolist(), _edge(edges, chunks + 1, length).tolist()
    each = _pick_locals if isinstance(part, Pick) else _fold_locals
    return each(part, chunks.tolist(), begin, end)  # type: ignore[arg-type]


def _pick_locals(part: Pick, chunks: list[int], begin: list[int], end: list[int]) -> list[Local]:
    order = None if part.ascending else np.argsort(part.positions, kind="stable")
    at = part.positions if order is None else part.positions[order]
    cuts = np.searchsorted(at, begin).tolist(), np.searchsorted(at, end).tolist()
    out = []
    for chunk, origin, i, j in zip(chunks, begin, *cuts, strict=True):
        low, high = int(at[i]), int(at[j - 1]) + 1
        dense = order is None and high - low == j - i
        out.append(
            Local(
                chunk,
                low - origin,
                high - origin,
                slice(i, j) if order is None else order[i:j],
                j - i,
                _WHOLE if dense else at[i:j] - low,
            )
        )
    return out


def _fold_locals(part: Fold, chunks: list[int], begin: list[int], end: list[int]) -> list[Local]:
    firsts = np.searchsorted(part.stop, begin, side="right")
    lasts = np.searchsorted(part.start, end)
    entry = np.searchsorted(part.segment, firsts).tolist(), np.searchsorted(part.segment, lasts).tolist()
    out = []
    for chunk, a, b, i, j, p, q in zip(chunks, begin, end, firsts.tolist(), lasts.tolist(), *entry, strict=True):
        low, high = max(int(part.start[i]), a), min(int(part.stop[j - 1]), b)
        starts = (np.maximum(part.start[i:j], low) - low).tolist()
        stops = (np.minimum(part.stop[i:j], high) - low).tolist()
        group = part.group[p:q]
        if q - p == 1:
            target: Place = slice(int(group[0]), int(group[0]) + 1)
            width, local = 1, [0]
        else:
            used, inverse = np.unique(group, return_inverse=True)
            width, local = len(used), inverse.tolist()
            dense = int(used[-1]) - int(used[0]) + 1 == width
            target = slice(int(used[0]), int(used[-1]) + 1) if dense else used
        entries = list(zip((part.segment[p:q] - i).tolist(), local, part.coefficient[p:q].tolist(), strict=True))
        out.append(Local(chunk, low - a, high - a, target, width, None, starts, stops, entries))
    return out
