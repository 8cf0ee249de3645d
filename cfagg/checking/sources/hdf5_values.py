"""Values of HDF5 datasets, read through h5py's low-level interface as they are stored.

What stands in other files (external storage, virtual datasets) is not read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.errors import AccessError, FragmentReadError
from cfagg.readers.locks import LIBRARY

__all__ = ["ERRORS", "Values", "opened"]

#: What h5py raises about a damaged file.
ERRORS = (OSError, RuntimeError, ValueError, KeyError, TypeError, MemoryError, OverflowError)


def opened(path: str) -> Any:
    """Return a file that is only read.

    HDF5 opens a file again only in the way in which the process has it open already, and without a lock one that
    another program is writing; so several ways are tried.
    """
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


class Values:
    """Reads hyperslabs of one dataset, as stored.

    Parameters
    ----------
    find : callable
        Returns the low-level dataset.
    where : str
        What messages call it.
    """

    __slots__ = ("find", "where")

    def __init__(self, find: Callable[[], Any], where: str) -> None:
        self.find, self.where = find, where

    def __call__(self, slices: tuple[slice, ...]) -> npt.NDArray[Any]:
        """Return the values of a hyperslab."""
        import h5py

        with LIBRARY:
            try:
                # Opened for each read: what stays open would keep the file open.
                dataset = self.find()
                plist = dataset.get_create_plist()
                if not plist.get_external_count() and plist.get_layout() != h5py.h5d.VIRTUAL:
                    return _read(h5py, dataset, slices)
            except ERRORS as error:
                raise FragmentReadError(
                    f"{self.where}: its values cannot be read, the HDF5 library says: {error}; copy or make the "
                    "file again"
                ) from error
        raise AccessError(f"{self.where}: its values stand in other files (HDF5 external storage); not read")


def _read(h5: Any, dataset: Any, slices: tuple[slice, ...]) -> npt.NDArray[Any]:
    shape = dataset.shape or ()  # of a space without any element there is none
    ranges = [range(s.start or 0, s.stop, s.step or 1) for s in slices]
    counts = tuple(map(len, ranges))
    dtype = dataset.dtype
    text = isinstance(dataset.get_type(), h5.h5t.TypeStringID)
    native = dtype if dtype.kind in "OSV" else dtype.newbyteorder("=")
    if len(shape) != len(counts) or 0 in counts:
        return np.empty(counts, object if native.kind in "OV" else native)
    if dataset.get_space().get_simple_extent_type() == h5.h5s.NULL:
        return np.full(counts, _fill(h5, dataset, native), native)
    # A netCDF dimension that may grow can be longer than the dataset: what is behind its end was never written.
    stored = tuple(len(range(*s.indices(n))) for s, n in zip(slices, shape, strict=True))
    block = np.empty(stored, native)
    if 0 not in stored:
        space = dataset.get_space()
        if stored:
            space.select_hyperslab(tuple(r.start for r in ranges), stored, tuple(r.step for r in ranges))
        memory = h5.h5s.create_simple(stored) if stored else h5.h5s.create(h5.h5s.SCALAR)
        dataset.read(memory, space, block)
    if stored != counts:
        whole = np.full(counts, _fill(h5, dataset, native), native)
        whole[tuple(slice(n) for n in stored)] = block
        block = whole
    if text and native.kind == "S" and native.itemsize > 1:
        return block.astype(object)
    return block


def _fill(h5: Any, dataset: Any, dtype: np.dtype[Any]) -> Any:
    """Return the value of what was never written."""
    if dtype.kind not in "iufS":
        return b""
    value = np.zeros((), dtype)
    plist = dataset.get_create_plist()
    if plist.fill_value_defined() != h5.h5d.FILL_VALUE_UNDEFINED:
        plist.get_fill_value(value)
    return value[()]
