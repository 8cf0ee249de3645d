"""Which stored objects an answer depends on.

Let an answer be the sum of a_c·x_c + b_c·y_c over all cells c of the array: x_c is what the cell held when the sums
were built, and y_c what it holds now, where it was read.  Whatever the plan, a_c + b_c is 1 for cells of the ranges
that were asked for (or as often as ranges hold it) and 0 for others.  So the answer is right if x_c = y_c wherever a_c
or b_c is not 0.  Outside the ranges a_c = -b_c, and both are 0 unless the cell itself was read: with strides, that is
so of the edges that are taken off the core again.  Smallest and largest values and centred squares are of nodes and
cells within the ranges alone.  Hence: objects that hold a cell of the ranges, and objects of which a chunk was read.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from cfagg.accumulation.request import Request
from cfagg.formats.zarr import ZarrArray
from cfagg.model import Regular

__all__ = ["touched"]

Int64 = npt.NDArray[np.int64]


def touched(source: ZarrArray, request: Request, read: Iterable[tuple[int, ...]]) -> Int64:
    """Return the numbers of the objects that an answer depends on, ascending."""
    along = []
    for a, (axis, length) in enumerate(zip(source.objects.axes, source.shape, strict=True)):
        runs = request.reduced.get(a)
        if runs is not None:
            some = runs.stop > runs.start
            starts, stops = runs.start[some], runs.stop[some]
        else:
            starts = np.asarray(request.kept[a], np.int64)
            stops = starts + 1
        along.append(_held(axis, length, starts, stops))
    shape = source.objects.matrix_shape
    found = np.zeros(1, np.int64)
    for n, held in zip(shape, along, strict=True):
        found = (found[:, None] * n + held).reshape(-1)
    more = {source.object_of(index) for index in read}
    if more:
        extra = np.array([np.ravel_multi_index(held, shape) if held else 0 for held in more], np.int64)
        found = np.union1d(found, extra)
    return found


def _held(axis: Regular | Int64, length: int, starts: Int64, stops: Int64) -> Int64:
    """Return the objects along one dimension that hold cells of some ranges, each once."""
    count = axis.count if isinstance(axis, Regular) else len(axis) - 1
    if not len(starts) or not length:
        return np.empty(0, np.int64)
    if isinstance(axis, Regular):
        first, last = starts // axis.chunk, (stops - 1) // axis.chunk
    else:
        first = np.searchsorted(axis, starts, side="right") - 1
        last = np.searchsorted(axis, stops - 1, side="right") - 1
    if len(first) == 1:
        return np.arange(int(first[0]), int(last[0]) + 1, dtype=np.int64)
    change = np.zeros(count + 1, np.int64)
    np.add.at(change, first, 1)
    np.add.at(change, last + 1, -1)
    return np.flatnonzero(np.cumsum(change))
