"""Rows of different lengths: those of one batch are gathered into one block of memory.

A row is a run of elements, perhaps with a column number for each, as in compressed sparse rows (CSR).
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["gather_rows"]

Int64 = npt.NDArray[np.int64]

#: Number of elements from which the compiled kernel is used; for fewer, NumPy is done before the kernel is loaded.
KERNEL_ELEMENTS = 2**16
#: The same if Numba has to be imported first.
IMPORT_ELEMENTS = 2**24


def gather_rows(
    sources: tuple[npt.NDArray[Any], ...], starts: tuple[Int64, ...], indptr: Int64, outs: tuple[npt.NDArray[Any], ...]
) -> None:
    """Copy rows of one or two arrays, such as values and their columns, into an output for each.

    Parameters
    ----------
    sources : tuple of array[n]
        One or two arrays of one dimension, contiguous, of any types.
    starts : tuple of int64[rows]
        Starts of the rows in each array.
    indptr : int64[rows + 1]
        Starts of the rows in the outputs, and the end of the last; their lengths are the same in the sources.
    outs : tuple of array
        Filled; each contiguous, of the type of its source and of ``indptr[-1]`` elements.

    Raises
    ------
    IndexError
        If a row is outside its source or its output.

    Examples
    --------
    >>> out = np.empty(3, "i4")
    >>> gather_rows((np.arange(9, dtype="i4"),), (np.array([7, 1]),), np.array([0, 2, 3]), (out,))
    >>> out
    array([7, 8, 1], dtype=int32)
    """
    lengths = np.diff(indptr)
    for source, start, out in zip(sources, starts, outs, strict=True):
        if (
            len(sources) > 2 or source.ndim != 1 or out.ndim != 1 or source.dtype != out.dtype
            or len(start) != len(lengths) or (len(indptr) and int(indptr[-1]) > len(out))
        ):  # fmt: skip
            raise IndexError("rows, their starts and their output do not match")
        # Differences, since the sum of a start and a length may wrap around.
        if len(start) and (
            int(lengths.min()) < 0 or int(indptr[0]) < 0 or int(start.min()) < 0
            or bool((start > len(source) - lengths).any())
        ):  # fmt: skip
            raise IndexError(f"a row lies outside the {len(source):,} elements of its source")
    if not len(lengths) or not int(indptr[-1]):
        return
    if int(indptr[-1]) < (KERNEL_ELEMENTS if "numba" in sys.modules else IMPORT_ELEMENTS):
        for source, start, out in zip(sources, starts, outs, strict=True):
            place = np.repeat(start - indptr[:-1], lengths)
            place += np.arange(int(indptr[0]), int(indptr[-1]))
            np.take(source, place, out=out[int(indptr[0]) : int(indptr[-1])])
        return
    from cfagg.kernels.ragged_compiled import copy_rows

    raw = [(s.view(np.uint8), s.itemsize, o.view(np.uint8)) for s, o in zip(sources, outs, strict=True)]
    nothing = np.empty(0, np.uint8)
    second = (raw[1], starts[1]) if len(raw) > 1 else ((nothing, 0, nothing), starts[0])
    (source, size, out), (more, more_size, more_out) = raw[0], second[0]
    copy_rows(source, size, starts[0], out, more, more_size, second[1], more_out, indptr)
