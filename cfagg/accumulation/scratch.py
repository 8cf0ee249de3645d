"""Partial sums of all chunks on disk, between the pass over the data and the sums over the chunks.

One file for each kind of partial sum and combination of dimensions; the partial sums of a chunk are one piece of it, at
a place that follows from the chunk's number.  Writing is one call of the system a piece, so a full disk is an error and
not a signal, and the pieces of neighbouring chunks are read together.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.accumulation.window import Window

__all__ = ["Field", "Scratch"]

Axes = tuple[int, ...]


@dataclass(frozen=True)
class Field:
    """One kind of partial sums over one combination of axes.

    Parameters
    ----------
    kind : str
        ``sum``, ``low``, ``weights``, ``weights_low``, ``excluded``, ``min``, ``max`` or ``m2``.
    axes : tuple of int
        Axes that are summed over.
    dtype : str
        NumPy's name of the type.
    """

    kind: str
    axes: Axes
    dtype: str

    @property
    def file(self) -> str:
        """Name of the file."""
        return f"{self.kind}-{'-'.join(map(str, self.axes))}"


class Scratch:
    """The files of partial sums.

    Parameters
    ----------
    folder : Path
        Where they are; it exists.
    window : Window
        The chunks.
    fields : tuple of Field
        What is kept.
    """

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
        """Return partial sums of a box.

        Parameters
        ----------
        field : Field
            Which.
        box : tuple of (int, int)
            Start and stop per dimension, in positions of the window: chunks along the axes of the field, elements
            along the others.

        Returns
        -------
        numpy.ndarray
            Of the box's shape and the field's type.
        """
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
        inner = [range(a, b) for a, b in touched]
        first = int(np.ravel_multi_index((*lead, *(r[0] for r in inner)), matrix))
        last = int(np.ravel_multi_index((*lead, *(r[-1] for r in inner)), matrix))
        origin = int(places[first])
        raw = np.empty(int(places[last + 1]) - origin, field.dtype)
        _read_exactly(self._files[field], memoryview(raw.view(np.uint8)), origin * raw.itemsize)
        number = first
        for place in np.ndindex(*map(len, inner)):
            index = (*lead, *(r[i] for r, i in zip(inner, place, strict=True)))
            starts = [int(e[i]) for e, i in zip(bounds, index, strict=True)]
            stops = [int(e[i + 1]) for e, i in zip(bounds, index, strict=True)]
            begin = int(places[number]) - origin
            piece = raw[begin : int(places[number + 1]) - origin].reshape(
                [b - a for a, b in zip(starts, stops, strict=True)]
            )
            source, target = [], []
            for a, b, (low, high) in zip(starts, stops, box, strict=True):
                source.append(slice(max(low - a, 0), min(high, b) - a))
                target.append(slice(max(a - low, 0), min(high, b) - low))
            out[tuple(target)] = piece[tuple(source)]
            number += 1

    def close(self) -> None:
        """Close all files."""
        while self._files:
            os.close(self._files.popitem()[1])


def _read_exactly(file: int, into: memoryview, place: int) -> None:
    """Fill memory from a file that is long enough."""
    while len(into):
        count = os.preadv(file, [into], place)
        if not count:
            raise OSError(5, "partial sums end too early", None)
        into, place = into[count:], place + count
