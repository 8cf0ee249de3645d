"""Classic netCDF files (CDF-1, CDF-2 and CDF-5), read without the netCDF library, which takes long to load.

Source: the netCDF classic and 64-bit data format specifications.
"""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Callable
from itertools import product
from math import prod
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from cfagg.checking.model import AttributeValue, Dataset, Dimension, Group, Kind, Variable
from cfagg.checking.sources.foreign import name_of, too_long, value_of
from cfagg.errors import FragmentReadError, SourceError

__all__ = ["MAGIC", "Pread", "open_classic", "parse"]

#: First bytes of the formats.
MAGIC = (b"CDF\x01", b"CDF\x02", b"CDF\x05")

#: Reads bytes: (count, place).
Pread = Callable[[int, int], bytes]

#: netCDF type numbers.
_TYPES = {1: ">i1", 2: "S1", 3: ">i2", 4: ">i4", 5: ">f4", 6: ">f8", 7: ">u1", 8: ">u2", 9: ">u4", 10: ">i8", 11: ">u8"}
_DTYPES = {number: np.dtype(text) for number, text in _TYPES.items()}
_NATIVE = {number: dtype.newbyteorder("=") for number, dtype in _DTYPES.items()}
_KINDS: dict[str, Kind] = {"i": "integer", "u": "integer", "f": "float", "S": "char"}

_DIMENSIONS, _VARIABLES, _ATTRIBUTES = 10, 11, 12


class _BadError(Exception):
    """What stands in the header cannot stand there."""


def open_classic(path: str, source: str) -> Dataset:
    """Return the model of a classic file.

    Parameters
    ----------
    path : str
        The file.
    source : str
        What messages call it.

    Raises
    ------
    SourceError
        If it is cut off in its header or damaged.
    """
    file = open(path, "rb")  # noqa: PTH123, SIM115 - closed with the dataset
    try:
        return _open(file, path, source)
    except BaseException:
        file.close()
        raise


def _open(file: BinaryIO, path: str, source: str) -> Dataset:
    number = file.fileno()
    with mmap.mmap(number, 0, access=mmap.ACCESS_READ) as data:
        root = parse(data, len(data), source, lambda count, place: os.pread(number, count, place))
    if root is None:
        raise SourceError(f"{source} changes while it is read; check it again")
    return Dataset(source, "netcdf", root, path=path, close=file.close)


def parse(data: mmap.mmap | bytes, size: int, source: str, pread: Pread) -> Group | None:
    """Return the root group that a header describes, `None` where more of the file is needed for it.

    Parameters
    ----------
    data : mmap or bytes
        The file or its beginning.
    size : int
        Bytes of the file.
    source : str
        What messages call it.
    pread : callable
        Reads values.

    Raises
    ------
    SourceError
        If the header is cut off or damaged.
    """
    header = _Header(data)
    try:
        return header.root(size, source, pread)
    except (struct.error, IndexError, OverflowError) as error:
        if len(data) < size:
            return None
        raise SourceError(
            f"{source} is netCDF and ends within its header, after {len(data):,} bytes: it is cut off; "
            "copy or make it again"
        ) from error
    except _BadError as error:
        raise SourceError(
            f"{source} is netCDF with a damaged header: {error} at byte {header.at:,}; copy or make it again"
        ) from error


