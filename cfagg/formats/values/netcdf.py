"""Reading through the netCDF-C library: any netCDF-3, netCDF-4 or CDF-5 file that was checked, under one lock.

The library reads all metadata when it opens a file, follows links to other files and does not check bounds in damaged
headers: it gets a file only after `check_file`.

Open files are kept in a pool of bounded size, the least recently used is closed first.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from cfagg.errors import UnsupportedError
from cfagg.formats.classic import variables as classic
from cfagg.formats.hdf5.space import UnsoundError
from cfagg.formats.opening import CLASSIC, HDF5, HEAD, format_of, not_netcdf
from cfagg.formats.values.locks import LIBRARY
from cfagg.formats.values.pool import Pool
from cfagg.runtime import netcdf_files
from cfagg.storage import counters
from cfagg.storage.files import CONTEXT_SOURCE, Context, Handle
from cfagg.storage.gate import WHOLE, Checked, admit
from cfagg.storage.handles import handles

if TYPE_CHECKING:
    import netCDF4

__all__ = [
    "attribute_names",
    "attributes_of",
    "check_file",
    "dataset_of",
    "dtype_of",
    "lookup",
    "opened",
    "opened_handle",
    "path_of",
    "read",
    "subgroup",
]

#: Errors of netCDF4-python about a file, a variable or its values.
_LIBRARY_ERRORS = (OSError, RuntimeError, ValueError, KeyError, IndexError, AttributeError, TypeError, MemoryError)


def dataset_of(path: str, mode: Literal["r", "a"]) -> netCDF4.Dataset:
    """Return the dataset of a checked file; if opening fails midway, it is closed."""
    # The object that netCDF4 leaves then refers to itself.  The garbage collector would close it at any time, in any
    # thread and without the lock, while another thread is inside the library, which would crash.
    import netCDF4

    dataset = netCDF4.Dataset.__new__(netCDF4.Dataset)
    try:
        dataset.__init__(path, mode)  # type: ignore[misc]
    except BaseException:
        with contextlib.suppress(*_LIBRARY_ERRORS):
            if dataset.isopen():
                dataset.close()
        raise
    return dataset


def _open(handle: Handle) -> netCDF4.Dataset:
    dataset = dataset_of(handle.library_path, "r")
    dataset.set_auto_maskandscale(False)
    dataset.set_auto_chartostring(False)
    dataset.set_always_mask(False)
    return dataset


def _close(dataset: netCDF4.Dataset) -> None:
    # It was only read, so errors of the library can be ignored.
    with contextlib.suppress(OSError, RuntimeError):
        netcdf_files.close(dataset)


_pool = Pool(_open, _close)


def check_file(handle: Handle, context: Context) -> Checked:
    """Admit a file to the netCDF library, by its format."""
    if handle.data is not None:
        raise UnsupportedError(
            context.said(
                f"{handle.key.path} needs the netCDF library, which cannot read from other machines: copy it to this "
                "machine"
            )
        )
    head = handle.some(HEAD, 0, context)
    form = format_of(handle, context, head)
    if form == CLASSIC:
        classic.names(handle, context)
        return admit(handle, WHOLE, (), context)
    if form != HDF5:
        raise context.damage(not_netcdf(handle.key.path, head, "netCDF, PP or a fields file"))
    from cfagg.formats.hdf5.links import followed

    return admit(handle, WHOLE, followed(handle, context), context)


@contextmanager
def opened(path: str, context: Context = CONTEXT_SOURCE) -> Iterator[netCDF4.Dataset]:
    """Hold the library lock and the file's dataset, for metadata only; its objects must not be kept."""
    with opened_handle(handles.get(path, context), context) as dataset:
        yield dataset


@contextmanager
def opened_handle(handle: Handle, context: Context = CONTEXT_SOURCE) -> Iterator[netCDF4.Dataset]:
    """Hold the library lock and the dataset of an open file, like `opened`."""
    with LIBRARY:
        try:
            yield _dataset(handle if _pool.has(handle) else check_file(handle, context).handle, context)
        except UnicodeDecodeError as error:
            raise context.damage(
                f"{handle.key.path} has a name that is not UTF-8: {error.object!r}; restore the file"
            ) from error
        except (AttributeError, RuntimeError, OSError) as error:
            # Damage that the library detects only when an attribute or a dimension is read.
            if not str(error).startswith("NetCDF: "):
                raise
            raise context.damage(
                f"{handle.key.path} is damaged; the library reports: {handle.said(error)}; restore or replace the file"
            ) from error


def _dataset(handle: Handle, context: Context) -> netCDF4.Dataset:
    """Return the dataset of a checked file; the library lock is held."""
    try:
        found: netCDF4.Dataset = _pool.get(handle)
    except _LIBRARY_ERRORS as error:
        raise context.damage(handle.failed(error)) from error
    return found


def attributes_of(item: netCDF4.Dataset | netCDF4.Variable[Any]) -> dict[str, Any]:
    """Return all attributes of a dataset, group or variable, as stored."""
    found = {}
    for name in item.ncattrs():
        try:
            found[name] = item.getncattr(name)
        except (KeyError, ValueError, TypeError) as error:
            raise UnsupportedError(
                f"attribute {name!r} of {item.name!r} has a type that cannot be read: {error}"
            ) from error
    return found


