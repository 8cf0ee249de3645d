"""Opening the sources of checks: paths, URLs and objects of other libraries."""

from __future__ import annotations

import os
import re
from typing import Any

from cfagg.arrays.datasets import dataset_of, other_than_netcdf, referenced, with_aggregations, with_readers
from cfagg.checking.options import Options
from cfagg.errors import SourceError
from cfagg.formats.metadata.standard_input import StandardInput, saved_input
from cfagg.formats.opening import a_name, is_referring
from cfagg.model.dataset import Dataset
from cfagg.storage.files import Handle, open_regular

__all__ = ["open_dataset", "open_file"]

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_LOCAL = re.compile(r"file://(?:localhost)?/", re.IGNORECASE)


def open_dataset(source: Any, *, options: Options | None = None) -> Dataset:
    """Return the model of a dataset, which must be closed or used in a ``with`` statement.

    The source may be a path or URL of a netCDF or CDL file or of Zarr; an `xarray.Dataset`, `xarray.DataArray` or
    `xarray.DataTree`; an open `netCDF4.Dataset`, `h5py.File` or `zarr.Group`.
    """
    dataset = _open(source, options or Options())
    try:
        return with_readers(with_aggregations(dataset))
    except BaseException:
        if dataset.close is not None:
            dataset.close()
        raise


def open_file(path: str, name: str) -> Dataset:
    """Return the model of a file called `name`, which may already be open; close it as that of `open_dataset`."""
    return with_readers(with_aggregations(dataset_of(_regular(path, name), foreign=False)))


def _open(source: Any, options: Options) -> Dataset:
    if isinstance(source, Dataset):
        return source
    if isinstance(source, StandardInput):
        return _standard_input(str(source))
    if isinstance(source, bytes):
        source = os.fsdecode(source)
    if isinstance(source, str) and _LOCAL.match(source):
        return _path(_local(source), options)
    if isinstance(source, str) and _URL.match(source):
        from cfagg.formats.metadata.url import open_url

        given = None if options.storage is None else options.storage.given
        return open_url(source, options.allow, options.timeout, given, other_than_netcdf)
    if isinstance(source, str | os.PathLike):
        return _path(os.fspath(source), options)
    from cfagg.formats.metadata.objects import open_object

    return open_object(source)


def _local(url: str) -> str:
    """Return the path in a URL of a file, without the options for the netCDF library that follow it.

    >>> _local("file:///data/a%20b.zarr#mode=nczarr,file")
    '/data/a b.zarr'
    """
    from urllib.parse import unquote

    return unquote(_LOCAL.sub("/", url).partition("#")[0])


def _path(path: str, options: Options) -> Dataset:
    path = a_name(path)
    if os.path.isdir(path):  # noqa: PTH112 - Path costs more
        from cfagg.formats.metadata.zarr import open_zarr

        if is_referring(path):
            return referenced(path, options.allow)
        return open_zarr(path, [a for a in options.allow if "://" not in a])
    return dataset_of(open_regular(path), allow=options.allow)


def _standard_input(name: str) -> Dataset:
    """Return the dataset on standard input, which has no name and no location."""
    path = saved_input()
    try:
        dataset = dataset_of(_regular(path, name))
    except BaseException:
        os.unlink(path)  # noqa: PTH108
        raise
    inner = dataset.close

    def close() -> None:
        try:
            if inner is not None:
                inner()
        finally:
            os.unlink(path)  # noqa: PTH108

    dataset.close, dataset.path = close, None
    return dataset


def _regular(path: str, name: str) -> Handle:
    """Return a regular file under the name that messages use; nothing else is opened."""
    try:
        handle = open_regular(path)
    except SourceError as error:
        if path == name:
            raise
        raise type(error)(error.message.replace(path, name)) from error
    handle.key = handle.key._replace(path=name)
    return handle
