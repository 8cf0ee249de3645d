"""A file in a format other than netCDF as a source: its contents and values."""

from __future__ import annotations

import threading
import weakref
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from cfagg.arrays.described import group_of
from cfagg.arrays.source import OtherSource, Variable
from cfagg.cf.header import Header, plain
from cfagg.errors import CfaggError, FragmentMismatchError, SourceError
from cfagg.formats.opening import HEAD
from cfagg.formats.plugins import Foreign, foreign_format
from cfagg.model import Grid
from cfagg.model import dataset as model
from cfagg.storage.files import CONTEXT_SOURCE, FileKey
from cfagg.storage.handles import handles
from cfagg.storage.urls import absolute

if TYPE_CHECKING:
    from cfagg.arrays.reader import Reader
    from cfagg.formats.pp.fields import Fields

__all__ = ["ForeignSource", "open_foreign_source"]


class _File:
    """A file opened by a format; it is opened again in another process, and closed with its last reader."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._dataset: model.Dataset | None = None
        self._format: Foreign | None = None
        self._key: FileKey | None = None

    def __reduce__(self) -> tuple[type[_File], tuple[str]]:
        return _File, (self.path,)

    def dataset(self) -> model.Dataset | None:
        """Return the dataset in the file, or `None` if no format recognises it."""
        if self._dataset is None:
            # The pool keeps its own handle, since this one is closed with the dataset.
            handle = handles.apart(self.path)
            try:
                head = handle.some(HEAD, 0)
                self._format, self._key = foreign_format(handle, head), handle.key
                self._dataset = None if self._format is None else self._format.open(handle)
            finally:
                if self._dataset is None:
                    handle.close()
            if self._dataset is not None and self._dataset.close is not None:
                weakref.finalize(self, self._dataset.close)
        return self._dataset

    def chunks(self, group: str, name: str) -> tuple[int, ...] | None:
        """Return the shape of the chunks of a variable, or `None` if they are not of equal shape or not readable."""
        with self._lock:
            dataset = self.dataset()
            found = None if dataset is None else _find(dataset.root, group, name)
            if self._format is None or self._key is None or found is None or found.chunks is None:
                return None
            try:
                return self._format.located(found, self._key).chunks
            except CfaggError:
                return None

    def addresses(self, group: str, name: str) -> tuple[str, Grid, npt.NDArray[np.int64] | None]:
        """Return a PP file, the fields of a variable, and their addresses, `None` if they have no addresses."""
        from cfagg.formats.pp.addresses import addresses_of

        with self._lock:
            dataset = self.dataset()
            found = None if dataset is None else _find(dataset.root, group, name)
            if self._key is None or found is None or found.chunks is None:
                raise FragmentMismatchError(f"{self.path}, variable {name!r}: the file has changed; open it again")
            table = found.chunks()
        return self.path, table.grid, addresses_of(_fields(self._key), table.offset)

    def slab(self, group: str, name: str, dtype: np.dtype[Any], shape: tuple[int, ...], slices: Any) -> Any:
        """Return values of a variable, by their chunks or through the format, which runs in one thread at a time."""
        with self._lock:
            dataset = self.dataset()
            found = None if dataset is None else _find(dataset.root, group, name)
            if found is None or (found.shape, _dtype(found)) != (shape, dtype):
                raise FragmentMismatchError(f"{self.path}, variable {name!r}: the file has changed; open it again")
            if found.read is None:
                raise SourceError(f"{self.path}, variable {name!r}: its format does not give its values")
            # Chunks are read by several threads at once.
            values = None if found.chunks is not None else np.asarray(found.read(slices))
        if values is None:
            return found.read(slices)
        if values.dtype.kind != dtype.kind:
            raise SourceError(
                f"{self.path}, variable {name!r}: its values are {values.dtype}, but it is described as {dtype}"
            )
        return values


@dataclass(frozen=True)
class ForeignSource(OtherSource):
    """The metadata of one file in a format other than netCDF."""

    file: _File = field(kw_only=True, repr=False)

    @property
    def has_default_fills(self) -> bool:
        """Whether the netCDF library may have written its default fill values."""
        return False

    def reader(self, group: str, variable: Variable, workers: int | None = None) -> Reader:
        """Return the reader of a variable."""
        from cfagg.arrays.slabs import SlabReader

        header = Header(self.path, variable.name, variable.dims, variable.shape, variable.dtype, variable.attributes)
        slab = partial(self.file.slab, group, variable.name, variable.dtype, variable.shape)
        label = f"file {self.file.path}, variable {variable.name!r}"
        chunks = self.file.chunks(group, variable.name)
        addresses = partial(self.file.addresses, group, variable.name) if self.format == "PP" else None
        return SlabReader(header, slab, label, chunks=chunks, addresses=addresses, workers=workers)


def open_foreign_source(path: str) -> ForeignSource | None:
    """Return the metadata of a file that is not netCDF, or `None` if no format recognises it."""
    file = _File(absolute(path))
    dataset = file.dataset()
    if dataset is None:
        return None
    root = group_of(dataset.root, path, _variable, lambda g: {k: plain(v) for k, v in g.attributes.items()})
    return ForeignSource(path, dataset.format, root, file=file)


@lru_cache(maxsize=4)
def _fields(key: FileKey) -> Fields:
    """Return the fields of a PP file, which each of its variables uses."""
    from cfagg.formats.pp.addresses import scan_fields

    return scan_fields(handles.of(key, CONTEXT_SOURCE))


def _find(group: model.Group | None, path: str, name: str) -> model.Variable | None:
    """Return a variable by the path of its group."""
    for part in filter(None, path.split("/")):
        group = None if group is None else group.groups.get(part)
    return None if group is None else group.variables.get(name)


def _dtype(found: model.Variable) -> np.dtype[Any]:
    """Return the type as in `cfagg.arrays.source.Variable`, in native byte order."""
    if found.kind == "string":
        return np.dtype(object, metadata={"element_type": str})
    return found.dtype if found.dtype.kind in "OSV" else found.dtype.newbyteorder("=")


def _variable(found: model.Variable) -> Variable:
    attributes = {k: plain(v) for k, v in found.attributes.items()}
    return Variable(found.name, found.dims, found.shape, _dtype(found), attributes)
