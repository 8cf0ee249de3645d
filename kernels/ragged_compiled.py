"""The compiled side of `cfagg.kernels.ragged`."""

from __future__ import annotations

from cfagg.kernels.jit import jit

__all__ = ["copy_rows"]


@jit
def copy_rows(source, size, start, out, more, more_size, more_start, more_out, indptr):
    """Copy the bytes of rows of two arrays; nothing is checked.

    Parameters
    ----------
    source, more : uint8[...]
        The bytes of the arrays.
    size, more_size : int64
        Bytes of an element; 0 where there is no second array.
    start, more_start : int64[rows]
        First element of each row.
    out, more_out : uint8[...]
        Filled.
    indptr : int64[rows + 1]
        First element of each row in the outputs, and the end of the last.
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
