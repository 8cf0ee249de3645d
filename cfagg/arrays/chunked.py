"""Reading Zarr arrays, many chunks at a time or one by one, without zarr-python."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.arrays.batched import batches, cut, grain, is_remote
from cfagg.arrays.blocks import Work, constant, copy, place
from cfagg.arrays.plan import Plan
from cfagg.arrays.reader import Reader
from cfagg.formats.metadata.stores import LocalStore, Store
from cfagg.formats.zarr.chunks import read_box, read_chunk
from cfagg.formats.zarr.consolidated import published
from cfagg.formats.zarr.metadata import ZarrArray, decoded_array
from cfagg.formats.zarr.remote_batches import AT_ONCE
from cfagg.formats.zarr.stored import stored_boxes
from cfagg.model import Grid

__all__ = ["ZarrReader", "local_reader"]


class ZarrReader(Reader):
    """An array of a Zarr store; elements of chunks that are not stored are the array's fill value."""

    def __init__(self, array: ZarrArray, *, workers: int | None = None) -> None:
        self.array = array
        self.dims, self.shape, self.dtype, self.attributes = array.dims, array.shape, array.dtype, array.attributes
        self.grid, self.fill, self.encoding = array.grid, array.fill_value, {}
        self.workers = workers
        self.label = f"{array.store}: array {array.path!r}"
        self._token = uuid.uuid4().hex

    def __repr__(self) -> str:
        return f"<ZarrReader of {self.array.path!r} {self.shape} {self.dtype}>"

    def __dask_tokenize__(self) -> tuple[str, str, str]:
        # Readers always differ for dask, which otherwise could reuse results from before a write.
        return self.array.store, self.array.path, self._token

    def chunk(
        self, index: Sequence[int], box: tuple[slice, ...] | None = None, seen: Callable[[Any], None] | None = None
    ) -> npt.NDArray[Any] | None:
        """Return the elements of one chunk of the grid, or of a box of it, or `None` if it is not stored.

        A class that overrides this method reads every element through it.  `seen` is called with the stored bytes of a
        whole chunk, as in `cfagg.formats.zarr.read_chunk`.
        """
        return read_chunk(self.array, index, seen) if box is None else read_box(self.array, index, box)

    def stored_boxes(self, sparse: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]] | None:
        """Return the bounds of all stored chunks or shards, or `None` if they are not listed."""
        return stored_boxes(self.array, sparse)

    def filled(self, index: Sequence[int]) -> npt.NDArray[Any]:
        """Return the elements of one chunk, or fill values if it is not stored."""
        found = self.chunk(index)
        if found is None:
            return np.full([b - a for a, b in self.grid.extent(index)], self.fill, self.dtype)
        return found

    def _blocks(self, made: Plan, out: npt.NDArray[Any]) -> Iterator[Work]:
        decoder = self.array.decoder
        if type(self).chunk is not _CHUNK or decoder is None or not out.flags.writeable:
            return (partial(self._read, made, out, k) for k in range(len(made)))
        return batches(self.array, decoder, made, out, partial(self._read, made, out), self.workers)

    def at_once(self, grid: Grid) -> int:
        """Return how many chunks are read at the same time where they are read one by one."""
        return AT_ONCE if self.workers is None and is_remote(self.array) else super().at_once(grid)

    def chunks_at(self, index: tuple[int, ...]) -> tuple[int, ...] | None:  # noqa: ARG002
        """Return lengths that no chunk exceeds, or `None` if elements are read singly."""
        return None if self.array.decoder is not None and self.array.decoder.plain else self.shape

    def _parts(self, made: Plan) -> int:
        return grain(self.array, made)

    def _read(self, made: Plan, out: npt.NDArray[Any], k: int) -> None:
        """Read the part of a chunk selected by cell `k` of a plan."""
        source, target = made.source(k), made.target(k)
        box = tuple(s if isinstance(s, slice) else slice(int(s[0]), int(s[-1]) + 1) for s in source)
        block = self.chunk(made.index(k), tuple(slice(s.start, s.stop) for s in box))
        if block is None:
            constant(out, target, self.fill)()
            return
        shifted = [slice(None, None, s.step) if isinstance(s, slice) else s - s[0] for s in source]
        place(out, target, partial(copy, cut(block, shifted)))


#: The default method by which chunks are read one by one.
_CHUNK = ZarrReader.chunk


def local_reader(store: Store, path: str) -> ZarrReader | None:
    """Return the reader of an array whose chunks are decoded here, or `None`; damaged metadata raise an error."""
    found = decoded_array(store.path, path, store.allow) if isinstance(store, LocalStore) else None
    return None if found is None else ZarrReader(published(found))
