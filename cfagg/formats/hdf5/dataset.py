"""netCDF-4 files read without the HDF5 library: several times faster, for files as usually written by netCDF.

Names, attributes, types and shapes are read from the object headers; values are not touched.  Anything unusual or
damaged is left to the HDF5 library by returning `None`.

Source: HDF5 File Format Specification, version 3.
"""

from __future__ import annotations

from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from cfagg.errors import FragmentReadError, SourceError
from cfagg.formats.hdf5.assembly import DEEPEST, NO_VALUES, Assembly, Description, lacking
from cfagg.formats.hdf5.attributes import Attributes
from cfagg.formats.hdf5.bytes import Bytes, bytes_of
from cfagg.formats.hdf5.headers import Alike, Headers, fixed_messages
from cfagg.formats.hdf5.library import close_hdf5, open_file, release
from cfagg.formats.hdf5.lookup3 import damaged
from cfagg.formats.hdf5.messages import enumeration_of, shape_of, type_of
from cfagg.formats.hdf5.objects import LAYOUT, SPACE, TYPE, Object, Objects
from cfagg.formats.hdf5.small import SmallValues, name_of_path
from cfagg.formats.hdf5.space import ERRORS, UNDEFINED, OverlapError, Space, UnusualError
from cfagg.formats.metadata.foreign import name_of
from cfagg.formats.values.locks import LIBRARY
from cfagg.formats.values.open_variable import OpenVariable
from cfagg.model.dataset import Dataset, Group, Kind, Variable
from cfagg.storage.files import Context, Handle

if TYPE_CHECKING:
    from cfagg.formats.values.storage import StoredVariable

__all__ = ["open_fast", "parsed"]


def open_fast(handle: Handle) -> Dataset | None:
    """Return the model of an HDF5-based file, closed with it, or `None` if the library has to be used."""
    data = bytes_of(handle)
    read = parsed(data, handle)
    return None if read is None or damaged(data, read[1]) else read[0]


def parsed(data: Bytes, handle: Handle) -> tuple[Dataset, list[tuple[int, int, int]]] | None:
    """Return the model and the structures whose checksums have not been verified yet, or `None` as `open_fast`."""
    source = handle.key.path
    try:
        reader = _Reader(Space(data), handle)
        root = reader.root()
    except OverlapError as error:
        raise SourceError(f"{source} is damaged HDF5: its structures overlap; copy or write it again") from error
    except ERRORS:
        return None
    return Dataset(source, "netcdf", root, close=reader.values.close), reader.space.checked


class _File:
    """The file in the HDF5 library, opened when the first values are read."""

    def __init__(self, handle: Handle) -> None:
        self.handle = handle
        self.opened: Any = None

    def __call__(self) -> Any:
        """Return the low-level file."""
        if self.opened is None:
            self.opened = open_file(self.handle)
        return self.opened

    def close(self) -> None:
        """Release the file."""
        if self.opened is not None:
            with LIBRARY:
                close_hdf5(self.opened)
            self.opened = None
        with LIBRARY:
            release(self.handle)
        self.handle.close()


