"""Which chunks are read, and their partial sums on disk until these are summed over the chunks.

One file for each kind of partial sum and combination of dimensions; those of a chunk stand at a place that follows from
its number.  Writing is one call of the system, so a full disk is an error and not a signal, and the partial sums of
neighbouring chunks are read together.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.formats.zarr import ZarrArray

__all__ = ["Field", "Scratch", "Window"]

Int64 = npt.NDArray[np.int64]
Axes = tuple[int, ...]


@dataclass(frozen=True)
class Window:
    """A box of chunks: everything, or what lies from chunk `first` of `axis` on."""

    # Chunks are numbered in C order within the window.  Positions along a dimension are those of the window: chunk
    # numbers where a combination of dimensions accumulates it, elements else, both from 0 at the window's start.

    array: ZarrArray
    axis: int | None = None
    first: int = 0

    @cached_property
    def edges(self) -> tuple[Int64, ...]:
        """Edges of the window's chunks in elements of the array, the last cut at the array's end."""
        cut = [np.minimum(e, n) for e, n in zip(self.array.grid.edges, self.array.shape, strict=True)]
        if self.axis is not None:
            cut[self.axis] = cut[self.axis][self.first :]
        return tuple(cut)

    @property
    def matrix_shape(self) -> tuple[int, ...]:
        """Number of chunks along each dimension."""
        return tuple(len(e) - 1 for e in self.edges)

    @property
    def size(self) -> int:
        """Number of chunks."""
        return int(np.prod(self.matrix_shape, dtype=np.int64))

    @property
    def elements(self) -> int:
        """Number of elements in them."""
        n = 1
        for e in self.edges:
            n *= int(e[-1] - e[0])
        return n

    @cached_property
    def lengths(self) -> tuple[Int64, ...]:
        """Lengths of the chunks along each dimension."""
        return tuple(np.diff(e) for e in self.edges)

    def start(self, axis: int) -> int:
        """Return the first element of the window along a dimension."""
        return int(self.edges[axis][0])

    def first_chunk(self, axis: int) -> int:
        """Return the first chunk of the window along a dimension."""
        return self.first if axis == self.axis else 0

    def index(self, number: int) -> tuple[int, ...]:
        """Return the index in the array's grid of a chunk of the window."""
        local = [int(i) for i in np.unravel_index(number, self.matrix_shape)]
        if self.axis is not None:
            local[self.axis] += self.first
        return tuple(local)

    def shape(self, number: int) -> tuple[int, ...]:
        """Return the shape of a chunk of the window."""
        local = np.unravel_index(number, self.matrix_shape)
        return tuple(int(n[i]) for n, i in zip(self.lengths, local, strict=True))

    def sizes(self, axes: Axes) -> Int64:
        """Return per chunk the number of elements that are left when `axes` are summed over."""
        return self._outer([np.ones_like(n) if a in axes else n for a, n in enumerate(self.lengths)])

    def bounds(self, axes: Axes) -> tuple[Int64, ...]:
        """Return per dimension the edges of the chunks' partial sums over `axes`, in positions of the window."""
        return tuple(np.arange(len(e), dtype=np.int64) if a in axes else e - e[0] for a, e in enumerate(self.edges))

    @cached_property
    def objects(self) -> Int64:
        """Per chunk the number of the stored object that holds it."""
        array, number = self.array, np.zeros(self.matrix_shape, np.int64)
        for a, (inner, outer) in enumerate(zip(array.grid.edges, array.objects.edges, strict=True)):
            held = np.searchsorted(outer, inner[:-1], side="right") - 1
            number = number * array.objects.matrix_shape[a] + along(held[self.first_chunk(a) :], a, array.ndim)
        return number.reshape(-1)

    @cached_property
    def leading(self) -> npt.NDArray[np.bool_]:
        """Per chunk whether it is the first of the window in the object that holds it."""
        out = np.zeros(self.size, bool)
        out[np.unique(self.objects, return_index=True)[1]] = True
        return out

    def _outer(self, factors: Sequence[Any]) -> Int64:
        """Return products of one factor per dimension, flat in C order of the chunks."""
        out = np.ones(self.matrix_shape, np.int64)
        for a, f in enumerate(factors):
            out *= along(np.asarray(f, np.int64), a, len(factors))
        return out.reshape(-1)


