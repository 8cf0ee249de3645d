"""Single elements of an array: which of them are read together, so that little else is read and no chunk twice.

Elements are given by index arrays along some dimensions, and by slices along the others.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from cfagg.kernels.distinct import distinct
from cfagg.model import Grid, Regular

__all__ = ["Part", "parts"]

Int64 = npt.NDArray[np.int64]

#: Elements of a cell that are read together for some of them; more are only read if they are few for each of these.
_TOGETHER, _EACH = 1 << 18, 4


class Part(NamedTuple):
    """What is read together."""

    points: Int64  # positions in the index arrays
    ranges: tuple[range, ...]  # of the slices, one for each of their dimensions
    target: tuple[slice, ...]  # their place in the output


def parts(
    grid: Grid,
    places: dict[int, Int64],
    slices: dict[int, range],
    chunks: Callable[[tuple[int, ...]], tuple[int, ...] | None],
) -> Iterator[Part]:
    """Yield what is read together, by the cells of a grid.

    `places` contains the index arrays by their dimension, `slices` the others, and `chunks` gives the lengths of the
    chunks in a cell whose elements are read together, or `None` if they are read singly.
    """
    every = np.arange(len(next(iter(places.values()))))
    cells = {d: _cell(grid, d, i) for d, i in places.items()}
    for group in _groups(every, cells):
        yield from _of_cell(grid, places, slices, group, chunks)


def _of_cell(
    grid: Grid,
    places: dict[int, Int64],
    slices: dict[int, range],
    points: Int64,
    chunks: Callable[[tuple[int, ...]], tuple[int, ...] | None],
) -> Iterator[Part]:
    """Yield what is read together of the points of one cell."""
    everything = tuple(slice(0, len(r)) for r in slices.values())
    size = math.prod(map(len, slices.values()))
    if not size or _box(places, points) * size <= _TOGETHER:
        yield Part(points, tuple(slices.values()), everything)
        return
    first = [places[d][points[:1]] if d in places else np.array(slices[d][:1]) for d in range(grid.ndim)]
    lengths = chunks(tuple(int(_cell(grid, d, i)[0]) for d, i in enumerate(first)))
    groups = [points]
    if lengths is not None:
        groups = _groups(points, {d: _cell(grid, d, i[points], max(lengths[d], 1)) for d, i in places.items()})
    for group in groups:
        for target in _cuts(grid, slices, lengths, max(_TOGETHER // _box(places, group), 1)):
            ranges = tuple(r[t] for r, t in zip(slices.values(), target, strict=True))
            several = [group] if lengths is not None else _close(places, group, math.prod(map(len, ranges)))
            for some in several:
                yield Part(some, ranges, target)


def _groups(points: Int64, cells: dict[int, Int64]) -> list[Int64]:
    """Return points in groups of those in the same cell; `cells` is the cell of each along each dimension."""
    if not len(points):
        return []
    order = np.lexsort(tuple(reversed(cells.values())))
    differs = np.zeros(len(points) - 1, bool)
    for cell in cells.values():
        differs |= np.diff(cell[order]) != 0
    return np.split(points[order], np.flatnonzero(differs) + 1)


def _cell(grid: Grid, d: int, index: Int64, chunk: int | None = None) -> Int64:
    """Return the number of the cell of each index along a dimension, or of the chunk in it, which ascends."""
    axis = grid.axes[d]
    if isinstance(axis, Regular):
        cell, longest = index // axis.chunk, axis.chunk
        lower = cell * axis.chunk
    else:
        cell = np.searchsorted(axis, index, "right") - 1
        lower, longest = axis[cell], int(np.diff(axis).max())
    return cell if chunk is None else cell * -(-longest // chunk) + (index - lower) // chunk


def _cuts(
    grid: Grid, slices: dict[int, range], lengths: Sequence[int] | None, most: int
) -> Iterator[tuple[slice, ...]]:
    """Yield parts of slices of at most `most` elements together, or of one cell or chunk along each dimension."""
    if not slices:
        yield ()
        return
    d, *others = slices
    rest = {k: slices[k] for k in others}
    cells = _cell(grid, d, np.asarray(slices[d]), None if lengths is None else max(lengths[d], 1))
    ends = np.append(np.flatnonzero(np.diff(cells)) + 1, len(cells))
    begin, share = 0, most // math.prod(map(len, rest.values()))
    while begin < len(cells):
        k = int(np.searchsorted(ends, begin + share, "right")) - 1
        end = int(ends[k]) if k >= 0 and ends[k] > begin else int(ends[np.searchsorted(ends, begin, "right")])
        for inner in _cuts(grid, rest, lengths, max(most // (end - begin), 1)):
            yield (slice(begin, end), *inner)
        begin = end


def _box(places: dict[int, Int64], points: Int64) -> int:
    """Return the number of all combinations of the indices of points."""
    return math.prod(len(distinct(i[points])) for i in places.values())


def _close(places: dict[int, Int64], points: Int64, size: int) -> Iterator[Int64]:
    """Yield points in groups whose indices along all axes combine to few more elements, each of them of `size`."""
    values = {d: distinct(i[points]) for d, i in places.items()}
    longest = max(values, key=lambda d: len(values[d]))
    count = len(values[longest])
    combined = math.prod(map(len, values.values())) * size
    if count == 1 or combined <= max(_TOGETHER, _EACH * size * len(points)):
        yield points
        return
    below = places[longest][points] < values[longest][count // 2]
    yield from _close(places, points[below], size)
    yield from _close(places, points[~below], size)