class _Header:
    """Walks over the bytes of a header."""

    def __init__(self, data: mmap.mmap | bytes) -> None:
        self.data = data
        self.at = 4
        self.version = data[3]
        self._count = struct.Struct(">Q" if self.version == 5 else ">I")
        self._offset = struct.Struct(">I" if self.version == 1 else ">Q")
        self._number = struct.Struct(">I")

    def _take(self, form: struct.Struct) -> int:
        value: int = form.unpack_from(self.data, self.at)[0]
        self.at += form.size
        return value

    def _bytes(self, size: int) -> bytes:
        begin = self.at
        # Padded to four bytes; the last padding of all may be missing.
        self.at += size + (-size & 3)
        if begin + size > len(self.data):
            raise IndexError
        return self.data[begin : begin + size]

    def _list(self, wanted: int) -> int:
        """Return how many items follow."""
        tag, count = self._take(self._number), self._take(self._count)
        if tag != wanted and (tag or count):
            raise _BadError(f"found tag {tag}, expected {wanted}")
        return count if tag else 0

    def _name(self) -> str:
        return name_of(self._bytes(self._take(self._count)))

    def _type(self) -> int:
        number = self._take(self._number)
        if number not in _TYPES or (number > 6 and self.version != 5):
            raise _BadError(f"found type number {number}, expected 1 to {11 if self.version == 5 else 6}")
        return number

    def _attributes(self) -> dict[str, AttributeValue]:
        found: dict[str, AttributeValue] = {}
        for _ in range(self._list(_ATTRIBUTES)):
            name, type_, count = self._name(), self._type(), self._take(self._count)
            size = count * _DTYPES[type_].itemsize
            foreign = too_long(name, size)
            if foreign is not None:
                self.at += size + (-size & 3)
                if self.at > len(self.data):
                    raise IndexError
                found[name] = foreign
            elif type_ == 2:
                found[name] = value_of(self._bytes(size))
            else:
                found[name] = np.frombuffer(self._bytes(size), _DTYPES[type_]).astype(_NATIVE[type_])
        return found

    def root(self, size: int, source: str, pread: Pread) -> Group:
        """Return the whole."""
        streaming = 2**64 - 1 if self.version == 5 else 2**32 - 1
        records = self._take(self._count)
        root = Group()
        dimensions = []
        for _ in range(self._list(_DIMENSIONS)):
            name, length = self._name(), self._take(self._count)
            dimensions.append(root.add_dimension(name, length, unlimited=not length))
        root.attributes = self._attributes()
        places: list[tuple[Variable, int]] = []
        for _ in range(self._list(_VARIABLES)):
            name, rank = self._name(), self._take(self._count)
            if rank > 4096:
                raise _BadError(f"variable {name!r} has {rank:,} dimensions")
            spans = tuple(self._dimension(dimensions, self._take(self._count)) for _ in range(rank))
            attributes, type_ = self._attributes(), self._type()
            self._take(self._count)
            dtype = _NATIVE[type_]
            variable = Variable(name, root, spans, dtype, _KINDS[dtype.kind], attributes)
            root.variables[name] = variable
            places.append((variable, self._take(self._offset)))
        self._give_values(places, dimensions, None if records == streaming else records, size, source, pread)
        return root

    def _dimension(self, dimensions: list[Dimension], number: int) -> Dimension:
        if number >= len(dimensions):
            raise _BadError(f"found dimension number {number:,}, there are {len(dimensions):,}")
        return dimensions[number]

    @staticmethod
    def _give_values(
        places: list[tuple[Variable, int]],
        dimensions: list[Dimension],
        records: int | None,
        size: int,
        source: str,
        pread: Pread,
    ) -> None:
        """Set the length of the record dimension and let the variables be read."""
        grown = [(v, begin) for v, begin in places if v.dimensions and v.dimensions[0].unlimited]
        rows = [prod(d.size for d in v.dimensions[1:]) * v.dtype.itemsize for v, _ in grown]
        # A single record variable is not padded.
        step = rows[0] if len(rows) == 1 else sum(n + (-n & 3) for n in rows)
        if records is None:
            first = min((begin for _, begin in grown), default=size)
            records = max(size - first, 0) // step if step else 0
        for dimension in dimensions:
            if dimension.unlimited:
                dimension.size = records
        for variable, begin in places:
            strided = bool(variable.dimensions) and variable.dimensions[0].unlimited
            variable.read = _Values(variable, begin, step if strided else None, f"{source}: {variable.path}", pread)


class _Values:
    """Reads hyperslabs of one variable."""

    def __init__(self, variable: Variable, begin: int, step: int | None, where: str, pread: Pread) -> None:
        self.variable, self.begin, self.step, self.where, self.pread = variable, begin, step, where, pread

    def __call__(self, slices: tuple[slice, ...]) -> npt.NDArray[Any]:
        variable = self.variable
        shape = variable.shape
        ranges = [range(*s.indices(n)) for s, n in zip(slices, shape, strict=True)]
        counts = tuple(map(len, ranges))
        dtype = variable.dtype.newbyteorder(">")
        if 0 in counts:
            return np.empty(counts, variable.dtype)
        strides = [prod(shape[d + 1 :]) * dtype.itemsize for d in range(len(shape))]
        if self.step is not None:
            strides[0] = self.step
        # Bytes that stand together: all dimensions behind the last one that is not taken whole, and a run along it.
        cut = len(shape)
        while cut and counts[cut - 1] == shape[cut - 1] and ranges[cut - 1].step == 1:
            if cut == 1 and self.step is not None and self.step != prod(shape[1:]) * dtype.itemsize:
                break
            cut -= 1
        if cut and ranges[cut - 1].step == 1 and not (cut == 1 and self.step is not None):
            cut -= 1
        run = prod(counts[cut:]) * dtype.itemsize
        start = self.begin + sum(r.start * s for r, s in zip(ranges[cut:], strides[cut:], strict=True))
        pieces = []
        for indices in product(*ranges[:cut]):
            place = start + sum(i * s for i, s in zip(indices, strides, strict=False))
            pieces.append(self._take(run, place))
        return np.frombuffer(b"".join(pieces), dtype).reshape(counts).astype(variable.dtype)

    def _take(self, count: int, place: int) -> bytes:
        data = self.pread(count, place) if place < 2**63 else b""
        while data and len(data) < count:
            # The system may give less than asked for.
            more = self.pread(count - len(data), place + len(data))
            if not more:
                break
            data += more
        if len(data) < count:
            raise FragmentReadError(
                f"{self.where}: its values end at byte {place + count:,} and the file before: it is cut off; "
                "copy or make it again"
            )
        return data
