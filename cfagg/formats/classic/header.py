"""The header of classic netCDF files (CDF-1, CDF-2 and CDF-5), parsed once for every reader, and strictly.

Counts and sizes are compared with the file before they are used.  The netCDF library has no such checks, so it only
gets files whose header passes here.

Source: the netCDF classic and 64-bit data format specifications.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Callable, Iterator
from math import prod
from typing import NamedTuple

import numpy as np

__all__ = [
    "DTYPES",
    "MAGIC",
    "Attribute",
    "CutError",
    "DamagedError",
    "Header",
    "ShortError",
    "Variable",
    "parse",
    "read",
]

#: First bytes of the formats.
MAGIC = (b"CDF\x01", b"CDF\x02", b"CDF\x05")

#: netCDF type numbers.
_TYPES = {1: ">i1", 2: "S1", 3: ">i2", 4: ">i4", 5: ">f4", 6: ">f8", 7: ">u1", 8: ">u2", 9: ">u4", 10: ">i8", 11: ">u8"}
DTYPES = {number: np.dtype(text) for number, text in _TYPES.items()}

_DIMENSIONS, _VARIABLES, _ATTRIBUTES = 10, 11, 12

#: Most dimensions of a variable, as in the netCDF library; limit on the elements and bytes of anything.
_RANK, _LARGEST = 1024, 2**63

#: A list of at most this many items beyond the file's end means that it is cut off, a longer one that it is damaged.
_LIKELY = 2**16


class DamagedError(Exception):
    """The header is invalid."""


class ShortError(Exception):
    """The header continues beyond the available bytes, or beyond the end of the file."""


class CutError(ShortError):
    """The header continues beyond the end of the file, so reading more bytes would not help."""


class Attribute(NamedTuple):
    """An attribute as stored: name, type number, elements, and start and end of its values."""

    name: bytes
    type: int
    elements: int
    begin: int
    end: int


class Variable(NamedTuple):
    """A variable: indices of its dimensions, and the start of its values."""

    name: bytes
    dims: tuple[int, ...]
    attributes: list[Attribute]
    type: int
    begin: int


class Header(NamedTuple):
    """A whole header; attributes are those of the file."""

    #: Names and lengths; the length of the record dimension is 0.
    dims: list[tuple[bytes, int]]
    attributes: list[Attribute]
    variables: list[Variable]
    records: int
    #: Bytes from one record to the next.
    record: int
    #: Bytes of the complete file, except padding after the last value.
    end: int


def read(first: Callable[[int], bytes], size: int) -> tuple[Header, bytes]:
    """Return the header of a file of `size` bytes and the bytes that contain it; `first` reads the given number."""
    count = 2**16
    while True:
        data = first(min(count, size))
        try:
            return parse(data, size), data
        except ShortError as error:
            if count >= size or isinstance(error, CutError):
                raise
        count *= 4


def parse(data: bytes, size: int) -> Header:
    r"""Parse the header of a file of `size` bytes from its first bytes."""
    cursor = _Cursor(data, size)
    try:
        return cursor.header()
    except DamagedError as error:
        raise DamagedError(f"{error} at byte {cursor.at:,}") from None


#: Numbers for versions with dimensions; cached variables of many headers by such a number, position and bytes; and the
#: lengths of these by number, position and first bytes.
_numbers: dict[tuple[object, ...], int] = {}
_known: dict[tuple[int, int, bytes], Variable] = {}
_lengths: dict[tuple[int, int, bytes], int] = {}

#: Limits of these caches: entries, bytes of a variable, first bytes that are compared, and dimensions.
_MOST, _LONGEST, _BEGIN, _DIMS = 1 << 12, 1 << 12, 16, 64

_count = itertools.count(1)


def _number_of(version: int, dims: list[tuple[bytes, int]]) -> int:
    """Return a number for a version with dimensions, or 0 if these are too large to be cached."""
    if len(dims) > _DIMS or sum([len(name) for name, _ in dims]) > _LONGEST:
        return 0
    if len(_numbers) >= _MOST:
        _numbers.clear()
    return _numbers.setdefault((version, *dims), next(_count))


class _Cursor:
    """A position in the bytes of a header, advanced by reading."""

    def __init__(self, data: bytes, size: int) -> None:
        if data[0:4] not in MAGIC:
            raise DamagedError("it does not begin as classic netCDF")
        self.data, self.size, self.at = data, size, 4
        self.version = data[3:4][0]
        self.wide = self.version == 5
        self._count = struct.Struct(">Q" if self.wide else ">I")
        self._offset = struct.Struct(">I" if self.version == 1 else ">Q")
        self._number = struct.Struct(">I")
        # The largest lengths that the netCDF library writes.
        self.longest = {1: 2**31 - 4, 2: 2**32 - 4, 5: 2**63 - 4}[self.version]

    def take(self, form: struct.Struct) -> int:
        end = self.at + form.size
        if end > len(self.data):
            raise ShortError if end <= self.size else CutError
        value: int = form.unpack_from(self.data, self.at)[0]
        self.at = end
        return value

    def skip(self, count: int) -> tuple[int, int]:
        """Skip `count` bytes, padded to four; the last padding of all may be missing."""
        begin = self.at
        if count > self.size - begin:
            raise CutError
        if begin + count > len(self.data):
            raise ShortError
        self.at = begin + count + (-count & 3)
        return begin, begin + count

    def items(self, tag: int, least: int) -> Iterator[int]:
        """Return the indices of the items of a list, each of which has at least `least` bytes."""
        found, count = self.take(self._number), self.take(self._count)
        if found != tag and (found or count):
            raise DamagedError(f"found tag {found}, expected {tag}")
        if count > (self.size - self.at) // least:
            if count <= _LIKELY:
                raise CutError
            raise DamagedError(f"a list of {count:,} items, for which the file is too short")
        return iter(range(count))

    def name(self) -> bytes:
        begin, end = self.skip(self.take(self._count))
        # The netCDF library keeps the old length of a name that it has replaced by a shorter one.
        name = self.data[begin:end].partition(b"\0")[0]
        if not name:
            raise DamagedError("an empty name")
        return name

    def type(self) -> int:
        number = self.take(self._number)
        most = 11 if self.wide else 6
        if not 1 <= number <= most:
            raise DamagedError(f"found type number {number}, expected 1 to {most}")
        return number

    def attributes(self) -> list[Attribute]:
        found = []
        for _ in self.items(_ATTRIBUTES, 3 * self._count.size):
            name, type_, count = self.name(), self.type(), self.take(self._count)
            found.append(Attribute(name, type_, count, *self.skip(count * DTYPES[type_].itemsize)))
        return found

    def header(self) -> Header:
        streaming = 2**64 - 1 if self.wide else 2**32 - 1
        records = self.take(self._count)
        dims: list[tuple[bytes, int]] = []
        for _ in self.items(_DIMENSIONS, 2 * self._count.size):
            name, length = self.name(), self.take(self._count)
            if length > self.longest:
                raise DamagedError(f"dimension {_shown(name)} has the length {length:,}")
            if not length and any(not n for _, n in dims):
                raise DamagedError(f"dimension {_shown(name)} is a second record dimension")
            dims.append((name, length))
        attributes = self.attributes()
        alike = _number_of(self.version, dims)
        variables = [self.variable(dims, alike) for _ in self.items(_VARIABLES, 5 * self._count.size)]
        if any(v.begin < self.at for v in variables if _bytes(v, dims)):
            raise DamagedError("values that begin within the header")
        return _placed(dims, attributes, variables, None if records == streaming else records, self.size)

    def variable(self, dims: list[tuple[bytes, int]], number: int) -> Variable:
        begin = self.at
        # The length of the last variable with the same beginning determines the bytes to look up in the cache.
        alike = number, begin, self.data[begin : begin + _BEGIN]
        end = begin + _lengths.get(alike, 0)
        variable = _known.get((number, begin, self.data[begin:end]))
        if variable is not None:
            self.at = end
            self.take(self._count)
        else:
            variable = self._new_variable(dims)
            end = self.at - self._count.size
            if number and end - begin <= _LONGEST:
                if len(_known) >= _MOST:
                    _known.clear()
                    _lengths.clear()
                _lengths[alike] = end - begin
                _known[number, begin, self.data[begin:end]] = variable
        variable = variable._replace(begin=self.take(self._offset))
        if _bytes(variable, dims) >= _LARGEST or variable.begin >= _LARGEST:
            raise DamagedError(f"variable {_shown(variable.name)} has an impossible number of values")
        return variable

    def _new_variable(self, dims: list[tuple[bytes, int]]) -> Variable:
        """Return a variable without the start of its values."""
        name, rank = self.name(), self.take(self._count)
        if rank > _RANK:
            raise DamagedError(f"variable {_shown(name)} has {rank:,} dimensions")
        ids = tuple(self.take(self._count) for _ in range(rank))
        if any(d >= len(dims) for d in ids):
            raise DamagedError(f"variable {_shown(name)} has dimension {max(ids)}, of {len(dims):,}")
        if any(not dims[d][1] for d in ids[1:]):
            raise DamagedError(f"variable {_shown(name)} has the record dimension after another one")
        attributes, type_ = self.attributes(), self.type()
        self.take(self._count)  # its size, which its shape determines
        return Variable(name, ids, attributes, type_, 0)


def _placed(
    dims: list[tuple[bytes, int]],
    attributes: list[Attribute],
    variables: list[Variable],
    records: int | None,
    size: int,
) -> Header:
    """Return the header with the number of its records and its end."""
    grown = [v for v in variables if v.dims and not dims[v.dims[0]][1]]
    rows = [_bytes(v, dims) for v in grown]
    # A single record variable is not padded.
    record = rows[0] if len(rows) == 1 else sum(n + (-n & 3) for n in rows)
    if records is None:
        # The number of records of a streamed file is derived from its size.
        first = min((v.begin for v in grown), default=size)
        records = max(size - first, 0) // record if record else 0
    ends = [0]
    for variable in variables:
        row = _bytes(variable, dims)
        whole = bool(variable.dims) and not dims[variable.dims[0]][1]
        if row and (records or not whole):
            ends.append(variable.begin + row + (record * (records - 1) if whole else 0))
    if max(ends) >= _LARGEST:
        raise DamagedError(f"{records:,} records of {record:,} bytes")
    return Header(dims, attributes, variables, records, record, max(ends))


def _bytes(variable: Variable, dims: list[tuple[bytes, int]]) -> int:
    """Return the bytes of a variable, or of one record of it."""
    # The record dimension has length 0 and comes first.
    return prod(dims[d][1] or 1 for d in variable.dims) * DTYPES[variable.type].itemsize


def _shown(name: bytes) -> str:
    return repr(name.decode("utf-8", "backslashreplace"))
