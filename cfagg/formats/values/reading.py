"""Reading the values of a file that is open, by where they stand."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from cfagg.errors import UnsupportedError
from cfagg.model.chunks import ChunkTable

# What reads values is loaded with the first of them.
if TYPE_CHECKING:
    from cfagg.formats.values.storage import StoredVariable
    from cfagg.storage.files import Context, Handle
    from cfagg.storage.gate import Checked

__all__ = ["OpenVariable", "check_size", "is_own", "read", "scan"]

#: From so many bytes on, chunks are given one by one.
DIRECT_BYTES = 2**16

#: Where a part of a block stands, and its values.
Part = tuple[tuple[slice, ...], npt.NDArray[Any]]

_Slab = Callable[[tuple[slice, ...]], npt.NDArray[Any]]


def is_own(variable: StoredVariable) -> bool:
    """Return whether values are read and decoded here, not by a library."""
    from cfagg.formats.values.storage import Chunked, Contiguous

    if isinstance(variable.storage, Chunked):
        from cfagg.formats.hdf5.chunks import can_read

        return can_read(variable.storage)
    return isinstance(variable.storage, Contiguous | ChunkTable)


def read(checked: Checked, variable: StoredVariable, slices: Sequence[slice], context: Context) -> npt.NDArray[Any]:
    """Read a hyperslab of stored values, undecoded and in native byte order; steps are positive."""
    from cfagg.formats.values.storage import Contiguous

    if isinstance(variable.storage, Contiguous):
        from cfagg.formats.values import contiguous

        return contiguous.read(checked, variable.storage, variable.header.shape, slices, context)
    check_size(variable, context)
    block = np.empty([len(range(s.start, s.stop, s.step)) for s in slices], variable.header.dtype)
    for place, values in _chunks(checked, variable, slices, context):
        block[place] = values
    return block


def scan(checked: Checked, variable: StoredVariable, slices: Sequence[slice], context: Context) -> Iterator[Part]:
    """Yield a hyperslab in parts as they are decoded, each with its place; a part is overwritten by the next."""
    # Large chunks come one by one, in the file's byte order, so that no array of the whole is needed between the file
    # and the output.  All else comes as one.
    size = variable.header.dtype.itemsize
    counts = [len(range(s.start, s.stop, s.step)) for s in slices]
    if variable.chunks and min(math.prod(variable.chunks), math.prod(counts)) * size >= DIRECT_BYTES:
        yield from _chunks(checked, variable, slices, context)
        return
    block = read(checked, variable, slices, context)
    yield tuple(slice(0, n) for n in block.shape), block


def check_size(variable: StoredVariable, context: Context) -> None:
    """Refuse chunks that are too large: whoever decodes one takes memory for the whole of it."""
    if variable.chunks:
        from cfagg.formats.codecs import check_chunk

        nbytes = math.prod(variable.chunks) * variable.header.dtype.itemsize
        check_chunk(nbytes, context.said(f"a chunk of {variable.address!r} in {variable.key.path}"))


def _chunks(checked: Checked, variable: StoredVariable, slices: Sequence[slice], context: Context) -> Iterator[Part]:
    """Return the parts of a hyperslab by chunks."""
    from cfagg.formats.values.storage import Chunked

    storage = variable.storage
    if isinstance(storage, ChunkTable):
        from cfagg.formats.values import by_table

        return by_table.scan(checked, storage, slices, context)
    if isinstance(storage, Chunked):
        from cfagg.formats.hdf5 import chunks

        return chunks.scan(checked, storage, slices, context)
    raise UnsupportedError(context.said(f"only a library reads variable {variable.address!r} of {variable.key.path}"))


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
        if callable(found):
            return found(slices)
        return read(self._admitted(found), found, slices, self._context)

    def scan(self, slices: Sequence[slice]) -> Iterator[Part]:
        """Yield a hyperslab in parts, as `scan`."""
        found = self.found
        if not callable(found):
            return scan(self._admitted(found), found, slices, self._context)
        block = found(tuple(slices))
        return iter([(tuple(slice(0, n) for n in block.shape), block)])

    def _admitted(self, found: StoredVariable) -> Checked:
        from cfagg.storage.gate import admit

        return admit(self._handle, found.path, found.references, self._context)
