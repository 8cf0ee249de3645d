"""HDF5-based netCDF files through h5py's low-level interface, group by group, interpreted as by the netCDF library.

Internal objects of the netCDF library are not shown.  Nothing outside the file is accessed: external links are omitted,
and values in external or virtual storage are not read.

Source: "NetCDF-4 file format" in the netCDF user guide; HDF5 dimension scales specification.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import h5py
import numpy as np

from cfagg.errors import LimitError, SourceError
from cfagg.formats.hdf5.assembly import DEEPEST, NO_VALUES, Assembly, Description, lacking, texts_of
from cfagg.formats.hdf5.attributes import UNUSUAL, OwnAttributes
from cfagg.formats.hdf5.bytes import Bytes, Shifted, bytes_of
from cfagg.formats.hdf5.library import ERRORS, address_of, attribute_values, close_hdf5, open_file
from cfagg.formats.hdf5.links import LeavesError, member
from cfagg.formats.hdf5.messages import VALUES
from cfagg.formats.hdf5.objects import MOST
from cfagg.formats.hdf5.sound import Sound
from cfagg.formats.hdf5.space import BrokenError, OverlapError
from cfagg.formats.hdf5.values import Values
from cfagg.formats.metadata.foreign import SEVERAL, Foreign, name_of, too_long
from cfagg.formats.values.locks import LIBRARY
from cfagg.formats.values.netcdf4_names import INTERNAL
from cfagg.model.dataset import AttributeValue, Dataset, Group, Kind
from cfagg.storage.files import Handle

__all__ = ["describe", "open_hdf5"]


def open_hdf5(handle: Handle) -> Dataset:
    """Return the model of an HDF5-based file, which is closed with it."""
    source = handle.key.path
    with LIBRARY:
        try:
            file = open_file(handle)
        except ERRORS as error:
            raise SourceError(
                f"{source} cannot be opened: it begins as HDF5, but the HDF5 library reports: {handle.said(error)}; "
                "copy or write it again"
            ) from error
        try:
            dataset = describe(file, handle)
        except BaseException:
            close_hdf5(file)
            raise
    dataset.close = lambda: _close(file, handle)
    return dataset


def describe(file: Any, handle: Handle) -> Dataset:
    """Return the model of a file that the library has open; it stays open."""
    source = handle.key.path
    with LIBRARY:
        try:
            data = bytes_of(handle)
            begin = int(file.get_create_plist().get_userblock())
            Sound(Shifted(data, begin)).check()
            return Dataset(source, "netcdf", _Walk(file, handle, data).root())
        except (SourceError, LimitError):
            raise
        except BrokenError as error:
            raise SourceError(
                f"{source} is damaged HDF5: its structures contradict each other; copy or write it again"
            ) from error
        except OverlapError as error:
            raise SourceError(f"{source} is damaged HDF5: its structures overlap; copy or write it again") from error
        except ERRORS as error:
            raise SourceError(
                f"{source} is damaged HDF5; the HDF5 library reports: {error}; copy or write it again"
            ) from error


def _close(file: Any, handle: Handle) -> None:
    with LIBRARY:
        close_hdf5(file)
    handle.close()


class _Walk:
    """Reads all groups of one file."""

    def __init__(self, file: Any, handle: Handle, data: Bytes) -> None:
        self.file, self.handle, self.source = file, handle, handle.key.path
        #: Addresses in the library are relative to the end of the user block.
        self.own = OwnAttributes(Shifted(data, int(file.get_create_plist().get_userblock())))
        self.assembly = Assembly(handle.key.size)
        self.objects = 0
        #: By address, because a dataset may have several names.
        self.known: dict[int, Description] = {}
        #: Most bytes of all texts of variable length, each of which should be shown once.
        self.left = 2 * int(file.get_filesize()) + (1 << 20)

    def root(self) -> Group:
        """Return the root group."""
        root = Group()
        top = h5py.h5g.open(self.file, b"/")
        seen = {address_of(top)}
        waiting = [(root, top, b"", 0)]
        while waiting:
            group, opened, path, depth = waiting.pop()
            if depth > DEEPEST:
                raise LimitError(f"{self.source}: groups are nested more than {DEEPEST:,} deep")
            group.attributes = self._attributes(opened, path or b"/")[0]
            below = []
            for name in self._names(opened):
                try:
                    inner = member(opened, self.file, name)
                except LeavesError:
                    continue
                if isinstance(inner, h5py.h5g.GroupID):
                    address = address_of(inner)
                    if address not in seen:
                        seen.add(address)
                        below.append((group.child(name_of(name)), inner, path + b"/" + name, depth + 1))
                elif isinstance(inner, h5py.h5d.DatasetID):
                    self._dataset(group, path + b"/" + name, inner)
            waiting.extend(reversed(below))
        self.assembly.finish()
        return root

    def _names(self, group: Any) -> list[bytes]:
        """Return the names of the links of a group, by creation order if it is tracked, else by name."""
        tracked = group.get_create_plist().get_link_creation_order() & h5py.h5p.CRT_ORDER_TRACKED
        names: list[bytes] = []
        order = h5py.h5.INDEX_CRT_ORDER if tracked else h5py.h5.INDEX_NAME
        group.links.iterate(names.append, idx_type=order)
        self.objects += len(names)
        if self.objects > MOST:
            raise LimitError(f"{self.source} has more than {MOST:,} variables and groups")
        return names

    def _spend(self, value: AttributeValue) -> None:
        """Count the bytes of texts, which the file could repeat endlessly."""
        if isinstance(value, str | tuple):
            self.left -= len(value) if isinstance(value, str) else sum(map(len, value))
            if self.left < 0:
                raise SourceError(
                    f"{self.source} is damaged HDF5: its attributes have more text than the file has bytes; copy or "
                    "write it again"
                )

    def _dataset(self, group: Group, path: bytes, dataset: Any) -> None:
        """Add a dataset to its group."""
        address = address_of(dataset)
        found = self.known.get(address)
        if found is None:
            space = dataset.get_space()
            shape = tuple(map(int, space.get_simple_extent_dims() or ()))
            attributes, internal, scales = self._attributes(dataset, path, len(shape))
            grows = tuple(n == h5py.h5s.UNLIMITED for n in space.get_simple_extent_dims(True)) if shape else ()
            null = space.get_simple_extent_type() == h5py.h5s.NULL
            dtype, kind = NO_VALUES if null else _type(dataset.get_type())
            found = self.known[address] = Description(address, shape, grows, dtype, kind, attributes, internal, scales)
        # The path is kept and not the dataset, which would keep the file open.
        file, handle, source = self.file, self.handle, self.source
        name = name_of(path.rpartition(b"/")[2])
        self.assembly.add(group, name, found, lambda v: Values(handle, lambda: file, path, f"{source}: {v.path}"))

    def _attributes(
        self, owner: Any, path: bytes, rank: int = 0
    ) -> tuple[dict[str, AttributeValue], Mapping[str, AttributeValue], Sequence[int | None] | None]:
        """Return the attributes, the library's internal ones, and the addresses of the dimensions."""
        # The library is used only if they cannot be read without it, and never for values of variable length, for which
        # it trusts all lengths and addresses in the file.
        own = self.own.read(address_of(owner), rank)
        if own is not None:
            odd = [name for name, value in own[0].items() if value is UNUSUAL]
            decoded = own[0] | {n: _value(n, h5py.h5a.open(owner, n.encode())) for n in odd} if odd else own[0]
            for value in decoded.values():
                self._spend(value)
            return decoded, *own[1:]
        names: list[bytes] = []
        # If no order is tracked, this is the storage order, or that of their names.
        h5py.h5a.iterate(owner, names.append, index_type=h5py.h5.INDEX_CRT_ORDER)
        shown: dict[str, AttributeValue] = {}
        internal: dict[str, AttributeValue] = {}
        for raw in names:
            name = name_of(raw)
            if name in ("REFERENCE_LIST", "_NCProperties"):
                continue
            attribute = h5py.h5a.open(owner, raw)
            if name == "DIMENSION_LIST":
                if isinstance(attribute.get_type(), h5py.h5t.TypeVlenID) and attribute.shape == (rank,):
                    raise SourceError(
                        f"{self.source} is damaged HDF5: the references of {name_of(path)!r} to its dimensions cannot "
                        "be followed; copy or write it again"
                    )
                continue
            value = _value(name, attribute)
            (internal if name in INTERNAL else shown)[name] = value
            self._spend(value)
        return shown, internal, None


