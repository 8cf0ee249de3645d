"""Datasets opened or created by another library: the module of its type selects the reader."""

from __future__ import annotations

import os
from typing import Any

from cfagg.errors import LimitError, SourceError
from cfagg.model.dataset import Dataset

__all__ = ["open_object"]

#: Bytes of the largest file for which h5py does not use its default driver.
_LARGEST = 1 << 28


def open_object(source: Any) -> Dataset:
    """Return the model of an object of xarray, or of an open one of netCDF4, h5py or zarr."""
    # By name, so that no other library is loaded.
    for type_ in type(source).__mro__:
        known = type_.__module__.partition(".")[0], type_.__name__
        if known[0] == "xarray" and known[1] in ("Dataset", "DataArray", "DataTree"):
            from cfagg.formats.metadata.xarray import open_xarray

            return open_xarray(source)
        if known == ("netCDF4", "Dataset"):
            from cfagg.formats.metadata.netcdf4 import open_netcdf4

            return open_netcdf4(source)
        if known == ("h5py", "File"):
            return _h5py(source)
        if known[0] == "zarr" and known[1] in ("Group", "Array"):
            from cfagg.formats.metadata.stores import MemoryStore
            from cfagg.formats.metadata.zarr import open_store

            return open_store(MemoryStore(source.store, source.path, f"zarr.{known[1]} {source.store_path}"))
    raise SourceError(
        f"source: an object of type {type(source).__module__}.{type(source).__qualname__} cannot be checked; expected "
        "a path, a URL, an xarray.Dataset, DataArray or DataTree, or an open netCDF4.Dataset, h5py.File or zarr.Group"
    )


def _h5py(file: Any) -> Dataset:
    """Return the model of a file that h5py has open, with attributes read from its bytes."""
    from cfagg.formats.hdf5.library_dataset import describe
    from cfagg.storage.files import Borrowed

    source = f"h5py.File {file.filename}"
    if file.mode != "r":
        file.flush()
    if file.driver == "sec2":
        # The file that the library actually has open, since its name may now be that of another one.
        return describe(file.id, Borrowed(source, _Open(file.id)))
    size = file.id.get_filesize()
    if size > _LARGEST:
        raise LimitError(f"{source} has {size:,} bytes, but only {_LARGEST:,} are read in memory; give its path")
    return describe(file.id, Borrowed(source, file.id.get_file_image()))


class _Open:
    """The bytes of a file that h5py has open."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def __len__(self) -> int:
        return os.fstat(self._file.get_vfd_handle()).st_size

    def __getitem__(self, where: slice) -> bytes:
        return os.pread(self._file.get_vfd_handle(), max(where.stop - where.start, 0), where.start)
