"""References to chunks in other files, as from kerchunk and VirtualiZarr, as a source and as aggregations."""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence

import numpy as np

from cfagg.arrays.source import Source
from cfagg.arrays.zarr_source import ZarrSource, source_of_store
from cfagg.conventions import limits
from cfagg.errors import LimitError, SourceError
from cfagg.errors.arguments import paths
from cfagg.formats.kerchunk.store import ReferenceStore, local_name, open_references
from cfagg.formats.zarr.metadata import array_of
from cfagg.model import Aggregation, Layout, Partitions, Strings
from cfagg.storage.urls import absolute

__all__ = ["aggregation_of", "open_reference_source"]


def open_reference_source(path: str, allow: Sequence[str | os.PathLike[str]] = ()) -> ZarrSource:
    """Return the metadata of a store of references to chunks next to it or in places that `allow` permits."""
    return source_of_store(path, "kerchunk", ReferenceStore(open_references(absolute(path), paths(allow))))


def aggregation_of(source: Source, variable: str) -> Aggregation:
    """Return an array of references as an aggregation whose partitions are its chunks, by file and offset in bytes."""
    group, found = source.find(variable)
    if not isinstance(source, ZarrSource) or not isinstance(source.store, ReferenceStore):
        raise SourceError(f"variable {variable!r} of {source.path} is not an aggregation")
    store = source.store
    path = f"{group.path.strip('/')}/{found.name}".strip("/")
    array = array_of(store.source, path, store.read, store.remote.opens, any_type=True)
    count = array.grid.size
    if count > limits.MAX_PARTITIONS:
        raise LimitError(
            f"{source.path}: array {path!r} has {count:,} chunks; at most {limits.MAX_PARTITIONS:,} are read"
        )
    present, offset, files = np.zeros(count, bool), np.full(count, -1, np.int64), []
    for cell, index in enumerate(itertools.product(*map(range, array.grid.matrix_shape))):
        place = store.remote.table.get(f"{path}/{array.key(index)}")
        present[cell] = place is not None
        if place is not None and not isinstance(place, bytes):
            offset[cell] = place.offset
            files.append((cell, local_name(place.url)))
    codes, names = Strings.encode(name for _, name in files)
    file = np.full(count, -1, np.int64)
    file[[cell for cell, _ in files]] = codes
    layouts = [Layout(found.dims, format="kerchunk")]
    made = Partitions.build(count, file=file, files=names, offset=offset, layouts=layouts, present=present)
    others = dict(found.attributes)
    units, calendar = (others.pop(k) if isinstance(others.get(k), str) else None for k in ("units", "calendar"))
    return Aggregation(
        found.name, found.dims, found.shape, found.dtype, array.grid, made, units, calendar, attributes=others,
        source=str(source.path),
    )  # fmt: skip