def attribute_names(path: str) -> list[list[str]]:
    """Return the attribute names of every variable of a file, in all its groups; values are not read."""
    with opened(path, CONTEXT_SOURCE) as dataset:
        todo, found = [dataset], []
        while todo:
            group = todo.pop()
            found += [list(v.ncattrs()) for v in group.variables.values()]
            todo += group.groups.values()
    return found


def dtype_of(variable: netCDF4.Variable[Any]) -> np.dtype[Any]:
    """Return a variable's type in native byte order; variable lengths are `object`, enumerations as in xarray."""
    if variable.dtype is str:
        return np.dtype("O", metadata={"element_type": str})
    dtype: np.dtype[Any] = np.dtype(variable.dtype)
    if variable._isvlen:
        return np.dtype("O", metadata={"vlen": dtype})
    dtype = dtype.newbyteorder("=")
    if variable._isenum:
        kind: Any = variable.datatype
        return np.dtype(dtype.str, metadata={"enum": dict(kind.enum_dict), "enum_name": kind.name})
    return dtype


def lookup(dataset: netCDF4.Dataset, address: str, group: str = "/") -> netCDF4.Variable[Any] | None:
    """Return the variable at a name or path, searched from `group` upwards, or `None`."""
    where, _, name = address.rpartition("/")
    start = "/" if address.startswith("/") else group
    here = subgroup(dataset, start)
    while here is not None:
        found = subgroup(here, where)
        if found is not None and name in found.variables:
            return found.variables[name]
        here = here.parent
    return None


def subgroup(dataset: netCDF4.Dataset, path: str) -> netCDF4.Dataset | None:
    """Return the group at `path` below `dataset`, or `None`; ``.`` and ``..`` are not group names."""
    for part in path.split("/"):
        if part:
            if part not in dataset.groups:
                return None
            dataset = dataset.groups[part]
    return dataset


def path_of(variable: netCDF4.Variable[Any]) -> str:
    """Return a variable's path in its file."""
    return f"{variable.group().path.rstrip('/')}/{variable.name}"


def _extended(
    variable: netCDF4.Variable[Any], key: Sequence[slice], stored: Sequence[slice], known: npt.NDArray[Any] | None
) -> Any:
    """Read what is stored of a hyperslab, unless `known`, and fill the rest, which the library does not always."""
    import netCDF4

    shape = [len(range(k.start, k.stop, k.step or 1)) for k in key]
    if variable.dtype is not str and variable._isvlen:
        values: npt.NDArray[Any] = np.empty(shape, object)
        for i in range(values.size):
            values.flat[i] = np.empty(0, variable.dtype)
    else:
        dtype = np.dtype("O" if variable.dtype is str else variable.dtype)
        default = "" if dtype.kind == "O" else netCDF4.default_fillvals.get(dtype.str[1:], 0)
        fill = variable.getncattr("_FillValue") if "_FillValue" in variable.ncattrs() else default
        values = np.full(shape, fill, dtype)
    inner = tuple(slice(0, len(range(s.start, s.stop, s.step or 1))) for s in stored)
    if all(part.stop for part in inner):
        values[inner] = variable[tuple(stored)] if known is None else known
    return values


def _remedy(error: Exception) -> str:
    """Return what to do about an error of the library."""
    if "undefined filter" in str(error):  # the file is whole, but nothing here undoes its compression
        return "rewrite it without that compression where it can be read (nccopy -F none), or set HDF5_PLUGIN_PATH"
    return "restore the file"


def read(checked: Checked, key: Sequence[slice], context: Context) -> npt.NDArray[Any]:
    """Read a hyperslab as stored, in native byte order, without joining characters; steps are positive."""
    path, address = checked.handle.key.path, checked.dataset
    with opened_handle(checked.handle, context) as dataset:
        variable = lookup(dataset, address)
        if variable is None:
            raise context.absence(f"{path} has no variable {address!r}")
        dtype, stored, known = dtype_of(variable), list(key), None
        try:
            if dataset.disk_format == "HDF5":
                from cfagg.formats.hdf5.proof_values import prove_named

                stored, known = prove_named(checked, key, context)
            if stored != list(key):
                values = _extended(variable, key, stored, known)
            elif known is not None:
                values = known
            else:
                values = variable[tuple(key)] if key else variable[...]
        except UnsoundError as error:
            raise context.damage(f"variable {address!r} of {path} cannot be read: {error}; restore the file") from error
        except _LIBRARY_ERRORS as error:
            raise context.damage(
                f"variable {address!r} of {path} cannot be read; the library reports: {error}; {_remedy(error)}"
            ) from error
    if dtype.kind == "O":
        if isinstance(values, np.ndarray) and values.dtype == object:
            block = values
        else:
            # A scalar is a str or the array of a list, of which NumPy must not make a text of fixed width or several.
            block = np.empty((), object)
            block.flat[0] = values
    else:
        block = np.asarray(values)
    counters.add(bytes=block.nbytes)
    if not block.dtype.isnative:
        block = block.astype(block.dtype.newbyteorder("="))
    return block
