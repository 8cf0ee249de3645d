"""The odometer over any number of wheels, and the flat position of a reading.

Source: the appendix "Odometer Code" and the procedure ``computelinearoffset`` of the text on chunk projection
(docs/projection.md).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from cfagg.kernels.jit import jit

__all__ = ["compute_linear_offset", "odometer_indices", "odometer_more", "odometer_new", "odometer_next"]

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

    Raises
    ------
    ValueError
        If index and shape differ in length.

    Examples
    --------
    >>> import numpy as np
    >>> compute_linear_offset(np.array([1, 2]), np.array([3, 4]))
    6
    """
    if len(index) != len(shape):
        raise ValueError("an index has one number per dimension")
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
        Readings of the wheels: from `start` up to and without `stop`, by `stride` >= 1.  With any empty wheel there
        are no combinations; without wheels there is one, the empty one.

    Returns
    -------
    int64 array, shape (4, R + 1)
        Start, stop, stride and reading per wheel.  Wheel 0 is an extra one that counts the rounds: the odometer has
        ended when its reading is no longer 0.

    Raises
    ------
    ValueError
        If the lengths differ, or a stride is below 1.

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
    if len(stop) != rank or len(stride) != rank or (stride < 1).any():
        raise ValueError("an odometer has one start, stop and stride >= 1 per wheel")
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
    """Return whether the odometer is at a combination.

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
    # A difference, since the next reading may be beyond 64 bits.
    while d > 0 and odometer[1, d] - odometer[3, d] <= odometer[2, d]:
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
        A view that changes with the odometer: copy it to keep it.
    """
    return odometer[3, 1:]
