"""Metadata of HDF5 files that the netCDF library must not open, or refuses because of a single object.

It would follow links to other files; it frees numbers of types that netCDF lacks, and fill values of fixed-length
strings, as if they were strings; and texts in compounds overrun its memory.  The files are described by the reader for
checks, which does not follow links.  Each link is listed as unreadable, as are objects that only the netCDF library
describes; other variables are as in any file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from cfagg.errors import AccessError, SourceError, UnsupportedError
from cfagg.formats.hdf5 import library_dataset as hdf5
from cfagg.formats.hdf5 import library_variables
from cfagg.formats.hdf5.library import ERRORS, file_of
from cfagg.formats.hdf5.links import LeavesError, followed, reach
from cfagg.formats.hdf5.untyped import failing
from cfagg.formats.metadata.foreign import SEVERAL, decides
from cfagg.formats.values.locks import LIBRARY
from cfagg.formats.values.reading import is_own
from cfagg.formats.values.storage import Library
from cfagg.model import dataset as model
from cfagg.storage.files import CONTEXT_SOURCE, Handle

__all__ = ["LinkedGroup", "linked_group"]

#: References that are followed when an object is opened, and lead out of this file.
_LINKS = ("an external link", "a user-defined link")

_FAILS = (
    "only the netCDF library reads it, which fails on {!r} in this file: write that as numbers or text, or remove it"
)

_FOLLOWS = (
    "only the netCDF library can describe it, but would follow this file's links to other files or crash: remove "
    "links, numbers that netCDF lacks, fill values of strings of fixed length, and texts in compounds"
)

_UNDECODED = (
    "only the netCDF library could decode it, which fails on this file because of another variable or would follow its "
    "links: write it without its filter, or to a file of its own"
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
    """A variable with the part of netCDF4-python's interface that `cfagg.arrays.netcdf_source` uses."""

    _isvlen = _isenum = False

    def __init__(self, found: model.Variable, unread: Mapping[str, Any]) -> None:
        super().__init__(found.name, {k: v for k, v in found.attributes.items() if k not in unread})
        self.unread = {k: str(v) for k, v in unread.items()}
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
    """A group; `links` gives, by path, the reason why an object is not read, `why` that for undescribed ones."""

    def __init__(self, found: model.Group, path: str, links: dict[str, str], why: str = _FOLLOWS) -> None:
        super().__init__(path, {k: v for k, v in found.attributes.items() if _is_plain(v)})
        self._unread = {k: str(v) for k, v in found.attributes.items() if not _is_plain(v)}
        self.path = path
        self.links = links
        self.dimensions = {name: _LinkedDimension(d) for name, d in found.dimensions.items()}
        self.variables: dict[str, _LinkedVariable] = {}
        below = path.rstrip("/")
        for name, variable in found.variables.items():
            if f"{below}/{name}" in links:
                continue
            odd = {k: v for k, v in variable.attributes.items() if not _is_plain(v)}
            if variable.kind != "other" and all(v == SEVERAL and not decides(k) for k, v in odd.items()):
                self.variables[name] = _LinkedVariable(variable, odd)
            else:
                metadata: Mapping[str, Any] = variable.dtype.metadata or {}
                links[f"{below}/{name}"] = metadata.get("lacking", why)
        if path in links:
            raise UnsupportedError(f"group {path!r} cannot be read: {links[path]}")
        self.groups = {name: LinkedGroup(g, f"{below}/{name}", links, why) for name, g in found.groups.items()}

    def unread(self) -> Iterator[tuple[str, dict[str, str]]]:
        """Yield the attributes in this group and those below that are not read, by the path of group or variable."""
        if self._unread:
            yield self.path.strip("/") or "/", self._unread
        yield from ((f"{self.path}/{n}".lstrip("/"), v.unread) for n, v in self.variables.items() if v.unread)
        for group in self.groups.values():
            yield from group.unread()


def _is_plain(value: Any) -> bool:
    return isinstance(value, str | tuple | np.ndarray)


def linked_group(handle: Handle, *, failed: bool = False) -> LinkedGroup | None:
    """Return the root group of a file with links to other files, or on which the netCDF library has `failed`.

    `None` if the file has other external references, or nothing explains the failure.
    """
    stuck = failing(handle) if failed else {}
    if failed and not stuck:
        return None
    references = followed(handle, CONTEXT_SOURCE, strange=True)
    if references is None or any(r.kind not in _LINKS for r in references):
        return None
    with LIBRARY:
        file = file_of(handle)
        described = hdf5.describe(file, handle).root
        try:
            links = {path: why for path, why in stuck.items() if why}
            root = LinkedGroup(described, "/", links, _FAILS.format(*list(stuck)[:1]) if stuck else _FOLLOWS)
            todo = [root]
            while todo:
                group = todo.pop()
                group.links.update(_leading(file, group.path))
                for name in [n for n in group.variables if not _is_decoded(handle, group.path, n)]:
                    # It is left out by its own name, not by that of what the library fails on.
                    del group.variables[name]
                    links.setdefault(f"{group.path.rstrip('/')}/{name}", _UNDECODED)
                todo += group.groups.values()
        except UnsupportedError as error:
            raise UnsupportedError(f"{handle.key.path}: {error}") from None
        except ERRORS as error:
            raise SourceError(
                f"{handle.key.path} is damaged; the HDF5 library reports: {error}; restore or replace the file"
            ) from error
    return root


def _is_decoded(handle: Handle, group: str, name: str) -> bool:
    """Return whether a variable is read without the netCDF library, or refused because of where its values are."""
    try:
        found = library_variables.find(handle, f"{group.rstrip('/')}/{name}", CONTEXT_SOURCE, alone=True)
    except AccessError:
        return True
    return found is not None and (is_own(found) or (isinstance(found.storage, Library) and found.storage.texts))


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
