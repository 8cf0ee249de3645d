"""Finding variables in HDF5-based netCDF files through h5py's low-level interface, a few times faster than netCDF-C.

Anything that this module does not understand is left to the netCDF library by returning `None`.  References out of the
file are listed (`cfagg.formats.hdf5.links`) and raise an error: external links, external storage and virtual datasets
would read files that no policy has allowed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

import h5py
import numpy as np

from cfagg.cf.header import Header
from cfagg.errors import AccessError
from cfagg.formats.hdf5.attributes import OwnAttributes
from cfagg.formats.hdf5.bytes import HandleBytes
from cfagg.formats.hdf5.library import ERRORS, address_of, attribute_values, file_of
from cfagg.formats.hdf5.links import LeavesError, outside, reach
from cfagg.formats.hdf5.proof import prove, prove_file
from cfagg.formats.hdf5.space import UnsoundError
from cfagg.formats.metadata.foreign import decides
from cfagg.formats.values.locks import LIBRARY
from cfagg.formats.values.netcdf4_names import INTERNAL, NO_VARIABLE, stored_paths
from cfagg.formats.values.storage import Chunked, Contiguous, Library, StoredVariable
from cfagg.model.chunks import Encoding
from cfagg.storage.files import Context, Handle
from cfagg.storage.gate import Checked, Reference, admit

__all__ = ["chunked", "dataset", "fill", "find", "references", "stored", "strings_of"]

_INTERNAL = frozenset(name.encode() for name in INTERNAL)

_TEXT = np.dtype(object, metadata={"element_type": str})


class _UnclearError(Exception):
    """Something that the netCDF library has to interpret."""


def find(
    handle: Handle, address: str, context: Context, group: str = "/", *, alone: bool = False
) -> StoredVariable | None:
    """Return a variable of an HDF5-based file, or `None` if the netCDF library has to be used.

    It is `alone` where that library must not open the file: strings are found, too, and dimensions without names get
    some, whose numbers that library would assign.
    """
    with LIBRARY:
        try:
            file = file_of(handle)
            prove_file(handle, file)
            found = _dataset(handle, file, address, group)
            if found is None:
                return None
            name, opened, leads = found
            admit(handle, name, leads, context)
            return _described(handle, file, name, opened, opened.get_create_plist(), address, group, alone)
        except AccessError:
            raise
        except (*ERRORS, UnsoundError, _UnclearError):
            # The netCDF library reports what is wrong in its own words, once `references` is known.
            return None


def stored(
    handle: Handle, path: str, shape: tuple[int, ...], dtype: np.dtype[Any], context: Context
) -> tuple[str, Chunked | Contiguous] | None:
    """Return path and storage of a variable that the netCDF library describes, or `None` if only that can read it."""
    # The library assigns names to unnamed dimensions, but lacks filters that are supported here.
    with LIBRARY:
        try:
            file = file_of(handle)
            found = [(p, each) for p in stored_paths(path) if isinstance(each := reach(file, p), h5py.h5d.DatasetID)]
            if len(found) != 1:
                return None
            ((known, opened),) = found
            admit(handle, known, outside(opened), context)
            own = _plain(opened.dtype)
            # Along an unlimited dimension the library adds missing values to this variable.
            if own.newbyteorder("=") != dtype or dtype.metadata or opened.shape != shape:
                return None
            storage = _storage(file, known, opened, opened.get_create_plist(), own)
            return None if isinstance(storage, Library) else (known, storage)
        except AccessError:
            raise
        except LeavesError as error:
            admit(handle, path, [error.reference], context)
        except (*ERRORS, UnsoundError, _UnclearError):
            return None
    return None


def references(handle: Handle, path: str) -> list[Reference] | None:
    """Return references out of the file of any object that netCDF may treat as the variable; `None` if unknown."""
    with LIBRARY:
        try:
            file = file_of(handle)
            found = [_leads(file, p) for p in stored_paths(path)]
        except ERRORS:
            return None
    known = [leads for leads in found if leads is not None]
    return [reference for leads in known for reference in leads] if known else None


def strings_of(handle: Handle, attributes: Sequence[tuple[str, str]]) -> set[tuple[str, str]]:
    """Return those of some attributes, each with the path of its owner, that are strings and not characters."""
    with LIBRARY:
        try:
            file = file_of(handle)
            return {(path, name) for path, name in attributes if _is_string(file, path, name.encode())}
        except (*ERRORS, LeavesError):  # also of classic files, which have no strings
            return set()


def _is_string(file: Any, path: str, name: bytes) -> bool:
    owners = [owner for p in stored_paths(path) if (owner := reach(file, p)) is not None]
    kinds = [h5py.h5a.open(owner, name).get_type() for owner in owners if h5py.h5a.exists(owner, name)]
    return any(isinstance(kind, h5py.h5t.TypeStringID) and kind.is_variable_str() for kind in kinds)


def _leads(file: Any, path: str) -> list[Reference] | None:
    """Return the references out of the file of the dataset at a path, or `None` if there is none."""
    try:
        found = reach(file, path)
    except LeavesError as error:
        return [error.reference]
    return outside(found) if isinstance(found, h5py.h5d.DatasetID) else None


def dataset(checked: Checked, context: Context) -> Any:
    """Return the open low-level dataset; the library lock is held."""
    # The HDF5 library may interpret a file differently from the code that found the dataset, so the object that it
    # opens is checked, too.
    path = checked.dataset
    try:
        found = reach(file_of(checked.handle), path)
    except LeavesError as error:
        admit(checked.handle, path, [error.reference], context)
    if found is None:
        raise KeyError(f"there is no {path!r}")
    admit(checked.handle, path, outside(found), context)
    return found


def _dataset(handle: Handle, file: Any, address: str, group: str) -> tuple[str, Any, list[Reference]] | None:
    """Return path, dataset and external references of a variable that is searched from `group` upwards."""
    where, _, name = address.rpartition("/")
    start = [] if address.startswith("/") else [p for p in group.split("/") if p]
    inner = [p for p in where.split("/") if p]
    if "." in inner:
        # In HDF5 a dot means the group itself; netCDF has no such groups.
        return None
    for depth in range(len(start), -1, -1):
        parent = "/".join([*start[:depth], *inner])
        for path in stored_paths(f"{parent}/{name}"):
            try:
                found = reach(file, path)
            except LeavesError as error:
                return path, None, [error.reference]
            except (KeyError, ValueError, OSError, RuntimeError):
                continue
            if isinstance(found, h5py.h5d.DatasetID):
                leads = outside(found)
                # Datasets with external references raise an error, whatever their attributes.
                if leads:
                    return path, found, leads
                prove(handle, file, found)
                if not _is_bare_dimension(found):
                    return path, found, leads
    return None


def _is_bare_dimension(dataset: Any) -> bool:
    if not h5py.h5a.exists(dataset, b"NAME") or not h5py.h5a.exists(dataset, b"CLASS"):
        return False
    try:
        value = _attribute(h5py.h5a.open(dataset, b"NAME"))
    except _UnclearError:
        # Not text, which the netCDF library would write.
        return False
    return isinstance(value, str) and value.startswith(NO_VARIABLE)


def _plain(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return a type of numbers or single characters without h5py's metadata."""
    if (
        dtype.kind not in "iufS"
        or (dtype.metadata and dtype.kind != "S")
        or (dtype.kind == "S" and dtype.itemsize != 1)
    ):
        # Enumerations, compounds and types of variable length are rare and complicated.
        raise _UnclearError
    return np.dtype(dtype.str)


