"""Files opened in the HDF5 library, through h5py's low-level interface."""

from __future__ import annotations

import atexit
import contextlib
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.formats.values.pool import Pool
from cfagg.storage.files import Handle

__all__ = ["ERRORS", "address_of", "attribute_values", "close_hdf5", "file_of", "open_file", "read_slab", "release"]

#: Errors that h5py raises for damaged files.
ERRORS = (OSError, RuntimeError, ValueError, KeyError, TypeError, MemoryError, OverflowError)


def _open_path(path: str) -> Any:
    """Return a file opened for reading."""
    # HDF5 opens a file again only with the same settings as in the process so far, and only without a lock if another
    # program is writing it, so several settings are tried.
    import h5py

    name = path.encode("utf-8", "surrogateescape")
    first: OSError | None = None
    for locked in (True, False):
        for strong in (False, True):
            access = h5py.h5p.create(h5py.h5p.FILE_ACCESS)
            if strong:
                access.set_fclose_degree(h5py.h5f.CLOSE_STRONG)
            if not locked:
                access.set_file_locking(False, True)
            try:
                return h5py.h5f.open(name, h5py.h5f.ACC_RDONLY, access)
            except OSError as error:
                first = first or error
    assert first is not None  # noqa: S101 - the loops have run
    raise first


def open_file(handle: Handle) -> Any:
    """Return a file opened for reading, a remote one through a file object; it is not cached."""
    if handle.data is None:
        return _open_path(handle.library_path)
    import h5py

    _close_at_exit()
    return h5py.File(handle.data, "r").id


@cache
def _close_at_exit() -> None:
    """Close such files before Python shuts down, as the HDF5 library would crash if it then read them."""
    atexit.register(lambda: _pool.shrink(0))


def address_of(opened: Any) -> int:
    """Return the address of the header of an open object, relative to the start of HDF5."""
    # `h5py.h5o.get_info` also counts the bytes of the object's index of chunks, and crashes on a damaged one.
    import h5py

    low, high = h5py.h5g.get_objinfo(opened).objno
    return int(low | high << 32)  # the high part is used if a long has 32 bits


def attribute_values(attribute: Any) -> npt.NDArray[Any] | None:
    """Return the values of an attribute of numbers, in native byte order, or texts, or `None` for other types."""
    import h5py

    kind = attribute.get_type()
    is_text = isinstance(kind, h5py.h5t.TypeStringID)
    if not is_text and not isinstance(kind, h5py.h5t.TypeIntegerID | h5py.h5t.TypeFloatID):
        return None
    fixed = is_text and not kind.is_variable_str()
    values = np.empty(attribute.shape, f"S{kind.get_size()}" if fixed else attribute.dtype)
    # Texts of fixed length are read as stored: HDF5 does not convert UTF-8 to what h5py makes of the type of NumPy.
    attribute.read(values, mtype=kind if fixed else None)
    return values if is_text else values.astype(values.dtype.newbyteorder("="))


def read_slab(dataset: Any, parts: Sequence[slice], block: npt.NDArray[Any]) -> None:
    """Read a hyperslab that is not empty, whose steps are positive, into an array of its shape."""
    import h5py

    space = dataset.get_space()
    if parts:
        space.select_hyperslab(tuple(p.start for p in parts), block.shape, tuple(p.step or 1 for p in parts))
    memory = h5py.h5s.create_simple(block.shape) if parts else h5py.h5s.create(h5py.h5s.SCALAR)
    dataset.read(memory, space, block)


def close_hdf5(opened: Any) -> None:
    """Close a file that was only read, ignoring errors of the library."""
    with contextlib.suppress(OSError, RuntimeError):
        opened.close()


_pool = Pool(open_file, close_hdf5)


def file_of(handle: Handle) -> Any:
    """Return the low-level file of a handle; the library lock is held."""
    return _pool.get(handle)


def release(handle: Handle) -> None:
    """Close a file, so that it can be opened for writing; the library lock is held."""
    _pool.drop(handle)