class _Reader:
    def __init__(self, space: Space, handle: Handle) -> None:
        self.space, self.source = space, handle.key.path
        self.objects = Objects(space)
        self.values = _File(handle)
        self.assembly = Assembly(handle.key.size)
        self.known: dict[int, Description] = {}
        self.stored: dict[int, Object | Alike] = {}
        self.headers = Headers(self.objects)
        self.attributes = Attributes(self.objects)

    def root(self) -> Group:
        """Return the root group."""
        root, top = Group(), self.objects.top()
        seen = {top}
        waiting = [(root, self.headers.read(top), b"", 0)]
        while waiting:
            group, found, path, depth = waiting.pop()
            if depth > DEEPEST:
                raise UnusualError
            group.attributes = self.attributes.of(found)[0]
            below = []
            for name, address in self.objects.links(found.object() if isinstance(found, Alike) else found):
                where = path + b"/" + name
                known = self.known.get(address)
                if address in seen:
                    continue
                inner = self.headers.read(address, name) if known is None else None
                messages = {} if inner is None else fixed_messages(inner)
                if inner is not None and SPACE not in messages:
                    seen.add(address)
                    if TYPE not in messages:  # otherwise a named type
                        below.append((group.child(name_of(name)), inner, where, depth + 1))
                    continue
                if known is None and inner is not None:
                    known = self.known[address] = self._found(address, inner)
                    self.stored[address] = inner
                if known is not None:
                    self.assembly.add(group, name_of(name), known, self._read(where, known))
            waiting.extend(reversed(below))
        self.assembly.finish()
        return root

    def _read(self, where: bytes, known: Description) -> Any:
        return partial(_values, self.values, where, known, self.stored[known.address])

    def _found(self, address: int, found: Object | Alike) -> Description:
        """Return the description of a dataset."""
        described = found.header.described if isinstance(found, Alike) else None
        if described is None:
            messages = fixed_messages(found)
            shape, most, null = shape_of(messages[SPACE])
            dtype, kind = NO_VALUES if null else _kind(messages[TYPE])
            described = shape, tuple(n == UNDEFINED for n in most), dtype, kind
            if isinstance(found, Alike):
                found.header.described = described
        shape, grows, dtype, kind = described
        attributes, internal, scales = self.attributes.of(found, rank=len(shape))
        return Description(address, shape, grows, dtype, kind, attributes, internal, scales)


#: Context of values in files to which no aggregation refers.
_CONTEXT = Context("", FragmentReadError, FragmentReadError)


@lru_cache(1024)
def _kind(data: bytes) -> tuple[np.dtype[Any], Kind]:
    """Return the type of values in native byte order, and their kind."""
    what, dtype = type_of(data)
    if what == "number":
        native = dtype.newbyteorder("=")
        return native, "float" if native.kind == "f" else "integer"
    if what in ("fixed", "terminated") and dtype == 1:
        return np.dtype("S1"), "char"
    if what in ("fixed", "terminated", "text"):
        return np.dtype(object), "string"
    return enumeration_of(data) or lacking(data[0] & 15), "other"


def _values(file: _File, path: bytes, known: Description, found: Object | Alike, variable: Variable) -> OpenVariable:
    """Return the reader of the values of a dataset."""

    def find() -> Any:
        stored = _stored(file.handle, path, known, found, variable)
        if stored is None:
            from cfagg.formats.hdf5.values import Values

            return Values(file.handle, file, path, f"{file.handle.key.path}: {variable.path}")
        return stored

    if not isinstance(found, Alike) or file.handle.data is not None:
        return OpenVariable(file.handle, find, _CONTEXT)
    return SmallValues(file.handle, find, _CONTEXT, variable, path, found)


def _stored(
    handle: Handle, path: bytes, known: Description, found: Object | Alike, variable: Variable
) -> StoredVariable | None:
    """Return the location of the values of a dataset, or `None` if the HDF5 library reads them."""
    # An unlimited netCDF dimension can be longer than the dataset.  Remote files are not in the pool of the library,
    # which may be needed to look up chunks.
    if variable.shape != known.shape or known.kind not in ("integer", "float", "char") or handle.data is not None:
        return None
    from cfagg.cf.header import Header
    from cfagg.formats.hdf5.plain import is_plain, storage_of
    from cfagg.formats.values.reading import is_own
    from cfagg.formats.values.storage import StoredVariable

    found = found.object() if isinstance(found, Alike) else found
    if not is_plain(found.messages.keys()) or LAYOUT not in found.messages:
        return None
    name = name_of_path(path)
    dtype = known.dtype if known.kind == "char" else np.dtype(type_of(found.messages[TYPE])[1])
    try:
        storage = storage_of(found.messages, known.shape, dtype, name)
    except ERRORS:
        return None
    header = Header(handle.key.path, name, variable.dims, known.shape, known.dtype)
    stored = StoredVariable(handle.key, name, "/", header, storage, name, ())
    return stored if is_own(stored) else None
