"""Formats that other packages bring, under the entry point group ``cfagg.formats``.

They are only looked for where a file is none of cfagg's own formats, so that no package can take those over.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

from cfagg.errors import CfaggError, SourceError
from cfagg.formats.protocol import Format
from cfagg.model.dataset import Dataset
from cfagg.runtime.entry_points import loaders
from cfagg.storage.files import Handle

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["GROUP", "foreign_dataset", "loaded"]

#: The group of entry points.
GROUP = "cfagg.formats"

_OWN = ("netcdf", "zarr", "nczarr", "xarray", "cdl")


def foreign_dataset(handle: Handle, head: bytes) -> Dataset | None:
    """Return the model of a file in a format of another package, `None` where none of them knows it."""
    path = handle.key.path
    for name, load in loaded():
        with _named(name, path):
            form = load()
            if not isinstance(form, Format):
                raise TypeError(f"{type(form).__name__} is no cfagg.formats.protocol.Format")
            if not form.recognise(head, path):
                continue
            dataset = form.open(handle)
            if not isinstance(dataset, Dataset):
                raise TypeError(f"it opens a file as {type(dataset).__name__}, not as a Dataset")
            if form.name in _OWN:
                raise ValueError(f"its format is called {form.name!r}, as one of cfagg's own")
            dataset.format = form.name
            for variable in dataset.variables:
                if variable.read is not None:
                    variable.read = _reading(variable.read, name, path)
            dataset.close = _closing(dataset.close, handle, name)
            return dataset
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
