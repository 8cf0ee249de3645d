"""Classic netCDF files (CDF-1, CDF-2 and CDF-5), read without the netCDF library, which is slow to load.

Source: the netCDF classic and 64-bit data format specifications.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from cfagg.errors import FragmentReadError, LimitError, SourceError
from cfagg.formats.classic import header as raw
from cfagg.formats.metadata.foreign import name_of, too_long, value_of
from cfagg.formats.values.open_variable import OpenVariable
from cfagg.model.dataset import AttributeValue, Dataset, Group, Kind, SharedAttributes, Variable
from cfagg.storage.files import Context, Handle

if TYPE_CHECKING:
    from cfagg.formats.values.storage import StoredVariable

__all__ = ["open_classic"]

#: Bytes of the longest header that is read from a remote file.
_FAR = 1 << 28

_KINDS: dict[str, Kind] = {"i": "integer", "u": "integer", "f": "float", "S": "char"}


def open_classic(handle: Handle) -> Dataset:
    """Return the model of a classic file, which is closed with it; `damage` is set if its values are cut off."""
    source, size = handle.key.path, handle.key.size

    def first(count: int) -> bytes:
        if handle.data is not None and count > _FAR:
            raise LimitError(f"{source} has a header of more than {_FAR:,} bytes; copy the file to this machine")
        return handle.some(count, 0)

    try:
        header, data = raw.read(first, size)
    except raw.CutError as error:
        raise SourceError(
            f"{source} is netCDF, but truncated within its header, after {size:,} bytes; copy or write it again"
        ) from error
    except raw.ShortError as error:
        raise SourceError(f"{source} changes while it is read; check it again") from error
    except raw.DamagedError as error:
        raise SourceError(f"{source} is netCDF with a damaged header: {error}; copy or write it again") from error
    short = (
        f"the file is truncated: its values end at byte {header.end:,}, the file at {size:,}; copy or write it again"
        if header.end > size
        else None
    )
    return Dataset(source, "netcdf", _root(header, data, handle), close=handle.close, damage=short)


def _root(header: raw.Header, data: bytes, handle: Handle) -> Group:
    """Return the root group."""
    root, context = Group(), Context("", FragmentReadError, FragmentReadError)
    dimensions = [
        root.add_dimension(name_of(name), length or header.records, unlimited=not length)
        for name, length in header.dims
    ]
    root.attributes = _attributes(header.attributes, data)
    for stored in header.variables:
        dtype = raw.DTYPES[stored.type].newbyteorder("=")
        spans = tuple(dimensions[d] for d in stored.dims)
        variable = Variable(
            name_of(stored.name), root, spans, dtype, _KINDS[dtype.kind], _attributes(stored.attributes, data)
        )
        root.variables[variable.name] = variable
        grows = bool(spans) and spans[0].unlimited
        find = partial(_stored, handle, variable, stored.begin, header.record if grows else 0)
        variable.read = OpenVariable(handle, find, context)
    return root


#: Cached attributes of variables of many files, by their bytes; limits of the cached bytes, in total and per variable.
#: Global attributes mostly differ between files, so the cache has to stay small.
_known: dict[tuple[tuple[bytes, int, bytes], ...], SharedAttributes] = {}
_MOST, _LONGEST, _EACH = 1 << 22, 1 << 14, 1 << 10


class _Remembered:
    bytes = 0


def _attributes(stored: list[raw.Attribute], data: bytes) -> dict[str, AttributeValue]:
    """Return attributes; equal ones of several variables and files are the same object."""
    if stored and stored[-1].end - stored[0].begin > _LONGEST:
        return _decoded(stored, data)
    key = tuple([(a.name, a.type, data[a.begin : a.end]) for a in stored])
    found = _known.get(key)
    if found is None:
        _Remembered.bytes += _EACH + 2 * sum(len(name) + len(value) for name, _, value in key)
        if _Remembered.bytes > _MOST:
            _known.clear()
            _Remembered.bytes = 0
        found = _known[key] = SharedAttributes(_decoded(stored, data))
    return found


def _decoded(stored: list[raw.Attribute], data: bytes) -> dict[str, AttributeValue]:
    found: dict[str, AttributeValue] = {}
    for attribute in stored:
        name, dtype = name_of(attribute.name), raw.DTYPES[attribute.type]
        foreign = too_long(name, attribute.end - attribute.begin)
        if foreign is not None:
            found[name] = foreign
            continue
        value = data[attribute.begin : attribute.end]
        if dtype.kind == "S":
            found[name] = value_of(value)
            continue
        numbers = np.frombuffer(value, dtype).astype(dtype.newbyteorder("="))
        numbers.flags.writeable = False  # variables with the same attributes share it
        found[name] = numbers
    return found


def _stored(handle: Handle, variable: Variable, begin: int, step: int) -> StoredVariable:
    """Return the location of the values of a variable."""
    from cfagg.cf.header import Header
    from cfagg.formats.values.storage import Contiguous, StoredVariable
    from cfagg.model.chunks import Encoding

    dtype, name = variable.dtype, variable.name
    header = Header(handle.key.path, name, variable.dims, variable.shape, dtype)
    storage = Contiguous(begin, step, Encoding(dtype.newbyteorder(">")))
    return StoredVariable(handle.key, name, "/", header, storage, name, ())
