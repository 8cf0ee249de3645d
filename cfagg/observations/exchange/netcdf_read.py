"""Reading netCDF back into a store of observations."""

from __future__ import annotations

import os
from itertools import chain
from pathlib import Path
from typing import Any, Literal

from cfagg.errors import ConventionError, Problem
from cfagg.errors.arguments import a_path
from cfagg.observations.exchange.assembling import assemble
from cfagg.observations.exchange.documents import KEY, Document, parse_document
from cfagg.observations.exchange.table import COLUMNS
from cfagg.observations.frames import attributes_of
from cfagg.storage.urls import refuse_url

__all__ = ["import_netcdf"]

#: Global attributes that describe a store, and what it calls them.
_GLOBAL = {
    "title": "title",
    "institution": "institution",
    "source": "source",
    "references": "references",
    "comment": "comment",
    "license": "licence",
}


def import_netcdf(
    path: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    format: Literal["zarr2", "cfagg"] = "zarr2",  # noqa: A002
    date_indexing: Literal["bisect", "btree"] = "bisect",
    overwrite: bool = False,
) -> Path:
    """Make a store of a netCDF file: one of `export_netcdf`, or any of CF's discrete sampling geometries.

    Rows are sorted, and of equal ones one is kept.  The store of a file that `export_netcdf` wrote has the same rows,
    variables and attributes as the one it was written from; its statistics are those of all rows.  Files of others are
    read as the source ``netcdf`` of a recipe reads them.

    Parameters
    ----------
    path : path
        The file.
    target : path
        The store.
    format, date_indexing
        As of the recipe's output: the layout of the store, and the kind of its index.
    overwrite : bool
        Whether a store may be replaced.

    Returns
    -------
    pathlib.Path
        The store.

    Raises
    ------
    SourceError
        The file cannot be read.
    ConventionError
        It is not a table of observations; variables and rows are named.
    TargetExistsError, TargetError
        The store is there, or cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> import cfagg
    >>> from cfagg.demo import sample
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = import_netcdf(sample("storms.nc"), f"{folder}/storms.zarr")
    ...     ds = cfagg.open_observations(store, "2005-08-28", "2005-08-28", "[0,24)", "24h")
    ...     print(ds.variables, ds[0][:, 0].max())
    ('wind', 'pressure', 'gale', 'hurricane', 'track') 150.0
    """
    from cfagg.observations.sources.netcdf import read_netcdf

    where = a_path(path, expected="name a netCDF file")
    refuse_url(where, "imported")
    document, about = _told(where)
    frames = read_netcdf(where, columns=None if document is None else document.variables)
    first = next(frames)
    variables = [str(c) for c in first.columns if c not in COLUMNS]
    attributes = attributes_of(first)
    if document is not None:
        if len(variables) != len(document.variables):
            raise ConventionError(
                f"{where}: the attribute {KEY!r} names other variables than the file has",
                [Problem("variables", f"expected {', '.join(variables)}, found {', '.join(document.variables)}")],
            )
        attributes = {v: _attributes(v, attributes.get(v, {}), document) for v in variables}
        about = document.of_store
    return assemble(
        chain([first], frames),
        variables,
        target,
        where,
        {**about, "variables_metadata": {k: v for k, v in attributes.items() if v}},
        format=format,
        date_indexing=date_indexing,
        overwrite=overwrite,
    )


def _told(path: str) -> tuple[Document | None, dict[str, Any]]:
    """Return what cfagg wrote into a file, if it did, and what its global attributes tell."""
    from cfagg.formats.values import netcdf

    with netcdf.opened(path) as dataset:
        found = {k: dataset.getncattr(k) for k in dataset.ncattrs() if k in (*_GLOBAL, KEY)}
    texts = {k: v for k, v in found.items() if isinstance(v, str) and v}
    document = parse_document(texts[KEY], path) if KEY in texts else None
    return document, {_GLOBAL[k]: v for k, v in texts.items() if k != KEY}


def _attributes(name: str, found: dict[str, Any], document: Document) -> dict[str, Any]:
    """Return the attributes of a variable as they were in the store."""
    added = document.added.get(name, [])
    return {**{k: v for k, v in found.items() if k not in added}, **document.attributes.get(name, {})}
