"""Proof that values of HDF5 datasets are sound before the HDF5 library reads them.

The library trusts a file's information on values of variable length, reads beyond the end of chunks that are too short,
and crashes on those that are shorter than their checksum.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt

from cfagg.formats.hdf5 import chunks
from cfagg.formats.hdf5.library import address_of, file_of, read_slab
from cfagg.formats.hdf5.library_variables import chunked
from cfagg.formats.hdf5.links import reach
from cfagg.formats.hdf5.proof import sound_of
from cfagg.formats.hdf5.space import UnsoundError, UnusualError
from cfagg.formats.values import contiguous, filters
from cfagg.formats.values.by_table import damaged
from cfagg.formats.values.netcdf4_names import stored_paths
from cfagg.formats.values.storage import Chunked, Contiguous
from cfagg.model.chunks import Encoding
from cfagg.storage.files import Context
from cfagg.storage.gate import Checked

__all__ = ["numbers", "prove_named", "prove_values"]


def prove_named(
    checked: Checked, slices: Sequence[slice], context: Context
) -> tuple[list[slice], npt.NDArray[Any] | None]:
    """Check the data that netCDF could read for a hyperslab of the variable at a path; the library lock is held."""
    # Return the part of the hyperslab that is stored: a variable may be shorter than its unlimited dimensions.  Return
    # its numbers, too, if possible: for chunks that were neither written nor filled, the library leaves old memory.
    file = file_of(checked.handle)
    stored, values = list(slices), None
    datasets = [d for p in stored_paths(checked.dataset) if isinstance(d := reach(file, p), h5py.h5d.DatasetID)]
    for found in datasets:
        shape = found.shape or ()
        if len(shape) == len(slices):
            stored = [slice(s.start, min(s.stop, n), s.step) for s, n in zip(slices, shape, strict=True)]
            if all(p.start < p.stop for p in stored):
                own = numbers(checked, found.get_create_plist(), found.dtype) if len(datasets) == 1 else None
                if own is not None:
                    values = chunks.read(checked, own, stored, context, found)
                else:
                    prove_values(checked, found, stored, context)
                    values = _of_any_length(found, stored) if len(datasets) == 1 else None
    return stored, values


def _of_any_length(dataset: Any, parts: Sequence[slice]) -> npt.NDArray[Any] | None:
    """Return values of variable length as the netCDF library does; `None` for others."""
    # That library crashes when a file that others have open, too, is opened after such values were read and it was
    # closed: its HDF5 still refers to the file that was closed.
    kind = dataset.get_type()
    text = isinstance(kind, h5py.h5t.TypeStringID) and kind.is_variable_str()
    base = kind.get_super().dtype if isinstance(kind, h5py.h5t.TypeVlenID) else np.dtype("O")
    if not text and not (base.kind in "iuf" and base.isnative):
        return None  # h5py does not swap the bytes of numbers in lists
    block = np.empty([len(range(p.start, p.stop, p.step or 1)) for p in parts], dataset.dtype)
    try:
        read_slab(dataset, parts, block)
    except OSError:
        return None  # h5py reads none from chunks that were never written; what is there has been proven above
    values = np.empty(block.size, object)
    if text:
        values[:] = [(value or b"").decode() for value in block.ravel().tolist()]
    else:
        for k, value in enumerate(block.ravel().tolist()):
            values[k] = np.asarray([] if value is None else value, base)
    return values.reshape(block.shape)


def numbers(checked: Checked, plist: Any, dtype: np.dtype[Any]) -> Chunked | None:
    """Return how numbers or characters are stored if they are decoded here; the library reads beyond short chunks."""
    if plist.get_layout() != h5py.h5d.CHUNKED or (dtype.kind not in "iuf" and dtype != "S1"):
        return None
    stored = chunked(plist, np.dtype(dtype.str), checked.dataset)
    return stored if chunks.can_read(stored) else None


def prove_values(checked: Checked, dataset: Any, slices: Sequence[slice], context: Context) -> None:
    """Check the values of a hyperslab before the library reads them; the library lock is held."""
    handle, plist = checked.handle, dataset.get_create_plist()
    sound = sound_of(handle, h5py.h5i.get_file_id(dataset))
    at = address_of(dataset)
    try:
        size, slots = sound.type(at)
        layout = plist.get_layout()
        if layout == h5py.h5d.CHUNKED:
            stored = chunked(plist, np.dtype(f"V{size}"), checked.dataset)
            if not filters.known(stored.encoding.codecs):
                if slots:
                    raise UnsoundError("it has values of variable length behind an unknown filter")
                for index, mask, data in chunks.raw(checked, stored, slices, context, dataset):
                    try:
                        filters.check_unknown(data, mask, stored.encoding, stored.chunks)
                    except filters.DamagedError as error:
                        raise damaged(checked, index, error, context) from error
                return
            parts = [v.tobytes() for _, v in chunks.scan(checked, stored, slices, context, dataset) if slots]
            raw = b"".join(parts)
        elif not slots:
            return
        elif layout == h5py.h5d.COMPACT:
            raw = sound.compact(at)
        else:
            offset = dataset.get_offset()
            if offset is None:
                return
            block = Contiguous(int(offset), 0, Encoding(np.dtype(f"V{size}")))
            raw = contiguous.read(checked, block, dataset.shape or (), slices, context).tobytes()
    except UnusualError as error:
        raise UnsoundError("its type or layout is damaged or unknown") from error
    if raw and not (len(raw) % size == 0 and sound.exist(raw, size, slots)):
        raise UnsoundError("it has values that are not where the file says")
