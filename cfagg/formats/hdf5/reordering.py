"""Attributes of a netCDF-4 file in a given order: HDF5 puts one that gets another name or length behind the others.

The order is that of creation, so attributes are created again, byte by byte as they were.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt

from cfagg.formats.hdf5.library import ERRORS
from cfagg.formats.hdf5.links import reach
from cfagg.formats.values.locks import LIBRARY
from cfagg.formats.values.netcdf4_names import stored_paths

__all__ = ["reorder"]

#: Values of an attribute; `None` if its dataspace is empty.
type _Values = npt.NDArray[Any] | None


def reorder(path: str, wanted: Mapping[str, Sequence[str]]) -> None:
    """Give attributes the order of the names in `wanted`, by the path of their variable or group.

    The file is a copy that nobody else has open.  Where an attribute cannot be copied exactly, or HDF5 does not record
    an order, all of that variable or group stay as they are.
    """
    with LIBRARY:
        access = h5py.h5p.create(h5py.h5p.FILE_ACCESS)
        access.set_file_locking(False, True)
        access.set_fclose_degree(h5py.h5f.CLOSE_STRONG)
        # Otherwise types would be encoded in a newer version of HDF5's format than they were.
        access.set_libver_bounds(h5py.h5f.LIBVER_EARLIEST, h5py.h5f.LIBVER_LATEST)
        file = h5py.h5f.open(path.encode("utf-8", "surrogateescape"), h5py.h5f.ACC_RDWR, access)
        try:
            for where, names in wanted.items():
                for owner in _owners(file, where):
                    _reorder(owner, [name.encode() for name in names])
        finally:
            file.close()


def _owners(file: Any, where: str) -> Iterable[Any]:
    return [owner for p in stored_paths(where) if (owner := reach(file, p)) is not None]


def _reorder(owner: Any, names: list[bytes]) -> None:
    """Create the attributes of one object again, from the first on that is not in its place."""
    now = _in_order(owner)
    if now is None:
        return
    names = [name for name in names if name in now]
    now = [name for name in now if name in names]
    same = next((n for n, (one, other) in enumerate(zip(now, names, strict=True)) if one != other), len(names))
    copies = [(name, *_copy(owner, name)) for name in names[same:]]
    if any(kind is None for _, kind, _, _ in copies):
        return
    for name, kind, space, values in copies:
        h5py.h5a.delete(owner, name)
        made = h5py.h5a.create(owner, name, kind, space)
        if values is not None:
            made.write(values, mtype=kind if values.dtype.kind == "V" else None)


def _in_order(owner: Any) -> list[bytes] | None:
    """Return the names of attributes in the order of their creation, or `None` if it is not recorded."""
    found: list[bytes] = []
    with suppress(*ERRORS):
        h5py.h5a.iterate(owner, found.append, index_type=h5py.h5.INDEX_CRT_ORDER)
        return found
    return None


def _copy(owner: Any, name: bytes) -> tuple[Any, Any, _Values]:
    """Return type, dataspace and values of an attribute; the type is `None` if a copy may differ."""
    attribute = h5py.h5a.open(owner, name)
    kind, space = attribute.get_type(), attribute.get_space()
    if space.get_simple_extent_type() == h5py.h5s.NULL:
        return kind, space, None
    if isinstance(kind, h5py.h5t.TypeStringID) and kind.is_variable_str():
        values = np.empty(attribute.shape, attribute.dtype)
        attribute.read(values)
        # A string that is absent looks like an empty one.
        return (kind if all(map(len, values.ravel())) else None), space, values
    if kind.detect_class(h5py.h5t.VLEN) or kind.detect_class(h5py.h5t.REFERENCE) or _has_strings(kind):
        return None, space, None
    values = np.empty(attribute.shape, f"V{kind.get_size()}")
    attribute.read(values, mtype=kind)
    return kind, space, values


def _has_strings(kind: Any) -> bool:
    """Whether a compound type has strings of variable length, which HDF5 does not call values of variable length."""
    if isinstance(kind, h5py.h5t.TypeCompoundID):
        return any(_has_strings(kind.get_member_type(n)) for n in range(kind.get_nmembers()))
    if isinstance(kind, h5py.h5t.TypeArrayID):
        return _has_strings(kind.get_super())
    return isinstance(kind, h5py.h5t.TypeStringID) and bool(kind.is_variable_str())
