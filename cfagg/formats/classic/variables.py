"""Finding variables in classic netCDF files (CDF-1, CDF-2 and CDF-5) by reading their header.

The netCDF library returns zeros beyond the end of a truncated file.  With the positions of values that can be detected,
and values are read without the library's lock.

Source: the netCDF classic and 64-bit data format specifications.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

import numpy as np

from cfagg.cf.header import Header
from cfagg.formats.classic import header as raw
from cfagg.formats.metadata.foreign import name_of
from cfagg.formats.values.storage import Contiguous, StoredVariable
from cfagg.model.chunks import Encoding
from cfagg.storage.files import Context, FileKey, Handle
from cfagg.storage.locks import forkable

__all__ = ["find", "names"]


@dataclass(frozen=True, slots=True)
class _Classic:
    """A parsed header, and its variables by name."""

    header: raw.Header
    variables: dict[str, raw.Variable]
    #: Attributes of each variable, by name.
    attributes: dict[str, dict[str, Any]]


def find(handle: Handle, address: str, context: Context) -> StoredVariable | None:
    """Return a variable of a classic file, or `None` if there is none of that name."""
    parsed = _header(handle, context)
    name = address.removeprefix("/")
    variable = parsed.variables.get(name)
    if variable is None:
        return None
    all_dims, records = parsed.header.dims, parsed.header.records
    dims = tuple(name_of(all_dims[d][0]) for d in variable.dims)
    shape = tuple(all_dims[d][1] or records for d in variable.dims)
    is_record = bool(variable.dims) and all_dims[variable.dims[0]][1] == 0
    dtype = raw.DTYPES[variable.type]
    header = Header(handle.key.path, address, dims, shape, dtype.newbyteorder("="), parsed.attributes[name])
    storage = Contiguous(variable.begin, parsed.header.record if is_record else 0, Encoding(dtype))
    return StoredVariable(handle.key, address, "/", header, storage, name, ())


def names(handle: Handle, context: Context) -> list[str]:
    """Return the names of a file's variables."""
    return list(_header(handle, context).variables)


#: The most recently parsed headers.
_REMEMBERED = 64

_lock = forkable()
_headers: OrderedDict[FileKey, _Classic] = OrderedDict()


def _header(handle: Handle, context: Context) -> _Classic:
    key = handle.key
    with _lock:
        known = _headers.get(key)
    if known is None:
        known = _read_header(handle, context)
        with _lock:
            _headers[key] = known
            while len(_headers) > _REMEMBERED:
                _headers.popitem(last=False)
    return known


def _read_header(handle: Handle, context: Context) -> _Classic:
    key = handle.key
    try:
        return _named(*raw.read(lambda count: handle.some(count, 0, context), key.size))
    except raw.ShortError as error:
        raise context.damage(f"{key.path} is truncated: it ends within its header; restore the file") from error
    except raw.DamagedError as error:
        raise context.damage(f"the header of {key.path} is damaged: {error}; restore the file") from error


def _named(header: raw.Header, data: bytes) -> _Classic:
    """Return a header with the attributes of its variables."""
    found = {name_of(v.name): v for v in header.variables}
    return _Classic(header, found, {name: _attributes(v, data) for name, v in found.items()})


def _attributes(variable: raw.Variable, data: bytes) -> dict[str, Any]:
    """Return the attributes in the form used by netCDF4-python."""
    found: dict[str, Any] = {}
    for attribute in variable.attributes:
        value = data[attribute.begin : attribute.end]
        dtype = raw.DTYPES[attribute.type]
        if dtype.kind == "S":
            found[name_of(attribute.name)] = value.decode("utf-8", "replace").replace("\0", "")
        else:
            array = np.frombuffer(value, dtype).astype(dtype.newbyteorder("="))
            found[name_of(attribute.name)] = array[0] if attribute.elements == 1 else array
    return found
