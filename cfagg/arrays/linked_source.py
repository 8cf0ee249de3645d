"""Metadata of HDF5 files that the netCDF library must not open.

It would follow links to other files, and it frees numbers of types that netCDF lacks, and fill values of fixed-length
strings, as if they were strings. The files are described by the reader for checks, which does not follow links.  Each
link is listed as unreadable, as are objects that only the netCDF library describes; other variables are as in any file.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from cfagg.errors import SourceError
from cfagg.formats.hdf5 import library_dataset as hdf5
from cfagg.formats.hdf5.library import ERRORS, file_of
from cfagg.formats.hdf5.links import LeavesError, followed, reach
from cfagg.formats.values.locks import LIBRARY
from cfagg.model import dataset as model
from cfagg.storage.files import CONTEXT_SOURCE, Handle

__all__ = ["LinkedGroup", "linked_group"]

#: References that are followed when an object is opened, and lead out of this file.
_LINKS = ("an external link", "a user-defined link")

_FOLLOWS = (
    "only the netCDF library can describe it, but would follow this file's links to other files or crash: remove "
    "links, numbers that netCDF lacks, and fill values of strings of fixed length"
)


class _Described:
    """Attributes as in netCDF4-python."""

    def __init__(self, name: str, attributes: Mapping[str, Any]) -> None:
        self.name = name
        self._attributes = attributes

    def ncattrs(self) -> list[str]:
        """Return the names of the attributes."""
        return list(self._attributes)

    def getncattr(self, name: str) -> Any:
        """Return the value of an attribute."""
        value = self._attributes[name]
        if isinstance(value, tuple):
            return list(value)
        return value[0] if isinstance(value, np.ndarray) and value.size == 1 else value


class _LinkedVariable(_Described):
    """A variable with the part of netCDF4-python's interface that `cfagg.arrays.source` uses."""

    _isvlen = _isenum = False

    def __init__(self, found: model.Variable) -> None:
        super().__init__(found.name, found.attributes)
        self.dimensions, self.shape = found.dims, found.shape
        self.dtype: Any = str if found.kind == "string" else found.dtype


class _LinkedDimension:
    """A dimension, likewise."""

    def __init__(self, found: model.Dimension) -> None:
        self._found = found

    def __len__(self) -> int:
        return self._found.size

    def isunlimited(self) -> bool:
        """Return whether the dimension is unlimited."""
        return self._found.unlimited


class LinkedGroup(_Described):
    """A group; `links` gives, by path, the reason why an object is not read, `why` that for undescribed ones.

    Strings are only read by the netCDF library, unless there is another way to read `texts`.
    """

    def __init__(
        self, found: model.Group, path: str, links: dict[str, str], why: str = _FOLLOWS, *, texts: bool = False
    ) -> None:
        super().__init__(path, {k: v for k, v in found.attributes.items() if _is_plain(v)})
        self.path = path
        self.links = links
        self.dimensions = {name: _LinkedDimension(d) for name, d in found.dimensions.items()}
        self.variables: dict[str, _LinkedVariable] = {}
        below = path.rstrip("/")
        for name, variable in found.variables.items():
            described = variable.kind != "other" and (texts or variable.kind != "string")
            if described and all(map(_is_plain, variable.attributes.values())):
                self.variables[name] = _LinkedVariable(variable)
            else:
                links[f"{below}/{name}"] = why
        self.groups = {
            name: LinkedGroup(g, f"{below}/{name}", links, why, texts=texts) for name, g in found.groups.items()
        }


def _is_plain(value: Any) -> bool:
    return isinstance(value, str | tuple | np.ndarray)


def linked_group(handle: Handle) -> LinkedGroup | None:
    """Return the root group of a file with links to other files, or `None` if it has other external references."""
    references = followed(handle, CONTEXT_SOURCE, strange=True)
    if references is None or any(r.kind not in _LINKS for r in references):
        return None
    with LIBRARY:
        file = file_of(handle)
        root = LinkedGroup(hdf5.describe(file, handle).root, "/", {})
        todo = [root]
        try:
            while todo:
                group = todo.pop()
                group.links.update(_leading(file, group.path))
                todo += group.groups.values()
        except ERRORS as error:
            raise SourceError(
                f"{handle.key.path} is damaged; the HDF5 library reports: {error}; restore or replace the file"
            ) from error
    return root


def _leading(file: Any, path: str) -> dict[str, str]:
    """Return the links in a group that lead out of the file, by path."""
    names: list[bytes] = []
    group = reach(file, path)
    if group is None:
        raise ValueError(f"there is no group {path!r}")
    group.links.iterate(names.append)
    found = {}
    for name in names:
        shown = f"{path.rstrip('/')}/{name.decode('utf-8', 'replace')}"
        try:
            reach(file, f"{path.rstrip('/')}/{name.decode('utf-8', 'surrogateescape')}")
        except LeavesError as error:
            kind, target = error.reference
            found[shown] = f"it refers by {kind} to {target!r}, which is not followed: copy the values into the file"
    return found
