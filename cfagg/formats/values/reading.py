"""Reading the values of a file that is open, by where they stand."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.formats.codecs import check_chunk
from cfagg.formats.values import contiguous
from cfagg.formats.values.storage import Chunked, Contiguous, StoredVariable
from cfagg.model.chunks import ChunkTable
from cfagg.storage.files import Context, Handle
from cfagg.storage.gate import Checked, admit

__all__ = ["OpenVariable", "read", "scan"]

#: From so many bytes on, chunks are given one by one.
DIRECT_BYTES = 2**16

#: Where a part of a block stands, and its values.
Part = tuple[tuple[slice, ...], npt.NDArray[Any]]

_Slab = Callable[[tuple[slice, ...]], npt.NDArray[Any]]


def read(checked: Checked, variable: StoredVariable, slices: Sequence[slice], context: Context) -> npt.NDArray[Any]:
    """Read a hyperslab of stored values, undecoded and in native byte order; steps are positive."""
    if isinstance(variable.storage, Contiguous):
        return contiguous.read(checked, variable.storage, variable.header.shape, slices, context)
    if variable.chunks:
        # Whoever decodes a chunk takes memory for the whole of it.
        nbytes = math.prod(variable.chunks) * variable.header.dtype.itemsize
        check_chunk(nbytes, context.said(f"a chunk of {variable.address!r} in {variable.key.path}"))
    parts = _chunks(checked, variable, slices, context)
    if parts is not None:
        block = np.empty([len(range(s.start, s.stop, s.step)) for s in slices], variable.header.dtype)
        for place, values in parts:
            block[place] = values
        return block
    if checked.handle.data is not None:
        from cfagg.formats.values import described

        return described.read(checked, slices, context)
    # The netCDF library has some of the other filters, depending on how it was built.
    from cfagg.formats.values import netcdf

    return netcdf.read(checked, slices, context)


def scan(checked: Checked, variable: StoredVariable, slices: Sequence[slice], context: Context) -> Iterator[Part]:
    """Yield a hyperslab in parts as they are decoded, each with its place; a part is overwritten by the next."""
    # Large chunks come one by one, in the file's byte order, so that no array of the whole is needed between the file
    # and the output.  All else comes as one.
    size = variable.header.dtype.itemsize
    counts = [len(range(s.start, s.stop, s.step)) for s in slices]
    if min(math.prod(variable.chunks or ()), math.prod(counts)) * size >= DIRECT_BYTES:
        parts = _chunks(checked, variable, slices, context)
        if parts is not None:
            yield from parts
            return
    block = read(checked, variable, slices, context)
    yield tuple(slice(0, n) for n in block.shape), block


def _chunks(
    checked: Checked, variable: StoredVariable, slices: Sequence[slice], context: Context
) -> Iterator[Part] | None:
    """Return the parts of a hyperslab by chunks, `None` where only a library reads them."""
    storage = variable.storage
    if isinstance(storage, ChunkTable):
        from cfagg.formats.values import by_table

        return by_table.scan(checked, storage, slices, context)
    if isinstance(storage, Chunked):
        from cfagg.formats.hdf5 import chunks

        if chunks.can_read(storage):
            return chunks.scan(checked, storage, slices, context)
    return None


class OpenVariable:
    """Reads a variable of an open file by where its values stand, which is found when the first are asked for.

    Where only a library knows, `find` gives what reads hyperslabs instead.
    """

    __slots__ = ("_context", "_find", "_found", "_handle", "_lock")

    def __init__(self, handle: Handle, find: Callable[[], StoredVariable | _Slab], context: Context) -> None:
        self._handle, self._find, self._context = handle, find, context
        self._lock = threading.Lock()
        self._found: StoredVariable | _Slab | None = None

    @property
    def found(self) -> StoredVariable | _Slab:
        """Where the values stand, or what reads them."""
        with self._lock:
            if self._found is None:
                self._found = self._find()
            return self._found

    def __call__(self, slices: tuple[slice, ...]) -> npt.NDArray[Any]:
        """Return a hyperslab, as `read`."""
        found = self.found
        if not isinstance(found, StoredVariable):
            return found(slices)
        return read(self._admitted(found), found, slices, self._context)

    def scan(self, slices: Sequence[slice]) -> Iterator[Part]:
        """Yield a hyperslab in parts, as `scan`."""
        found = self.found
        if isinstance(found, StoredVariable):
            return scan(self._admitted(found), found, slices, self._context)
        block = found(tuple(slices))
        return iter([(tuple(slice(0, n) for n in block.shape), block)])

    def _admitted(self, found: StoredVariable) -> Checked:
        return admit(self._handle, found.path, found.references, self._context)
