"""References of the links and layouts of an HDF5 file, listed through h5py without following any out of the file.

The HDF5 library opens other files itself: targets of external links when an object is opened, sources of virtual
datasets when their extent is requested or values are read, files of external storage when values are read.  So links
are checked before they are followed, one component after the other, and layouts before anything else of a dataset.
"""

from __future__ import annotations

import os
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import h5py
import numpy as np

from cfagg.errors import CfaggError, UnsupportedError
from cfagg.formats.hdf5.library import ERRORS, address_of, attribute_values, file_of
from cfagg.formats.hdf5.proof import prove, prove_file
from cfagg.formats.hdf5.space import UnsoundError
from cfagg.formats.values.locks import LIBRARY
from cfagg.storage.files import Context, Handle
from cfagg.storage.gate import Reference

__all__ = ["LeavesError", "followed", "member", "outside", "reach"]

#: Limits on the objects that the netCDF library would visit, by all their paths, and the depth: it has none itself.
MOST, DEEPEST = 1 << 20, 128

_TEXTS = (
    "is a compound with texts of several characters, of which the netCDF library has room for one: write each member "
    "as a variable of its own"
)

#: What was found in open files, with their sizes and times before the search.
_found: WeakKeyDictionary[Handle, tuple[tuple[object, ...], tuple[Reference, ...] | None]] = WeakKeyDictionary()

#: Most soft links in a chain, as in the HDF5 library.
_HOPS = 16


class LeavesError(Exception):
    """A path that leads out of the file, through the given reference."""

    def __init__(self, reference: Reference) -> None:
        self.reference = reference
        super().__init__(str(reference))


def reach(file: Any, path: str) -> Any:
    """Return the object at a path within the file, or `None` if there is none; the library lock is held."""
    return _walk(h5py.h5g.open(file, b"/"), file, path.encode("utf-8", "surrogateescape"), _HOPS)


def _walk(start: Any, file: Any, path: bytes, hops: int) -> Any:
    at = h5py.h5g.open(file, b"/") if path.startswith(b"/") else start
    for word in path.split(b"/"):
        if word in (b"", b"."):
            continue
        if not isinstance(at, h5py.h5g.GroupID) or not at.links.exists(word):
            return None
        at = member(at, file, word, hops)
    return at


def member(group: Any, file: Any, name: bytes, hops: int = _HOPS) -> Any:
    """Return the target of a link within the file, or `None` if it is broken; raise `LeavesError` if outside."""
    kind = group.links.get_info(name).type
    if kind == h5py.h5l.TYPE_HARD:
        return h5py.h5o.open(group, name)
    if kind == h5py.h5l.TYPE_SOFT:
        return _walk(group, file, group.links.get_val(name), hops - 1) if hops else None
    raise LeavesError(_leaving(group, name, kind))


def _leaving(group: Any, name: bytes, kind: int) -> Reference:
    """Return the target of a link that is neither hard nor soft."""
    if kind == h5py.h5l.TYPE_EXTERNAL:
        file, path = group.links.get_val(name)
        return Reference("an external link", f"{_text(file)}:{_text(path)}")
    return Reference("a user-defined link", _text(name))


def outside(dataset: Any) -> list[Reference]:
    """Return the files from which an open dataset reads its values; the library lock is held."""
    plist = dataset.get_create_plist()
    found = [Reference("external storage", _text(plist.get_external(i)[0])) for i in range(plist.get_external_count())]
    if plist.get_layout() == h5py.h5d.VIRTUAL:
        # It is virtual even without any source.
        names = [_text(plist.get_virtual_filename(i)) for i in range(min(plist.get_virtual_count(), 3))]
        found += [Reference("a virtual dataset", name) for name in names or ["nothing"]]
    return found


class _Level(NamedTuple):
    """One group of the walk, with the names of its members that are still to be visited."""

    group: Any
    address: int
    names: list[bytes]


def followed(handle: Handle, context: Context, *, strange: bool = False) -> list[Reference] | None:
    """Return references out of a file that a library reading all metadata would follow, or `None` if it never ends."""
    # Links to other files are followed when an object is opened, and sources of a virtual dataset whose extent depends
    # on them.  Values in external storage and of other virtual datasets are not touched before they are read.
    with LIBRARY:
        state = _state(handle, strange)
        known = _found.get(handle)
        if known is not None and state is not None and known[0] == state:
            return None if known[1] is None else list(known[1])
        try:
            found = _followed(handle, file_of(handle), context, strange)
        except CfaggError:
            raise
        except UnsoundError as error:
            raise context.damage(f"{handle.key.path} is damaged: {error}; restore or replace the file") from error
        except ERRORS as error:
            raise context.damage(handle.failed(error)) from error
        if state is not None:
            _found[handle] = state, None if found is None else tuple(found)
        return found


