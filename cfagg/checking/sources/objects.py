"""Datasets that another library has opened or made: which reader takes one is seen from where its type comes from."""

from __future__ import annotations

from typing import Any

from cfagg.checking.model import Dataset
from cfagg.errors import SourceError

__all__ = ["open_object"]


def open_object(source: Any) -> Dataset:
    """Return the model of an object.

    Parameters
    ----------
    source : object
        An `xarray.Dataset`, `xarray.DataArray` or `xarray.DataTree`; an open `netCDF4.Dataset`, `h5py.File` or
        `zarr.Group`.

    Raises
    ------
    SourceError
        If it is something else.
    """
    # By name, so that no library is loaded that the object does not come from.
    for type_ in type(source).__mro__:
        known = type_.__module__.partition(".")[0], type_.__name__
        if known[0] == "xarray" and known[1] in ("Dataset", "DataArray", "DataTree"):
            from cfagg.checking.sources.xarray import open_xarray

            return open_xarray(source)
        if known == ("netCDF4", "Dataset"):
            from cfagg.checking.sources.netcdf4 import open_netcdf4

            return open_netcdf4(source)
        if known == ("h5py", "File"):
            return _h5py(source)
        if known[0] == "zarr" and known[1] in ("Group", "Array"):
            from cfagg.checking.sources.stores import MemoryStore
            from cfagg.checking.sources.zarr import open_store

            return open_store(MemoryStore(source.store, source.path, f"zarr.{known[1]} {source.store_path}"))
    raise SourceError(
        f"an object of type {type(source).__module__}.{type(source).__qualname__} cannot be checked; expected a path, "
        "a URL, an xarray.Dataset, DataArray or DataTree, or an open netCDF4.Dataset, h5py.File or zarr.Group"
    )


def _h5py(file: Any) -> Dataset:
    from cfagg.checking.sources.hdf5 import open_file

    return open_file(file.id, f"h5py.File {file.filename}")