def _described(
    handle: Handle, file: Any, name: str, dataset: Any, plist: Any, address: str, group: str, alone: bool
) -> StoredVariable:
    """Return the description of a dataset."""
    text = alone and _is_text(dataset.get_type())
    dtype = _TEXT if text else _plain(dataset.dtype)
    shape = dataset.shape
    names = _attribute_names(dataset, plist)
    if alone and not {b"DIMENSION_LIST", b"CLASS"}.intersection(names):
        dims = tuple(f"phony_dim_{d}" for d in range(len(shape)))
    else:
        dims = _dimensions(handle, file, name, dataset, shape, names)
    header = Header(handle.key.path, address, dims, shape, dtype.newbyteorder("="), _attributes(dataset, names, alone))
    storage = Library(texts=True) if text else _storage(file, name, dataset, plist, dtype)
    return StoredVariable(handle.key, address, group, header, storage, name, ())


def _is_text(kind: Any) -> bool:
    """Return whether values of a type are strings, not single characters."""
    return isinstance(kind, h5py.h5t.TypeStringID) and (kind.is_variable_str() or kind.get_size() > 1)


def _storage(file: Any, name: str, dataset: Any, plist: Any, dtype: np.dtype[Any]) -> Chunked | Contiguous | Library:
    """Return the storage of the values of a dataset."""
    layout = plist.get_layout()
    based = bool(file.get_create_plist().get_userblock())
    if layout == h5py.h5d.CONTIGUOUS and not based:
        offset = dataset.get_offset()
        encoding = Encoding(dtype, fill=fill(dataset) if offset is None else None)
        return Contiguous(-1 if offset is None else int(offset), 0, encoding)
    if layout == h5py.h5d.CHUNKED and not based:
        return chunked(plist, dtype, name)
    return Library(plist.get_chunk() if layout == h5py.h5d.CHUNKED else None)


