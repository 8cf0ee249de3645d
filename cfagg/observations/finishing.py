"""What is written when all rows of a store are: statistics, index, attributes, and what makes it a store."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from cfagg.cf.instants import epoch_text
from cfagg.errors import ConventionError
from cfagg.formats.zarr.creating import group_documents
from cfagg.observations.layouts import DataLayout, array_files, dumped, write_bytes, zarr_format
from cfagg.runtime.publishing import remove

__all__ = ["META", "VERSION", "Entries", "finish_store"]

#: The version of the layout that the published software writes.
VERSION = "0.22"

#: The columns before the variables.
META = ("__date", "__time", "__latitude", "__longitude")
type Int64 = npt.NDArray[np.int64]


class Entries(Protocol):
    """Entries of an index."""

    count: int

    def blocks(self) -> Iterator[tuple[Int64, Int64, Int64]]:
        """Return all entries in blocks of columns epoch, start and length."""

    @property
    def ends(self) -> tuple[int, int] | None:
        """First and last epoch, `None` where there is no entry."""


def finish_store(
    store: Path,
    layout: DataLayout,
    variables: Sequence[str],
    entries: Entries,
    date_indexing: str,
    statistics: Mapping[str, npt.NDArray[Any]],
    attributes: Mapping[str, Any],
    *,
    sidecar: bool = True,
) -> None:
    """Write everything but the chunks of rows; the documents that make it a store come last."""
    for name, values in statistics.items():
        if np.shape(values) != (len(variables),):
            raise ConventionError(f"statistic {name!r} has shape {np.shape(values)}, expected ({len(variables)},)")
        _write(store / name, array_files(layout.format, np.asarray(values)))
    _write(store / "data", {name: dumped(document) for name, document in layout.documents().items()})
    _write_index(store, layout.format, date_indexing, entries)
    root = group_documents(
        _attributes(layout, variables, entries, date_indexing, attributes), zarr_format(layout.format)
    )
    _write(store, {name: dumped(document) for name, document in root.items()})
    if sidecar:
        _write_sidecar(store, layout, entries)
    for left in (*store.glob(".*.cfagg-new-*"), *store.rglob(".*.part")):
        # A killed run left it, or it could not be removed at first; it must not become part of the store.
        remove(left)


def _attributes(
    layout: DataLayout, variables: Sequence[str], entries: Entries, date_indexing: str, given: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the attributes of the root."""
    ends = entries.ends
    dates = {}
    if ends is not None:
        first, last = (epoch_text(e) for e in ends)
        dates = {
            "start_date": first,
            "end_date": last,
            "last_date": last,
            "index_start_date": first,
            "index_end_date": last,
            "statistics_start_date": first,
            "statistics_end_date": last,
        }
    return {
        "_tabular_finalise_complete": True,
        "attribution": None,
        "chunks": [layout.chunk, layout.columns],
        "constant_fields": [],
        "date_indexing": date_indexing,
        "description": None,
        "dimensions": ["dates", "variables"],
        "dtype": "float32",
        **dates,
        "index_length": entries.count,
        "layout": "tabular",
        "licence": None,
        "meta_variables": list(META),
        "shape": [layout.rows, layout.columns],
        "uuid": str(uuid.uuid4()),
        "variables": list(variables),
        "variables_metadata": {},
        "version": VERSION,
        **given,
    }


def _write_index(store: Path, format: str, date_indexing: str, entries: Entries) -> None:  # noqa: A002
    """Write the index that the published software reads."""
    from cfagg.observations.indexes.bisect import write_bisect
    from cfagg.observations.indexes.btree import write_btree

    write = {"bisect": write_bisect, "btree": write_btree}[date_indexing]
    write(store, entries.blocks(), zarr_format=zarr_format(format))


def _write_sidecar(store: Path, layout: DataLayout, entries: Entries) -> None:
    """Write cfagg's own index, which names the rows that it was made of."""
    from cfagg.observations.indexes import write_pages
    from cfagg.observations.store import open_store

    identity = open_store(store).identity
    version = zarr_format(layout.format)
    write_pages(store, entries.blocks(), identity=identity, rows=layout.rows, zarr_format=version)


def _write(folder: Path, files: Mapping[str, bytes]) -> None:
    for name, data in files.items():
        write_bytes(folder / name, data)