def along(values: npt.NDArray[Any], axis: int, ndim: int) -> npt.NDArray[Any]:
    """Return values along one axis of as many dimensions, of length 1 along the others."""
    return values.reshape([-1 if a == axis else 1 for a in range(ndim)])


@dataclass(frozen=True)
class Field:
    """One kind of partial sums over one combination of axes."""

    #: ``sum``, ``low``, ``weights``, ``weights_low``, ``excluded``, ``min``, ``max`` or ``m2``.
    kind: str
    axes: Axes
    #: NumPy's name of the type.
    dtype: str

    @property
    def file(self) -> str:
        """Name of the file."""
        return f"{self.kind}-{'-'.join(map(str, self.axes))}"


class Scratch:
    """The files of partial sums, in a folder that exists."""

    def __init__(self, folder: Path, window: Window, fields: tuple[Field, ...]) -> None:
        self.folder, self.window, self.fields = folder, window, fields
        self._files: dict[Field, int] = {}
        self._sizes: dict[Axes, npt.NDArray[np.int64]] = {}
        self._places: dict[Axes, npt.NDArray[np.int64]] = {}
        self._bounds: dict[Axes, tuple[npt.NDArray[np.int64], ...]] = {}
        for axes in dict.fromkeys(f.axes for f in fields):
            self._sizes[axes] = window.sizes(axes)
            self._places[axes] = np.concatenate([[0], np.cumsum(self._sizes[axes])])
            self._bounds[axes] = window.bounds(axes)
        for f in fields:
            self._files[f] = os.open(folder / f.file, os.O_RDWR | os.O_CREAT, 0o666)
            # What is never written is read as zeros and takes no room.
            os.ftruncate(self._files[f], int(self._places[f.axes][-1]) * np.dtype(f.dtype).itemsize)

    @property
    def nbytes(self) -> int:
        """Bytes of all parts."""
        return sum(int(self._places[f.axes][-1]) * np.dtype(f.dtype).itemsize for f in self.fields)

    def write(self, field: Field, number: int, part: memoryview) -> None:
        """Write the part of one chunk."""
        place = int(self._places[field.axes][number]) * np.dtype(field.dtype).itemsize
        while len(part):
            count = os.pwrite(self._files[field], part, place)
            part, place = part[count:], place + count

    def part(self, field: Field, number: int) -> bytes:
        """Return the bytes of the part of one chunk."""
        itemsize = np.dtype(field.dtype).itemsize
        size = int(self._sizes[field.axes][number]) * itemsize
        return os.pread(self._files[field], size, int(self._places[field.axes][number]) * itemsize)

    def read(self, field: Field, box: tuple[tuple[int, int], ...]) -> npt.NDArray[Any]:
        """Return partial sums of a box in positions of the window: chunks along the field's axes, else elements."""
        bounds = self._bounds[field.axes]
        out = np.empty([b - a for a, b in box], field.dtype)
        if not out.size:
            return out
        touched = [
            (int(np.searchsorted(e, a, side="right")) - 1, int(np.searchsorted(e, b, side="left")))
            for e, (a, b) in zip(bounds, box, strict=True)
        ]
        matrix = self.window.matrix_shape
        # Dimensions after `depth` are touched whole, so the parts from there on follow each other in the file.
        depth = len(matrix) - 1
        while depth and touched[depth] == (0, matrix[depth]):
            depth -= 1
        for outer in np.ndindex(*(b - a for a, b in touched[:depth])):
            lead = tuple(i + a for i, (a, _) in zip(outer, touched[:depth], strict=True))
            self._read_run(field, lead, touched[depth:], bounds, box, out)
        return out

    def _read_run(
        self,
        field: Field,
        lead: tuple[int, ...],
        touched: list[tuple[int, int]],
        bounds: tuple[npt.NDArray[np.int64], ...],
        box: tuple[tuple[int, int], ...],
        out: npt.NDArray[Any],
    ) -> None:
        """Copy the parts of chunks that lie side by side in the file into their places in `out`."""
        matrix, places = self.window.matrix_shape, self._places[field.axes]
        ranges = [range(i, i + 1) for i in lead] + [range(a, b) for a, b in touched]
        first = int(np.ravel_multi_index([r[0] for r in ranges], matrix))
        last = int(np.ravel_multi_index([r[-1] for r in ranges], matrix))
        origin = int(places[first])
        raw = np.empty(int(places[last + 1]) - origin, field.dtype)
        _read_exactly(self._files[field], memoryview(raw.view(np.uint8)), origin * raw.itemsize)
        cuts = [e[r.start : r.stop + 1] for e, r in zip(bounds, ranges, strict=True)]
        inside = all(low <= e[0] and e[-1] <= high for e, (low, high) in zip(cuts, box, strict=True))
        # Chunks are alike but for the last row, which may be shorter.
        for head in _rows(cuts):
            rows = cuts[0][head.start : head.stop + 1]
            begin = int(places[first + head.start * math.prod(map(len, ranges[1:]))]) - origin
            block = raw[begin:]
            edges = [rows, *cuts[1:]]
            lengths = [np.diff(e) for e in edges]
            if inside and all((n == n[0]).all() for n in lengths):
                counts, sizes = [len(n) for n in lengths], [int(n[0]) for n in lengths]
                _lay_out(block, counts, sizes, [int(e[0]) - low for e, (low, _) in zip(edges, box, strict=True)], out)
            else:
                _lay_out_each(block, edges, box, out)

    def close(self) -> None:
        """Close all files."""
        while self._files:
            os.close(self._files.popitem()[1])


