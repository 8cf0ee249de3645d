"""The indices at which the HDF5 library lists the chunks of a dataset with one unlimited dimension.

The entries of an extensible array are numbered along the unlimited dimension last, so that those of its next chunks
follow all others.  The library reads chunks accordingly, but when it lists them, it counts as if the dimensions were in
the dataset's order: if the unlimited dimension is not the first, it returns wrong indices (seen in HDF5 2.0).
Libraries without this error are detected, and any other behaviour is an error.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from math import prod
from typing import Any

import h5py

from cfagg.formats.hdf5.space import UnsoundError

__all__ = ["Listing", "listing"]

#: The number of extensible arrays among the indexes of chunks.
_EXTENSIBLE = 4

_Index = tuple[int, ...]


class Listing:
    """Actual indices of chunks, and those at which the library lists them."""

    # `counts` has the most chunks of each dimension; that of the unlimited one, `axis`, is not used.

    def __init__(self, counts: Sequence[int], axis: int) -> None:
        self._counts, self._axis = counts, axis
        self._others = [n for d, n in enumerate(counts) if d != axis]
        self._behind = counts[axis + 1 :]

    def listed(self, index: Sequence[int]) -> _Index:
        """Return the index at which a chunk is listed."""
        others = [i for d, i in enumerate(index) if d != self._axis]
        number = index[self._axis] * prod(self._others) + _number(others, self._others)
        along, rest = divmod(number, prod(self._behind))
        return (*[0] * self._axis, along, *_index(rest, self._behind))

    def actual(self, index: Sequence[int]) -> _Index:
        """Return the chunk that is listed at an index."""
        number = index[self._axis] * prod(self._behind) + _number(index[self._axis + 1 :], self._behind)
        along, rest = divmod(number, prod(self._others))
        others = _index(rest, self._others)
        return (*others[: self._axis], along, *others[self._axis :])


def listing(dataset: Any, kind: int, chunks: Sequence[int]) -> Listing | None:
    """Return the listing of the chunks of a dataset if it differs from the actual indices; the library lock is held."""
    if kind != _EXTENSIBLE:
        return None
    most = dataset.get_space().get_simple_extent_dims(True)
    unlimited = [d for d, n in enumerate(most) if n == h5py.h5s.UNLIMITED]
    if len(unlimited) != 1:
        raise UnsoundError(f"it has an index for one unlimited dimension, but {len(unlimited)} unlimited dimensions")
    if unlimited == [0] or not _listed_wrongly():
        return None
    return Listing([-(-n // c) for n, c in zip(most, chunks, strict=True)], unlimited[0])


@cache
def _listed_wrongly() -> bool:
    """Return whether the library lists chunks as if the unlimited dimension were the first."""
    with h5py.File("listing", "w", driver="core", backing_store=False, libver="latest") as file:
        dataset = file.create_dataset("v", (2, 2), "i1", chunks=(1, 1), maxshape=(2, None))
        dataset[1, 0] = 1
        file.flush()
        found = dataset.id.get_chunk_info(0).chunk_offset
    if found not in {(0, 1), (1, 0)}:
        raise UnsoundError(f"this HDF5 library lists chunk (1, 0) as {found}")
    return bool(found == (0, 1))


def _number(index: Sequence[int], counts: Sequence[int]) -> int:
    """Return the position of an index in C order."""
    number = 0
    for i, n in zip(index, counts, strict=True):
        number = number * n + i
    return number


def _index(number: int, counts: Sequence[int]) -> _Index:
    """Return the index of a position in C order."""
    index: list[int] = []
    for n in reversed(counts):
        number, i = divmod(number, n)
        index.insert(0, i)
    return tuple(index)
