"""netCDF-4 files read without the HDF5 library: several times faster, for what the netCDF library usually writes.

Names, attributes, types and shapes are taken from the object headers; values are not touched.  Whatever is unusual or
damaged is left to the HDF5 library by returning `None`.

Source: HDF5 File Format Specification, version 3.
"""

from __future__ import annotations

import mmap
import struct
from typing import Any

import numpy as np

from cfagg.checking.model import AttributeValue, Dataset, Group, Kind
from cfagg.checking.sources.foreign import Foreign, name_of, too_long
from cfagg.checking.sources.hdf5_netcdf import DEEPEST, Assembly, Found, texts_of
from cfagg.checking.sources.hdf5_objects import ATTRIBUTES, SPACE, TYPE, Object, Objects
from cfagg.checking.sources.hdf5_space import OverlapError, Slices, Space, UnusualError
from cfagg.checking.sources.hdf5_types import Type, shape_of, type_of
from cfagg.checking.sources.lookup3 import damaged
from cfagg.errors import SourceError
from cfagg.readers.netcdf4_names import INTERNAL

__all__ = ["open_fast", "parsed"]

#: Attributes are remembered up to this size, and this many.
_SHORT, _MOST_ALIKE = 512, 1 << 16

_ERRORS = (UnusualError, struct.error, ValueError, LookupError, OverflowError, MemoryError)


def open_fast(path: str, source: str) -> Dataset | None:
    """Return the model of an HDF5-based file, or `None` where the library has to look itself.

    Parameters
    ----------
    path : str
        The file.
    source : str
        What messages call it.
    """
    with (
        open(path, "rb") as file,  # noqa: PTH123 - Path costs more
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data,
    ):
        read = parsed(data, path, source)
        if read is None or damaged(data, read[1]):
            return None
    return read[0]


def parsed(data: Slices, path: Any, source: str) -> tuple[Dataset, list[tuple[int, int, int]]] | None:
    """Return the model and the structures whose checksums are still to be compared, `None` as `open_fast`.

    Parameters
    ----------
    data : bytes, mmap or the like
        The file.
    path : str or file object
        What values are read from.
    source : str
        What messages call it.
    """
    try:
        reader = _Reader(Space(data), path, source)
        root = reader.root()
    except OverlapError as error:
        raise SourceError(f"{source} is HDF5 and damaged: its structures overlap; copy or make it again") from error
    except _ERRORS:
        return None
    named = path if isinstance(path, str) else None
    return Dataset(source, "netcdf", root, path=named, close=reader.values.close), reader.space.checked


class _File:
    """The file as the HDF5 library opens it, when the first values are read."""

    def __init__(self, path: Any) -> None:
        #: Its name, or the open file that is read in its place.
        self.path = path
        self.opened: Any = None

    def dataset(self, name: bytes) -> Any:
        """Return a low-level dataset."""
        import h5py

        from cfagg.checking.sources.hdf5_values import opened

        if self.opened is None:
            self.opened = opened(self.path) if isinstance(self.path, str) else h5py.File(self.path, "r").id
        return h5py.h5d.open(self.opened, name)

    def close(self) -> None:
        """Let go of the file."""
        if self.opened is not None:
            from cfagg.readers.locks import LIBRARY

            with LIBRARY:
                self.opened.close()
            self.opened = None