def _state(handle: Handle, strange: bool) -> tuple[object, ...] | None:
    """Return what is known of a file only in this state, or `None` if it is not on this machine."""
    if handle.data is not None:
        return None
    now = os.fstat(handle.fd)
    return strange, now.st_size, now.st_mtime_ns, now.st_ctime_ns


def _followed(handle: Handle, file: Any, context: Context, strange: bool) -> list[Reference] | None:
    found: list[Reference] = []
    safe: set[int] = set()
    prove_file(handle, file)
    top = h5py.h5g.open(file, b"/")
    prove(handle, file, top)
    levels = [_level(top)]
    _check_attributes(top, b"/")
    visited = 0
    while levels:
        level = levels[-1]
        if not level.names:
            levels.pop()
            continue
        name = level.names.pop()
        visited += 1
        try:
            inner = member(level.group, file, name)
        except LeavesError as error:
            found.append(error.reference)
            continue
        if inner is None and not strange:
            raise UnsupportedError(
                context.said(
                    f"link {_text(name)!r} of {handle.key.path} leads to nothing, so that the netCDF library does not "
                    "open the file: delete the link, or write what it names"
                )
            )
        if isinstance(inner, h5py.h5g.GroupID):
            below = _level(inner)
            # The netCDF library visits a group once for each path to it, and follows cycles.
            if len(levels) >= DEEPEST or visited > MOST or any(o.address == below.address for o in levels):
                return None
            prove(handle, file, inner)
            levels.append(below)
        elif not strange and isinstance(inner, h5py.h5t.TypeID) and _has_texts(inner):
            raise UnsupportedError(context.said(f"type {_text(name)!r} of {handle.key.path} {_TEXTS}"))
        elif isinstance(inner, h5py.h5d.DatasetID):
            address = address_of(inner)
            if address not in safe:
                safe.add(address)
                prove(handle, file, inner)
                if not strange and not _has_numbers_of_netcdf(inner):
                    raise UnsupportedError(
                        context.said(
                            f"dataset {_text(name)!r} of {handle.key.path} holds numbers of a type that netCDF lacks "
                            f"({inner.get_type().get_size()} bytes each), which the netCDF library reads as strings: "
                            "write them as float32 or float64"
                        )
                    )
                if not strange and _has_text_to_free(inner):
                    raise UnsupportedError(
                        context.said(
                            f"dataset {_text(name)!r} of {handle.key.path} has strings of fixed length and a fill "
                            "value, which crash the netCDF library: write it without a fill value, or with strings of "
                            "variable length"
                        )
                    )
                if not strange and _has_texts(inner.get_type()):
                    raise UnsupportedError(context.said(f"dataset {_text(name)!r} of {handle.key.path} {_TEXTS}"))
                extent = _extent(inner)
                if not extent:
                    # Not earlier, since this requests its extent.
                    _check_attributes(inner, name)
                found += extent + _scales(inner)
    return found


def _level(group: Any) -> _Level:
    names: list[bytes] = []
    group.links.iterate(names.append)
    return _Level(group, address_of(group), names)


def _has_numbers_of_netcdf(dataset: Any) -> bool:
    """Return whether the netCDF library knows the type of a dataset's numbers; it frees others like strings."""
    kind = dataset.get_type()
    if isinstance(kind, h5py.h5t.TypeFloatID):
        return any(
            kind.equal(known)
            for known in (h5py.h5t.IEEE_F32LE, h5py.h5t.IEEE_F32BE, h5py.h5t.IEEE_F64LE, h5py.h5t.IEEE_F64BE)
        )
    return not isinstance(kind, h5py.h5t.TypeIntegerID) or kind.get_size() <= 8


def _has_text_to_free(dataset: Any) -> bool:
    """Return whether a dataset has a fixed-length fill value, which the netCDF library frees as a string pointer."""
    kind = dataset.get_type()
    fixed = isinstance(kind, h5py.h5t.TypeStringID) and not kind.is_variable_str() and kind.get_size() > 1
    return fixed and dataset.get_create_plist().fill_value_defined() == h5py.h5d.FILL_VALUE_USER_DEFINED


def _has_texts(kind: Any, *, inside: bool = False) -> bool:
    """Return whether a type has texts of several characters inside compounds, which overrun the memory of netCDF4."""
    if isinstance(kind, h5py.h5t.TypeArrayID | h5py.h5t.TypeVlenID):
        return _has_texts(kind.get_super(), inside=inside)
    if isinstance(kind, h5py.h5t.TypeCompoundID):
        return any(_has_texts(kind.get_member_type(i), inside=True) for i in range(kind.get_nmembers()))
    return inside and isinstance(kind, h5py.h5t.TypeStringID) and not kind.is_variable_str() and kind.get_size() > 1


