"""Reading and decoding values from their location, without a library."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.errors import UnsupportedError
from cfagg.formats.hdf5 import chunks as hdf5_chunks
from cfagg.formats.values import by_table, contiguous
from cfagg.formats.values.by_table import Part
from cfagg.formats.values.storage import Chunked, Contiguous, StoredVariable
from cfagg.model.chunks import ChunkTable
from cfagg.storage.files import Context
from cfagg.storage.gate import Checked

__all__ = ["is_own", "read", "scan"]

#: Number of bytes from which chunks are returned one by one.
DIRECT_BYTES = 2**16


def is_own(variable: StoredVariable) -> bool:
    """Return whether values are read and decoded here, not by a library."""
    storage = variable.storage
    if isinstance(storage, Chunked):
        return hdf5_chunks.can_read(storage)
    return isinstance(storage, (Contiguous, ChunkTable))


def read(checked: Checked, variable: StoredVariable, slices: Sequence[slice], context: Context) -> npt.NDArray[Any]:
    """Read a hyperslab of stored values, undecoded and in native byte order; steps are positive."""
    storage = variable.storage
    if isinstance(storage, Contiguous):
        return contiguous.read(checked, storage, variable.header.shape, slices, context)
    block = np.empty([len(range(s.start, s.stop, s.step)) for s in slices], variable.header.dtype)
    for place, values in _chunks(checked, variable, slices, context):
        block[place] = values
    return block


def scan(checked: Checked, variable: StoredVariable, slices: Sequence[slice], context: Context) -> Iterable[Part]:
    """Return a hyperslab in parts as they are decoded, each with its place; a part is overwritten by the next."""
    # Large chunks are returned one by one, in the file's byte order, so that no array of the whole is needed between
    # the file and the output.  Everything else is returned as one part.
    if isinstance(variable.storage, Contiguous):
        parts = contiguous.scan(checked, variable.storage, variable.header.shape, slices, context)
        if parts is not None:
            return parts
    chunks = None if isinstance(variable.storage, Contiguous) else variable.chunks
    if chunks and math.prod(chunks) * (size := variable.header.dtype.itemsize) >= DIRECT_BYTES:
        for s in slices:
            size *= len(range(s.start, s.stop, s.step))
        if size >= DIRECT_BYTES:
            return _chunks(checked, variable, slices, context)
    block = read(checked, variable, slices, context)
    return ((tuple(slice(0, n) for n in block.shape), block),)


def _chunks(checked: Checked, variable: StoredVariable, slices: Sequence[slice], context: Context) -> Iterator[Part]:
    """Return the parts of a hyperslab by chunks."""
    storage = variable.storage
    if isinstance(storage, Chunked):
        return hdf5_chunks.scan(checked, storage, slices, context)
    if isinstance(storage, ChunkTable):
        return by_table.scan(checked, storage, slices, context)
    raise UnsupportedError(
        context.said(f"only a library can read variable {variable.address!r} of {variable.key.path}")
    )
