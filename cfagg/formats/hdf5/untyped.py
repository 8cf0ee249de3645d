"""Variables of HDF5 files that the netCDF library leaves out without a word, because netCDF lacks their types."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

import h5py

from cfagg.formats.hdf5.library import ERRORS, file_of
from cfagg.formats.hdf5.links import LeavesError, member, reach
from cfagg.formats.values.netcdf4_names import NON_COORDINATE
from cfagg.storage.files import Handle

__all__ = ["untyped"]

#: Types by their class in HDF5; a compound may be one because of its members.
_TYPES = {
    h5py.h5t.REFERENCE: "references",
    h5py.h5t.ARRAY: "arrays",
    h5py.h5t.OPAQUE: "opaque",
    h5py.h5t.BITFIELD: "bit fields",
    h5py.h5t.TIME: "times",
    h5py.h5t.COMPOUND: "compounds with members of such types",
    h5py.h5t.VLEN: "lists of such types",
}

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
    types = _TYPES.get(kind, "of another kind")
    return f"the netCDF library does not read its HDF5 type ({types}); write it as numbers or text"
