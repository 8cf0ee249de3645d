"""Classic netCDF files (CDF-1, CDF-2 and CDF-5), read without the netCDF library, which takes long to load.

Source: the netCDF classic and 64-bit data format specifications.
"""

from __future__ import annotations

import mmap
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from cfagg.errors import FragmentReadError, SourceError
from cfagg.formats.classic import header as raw
from cfagg.formats.metadata.foreign import name_of, too_long, value_of
from cfagg.formats.values.open_variable import OpenVariable
from cfagg.model.dataset import AttributeValue, Dataset, Group, Kind, Variable
from cfagg.storage.files import Context, Handle

if TYPE_CHECKING:
    from cfagg.formats.values.storage import StoredVariable

__all__ = ["open_classic", "parse"]

_KINDS: dict[str, Kind] = {"i": "integer", "u": "integer", "f": "float", "S": "char"}


def open_classic(handle: Handle) -> Dataset:
    """Return the model of a classic file, which is closed with it."""
    source = handle.key.path
    with mmap.mmap(handle.fd, 0, access=mmap.ACCESS_READ) as data:
        read = parse(data, handle)
    if read is None:
        raise SourceError(f"{source} changes while it is read; check it again")
    return Dataset(source, "netcdf", read[0], close=handle.close, damage=read[1])


def parse(data: mmap.mmap | bytes, handle: Handle) -> tuple[Group, str | None] | None:
    """Return the root group and what is wrong with a file cut off in its values; `None`: `data` must have more."""
    source, size = handle.key.path, handle.key.size
    try:
        header = raw.parse(data, size)
    except raw.CutError as error:
        raise SourceError(
            f"{source} is netCDF and ends within its header, after {size:,} bytes: it is cut off; copy or make it again"
        ) from error
    except raw.ShortError:
        return None
    except raw.DamagedError as error:
        raise SourceError(f"{source} is netCDF with a damaged header: {error}; copy or make it again") from error
    short = (
        f"the file is cut off: its values end at byte {header.end:,} and the file at {size:,}; copy or make it again"
        if header.end > size
        else None
    )
    return _root(header, data, handle), short


def _root(header: raw.Header, data: mmap.mmap | bytes, handle: Handle) -> Group:
    """Return the whole."""
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


def _attributes(stored: list[raw.Attribute], data: mmap.mmap | bytes) -> dict[str, AttributeValue]:
    found: dict[str, AttributeValue] = {}
    for attribute in stored:
        name, dtype = name_of(attribute.name), raw.DTYPES[attribute.type]
        foreign = too_long(name, attribute.end - attribute.begin)
        if foreign is not None:
            found[name] = foreign
            continue
        value = data[attribute.begin : attribute.end]
        found[name] = (
            value_of(value) if dtype.kind == "S" else np.frombuffer(value, dtype).astype(dtype.newbyteorder("="))
        )
    return found


def _stored(handle: Handle, variable: Variable, begin: int, step: int) -> StoredVariable:
    """Return where the values of a variable stand."""
    from cfagg.cf.header import Header
    from cfagg.formats.values.storage import Contiguous, StoredVariable
    from cfagg.model.chunks import Encoding

    dtype, name = variable.dtype, variable.name
    header = Header(handle.key.path, name, variable.dims, variable.shape, dtype)
    storage = Contiguous(begin, step, Encoding(dtype.newbyteorder(">")))
    return StoredVariable(handle.key, name, "/", header, storage, name, ())
