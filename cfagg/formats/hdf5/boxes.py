"""The chunks that a hyperslab touches, in boxes of neighbours."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

__all__ = ["Axis", "Box", "boxes"]

#: Index of a chunk along one axis, place of its values in the block, and in the chunk.
_Row = tuple[int, slice, slice]


@dataclass(frozen=True)
class Axis:
    """One axis of a hyperslab: chunks of a length, and a slice with a positive step that takes one element or more."""

    chunk: int
    taken: slice

    @property
    def count(self) -> int:
        """Number of chunks that are touched."""
        picked = self._picked
        if picked.step >= self.chunk:
            return len(picked)
        return picked[-1] // self.chunk - picked[0] // self.chunk + 1

    def place(self, ordinal: int) -> int:
        """Return where in the block the values of the n-th touched chunk begin."""
        picked = self._picked
        if picked.step >= self.chunk or ordinal == 0:
            return ordinal
        first = (picked[0] // self.chunk + ordinal) * self.chunk
        return min(-(-(first - picked.start) // picked.step), len(picked))

    def index(self, ordinal: int) -> int:
        """Return which chunk the n-th touched one is."""
        picked = self._picked
        if picked.step >= self.chunk:
            return picked[ordinal] // self.chunk
        return picked[0] // self.chunk + ordinal

    def rows(self, part: range) -> Iterator[_Row]:
        """Yield a part of the touched chunks."""
        picked, chunk = self._picked, self.chunk
        step = picked.step
        at = self.place(part.start)
        for _ in part:
            index, first = divmod(picked[at], chunk)
            end = min(at - (first - chunk) // step, len(picked))
            yield index, slice(at, end), slice(first, first + (end - at - 1) * step + 1, step)
            at = end

    @cached_property
    def _picked(self) -> range:
        return range(self.taken.start, self.taken.stop, self.taken.step)


@dataclass(frozen=True)
class Box:
    """Some neighbouring chunks: of each axis a part of those that are touched."""

    axes: Sequence[Axis]
    parts: tuple[range, ...]

    @property
    def count(self) -> int:
        """Number of chunks."""
        return math.prod(map(len, self.parts))

    @property
    def first(self) -> tuple[int, ...]:
        """Index of the first chunk."""
        return tuple(a.index(p.start) for a, p in zip(self.axes, self.parts, strict=True))

    @property
    def place(self) -> tuple[slice, ...]:
        """Where the values of all stand in the block."""
        return tuple(slice(a.place(p.start), a.place(p.stop)) for a, p in zip(self.axes, self.parts, strict=True))

    @property
    def last(self) -> tuple[int, ...]:
        """Index of the last chunk."""
        return tuple(a.index(p.stop - 1) for a, p in zip(self.axes, self.parts, strict=True))

    def indices(self) -> Iterator[tuple[int, ...]]:
        """Yield the index of each."""
        return itertools.product(*([a.index(n) for n in p] for a, p in zip(self.axes, self.parts, strict=True)))

    def cells(self, counts: Sequence[int]) -> npt.NDArray[np.int64]:
        """Return the number in C order of each, of which there are so many along each axis."""
        flat: npt.NDArray[np.int64] = np.zeros((), np.int64)
        for axis, part, count in zip(self.axes, self.parts, counts, strict=True):
            flat = flat[..., None] * count + np.array([axis.index(n) for n in part])
        return flat.reshape(-1)

    def touches(self) -> Iterator[tuple[tuple[int, ...], tuple[slice, ...], tuple[slice, ...]]]:
        """Yield index, place in the block and place in the chunk of each."""
        rows = [list(a.rows(p)) for a, p in zip(self.axes, self.parts, strict=True)]
        for chosen in itertools.product(*rows):
            index, place, within = zip(*chosen, strict=True)
            yield index, place, within


def boxes(axes: Sequence[Axis], most: int) -> Iterator[Box]:
    """Cut what is touched into boxes of at most so many chunks, in C order."""
    counts = [a.count for a in axes]
    # Axes behind this one are taken whole, those before it one chunk at a time.
    cut = next(d for d in range(len(axes)) if math.prod(counts[d + 1 :]) <= most)
    rows = max(1, most // math.prod(counts[cut + 1 :]))
    behind = tuple(map(range, counts[cut + 1 :]))
    for number in range(math.prod(counts[:cut])):
        ahead: tuple[range, ...] = ()
        for n in reversed(counts[:cut]):
            number, at = divmod(number, n)  # noqa: PLW2901
            ahead = (range(at, at + 1), *ahead)
        for n in range(0, counts[cut], rows):
            yield Box(axes, (*ahead, range(n, min(n + rows, counts[cut])), *behind))
