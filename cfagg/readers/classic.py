"""Finding variables in classic netCDF files (CDF-1, CDF-2 and CDF-5) by reading their header.

The netCDF library gives zeros where such a file is cut off; knowing where values stand, that can be noticed, and
values are read without the library's lock.

Source: the netCDF classic and 64-bit data format specifications.
"""

from __future__ import annotations

import struct
import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

import numpy as np

from cfagg.cf.header import Header
from cfagg.readers.located import Contiguous, Located
from cfagg.storage.files import Context, FileKey, Handle

__all__ = ["find", "names"]

#: netCDF type numbers.
_TYPES = {1: ">i1", 2: "S1", 3: ">i2", 4: ">i4", 5: ">f4", 6: ">f8", 7: ">u1", 8: ">u2", 9: ">u4", 10: ">i8", 11: ">u8"}

_DIMENSIONS, _VARIABLES, _ATTRIBUTES = 10, 11, 12


@dataclass(frozen=True, slots=True)
class _Var:
    dims: tuple[int, ...]
    attributes: dict[str, Any]
    dtype: np.dtype[Any]
    begin: int


@dataclass(frozen=True, slots=True)
class _Classic:
    """A parsed header: dimensions in order, records, variables, bytes a record."""

    dims: tuple[tuple[str, int], ...]
    records: int
    variables: dict[str, _Var]
    record: int


class _ShortError(Exception):
    """The header goes on behind the bytes at hand."""


class _Cursor:
    """Walks over the bytes of a header."""

    def __init__(self, data: bytes, wide: bool) -> None:
        self.data = data
        self.at = 4
        self.wide = wide

    def take(self, size: int) -> bytes:
        if size < 0 or self.at + size > len(self.data):
            raise _ShortError
        self.at += size
        return self.data[self.at - size : self.at]

    def i4(self) -> int:
        return int(struct.unpack(">I", self.take(4))[0])

    def count(self) -> int:
        """Return a count: eight bytes in CDF-5."""
        return int(struct.unpack(">Q", self.take(8))[0]) if self.wide else self.i4()

    def padded(self, size: int) -> bytes:
        value = self.take(size)
        self.take(-size % 4)
        return value

    def name(self) -> str:
        return self.padded(self.count()).decode("utf-8", "replace")

    def list_of(self, tag: int) -> int:
        """Return the length of a list that is introduced by its tag, or absent."""
        found, n = self.i4(), self.count()
        if found != (tag if n else found) or found not in (0, tag):
            raise ValueError(f"tag {found} where {tag} is expected")
        return n

    def attributes(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for _ in range(self.list_of(_ATTRIBUTES)):
            name = self.name()
            dtype = _dtype(self.i4())
            n = self.count()
            value = self.padded(n * dtype.itemsize)
            if dtype.kind == "S":
                found[name] = value.decode("utf-8", "replace").replace("\0", "")
            else:
                array = np.frombuffer(value, dtype).astype(dtype.newbyteorder("="))
                found[name] = array[0] if n == 1 else array
        return found


def find(handle: Handle, address: str, context: Context) -> Located | None:
    """Return a variable of a classic file, or `None` if it has none of that name.

    Raises
    ------
    FragmentReadError
        If the header is damaged.
    """
    parsed = _header(handle, context)
    name = address.removeprefix("/")
    variable = parsed.variables.get(name)
    if variable is None:
        return None
    dims = tuple(parsed.dims[d][0] for d in variable.dims)
    shape = tuple(parsed.dims[d][1] or parsed.records for d in variable.dims)
    is_record = bool(variable.dims) and parsed.dims[variable.dims[0]][1] == 0
    header = Header(handle.key.path, address, dims, shape, variable.dtype.newbyteorder("="), variable.attributes)
    storage = Contiguous(variable.begin, parsed.record if is_record else 0, variable.dtype)
    return Located(handle.key, address, "/", header, storage, name, ())


def names(handle: Handle, context: Context) -> list[str]:
    """Return the names of a file's variables."""
    return list(_header(handle, context).variables)


#: Headers parsed last.
_KEPT = 64

_lock = threading.Lock()
_headers: OrderedDict[FileKey, _Classic] = OrderedDict()


def _header(handle: Handle, context: Context) -> _Classic:
    key = handle.key
    with _lock:
        known = _headers.get(key)
    if known is None:
        known = _read_header(handle, context)
        with _lock:
            _headers[key] = known
            while len(_headers) > _KEPT:
                _headers.popitem(last=False)
    return known


def _read_header(handle: Handle, context: Context) -> _Classic:
    key = handle.key
    size = min(2**16, key.size)
    try:
        while True:
            data = handle.some(size, 0, context)
            try:
                return _parse(data, key.size)
            except _ShortError:
                if size == key.size:
                    raise
                size = min(size * 4, key.size)
    except _ShortError as error:
        raise context.broken(
            context.said(f"{key.path} is truncated: it ends within its header; restore the file")
        ) from error
    except (ValueError, struct.error, OverflowError, MemoryError) as error:
        raise context.broken(context.said(f"the header of {key.path} is damaged: {error}; restore the file")) from error


def _parse(data: bytes, file_size: int) -> _Classic:
    """Parse the header of a file of `file_size` bytes."""
    version = data[3] if len(data) > 3 else 0
    if data[:3] != b"CDF" or version not in (1, 2, 5):
        raise ValueError("it does not start like a classic netCDF file")
    cursor = _Cursor(data, version == 5)
    records = cursor.count()
    dims = tuple((cursor.name(), cursor.count()) for _ in range(cursor.list_of(_DIMENSIONS)))
    cursor.attributes()
    variables: dict[str, _Var] = {}
    for _ in range(cursor.list_of(_VARIABLES)):
        name = cursor.name()
        ids = tuple(cursor.count() for _ in range(cursor.count()))
        if any(d >= len(dims) for d in ids):
            raise ValueError(f"variable {name!r} has a dimension that is not defined")
        attributes = cursor.attributes()
        dtype = _dtype(cursor.i4())
        cursor.count()  # its size, which a large variable does not tell
        begin = cursor.i4() if version == 1 else int(struct.unpack(">Q", cursor.take(8))[0])
        variables[name] = _Var(ids, attributes, dtype, begin)
    in_records = [v for v in variables.values() if v.dims and dims[v.dims[0]][1] == 0]
    sizes = [_record_bytes(v, dims) for v in in_records]
    # A single record variable is not padded.
    record = sizes[0] if len(sizes) == 1 else sum(n + -n % 4 for n in sizes)
    if records == (2**64 - 1 if version == 5 else 2**32 - 1):
        # The number of records of a file that was streamed follows from its size.
        first = min((v.begin for v in in_records), default=file_size)
        records = max(file_size - first, 0) // record if record else 0
    return _Classic(dims, records, variables, record)


def _record_bytes(variable: _Var, dims: tuple[tuple[str, int], ...]) -> int:
    size = variable.dtype.itemsize
    for d in variable.dims[1:]:
        size *= dims[d][1]
    return size


def _dtype(number: int) -> np.dtype[Any]:
    if number not in _TYPES:
        raise ValueError(f"type {number} is unknown")
    return np.dtype(_TYPES[number])
