"""Choosing the reader for a file, and remembering the headers of the files used last."""

from __future__ import annotations

import math
import os
import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import Any

import numpy.typing as npt

from cfagg.cf.header import Header
from cfagg.readers import classic, contiguous, hdf5, hdf5_chunks, hdf5_header, netcdf
from cfagg.readers.files import Context, FileKey, look, open_plain, read_some
from cfagg.readers.located import Chunked, Contiguous, Library, Located

__all__ = ["forget", "locate", "read", "scan"]

#: Headers remembered, each some kilobytes.
REMEMBERED = 2048

#: From so many bytes on, HDF5 chunks are read directly; for less, the library is quicker.
DIRECT_BYTES = 2**16

#: Bytes at the start of a file that are read at once: most headers of netCDF-4 files stand there.
_HEAD = 2**13

_lock = threading.Lock()
_seen: OrderedDict[tuple[FileKey, str, str], Located] = OrderedDict()


def locate(path: str, address: str, context: Context, group: str = "/") -> Located:
    """Find a variable in a file, without reading values.

    Parameters
    ----------
    path : str
        Absolute path of a file that may be read.
    address : str
        Name or path of the variable.
    context : Context
        For whom, for messages.
    group : str
        Group from which a plain name is searched, upwards.

    Raises
    ------
    CfaggError
        ``context.missing`` where file or variable are not there; ``context.broken`` where the file cannot be read.
    """
    key = look(path, context)
    with _lock:
        found = _seen.get((key, address, group))
        if found is not None:
            _seen.move_to_end((key, address, group))
            return found
    found = _find(key, address, context, group)
    with _lock:
        _seen[key, address, group] = found
        while len(_seen) > REMEMBERED:
            _seen.popitem(last=False)
    return found


def forget() -> None:
    """Forget all headers, as in a new process."""
    with _lock:
        _seen.clear()


def read(located: Located, slices: Sequence[slice], context: Context) -> npt.NDArray[Any]:
    """Read a hyperslab of stored values, in native byte order and undecoded.

    Parameters
    ----------
    located : Located
        From `locate`.
    slices : sequence of slice
        One per dimension with 0 <= start <= stop <= size and a positive step.
    context : Context
        For whom, for messages.
    """
    key, storage, shape = located.key, located.storage, located.header.shape
    if isinstance(storage, Contiguous):
        return contiguous.read(key, storage, shape, slices, context)
    if isinstance(storage, Chunked):
        if _bytes(located, slices) >= DIRECT_BYTES and hdf5_chunks.can_read(storage):
            return hdf5_chunks.read(key, storage, slices, context)
        if _builtin(storage):
            return hdf5.read(key, storage.path, storage.dtype, slices, located.address, context)
    return netcdf.read(key.path, located.address, slices, context, located.group)


def scan(
    located: Located, slices: Sequence[slice], context: Context
) -> Iterator[tuple[tuple[slice, ...], npt.NDArray[Any]]]:
    """Yield a hyperslab in parts as they are decoded, each with its place in the hyperslab.

    Large chunks come one by one, in the file's byte order, so that no array of the whole is needed between the file and
    the output; a part is overwritten by the next.  All else comes as one.
    """
    storage = located.storage
    if (
        isinstance(storage, Chunked)
        and math.prod(storage.chunks) * storage.dtype.itemsize >= DIRECT_BYTES
        and _bytes(located, slices) >= DIRECT_BYTES
        and hdf5_chunks.can_read(storage)
    ):
        yield from hdf5_chunks.scan(located.key, storage, slices, context)
        return
    block = read(located, slices, context)
    yield tuple(slice(0, n) for n in block.shape), block


def _bytes(located: Located, slices: Sequence[slice]) -> int:
    size = located.header.dtype.itemsize
    for s in slices:
        size *= len(range(s.start, s.stop, s.step))
    return size


def _builtin(storage: Chunked) -> bool:
    """Whether every HDF5 library has the filters: checksum, shuffle, deflate."""
    return all(number in (1, 2, 3) for number, _ in storage.filters)


def _find(key: FileKey, address: str, context: Context, group: str) -> Located:
    found = None
    handle = open_plain(key, context)
    try:
        start = read_some(handle, _HEAD, 0, key, context)
        if start.startswith(netcdf.MAGIC_HDF5):
            found = hdf5_header.find(handle, start, key, address, group)
    finally:
        os.close(handle)
    if start.startswith(netcdf.MAGIC_CLASSIC):
        found = classic.find(key, address, context)
    elif found is None and start.startswith(netcdf.MAGIC_HDF5):
        found = hdf5.find(key, address, context, group)
    if found is not None:
        return found
    with netcdf.opened(key.path, context) as dataset:
        variable = netcdf.lookup(dataset, address, group)
        if variable is None:
            raise context.missing(
                context.said(f"{key.path} has no variable {address!r}; its variables are: {_names(dataset.variables)}")
            )
        header = Header(
            key.path,
            address,
            tuple(variable.dimensions),
            tuple(variable.shape),
            netcdf.dtype_of(variable),
            netcdf.attributes_of(variable),
        )
        chunking = None if dataset.data_model.startswith("NETCDF3") else variable.chunking()
    chunks = tuple(map(int, chunking)) if isinstance(chunking, list) and chunking else None
    return Located(key, address, group, header, Library(chunks))


def _names(names: object) -> str:
    """Return the first names of a file, for messages."""
    listed = sorted(str(n) for n in names)  # type: ignore[attr-defined]
    return ", ".join(listed[:20]) + (f" and {len(listed) - 20} more" if len(listed) > 20 else "") or "none"
