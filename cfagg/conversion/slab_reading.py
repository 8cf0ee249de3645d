"""Reading one slab in the form to be written, into reused memory."""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from cfagg.runtime.direct import ALIGNMENT

if TYPE_CHECKING:
    from cfagg.conversion.plan import Array

__all__ = ["Scratch", "read_slab"]


@dataclass(eq=False)
class Scratch(threading.local):
    """Memory that one thread reuses, so that the system need not allocate it again for each slab.

    It is aligned as needed for writing files that bypass the page cache.
    """

    held: dict[str, npt.NDArray[np.uint8]] = field(default_factory=dict)

    def array(self, name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
        """Return an uninitialised array."""
        if dtype.kind == "O":
            return np.empty(shape, dtype)
        count = math.prod(shape) * dtype.itemsize
        block = self.held.get(name)
        if block is None or block.nbytes < count:
            block = self.held[name] = _aligned(count)
        return block[:count].view(dtype).reshape(shape)


def _aligned(count: int) -> npt.NDArray[np.uint8]:
    """Return memory aligned as devices need it; NumPy also requests huge pages, unlike a plain memory map."""
    whole = np.empty(count + ALIGNMENT, np.uint8)
    start = -whole.ctypes.data % ALIGNMENT
    return whole[start : start + count]


def read_slab(array: Array, extent: tuple[slice, ...], scratch: Scratch) -> npt.NDArray[Any]:
    """Return a box of an array in the form in which it is written, in memory that the next call reuses."""
    shape = tuple(e.stop - e.start for e in extent)
    stored = scratch.array("stored", shape, array.stored)
    array.reader.read(extent, stored)
    if array.unpack is None:
        return stored
    block = scratch.array("unpacked", shape, array.dtype)
    array.unpack(stored, block)
    return block
