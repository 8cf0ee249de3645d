"""Variables that only the netCDF library would read, in files that it must not open.

Those of remote files come from the metadata reader, which follows no links; texts in files on this machine are read by
the HDF5 library.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.cf.header import Header, plain
from cfagg.errors import CfaggError, UnsupportedError
from cfagg.formats.metadata.url import of_handle
from cfagg.formats.values.storage import Library, StoredVariable
from cfagg.model.dataset import Dataset, Group, Variable
from cfagg.storage.files import Context, Handle
from cfagg.storage.gate import Checked

__all__ = ["find", "read", "read_texts"]


def find(handle: Handle, address: str, context: Context, group: str) -> StoredVariable | list[str]:
    """Return a variable, or the names of those that exist."""
    try:
        with of_handle(handle) as dataset:
            found = _lookup(dataset, address, group)
            if found is None:
                return [v.path for v in dataset.variables]
            if found.kind == "other":
                raise UnsupportedError(
                    f"variable {address!r} of {handle.key.path} is of a type that only the netCDF library reads, which "
                    "cannot read from other machines: copy the file to this machine"
                )
            text = np.dtype("O", metadata={"element_type": str})
            dtype = text if found.kind == "string" else found.dtype.newbyteorder("=")
            attributes = {k: plain(v) for k, v in found.attributes.items()}
            header = Header(handle.key.path, address, found.dims, found.shape, dtype, attributes)
            path = f"{found.group.path.rstrip('/')}/{found.name}"
    except CfaggError as error:
        raise type(error)(context.said(error.message)) from error
    return StoredVariable(handle.key, address, group, header, Library(), path, ())


def read(checked: Checked, slices: Sequence[slice], context: Context) -> npt.NDArray[Any]:
    """Read a hyperslab of the stored values, in native byte order."""
    with of_handle(checked.handle) as dataset:
        found = _lookup(dataset, checked.dataset, "/")
        if found is None or found.read is None:
            raise context.damage(f"{checked.handle.key.path} no longer has a variable {checked.dataset!r}")
        values = np.asarray(found.read(tuple(slices)))
        if found.kind == "string":
            return _texts(values, checked, context)
    return values if values.dtype.isnative else values.astype(values.dtype.newbyteorder("="))


def read_texts(checked: Checked, slices: Sequence[slice], context: Context) -> npt.NDArray[Any]:
    """Read a hyperslab of the texts of a file on this machine."""
    from cfagg.formats.hdf5.library import file_of
    from cfagg.formats.hdf5.values import Values

    handle, path = checked.handle, checked.dataset
    where = context.said(f"variable {path!r} of {handle.key.path}")
    return _texts(Values(handle, lambda: file_of(handle), path.encode(), where)(tuple(slices)), checked, context)


def _texts(values: npt.NDArray[Any], checked: Checked, context: Context) -> npt.NDArray[Any]:
    """Return texts as the netCDF library does."""
    texts = np.empty(values.shape, object)
    try:
        for index, value in np.ndenumerate(values):
            texts[index] = value.decode() if isinstance(value, bytes) else value
    except UnicodeDecodeError as error:
        where = f"variable {checked.dataset!r} of {checked.handle.key.path}"
        raise context.damage(f"{where} is not text in UTF-8: {error}") from error
    return texts


def _lookup(dataset: Dataset, address: str, group: str) -> Variable | None:
    """Return a variable by its name or path, searched from a group upwards."""
    where, _, name = address.rpartition("/")
    above = [] if address.startswith("/") else [p for p in group.split("/") if p]
    inner = [p for p in where.split("/") if p]
    for depth in range(len(above), -1, -1):
        here: Group | None = dataset.root
        for part in (*above[:depth], *inner):
            here = None if here is None else here.groups.get(part)
        if here is not None and name in here.variables:
            return here.variables[name]
    return None