def _type(stored: Any) -> tuple[np.dtype[Any], Kind]:
    """Return the NumPy type and the kind of values for an HDF5 type."""
    if isinstance(stored, h5py.h5t.TypeStringID):
        if stored.is_variable_str() or stored.get_size() > 1:
            return np.dtype(object), "string"
        return np.dtype("S1"), "char"
    if (number := _number(stored)) is not None:
        return number, "integer" if isinstance(stored, h5py.h5t.TypeIntegerID) else "float"
    if isinstance(stored, h5py.h5t.TypeEnumID) and (number := _number(stored.get_super())) is not None:
        names = [stored.get_member_name(i).decode() for i in range(stored.get_nmembers())]
        values = [int(stored.get_member_value(i)) for i in range(len(names))]
        return np.dtype(number.str, metadata={"enum": dict(zip(names, values, strict=True))}), "other"
    return lacking(stored.get_class()), "other"


def _number(stored: Any) -> np.dtype[Any] | None:
    """Return the NumPy type of numbers in native byte order, or `None` for what is none, or is too wide for NumPy."""
    if not isinstance(stored, h5py.h5t.TypeIntegerID | h5py.h5t.TypeFloatID):
        return None
    try:
        native: np.dtype[Any] = np.dtype(stored.dtype.str).newbyteorder("=")
    except (TypeError, ValueError):
        return None
    return native


def _value(name: str, attribute: Any) -> AttributeValue:
    """Return the value of an attribute."""
    stored, space = attribute.get_type(), attribute.get_space()
    if len(attribute.shape or ()) > 1:
        return SEVERAL
    empty = space.get_simple_extent_type() == h5py.h5s.NULL
    if isinstance(stored, h5py.h5t.TypeStringID):
        return _texts(name, attribute, stored, empty)
    if isinstance(stored, h5py.h5t.TypeEnumID) and name in VALUES:
        stored = stored.get_super()
    if (number := _number(stored)) is None:
        return Foreign("a value of a user-defined type")
    if empty or 0 in attribute.shape:
        return np.empty(0, number)
    foreign = too_long(name, attribute.get_storage_size())
    if foreign is not None:
        return foreign
    values = np.asarray(attribute_values(attribute)).reshape(-1)
    return values.astype("i1") if values.dtype.kind == "b" else values  # interpreted by h5py as truth values


def _texts(name: str, attribute: Any, stored: Any, empty: bool) -> AttributeValue:
    if empty or 0 in attribute.shape:
        return "" if empty else ()
    # The length of texts is only known when they are read; each may be as long as the file.
    foreign = too_long(name, attribute.get_storage_size())
    if foreign is not None:
        return foreign
    if stored.is_variable_str():
        return Foreign("texts whose lengths and places cannot be trusted")
    values: Any = attribute_values(attribute)
    return texts_of(name, [bytes(v) for v in values.flat], scalar=not attribute.shape) if values.size else ()
