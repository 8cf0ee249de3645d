"""Partial sums of all chunks on disk, between the pass over the data and the sums over the chunks.

One file for each kind of partial sum and combination of dimensions; the partial sums of a chunk are one piece of it, at
a place that follows from the chunk's number.  Writing is one call of the system a piece, so a full disk is an error and
not a signal, and the pieces of neighbouring chunks are read together.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.accumulation.window import Window

__all__ = ["Field", "Scratch"]

Axes = tuple[int, ...]


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
        """Bytes of all pieces."""
        return sum(int(self._places[f.axes][-1]) * np.dtype(f.dtype).itemsize for f in self.fields)

    def write(self, field: Field, number: int, piece: memoryview) -> None:
        """Write the piece of one chunk."""
        place = int(self._places[field.axes][number]) * np.dtype(field.dtype).itemsize
        while len(piece):
            count = os.pwrite(self._files[field], piece, place)
            piece, place = piece[count:], place + count

    def piece(self, field: Field, number: int) -> bytes:
        """Return the bytes of the piece of one chunk."""
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
        # Dimensions after `depth` are touched whole, so the pieces from there on follow each other in the file.
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
        """Copy the pieces of chunks that lie side by side in the file into their places in `out`."""
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
    """Copy pieces of one shape, which follow each other, side by side."""
    pieces = raw[: math.prod(counts) * math.prod(sizes)].reshape(*counts, *sizes)
    target = out[tuple(slice(p, p + n * m) for p, n, m in zip(places, counts, sizes, strict=True))]
    # Splitting an axis in two is a view whatever the strides.
    strides = [m * s for m, s in zip(sizes, target.strides, strict=True)] + list(target.strides)
    np.lib.stride_tricks.as_strided(target, (*counts, *sizes), strides)[...] = pieces


def _lay_out_each(
    raw: npt.NDArray[Any], edges: list[npt.NDArray[np.int64]], box: tuple[tuple[int, int], ...], out: npt.NDArray[Any]
) -> None:
    """Copy pieces of any shapes, which follow each other, into their places as far as they lie in the box."""
    begin = 0
    for place in np.ndindex(*(len(e) - 1 for e in edges)):
        starts = [int(e[i]) for e, i in zip(edges, place, strict=True)]
        stops = [int(e[i + 1]) for e, i in zip(edges, place, strict=True)]
        shape = [b - a for a, b in zip(starts, stops, strict=True)]
        size = math.prod(shape)
        piece = raw[begin : begin + size].reshape(shape)
        begin += size
        source, target = [], []
        for a, b, (low, high) in zip(starts, stops, box, strict=True):
            source.append(slice(max(low - a, 0), min(high, b) - a))
            target.append(slice(max(a - low, 0), min(high, b) - low))
        out[tuple(target)] = piece[tuple(source)]


def _read_exactly(file: int, into: memoryview, place: int) -> None:
    """Fill memory from a file that is long enough."""
    while len(into):
        count = os.preadv(file, [into], place)
        if not count:
            raise OSError(5, "partial sums end too early", None)
        into, place = into[count:], place + count
