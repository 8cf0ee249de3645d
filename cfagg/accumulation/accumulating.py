"""Building the accumulation of an array from start to finish, and extending accumulations of a store that has grown."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from cfagg.accumulation.adopting import adopt_copy, renew
from cfagg.accumulation.build_plan import Action, existing_group, plan_build
from cfagg.accumulation.building import GroupStaging, build, finish_dead, working
from cfagg.accumulation.extending import Extension, extend
from cfagg.accumulation.group import Group, NotInPlaceError
from cfagg.accumulation.in_objects import build_there, discard
from cfagg.accumulation.opening import open_group
from cfagg.accumulation.options import Order
from cfagg.accumulation.partials import readers, threads_that_fit
from cfagg.accumulation.report import Report, report_of, report_of_extension
from cfagg.accumulation.writing import finish_there, make_there, place_of_array, record_there
from cfagg.conventions.accumulation import group_name
from cfagg.errors import CfaggError, UnsupportedError
from cfagg.errors.arguments import a_path, flags, names, paths, shared
from cfagg.errors.extras import require
from cfagg.formats.values.locks import LIBRARY
from cfagg.formats.zarr import open_array
from cfagg.formats.zarr.documents import parse, read_document
from cfagg.runtime.budget import parse_size, worker_count
from cfagg.runtime.clusters import cluster_of
from cfagg.storage.objects import ObjectStore
from cfagg.storage.tree import prefixes
from cfagg.storage.urls import Url, a_place, is_url, refuse_url
from cfagg.writing.zarr.group_state import recover

__all__ = ["accumulate", "accumulated_arrays", "carry_out", "update"]

#: Bytes of data in flight by default.
DEFAULT_MEMORY = "256MiB"

#: Bytes that one thread needs to accumulate the partial sums.
_PER_THREAD = 64 << 20


@LIBRARY.keeping_files()
def accumulate(
    store: str | os.PathLike[str],
    variable: str,
    dims: Sequence[str | Sequence[str]] | str | None = None,
    *,
    stride: int | dict[str, int] = 1,
    weights: Any = None,
    statistics: str | Sequence[str] | None = ("chunks",),
    precision: str = "auto",
    codec: str | None = "blosc",
    append: bool = False,
    refresh: bool = False,
    overwrite: bool = False,
    resume: bool = False,
    adopt: bool = False,
    dry_run: bool = False,
    workers: int | None = None,
    memory: int | str = DEFAULT_MEMORY,
    client: Any = None,
    allow: str | os.PathLike[str] | Iterable[str | os.PathLike[str]] = (),
    progress: Callable[[int, int], None] | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> Report:
    """Store cumulative sums of an array at the edges of its chunks, for quick means over any range.

    They form a Zarr group next to the array (ZEP 5), built in one pass over the data in a work directory and moved into
    place once complete.  Readers see either the old group or the new one, never a partial one.

    Parameters
    ----------
    store : path
        Directory of the Zarr store, version 2 or 3, or its URL in an object store.  In the latter case, the group is
        built in the directory for temporary files, and published by one conditional write of its metadata.
    variable : str
        Path of the array within it.
    dims : sequence of str and sequences of str, optional
        Combinations of dimensions to sum along: ``["time", ("lat", "lon")]``.  By default every single dimension, and
        the pair of horizontal ones if attributes of coordinates identify them.
    stride : int or mapping
        Number of chunks between sums, for all dimensions or by name.  Larger strides need less space and more time.
    weights : None, str, numpy.ndarray or xarray.DataArray
        ``"area"``: areas of cells (the variable named by ``cell_measures``, else from bounds of latitude and longitude,
        else the cosine of latitude).  Any other string: a variable of the store.  Or an array that broadcasts to the
        data; the labels of a labelled array must be those of the data.
    statistics : str or sequence of str
        ``"chunks"``: count, minimum, maximum, sum and sum of squares of every chunk.  ``"min"``, ``"max"``, ``"std"``:
        these also for every combination.  ``"none"``: none.
    precision : {"auto", "float64", "double-double"}
        ``"auto"`` sums integers exactly and real numbers in float64.  ``"double-double"`` stores a second float64 with
        the digits that do not fit into the first.  ``"float64"`` also helps if sums of integers exceed 64 bits.
    codec : {"blosc", "zstd", "gzip", "none"}
        Compression of the sums.
    append : bool
        Extend the existing accumulation of an array that has grown along one dimension; nothing else may have changed.
    refresh : bool
        Bring the existing accumulation up to date with its present settings, by appending if that is enough.
    overwrite : bool
        Replace an existing accumulation; discard an unfinished build.
    resume : bool
        Finish a killed or failed build with the same options.  Appending and refreshing do so by themselves.
    adopt : bool
        Build nothing, but accept the present stored objects as those that were summed if their contents are the same,
        as in a copy of a store.  Objects that are not the files that were summed are read once.  If all are the same,
        the accumulation can be used again; otherwise `StaleError` lists those that differ.  Of the other options only
        `progress` and `allow` apply.
    dry_run : bool
        Write nothing and read no data, but report the arrays that would be written.
    workers : int, optional
        Threads; by default one per processor.  A remote store is read by sixteen, or as many as their chunks fit in
        memory, because most of them wait for responses.
    memory : int or str
        Memory for chunks while they are summed, in bytes or as a string such as ``"1GiB"``.
    client : distributed.Client or str, optional
        A Dask cluster, or the address of its scheduler, whose workers can access the store under the same path.  They
        read and sum the chunks; this process writes everything.
    allow : iterable of path, optional
        Directories and files outside the store that its links may point to.
    progress : callable, optional
        Called as ``progress(done, total)`` with bytes of data.
    storage_options : mapping, optional
        For a URL, as for `cfagg.read`.

    Returns
    -------
    Report
        A report that describes the written arrays.

    Raises
    ------
    SourceError, FragmentReadError
        The store or one of its chunks cannot be read.
    UnsupportedError, SelectionError, LimitError, ConformError
        The request cannot be fulfilled, for example because of an unknown dimension, a stride below 1, weights that do
        not fit, or a variable that is not numeric.
    TargetExistsError
        An accumulation, or an unfinished build of one, exists.
    NotAccumulatedError
        There is no accumulation to append to or to refresh.
    StaleError
        The array was written to while it was read, or has changed in a way that rules out appending.
    TargetError
        The group cannot be written.

    Notes
    -----
    Source: "Zarr-based Chunk-level Accumulation in Reduced Dimensions" 1.0 (ZEP 5).

    Examples
    --------
    >>> import tempfile, numpy as np, zarr
    >>> store = tempfile.mkdtemp() + "/a.zarr"
    >>> names = ["time", "x"]
    >>> tas = zarr.create_array(store, name="tas", shape=(10, 4), chunks=(4, 4), dtype="f4", dimension_names=names)
    >>> tas[:] = 1.0
    >>> report = accumulate(store, "tas", dims=["time"])
    >>> report.action, [a.name for a in report.arrays][:2]
    ('built', ['acc_time', 'acc_wt_time'])
    >>> zarr.open_group(store, mode="r")["tas_accumulation_group/acc_time"][:]
    array([[ 4.,  4.,  4.,  4.],
           [ 8.,  8.,  8.,  8.],
           [10., 10., 10., 10.]])
    """
    flags(append=append, refresh=refresh, overwrite=overwrite, resume=resume, adopt=adopt, dry_run=dry_run)
    if sum((append, refresh, overwrite, adopt)) > 1:
        raise UnsupportedError("append, refresh, overwrite and adopt cannot be combined; choose one")
    shared(storage_options=storage_options, progress=progress, workers=workers)
    there = _url(store, storage_options, allow)
    places = prefixes(allow) if there is None else ()
    if client is not None:
        require("accumulations on a Dask cluster (client=)", "distributed")
        pickle.dumps(there)  # so that secrets are refused with our own error, not inside one of Dask
    if adopt:
        if resume or dry_run:
            raise UnsupportedError("adopt builds nothing: leave resume and dry_run out")
        return adopt_copy(there or store, variable, progress, places)
    name = there or a_path(store, "store", expected="name a Zarr store")
    threads, budget = readers(workers, name), parse_size(memory)
    order = Order(
        name, variable, budget, dims, stride, weights, statistics, precision, codec,
        append, refresh, overwrite, resume, places,
    )  # fmt: skip
    array = open_array(order.store, order.variable, allow=places)
    if array.path and not dry_run:
        if recover(place_of_array(array)):
            array = open_array(order.store, order.variable, allow=places)
        finish_dead(array)
    return carry_out(order, threads=threads, client=client, dry_run=dry_run, progress=progress)


def carry_out(
    order: Order,
    *,
    threads: int,
    client: Any = None,
    dry_run: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Report:
    """Plan an order and carry it out."""
    there, places, budget = isinstance(order.store, Url), order.allow, order.memory
    plan = plan_build(order)
    if dry_run or plan.action is Action.NOTHING:
        if there and not dry_run:
            discard(plan.array)
        return report_of(plan, "dry run" if plan.action.sums else plan.action.word)
    fitting = threads_that_fit(plan.recipe, budget, threads)
    summers = min(threads, worker_count(None), max(1, budget // _PER_THREAD))
    if there:
        if plan.action is Action.RENEW:
            renew(open_group(order.store, plan.array.path), plan.related, None)
            return report_of(plan, plan.action.word)
        with cluster_of(client) as cluster:
            return build_there(plan, order, fitting, summers, cluster, progress)
    shop = GroupStaging.of(plan.array)
    # An unresponsive scheduler is detected before anything is written.
    with cluster_of(client) as cluster, working(shop, plan, order):
        if existing_group(plan.array) != plan.existing:
            # A group has been put in place meanwhile, by another process or by finishing a build that was killed.
            plan = plan_build(order)
            if plan.action is Action.NOTHING:
                return report_of(plan, plan.action.word)
        if plan.action is Action.RENEW:
            renew(open_group(plan.array.store, plan.array.path, allow=places), plan.related, shop.root)
            return report_of(plan, plan.action.word)
        return build(plan, order, shop, fitting, summers, cluster, progress)


def _url(store: Any, options: Mapping[str, Any] | None, allow: Any) -> Url | None:
    """Return the URL of a store that can be written to, or `None` if it is on this machine."""
    if not (is_url(store) or options):
        return None
    place = a_place(store, options, paths(allow), name="store", expected="name a Zarr store")
    if place.lower().startswith("http"):
        refuse_url(place, "accumulated")
    return place if isinstance(place, Url) else None


#: Suffix of the name of an accumulation group.
_SUFFIX = group_name("")

#: Depth to which nested groups are searched.
_DEPTH = 16


def update(
    store: str | os.PathLike[str],
    report: Any = None,
    *,
    variables: str | Iterable[str] | None = None,
    storage_options: Mapping[str, Any] | None = None,
    workers: int | None = None,
    memory: int | str = DEFAULT_MEMORY,
) -> tuple[Report, ...]:
    """Extend the accumulations of a store with the data appended to its arrays, and return a report for each.

    Data that were summed are not read again.  An accumulation that was built as a whole is rewritten the first time and
    grows in place from then on, so that the cost of an increment does not depend on the length of the array.
    `variables` are paths of arrays, by default all that have an accumulation.
    """
    del report
    place = a_place(store, storage_options)
    found = accumulated_arrays(store, storage_options) if variables is None else names(variables, "variables")
    threads, budget = readers(workers, place), parse_size(memory)
    return tuple(_update(place, path, threads, budget) for path in found)


def _update(store: str, variable: str, threads: int, memory: int) -> Report:
    """Extend one accumulation, in place if possible."""
    if isinstance(store, Url):
        group, extension = _extend_there(store, variable, threads, memory)
    else:
        group, extension = _extend_here(store, variable, threads, memory)
    if extension is None:
        if isinstance(store, Url):
            if store.recent is not None:
                store.recent.clear()
            store = store.anew
        # From now on the group is to grow along the dimension that has grown.
        grown = tuple(group.differences.grown)
        order = Order(store, variable, memory, append=True, grows=grown[0] if len(grown) == 1 else None)
        return carry_out(order, threads=threads)
    return report_of_extension(extension.plan, extension.missing, extension.nonfinite)


def _extend_here(store: str, variable: str, threads: int, memory: int) -> tuple[Group, Extension | None]:
    """Extend a local accumulation in place; return it and the extension, or `None` if it must be written as a whole."""
    array = open_array(store, variable)
    finish_dead(array)
    shop = GroupStaging.of(array)
    shop.enter()
    try:
        group, extension = _extension(store, variable, threads, memory)
        if extension is not None:
            extension.unchanged()
            shop.make(extension.increment, array)
            shop.remove_unless_unfinished()
    finally:
        shop.abandon_if_useless()
    return group, extension


def _extend_there(store: Url, variable: str, threads: int, memory: int) -> tuple[Group, Extension | None]:
    """Extend an accumulation in an object store in place; see `_extend_here`.

    Only if this fails at first is the store searched for a record left by a killed process.
    """
    recorded = False
    try:
        group, extension = _extension(store, variable, threads, memory)
        if extension is not None:
            extension.unchanged()
            place = place_of_array(group.source)
            record_there(extension.increment, place)
            recorded = True
            make_there(extension.increment, group.source, place)
    except CfaggError:
        if recorded or not finish_there(open_array(store.anew, variable)):
            raise
    else:
        if extension is not None or not finish_there(open_array(store.anew, variable)):
            return group, extension
    return _extend_there(store.anew, variable, threads, memory)


def _extension(store: str, variable: str, threads: int, memory: int) -> tuple[Group, Extension | None]:
    """Return an accumulation and its extension in place, or `None` if it must be rewritten as a whole."""
    group = open_group(store, variable, check=False, when_needed=True)
    try:
        return group, extend(group, threads, memory)
    except NotInPlaceError:
        return group, None


def accumulated_arrays(
    store: str | os.PathLike[str], storage_options: Mapping[str, Any] | None = None, *, group: str | None = None
) -> tuple[str, ...]:
    """Return the paths of the arrays of a store or of one group that have an accumulation, without listing chunks."""
    place = a_place(store, storage_options)
    within = (group or "", 0 if group is not None else _DEPTH)
    children = (
        _remote(ObjectStore(place, place.options.given), *within)
        if isinstance(place, Url)
        else _local(Path(os.fspath(place)), *within)
    )
    return tuple(path for path in children if path)


def _local(root: Path, path: str = "", depth: int = _DEPTH) -> Iterator[str]:
    here = root / path
    found = sorted(e.name for e in os.scandir(here) if e.is_dir())
    inside = {n for n in found if n.endswith(_SUFFIX)}
    for name in found:
        below = f"{path}/{name}".lstrip("/")
        if name in inside:
            yield below.removesuffix(_SUFFIX)
        elif depth and _is_group(here / name):
            yield from _local(root, below, depth - 1)


def _is_group(folder: Path) -> bool:
    if (folder / ".zgroup").exists():
        return True
    found = read_document(str(folder), "zarr.json")
    return found is not None and found.content.get("node_type") == "group"


def _remote(objects: ObjectStore, path: str = "", depth: int = _DEPTH) -> Iterator[str]:
    for child in sorted(objects.children(path)):
        name = child.rstrip("/").rpartition("/")[2]
        below = f"{path}/{name}".lstrip("/")
        if name.endswith(_SUFFIX):
            yield below.removesuffix(_SUFFIX)
        elif depth:
            text = objects.read(f"{below}/zarr.json")
            inner = text is not None and parse(text, below).get("node_type") == "group"
            if inner or (text is None and objects.size(f"{below}/.zgroup") is not None):
                yield from _remote(objects, below, depth - 1)
