"""Where the values of one fragment are stored, so that chunks of an array can be taken from them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.errors import CfaggError
from cfagg.formats.values.find import check
from cfagg.formats.values.storage import Chunked, Contiguous, Library, StoredVariable
from cfagg.model import Regular
from cfagg.model.chunks import ChunkTable, Codec
from cfagg.storage.files import Context, FileKey
from cfagg.writing.exports.codecs import canonical, unshuffled, untold

__all__ = ["Places", "Tiles", "tiles_of"]

Int64 = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Places:
    """Chunks in C order: whether each is stored, and where its bytes are."""

    there: npt.NDArray[np.bool_]
    offset: Int64
    length: Int64


@dataclass(frozen=True)
class Tiles:
    """The bytes of a fragment: chunks of one shape, or contiguous values, possibly one block per record."""

    key: FileKey
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    codecs: tuple[Codec, ...]
    fill: Any  # of values that were never written
    chunk: tuple[int, ...] | None  # `None` if any contiguous block will do
    table: ChunkTable | None = None
    offset: int = 0
    strides: tuple[int, ...] = ()

    def in_one_row(self, chunk: Sequence[int]) -> bool:
        """Return whether the values of each block of a shape are contiguous, if there are no chunks."""
        size = self.dtype.itemsize
        for n, stride in zip(reversed(chunk), reversed(self.strides), strict=True):
            if n > 1 and stride != size:
                return False
            size *= n
        return True

    def places(self, start: Sequence[int], chunk: Sequence[int], counts: Sequence[int]) -> Places:
        """Return the places of a number of blocks along each axis, beginning at an element."""
        index = [a // c + np.arange(n) if self.table is not None else a + c * np.arange(n)
                 for a, c, n in zip(start, chunk, counts, strict=True)]  # fmt: skip
        mesh = np.meshgrid(*index, indexing="ij") if index else []
        if self.table is not None:
            cells = np.ravel_multi_index([m.reshape(-1) for m in mesh], self.table.grid.matrix_shape)
            rows = self.table.rows(np.asarray(cells))
            there = rows >= 0
            if not there.any():
                # Nothing can be taken from a table without rows.
                return Places(there, rows, rows)
            return Places(there, self.table.offset[rows], self.table.length[rows])
        at = np.full(math.prod(counts), self.offset, np.int64)
        for m, stride in zip(mesh, self.strides, strict=True):
            at += m.reshape(-1) * stride
        return Places(np.full(at.shape, self.offset >= 0), at, np.full(at.shape, self._nbytes(chunk)))

    def _nbytes(self, chunk: Sequence[int]) -> int:
        return math.prod(chunk) * self.dtype.itemsize


def tiles_of(stored: StoredVariable, context: Context) -> Tiles | str:
    """Return where the values of a variable are stored, or why nothing can refer to them."""
    storage, shape = stored.storage, stored.header.shape
    if isinstance(storage, Library):
        return "only the netCDF library knows where its values are stored"
    try:
        checked = check(stored, context)
        if isinstance(storage, Chunked):
            from cfagg.formats.hdf5.chunks import table

            storage = table(checked, storage, shape, context)
    except CfaggError as error:
        return error.message
    dtype = storage.encoding.dtype
    if dtype.kind not in "iufS" or (dtype.kind == "S" and dtype.itemsize > 1):
        return f"its values are of type {dtype.name}"
    codecs = canonical(storage.encoding.codecs, dtype.itemsize)
    if isinstance(storage, Contiguous):
        return _contiguous(stored, storage, shape, codecs)
    if storage.encoding.decode is not None:
        return "its values are packed in a way for which Zarr has no codec"
    if (unknown := untold(codecs)) is not None:
        return f"its chunks passed the filter {unknown}, for which Zarr has no codec"
    if (unlike := unshuffled(codecs)) is not None:
        return unlike
    if storage.mask.any():
        return "some of its chunks did not pass all filters"
    if len(storage.keys) > 1 or storage.keys[0] or not all(isinstance(a, Regular) for a in storage.grid.axes):
        return "its chunks are not all of one shape in one file"
    chunk = storage.shape((0,) * len(shape))
    return Tiles(stored.key, shape, dtype, codecs, storage.encoding.fill, chunk, storage)


def _contiguous(stored: StoredVariable, storage: Contiguous, shape: Sequence[int], codecs: tuple[Codec, ...]) -> Tiles:
    strides = [storage.encoding.dtype.itemsize]
    for n in reversed(shape[1:]):
        strides.insert(0, strides[0] * n)
    if storage.record and shape:
        strides[0] = storage.record
    given = tuple(strides[: len(shape)])
    fill = storage.encoding.fill
    return Tiles(
        stored.key, tuple(shape), storage.encoding.dtype, codecs, fill, None, offset=storage.offset, strides=given
    )
