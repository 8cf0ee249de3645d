"""The common interface for reading values of any array: see "The way of one value" in the docs.

A selection is intersected with the cells of the array (`cfagg.arrays.plan`), and each kind of reader yields the work
that fills one output buffer, block by block, in a few threads (`cfagg.arrays.blocks`).
"""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.arrays.blocks import SHARE_BYTES, Work, run
from cfagg.arrays.plan import Plan, plan
from cfagg.arrays.points import Part, parts
from cfagg.errors import LimitError, SelectionError
from cfagg.formats.values.locks import LIBRARY
from cfagg.model import Grid
from cfagg.runtime.budget import processors
from cfagg.runtime.threads import run_threads

__all__ = ["Reader", "Selection", "whole"]

#: One entry per dimension: slice, integer, index array or mask.
Selection = Sequence[slice | int | npt.ArrayLike]


class Reader(ABC):
    """Reads any selection of one array.  It opens no file before it must, and can be pickled.

    Attributes
    ----------
    dims, shape, dtype, attributes
        Description of the array; the type is in native byte order.
    grid : Grid
        The units of storage: partitions of an aggregation, chunks of a Zarr array, else the array as a whole.
    chunks : tuple of int, optional
        Shape of the chunks in which one file stores its values.
    encoding : dict
        Compression of the values, by the names of netCDF4-python.
    fill : scalar, optional
        Value of elements that are not stored, if known.
    workers : int, optional
        Threads that one call may use; by default the processors that this process may use, at most 8, or one if cells
        are small.
    label : str
        File and variable, for messages.
    is_bare : bool
        Whether the array cannot have names and attributes, so that their absence means nothing.
    """

    dims: tuple[str, ...]
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    attributes: Mapping[str, Any]
    grid: Grid
    chunks: tuple[int, ...] | None = None
    encoding: dict[str, Any]
    fill: Any = None
    workers: int | None = None
    label: str
    is_bare: bool = False

    @property
    def cells(self) -> Grid:
        """The grid with which selections are intersected."""
        return self.grid

    @property
    def stored_grid(self) -> Grid:
        """The grid of its partitions or, of a single one, that of the chunks in which it is stored."""
        if self.grid.size > 1 or self.chunks is None or len(self.chunks) != len(self.shape):
            return self.grid
        return Grid.regular(self.shape, [max(min(c, n), 1) for c, n in zip(self.chunks, self.shape, strict=True)])

    def read(self, selection: Selection, out: npt.NDArray[Any] | None = None) -> npt.NDArray[Any]:
        """Return the selected values, without the dimensions selected by integers.

        Parameters
        ----------
        selection : sequence
            One slice, integer, 1-d index array or mask per dimension, each applied independently (outer indexing).
        out : ndarray, optional
            An array or view of their shape and type that is filled and returned.

        Raises
        ------
        SelectionError
            If the selection is outside the array, or `out` has another shape or type.
        LimitError
            If the values do not fit into memory.
        CfaggError
            If data that the selection touches cannot be read or conformed.
        """
        made = plan(self.cells, selection)
        kept = tuple(n for d, n in enumerate(made.shape) if d not in made.dropped)
        if out is None:
            try:
                out = np.empty(kept, self.dtype)
            except (MemoryError, ValueError) as error:
                # A header may claim more than any machine has, or than the file contains.
                raise LimitError(
                    f"{self.label}: a selection of shape {made.shape} of {self.dtype} does not fit into memory; select "
                    "less"
                ) from error
        elif out.shape != kept or out.dtype != self.dtype:
            raise SelectionError(
                f"{self.label}: the selection has shape {kept} and type {self.dtype}, "
                f"the output has {out.shape} and {out.dtype}"
            )
        self.fill_by(made, np.expand_dims(out, made.dropped))
        return out

    def fill_by(self, made: Plan, out: npt.NDArray[Any]) -> None:
        """Fill an array, which has the shape of a plan over `cells`, with the elements in the plan."""
        with LIBRARY.keeping_files():
            run(self._blocks(made, out), out.nbytes, self.workers, self._parts(made))

    def _parts(self, made: Plan) -> int:
        """Return the number of parts in which a plan is read; threads pay off if they are large."""
        return len(made)

    def stored_boxes(self, sparse: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]] | None:  # noqa: ARG002
        """Return the bounds of everything that is stored, one box per row; all other elements have one value.

        `None` if that is unknown, or if more than one in `sparse` cells is stored.
        """
        return None

    @LIBRARY.keeping_files()
    def points(self, selection: Sequence[slice | npt.NDArray[np.int64]]) -> npt.NDArray[Any]:
        """Return elements by index arrays, which are broadcast together, for some dimensions, and slices for others.

        The dimensions of the arrays come first. No chunk is read twice, and of large cells without chunks a few points
        are read at a time.
        """
        lists = {
            d: _forward(one, self.shape[d], f"{self.label}: dimension {d}")
            for d, one in enumerate(selection)
            if not isinstance(one, slice)
        }
        axes, broadcast = list(lists), np.broadcast_arrays(*lists.values())
        places = {d: i.reshape(-1) for d, i in zip(axes, broadcast, strict=True)}
        slices = {d: range(self.shape[d])[one] for d, one in enumerate(selection) if isinstance(one, slice)}
        out = np.empty((broadcast[0].size, *map(len, slices.values())), self.dtype)

        def fill(part: Part) -> None:
            wanted, where = list(selection), []
            for d, r in zip(slices, part.ranges, strict=True):
                wanted[d] = slice(r.start, r.stop if r.stop >= 0 else None, r.step) if r else slice(0, 0)
            for d, i in places.items():
                wanted[d], inverse = np.unique(i[part.points], return_inverse=True)
                where.append(inverse)
            found = np.moveaxis(self.read(wanted), axes, range(len(axes)))
            key: tuple[Any, ...] = (part.points, *part.target)
            out[key] = found[tuple(where)]

        every = parts(self.stored_grid, places, slices, self.chunks_at)
        few = list(itertools.islice(every, self.at_once(self.stored_grid)))
        every = itertools.chain(few, every)
        for _ in run_threads(fill, every, len(few), "points") if len(few) > 1 else map(fill, every):
            pass
        return out.reshape(*broadcast[0].shape, *map(len, slices.values()))

    def chunks_at(self, index: tuple[int, ...]) -> tuple[int, ...] | None:  # noqa: ARG002
        """Return the lengths of the chunks in a cell of `stored_grid` whose elements are read together."""
        fits = self.chunks is not None and len(self.chunks) == len(self.shape)
        return self.chunks if fits else None

    def at_once(self, grid: Grid) -> int:
        """Return how many cells of a grid are read at the same time where they are read one by one."""
        if self.workers is not None:
            return max(int(self.workers), 1)
        size = math.prod(self.shape) * self.dtype.itemsize
        return min(processors(), 8) if size >= SHARE_BYTES * grid.size else 1

    @abstractmethod
    def _blocks(self, made: Plan, out: npt.NDArray[Any]) -> Iterator[Work]:
        """Yield the work that fills `out`."""


def whole(shape: Sequence[int]) -> Grid:
    """Return the grid of one cell, or of none if the array is empty."""
    return Grid.regular(shape, [max(n, 1) for n in shape])


def _forward(given: Any, size: int, what: str) -> npt.NDArray[np.int64]:
    """Return indices counted from the start."""
    index = np.asarray(given)
    if index.size and not -size <= int(index.min()) <= int(index.max()) < size:
        raise SelectionError(f"{what}: an index is outside size {size}")
    return np.where(index < 0, index + size, index)
