"""A file in a format of another package as a source: what is in it, for the eye; its values are not read here."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from cfagg.arrays.source import Group, Source, Variable
from cfagg.arrays.zarr_source import mark_of, open_any
from cfagg.errors import UnreadableAggregationError
from cfagg.errors.arguments import a_path
from cfagg.formats.opening import HEAD, a_name, format_of
from cfagg.formats.plugins import foreign_dataset
from cfagg.model import dataset as model
from cfagg.storage.files import open_regular
from cfagg.storage.handles import handles

__all__ = ["open_shown"]


def open_shown(path: str | os.PathLike[str], allow: Sequence[str | os.PathLike[str]] = ()) -> Source:
    """Return the metadata of a file or store that can be shown: as `open_any`, or of a format of a plug-in.

    Parameters
    ----------
    path : path
        The file or directory.
    allow : sequence of path
        Where links in a store may lead.

    Raises
    ------
    SourceError
        If it is not there, none of these, or damaged; or a plug-in fails.
    """
    return _foreign(a_name(a_path(path))) or open_any(path, allow)


def _foreign(path: str) -> Source | None:
    """Return the metadata of a file that only a plug-in knows, `None` where it is anything else."""
    name = os.path.abspath(path)  # noqa: PTH100
    if os.path.isdir(name) or format_of(handles.get(name)) is not None:  # noqa: PTH112
        return None
    # The pool goes on with its own handle: this one is closed with the dataset.
    handle = open_regular(name)
    try:
        head = handle.some(HEAD, 0)
        dataset = foreign_dataset(handle, head) if format_of(handle, head=head) is None else None
        if dataset is None:
            return None
        with dataset:
            return Source(path, dataset.format, _group(dataset.root, path))
    finally:
        handle.close()


def _group(found: model.Group, file: str) -> Group:
    """Return one group and those below."""
    variables: dict[str, Any] = {}
    unreadable: dict[str, UnreadableAggregationError] = {}
    for name, one in found.variables.items():
        dtype = np.dtype(object, metadata={"element_type": str}) if one.kind == "string" else one.dtype
        attributes = {k: _plain(v) for k, v in one.attributes.items()}
        variable = Variable(name, one.dims, one.shape, dtype, attributes)
        mark = mark_of(variable)
        if mark is None:
            variables[name] = variable
        else:
            message = f"{file}: variable {name!r}: its attribute {mark!r} marks an aggregation, read from netCDF only"
            unreadable[name] = UnreadableAggregationError(message, (), [one.path.lstrip("/")])
    return Group(
        path=found.path,
        dimensions={name: d.size for name, d in found.dimensions.items()},
        unlimited=frozenset(name for name, d in found.dimensions.items() if d.unlimited),
        attributes={k: _plain(v) for k, v in found.attributes.items()},
        variables=variables,
        groups={name: _group(g, file) for name, g in found.groups.items()},
        unreadable=unreadable,
    )


def _plain(value: Any) -> Any:
    """Return an attribute as netCDF4-python gives it."""
    if isinstance(value, tuple):
        return list(value)
    return value[0] if isinstance(value, np.ndarray) and value.size == 1 else value
