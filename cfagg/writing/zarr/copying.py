"""Writing a lazy array as a Zarr store: stored chunks are copied byte for byte where the new array can use them.

It can if data type, codecs and position in the grid match: the chunk exactly fills a cell. All others are read and
encoded, including a partial last chunk that ends up in the interior, which must not decode to more than it contributes.
"""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from cfagg.arrays.chunked import ZarrReader
from cfagg.arrays.concatenating import ConcatenatedReader, grid_along
from cfagg.arrays.lazy import LazyArray
from cfagg.arrays.reader import Reader
from cfagg.errors import TargetError
from cfagg.model import Grid, Regular
from cfagg.runtime.budget import worker_count
from cfagg.storage.urls import Url, a_place, is_url
from cfagg.writing.zarr.chunk_copying import CopyJob, Leaf
from cfagg.writing.zarr.described import as_regular, described, fit, planned, store_documents
from cfagg.writing.zarr.forms import Form, form_of
from cfagg.writing.zarr.new_store import Stored, new_store
from cfagg.writing.zarr.own_source import refuse_own_source
from cfagg.writing.zarr.report import StoreReport

__all__ = ["refer_lazy", "write_lazy"]

#: Number of threads that send requests to other machines.
_REQUESTS = 16


def write_lazy(
    array: LazyArray,
    target: str | os.PathLike[str],
    *,
    overwrite: bool = False,
    target_options: Mapping[str, Any] | None = None,
    workers: int | None = None,
) -> StoreReport:
    """Write an array into a new store, as the only variable of its root."""
    job = _prepared(array)
    refuse_own_source(target, array.reader, overwrite=overwrite)
    threads = _threads(target, job.leaves, workers)
    with new_store(target, overwrite=overwrite, target_options=target_options) as place:
        job.run(place.once, threads)
        place.publish(store_documents({job.made.path: job.document}, {}))
    return job.report(place.path, referenced=0)


def _threads(target: str | os.PathLike[str], leaves: Sequence[Leaf], workers: int | None) -> int:
    """Return the number of threads for writing: more than processors if they wait for other machines."""
    remote = is_url(os.fspath(target)) or any(a.array is not None and isinstance(a.array.store, Url) for a in leaves)
    return _REQUESTS if workers is None and remote else worker_count(workers)


def refer_lazy(
    array: LazyArray,
    target: str | os.PathLike[str],
    *,
    overwrite: bool = False,
    target_options: Mapping[str, Any] | None = None,
    workers: int | None = None,
) -> StoreReport:
    """Write an array into a new Icechunk repository that refers to the reusable chunks."""
    from cfagg.writing.zarr.referring import refers, write_elsewhere, write_repository

    name = a_place(target, target_options, name="target", expected="name a directory", options_name="target_options")
    job = _prepared(array)
    threads = _threads(name, job.leaves, workers)
    arrays = [leaf.array for leaf in job.leaves if leaf.array is not None]
    stores = {os.path.realpath(a.store) for a in arrays if refers(Stored(a.store, "", a.allow, a.opens))}
    documents = store_documents({job.made.path: job.document}, {}, consolidate=False)
    if isinstance(name, Url):
        write_elsewhere(name, documents, lambda keys: job.run(keys, threads), overwrite=overwrite)
        return job.report(str(name), referenced=0)
    home = os.path.realpath(name)
    within = next((s for s in sorted(stores) if os.path.commonpath([s, home]) == home), None)
    if within is not None:
        raise TargetError(
            f"{within} would be referred to, but lies in {home}, which is replaced; choose another target"
        )
    stores |= {os.path.realpath(place) for a in arrays for place in a.allow if not is_url(place)}
    made, notes = write_repository(
        name, documents, sorted(stores), lambda keys: job.run(keys, threads), overwrite=overwrite
    )
    return job.report(home, referenced=made.count, notes=notes)


def _prepared(array: LazyArray) -> CopyJob:
    """Return the job that writes an array."""
    name = array.name or "data"
    leaves = list(_leaves(array.reader, (0,) * array.ndim))
    form, grid = _target(array, leaves)
    document = described(name, array.dims, array.dtype, grid, array.attributes, form)
    return CopyJob(array, planned(name, document), document, form, leaves)


def _leaves(reader: Reader, origin: tuple[int, ...]) -> Iterator[Leaf]:
    """Yield the arrays that make up an array, in order."""
    if isinstance(reader, ConcatenatedReader):
        start = list(origin)
        for part in reader.parts:
            yield from _leaves(part, tuple(start))
            start[reader.axis] += part.shape[reader.axis]
    elif type(reader) is ZarrReader:
        yield Leaf(reader, origin, reader.array, form_of(reader.array))
    else:
        yield Leaf(reader, origin)


def _target(array: LazyArray, leaves: Sequence[Leaf]) -> tuple[Form | None, Grid]:
    """Return the form of the new array, which most of its elements already have, and the grid of stored objects."""
    votes: Counter[tuple[str, str]] = Counter()
    forms: dict[tuple[str, str], Form] = {}
    for leaf in leaves:
        if leaf.form is not None and leaf.reader.dtype == array.dtype:
            key = leaf.form.key, leaf.form.shard_key
            forms.setdefault(key, leaf.form)
            votes[key] += math.prod(leaf.reader.shape)
    if 0 in array.shape:
        form = next(iter(forms.values())).without_shards() if forms else None
        return form, Grid.regular(array.shape, [max(n, 1) for n in array.shape])
    if not votes:
        return None, fit(as_regular(array.grid), array.dtype)
    form = forms[votes.most_common(1)[0][0]]
    # Keep the lengths of a part along other axes, so that its chunks can be copied.
    joined = set(_axes(array.reader))
    if form.shards is not None:
        grid = as_regular(grid_along(array.reader, _objects), joined)
        if _divisible(grid, form.shards["chunk_shape"]):
            return form, grid
        # A part ends within a shard, so chunks are stored without shards.
        form = form.without_shards()
    return form, fit(as_regular(array.grid, joined), array.dtype)


def _axes(reader: Reader) -> Iterator[int]:
    """Yield the axes along which parts are joined."""
    if isinstance(reader, ConcatenatedReader):
        yield reader.axis
        for part in reader.parts:
            yield from _axes(part)


def _objects(reader: Reader) -> Grid:
    """Return the grid of stored objects of an array: shards, or else chunks."""
    return reader.array.objects if type(reader) is ZarrReader else LazyArray(reader).grid


def _divisible(grid: Grid, inner: Sequence[int]) -> bool:
    """Return whether all shards can be divided into whole chunks."""
    return all(
        not np.any((axis.chunk if isinstance(axis, Regular) else np.diff(axis)) % n)
        for axis, n in zip(grid.axes, inner, strict=True)
    )
