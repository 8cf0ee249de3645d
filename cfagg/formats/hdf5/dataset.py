"""netCDF-4 files read without the HDF5 library: several times faster, for what the netCDF library usually writes.

Names, attributes, types and shapes are taken from the object headers; values are not touched.  Whatever is unusual or
damaged is left to the HDF5 library by returning `None`.

Source: HDF5 File Format Specification, version 3.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable
from typing import Any

import numpy as np

from cfagg.errors import SourceError
from cfagg.formats.hdf5.assembly import DEEPEST, Assembly, Description
from cfagg.formats.hdf5.attributes import Attributes
from cfagg.formats.hdf5.bytes import Bytes
from cfagg.formats.hdf5.library import close_hdf5, open_hdf5
from cfagg.formats.hdf5.lookup3 import damaged
from cfagg.formats.hdf5.messages import shape_of, type_of
from cfagg.formats.hdf5.objects import SPACE, TYPE, Object, Objects
from cfagg.formats.hdf5.space import ERRORS, UNDEFINED, OverlapError, Space, UnusualError
from cfagg.formats.metadata.foreign import name_of
from cfagg.formats.values.locks import LIBRARY
from cfagg.model.dataset import Dataset, Group, Kind
from cfagg.storage.files import Handle

__all__ = ["open_fast", "parsed"]


def open_fast(handle: Handle) -> Dataset | None:
    """Return the model of an HDF5-based file, closed with it, or `None` where the library has to look itself."""
    with mmap.mmap(handle.fd, 0, access=mmap.ACCESS_READ) as data:
        read = parsed(data, handle, lambda: open_hdf5(handle.library_path))
        if read is None or damaged(data, read[1]):
            return None
    return read[0]


def parsed(data: Bytes, handle: Handle, opens: Callable[[], Any]) -> tuple[Dataset, list[tuple[int, int, int]]] | None:
    """Return the model and the structures whose checksums are still to be compared, `None` as `open_fast`."""
    source = handle.key.path
    try:
        reader = _Reader(Space(data), handle, opens)
        root = reader.root()
    except OverlapError as error:
        raise SourceError(f"{source} is HDF5 and damaged: its structures overlap; copy or make it again") from error
    except ERRORS:
        return None
    return Dataset(source, "netcdf", root, close=reader.values.close), reader.space.checked


class _File:
    """The file as the HDF5 library opens it, when the first values are read."""

    def __init__(self, handle: Handle, opens: Callable[[], Any]) -> None:
        self.handle, self.opens = handle, opens
        self.opened: Any = None

    def __call__(self) -> Any:
        """Return the low-level file."""
        if self.opened is None:
            self.opened = self.opens()
        return self.opened

    def close(self) -> None:
        """Let go of the file."""
        if self.opened is not None:
            with LIBRARY:
                close_hdf5(self.opened)
            self.opened = None
        self.handle.close()


class _Reader:
    def __init__(self, space: Space, handle: Handle, opens: Callable[[], Any]) -> None:
        self.space, self.source = space, handle.key.path
        self.objects = Objects(space)
        self.values = _File(handle, opens)
        self.assembly = Assembly(handle.key.size)
        self.known: dict[int, Description] = {}
        self.attributes = Attributes(self.objects)

    def root(self) -> Group:
        """Return the whole."""
        root, top = Group(), self.objects.top()
        seen = {top}
        waiting = [(root, self.objects.read(top), b"", 0)]
        while waiting:
            group, found, path, depth = waiting.pop()
            if depth > DEEPEST:
                raise UnusualError
            group.attributes = self.attributes.of(found)[0]
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

    def _found(self, address: int, found: Object) -> Description:
        """Return what is known of a dataset."""
        shape, most, _ = shape_of(found.messages[SPACE])
        grows = tuple(n == UNDEFINED for n in most)
        attributes, internal, scales = self.attributes.of(found, rank=len(shape))
        dtype, kind = self._stored(found.messages[TYPE])
        return Description(address, shape, grows, dtype, kind, attributes, internal, scales)

    def _stored(self, data: bytes) -> tuple[np.dtype[Any], Kind]:
        what, dtype = type_of(data)
        if what == "number":
            native = dtype.newbyteorder("=")
            return native, "float" if native.kind == "f" else "integer"
        if what in ("fixed", "terminated") and dtype == 1:
            return np.dtype("S1"), "char"
        return np.dtype(object), "string" if what in ("fixed", "terminated", "text") else "other"


class _Late:
    """Reads hyperslabs of one dataset through the HDF5 library, which is loaded when the first are read."""

    __slots__ = ("file", "name", "reader", "where")

    def __init__(self, file: _File, name: bytes, where: str) -> None:
        self.file, self.name, self.where = file, name, where
        self.reader: Any = None

    def __call__(self, slices: tuple[slice, ...]) -> Any:
        if self.reader is None:
            from cfagg.formats.hdf5.values import Values

            self.reader = Values(self.file.handle, self.file, self.name, self.where)
        return self.reader(slices)
