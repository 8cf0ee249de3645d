"""netCDF files of any format: which reader takes one is seen from its first bytes."""

from __future__ import annotations

from cfagg.errors import SourceError
from cfagg.formats.values.kinds import kind
from cfagg.model.dataset import Dataset
from cfagg.storage.files import Handle, open_regular

__all__ = ["MAGIC_HDF5", "of_handle", "open_netcdf", "opened"]

MAGIC_HDF5 = b"\x89HDF\r\n\x1a\n"


def open_netcdf(path: str, source: str | None = None) -> Dataset:
    """Return the model of a netCDF file.

    Parameters
    ----------
    path : str
        A file in a classic format or in HDF5.
    source : str, optional
        What messages call it: the path, if not given.

    Raises
    ------
    SourceError
        If it is not there, not a regular file, not netCDF or damaged.
    """
    handle = opened(path, path if source is None else source)
    try:
        return of_handle(handle, path)
    except BaseException:
        handle.close()
        raise


def of_handle(handle: Handle, path: str) -> Dataset:
    """Return the model of an open file, which is closed with it.

    Raises
    ------
    SourceError
        If it is not netCDF or damaged.
    """
    dataset = _of(handle)
    dataset.path = path
    return dataset


def _of(handle: Handle) -> Dataset:
    head = handle.some(512, 0)
    if head.startswith(b"CDF"):
        from cfagg.formats.metadata import classic

        if head[:4] in classic.MAGIC:
            return classic.open_classic(handle)
    if head.startswith(MAGIC_HDF5):
        from cfagg.formats.metadata.hdf5_fast import open_fast

        dataset = open_fast(handle)
        if dataset is not None:
            return dataset
    if head.startswith(MAGIC_HDF5) or _behind_user_block(handle):
        from cfagg.formats.metadata.hdf5 import open_hdf5

        return open_hdf5(handle)
    raise SourceError(not_netcdf(handle.key.path, head))


def opened(path: str, source: str) -> Handle:
    """Return a regular file under the name that messages call it; nothing else is opened.

    Raises
    ------
    SourceError
        If it is none or cannot be opened.
    """
    try:
        handle = open_regular(path)
    except SourceError as error:
        if path == source:
            raise
        raise type(error)(error.message.replace(path, source)) from error
    handle.key = handle.key._replace(path=source)
    return handle


def _behind_user_block(handle: Handle) -> bool:
    """Whether HDF5 begins behind a user block, whose size is a power of two."""
    at = 512
    while at < handle.key.size:
        if handle.some(8, at) == MAGIC_HDF5:
            return True
        at *= 2
    return False


def not_netcdf(source: str, head: bytes) -> str:
    """Return a message about a file that is not one of what can be checked."""
    if not head:
        return f"{source} is empty; expected netCDF or CDL"
    if head.startswith(b"CDF"):
        return f"{source} begins as classic netCDF of the unknown version {head[3:4]!r}; expected 1, 2 or 5"
    what = kind(head) or f"none: it begins with {head[:8]!r}"
    return f"{source} is not a netCDF file; expected netCDF, Zarr or CDL, found {what}"
