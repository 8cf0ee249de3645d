"""Values of small datasets, as coordinates and bounds are, of headers that are remembered: read whole and at once.

Whatever is larger, in several chunks, unusual or damaged is read, or refused, as all other values are.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from cfagg.formats.hdf5.headers import Alike
from cfagg.formats.hdf5.messages import type_of
from cfagg.formats.hdf5.objects import LAYOUT, TYPE
from cfagg.formats.hdf5.space import ERRORS, UNDEFINED
from cfagg.formats.hdf5.variables import is_plain, storage_of
from cfagg.formats.values.open_variable import OpenVariable
from cfagg.formats.values.storage import Contiguous, StoredVariable
from cfagg.model.chunks import Encoding
from cfagg.model.dataset import Variable
from cfagg.storage.files import Context, Handle
from cfagg.storage.gate import admit

__all__ = ["SmallValues", "name_of_path"]

#: Bytes of values, and of a chunk as it is stored.
_MOST = 1 << 16

#: How the only node of a tree of one chunk begins, and the bytes before its entry.
_ONE, _HEAD = b"TREE\1\0\1\0", 24


class _Plan(NamedTuple):
    """How the values of datasets are stored that have headers alike."""

    encoding: Encoding
    shape: tuple[int, ...]
    #: Of the one chunk; `None` where the values are contiguous.
    chunk: tuple[int, ...] | None
    #: Bytes of the values or the chunk.
    size: int
    #: Where in the message of the layout the place of the values, or of the tree of chunks, stands.
    place: slice


class SmallValues(OpenVariable):
    """Reads a variable as `OpenVariable`; where that is simple, the values of a small one without further ado."""

    __slots__ = ("_alike", "_path", "_variable")

    def __init__(
        self,
        handle: Handle,
        find: Callable[[], StoredVariable | Any],
        context: Context,
        variable: Variable,
        path: bytes,
        alike: Alike,
    ) -> None:
        super().__init__(handle, find, context)
        self._variable, self._path, self._alike = variable, path, alike

    def __call__(self, slices: tuple[slice, ...]) -> npt.NDArray[Any]:
        """Return a hyperslab, as `read`."""
        found = self._small(slices)
        return super().__call__(slices) if found is None else found

    def _small(self, slices: tuple[slice, ...]) -> npt.NDArray[Any] | None:
        """Return all values, `None` where fewer are asked for or they are read in the usual way."""
        header = self._alike.header
        shape, plan = header.shape, header.plan
        if plan is None:
            plan = header.plan = _plan(self._alike, shape, self._variable) or ()
        # A netCDF dimension that may grow can be longer than the dataset.
        if not plan or slices != tuple([slice(0, n, 1) for n in shape]) or self._variable.shape != shape:
            return None
        handle = admit(self._handle, name_of_path(self._path), (), self._context).handle
        at = int.from_bytes(self._alike.values[header.last[LAYOUT]][plan.place], "little")
        size, mask = plan.size, 0
        if plan.chunk is not None:
            head = handle.some(_HEAD + 24 + 8 * len(shape), at) if at < handle.key.size else b""
            # The chunk is that of the first element.
            if head[:8] != _ONE or any(head[_HEAD + 8 : -8]):
                return None
            size, mask = int.from_bytes(head[24:28], "little"), int.from_bytes(head[28:32], "little")
            at = int.from_bytes(head[-8:], "little")
            if not 0 < size <= _MOST or (size != plan.size and not plan.encoding.codecs):
                return None
        if at == UNDEFINED or at + size > handle.key.size:
            return None
        raw = handle.exactly(size, at, self._context)
        values = _decoded(raw, mask, plan)
        return None if values is None else values.astype(plan.encoding.dtype.newbyteorder("="))


def name_of_path(path: bytes) -> str:
    """Return the path of a dataset in its file as messages and readers have it."""
    return path.decode("utf-8", "surrogateescape").lstrip("/")


def _plan(alike: Alike, shape: tuple[int, ...], variable: Variable) -> _Plan | None:
    """Return how the values of datasets like one are stored; `None` where they are not small and simple."""
    found = alike.object()
    if not is_plain(found) or variable.kind not in ("integer", "float", "char") or LAYOUT not in alike.header.last:
        return None
    try:
        dtype = variable.dtype if variable.kind == "char" else np.dtype(type_of(found.messages[TYPE])[1])
        storage = storage_of(found.messages, shape, dtype, "")
    except ERRORS:
        return None
    if isinstance(storage, Contiguous):
        size, chunk, place = prod(shape) * dtype.itemsize, None, slice(2, 10)
    elif storage.tree is not None and found.messages[LAYOUT][0] == 3:
        chunk = storage.chunks
        size, place = prod(chunk) * dtype.itemsize, slice(3, 11)
        if any(n > c for n, c in zip(shape, chunk, strict=True)) or not _is_known(storage.encoding):
            return None
    else:
        return None
    return _Plan(storage.encoding, shape, chunk, size, place) if 0 < size <= _MOST and 0 not in shape else None


def _is_known(encoding: Encoding) -> bool:
    """Return whether all filters are undone here."""
    if not encoding.codecs:
        return True
    from cfagg.formats.values import filters

    return filters.known(encoding.codecs)


def _decoded(raw: bytes, mask: int, plan: _Plan) -> npt.NDArray[Any] | None:
    """Return values from the bytes of all or of the one chunk, `None` where these are damaged."""
    if plan.chunk is None:
        return np.frombuffer(raw, plan.encoding.dtype).reshape(plan.shape)
    within = tuple([slice(n) for n in plan.shape])
    if not plan.encoding.codecs:
        return np.frombuffer(raw, plan.encoding.dtype).reshape(plan.chunk)[within]
    from cfagg.formats.values import filters

    try:
        return filters.decode(np.frombuffer(raw, np.uint8), mask, plan.encoding, plan.chunk)[within]
    except filters.DamagedError:
        return None