class _Reader:
    def __init__(self, space: Space, path: Any, source: str) -> None:
        self.space, self.source = space, source
        self.objects = Objects(space)
        self.values = _File(path)
        self.assembly = Assembly()
        self.known: dict[int, Found] = {}
        self.types: dict[bytes, Type] = {}
        #: Attributes that many variables have alike, by their bytes: name, value, whether it is the library's own.
        self.alike: dict[bytes, tuple[str, AttributeValue, bool]] = {}

    def root(self) -> Group:
        """Return the whole."""
        root, top = Group(), self.objects.top()
        seen = {top}
        waiting = [(root, self.objects.read(top), b"", 0)]
        while waiting:
            group, found, path, depth = waiting.pop()
            if depth > DEEPEST:
                raise UnusualError
            group.attributes = self._attributes(found)[0]
            below = []
            for name, address in self.objects.links(found):
                where = path + b"/" + name
                known = self.known.get(address)
                if address in seen:
                    continue
                inner = self.objects.read(address) if known is None else None
                if inner is not None and SPACE not in inner.messages:
                    seen.add(address)
                    if TYPE not in inner.messages:  # else a named type
                        below.append((group.child(name_of(name)), inner, where, depth + 1))
                    continue
                if known is None and inner is not None:
                    known = self.known[address] = self._found(address, inner)
                if known is not None:
                    self.assembly.add(group, name_of(name), known, self._read(where))
            waiting.extend(reversed(below))
        self.assembly.finish()
        return root

    def _read(self, where: bytes) -> Any:
        def read(variable: Any) -> Any:
            return _Late(self.values, where, f"{self.source}: {variable.path}")

        return read

    def _found(self, address: int, found: Object) -> Found:
        """Return what is known of a dataset."""
        shape, grows, _ = shape_of(found.messages[SPACE])
        attributes, internal, scales = self._attributes(found, rank=len(shape))
        dtype, kind = self._stored(found.messages[TYPE])
        return Found(address, shape, grows, dtype, kind, attributes, internal, scales)

    def _stored(self, data: bytes) -> tuple[np.dtype[Any], Kind]:
        what, dtype = self._type(data)
        if what == "number":
            native = dtype.newbyteorder("=")
            return native, "float" if native.kind == "f" else "integer"
        if what in ("fixed", "terminated") and dtype == 1:
            return np.dtype("S1"), "char"
        return np.dtype(object), "string" if what in ("fixed", "terminated", "text") else "other"

    def _type(self, data: bytes) -> Type:
        """Return what a type is: a number with its NumPy type, a text of fixed or any length, references, or else."""
        found = self.types.get(data)
        if found is None:
            found = self.types[data] = type_of(data)
        return found

    def _attributes(
        self, found: Object, rank: int = 0
    ) -> tuple[dict[str, AttributeValue], dict[str, AttributeValue], list[int | None] | None]:
        """Return the attributes that are shown, those of the library, and where the dimensions are."""
        stored = found.attributes
        info = found.messages.get(ATTRIBUTES)
        if info is not None:
            stored = [*stored, *self.objects.dense_attributes(info)]
        if found.ordered:
            stored.sort()
        shown: dict[str, AttributeValue] = {}
        internal: dict[str, AttributeValue] = {}
        scales: list[int | None] | None = None
        alike = self.alike
        for _, data in stored:
            again = alike.get(data)
            if again is not None:
                (internal if again[2] else shown)[again[0]] = again[1]
                continue
            version, flags = data[0], data[1]
            length, kind_size, space_size = struct.unpack_from("<HHH", data, 2)
            if version == 3:
                begin = 9 + length
                middle = begin + kind_size
                end = middle + space_size
            elif version == 2:
                begin = 8 + length
                middle = begin + kind_size
                end = middle + space_size
            elif version == 1:
                flags = 0
                begin = 8 + length + (-length & 7)
                middle = begin + kind_size + (-kind_size & 7)
                end = middle + space_size + (-space_size & 7)
            else:
                raise UnusualError
            if end > len(data) or flags & 2:
                raise UnusualError
            raw = data[9 if version == 3 else 8 :][:length].split(b"\0")[0]
            name = name_of(raw)
            if name in ("REFERENCE_LIST", "_NCProperties"):
                continue
            kind = data[begin : begin + kind_size]
            if flags & 1:
                kind = self.objects.named(kind)
            shape, _, empty = shape_of(data[middle : middle + space_size])
            if name == "DIMENSION_LIST":
                if self._type(kind)[0] == "references" and shape == (rank,):
                    scales = [self._scale(data, end + 16 * i) for i in range(rank)]
                continue
            type_ = self._type(kind)
            value = self._value(name, type_, shape, empty, data, end)
            (internal if name in INTERNAL else shown)[name] = value
            if len(data) <= _SHORT and len(alike) < _MOST_ALIKE and type_[0] in ("number", "fixed", "terminated"):
                alike[data] = name, value, name in INTERNAL
        return shown, internal, scales

    def _scale(self, data: bytes, at: int) -> int | None:
        length, heap, index = struct.unpack_from("<IQI", data, at)
        raw = self.space.long_value(8 * length, heap, index)
        return int.from_bytes(raw[:8], "little") if raw else None

    def _value(
        self, name: str, type_: Type, shape: tuple[int, ...], empty: bool, data: bytes, at: int
    ) -> AttributeValue:
        what, detail = type_
        count = 1
        for n in shape:
            count *= n
        if what == "number":
            count = 0 if empty else count
            foreign = too_long(name, count * detail.itemsize)
            if foreign is not None:
                return foreign
            values = np.frombuffer(data, detail, count, at).astype(detail.newbyteorder("="))
            values.flags.writeable = False  # variables with the same attribute share it
            return values
        if what in ("fixed", "terminated"):
            if empty:
                return ""
            if at + count * detail > len(data):
                raise UnusualError
            raw = [data[at + i * detail : at + (i + 1) * detail] for i in range(count)]
            if what == "terminated":
                raw = [r.split(b"\0", 1)[0] for r in raw]
            return texts_of(name, raw, scalar=not shape) if raw else ()
        if what == "text":
            if empty:
                return ""
            if at + 16 * count > len(data):
                raise UnusualError
            found, total = [], 0
            for i in range(count):
                value = self.space.long_value(*struct.unpack_from("<IQI", data, at + 16 * i))
                total += len(value)
                foreign = too_long(name, total)
                if foreign is not None:
                    return foreign
                found.append(value)
            return texts_of(name, found, scalar=not shape) if found else ()
        return Foreign("a value of a user-defined type")


class _Late:
    """Reads hyperslabs of one dataset through the HDF5 library, which is loaded when the first are read."""

    __slots__ = ("file", "name", "reader", "where")

    def __init__(self, file: _File, name: bytes, where: str) -> None:
        self.file, self.name, self.where = file, name, where
        self.reader: Any = None

    def __call__(self, slices: tuple[slice, ...]) -> Any:
        if self.reader is None:
            from cfagg.checking.sources.hdf5_values import Values

            self.reader = Values(lambda: self.file.dataset(self.name), self.where)
        return self.reader(slices)
