"""Projection of selections on the cells of a grid: which cells are touched, and where their elements go.

This is the chunk projection algorithm of the Zarr-based netCDF (Unidata), in a canonical form that works for any grid
and visits touched cells only.  It works on one dimension at a time and returns columns, one entry per touched cell:

=========  ==============================================================================================
``cell``   index of the cell along the dimension, ascending
``start``  first selected element, relative to the cell's lower edge
``count``  number of selected elements in the cell, at least 1
``out``    position in the output of that first element
=========  ==============================================================================================

The cells of an array are the product of the rows of its dimensions.  The procedures of the original text, with its
names and corrected, are in `cfagg.kernels.hyperslab` and `cfagg.kernels.odometer`, and can be imported from here as
well.

All integers are int64; a caller passes Python integers and int64 arrays.  Nothing is checked: `cfagg.arrays.plan.plan`
checks selections and calls these functions if that is faster.  The columns are allocated by NumPy, which asks the
system for huge pages, and then filled by a kernel: with memory from within the kernel, page faults take five times as
long as the work.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from cfagg.kernels.hyperslab import (
    SliceIndex,
    SliceIndices,
    apply_chunk_indices,
    compute_all_slice_projections,
    compute_perslice_projections,
    evaluate_slices,
    get_data,
)
from cfagg.kernels.jit import jit
from cfagg.kernels.odometer import (
    compute_linear_offset,
    odometer_indices,
    odometer_more,
    odometer_new,
    odometer_next,
)

__all__ = [
    "SliceIndex", "SliceIndices", "apply_chunk_indices", "compute_all_slice_projections", "compute_linear_offset",
    "compute_perslice_projections", "evaluate_slices", "get_data", "odometer_indices", "odometer_more",
    "odometer_new", "odometer_next", "project_index_edges", "project_index_regular", "project_slice_edges",
    "project_slice_regular", "stable_order",
]  # fmt: skip

Int64 = npt.NDArray[np.int64]


def project_slice_regular(first: int, count: int, step: int, chunk: int) -> Int64:
    """Project an arithmetic progression on chunks of equal length.

    Parameters
    ----------
    first : int
        First element, at least 0.
    count : int
        Number of elements; an integer selection is one element.
    step : int
        Distance of the elements, not 0.  If negative, the progression is traversed upwards from its last element and
        ``out`` descends: within a row, the output is then in the reverse order of the source.
    chunk : int
        Length of the chunks, at least 1.  The last one may overhang the array.

    Returns
    -------
    int64 array, shape (4, n)
        The columns cell, start, count and out (see the module).

    Raises
    ------
    ValueError
        If arguments do not fit these descriptions.

    Examples
    --------
    A stride longer than the chunk skips chunks.

    >>> project_slice_regular(1, 3, 5, 2).tolist()
    [[0, 3, 5], [1, 0, 1], [1, 1, 1], [0, 1, 2]]
    >>> project_slice_regular(9, 4, -2, 4).tolist()
    [[0, 1, 2], [3, 1, 1], [1, 2, 1], [3, 2, 0]]
    """
    if count <= 0:
        return np.empty((4, 0), np.int64)
    low, step, down = _ascending(first, count, step)
    if low < 0 or step == 0 or chunk < 1:
        raise ValueError(f"found elements from {low}, steps of {step} and chunks of {chunk}; see project_slice_regular")
    spanned = (low + (count - 1) * step) // chunk - low // chunk + 1
    table = np.empty((4, count if step > chunk else spanned), np.int64)
    _fill_slice_regular(low, count, step, down, chunk, table)
    return table


def project_slice_edges(first: int, count: int, step: int, edges: Int64) -> Int64:
    """Project an arithmetic progression on cells of any lengths.

    Parameters
    ----------
    first, count, step : int
        As in `project_slice_regular`; every element is below the last edge.
    edges : int64 array, shape (m + 1,)
        Edges of the cells, strictly increasing from 0.

    Returns
    -------
    int64 array, shape (4, n)
        The columns cell, start, count and out (see the module).

    Raises
    ------
    ValueError
        If arguments do not fit these descriptions.

    Examples
    --------
    >>> import numpy as np
    >>> project_slice_edges(10, 4, 3, np.array([0, 12, 14, 48])).tolist()
    [[0, 1, 2], [10, 1, 2], [1, 1, 2], [0, 1, 2]]
    """
    if count <= 0:
        return np.empty((4, 0), np.int64)
    low, step, down = _ascending(first, count, step)
    head, tail = np.searchsorted(edges, (low, low + (count - 1) * step), "right") - 1
    if step == 0 or not _are_inside(head, tail, edges):
        raise ValueError(_OUTSIDE)
    table = np.empty((4, min(count, int(tail - head) + 1)), np.int64)
    n = _fill_slice_edges(low, count, step, down, edges, int(head), table)
    if n < 0:
        raise ValueError(_OUTSIDE)
    return table[:, :n]


#: What is wrong if elements do not fit the edges.
_OUTSIDE = "elements are not whole numbers from 0 to below the last edge, index arrays do not ascend, or edges do not"

_DISORDER = "elements of index arrays are whole numbers from 0 that ascend, and chunks have a length of at least 1"


def _are_inside(head: int, tail: int, edges: Int64) -> bool:
    """Return whether the cells of the lowest and the highest element exist."""
    return bool(head >= 0 and tail <= len(edges) - 2)


def _ascending(first: int, count: int, step: int) -> tuple[int, int, bool]:
    """Return the lowest element, the positive step, and whether the progression descended."""
    return (first, step, False) if step > 0 else (first + (count - 1) * step, -step, True)


@jit
def _fill_slice_regular(first, count, step, down, chunk, table):
    """Fill the columns of `project_slice_regular`; `step` is positive.

    Chunk and offset are carried from row to row: there is no division in the loops.
    """
    c = first // chunk
    offset = first - c * chunk
    n = table.shape[1]
    if step > chunk:
        # Every element is in a different chunk.
        jump = step // chunk
        rest = step - jump * chunk
        for i in range(n):
            table[0, i] = c
            table[1, i] = offset
            table[2, i] = 1
            table[3, i] = count - 1 - i if down else i
            c += jump
            offset += rest
            if offset >= chunk:
                offset -= chunk
                c += 1
        return
    # A chunk has `fewest` elements, or one more if the first of them is below `rest`.
    fewest = chunk // step
    rest = chunk - fewest * step
    i = 0
    for k in range(n):
        here = (chunk - offset - 1) // step + 1 if k == 0 else fewest + (offset < rest)
        here = min(here, count - i)
        table[0, k] = c
        table[1, k] = offset
        table[2, k] = here
        table[3, k] = count - 1 - i if down else i
        i += here
        offset += here * step - chunk
        c += 1


@jit
def _fill_slice_edges(first, count, step, down, edges, c, table):
    """Fill the columns of `project_slice_edges` from cell `c` on; return their length, or -1 if elements do not fit.

    `step` is positive.
    """
    n = 0
    i = 0
    element = first
    while i < count:
        if edges[c + 1] <= element:
            c += 1
            if c + 1 < len(edges) and edges[c + 1] <= element:
                c = _cell_of(edges, element, c + 1)
        if c + 1 >= len(edges) or n == table.shape[1]:
            return -1
        room = edges[c + 1] - element
        here = min(room if step == 1 else (room - 1) // step + 1, count - i)
        table[0, n] = c
        table[1, n] = element - edges[c]
        table[2, n] = here
        table[3, n] = count - 1 - i if down else i
        n += 1
        i += here
        element += here * step
    return n


@jit
def _cell_of(edges, element, low):
    """Return the cell of an element at or above ``edges[low]``, by doubling steps and then bisection."""
    stride = 1
    high = low + 1
    while high < len(edges) - 1 and edges[high] <= element:
        low = high
        stride *= 2
        high = min(low + stride, len(edges) - 1)
    while high - low > 1:
        middle = (low + high) // 2
        if edges[middle] <= element:
            low = middle
        else:
            high = middle
    return low


def project_index_regular(index: Int64, chunk: int) -> tuple[Int64, Int64]:
    """Project an ascending index array on chunks of equal length.

    Parameters
    ----------
    index : int64 array, shape (m,)
        Elements, ascending, at least 0; they may repeat.  `stable_order` brings any array into this form.
    chunk : int
        Length of the chunks.

    Returns
    -------
    columns : int64 array, shape (3, n)
        The columns cell, begin and count.  ``begin:begin + count`` is the row's range in `index`, and in the output.
    within : int64 array, shape (m,)
        The elements relative to the lower edges of their cells.

    Raises
    ------
    ValueError
        If arguments do not fit these descriptions.

    Examples
    --------
    >>> import numpy as np
    >>> columns, within = project_index_regular(np.array([1, 1, 3, 9]), 4)
    >>> columns.tolist(), within.tolist()
    ([[0, 2], [0, 3], [3, 1]], [1, 1, 3, 1])
    """
    m = len(index)
    if chunk < 1 or index.dtype.kind != "i":
        raise ValueError(_DISORDER)
    spanned = int(index[-1]) // chunk - int(index[0]) // chunk + 1 if m else 0
    table, within = np.empty((3, max(min(m, spanned), 0)), np.int64), np.empty(m, np.int64)
    n = -1 if m and index[0] < 0 else _fill_index_regular(index, chunk, table, within)
    if n < 0:
        raise ValueError(_DISORDER)
    return table[:, :n], within


def project_index_edges(index: Int64, edges: Int64) -> tuple[Int64, Int64]:
    """Project an ascending index array on cells of any lengths.

    Parameters
    ----------
    index : int64 array, shape (m,)
        As in `project_index_regular`, below the last edge.
    edges : int64 array, shape (k + 1,)
        Edges of the cells, strictly increasing from 0.

    Returns
    -------
    columns : int64 array, shape (3, n)
    within : int64 array, shape (m,)
        As in `project_index_regular`.

    Raises
    ------
    ValueError
        If arguments do not fit these descriptions.

    Examples
    --------
    >>> import numpy as np
    >>> columns, within = project_index_edges(np.array([1, 1, 3, 9]), np.array([0, 2, 10]))
    >>> columns.tolist(), within.tolist()
    ([[0, 1], [0, 2], [2, 2]], [1, 1, 1, 7])
    """
    m = len(index)
    head, tail = np.searchsorted(edges, index[[0, -1]], "right") - 1 if m else (0, -1)
    if index.dtype.kind != "i" or (m and not _are_inside(head, tail, edges)):
        raise ValueError(_OUTSIDE)
    table, within = np.empty((3, max(min(m, int(tail - head) + 1), 0)), np.int64), np.empty(m, np.int64)
    n = _fill_index_edges(index, edges, int(head), table, within)
    if n < 0:
        raise ValueError(_OUTSIDE)
    return table[:, :n], within


@jit
def _fill_index_regular(index, chunk, table, within):
    """Fill the columns of `project_index_regular` and return their length, or -1 if elements do not ascend."""
    m = len(index)
    n = 0
    i = 0
    while i < m:
        if n == table.shape[1]:
            return -1
        c = index[i] // chunk
        lower = c * chunk
        table[0, n] = c
        table[1, n] = i
        while i < m and 0 <= index[i] - lower < chunk:
            within[i] = index[i] - lower
            i += 1
        table[2, n] = i - table[1, n]
        n += 1
    return n


@jit
def _fill_index_edges(index, edges, c, table, within):
    """Fill the columns of `project_index_edges` from cell `c` on; return their length, or -1 if elements do not fit."""
    m = len(index)
    n = 0
    i = 0
    while i < m:
        if edges[c + 1] <= index[i]:
            c = _cell_of(edges, index[i], c + 1)
        if c + 1 >= len(edges) or n == table.shape[1]:
            return -1
        table[0, n] = c
        table[1, n] = i
        while i < m and edges[c] <= index[i] < edges[c + 1]:
            within[i] = index[i] - edges[c]
            i += 1
        table[2, n] = i - table[1, n]
        n += 1
    return n


def stable_order(index: Int64) -> Int64:
    """Return the permutation that sorts an index array; equal elements keep their order.

    With ``order = stable_order(index)``, ``index[order]`` can be projected, and its entry ``i`` goes to ``order[i]`` of
    the output.

    Parameters
    ----------
    index : int64 array, shape (m,)
        Elements in any order, at least 0.

    Returns
    -------
    int64 array, shape (m,)

    Raises
    ------
    ValueError
        If an element is negative.

    Notes
    -----
    A radix sort of 11 bits a pass, over as many bits as the largest element has: linear in `m`.

    Examples
    --------
    >>> import numpy as np
    >>> stable_order(np.array([5, 2, 5, 0])).tolist()
    [3, 1, 0, 2]
    """
    orders = np.empty((2, len(index)), np.int64)
    row = _sort_digits(index, orders)
    if row < 0:
        raise ValueError("index arrays are sorted if no element is negative")
    order: Int64 = orders[row]
    return order


@jit
def _sort_digits(index, orders):
    """Sort digit by digit, from one row of `orders` into the other; return that of the result, -1 for negative ones."""
    m = len(index)
    top, low = 0, 0
    for i in range(m):
        orders[0, i] = i
        top = max(top, index[i])
        low = min(low, index[i])
    if low < 0:
        return -1
    bits = 11
    mask = (1 << bits) - 1
    place = np.empty((1 << bits) + 1, np.int64)
    shift = 0
    row = 0
    while shift < 63 and top >> shift > 0:
        place[:] = 0
        for i in range(m):
            place[((index[i] >> shift) & mask) + 1] += 1
        for digit in range(1 << bits):
            place[digit + 1] += place[digit]
        for i in range(m):
            digit = (index[orders[row, i]] >> shift) & mask
            orders[1 - row, place[digit]] = orders[row, i]
            place[digit] += 1
        row = 1 - row
        shift += bits
    return row