def _extent(dataset: Any) -> list[Reference]:
    """Return the sources that determine the extent of a virtual dataset."""
    plist = dataset.get_create_plist()
    if plist.get_layout() != h5py.h5d.VIRTUAL:
        return []
    for i in range(plist.get_virtual_count()):
        space = plist.get_virtual_vspace(i)
        if space.get_select_type() == h5py.h5s.SEL_ALL:
            continue
        if space.get_select_type() != h5py.h5s.SEL_HYPERSLABS or (
            space.is_regular_hyperslab() and h5py.h5s.UNLIMITED in (n for p in space.get_regular_hyperslab() for n in p)
        ):
            return [Reference("a virtual dataset", _text(plist.get_virtual_filename(i)))]
    return []


def _scales(dataset: Any) -> list[Reference]:
    """Return the reference to dimensions if its kind may point to another file."""
    if not h5py.h5a.exists(dataset, b"DIMENSION_LIST"):
        return []
    kind = h5py.h5a.open(dataset, b"DIMENSION_LIST").get_type()
    kind = kind.get_super() if isinstance(kind, h5py.h5t.TypeVlenID) else kind
    # Other types of references may name a file; anything that is not a reference points nowhere.
    if not isinstance(kind, h5py.h5t.TypeReferenceID) or kind.equal(h5py.h5t.STD_REF_OBJ):
        return []
    return [Reference("a dimension's reference", "an object of any file")]


def _check_attributes(owner: Any, name: bytes) -> None:
    """Raise an error for attributes that the netCDF library would read into too little memory."""
    if isinstance(owner, h5py.h5g.GroupID):
        _check_text(owner, name, b"_NCProperties")
        return
    if h5py.h5a.exists(owner, b"CLASS"):
        if not owner.rank and _may_be_scale(owner):
            # The library treats it as a dimension, and looks up its length.
            raise UnsoundError(f"{_text(name)!r} is a dimension scale of no dimension")
        _check_text(owner, name, b"CLASS")
        _check_text(owner, name, b"NAME")
    for attribute, single, kind, size in (
        (b"_Netcdf4Dimid", True, None, 0),
        (b"_Netcdf4Coordinates", False, h5py.h5t.TypeIntegerID, 4),
        (b"DIMENSION_LIST", False, h5py.h5t.TypeVlenID, 0),
    ):
        if h5py.h5a.exists(owner, attribute):
            found = h5py.h5a.open(owner, attribute)
            count, stored = found.get_space().get_simple_extent_npoints(), found.get_type()
            most = 1 if single else owner.rank
            if count > most or (kind and not isinstance(stored, kind)) or (size and stored.get_size() != size):
                raise _unsound(
                    name, attribute, f"{count} elements of type class {stored.get_class()}", f"at most {most}"
                )
            if attribute == b"DIMENSION_LIST" and count < owner.rank:
                # The library reads an element for each dimension, even from uninitialised memory.
                raise _unsound(name, attribute, f"{count} elements", str(owner.rank))
            if single and isinstance(stored, h5py.h5t.TypeIntegerID):
                # The library allocates a list of this many dimensions, and aborts if it cannot.
                numbers = np.zeros(found.shape, found.dtype)
                found.read(numbers)
                if not all(0 <= n < MOST for n in numbers.reshape(-1).tolist()):
                    raise _unsound(name, attribute, f"the number {numbers.reshape(-1)[0]}", f"at most {MOST - 1}")


def _may_be_scale(owner: Any) -> bool:
    """Return whether the library may take an object for a dimension scale: it compares the shorter of two texts."""
    found = attribute_values(h5py.h5a.open(owner, b"CLASS"))
    text = b"" if found is None or found.shape or found.dtype.kind != "S" else bytes(found[()]).split(b"\0")[0]
    length = min(len(text), len(b"DIMENSION_SCALE"))
    return text[:length] == b"DIMENSION_SCALE"[:length]


def _check_text(owner: Any, name: bytes, attribute: bytes) -> None:
    if h5py.h5a.exists(owner, attribute):
        found = h5py.h5a.open(owner, attribute)
        count = found.get_space().get_simple_extent_npoints()
        if count > 1 and isinstance(found.get_type(), h5py.h5t.TypeStringID):
            raise _unsound(name, attribute, f"{count} texts", "at most 1")


def _unsound(owner: bytes, attribute: bytes, found: str, expected: str) -> UnsoundError:
    return UnsoundError(
        f"attribute {_text(attribute)!r} of {_text(owner)!r} has {found}, expected {expected}, which the netCDF "
        "library does not check"
    )


def _text(name: bytes | str) -> str:
    return name if isinstance(name, str) else name.decode("utf-8", "replace")
