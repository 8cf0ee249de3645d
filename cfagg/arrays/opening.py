"""From a path to what is in it, and from a variable to what reads it, whatever the format."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from cfagg.arrays.source import Source, open_source
from cfagg.formats.opening import format_of
from cfagg.model import Aggregation
from cfagg.storage.access import Access
from cfagg.storage.handles import handles
from cfagg.storage.urls import Url, a_place

if TYPE_CHECKING:
    from cfagg.arrays.reader import Reader

__all__ = ["open_any", "open_reader"]

# What reads values, other formats and other machines is loaded where it is needed: to show a file, most of it is not.


def open_any(
    path: str | os.PathLike[str],
    allow: Sequence[str | os.PathLike[str]] = (),
    storage_options: Mapping[str, Any] | None = None,
) -> Source:
    """Return the metadata of a netCDF file, of a Zarr store, or of a file in a format of a plug-in, at a path or URL.

    Links in a store may lead to `allow`.  A `SourceError` says what something else is, or what is damaged.
    """
    name = a_place(path, storage_options, allow)
    if not isinstance(name, Url) and not os.path.isdir(name):  # noqa: PTH112
        if format_of(handles.get(os.path.abspath(name))) is not None:  # noqa: PTH100
            return open_source(name)
        from cfagg.arrays.foreign_source import open_foreign_source

        return open_foreign_source(name) or open_source(name)
    from cfagg.arrays.zarr_source import open_zarr_source

    if isinstance(name, Url):
        from cfagg.formats.metadata.url import file_at

        return open_zarr_source(name) if file_at(name) is None else open_source(name)
    return open_zarr_source(name, allow)


def open_reader(
    source: Source | str | os.PathLike[str],
    variable: str,
    access: Access | None = None,
    *,
    missing: Literal["error", "fill"] = "error",
    workers: int | None = None,
    aggregation: Aggregation | None = None,
) -> Reader:
    """Return what reads a variable, by its name or path.

    An aggregation may read what `access` allows, by default what is beside it; `aggregation` describes it otherwise
    than its file does.
    """
    if not isinstance(source, Source):
        source = open_any(source)
    group, found = source.find(variable)
    if isinstance(found, Aggregation):
        from cfagg.arrays.aggregated import AggregationReader

        return AggregationReader(
            aggregation or found, access or Access(source.path), missing=missing, workers=workers, group=group.path
        )
    if type(source) is Source:
        from cfagg.arrays.stored import NetcdfReader

        return NetcdfReader(source.path, group.path, found.name, workers=workers)
    # Sources of the other formats come with what reads their variables.
    other: Any = source
    reader: Reader = other.reader(group.path, found, workers)
    return reader
