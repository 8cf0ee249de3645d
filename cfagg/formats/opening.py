"""Detection of formats by content, in one place.

A file is identified by the bytes of an open handle, so that the same file is read afterwards; a directory by the
documents of a Zarr store.  Names only matter if the content is ambiguous: text in a file that ends with ``.cdl``.
"""

from __future__ import annotations

import os

from cfagg.errors import AccessError, SourceError
from cfagg.formats import cdl, classic, hdf5, kerchunk, pp
from cfagg.formats.protocol import Format
from cfagg.formats.values.kinds import kind
from cfagg.storage.files import CONTEXT_SOURCE, Context, Handle
from cfagg.storage.urls import Url

__all__ = [
    "BRANCH",
    "CDL",
    "CLASSIC",
    "EXPECTED",
    "FORMATS",
    "HDF5",
    "HEAD",
    "KERCHUNK",
    "NETCDF",
    "ZIP",
    "a_name",
    "built_in",
    "format_of",
    "format_of_head",
    "is_referring",
    "is_repository",
    "is_store",
    "leaves_traces",
    "not_netcdf",
]

#: The built-in file formats; those of other packages come after them.
FORMATS: tuple[Format, ...] = (classic.FORMAT, hdf5.FORMAT, cdl.FORMAT, pp.FORMAT, kerchunk.FORMAT)

#: Results of `format_of`.
CLASSIC, HDF5, CDL = classic.FORMAT.name, hdf5.FORMAT.name, cdl.FORMAT.name
KERCHUNK = kerchunk.FORMAT.name
ZIP = "Zip"

#: Formats that are read as netCDF, or refused with a message about netCDF.
NETCDF = (CLASSIC, HDF5, CDL, ZIP)

#: Formats that can be checked, for messages.
EXPECTED = "netCDF, Zarr, PP, a fields file or CDL"

#: First bytes of a file that are examined; CDL may begin with comments.
HEAD = 4096

#: Documents of which every Zarr store has one, and others that remain in damaged stores.
_STORE = ("zarr.json", ".zgroup", ".zarray")
_TRACES = (".zmetadata", ".zattrs", ".nczarr")

#: The branch of repositories of Icechunk that is read.
BRANCH = "main"


def a_name(path: str) -> str:
    """Return a local path, with the home directory for ``~``."""
    if not path or "\0" in path:
        raise SourceError(f"{path!r} is not a file name")
    return os.path.expanduser(path)  # noqa: PTH111


def format_of(handle: Handle, context: Context = CONTEXT_SOURCE, head: bytes | None = None) -> str | None:
    """Return the format of an open file with the first bytes `head`, or `None` if it is not a known one."""
    if head is None:
        head = handle.some(HEAD, 0, context)
    found = format_of_head(head)
    # As in the HDF5 library, since a user block may contain anything, even the beginning of another format.
    if found not in (CLASSIC, HDF5) and _has_user_block(handle, context):
        return HDF5
    return found


def built_in(handle: Handle, context: Context = CONTEXT_SOURCE, head: bytes | None = None) -> Format | None:
    """Return the built-in format of an open file, like `format_of`."""
    if head is not None and hdf5.FORMAT.recognise(head, ""):  # the usual one for thousands of fragments
        return hdf5.FORMAT
    name = format_of(handle, context, head)
    return next((form for form in FORMATS if form.name == name), None)


def format_of_head(head: bytes) -> str | None:
    r"""Return the format of a file by its first bytes alone, which do not show HDF5 after a user block.

    >>> format_of_head(b"CDF\x01"), format_of_head(b"// a comment\nnetcdf a {}"), format_of_head(b"CDF\x03")
    ('classic netCDF', 'CDL', None)
    """
    if head.startswith(b"PK\x03\x04"):
        return ZIP
    return next((form.name for form in FORMATS if form.recognise(head, "")), None)


def _has_user_block(handle: Handle, context: Context) -> bool:
    """Return whether HDF5 begins after a user block, at 512, 1024, 2048, … bytes, as in the HDF5 library."""
    offset = 512
    while offset + len(hdf5.MAGIC) <= handle.key.size:
        if handle.some(len(hdf5.MAGIC), offset, context) == hdf5.MAGIC:
            return True
        offset *= 2
    return False


def not_netcdf(name: str, head: bytes, expected: str) -> str:
    r"""Return the message about a file that cannot be read, which names its actual format.

    >>> not_netcdf("a.nc", b"GRIB\0\0\0\2", "netCDF")
    'a.nc is not a netCDF file: it is GRIB; expected netCDF'
    """
    if not head:
        found = "it is empty"
    elif head.startswith(b"CDF") and len(head) > 3:
        found = f"it begins as classic netCDF of the unknown version {head[3]}, not 1, 2 or 5"
    elif format_of_head(head) == CDL:
        found = "it is CDL, the text from which ncgen makes netCDF"
    else:
        known = kind(head)
        found = f"it is {known}" if known else f"it starts with {head[:8]!r}"
        if known and known.startswith(pp.FORMAT.name) and format_of_head(head) is None:
            found = f"it begins as {known}, but the header of its first field is cut or damaged"
    return f"{name} is not a netCDF file: {found}; expected {expected}"


def is_store(path: str | os.PathLike[str]) -> bool:
    """Return whether a directory is a Zarr group or array; False if it cannot be read."""
    return any(os.path.lexists(f"{os.fspath(path)}/{name}") for name in _STORE)


def is_referring(path: str) -> bool:
    """Return whether a directory contains references in Parquet, and no store."""
    if is_store(path) or not os.path.lexists(f"{path}/.zmetadata"):
        return False
    from cfagg.formats.kerchunk.store import is_directory

    return is_directory(path)


def leaves_traces(path: str | os.PathLike[str]) -> bool:
    """Return whether a directory is a Zarr store or the remains of one, which a check reports."""
    return is_store(path) or any(os.path.lexists(f"{os.fspath(path)}/{name}") for name in _TRACES)


def is_repository(path: str | Url) -> bool:
    """Return whether a directory, or a prefix in S3, looks like a repository of Icechunk, which is not a Zarr store."""
    if isinstance(path, Url):
        if not path.lower().startswith("s3://"):
            return False
        from cfagg.storage.places import new_source

        source = new_source(path, path.rstrip("/"))
        try:
            if source.size("zarr.json") is not None:
                return False
            return any(source.size(key) is not None for key in ("repo", f"refs/branch.{BRANCH}/ref.json"))
        except AccessError:
            return False  # S3 reports this for objects that do not exist
    if not os.path.isdir(path):  # noqa: PTH112
        return False
    from cfagg.formats.zarr.documents import is_icechunk

    return is_icechunk(path)
