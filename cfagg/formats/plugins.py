"""Formats that other packages bring, under the entry point group ``cfagg.formats``.

They are only looked for where a file is none of cfagg's own formats, so that no package can take those over.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

from cfagg.errors import CfaggError, SourceError
from cfagg.formats.opening import HEAD
from cfagg.formats.protocol import Format, Locating
from cfagg.formats.values.storage import Contiguous, StoredVariable
from cfagg.model.dataset import Dataset
from cfagg.runtime.entry_points import loaders
from cfagg.storage.files import CONTEXT_SOURCE, Handle

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["GROUP", "Foreign", "foreign_format", "loaded"]

#: The group of entry points.
GROUP = "cfagg.formats"

_OWN = ("netcdf", "zarr", "nczarr", "xarray", "cdl")


class Foreign:
    """A format of another package that has recognised a file; whatever it raises names the package."""

    def __init__(self, entry: str, form: Format, path: str) -> None:
        self.entry, self.form, self.path = entry, form, path

    def open(self, handle: Handle) -> Dataset:
        """Return the description of the file, which is closed with it."""
        with _named(self.entry, self.path):
            dataset = self.form.open(handle)
            if not isinstance(dataset, Dataset):
                raise TypeError(f"it opens a file as {type(dataset).__name__}, not as a Dataset")
            if self.form.name in _OWN:
                raise ValueError(f"its format is called {self.form.name!r}, as one of cfagg's own")
        dataset.format = self.form.name
        for variable in dataset.variables:
            if variable.read is not None:
                variable.read = _reading(variable.read, self.entry, self.path)
        dataset.close = _closing(dataset.close, handle, self.entry)
        return dataset

    def locate(self, handle: Handle, address: str, group: str) -> StoredVariable | None:
        """Return the block of bytes in which the values of a variable stand, `None` where the format does not tell."""
        if not isinstance(self.form, Locating):
            return None
        with _named(self.entry, self.path):
            found: Any = self.form.locate(handle, handle.some(HEAD, 0), address, group, CONTEXT_SOURCE)
            if found is not None and not (isinstance(found, StoredVariable) and isinstance(found.storage, Contiguous)):
                raise TypeError(
                    f"it locates {address!r} by {type(found).__name__}, not by a StoredVariable that is Contiguous"
                )
            # It speaks for this file alone.
            return None if found is None else replace(found, key=handle.key, references=())


def foreign_format(handle: Handle, head: bytes) -> Foreign | None:
    """Return the format of another package that a file has, by its first bytes; `None` where none of them knows it."""
    path = handle.key.path
    for name, load in loaded():
        with _named(name, path):
            form = load()
            if not isinstance(form, Format):
                raise TypeError(f"{type(form).__name__} is no cfagg.formats.protocol.Format")
            if form.recognise(head, path):
                return Foreign(name, form, path)
    return None


@cache
def loaded() -> tuple[tuple[str, Callable[[], Any]], ...]:
    """Return the name of each entry point, and what loads its object once."""
    return tuple((name, cache(load)) for name, load in loaders(GROUP))


@contextmanager
def _named(name: str, path: str) -> Iterator[None]:
    """Make whatever a package raises an error of cfagg that names it; what it says of a file in our words is kept."""
    try:
        yield
    except CfaggError:
        raise
    except (Exception, SystemExit) as error:
        raise SourceError(
            f"{path}: the format plug-in {name!r} failed: {type(error).__name__}: {error}; update or remove its package"
        ) from error


def _reading(read: Callable[[tuple[slice, ...]], Any], name: str, path: str) -> Callable[[tuple[slice, ...]], Any]:
    def named(slices: tuple[slice, ...]) -> Any:
        with _named(name, path):
            return read(slices)

    return named


def _closing(close: Callable[[], None] | None, handle: Handle, name: str) -> Callable[[], None]:
    def both() -> None:
        try:
            if close is not None:
                with _named(name, handle.key.path):
                    close()
        finally:
            handle.close()

    return both
