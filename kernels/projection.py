"""Projection of selections on the cells of a grid: which cells are touched, and what goes where.

This is the chunk projection algorithm of the Zarr-based netCDF (Unidata), in a canonical form that holds for any grid
and visits touched cells only.  It works on one dimension at a time and returns columns, one entry per touched cell:

=========  ==============================================================================================
``cell``   index of the cell along the dimension, ascending
``start``  first selected element, relative to the cell's lower edge
``count``  number of selected elements in the cell, at least 1
``out``    position in the output of that first element
=========  ==============================================================================================

The cells of an array are the product of its dimensions' rows (`cross_product`).  The procedures of the original text,
by their own names and corrected, are in `cfagg.kernels.hyperslab` and `cfagg.kernels.odometer`, and can be imported
from here as well.

All integers are int64; a caller passes Python integers and int64 arrays.  Nothing is checked: `cfagg.plan.plan` checks
selections and calls these kernels where they pay.
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
    cross_product,
    odometer_indices,
    odometer_more,
    odometer_new,
    odometer_next,
)

__all__ = [
    "SliceIndex",
    "SliceIndices",
    "apply_chunk_indices",
    "compute_all_slice_projections",
    "compute_linear_offset",
    "compute_perslice_projections",
    "cross_product",
    "evaluate_slices",
    "get_data",
    "odometer_indices",
    "odometer_more",
    "odometer_new",
    "odometer_next",
    "project_index_edges",
    "project_index_regular",
    "project_mask_edges",
    "project_mask_regular",
    "project_slice_edges",
    "project_slice_regular",
    "stable_order",
]

Int64 = npt.NDArray[np.int64]
Columns = tuple[Int64, Int64, Int64, Int64]


@jit
def project_slice_regular(first: int, count: int, step: int, chunk: int) -> Columns:
    """Project an arithmetic progression on chunks of equal length.

    Parameters
    ----------
    first : int
        First element, at least 0.
    count : int
        Number of elements; an integer selection is one element.
    step : int
        Distance of the elements, not 0.  A negative one is run from its last element upwards and ``out`` descends:
        within a row, the output then runs against the source.
    chunk : int
        Length of the chunks, at least 1.  The last one may overhang the array.

    Returns
    -------
    cell, start, count, out : int64 array, shape (n,)
        See the module.

    Examples
    --------
    A stride longer than the chunk jumps over chunks.

    >>> [column.tolist() for column in project_slice_regular(1, 3, 5, 2)]
    [[0, 3, 5], [1, 0, 1], [1, 1, 1], [0, 1, 2]]
    >>> [column.tolist() for column in project_slice_regular(9, 4, -2, 4)]
    [[0, 1, 2], [3, 1, 1], [1, 2, 1], [3, 2, 0]]
    """
    down = step < 0
    if down:
        first += (count - 1) * step
        step = -step
    if count <= 0:
        n = 0
    elif count == 1 or step > chunk:
        n = count
    else:
        n = (first + (count - 1) * step) // chunk - first // chunk + 1
    cell = np.empty(n, np.int64)
    start = np.empty(n, np.int64)
    number = np.empty(n, np.int64)
    out = np.empty(n, np.int64)
    c = first // chunk
    offset = first - c * chunk
    if step > chunk:
        # Every element has a chunk of its own.  Chunk and offset are carried forward: no division per row.
        jump = step // chunk
        rest = step - jump * chunk
        for i in range(n):
            cell[i] = c
            start[i] = offset
            number[i] = 1
            out[i] = count - 1 - i if down else i
            c += jump
            offset += rest
            if offset >= chunk:
                offset -= chunk
                c += 1
    else:
        # A chunk holds `fewest` elements, or one more where the first of them lies below `rest`.
        fewest = chunk // step
        rest = chunk - fewest * step
        i = 0
        for k in range(n):
            here = (chunk - offset - 1) // step + 1 if k == 0 else fewest + (offset < rest)
            here = min(here, count - i)
            cell[k] = c
            start[k] = offset
            number[k] = here
            out[k] = count - 1 - i if down else i
            i += here
            offset += here * step - chunk
            c += 1
    return cell, start, number, out


@jit
def project_slice_edges(first: int, count: int, step: int, edges: Int64) -> Columns:
    """Project an arithmetic progression on cells of any lengths.

    Parameters
    ----------
    first, count, step : int
        As in `project_slice_regular`; the last element lies below the last edge.
    edges : int64 array, shape (m + 1,)
        Edges of the cells, strictly increasing from 0.

    Returns
    -------
    cell, start, count, out : int64 array, shape (n,)
        See the module.

    Examples
    --------
    >>> import numpy as np
    >>> [column.tolist() for column in project_slice_edges(10, 4, 3, np.array([0, 12, 14, 48]))]
    [[0, 1, 2], [10, 1, 2], [1, 1, 2], [0, 1, 2]]
    """
    down = step < 0
    if down:
        first += (count - 1) * step
        step = -step
    bound = 0
    c = 0
    if count > 0:
        c = _cell_of(edges, first, 0)
        bound = min(count, _cell_of(edges, first + (count - 1) * step, c) - c + 1)
    cell = np.empty(bound, np.int64)
    start = np.empty(bound, np.int64)
    number = np.empty(bound, np.int64)
    out = np.empty(bound, np.int64)
    n = 0
    i = 0
    element = first
    while i < count:
        if edges[c + 1] <= element:
            c += 1
            if edges[c + 1] <= element:
                c = _cell_of(edges, element, c + 1)
        room = edges[c + 1] - element
        here = room if step == 1 else (room - 1) // step + 1
        here = min(here, count - i)
        cell[n] = c
        start[n] = element - edges[c]
        number[n] = here
        out[n] = count - 1 - i if down else i
        n += 1
        i += here
        element += here * step
    return cell[:n], start[:n], number[:n], out[:n]


@jit
def _cell_of(edges: Int64, element: int, low: int) -> int:
    """Return the cell that holds an element at or above ``edges[low]``, by doubling steps and then bisection."""
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


@jit
def project_index_regular(index: Int64, chunk: int) -> Columns:
    """Project an ascending index array on chunks of equal length.

    Parameters
    ----------
    index : int64 array, shape (m,)
        Elements, ascending, at least 0; they may repeat.  `stable_order` brings any array into this form.
    chunk : int
        Length of the chunks.

    Returns
    -------
    cell, begin, count : int64 array, shape (n,)
        The cells touched, and their ranges ``begin:begin + count`` of `index`, which are also those of the output.
    within : int64 array, shape (m,)
        The elements relative to the lower edges of their cells.

    Examples
    --------
    >>> import numpy as np
    >>> [column.tolist() for column in project_index_regular(np.array([1, 1, 3, 9]), 4)]
    [[0, 2], [0, 3], [3, 1], [1, 1, 3, 1]]
    """
    m = len(index)
    within = np.empty(m, np.int64)
    bound = 0 if m == 0 else min(m, index[m - 1] // chunk - index[0] // chunk + 1)
    cell = np.empty(bound, np.int64)
    begin = np.empty(bound, np.int64)
    number = np.empty(bound, np.int64)
    n = 0
    i = 0
    while i < m:
        c = index[i] // chunk
        lower = c * chunk
        first = i
        while i < m and index[i] - lower < chunk:
            within[i] = index[i] - lower
            i += 1
        cell[n] = c
        begin[n] = first
        number[n] = i - first
        n += 1
    return cell[:n], begin[:n], number[:n], within


@jit
def project_index_edges(index: Int64, edges: Int64) -> Columns:
    """Project an ascending index array on cells of any lengths.

    Parameters
    ----------
    index : int64 array, shape (m,)
        As in `project_index_regular`, below the last edge.
    edges : int64 array, shape (k + 1,)
        Edges of the cells, strictly increasing from 0.

    Returns
    -------
    cell, begin, count : int64 array, shape (n,)
    within : int64 array, shape (m,)
        As in `project_index_regular`.

    Examples
    --------
    >>> import numpy as np
    >>> [column.tolist() for column in project_index_edges(np.array([1, 1, 3, 9]), np.array([0, 2, 10]))]
    [[0, 1], [0, 2], [2, 2], [1, 1, 1, 7]]
    """
    m = len(index)
    within = np.empty(m, np.int64)
    c = 0
    bound = 0
    if m > 0:
        c = _cell_of(edges, index[0], 0)
        bound = min(m, _cell_of(edges, index[m - 1], c) - c + 1)
    cell = np.empty(bound, np.int64)
    begin = np.empty(bound, np.int64)
    number = np.empty(bound, np.int64)
    n = 0
    i = 0
    while i < m:
        if edges[c + 1] <= index[i]:
            c = _cell_of(edges, index[i], c + 1)
        first = i
        while i < m and index[i] < edges[c + 1]:
            within[i] = index[i] - edges[c]
            i += 1
        cell[n] = c
        begin[n] = first
        number[n] = i - first
        n += 1
    return cell[:n], begin[:n], number[:n], within


@jit
def project_mask_regular(mask: npt.NDArray[np.bool_], chunk: int) -> Columns:
    """Project a boolean mask on chunks of equal length.

    Parameters
    ----------
    mask : bool array, shape (length,)
        True where an element is selected.
    chunk : int
        Length of the chunks.

    Returns
    -------
    cell, begin, count, within : int64 array
        As in `project_index_regular`.

    Examples
    --------
    >>> import numpy as np
    >>> [column.tolist() for column in project_mask_regular(np.array([True, False, False, True, True]), 2)]
    [[0, 1, 2], [0, 1, 2], [1, 1, 1], [0, 1, 0]]
    """
    return project_index_regular(_chosen(mask), chunk)


@jit
def project_mask_edges(mask: npt.NDArray[np.bool_], edges: Int64) -> Columns:
    """Project a boolean mask on cells of any lengths.

    Parameters
    ----------
    mask : bool array, shape (length,)
        True where an element is selected.
    edges : int64 array, shape (k + 1,)
        Edges of the cells, strictly increasing from 0.

    Returns
    -------
    cell, begin, count, within : int64 array
        As in `project_index_regular`.

    Examples
    --------
    >>> import numpy as np
    >>> [column.tolist() for column in project_mask_edges(np.array([True, False, False, True]), np.array([0, 1, 4]))]
    [[0, 1], [0, 1], [1, 1], [0, 2]]
    """
    return project_index_edges(_chosen(mask), edges)


@jit
def _chosen(mask: npt.NDArray[np.bool_]) -> Int64:
    """Return the positions of the true elements, int64, ascending."""
    index = np.empty(mask.sum(), np.int64)
    n = 0
    for i in range(len(mask)):
        if mask[i]:
            index[n] = i
            n += 1
    return index


@jit
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

    Notes
    -----
    A radix sort of 11 bits a pass, over as many bits as the largest element has: linear in `m`.

    Examples
    --------
    >>> import numpy as np
    >>> stable_order(np.array([5, 2, 5, 0])).tolist()
    [3, 1, 0, 2]
    """
    m = len(index)
    order = np.arange(m)
    other = np.empty(m, np.int64)
    top = 0
    for i in range(m):
        top = max(top, index[i])
    bits = 11
    place = np.empty((1 << bits) + 1, np.int64)
    shift = 0
    while top >> shift > 0:
        place[:] = 0
        for i in range(m):
            place[((index[i] >> shift) & ((1 << bits) - 1)) + 1] += 1
        for digit in range(1 << bits):
            place[digit + 1] += place[digit]
        for i in range(m):
            digit = (index[order[i]] >> shift) & ((1 << bits) - 1)
            other[place[digit]] = order[i]
            place[digit] += 1
        order, other = other, order
        shift += bits
    return order
