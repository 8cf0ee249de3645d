"""A file in a format of another package as a source: what is in it, and its values."""

from __future__ import annotations

import os
import threading
import weakref
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from cfagg.arrays.described import group_of
from cfagg.arrays.source import OtherSource, Variable
from cfagg.cf.header import Header
from cfagg.errors import FragmentMismatchError, SourceError
from cfagg.formats.opening import HEAD, format_of
from cfagg.formats.plugins import Foreign, foreign_format
from cfagg.formats.values.storage import StoredVariable
from cfagg.model import dataset as model
from cfagg.storage.files import CONTEXT_SOURCE, open_regular
from cfagg.storage.handles import handles

if TYPE_CHECKING:
    from cfagg.arrays.reader import Reader

__all__ = ["ForeignSource", "open_foreign_source"]


class _File:
    """A file that a plug-in has open; it is opened again in another process, and closed with its last reader."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._dataset: model.Dataset | None = None
        self._plugin: Foreign | None = None
        self._located: dict[tuple[str, str], StoredVariable | None] = {}

    def __reduce__(self) -> tuple[type[_File], tuple[str]]:
        return _File, (self.path,)

    def dataset(self) -> model.Dataset | None:
        """Return what is in the file, `None` where no plug-in knows it."""
        if self._dataset is None:
            # The pool goes on with its own handle: this one is closed with the dataset.
            handle = open_regular(self.path)
            try:
                head = handle.some(HEAD, 0)
                self._plugin = foreign_format(handle, head) if format_of(handle, head=head) is None else None
                self._dataset = None if self._plugin is None else self._plugin.open(handle)
            finally:
                if self._dataset is None:
                    handle.close()
            if self._dataset is not None and self._dataset.close is not None:
                weakref.finalize(self, self._dataset.close)
        return self._dataset

    def slab(self, group: str, name: str, dtype: np.dtype[Any], shape: tuple[int, ...], slices: Any) -> Any:
        """Return values of a variable: by their place if the plug-in tells it, else by it, for one thread at a time."""
        with self._lock:
            dataset = self.dataset()
            found = None if dataset is None else _find(dataset.root, group, name)
            if self._plugin is None or found is None or (found.shape, _dtype(found)) != (shape, dtype):
                raise FragmentMismatchError(f"{self.path}, variable {name!r}: the file was changed; open it again")
            if (group, name) not in self._located:
                located = self._plugin.locate(handles.get(self.path), name, group)
                self._located[group, name] = located
            located = self._located[group, name]
            if located is None and found.read is None:
                raise SourceError(f"{self.path}, variable {name!r}: its format does not give its values")
            values = None if located is not None or found.read is None else np.asarray(found.read(slices))
        if located is not None:
            if (located.header.shape, located.header.dtype) != (shape, dtype):
                raise SourceError(
                    f"{self.path}, variable {name!r}: it is located as {located.header.dtype} of shape "
                    f"{located.header.shape}, and its description says {dtype} of shape {shape}"
                )
            from cfagg.formats.values import read

            return read(located, slices, CONTEXT_SOURCE)
        if values is None or values.dtype.kind != dtype.kind:
            told = None if values is None else values.dtype
            raise SourceError(
                f"{self.path}, variable {name!r}: its values are {told}, and its description says {dtype}"
            )
        return values


@dataclass(frozen=True)
class ForeignSource(OtherSource):
    """The metadata of one file that a plug-in reads."""

    file: _File = field(kw_only=True, repr=False)

    @property
    def has_default_fills(self) -> bool:
        """Whether the netCDF library may have written its default fill values."""
        return False

    def reader(self, group: str, variable: Variable, workers: int | None = None) -> Reader:
        """Return the reader of a variable."""
        from cfagg.arrays.stored import SlabReader

        header = Header(self.path, variable.name, variable.dims, variable.shape, variable.dtype, variable.attributes)
        slab = partial(self.file.slab, group, variable.name, variable.dtype, variable.shape)
        return SlabReader(header, slab, f"file {self.file.path}, variable {variable.name!r}", workers=workers)


def open_foreign_source(path: str) -> ForeignSource | None:
    """Return the metadata of a file that none of our formats is, `None` where no plug-in knows it either."""
    name = os.path.abspath(path)  # noqa: PTH100
    file = _File(name)
    dataset = file.dataset()
    if dataset is None:
        return None
    root = group_of(dataset.root, path, _variable, lambda g: {k: _plain(v) for k, v in g.attributes.items()})
    return ForeignSource(path, dataset.format, root, file=file)


def _find(group: model.Group | None, path: str, name: str) -> model.Variable | None:
    """Return a variable by the path of its group."""
    for part in filter(None, path.split("/")):
        group = None if group is None else group.groups.get(part)
    return None if group is None else group.variables.get(name)


def _dtype(found: model.Variable) -> np.dtype[Any]:
    """Return the type as `cfagg.arrays.source.Variable` has it, in native byte order."""
    if found.kind == "string":
        return np.dtype(object, metadata={"element_type": str})
    return found.dtype if found.dtype.kind in "OSV" else found.dtype.newbyteorder("=")


def _variable(found: model.Variable) -> Variable:
    attributes = {k: _plain(v) for k, v in found.attributes.items()}
    return Variable(found.name, found.dims, found.shape, _dtype(found), attributes)


def _plain(value: Any) -> Any:
    """Return an attribute as netCDF4-python gives it."""
    if isinstance(value, tuple):
        return list(value)
    return value[0] if isinstance(value, np.ndarray) and value.size == 1 else value
