"""netCDF files of any format: which reader takes one is seen from its first bytes."""

from __future__ import annotations

from cfagg.errors import SourceError
from cfagg.formats.opening import CDL, HEAD, built_in, not_netcdf
from cfagg.model.dataset import Dataset
from cfagg.storage.files import Handle, open_regular

__all__ = ["EXPECTED", "of_handle", "open_netcdf", "opened"]

#: What can be checked, for messages.
EXPECTED = "netCDF, Zarr or CDL"


def open_netcdf(path: str, source: str | None = None) -> Dataset:
    """Return the model of a netCDF file, which messages call `source`."""
    handle = opened(path, path if source is None else source)
    try:
        return of_handle(handle, path)
    except BaseException:
        handle.close()
        raise


def of_handle(handle: Handle, path: str) -> Dataset:
    """Return the model of an open file, which is closed with it."""
    dataset = _of(handle)
    dataset.path = path
    return dataset


def _of(handle: Handle) -> Dataset:
    head = handle.some(HEAD, 0)
    form = built_in(handle, head=head)
    if form is None or form.name == CDL:
        raise SourceError(not_netcdf(handle.key.path, head, EXPECTED))
    return form.open(handle)


def opened(path: str, source: str) -> Handle:
    """Return a regular file under the name that messages call it; nothing else is opened."""
    try:
        handle = open_regular(path)
    except SourceError as error:
        if path == source:
            raise
        raise type(error)(error.message.replace(path, source)) from error
    handle.key = handle.key._replace(path=source)
    return handle
