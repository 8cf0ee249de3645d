"""A lazy array that xarray can index, backed by a reader."""

from __future__ import annotations

import asyncio
import math
from typing import Any

import numpy as np
import numpy.typing as npt
from xarray.backends.common import BackendArray
from xarray.core import indexing

from cfagg.arrays.reader import Reader
from cfagg.formats.values.holding import Hold

__all__ = ["IndexedArray", "IndexedLabels"]

#: Reading a box at once is faster than single points if it has up to this many times the points, or elements in total.
_MANY, _FEW = 4, 2**20


class IndexedArray(BackendArray):
    """An array backed by a reader, for `xarray.core.indexing.LazilyIndexedArray`; it can be pickled if the reader can.

    Basic and outer indexing are read directly.  Vectorized indexing is split by xarray into an outer read and indexing
    in memory, unless the read would be many times larger than the result.
    """

    __slots__ = ("dtype", "hold", "reader", "shape")

    def __init__(self, reader: Reader, dtype: np.dtype[Any] | None = None, hold: Hold | None = None) -> None:
        self.reader = reader
        self.hold = hold
        self.shape = reader.shape
        self.dtype = reader.dtype if dtype is None else dtype

    def __getitem__(self, key: indexing.ExplicitIndexer) -> npt.NDArray[Any]:
        """Read the elements selected by an xarray indexer."""
        if isinstance(key, indexing.VectorizedIndexer) and _is_scattered(key.tuple):
            found = _points(self.reader, key.tuple)
        else:
            found = indexing.explicit_indexing_adapter(
                _without_empty(key, self.shape), self.shape, indexing.IndexingSupport.OUTER, self.reader.read
            )
        return found if found.dtype == self.dtype else found.astype(self.dtype)

    async def async_getitem(self, key: indexing.ExplicitIndexer) -> npt.NDArray[Any]:
        """Read the elements selected by an xarray indexer in a thread, while others are read or awaited."""
        return await asyncio.to_thread(self.__getitem__, key)

    def __repr__(self) -> str:
        return f"<IndexedArray of {self.reader!r}>"


class IndexedLabels(IndexedArray):
    """Labels of a dimension, read once, since xarray asks for the first one, the last one, and all of them."""

    __slots__ = ("_values",)

    def __init__(self, reader: Reader, dtype: np.dtype[Any] | None = None) -> None:
        super().__init__(reader, dtype)
        self._values: npt.NDArray[Any] | None = None

    def __getitem__(self, key: indexing.ExplicitIndexer) -> npt.NDArray[Any]:
        """Return the elements selected by an xarray indexer."""
        if self._values is None:
            self._values = self.reader.read((slice(None),)).astype(self.dtype, copy=False)
        # For one dimension, NumPy indexing is outer indexing.
        found: npt.NDArray[Any] = indexing.explicit_indexing_adapter(
            key, self.shape, indexing.IndexingSupport.OUTER, self._values.__getitem__
        )
        return np.array(found)


def _without_empty(key: indexing.ExplicitIndexer, shape: tuple[int, ...]) -> indexing.ExplicitIndexer:
    """Return an indexer without empty backward slices, on which xarray's decomposition fails."""
    if not isinstance(key, indexing.BasicIndexer | indexing.OuterIndexer):
        return key
    slices = zip(key.tuple, shape, strict=False)  # a key may lack the last dimensions
    return type(key)(tuple(slice(0, 0) if isinstance(k, slice) and not range(*k.indices(n)) else k for k, n in slices))


def _is_scattered(key: tuple[Any, ...]) -> bool:
    """Return whether the box around all points of a vectorized key is much larger than their number."""
    if not key or not all(isinstance(k, np.ndarray) for k in key):
        return False
    box = math.prod(len(np.unique(k)) for k in key)
    return box > max(_FEW, _MANY * math.prod(np.broadcast_shapes(*(k.shape for k in key))))


def _points(reader: Reader, key: tuple[npt.NDArray[Any], ...]) -> npt.NDArray[Any]:
    """Return the elements at index arrays, which xarray also makes of slices: these are read as slices."""
    shape = np.broadcast_shapes(*(k.shape for k in key))
    lists: list[Any] = [_narrow(k.reshape((1,) * (len(shape) - k.ndim) + k.shape)) for k in key]
    axes: dict[int, int] = {}  # of the output, by dimension of the array
    for d, k in enumerate(lists):
        wide = [a for a, n in enumerate(k.shape) if n > 1]
        if len(wide) != 1 or len(axes) == len(lists) - 1 or sum(one.shape[wide[0]] > 1 for one in lists) > 1:
            continue
        step = int(k.flat[1]) - int(k.flat[0])
        if step and bool((np.diff(k.reshape(-1)) == step).all()):
            axes[d] = wide[0]
    chosen = [_slice(k) if d in axes else k for d, k in enumerate(lists)]
    found = np.squeeze(reader.points(chosen), tuple(axes.values()))
    found = np.moveaxis(found, range(len(shape) - len(axes), len(shape)), list(axes.values()))
    return found if found.shape == shape else np.array(np.broadcast_to(found, shape))


def _slice(progression: npt.NDArray[Any]) -> slice:
    """Return an arithmetic progression of two indices or more as a slice."""
    first, second, last = (int(progression.flat[k]) for k in (0, 1, -1))
    end = last + (1 if second > first else -1)
    return slice(first, end if end >= 0 else None, second - first)


def _narrow(index: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return an array with length 1 along the axes along which it does not vary."""
    for axis, n in enumerate(index.shape):
        first = index.take([0], axis) if n else index
        if n > 1 and bool((index == first).all()):
            index = first
    return index
