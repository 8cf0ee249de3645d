"""Changing attributes of a netCDF file with the netCDF library."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from cfagg.errors import TargetError
from cfagg.formats.hdf5.library import ERRORS, release
from cfagg.formats.hdf5.library_variables import strings_of
from cfagg.formats.hdf5.reordering import reorder
from cfagg.formats.values.locks import LIBRARY
from cfagg.formats.values.netcdf import check_file, dataset_of
from cfagg.runtime.netcdf_files import closing_written
from cfagg.runtime.publishing import reason
from cfagg.storage.files import CONTEXT_SOURCE, lock_trouble, open_regular

if TYPE_CHECKING:
    from cfagg.checking.changes import Change

__all__ = ["change"]

#: The error of the netCDF library about HDF5 files that are not of netCDF-4.
_CANNOT_WRITE = -103


def change(path: str, changes: Iterable[Change]) -> list[str]:
    """Change attributes of a file and return sentences about those that could not be changed.

    Raises `AccessError` if the netCDF library would follow the file to another one, and `SourceError` if it is damaged.
    """
    refused = []
    with LIBRARY:
        with open_regular(path) as handle:
            # The library follows links out of a file even if it only changes attributes.
            check_file(handle, CONTEXT_SOURCE)
            changes = list(changes)
            strings = strings_of(handle, [(c.path or "/", c.attribute) for c in changes if isinstance(c.after, str)])
            release(handle)
        try:
            file = dataset_of(path, "a")
        except (OSError, RuntimeError) as error:
            with open_regular(path) as handle:
                said = lock_trouble(handle.fd) or (reason(error, path) if isinstance(error, OSError) else error)
            if isinstance(error, OSError) and error.errno == _CANNOT_WRITE:
                said = f"{said}, as in HDF5 files without an order of creation; convert it to netCDF-4 first"
            raise TargetError(f"{path}: the netCDF library cannot write to a copy: {said}") from error
        orders: dict[str, list[str]] = {}
        is_hdf5 = file.data_model.startswith("NETCDF4")
        try:
            with closing_written(file, path):
                for one in changes:
                    try:
                        string = (one.path or "/", one.name) in strings
                        owner = _owner(file, one.path)
                        former = orders.setdefault(one.path or "/", owner.ncattrs())
                        _change(file, owner, one, string=string)
                        orders[one.path or "/"] = _in_place(former, one)
                    except (OSError, RuntimeError, AttributeError, LookupError, ValueError, TypeError) as error:
                        where = f"{one.path or ''}:{one.attribute}"
                        refused.append(f"{one.code}: {where}: the netCDF library does not let it be changed: {error}")
        except OSError as error:
            raise TargetError(f"{path}: {reason(error, path)}") from error
        if is_hdf5:
            try:
                reorder(path, orders)
            except ERRORS as error:
                why = reason(error, path) if isinstance(error, OSError) else error
                raise TargetError(f"{path}: its attributes cannot be put in order: {why}") from error
    return refused


def _in_place(names: list[str], one: Change) -> list[str]:
    """Return names of attributes after a change, in their order; a new one is the last."""
    kept = [one.name if name == one.attribute else name for name in names]
    return [name for name in [*kept, *([] if one.name in kept else [one.name])] if name is not None]


def _owner(file: Any, path: str | None) -> Any:
    """Return a variable or a group."""
    if path is None:
        return file
    *homes, name = path.strip("/").split("/")
    for home in homes:
        file = file.groups[home]
    return file.groups[name] if path.endswith("/") else file.variables[name]


@contextmanager
def _define_mode(file: Any) -> Iterator[None]:
    """Hold a classic file in define mode, which others do not have."""
    if not file.data_model.startswith("NETCDF3"):
        yield
        return
    file._redef()
    try:
        yield
    finally:
        file._enddef()


def _change(file: Any, owner: Any, one: Change, *, string: bool) -> None:
    """Make a change; the library writes text as characters unless it is to be a `string`."""
    if one.name is None:
        owner.delncattr(one.attribute)
        return
    if one.name != one.attribute:
        # Outside define mode, the library pads a shorter name in a classic file with NULs, and refuses a longer one.
        with _define_mode(file):
            owner.renameAttribute(one.attribute, one.name)
        return
    value = one.after
    if isinstance(value, tuple) or string:
        if one.name in owner.ncattrs():
            owner.delncattr(one.name)  # the library cannot replace strings in ASCII
        owner.setncattr_string(one.name, list(value) if isinstance(value, tuple) else value)
    elif isinstance(value, np.ndarray):
        owner.setncattr(one.name, value if value.size != 1 else value[0])
    else:
        owner.setncattr(one.name, value)