def chunked(plist: Any, dtype: np.dtype[Any], name: str) -> Chunked:
    """Return the storage of values in chunks; the library lock is held."""
    filters = map(plist.get_filter, range(plist.get_nfilters()))
    return Chunked(plist.get_chunk(), Encoding(dtype, tuple((f[0], tuple(f[2])) for f in filters)), name)


def fill(dataset: Any) -> Any:
    """Return the value of unwritten elements, in native byte order; the library lock is held."""
    plist = dataset.get_create_plist()
    value = np.zeros((), dataset.dtype)
    if plist.fill_value_defined() != h5py.h5d.FILL_VALUE_UNDEFINED:
        plist.get_fill_value(value)
    return value.astype(value.dtype.newbyteorder("="))[()]


class _Scales:
    """What is known of the dimension scales of a file; the library lock is held."""

    def __init__(self, handle: Handle, file: Any) -> None:
        self._own = OwnAttributes(HandleBytes(handle, int(file.get_create_plist().get_userblock())))
        self._names: dict[int, bytes] = {}
        self._lengths: dict[int, int] = {}
        # As in the library, the first of several names counts.
        file.links.visit(lambda name, link: _note(self._names, name, link), info=True)

    def names(self, file: Any, dataset: Any, references: Any) -> list[str]:
        """Return the names of the dimensions of a dataset that refers to these scales."""
        own = self._own.read(address_of(dataset), len(references))
        if own is not None and own[2] is not None:
            found = [self._names.get(-1 if at is None else at) for at in own[2]]
        else:
            # The library looks for each among all objects.
            found = [h5py.h5r.get_name(refs[0], file) for refs in references]
        if None in found:
            raise _UnclearError  # a reference to nothing
        return [name.decode().rpartition("/")[2] for name in found if name is not None]

    def longest(self, file: Any, scale: Any) -> int:
        """Return the length of an unlimited netCDF dimension."""
        at = address_of(scale)
        if at not in self._lengths:
            self._lengths[at] = _longest(file, scale)
        return self._lengths[at]


_known: WeakKeyDictionary[Handle, _Scales] = WeakKeyDictionary()


def _scales(handle: Handle, file: Any) -> _Scales:
    if (found := _known.get(handle)) is None:
        found = _known[handle] = _Scales(handle, file)
    return found


def _note(names: dict[int, bytes], name: bytes, link: Any) -> None:
    if link.type == h5py.h5l.TYPE_HARD:
        names.setdefault(link.u, name)


