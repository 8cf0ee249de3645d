"""Objects of HDF5 files that netCDF lacks: the netCDF library leaves them out without a word, or fails on the file."""

from __future__ import annotations

import contextlib
from collections.abc import Container, Iterator
from typing import Any

import h5py

from cfagg.errors import CfaggError
from cfagg.formats.hdf5.assembly import LACKING, NULL, unread_type
from cfagg.formats.hdf5.library import ERRORS, file_of
from cfagg.formats.hdf5.links import LeavesError, followed, member, reach
from cfagg.formats.values.locks import LIBRARY
from cfagg.formats.values.netcdf4_names import INTERNAL, NON_COORDINATE
from cfagg.storage.files import CONTEXT_SOURCE, Handle

__all__ = ["failing", "unread_below", "untyped", "untyped_below"]

#: Types by their class in HDF5; a compound may be one because of its members.
_TYPES = LACKING | {
    h5py.h5t.OPAQUE: "opaque",
    h5py.h5t.COMPOUND: "compounds with members of such types",
    h5py.h5t.VLEN: "lists of such types",
}

#: Types of attributes, which the netCDF library reads if they are named types.
_TYPES_OF_ATTRIBUTES = _TYPES | {h5py.h5t.COMPOUND: "a compound", h5py.h5t.VLEN: "lists", h5py.h5t.ENUM: "enumeration"}
_NUMBERS = {h5py.h5t.INTEGER: "integers", h5py.h5t.FLOAT: "reals"}

#: Classes of the types that the netCDF library also reads as named types, unless they have parts of `_ODD` classes.
_NAMED = (h5py.h5t.STRING, h5py.h5t.COMPOUND, h5py.h5t.OPAQUE, h5py.h5t.ENUM, h5py.h5t.VLEN)
_ODD = (h5py.h5t.TIME, h5py.h5t.REFERENCE, h5py.h5t.BITFIELD)

#: Types of the data sets by which the netCDF library stores dimensions without a variable.
_OF_DIMENSIONS = (h5py.h5t.INTEGER, h5py.h5t.FLOAT)


def untyped(handle: Handle, group: str, known: Container[str], dimensions: Container[str]) -> dict[str, str]:
    """Return variables of a group that are not `known` to the netCDF library, with the reason; its lock is held."""
    file = file_of(handle)
    found: dict[str, str] = {}
    try:
        opened = reach(file, group)
        names: list[bytes] = []
        opened.links.iterate(names.append)
        for stored in names:
            name = stored.decode("utf-8", "replace").removeprefix(NON_COORDINATE)
            why = None if name in known else _reason(opened, file, stored, is_dimension=name in dimensions)
            if why is not None:
                found[name] = why
    except ERRORS:  # of a damaged file, about which the netCDF library has not complained
        return found
    return found


def untyped_below(handle: Handle, stated: Any) -> Iterator[tuple[str, str]]:
    """Yield variables that the netCDF library leaves out of a group and those below, by path, with the reason."""
    known = stated.variables.keys() | stated.groups.keys()
    for name, why in untyped(handle, stated.path, known, stated.dimensions).items():
        yield f"{stated.path.rstrip('/')}/{name}", why
    for one in stated.groups.values():
        yield from untyped_below(handle, one)


def unread_below(handle: Handle, stated: Any) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield attributes that the netCDF library leaves out in a group and those below, with their types, by path."""
    file, path = file_of(handle), stated.path.strip("/")
    with contextlib.suppress(LeavesError, *ERRORS):  # as in `untyped`
        opened = reach(file, path)
        if found := _unread(opened, stated.attributes):
            yield path or "/", found
        for name, variable in stated.variables.items():
            names = [n for n in (f"{NON_COORDINATE}{name}".encode(), name.encode()) if opened.links.exists(n)]
            if names and (found := _unread(member(opened, file, names[0]), variable.attributes)):
                yield f"{path}/{name}".lstrip("/"), found
    for one in stated.groups.values():
        yield from unread_below(handle, one)


def _unread(opened: Any, known: Container[str]) -> dict[str, str]:
    """Return the attributes of an open object that are not `known` to the netCDF library, with their types."""
    names: list[bytes] = []
    h5py.h5a.iterate(opened, names.append)
    shown = {name: name.decode("utf-8", "replace") for name in names}
    return {
        text: _kind(h5py.h5a.open(opened, name).get_type())
        for name, text in shown.items()
        if text not in known and text not in INTERNAL
    }


def _kind(stored: Any) -> str:
    """Return the type of an attribute in words."""
    class_ = stored.get_class()
    bits = f"{8 * stored.get_size()}-bit "
    return _TYPES_OF_ATTRIBUTES.get(class_) or bits + _NUMBERS.get(class_, "values of another type")


def _reason(group: Any, file: Any, name: bytes, *, is_dimension: bool) -> str | None:
    """Return why the netCDF library leaves a data set out, or `None` for dimensions and other objects."""
    try:
        found = member(group, file, name)
        kind = found.get_type().get_class() if isinstance(found, h5py.h5d.DatasetID) else None
    except LeavesError:
        return None
    except ERRORS:
        return "the HDF5 library cannot open it; the file may be damaged"
    if kind is None or (is_dimension and kind in _OF_DIMENSIONS):
        return None
    return unread_type(_TYPES.get(kind, "of another kind"))


def failing(handle: Handle) -> dict[str, str]:
    """Return what makes the netCDF library refuse a sound file, by path, with the reason: nothing for named types."""
    with LIBRARY:
        try:
            finite = followed(handle, CONTEXT_SOURCE, strange=True) is not None
            return dict(_failing(file_of(handle))) if finite else {}
        except (CfaggError, *ERRORS):
            return {}


def _failing(file: Any) -> Iterator[tuple[str, str]]:
    todo: list[tuple[str, Any]] = [("", h5py.h5g.open(file, b"/"))]
    while todo:
        path, found = todo.pop()
        why = None if found is None else _failure(found)
        if why is not None:
            yield path.replace(f"/{NON_COORDINATE}", "/") or "/", why
        if isinstance(found, h5py.h5g.GroupID):
            names: list[bytes] = []
            found.links.iterate(names.append)
            for name in names:
                with contextlib.suppress(LeavesError):
                    todo.append((f"{path}/{name.decode('utf-8', 'replace')}", member(found, file, name)))


def _failure(found: Any) -> str | None:
    """Return why the netCDF library fails on an object, if it does; nothing if its values are read all the same."""
    if isinstance(found, h5py.h5t.TypeID):
        return None if found.get_class() in _NAMED and not any(map(found.detect_class, _ODD)) else ""
    if isinstance(found, h5py.h5d.DatasetID):
        if found.get_type().detect_class(h5py.h5t.TIME):
            return "the netCDF library fails on its HDF5 type (times); write it as numbers or text"
        if found.get_space().get_simple_extent_type() == h5py.h5s.NULL:
            return NULL
    names: list[bytes] = []
    h5py.h5a.iterate(found, names.append)
    attributes = {name.decode("utf-8", "replace"): h5py.h5a.open(found, name) for name in names}
    for name, one in attributes.items():
        if one.get_type().detect_class(h5py.h5t.TIME):
            return f"the netCDF library fails on the HDF5 type of its attribute {name!r} (times); write numbers or text"
    # These are left out.
    return "" if any(len(one.shape or ()) > 1 for one in attributes.values()) else None
