"""The whole chunk table of one stored variable."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from cfagg.errors import CfaggError
from cfagg.formats.hdf5 import chunks as hdf5_chunks
from cfagg.formats.hdf5 import indexes
from cfagg.formats.hdf5.head import Head
from cfagg.formats.values.storage import Chunked, Contiguous, StoredVariable
from cfagg.model import Regular
from cfagg.model.chunks import ChunkTable, Encoding
from cfagg.storage.files import Context, Handle
from cfagg.storage.gate import admit

__all__ = ["Listed", "chunks_of", "few_chunks"]

Int64 = npt.NDArray[np.int64]


class Listed(NamedTuple):
    """The chunks of a variable in the form of an index."""

    encoding: Encoding
    chunks: tuple[int, ...]
    record: int
    cell: Int64 | None
    offset: Int64
    length: Int64
    mask: Int64 | None


def chunks_of(found: StoredVariable, handle: Handle, context: Context, most: int) -> Listed | None:
    """Return the locations of the chunks of a variable of an open file, or `None` if not representable."""
    storage, shape = found.storage, found.header.shape
    if isinstance(storage, Contiguous):
        return _contiguous(storage, shape, handle.key.size)
    if isinstance(storage, ChunkTable):
        lengths = found.chunks
        return None if lengths is None or storage.encoding.decode is not None else _columns(storage, lengths)
    if not isinstance(storage, Chunked) or not math.prod(shape):
        return None
    if storage.tree is not None:
        rows = indexes.listed(Head(handle), storage.tree, storage.chunks, shape, most, storage.encoding.dtype.itemsize)
        if rows is not None:
            return Listed(storage.encoding, storage.chunks, 0, None, rows.offset, rows.size, rows.mask)
    if handle.data is not None or math.prod(-(-n // c) for n, c in zip(shape, storage.chunks, strict=True)) > most:
        return None
    try:
        table = hdf5_chunks.table(admit(handle, found.path, found.references, context), storage, shape, context)
    except CfaggError:
        return None
    return _columns(table, storage.chunks)


def few_chunks(found: StoredVariable, handle: Handle, context: Context, sparse: int) -> ChunkTable | None:
    """Return the chunks of a variable of an open file if they are many, and at most one in `sparse` was written."""
    storage, shape = found.storage, found.header.shape
    if not isinstance(storage, Chunked) or handle.data is not None:
        return None
    size = math.prod(-(-n // c) for n, c in zip(shape, storage.chunks, strict=True))
    if size <= indexes.MOST:
        return None
    return hdf5_chunks.few(
        admit(handle, found.path, found.references, context), storage, shape, context, size // sparse
    )


def _contiguous(storage: Contiguous, shape: tuple[int, ...], size: int) -> Listed | None:
    """Return one block of bytes, or a block per record, as one chunk."""
    nbytes = math.prod(shape) * storage.encoding.dtype.itemsize
    if storage.record and shape:
        nbytes = (shape[0] - 1) * storage.record + nbytes // max(shape[0], 1)
    if storage.offset < 0 or not math.prod(shape) or storage.offset + nbytes > size:
        return None
    return Listed(storage.encoding, (), storage.record, None, np.array([storage.offset]), np.array([nbytes]), None)


def _columns(table: ChunkTable, chunks: tuple[int, ...]) -> Listed | None:
    """Return a table, whose chunks are all in the file itself, in the form of an index."""
    if table.key.any() or tuple(table.keys) != ("",) or not all(isinstance(a, Regular) for a in table.grid.axes):
        return None
    dense = table.cell.size == table.grid.size
    mask = np.array(table.mask) if table.mask.any() else None
    return Listed(
        table.encoding,
        chunks,
        0,
        None if dense else np.array(table.cell),
        np.array(table.offset),
        np.array(table.length),
        mask,
    )
