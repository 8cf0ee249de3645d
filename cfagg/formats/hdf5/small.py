"""Values of small datasets with cached headers, such as coordinates and bounds, which are read whole at once.

Anything larger, unusual or damaged is handled like all other values.
"""

from __future__ import annotations

import operator
import struct
from collections.abc import Callable, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from cfagg.formats.hdf5.head import Head
from cfagg.formats.hdf5.headers import Alike
from cfagg.formats.hdf5.indexes import listed
from cfagg.formats.hdf5.messages import type_of
from cfagg.formats.hdf5.objects import LAYOUT, TYPE
from cfagg.formats.hdf5.plain import is_plain, storage_of
from cfagg.formats.hdf5.space import ERRORS, UNDEFINED
from cfagg.formats.values.open_variable import OpenVariable
from cfagg.formats.values.storage import Contiguous, StoredVariable
from cfagg.model.chunks import Encoding
from cfagg.model.dataset import Variable
from cfagg.storage import counters
from cfagg.storage.files import Context, Handle
from cfagg.storage.gate import admit

__all__ = ["SmallValues", "name_of_path"]

#: Most bytes of values, and of their stored chunks; most chunks.
_MOST, _CHUNKS = 1 << 16, 1 << 12

#: Chunks are read at once if at most this many bytes are between the first and the last.
_NEAR = 1 << 18

#: Beginning of the only node of a tree of one chunk, and the bytes before its entry.
_ONE, _HEAD = b"TREE\1\0\1\0", 24


class _Plan(NamedTuple):
    """The storage of the values of datasets with similar headers."""

    encoding: Encoding
    shape: tuple[int, ...]
    #: Shape of the single chunk, or `None` if the values are contiguous.
    chunk: tuple[int, ...] | None
    #: Bytes of the values or the chunk.
    size: int
    #: Position in the layout message of the address of the values, or of the tree of chunks.
    place: slice
    #: Number of chunks, which are consecutive along the first dimension.
    chunks: int = 1


class SmallValues(OpenVariable):
    """Reads a variable like `OpenVariable`, with a shortcut for the values of small and simple ones."""

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
        """Return a hyperslab, like `read`."""
        found = self._small(slices)
        return super().__call__(slices) if found is None else found

    def _small(self, slices: tuple[slice, ...]) -> npt.NDArray[Any] | None:
        """Return all values, or `None` if fewer are selected or they have to be read in the usual way."""
        header = self._alike.header
        shape, plan = header.shape, header.plan
        if plan is None:
            plan = header.plan = _plan(self._alike, shape, self._variable) or ()
        # An unlimited netCDF dimension can be longer than the dataset.
        if not plan or slices != tuple([slice(0, n, 1) for n in shape]) or self._variable.shape != shape:
            return None
        handle = admit(self._handle, name_of_path(self._path), (), self._context).handle
        at = int.from_bytes(self._alike.values[header.last[LAYOUT]][plan.place], "little")
        size, mask = plan.size, 0
        if plan.chunks > 1:
            several = _of_several(handle, at, plan, self._context)
            return None if several is None else several.astype(plan.encoding.dtype.newbyteorder("="))
        if plan.chunk is not None:
            end = _HEAD + 24 + 8 * len(shape)
            sizes = (*plan.chunk, plan.encoding.dtype.itemsize)
            node = handle.some(end + 8 + 8 * len(sizes), at) if at < handle.key.size else b""
            head, behind = node[:end], [n for (n,) in struct.iter_unpack("<Q", node[end + 8 :])]
            # The chunk is that of the first element, and the library's search ends after it.
            if head[:8] != _ONE or any(head[_HEAD + 8 : -8]) or len(node) != end + 8 + 8 * len(sizes):
                return None
            if all(map(operator.lt, behind, sizes)) or any(map(operator.mod, behind, sizes)) or behind[-1] > sizes[-1]:
                return None
            size, mask = int.from_bytes(head[24:28], "little"), int.from_bytes(head[28:32], "little")
            at = int.from_bytes(head[-8:], "little")
            if not 0 < size <= _MOST or (size != plan.size and not plan.encoding.codecs):
                return None
        if at == UNDEFINED or at + size > handle.key.size:
            return None
        raw = handle.exactly(size, at, self._context)
        values = _decoded(raw, mask, plan, plan.chunk or shape)
        if values is None:
            return None
        # A copy, since the chunk may be longer, and the array belongs to the caller.
        within: Any = (..., *(slice(n) for n in shape))
        whole: npt.NDArray[Any] = values[within]
        return whole.astype(plan.encoding.dtype.newbyteorder("="))


