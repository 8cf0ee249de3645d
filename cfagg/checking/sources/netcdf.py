"""netCDF files of any format: which reader takes one is seen from its first bytes."""

from __future__ import annotations

import os

from cfagg.checking.model import Dataset
from cfagg.checking.sources import classic
from cfagg.errors import SourceError, SourceNotFoundError
from cfagg.readers.kinds import kind
from cfagg.storage.files import open_regular

__all__ = ["MAGIC_HDF5", "open_netcdf"]

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
    source = path if source is None else source
    head = first_bytes(path, source)
    if head[:4] in classic.MAGIC:
        return classic.open_classic(path, source)
    if head.startswith(MAGIC_HDF5):
        from cfagg.checking.sources.hdf5_fast import open_fast

        dataset = open_fast(path, source)
        if dataset is not None:
            return dataset
    if head.startswith(MAGIC_HDF5) or _behind_user_block(path):
        from cfagg.checking.sources.hdf5 import open_hdf5

        return open_hdf5(path, source)
    raise SourceError(not_netcdf(source, head))


def first_bytes(path: str, source: str, count: int = 512) -> bytes:
    """Return the first bytes of a regular file; nothing else is opened.

    Raises
    ------
    SourceError
        If it is none or cannot be read.
    """
    try:
        with open_regular(path) as handle:
            return handle.some(count, 0)
    except SourceNotFoundError as error:
        raise SourceNotFoundError(f"{source} is not there: there is no file or directory of that name") from error
    except SourceError as error:
        raise SourceError(f"{source} cannot be checked: {error.message.replace(path, 'it')}") from error


def _behind_user_block(path: str) -> bool:
    """Whether HDF5 begins behind a user block, whose size is a power of two."""
    with open(path, "rb") as file:  # noqa: PTH123
        at, size = 512, os.fstat(file.fileno()).st_size
        while at < size:
            file.seek(at)
            if file.read(8) == MAGIC_HDF5:
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
    return f"{source} is no netCDF file; expected netCDF, Zarr or CDL, found {what}"
