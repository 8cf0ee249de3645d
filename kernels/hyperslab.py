"""The chunk projection algorithm of the Zarr-based netCDF, procedure by procedure, with its names, corrected.

Source: Unidata's description of how a hyperslab of a chunked array is located and extracted (chunk projection;
docs/projection.md lists the corrections and their reasons).  The procedures are in the text's order:

`evaluate_slices`, `apply_chunk_indices`, `get_data`, `compute_all_slice_projections` (the text also calls it
``compute_all_slice_indices``) and `compute_perslice_projections`; ``computelinearoffset`` and the odometer follow in
`cfagg.kernels.odometer`.

The text's global variables (``R``, ``dimlen``, ``chunklen``) are passed as arguments, and its vectors of objects are
columns.  A slice is (start, stop, stride) with ``start >= 0`` and ``stride >= 1``; ``stop`` may exceed the dimension.
All integers are int64; slices of a rank-R array have shape (R, 3).  For grids of any kind, steps of either sign and
index arrays use `cfagg.kernels.projection`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from cfagg.kernels.jit import jit
from cfagg.kernels.odometer import compute_linear_offset, odometer_indices, odometer_more, odometer_new, odometer_next

__all__ = [
    "SliceIndex", "SliceIndices", "apply_chunk_indices", "compute_all_slice_projections",
    "compute_perslice_projections", "evaluate_slices", "get_data",
]  # fmt: skip

Int64 = npt.NDArray[np.int64]


class SliceIndex(NamedTuple):
    """The projections of one slice on the chunks of its dimension.

    Parameters
    ----------
    chunk0 : int
        First chunk of the range that is searched.
    nchunks : int
        Number of chunks touched.
    count : int
        Number of output items.
    stride : int
        Stride of the slice.
    chunkindex : int64 array, shape (nchunks,)
        Chunks touched.
    offset, limit : int64 array, shape (nchunks,)
        Start and end of each in the dimension; the last one ends with the dimension.
    start, stop : int64 array, shape (nchunks,)
        The slice within the chunk, relative to `offset`.
    outpos : int64 array, shape (nchunks,)
        Position of its first item in the output.
    """

    chunk0: int
    nchunks: int
    count: int  # type: ignore[assignment]  # the text's name; a tuple has a method of that name
    stride: int
    chunkindex: Int64
    offset: Int64
    limit: Int64
    start: Int64
    stop: Int64
    outpos: Int64


class SliceIndices(NamedTuple):
    """The projections of the slices of all dimensions, one dimension after the other.

    Parameters
    ----------
    begin : int64 array, shape (R + 1,)
        Dimension `d` has the entries ``begin[d]:begin[d + 1]`` of the columns below.
    count, stride : int64 array, shape (R,)
        As in `SliceIndex`, per dimension.
    chunkindex, start, stop, outpos : int64 array, shape (begin[-1],)
        As in `SliceIndex`.
    """

    begin: Int64
    count: Int64  # type: ignore[assignment]
    stride: Int64
    chunkindex: Int64
    start: Int64
    stop: Int64
    outpos: Int64


@jit
def evaluate_slices(
    slices: Int64, dimlen: Int64, chunklen: Int64, chunks: npt.NDArray[Any], output: npt.NDArray[Any]
) -> None:
    """Extract a hyperslab of a chunked array (the text's ``EvaluateSlices``).

    Parameters
    ----------
    slices : int64 array, shape (R, 3)
        Start, stop and stride per dimension.
    dimlen, chunklen : int64 array, shape (R,)
        Lengths of the dimensions and of the chunks.
    chunks : array, shape (number of chunks, chunk size)
        Every chunk at its full size, flat, in C order within and among chunks.
    output : array, shape (n,)
        Receives the hyperslab, flat in C order; ``n`` is the product of the slices' counts.

    Raises
    ------
    ValueError
        If a slice, a length or the size of an array does not fit.

    Examples
    --------
    >>> import numpy as np
    >>> chunks = np.array([[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, -1, -1]])
    >>> output = np.empty(3, np.int64)
    >>> evaluate_slices(np.array([[1, 10, 3]]), np.array([10]), np.array([4]), chunks, output)
    >>> output.tolist()
    [1, 4, 7]
    """
    rank = len(dimlen)
    projections = compute_all_slice_projections(dimlen, chunklen, slices)
    grid = np.empty(rank, np.int64)
    nchunks = np.empty(rank, np.int64)
    stored, size, items = 1.0, 1.0, 1.0  # products of integers might wrap around to the sizes of the arrays
    for d in range(rank):
        grid[d] = (dimlen[d] + chunklen[d] - 1) // chunklen[d]
        nchunks[d] = projections.begin[d + 1] - projections.begin[d]
        stored *= grid[d]
        size *= chunklen[d]
        items *= projections.count[d]
    if chunks.shape[0] != stored or chunks.shape[1] != size:
        raise ValueError("chunks do not have the shape (number of chunks, chunk size)")
    if len(output) != items:
        raise ValueError("the output does not have the size of the hyperslab")
    odometer = odometer_new(np.zeros(rank, np.int64), nchunks, np.ones(rank, np.int64))
    while odometer_more(odometer):
        apply_chunk_indices(odometer_indices(odometer), projections, grid, chunklen, chunks, output)
        odometer_next(odometer)


@jit
def apply_chunk_indices(
    chunkindices: Int64,
    projections: SliceIndices,
    grid: Int64,
    chunklen: Int64,
    chunks: npt.NDArray[Any],
    output: npt.NDArray[Any],
) -> None:
    """Extract the part of one chunk that one combination of projections selects (the text's ``ApplyChunkIndices``).

    Parameters
    ----------
    chunkindices : int64 array, shape (R,)
        Index of the projection along each dimension, from 0.
    projections : SliceIndices
        Result of `compute_all_slice_projections`.
    grid, chunklen : int64 array, shape (R,)
        Number and length of the chunks per dimension.
    chunks, output : array
        As in `evaluate_slices`.

    Raises
    ------
    ValueError
        If there is no such projection or chunk.
    """
    rank = len(chunkindices)
    if len(projections.count) != rank:
        raise ValueError("one projection is chosen per dimension")
    slices = np.empty((rank, 3), np.int64)
    outpos = np.empty(rank, np.int64)
    index = np.empty(rank, np.int64)
    for d in range(rank):
        k = projections.begin[d] + chunkindices[d]
        if not projections.begin[d] <= k < projections.begin[d + 1]:
            raise ValueError("a dimension has fewer projections")
        index[d] = projections.chunkindex[k]
        outpos[d] = projections.outpos[k]
        slices[d, 0] = projections.start[k]
        slices[d, 1] = projections.stop[k]
        slices[d, 2] = projections.stride[d]
    place = compute_linear_offset(index, grid)
    if not 0 <= place < len(chunks):
        raise ValueError("there are fewer chunks than the grid has")
    chunk = chunks[place]
    outputstart = compute_linear_offset(outpos, projections.count)
    get_data(slices, chunklen, chunk, outputstart, projections.count, output)


@jit
def get_data(
    slices: Int64, chunklen: Int64, chunk: npt.NDArray[Any], outputstart: int, count: Int64, output: npt.NDArray[Any]
) -> None:
    """Copy a hyperslab of one chunk to its place in the output (the text's ``GetData``).

    Parameters
    ----------
    slices : int64 array, shape (R, 3)
        Start, stop and stride within the chunk.
    chunklen : int64 array, shape (R,)
        Lengths of the chunk.
    chunk : array, shape (chunk size,)
        The chunk, flat in C order.
    outputstart : int
        Flat position of the first item in the output.
    count : int64 array, shape (R,)
        Shape of the whole output.
    output : array, shape (n,)
        The output, flat in C order.

    Raises
    ------
    ValueError
        If a slice exceeds the chunk, or the output is too small.
    """
    rank = len(chunklen)
    if slices.shape != (rank, 3) or len(count) != rank:
        raise ValueError("one slice, chunk length and count are needed per dimension")
    source = odometer_new(slices[:, 0], slices[:, 1], slices[:, 2])
    items = np.empty(rank, np.int64)
    fits = outputstart >= 0
    size, last = 1.0, 0.0  # as integers they might wrap around
    for d in range(rank):
        items[d] = (slices[d, 1] - slices[d, 0] - 1) // slices[d, 2] + 1 if slices[d, 1] > slices[d, 0] else 0
        fits &= (slices[d, 0] >= 0) & (slices[d, 1] <= chunklen[d]) & (items[d] <= count[d])
        size *= chunklen[d]
        last = last * count[d] + items[d] - 1
    if not (fits and size <= len(chunk) and last < len(output) - outputstart):
        raise ValueError("the slices exceed the chunk or the output")
    target = odometer_new(np.zeros(rank, np.int64), items, np.ones(rank, np.int64))
    while odometer_more(source):
        chunkpos = compute_linear_offset(odometer_indices(source), chunklen)
        output[outputstart + compute_linear_offset(odometer_indices(target), count)] = chunk[chunkpos]
        odometer_next(source)
        odometer_next(target)


@jit
def compute_all_slice_projections(dimlen: Int64, chunklen: Int64, slices: Int64) -> SliceIndices:
    """Project every slice on the chunks of its dimension.

    Parameters
    ----------
    dimlen, chunklen : int64 array, shape (R,)
        Lengths of the dimensions and of the chunks.
    slices : int64 array, shape (R, 3)
        Start, stop and stride per dimension.

    Returns
    -------
    SliceIndices

    Examples
    --------
    >>> import numpy as np
    >>> p = compute_all_slice_projections(np.array([10, 6]), np.array([4, 3]), np.array([[1, 10, 3], [3, 6, 1]]))
    >>> p.begin.tolist(), p.count.tolist(), p.chunkindex.tolist()
    ([0, 2, 3], [3, 3], [0, 1, 1])
    """
    rank = len(dimlen)
    if len(chunklen) != rank or len(slices) != rank:
        raise ValueError("one chunk length and one slice are needed per dimension")
    begin = np.zeros(rank + 1, np.int64)
    count = np.empty(rank, np.int64)
    stride = np.empty(rank, np.int64)
    # Grown as needed: four columns, one row of the table each.
    table = np.empty((4, 16), np.int64)
    for d in range(rank):
        one = compute_perslice_projections(dimlen[d], chunklen[d], slices[d, 0], slices[d, 1], slices[d, 2])
        count[d] = one.count
        stride[d] = one.stride
        a = begin[d]
        b = a + one.nchunks
        begin[d + 1] = b
        if b > table.shape[1]:
            wider = np.empty((4, 2 * b), np.int64)
            for row in range(4):
                for i in range(a):
                    wider[row, i] = table[row, i]
            table = wider
        # One by one: for arrays assigned to slices, Numba spends seconds compiling messages about their shapes.
        for i in range(one.nchunks):
            table[0, a + i] = one.chunkindex[i]
            table[1, a + i] = one.start[i]
            table[2, a + i] = one.stop[i]
            table[3, a + i] = one.outpos[i]
    n = begin[rank]
    return SliceIndices(
        begin, count, stride, table[0, :n].copy(), table[1, :n].copy(), table[2, :n].copy(), table[3, :n].copy()
    )


@jit
def compute_perslice_projections(dimlen: int, chunklen: int, start: int, stop: int, stride: int) -> SliceIndex:
    """Project one slice on the chunks of its dimension.

    Parameters
    ----------
    dimlen, chunklen : int
        Lengths of the dimension and of its chunks.
    start, stop, stride : int
        The slice; a `stop` beyond the dimension is clipped to it.

    Returns
    -------
    SliceIndex

    Raises
    ------
    ValueError
        If a length or a start is negative, or a chunk length or a stride is below 1.

    Examples
    --------
    The strided read of a last chunk that overhangs the dimension:

    >>> p = compute_perslice_projections(9, 8, 0, 9, 4)
    >>> p.count, p.chunkindex.tolist(), p.start.tolist(), p.stop.tolist(), p.outpos.tolist()
    (3, [0, 1], [0, 0], [8, 1], [0, 2])
    """
    if dimlen < 0 or chunklen < 1:
        raise ValueError("a dimension has length >= 0 and chunks of length >= 1")
    if start < 0 or stride < 1:
        raise ValueError("a slice has start >= 0 and stride >= 1")
    stop = min(stop, dimlen)
    # Nothing here exceeds the dimension, and so nothing wraps around.
    count = (stop - start - 1) // stride + 1 if stop > start else 0
    chunk0 = start // chunklen
    n = (stop - 1) // chunklen - chunk0 + 1 if count else 0
    index = np.empty(n, np.int64)
    offset = np.empty(n, np.int64)
    limit = np.empty(n, np.int64)
    first = np.empty(n, np.int64)
    last = np.empty(n, np.int64)
    outpos = np.empty(n, np.int64)
    nchunks = 0
    for i in range(n):
        lower = chunklen * (chunk0 + i)
        upper = lower + min(dimlen - lower, chunklen)
        if i == 0:
            begin, position = start - lower, 0
        else:
            prevunused = (lower - start) % stride
            begin = stride - prevunused if prevunused > 0 else 0
            position = -((start - lower) // stride)
        end = min(stop, upper) - lower
        if begin >= end:  # the stride skips this chunk
            continue
        index[nchunks] = chunk0 + i
        offset[nchunks] = lower
        limit[nchunks] = upper
        first[nchunks] = begin
        last[nchunks] = end
        outpos[nchunks] = position
        nchunks += 1
    return SliceIndex(
        chunk0,
        nchunks,
        count,
        stride,
        index[:nchunks],
        offset[:nchunks],
        limit[:nchunks],
        first[:nchunks],
        last[:nchunks],
        outpos[:nchunks],
    )
