"""Cells of an array: edges along each dimension.

*edge*: an index at which a cell of a grid begins or ends along a dimension. The edges of a dimension start at 0 and are
strictly increasing.

*extent*: the range of indices that a cell spans along a dimension, from one edge to the next.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.errors import LimitError, ModelError, Problem
from cfagg.model.hook import html_of

__all__ = ["Grid", "Regular", "touched"]

#: Maximum number of edges of one dimension that are expanded, which takes 1 GiB; more come only from corrupt metadata.
_MOST_EDGES = 2**27

Int64 = npt.NDArray[np.int64]
Slices = tuple[slice, ...]


@dataclass(frozen=True, slots=True)
class Regular:
    """Edges of equal chunks along one dimension, described in O(1).

    Parameters
    ----------
    length : int
        Size of the dimension.  The last chunk may overhang it.
    chunk : int
        Size of every chunk, at least 1.
    """

    length: int
    chunk: int

    def __post_init__(self) -> None:
        if self.chunk < 1 or self.length < 0:
            raise ModelError(f"a regular grid needs length >= 0 and chunk >= 1; found {self.length} and {self.chunk}")

    @property
    def count(self) -> int:
        """Number of chunks."""
        return -(-self.length // self.chunk)

    def expand(self) -> Int64:
        """Return the edges as an array, shape (count + 1,); the last one may be beyond `length`."""
        if self.count > _MOST_EDGES:
            raise LimitError(f"a dimension of {self.count:,} chunks has too many edges to list; {_MOST_EDGES:,} can be")
        return np.arange(0, self.count * self.chunk + 1, self.chunk, dtype=np.int64)


class Grid:
    """A hyperrectangular grid of cells over an array: partitions or chunks.

    Parameters
    ----------
    axes : sequence of Regular or array_like of int
        Per dimension either `Regular` or the edges themselves, strictly increasing from 0.
    shape : sequence of int, optional
        Shape of the array; ``shape[d] <= edges[d][-1]``.  By default the last edges.

    Examples
    --------
    >>> grid = Grid([[0, 12, 48], [0, 64]])
    >>> grid.shape, grid.matrix_shape
    ((48, 64), (2, 1))
    >>> Grid.regular((10,), (4,)).edges
    (array([ 0,  4,  8, 12]),)
    """

    __slots__ = ("__dict__", "axes", "shape")

    axes: tuple[Regular | Int64, ...]
    shape: tuple[int, ...]

    def __init__(self, axes: Iterable[Regular | npt.ArrayLike], shape: Sequence[int] | None = None) -> None:
        checked: list[Regular | Int64] = []
        problems = []
        for d, axis in enumerate(axes):
            if isinstance(axis, Regular):
                checked.append(axis)
                continue
            edges = np.array(axis, dtype=np.int64)
            edges.flags.writeable = False
            checked.append(edges)
            if edges.ndim != 1 or edges.size < 1 or edges[0] != 0:
                problems.append(Problem(f"edges[{d}]", "edges are a list of integers that starts at 0"))
            elif (bad := np.flatnonzero(edges[1:] <= edges[:-1])).size:  # a difference could wrap around
                i = int(bad[0])
                problems.append(Problem(f"edges[{d}]", f"edges increase strictly; found {edges[i]}, {edges[i + 1]}"))
        extent = [a.length if isinstance(a, Regular) else int(a[-1]) for a in checked] if not problems else []
        size = tuple(int(n) for n in shape) if shape is not None else tuple(extent)
        if not problems:
            if len(size) != len(checked):
                problems.append(Problem("shape", f"{len(size)} sizes for {len(checked)} dimensions"))
            for d, (n, a) in enumerate(zip(size, checked, strict=False)):
                last = a.count * a.chunk if isinstance(a, Regular) else int(a[-1])
                before = last - a.chunk if isinstance(a, Regular) else int(a[-2]) if len(a) > 1 else -1
                if not (before < n <= last or n == last == 0):
                    problems.append(
                        Problem(f"shape[{d}]", f"size {n} does not end in the last cell of edges up to {last}")
                    )
        if problems:
            raise ModelError("not a grid", problems)
        object.__setattr__(self, "axes", tuple(checked))
        object.__setattr__(self, "shape", size)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("a Grid is immutable")

    @classmethod
    def regular(cls, shape: Sequence[int], chunks: Sequence[int]) -> Grid:
        """Return the grid of equal chunks over an array of this shape."""
        return cls([Regular(int(n), int(c)) for n, c in zip(shape, chunks, strict=True)], shape)

    @classmethod
    def from_sizes(cls, sizes: Iterable[Iterable[int]]) -> Grid:
        """Return the grid whose cells have these sizes along each dimension (dask's ``chunks``).

        >>> Grid.from_sizes([(12, 36), (64,)]).edges
        (array([ 0, 12, 48]), array([ 0, 64]))
        """
        return cls([np.concatenate([[0], np.cumsum(np.fromiter(s, np.int64))]) for s in sizes])

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.axes)

    @cached_property
    def matrix_shape(self) -> tuple[int, ...]:
        """Number of cells along each dimension."""
        return tuple(a.count if isinstance(a, Regular) else len(a) - 1 for a in self.axes)

    @property
    def size(self) -> int:
        """Number of cells; 1 for a scalar."""
        n = 1
        for m in self.matrix_shape:
            n *= m
        return n

    @cached_property
    def edges(self) -> tuple[Int64, ...]:
        """Edges of every dimension as arrays, regular ones expanded."""
        return tuple(a.expand() if isinstance(a, Regular) else a for a in self.axes)

    @property
    def sizes(self) -> tuple[tuple[int, ...], ...]:
        """Valid sizes of the cells along each dimension, as dask writes ``chunks``."""
        return tuple(
            tuple(int(n) for n in np.diff(np.minimum(e, length)))
            for e, length in zip(self.edges, self.shape, strict=True)
        )

    def index(self, number: int) -> tuple[int, ...]:
        """Return the index of a cell by its number in C order."""
        return tuple(int(i) for i in np.unravel_index(number, self.matrix_shape)) if self.axes else ()

    def whole(self, index: Sequence[int]) -> tuple[int, ...]:
        """Return the full shape of a cell, even beyond the end of the array; chunks are stored in this shape."""
        return tuple(
            axis.chunk if isinstance(axis, Regular) else int(axis[i + 1] - axis[i])
            for axis, i in zip(self.axes, index, strict=True)
        )

    def extent(self, index: Sequence[int]) -> tuple[tuple[int, int], ...]:
        """Return the half-open ranges (start, stop) of the array that one cell spans."""
        out = []
        for axis, i, length in zip(self.axes, index, self.shape, strict=True):
            a, b = (
                (i * axis.chunk, (i + 1) * axis.chunk)
                if isinstance(axis, Regular)
                else (int(axis[i]), int(axis[i + 1]))
            )
            out.append((a, min(b, length)))
        return tuple(out)

    def touched(self, slices: Sequence[slice]) -> Iterator[tuple[tuple[int, ...], Slices, Slices]]:
        """Yield the cells that a hyperslab intersects: index, place in the hyperslab, and part of the cell.

        Every slice has 0 <= start <= stop <= size and a positive step.

        >>> list(Grid.regular((10,), (4,)).touched([slice(1, 9, 3)]))
        [((0,), (slice(0, 1, None),), (slice(1, 2, 3),)), ((1,), (slice(1, 3, None),), (slice(0, 4, 3),))]
        """
        rows = (list(touched(a, range(s.start, s.stop, s.step))) for a, s in zip(self.axes, slices, strict=True))
        for chosen in itertools.product(*rows):
            index, place, within = zip(*chosen, strict=True) if chosen else ((), (), ())
            yield index, place, within

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Grid):
            return NotImplemented
        return self.shape == other.shape and all(map(_same_edges, self.axes, other.axes))

    def __hash__(self) -> int:
        return hash((self.shape, self.matrix_shape))

    def __repr__(self) -> str:
        return f"<Grid {' x '.join(map(str, self.matrix_shape)) or 'scalar'} over {self.shape}>"

    def _repr_html_(self) -> str | None:
        return html_of(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return (Grid, (self.axes, self.shape))


def _same_edges(a: Regular | Int64, b: Regular | Int64) -> bool:
    """Return whether two dimensions have the same edges, without expanding equal chunks."""
    if isinstance(a, Regular) and isinstance(b, Regular):
        return a.count == b.count and (a.chunk == b.chunk or not a.count)
    one, other = (axis.expand() if isinstance(axis, Regular) else axis for axis in (a, b))
    return np.array_equal(one, other)


def touched(axis: Regular | Int64, picked: range) -> Iterator[tuple[int, slice, slice]]:
    """Yield the cells along one dimension from which indices are picked."""
    at = 0
    while at < len(picked):
        first = picked[at]
        if isinstance(axis, Regular):
            cell = first // axis.chunk
            low, high = cell * axis.chunk, (cell + 1) * axis.chunk
        else:
            cell = int(np.searchsorted(axis, first, "right")) - 1
            low, high = int(axis[cell]), int(axis[cell + 1])
        end = min(at - (first - high) // picked.step, len(picked))
        yield cell, slice(at, end), slice(first - low, picked[end - 1] - low + 1, picked.step)
        at = end
