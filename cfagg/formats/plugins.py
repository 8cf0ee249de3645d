"""Formats other than netCDF: built-in ones, and those of other packages, found as entry points ``cfagg.formats``.

Packages are only tried if a file has none of the built-in formats, so that none can override those.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from cfagg.cf.header import Header
from cfagg.errors import CfaggError, ModelError, SourceError, UnsupportedError
from cfagg.formats.opening import NETCDF, built_in
from cfagg.formats.protocol import Format
from cfagg.formats.values.filters import DamagedError, known
from cfagg.formats.values.open_variable import OpenVariable
from cfagg.formats.values.storage import StoredVariable
from cfagg.model.chunks import ChunkTable
from cfagg.model.dataset import Dataset, Variable
from cfagg.runtime.entry_points import loaders
from cfagg.storage.files import CONTEXT_SOURCE, FileKey, Handle
from cfagg.storage.gate import Reference

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["GROUP", "Foreign", "foreign_format", "loaded"]

#: The group of entry points.
GROUP = "cfagg.formats"

_OWN = ("netcdf", "zarr", "nczarr", "xarray", "cdl", "PP")


class Foreign:
    """A format other than netCDF that has recognised a file; errors of another package's format name it."""

    def __init__(self, entry: str | None, form: Format, path: str) -> None:
        self.entry, self.form, self.path = entry, form, path

    def open(self, handle: Handle) -> Dataset:
        """Return the description of the file, which is closed with it."""
        with _named(self.entry, self.path):
            dataset = self.form.open(handle)
            if not isinstance(dataset, Dataset):
                raise TypeError(f"it opens a file as {type(dataset).__name__}, not as a Dataset")
            if self.entry is not None and self.form.name in _OWN:
                raise ValueError(f"its format has the name {self.form.name!r} of one of cfagg's own formats")
        dataset.format = self.form.name
        for variable in dataset.variables:
            if variable.chunks is not None:
                variable.read = OpenVariable(handle, partial(self.located, variable, handle.key), CONTEXT_SOURCE)
            elif variable.read is not None:
                variable.read = _called(variable.read, self.entry, self.path)
        dataset.close = _closing(dataset.close, handle, self.entry)
        return dataset

    def located(self, variable: Variable, key: FileKey) -> StoredVariable:
        """Return the location of the chunks of a variable of the file according to the format."""
        named = variable.path.lstrip("/")
        try:
            with _named(self.entry, self.path):
                table: Any = None if variable.chunks is None else variable.chunks()
                if not isinstance(table, ChunkTable):
                    raise TypeError(f"the chunks of {named!r} are {type(table).__name__}, not a ChunkTable")
        except ModelError as error:
            raise SourceError(
                f"{self.path}, variable {named!r}: its chunks cannot be where the file says; restore the file",
                error.problems,
            ) from error
        own, stored = variable.dtype.newbyteorder("="), table.encoding.dtype.newbyteorder("=")
        if (table.grid.shape, stored) != (variable.shape, own):
            raise SourceError(
                f"{self.path}, variable {named!r}: its chunks are {stored} of shape {table.grid.shape}, but it is "
                f"described as {own} of shape {variable.shape}"
            )
        numbers = [n for n, _ in table.encoding.codecs]
        if not known(table.encoding.codecs):
            raise UnsupportedError(
                f"{self.path}, variable {named!r}: its chunks passed the filters {numbers}, not all of which cfagg can "
                "decode"
            )
        if table.encoding.decode is not None:
            decode = _called(table.encoding.decode, self.entry, self.path)
            table = replace(table, encoding=replace(table.encoding, decode=decode))
        header = Header(self.path, named, variable.dims, variable.shape, own, variable.attributes)
        # Its keys may only refer to this file.
        leads = [Reference("a chunk", name) for name in table.keys if name]
        return StoredVariable(key, named, variable.group.path, header, table, named, leads)


def foreign_format(handle: Handle, head: bytes) -> Foreign | None:
    """Return the format of a file other than netCDF, by its first bytes, or `None` if none is known."""
    path = handle.key.path
    own = built_in(handle, head=head)
    if own is not None:
        return None if own.name in NETCDF else Foreign(None, own, path)
    for name, load in loaded():
        with _named(name, path):
            form = load()
            if not isinstance(form, Format):
                raise TypeError(f"{type(form).__name__} is not a cfagg.formats.protocol.Format")
            if form.recognise(head, path):
                return Foreign(name, form, path)
    return None


@cache
def loaded() -> tuple[tuple[str, Callable[[], Any]], ...]:
    """Return the name of each entry point, and a function that loads its object once."""
    return tuple((name, cache(load)) for name, load in loaders(GROUP))


@contextmanager
def _named(name: str | None, path: str) -> Iterator[None]:
    """Convert any error of a package to one of cfagg that names it; cfagg's own errors are kept."""
    try:
        yield
    except (CfaggError, DamagedError):
        raise
    except (Exception, SystemExit) as error:
        if name is None:
            raise
        raise SourceError(
            f"{path}: the format plug-in {name!r} failed: {type(error).__name__}: {error}; update or remove its package"
        ) from error


def _called[**P, T](function: Callable[P, T], name: str | None, path: str) -> Callable[P, T]:
    """Return a function of a package that names it in its errors; `DamagedError` is kept."""

    def named(*args: P.args, **options: P.kwargs) -> T:
        with _named(name, path):
            return function(*args, **options)

    return named


def _closing(close: Callable[[], None] | None, handle: Handle, name: str | None) -> Callable[[], None]:
    def both() -> None:
        try:
            if close is not None:
                with _named(name, handle.key.path):
                    close()
        finally:
            handle.close()

    return both