def name_of_path(path: bytes) -> str:
    """Return the path of a dataset in its file, as used in messages and readers."""
    return path.decode("utf-8", "surrogateescape").lstrip("/")


def _plan(alike: Alike, shape: tuple[int, ...], variable: Variable) -> _Plan | None:
    """Return the storage of the values of similar datasets, or `None` if they are not small and simple."""
    found = alike.object()
    header = alike.header
    if not is_plain(header.numbers) or variable.kind not in ("integer", "float", "char") or LAYOUT not in header.last:
        return None
    try:
        dtype = variable.dtype if variable.kind == "char" else np.dtype(type_of(found.messages[TYPE])[1])
        storage = storage_of(found.messages, shape, dtype, "")
    except ERRORS:
        return None
    if isinstance(storage, Contiguous):
        size, chunk, place, count = prod(shape) * dtype.itemsize, None, slice(2, 10), 1
    elif storage.tree is not None and found.messages[LAYOUT][0] == 3:
        chunk = storage.chunks
        size, place = prod(chunk) * dtype.itemsize, slice(3, 11)
        if any(n > c for n, c in zip(shape[1:], chunk[1:], strict=True)) or not _is_known(storage.encoding):
            return None
        count = -(-shape[0] // chunk[0]) if shape else 1
    else:
        return None
    is_small = 0 < size * count <= _MOST and count <= _CHUNKS and 0 not in shape
    return _Plan(storage.encoding, shape, chunk, size, place, count) if is_small else None


def _is_known(encoding: Encoding) -> bool:
    """Return whether all filters are supported here."""
    if not encoding.codecs:
        return True
    from cfagg.formats.values import filters

    return filters.known(encoding.codecs)


def _of_several(handle: Handle, tree: int, plan: _Plan, context: Context) -> npt.NDArray[Any] | None:
    """Return the values of several chunks, or `None` if these are incomplete, damaged or stored without a filter."""
    chunk = plan.chunk or ()
    size = plan.encoding.dtype.itemsize
    rows = listed(Head(handle), tree, chunk, plan.shape, plan.chunks, size) if tree < handle.key.size else None
    if rows is None or len(rows.offset) != plan.chunks:
        return None
    places, sizes = rows.offset, rows.size
    if rows.masks.any() or (places + sizes > handle.key.size).any():
        return None
    if sizes.sum() > _MOST or (not plan.encoding.codecs and (sizes != plan.size).any()):
        return None
    begin, end = int(places.min()), int((places + sizes).max())
    if end - begin <= _NEAR:
        near = handle.exactly(end - begin, begin, context)
        raws = [near[at : at + size] for at, size in zip((places - begin).tolist(), sizes.tolist(), strict=True)]
    else:
        raws = [handle.some(size, at, context) for at, size in zip(places.tolist(), sizes.tolist(), strict=True)]
        counters.add(bytes=sum(map(len, raws)))
    within = tuple([slice(n) for n in plan.shape])
    if plan.encoding.codecs:
        whole = _all_decoded(raws, plan, chunk)
        return None if whole is None else whole[within]
    raw = b"".join(raws)
    if len(raw) != plan.size * plan.chunks:
        return None
    return np.frombuffer(raw, plan.encoding.dtype).reshape(-1, *chunk[1:])[within]


def _all_decoded(raws: Sequence[bytes], plan: _Plan, chunk: tuple[int, ...]) -> npt.NDArray[Any] | None:
    """Return the values of chunks one behind the other, or `None` if the bytes of one are damaged."""
    from cfagg.formats.values import filters

    put = filters.placing(plan.encoding, chunk, None)
    out = np.empty((len(raws), prod(chunk)), plan.encoding.dtype)
    try:
        for raw, place in zip(raws, out, strict=True):
            put(raw, place)
    except filters.DamagedError:
        return None
    return out.reshape(-1, *chunk[1:])


def _decoded(raw: bytes, mask: int, plan: _Plan, shape: tuple[int, ...]) -> npt.NDArray[Any] | None:
    """Return values from the bytes of all or of a chunk, or `None` if these are damaged."""
    if not plan.encoding.codecs:
        return np.frombuffer(raw, plan.encoding.dtype).reshape(shape)
    from cfagg.formats.values import filters

    try:
        return filters.decode(np.frombuffer(raw, np.uint8), mask, plan.encoding, shape)
    except filters.DamagedError:
        return None
