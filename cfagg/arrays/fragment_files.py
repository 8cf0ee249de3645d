"""Information about fragments from their files: their state, variables, units, and the identity of dimensions.

Each file is read only once while it is unchanged.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from cfagg.arrays.identity import UNKNOWN, Identity
from cfagg.arrays.source import BOUNDS
from cfagg.arrays.store_fragments import STORES, changed, refuse_changed
from cfagg.errors import ConventionError, FragmentNotFoundError, SourceError, UnsupportedError
from cfagg.formats.values import is_only_a_dimension, locate
from cfagg.formats.values.netcdf import attributes_of, lookup, opened_handle
from cfagg.model import Aggregation, Partitions
from cfagg.runtime.threads import run_threads
from cfagg.storage.access import NamedAccess
from cfagg.storage.files import CONTEXT_SOURCE, Context, FileKey
from cfagg.storage.handles import handles
from cfagg.storage.remote_file import remote_key
from cfagg.storage.urls import Url, is_url

if TYPE_CHECKING:
    from cfagg.arrays.source import Source

__all__ = ["identity_in", "identity_of", "names_in", "refuse_changed_files", "source_in", "units_of_coordinate"]

#: Number of files about which servers are asked at the same time.
_ASKED = 16


def refuse_changed_files(partitions: Partitions, access: NamedAccess, where: Callable[[int], str]) -> None:
    """Raise an error if one of the files of partitions has changed, or is gone, since it was scanned."""

    def check(i: int) -> None:
        name = cast("str", partitions.file_name(i))
        path, context = access.resolve(name), Context(where(i), remedy="aggregate the files again")
        if partitions.layout_of(i).format in STORES:
            refuse_changed(path, access, name, context.where)
            return
        if isinstance(path, Url):
            key = remote_key(path, context)
            state = key.size, key.modified, key.inode
        else:
            try:
                found = os.stat(path)  # noqa: PTH116 - not a Path for each of many files
            except OSError as error:
                raise FragmentNotFoundError(f"{context.where}: {name} is no longer there; {context.remedy}") from error
            state = found.st_size, found.st_mtime_ns, found.st_ino
        if access.states.is_changed(name, *state):
            raise changed(name, context.where)

    rows = [i for i in np.unique(partitions.file, return_index=True)[1].tolist() if partitions.file_name(i) is not None]
    there = [i for i in rows if is_url(access.resolve(partitions.file_name(i)))]
    for i in sorted({*rows}.difference(there)):
        check(i)
    for _ in run_threads(check, iter(there), min(len(there), _ASKED), "ask"):
        pass


@lru_cache(maxsize=16)
def source_in(key: FileKey, substitutions: tuple[tuple[str, str], ...] = ()) -> Source:
    """Return the metadata of an inner aggregation's file; it is parsed once while the file is unchanged."""
    from cfagg.arrays.netcdf_source import source_of

    return source_of(handles.of(key, CONTEXT_SOURCE), key.path, dict(substitutions))


@lru_cache(maxsize=2048)
def names_in(key: FileKey) -> tuple[str, ...]:
    """Return the variables of a file's root group in the order of their numbers."""
    context = Context(key.path)
    with opened_handle(handles.of(key, context), context) as dataset:
        return tuple(dataset.variables)


def identity_of(source: Source, group: str, dim: str) -> Identity:
    """Return the identity of the coordinates of a dimension of an aggregation file."""
    try:
        found = source.find_from(group, dim)[1]
    except (SourceError, ConventionError):
        return UNKNOWN
    units = {"units": found.units} if isinstance(found, Aggregation) and found.units is not None else {}
    return Identity.of({**found.attributes, **units})


def identity_in(
    key: FileKey, address: str, context: Context, group: str, judge: Callable[[str], None], dim: str
) -> Identity:
    """Return the identity of the coordinates of a dimension of a fragment."""
    where = address.rpartition("/")[0]
    if not where and group == "/" and is_only_a_dimension(key, dim, context):  # avoids the slow library in most cases
        return UNKNOWN
    while True:
        name = f"{where}/{dim}" if where else dim
        try:
            return Identity.of(locate(key.path, name, context, group, judge).header.attributes)
        except UnsupportedError:
            return UNKNOWN
        except FragmentNotFoundError:
            if not where:
                return UNKNOWN
            where = where.rpartition("/")[0]


@lru_cache(maxsize=2048)
def units_of_coordinate(key: FileKey, address: str, group: str) -> dict[str, str]:
    """Return the units and calendar of the variable in a file whose bounds are `address`; empty if there is none.

    Bounds have the units of their coordinate variable (CF section 7.1), and may differ between files.
    """
    context = Context(key.path)
    if (handle := handles.of(key, context)).data is not None:
        here, found = source_in(key).find_from(group, address)
        named = (v for v in here.variables.values() if _bound_by(v.attributes, found.name))
        return {k: v for one in named for k in ("units", "calendar") if isinstance(v := one.attributes.get(k), str)}
    with opened_handle(handle, context) as dataset:
        bounds = lookup(dataset, address, group)
        if bounds is None:
            return {}
        for variable in bounds.group().variables.values():
            attributes = attributes_of(variable)
            if _bound_by(attributes, bounds.name):
                return {k: attributes[k] for k in ("units", "calendar") if isinstance(attributes.get(k), str)}
    return {}


def _bound_by(attributes: Mapping[str, Any], name: str) -> bool:
    """Return whether attributes name a variable as the bounds; they may be arrays of numbers."""
    return any(isinstance(attributes.get(key), str) and attributes[key] == name for key in BOUNDS)
