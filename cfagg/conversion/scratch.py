"""Intermediate chunks: written uncompressed, and verified when read."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from cfagg.arrays.blocks import Work, copy, place
from cfagg.arrays.reader import Reader
from cfagg.errors import TargetError
from cfagg.formats.zarr.creating import chunk_key

if TYPE_CHECKING:
    from cfagg.arrays.plan import Plan
    from cfagg.conversion.plan import Array

__all__ = ["FOLDER", "ScratchReader"]

#: The folder of these chunks, within the store that is being built.
FOLDER = ".cfagg-scratch"


class ScratchReader(Reader):
    """An intermediate array; a missing or incomplete chunk is an error, not fill values."""

    def __init__(self, array: Array, where: Any, zarr_format: int) -> None:
        self.dims, self.shape, self.dtype, self.attributes = array.dims, array.shape, array.dtype, {}
        self.grid, self.fill, self.encoding = array.grid, array.reader.fill, {}
        self.workers = 1
        self.label = f"scratch of variable {array.feeds!r}"
        self.path, self._lengths = array.path, array.chunk_shape
        self._where, self._format = where, zarr_format

    def _blocks(self, made: Plan, out: npt.NDArray[Any]) -> Iterator[Work]:
        return (partial(self._read, made, k, out) for k in range(len(made)))

    def _read(self, made: Plan, k: int, out: npt.NDArray[Any]) -> None:
        """Read the part of one chunk that cell `k` of a plan needs."""
        index = made.index(k)
        block = self._chunk(index)[tuple(made.source(k))]
        place(out, made.target(k), partial(copy, block))

    def _chunk(self, index: tuple[int, ...]) -> npt.NDArray[Any]:
        """Return a whole chunk, including elements beyond the array."""
        shape = self._lengths
        data = self._where.read(chunk_key(self.path, index, self._format))
        stored = self.dtype.newbyteorder("<")
        if data is None or len(data) != math.prod(shape) * stored.itemsize:
            found = "is not there" if data is None else f"has {len(data):,} bytes"
            raise TargetError(
                f"{self.label}: the intermediate chunk {index} {found}; convert again, into a Zarr store with "
                "resume=True (--resume)"
            )
        return np.frombuffer(data, stored).reshape(shape)
