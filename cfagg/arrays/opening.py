"""From a path to its contents, and from a variable to its reader, for all formats."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from cfagg.arrays.index import SUFFIX
from cfagg.arrays.netcdf_source import open_source
from cfagg.arrays.source import OtherSource, Source
from cfagg.errors import UnreadableAggregationError
from cfagg.formats.opening import KERCHUNK, NETCDF, built_in, format_of, is_referring
from cfagg.model import Aggregation
from cfagg.storage.handles import handles
from cfagg.storage.urls import Url, a_place, absolute

# Readers, and formats other than netCDF, are imported on demand: showing a file needs neither.
if TYPE_CHECKING:
    from cfagg.arrays.index.lookup import IndexLookup
    from cfagg.arrays.index.table import Index
    from cfagg.arrays.reader import Reader
    from cfagg.storage.access import Access

__all__ = ["open_any", "open_reader"]


def open_any(
    path: str | os.PathLike[str],
    allow: Sequence[str | os.PathLike[str]] = (),
    storage_options: Mapping[str, Any] | None = None,
    substitutions: Mapping[str, str] | None = None,
) -> Source:
    """Return the metadata of a netCDF file, of a Zarr store, or of a file in a format of a plug-in, at a path or URL.

    Links in a store may point to `allow`; `substitutions` are made in the file names of aggregations.  A `SourceError`
    names the format of anything else, or reports damage.
    """
    name = a_place(path, storage_options, allow)
    if isinstance(name, Url):
        from cfagg.formats.metadata.url import file_at

        there = file_at(name)
        if there is not None:
            own = built_in(there)
            if own is not None and own.name == KERCHUNK:
                return _references(name, allow)
            if own is not None and own.name not in NETCDF:
                from cfagg.arrays.foreign_source import open_foreign_source

                return open_foreign_source(name) or open_source(name)
            return open_source(name, substitutions)
    elif not os.path.isdir(name):  # noqa: PTH112
        form = format_of(handles.get(absolute(name)))
        if form == KERCHUNK:
            return _references(name, allow)
        if form not in NETCDF:
            from cfagg.arrays.foreign_source import open_foreign_source

            return open_foreign_source(name) or open_source(name)
        return open_source(name, substitutions)
    elif is_referring(name):
        return _references(name, allow)
    from cfagg.arrays.zarr_source import open_zarr_source

    return open_zarr_source(name, () if isinstance(name, Url) else allow)


def _references(path: str, allow: Sequence[str | os.PathLike[str]]) -> Source:
    """Return the metadata of a store of references."""
    from cfagg.arrays.reference_source import open_reference_source

    return open_reference_source(path, allow)


def open_reader(
    source: Source | str | os.PathLike[str],
    variable: str,
    access: Access | None = None,
    *,
    missing: Literal["error", "fill"] = "error",
    workers: int | None = None,
    aggregation: Aggregation | None = None,
    word_size: int | None = None,
    index: bool | str | os.PathLike[str] | Index | IndexLookup = True,
) -> Reader:
    """Return the reader of a variable, by its name or path.

    An aggregation may read files that `access` allows, by default those next to it; `aggregation` replaces the
    description in its file, and `word_size` is the unit in bytes of addresses in PP files.  `index` is the byte-offset
    index to use: the one next to the file, none, or another.
    """
    if not isinstance(source, Source):
        source = open_any(source)
    try:
        group, found = source.find(variable)
    except UnreadableAggregationError:
        if (alone := _alone(source, variable, workers)) is None:
            raise
        return alone
    if isinstance(found, Aggregation):
        from cfagg.arrays.aggregated import AggregationReader

        lookup = None
        beside = source.is_one and (isinstance(source.path, Url) or has_index(source.path))
        if index is not True or beside:
            from cfagg.arrays.index.lookup import lookup_for

            lookup = lookup_for(source.path, index)
        return AggregationReader(
            aggregation or found,
            access or source.access(),
            missing=missing,
            workers=workers,
            group=group.path,
            word_size=word_size,
            substitutions=source.substitutions,
            lookup=lookup,
        )
    if isinstance(source, OtherSource):
        reader: Reader = source.reader(group.path, found, workers)
        return reader
    from cfagg.arrays.stored import NetcdfReader

    return NetcdfReader(source.path, group.path, found.name, workers=workers)


def _alone(source: Source, variable: str, workers: int | None) -> Reader | None:
    """Return the reader of a variable that no dataset may contain because of a hidden dimension, `None` for others."""
    from cfagg.arrays.hidden_dimensions import shape_along
    from cfagg.arrays.stored import NetcdfReader

    where, _, name = variable.strip("/").rpartition("/")
    if isinstance(source, OtherSource) or source.format != "NETCDF4" or name not in source.group(where).unreadable:
        return None
    shape = shape_along(handles.get(absolute(source.path)), f"/{variable.strip('/')}")
    found = None if shape is None else NetcdfReader(source.path, source.group(where).path, name, workers=workers)
    # What only the netCDF library decodes, it gives the length of the wrong dimension.
    return None if found is None or found.shape != shape else found


def has_index(path: str) -> bool:
    """Return whether there is an index next to a local file."""
    return not isinstance(path, Url) and os.path.isfile(f"{path}{SUFFIX}")  # noqa: PTH113
