"""Opening one netCDF file's metadata: its contents, and which variables are aggregations.

Only the named file is opened, and only its metadata is read: no partition is touched.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from cfagg.arrays.hidden_dimensions import hidden, hidden_in
from cfagg.arrays.scoping import Scoping, Stated
from cfagg.arrays.source import BOUNDS, Group, Source, Variable
from cfagg.conventions.marks import is_private, mark_of
from cfagg.errors import (
    AccessError,
    CfaggError,
    ConventionError,
    Problem,
    SourceError,
    UnreadableAggregationError,
    UnsupportedError,
)
from cfagg.model.aggregation import Aggregation, facts_of
from cfagg.storage.urls import absolute

if TYPE_CHECKING:
    import netCDF4

    from cfagg.storage.files import Handle

__all__ = ["open_source", "source_of"]

#: Names of the classic formats by their first bytes.
_FORMATS = {b"CDF\1": "NETCDF3_CLASSIC", b"CDF\2": "NETCDF3_64BIT_OFFSET", b"CDF\5": "NETCDF3_64BIT_DATA"}


def open_source(path: str | os.PathLike[str], substitutions: Mapping[str, str] | None = None) -> Source:
    """Read the metadata of one netCDF file; no partition is opened.

    Aggregations that break their convention are in `Group.unreadable`, each with every problem listed. `substitutions`
    take precedence over those that the file itself defines.
    """
    from cfagg.storage.handles import handles

    name = os.fspath(path)
    return source_of(handles.get(absolute(name)), name, substitutions)


def source_of(handle: Handle, name: str, substitutions: Mapping[str, str] | None = None) -> Source:
    """Read the metadata of an open file; `name` is its name in messages."""
    from cfagg.formats.values.netcdf import opened_handle

    given = substitutions or {}
    if handle.data is not None:
        return _described_source(handle, name, given)
    try:
        with opened_handle(handle) as dataset:
            model, stated = str(dataset.data_model), _stated(dataset)
            untyped, unread = {}, {}
            if dataset.disk_format == "HDF5":
                from cfagg.formats.hdf5.untyped import unread_below, untyped_below

                untyped, unread = dict(untyped_below(handle, stated)), dict(unread_below(handle, stated))
        root = _root(stated, name, handle, given)
        source = _with_links(Source(name, model, root, substitutions=given, unread=unread), hidden(stated, handle))
        return _with_links(source, untyped, untyped=True)
    except (AccessError, SourceError, UnsupportedError) as error:
        from cfagg.arrays.linked_source import linked_group

        failed = isinstance(error, SourceError)
        found = linked_group(handle, failed=failed)
        if found is None:
            raise
    described: Any = found  # as a dataset of netCDF4-python
    root = _root(_stated(described), name, handle, given)
    source = Source(name, "NETCDF4", root, substitutions=given, unread=dict(found.unread()))
    return _with_links(source, found.links, untyped=failed)


def _described_source(handle: Handle, name: str, substitutions: Mapping[str, str]) -> Source:
    """Read the metadata of a remote file, which no library opens."""
    from cfagg.arrays.linked_source import LinkedGroup
    from cfagg.formats.metadata.url import of_handle

    with of_handle(handle) as dataset:
        links: dict[str, str] = {}
        why = "only the netCDF library describes it, which does not read from other machines"
        described: Any = LinkedGroup(dataset.root, "/", links, why)
        root = _root(_stated(described), name, handle, substitutions)
        form, unread = _FORMATS.get(handle.some(4, 0), "NETCDF4"), dict(described.unread())
        source = Source(name, form, root, substitutions=substitutions, unread=unread)
        untyped = {path: said for path, said in links.items() if said != why}
        links = {path: said for path, said in links.items() if said == why} | hidden_in(dataset.root)
    return _with_links(_with_links(source, links), untyped, untyped=True)


def _with_links(source: Source, links: Mapping[str, str], *, untyped: bool = False) -> Source:
    for path, why in links.items():
        where, _, last = path.rpartition("/")
        message = f"{source.path}: variable {path.lstrip('/')!r} cannot be read: {why}"
        group = source.group(where)
        group.variables.pop(last, None)
        (group.untyped if untyped else group.unreadable)[last] = _unreadable(where or "/", last, message)
    return source


def _stated(group: netCDF4.Dataset) -> Stated:
    """Return one group and those below as stored in the file."""
    from cfagg.formats.values.netcdf import attributes_of, dtype_of

    return Stated(
        group.path,
        {name: len(d) for name, d in group.dimensions.items()},
        frozenset(n for n, d in group.dimensions.items() if d.isunlimited()),
        attributes_of(group),
        {
            name: Variable(name, tuple(v.dimensions), tuple(map(int, v.shape)), dtype_of(v), attributes_of(v))
            for name, v in group.variables.items()
        },
        {name: _stated(g) for name, g in group.groups.items()},
    )


def _root(stated: Stated, file: str, handle: Handle, substitutions: Mapping[str, str]) -> Group:
    """Return the root group, with its aggregations and those below."""
    conventions = _text_or_none(stated.attributes.get("Conventions")) or ""
    scoping = Scoping(stated, handle, conventions, substitutions)
    root = _group((stated,), file, {}, {}, scoping)
    if scoping.used:
        for group in root.walk():
            # Variables that describe or contain fragments are not data of their own.
            for name in [n for n in group.variables if f"{group.path.rstrip('/')}/{n}" in scoping.used]:
                ordinary = group.variables[name]
                if isinstance(ordinary, Variable):
                    group.private[name] = ordinary
                    del group.variables[name]
            group.facts.update(facts_of(group.variables))
    return root


def _group(
    chain: tuple[Stated, ...],
    file: str,
    inherited: Mapping[str, int],
    private_above: Mapping[str, tuple[tuple[str, ...], tuple[int, ...]]],
    scoping: Scoping,
) -> Group:
    """Return the last group of a chain from the root and those below; `inherited` are the dimensions of its parents."""
    stated = chain[-1]
    sizes = {**inherited, **stated.dimensions}
    unreadable: dict[str, UnreadableAggregationError] = {}
    private: dict[str, Variable] = {}
    for name, ordinary in stated.variables.items():
        try:
            if is_private(ordinary.attributes):
                private[name] = ordinary
        except ConventionError as error:
            unreadable[name] = _unreadable(stated.path, name, f"{file}: variable {name!r}: {error.message}")
    reachable = {**private_above, **{name: (v.dims, v.shape) for name, v in private.items()}}
    variables: dict[str, Variable | Aggregation] = {}
    for name, ordinary in stated.variables.items():
        if name in private or name in unreadable:
            continue
        if mark_of(ordinary.attributes, ordinary.dims) is not None:
            from cfagg.conventions import detection

            # Its single value only represents an array, and means nothing.
            seen: set[str] = set()
            scope = scoping.scope(chain, sizes, reachable, seen)
            try:
                made = detection.parse(name, ordinary.attributes, ordinary.dtype, scope, source=file)
            except CfaggError as error:
                unreadable[name] = _unreadable(stated.path, name, error.message, error.problems)
                continue
            variables[name] = made
            scoping.note(chain, made, seen)
        else:
            variables[name] = ordinary
    _give_units_to_bounds(variables)
    return Group(
        path=stated.path,
        dimensions=stated.dimensions,
        unlimited=stated.unlimited,
        attributes=stated.attributes,
        variables=variables,
        private=private,
        groups={n: _group((*chain, g), file, sizes, reachable, scoping) for n, g in stated.groups.items()},
        unreadable=unreadable,
    )


def _unreadable(group: str, name: str, message: str, problems: Iterable[Problem] = ()) -> UnreadableAggregationError:
    """Return the reason why an aggregation cannot be read, with its path in the file."""
    return UnreadableAggregationError(message, problems, [f"{group.rstrip('/')}/{name}".lstrip("/")])


def _give_units_to_bounds(variables: dict[str, Variable | Aggregation]) -> None:
    """Give aggregated bounds without units or calendar those of their coordinate variable (CF section 7.1)."""
    for name, parent in variables.items():
        for key in BOUNDS:
            bounds = variables.get(str(parent.attributes.get(key, "")))
            if not isinstance(bounds, Aggregation):
                continue
            if isinstance(parent, Aggregation):
                units, calendar = parent.units, parent.calendar
            else:
                units, calendar = (_text_or_none(parent.attributes.get(k)) for k in ("units", "calendar"))
            if "units" in bounds.attributes or "calendar" in bounds.attributes:  # not text, so never interpreted
                continue
            variables[bounds.name] = replace(
                bounds,
                units=bounds.units if bounds.units is not None else units,
                calendar=bounds.calendar if bounds.calendar is not None else calendar,
                bounds_of=name,
            )


def _text_or_none(value: object) -> str | None:
    """Return an attribute's text, or `None` if it is absent or not text."""
    return value if isinstance(value, str) else None
