"""Values of HDF5 datasets, read as stored through h5py's low-level interface.

The gate admits each dataset before it is read, except those with values in other files.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt

from cfagg.errors import AccessError, FragmentReadError, LimitError
from cfagg.formats.codecs import check_chunk
from cfagg.formats.hdf5 import chunks
from cfagg.formats.hdf5.library import ERRORS, read_slab
from cfagg.formats.hdf5.library_variables import fill
from cfagg.formats.hdf5.links import LeavesError, outside, reach
from cfagg.formats.hdf5.proof import prove_file
from cfagg.formats.hdf5.proof_values import numbers, prove_values
from cfagg.formats.hdf5.space import UnsoundError
from cfagg.formats.values.locks import LIBRARY
from cfagg.storage.files import CONTEXT_SOURCE, Handle
from cfagg.storage.gate import Checked, Reference, admit

__all__ = ["Values"]


class Values:
    """Reads hyperslabs of the dataset at a path, as stored, from the low-level file that `file` returns."""

    __slots__ = ("file", "handle", "path", "where")

    def __init__(self, handle: Handle, file: Callable[[], Any], path: bytes, where: str) -> None:
        self.handle, self.file, self.path, self.where = handle, file, path, where

    def __call__(self, slices: tuple[slice, ...]) -> npt.NDArray[Any]:
        """Return the values of a hyperslab."""
        with LIBRARY:
            try:
                # Opened for each read, since an open dataset would keep the file open.
                dataset, leads = self._found()
                return _read(admit(self.handle, self.path.decode("utf-8", "replace"), leads), dataset, slices)
            except (AccessError, LimitError, FragmentReadError):
                raise
            except UnsoundError as error:
                raise FragmentReadError(
                    f"{self.where}: its values cannot be read: {error}; copy or write the file again"
                ) from error
            except ERRORS as error:
                raise FragmentReadError(
                    f"{self.where}: its values cannot be read; the HDF5 library reports: {error}; copy or write the "
                    "file again"
                ) from error

    def _found(self) -> tuple[Any, list[Reference]]:
        """Return the low-level dataset, and its references, or those on its path, out of the file."""
        file = self.file()
        prove_file(self.handle, file)
        try:
            found = reach(file, self.path.decode("utf-8", "surrogateescape"))
        except LeavesError as error:
            return None, [error.reference]
        if not isinstance(found, h5py.h5d.DatasetID):
            raise KeyError(f"there is no dataset {self.path!r}")
        return found, outside(found)


def _read(checked: Checked, dataset: Any, slices: tuple[slice, ...]) -> npt.NDArray[Any]:
    """Read a hyperslab of a dataset of a file that is still open."""
    checked.handle  # noqa: B018 - raises where the file was closed since
    shape = dataset.shape or ()  # None for a space without any element
    ranges = [range(s.start or 0, s.stop, s.step or 1) for s in slices]
    counts = tuple(map(len, ranges))
    dtype = dataset.dtype
    text = isinstance(dataset.get_type(), h5py.h5t.TypeStringID)
    native = dtype if dtype.kind in "OSV" else dtype.newbyteorder("=")
    if len(shape) != len(counts) or 0 in counts:
        return np.empty(counts, object if native.kind in "OV" else native)
    if dataset.get_space().get_simple_extent_type() == h5py.h5s.NULL:
        return np.full(counts, _fill(dataset, native), native)
    plist = dataset.get_create_plist()
    if plist.get_layout() == h5py.h5d.CHUNKED:
        # The library allocates memory for a whole chunk, even if little of it is read.
        size = dataset.get_type().get_size()
        check_chunk(math.prod(plist.get_chunk()) * size, f"a chunk of {checked.dataset!r} in {checked.handle.key.path}")
    # An unlimited netCDF dimension can be longer than the dataset, beyond whose end nothing was written.
    stored = tuple(len(range(*s.indices(n))) for s, n in zip(slices, shape, strict=True))
    # The library leaves what was neither written nor filled as it is.
    block = np.empty(stored, native) if native.hasobject else np.zeros(stored, native)
    own = numbers(checked, plist, dtype)
    parts = [slice(r.start, r.start + (n - 1) * r.step + 1, r.step) for r, n in zip(ranges, stored, strict=True) if n]
    if 0 not in stored and own is not None:
        block[...] = chunks.read(checked, own, parts, CONTEXT_SOURCE, dataset)
    elif 0 not in stored:
        prove_values(checked, dataset, parts, CONTEXT_SOURCE)
        read_slab(dataset, parts, block)
    if stored != counts:
        whole = np.full(counts, _fill(dataset, native), native)
        whole[tuple(slice(n) for n in stored)] = block
        block = whole
    if text and native.kind == "S" and native.itemsize > 1:
        return block.astype(object)
    return block


def _fill(dataset: Any, dtype: np.dtype[Any]) -> Any:
    """Return the value of unwritten elements."""
    return fill(dataset) if dtype.kind in "iufS" else b""
