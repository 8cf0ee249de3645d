"""The compiled side of `cfagg.kernels.ragged`."""

from __future__ import annotations

from cfagg.kernels.jit import jit

__all__ = ["copy_rows"]


@jit
def copy_rows(source, size, start, out, more, more_size, more_start, more_out, indptr):
    """Copy the bytes of rows of two arrays, unchecked, to `out` and `more_out`.

    `size` and `more_size` are bytes of an element (0 without a second array), `start` and `more_start` the first
    element of each row, and `indptr` the first element of each row in the outputs.
    """
    for row in range(len(indptr) - 1):
        first = indptr[row]
        count = indptr[row + 1] - first
        at, to = start[row] * size, first * size
        for k in range(count * size):
            out[to + k] = source[at + k]
        at, to = more_start[row] * more_size, first * more_size
        for k in range(count * more_size):
            more_out[to + k] = more[at + k]