def _rows(cuts: list[npt.NDArray[np.int64]]) -> list[range]:
    """Return the chunks along the first dimension as runs of equal length."""
    lengths = np.diff(cuts[0])
    starts = [0, *(np.flatnonzero(np.diff(lengths)) + 1).tolist(), len(lengths)]
    return [range(a, b) for a, b in pairwise(starts)]


def _lay_out(
    raw: npt.NDArray[Any], counts: list[int], sizes: list[int], places: list[int], out: npt.NDArray[Any]
) -> None:
    """Copy parts of one shape, which follow each other, side by side."""
    parts = raw[: math.prod(counts) * math.prod(sizes)].reshape(*counts, *sizes)
    target = out[tuple(slice(p, p + n * m) for p, n, m in zip(places, counts, sizes, strict=True))]
    # Splitting an axis in two is a view whatever the strides.
    strides = [m * s for m, s in zip(sizes, target.strides, strict=True)] + list(target.strides)
    np.lib.stride_tricks.as_strided(target, (*counts, *sizes), strides)[...] = parts


def _lay_out_each(
    raw: npt.NDArray[Any], edges: list[npt.NDArray[np.int64]], box: tuple[tuple[int, int], ...], out: npt.NDArray[Any]
) -> None:
    """Copy parts of any shapes, which follow each other, into their places as far as they lie in the box."""
    begin = 0
    for place in np.ndindex(*(len(e) - 1 for e in edges)):
        starts = [int(e[i]) for e, i in zip(edges, place, strict=True)]
        stops = [int(e[i + 1]) for e, i in zip(edges, place, strict=True)]
        shape = [b - a for a, b in zip(starts, stops, strict=True)]
        size = math.prod(shape)
        part = raw[begin : begin + size].reshape(shape)
        begin += size
        source, target = [], []
        for a, b, (low, high) in zip(starts, stops, box, strict=True):
            source.append(slice(max(low - a, 0), min(high, b) - a))
            target.append(slice(max(a - low, 0), min(high, b) - low))
        out[tuple(target)] = part[tuple(source)]


def _read_exactly(file: int, into: memoryview, place: int) -> None:
    """Fill memory from a file that is long enough."""
    while len(into):
        count = os.preadv(file, [into], place)
        if not count:
            raise OSError(5, "partial sums end too early", None)
        into, place = into[count:], place + count
