"""The odometer over any number of wheels, the flat position that belongs to a reading, and both at once for a product.

Source: the appendix "Odometer Code" and the procedure ``computelinearoffset`` of the text on chunk projection
(docs/projection.md).
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from cfagg.kernels.jit import jit

__all__ = [
    "compute_linear_offset", "cross_product", "odometer_indices", "odometer_more", "odometer_new", "odometer_next",
]  # fmt: skip

Int64 = npt.NDArray[np.int64]


@jit
def compute_linear_offset(index: Int64, shape: Int64) -> int:
    """Return the flat C-order position of an index in an array.

    Parameters
    ----------
    index, shape : int64 array, shape (R,)
        The index, and the array's shape.  For positions in the output that is the output's own shape, not the shape of
        the array that is read.

    Returns
    -------
    int

    Examples
    --------
    >>> import numpy as np
    >>> compute_linear_offset(np.array([1, 2]), np.array([3, 4]))
    6
    """
    position = 0
    for d in range(len(shape)):
        position = position * shape[d] + index[d]
    return position


@jit
def odometer_new(start: Int64, stop: Int64, stride: Int64) -> Int64:
    """Return an odometer that walks all combinations of its wheels' readings, the last wheel fastest.

    Parameters
    ----------
    start, stop, stride : int64 array, shape (R,)
        Readings of the wheels: from `start` up to and without `stop`, by `stride`.  One empty wheel leaves nothing to
        walk; no wheel at all leaves one combination, the empty one.

    Returns
    -------
    int64 array, shape (4, R + 1)
        Start, stop, stride and reading per wheel.  Wheel 0 is an extra one that counts the rounds: the odometer has
        ended when it leaves 0.

    Examples
    --------
    >>> import numpy as np
    >>> odometer = odometer_new(np.array([0, 1]), np.array([2, 4]), np.array([1, 2]))
    >>> while odometer_more(odometer):
    ...     print(odometer_indices(odometer))
    ...     odometer_next(odometer)
    [0 1]
    [0 3]
    [1 1]
    [1 3]
    """
    rank = len(start)
    odometer = np.empty((4, rank + 1), np.int64)
    odometer[0, 0] = odometer[3, 0] = 0
    odometer[1, 0] = odometer[2, 0] = 1
    for d in range(rank):
        odometer[0, d + 1] = start[d]
        odometer[1, d + 1] = stop[d]
        odometer[2, d + 1] = stride[d]
        odometer[3, d + 1] = start[d]
        if start[d] >= stop[d]:
            odometer[3, 0] = 1
    return odometer


@jit
def odometer_more(odometer: Int64) -> bool:
    """Return whether the odometer stands at a combination.

    Parameters
    ----------
    odometer : int64 array, shape (4, R + 1)
        What `odometer_new` returned.

    Returns
    -------
    bool
    """
    return bool(odometer[3, 0] < odometer[1, 0])


@jit
def odometer_next(odometer: Int64) -> None:
    """Turn the odometer to its next combination, in place.

    Parameters
    ----------
    odometer : int64 array, shape (4, R + 1)
        What `odometer_new` returned.
    """
    d = odometer.shape[1] - 1
    odometer[3, d] += odometer[2, d]
    while d > 0 and odometer[3, d] >= odometer[1, d]:
        odometer[3, d] = odometer[0, d]
        d -= 1
        odometer[3, d] += odometer[2, d]


@jit
def odometer_indices(odometer: Int64) -> Int64:
    """Return the present combination.

    Parameters
    ----------
    odometer : int64 array, shape (4, R + 1)
        What `odometer_new` returned.

    Returns
    -------
    int64 array, shape (R,)
        A view that changes with the odometer: copy what is to be kept.
    """
    return odometer[3, 1:]


def cross_product(values: Int64, begin: Int64, weights: Int64) -> Int64:
    """Return the weighted sum of every combination of the dimensions' rows: one column of the product.

    The combinations follow in C order, like the readings of an odometer with one wheel per dimension.  With the
    ``cell`` columns and the strides of the grid of cells the sums are flat indices of the cells; with the ``out``
    columns and the strides of the output they are flat positions in the output.

    Parameters
    ----------
    values : int64 array, shape (begin[-1],)
        A column of every dimension, one after the other.
    begin : int64 array, shape (rank + 1,)
        Dimension `d` has the entries ``begin[d]:begin[d + 1]``.
    weights : int64 array, shape (rank,)
        Strides.

    Returns
    -------
    int64 array, shape (n,)
        ``n`` is the product of the numbers of rows: 1 for rank 0, and 0 where one dimension has no row.

    Examples
    --------
    >>> import numpy as np
    >>> cross_product(np.array([0, 2, 1, 2, 3]), np.array([0, 2, 5]), np.array([10, 1])).tolist()
    [1, 2, 3, 21, 22, 23]
    """
    sums = np.empty(math.prod(np.diff(begin).tolist()), np.int64)
    if sums.size:
        _fill_product(values, begin, weights, sums)
    return sums


@jit
def _fill_product(values, begin, weights, sums):
    """Fill the column of `cross_product`, which has an entry.

    From the last dimension outwards, what is there is repeated once for every row of the next.  Each repetition is
    written once; the first comes last, because the others are made from it.
    """
    sums[0] = 0
    size = 1
    for d in range(len(weights) - 1, -1, -1):
        rows = begin[d + 1] - begin[d]
        for r in range(rows - 1, -1, -1):
            shift = values[begin[d] + r] * weights[d]
            for i in range(size):
                sums[r * size + i] = sums[i] + shift
        size *= rows