def _dimensions(
    handle: Handle, file: Any, name: str, dataset: Any, shape: tuple[int, ...], attributes: Sequence[bytes]
) -> tuple[str, ...]:
    """Return the names of the dimensions; raise an error if the lengths differ from the netCDF ones."""
    if not shape:
        return ()
    limits = dataset.get_space().get_simple_extent_dims(True)
    if b"DIMENSION_LIST" not in attributes:
        if len(shape) != 1 or b"CLASS" not in attributes:
            raise _UnclearError
        references = None
        names = [name.rpartition("/")[2]]
    else:
        attribute = h5py.h5a.open(dataset, b"DIMENSION_LIST")
        kind = attribute.get_type()
        if not isinstance(kind, h5py.h5t.TypeVlenID) or not kind.get_super().equal(h5py.h5t.STD_REF_OBJ):
            raise _UnclearError
        references = np.empty(attribute.shape, attribute.dtype)
        attribute.read(references)
        if references.shape != (len(shape),) or any(len(refs) != 1 for refs in references):
            raise _UnclearError
        names = _scales(handle, file).names(file, dataset, references)
    for d, (n, most) in enumerate(zip(shape, limits, strict=True)):
        # An unlimited dimension is as long as the longest variable along it.
        if most != n:
            scale = dataset if references is None else h5py.h5r.dereference(references[d][0], file)
            if _scales(handle, file).longest(file, scale) != n:
                raise _UnclearError
    return tuple(names)


def _longest(file: Any, scale: Any) -> int:
    """Return the length of an unlimited netCDF dimension."""
    if not isinstance(scale, h5py.h5d.DatasetID) or not scale.shape:
        raise _UnclearError
    longest = int(scale.shape[0])
    if h5py.h5a.exists(scale, b"REFERENCE_LIST"):
        attribute = h5py.h5a.open(scale, b"REFERENCE_LIST")
        kind = attribute.get_type()
        if (
            not isinstance(kind, h5py.h5t.TypeCompoundID)
            or kind.get_nmembers() != 2
            or not kind.get_member_type(0).equal(h5py.h5t.STD_REF_OBJ)
            or not isinstance(kind.get_member_type(1), h5py.h5t.TypeIntegerID)
            or len(attribute.shape) != 1
        ):
            raise _UnclearError
        users = np.empty(attribute.shape, attribute.dtype)
        attribute.read(users)
        for reference, axis in users:
            user = h5py.h5r.dereference(reference, file) if reference else None
            if not isinstance(user, h5py.h5d.DatasetID) or not 0 <= axis < len(user.shape):
                raise _UnclearError
            longest = max(longest, int(user.shape[axis]))
    return longest


def _attribute_names(dataset: Any, plist: Any) -> list[bytes]:
    """Return the names of all attributes, by creation order if it is tracked, as in the netCDF library."""
    tracked = plist.get_attr_creation_order() & h5py.h5p.CRT_ORDER_TRACKED
    names: list[bytes] = []
    h5py.h5a.iterate(dataset, names.append, index_type=h5py.h5.INDEX_CRT_ORDER if tracked else h5py.h5.INDEX_NAME)
    return names


def _attributes(dataset: Any, names: Sequence[bytes], alone: bool = False) -> dict[str, Any]:
    """Return the attributes in the form used by netCDF4-python, which fails on those of several dimensions."""
    found = {n.decode(): h5py.h5a.open(dataset, n) for n in names if n not in _INTERNAL}
    return {n: _attribute(one, alone) for n, one in found.items() if decides(n) or len(one.shape or ()) < 2}


def _attribute(attribute: Any, alone: bool = False) -> Any:
    """Return the value of an attribute; several texts of one length only where the netCDF library is not used."""
    kind, shape = attribute.get_type(), attribute.shape
    is_text = isinstance(kind, h5py.h5t.TypeStringID)
    several = is_text and kind.is_variable_str()
    if not several:
        if len(shape) > 1 or (is_text and not alone and shape not in ((), (1,))):
            raise _UnclearError
        if attribute.get_space().get_simple_extent_type() == h5py.h5s.NULL:
            raise _UnclearError
    values = attribute_values(attribute)
    if values is None or (several and not values.size):
        raise _UnclearError
    if not is_text:
        return values.reshape(-1)[0] if values.size == 1 else values
    if several:
        texts = [v.decode("utf-8", "replace") if isinstance(v, bytes) else str(v) for v in values.reshape(-1)]
        return texts[0] if len(texts) == 1 else texts
    texts = [bytes(v).decode("utf-8", "replace").replace("\0", "") for v in values.reshape(-1)]
    return texts[0] if shape in ((), (1,)) else texts
