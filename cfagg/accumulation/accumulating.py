"""Building the accumulation of an array, from beginning to end, or adopting one for a store with the same contents.

A copy of a store has other times and inodes than the original.  Objects whose stamps differ are read once and their
checksums compared with those that the build kept; where all are equal their new stamps take the place of the old ones.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.accumulation.building import GroupStaging, build, consolidate, finish_dead, put_attributes, working
from cfagg.accumulation.description import Neighbour, differences_of, neighbours_of, table_of
from cfagg.accumulation.group import Group, Looks, adopt_command, group_path, stale
from cfagg.accumulation.integrity import BUILD, sealed
from cfagg.accumulation.layout import ArraySpec
from cfagg.accumulation.mapping import threads_that_fit
from cfagg.accumulation.opening import open_group
from cfagg.accumulation.options import Order
from cfagg.accumulation.planning import Action, existing_group, plan_build
from cfagg.accumulation.report import Report, report_of
from cfagg.accumulation.source import settled, write_back
from cfagg.accumulation.writing import Target, codec_of, read_documents
from cfagg.errors import CfaggError, NotAccumulatedError, Problem, StaleError, TargetError, UnsupportedError
from cfagg.errors.arguments import a_path, paths
from cfagg.errors.extras import require
from cfagg.formats.zarr import ZarrArray, compare, object_checksum, open_array, stamps
from cfagg.formats.zarr.documents import node_folder, read_group
from cfagg.runtime.budget import parse_size, worker_count
from cfagg.runtime.clusters import cluster_of
from cfagg.runtime.publishing import reason, remove, sync_tree
from cfagg.storage.tree import prefixes
from cfagg.storage.urls import Url, a_place, is_url, refuse_url

__all__ = ["accumulate", "adopt_copy", "adopted", "renew"]

#: Bytes of data in flight by default.
DEFAULT_MEMORY = "256MiB"

#: Bytes that one thread takes to sum the sums.
_PER_THREAD = 64 << 20


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

    They are a Zarr group beside the array (ZEP 5), built in one pass over the data beside the store and put in place
    when it is complete.  Readers see the old group or the new one, never a part.

    Parameters
    ----------
    store : path
        Directory of the Zarr store, version 2 or 3.  Or its URL in an object store, ``s3://`` or ``az://``: there, the
        group is built in the directory for temporary files, and published by one conditional write of its metadata.
    variable : str
        Path of the array within it.
    dims : sequence of str and sequences of str, optional
        Combinations of dimensions to sum along: ``["time", ("lat", "lon")]``.  By default every single dimension, and
        the pair of horizontal ones if attributes of coordinates identify them.
    stride : int or mapping
        Number of chunks between sums, for all dimensions or by name.  Larger strides take less space and more time.
    weights : None, str, numpy.ndarray or xarray.DataArray
        ``"area"``: areas of cells (a variable that ``cell_measures`` names, else bounds of latitude and longitude, else
        the cosine of latitude).  Another text: a variable of the store.  An array that broadcasts to the data.
    statistics : str or sequence of str
        ``"chunks"``: count, minimum, maximum, sum and sum of squares of every chunk.  ``"min"``, ``"max"``, ``"std"``:
        these also for every combination.  ``"none"``: none.
    precision : {"auto", "float64", "double-double"}
        ``"auto"`` sums integers exactly and real numbers in float64.  ``"double-double"`` keeps a second float64 with
        what the first one cannot hold.  ``"float64"`` is also a remedy for integers whose sums are beyond 64 bits.
    codec : {"blosc", "zstd", "gzip", "none"}
        Compression of the sums.
    append : bool
        Extend the existing accumulation of an array that has grown along one dimension; nothing else may have changed.
    refresh : bool
        Bring the existing accumulation up to date with the settings it has: by appending where that is enough.
    overwrite : bool
        Replace an existing accumulation; discard an unfinished build.
    resume : bool
        Finish a killed or failed build with the same options.  Appending and refreshing do so by themselves.
    adopt : bool
        Build nothing: take the stored objects that are there now for those that were summed, if their contents are the
        same, as in a copy of a store.  Objects that are not the very files that were read are read once; where all are
        the same the accumulation answers again, else `StaleError` names those that are not.  No other option but
        `progress` and `allow` is looked at.
    dry_run : bool
        Write nothing and read no data; report what would be written.
    workers : int, optional
        Threads; by default one per processor.
    memory : int or str
        Bytes that chunks may take while they are summed, such as ``"1GiB"``.
    client : distributed.Client or str, optional
        A Dask cluster, or the address of its scheduler, whose workers see the store by the same path.  They read and
        sum the chunks; everything is written from here.
    allow : iterable of path, optional
        Directories and files outside the store that links in it may lead to.
    progress : callable, optional
        Called as ``progress(done, total)`` with bytes of data.
    storage_options : mapping, optional
        Of a URL, as for `cfagg.read`.

    Returns
    -------
    Report
        A description of what was written, array by array.

    Raises
    ------
    SourceError, FragmentReadError
        The store or one of its chunks cannot be read.
    UnsupportedError, SelectionError, LimitError, ConformError
        The request cannot be fulfilled: a dimension that the array does not have, a stride below 1, weights that do
        not fit, a variable that holds no numbers.
    TargetExistsError
        There is an accumulation, or an unfinished build of one.
    NotAccumulatedError
        There is none to append to or to refresh.
    StaleError
        The array was written while it was read, or has changed so that nothing can be appended.
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
    if sum(map(bool, (append, refresh, overwrite, adopt))) > 1:
        raise UnsupportedError("append, refresh, overwrite and adopt cannot be combined; choose one")
    there = _url(store, storage_options, allow)
    if there is not None and (append or refresh or adopt or resume or client is not None):
        raise UnsupportedError(
            f"{there}: accumulations in object stores are built whole, from here: no append, refresh, adopt, resume or "
            "client; replace one with overwrite=True (--overwrite)"
        )
    places = prefixes(allow) if there is None else ()
    if client is not None:
        require("accumulations on a Dask cluster (client=)", "distributed")
    if adopt:
        if resume or dry_run:
            raise UnsupportedError("adopt builds nothing: leave resume and dry_run out")
        return adopt_copy(store, variable, progress, places)
    threads, budget = worker_count(workers), parse_size(memory)
    name = there or a_path(store, "store", expected="name a Zarr store")
    order = Order(
        name, variable, dims, stride, weights, statistics, precision, codec, append, refresh, overwrite,
        resume, budget, places,
    )  # fmt: skip
    array = open_array(order.store, order.variable, allow=places)
    if array.path and not dry_run and there is None:
        finish_dead(GroupStaging(array.store, array.path, node_folder(array.store, group_path(array.path))), array)
    plan = plan_build(order)
    if dry_run or plan.action is Action.NOTHING:
        return report_of(plan, "dry run" if plan.action.sums else plan.action.word)
    fitting = threads_that_fit(plan.recipe, budget, threads)
    summers = min(threads, max(1, budget // _PER_THREAD))
    if there is not None:
        from cfagg.accumulation.in_objects import build_there

        return build_there(plan, order, fitting, summers, progress)
    shop = GroupStaging(plan.array.store, plan.array.path, plan.folder)
    # A scheduler that does not answer is found before anything is written.
    with cluster_of(client) as cluster, working(shop, plan, order):
        if existing_group(plan.array) != plan.existing:
            # Another process, or the end of a build that was killed, has put a group in place meanwhile.
            plan = plan_build(order)
            if plan.action is Action.NOTHING:
                return report_of(plan, plan.action.word)
        if plan.action is Action.RENEW:
            renew(open_group(plan.array.store, plan.array.path, allow=places), plan.related, shop.root)
            return report_of(plan, plan.action.word)
        return build(plan, order, shop, fitting, summers, cluster, progress)


def _url(store: Any, options: Mapping[str, Any] | None, allow: Any) -> Url | None:
    """Return the URL of a store that can be written to; `None` where it is on this machine."""
    if not (is_url(store) or options):
        return None
    place = a_place(store, options, paths(allow), name="store", expected="name a Zarr store")
    if not place.lower().startswith(("s3:", "az:")):
        refuse_url(place, "accumulated")
    return place if isinstance(place, Url) else None


Int64 = npt.NDArray[np.int64]
Progress = Callable[[int, int], None]

#: Objects with other contents that are named one by one.
_NAMED = 15


def adopted(group: Group, progress: Progress | None = None) -> Group:
    """Return an accumulation that takes the objects that are there now for those summed; nothing is written."""
    table = _table(group, progress)[0]
    return group.copied(adopted=table, objects=table, looks=Looks())


def adopt_copy(
    store: str | os.PathLike[str], variable: str, progress: Progress | None = None, allow: Sequence[str] = ()
) -> Report:
    """Write the stamps of the objects that are there now into an accumulation, where their contents are the same."""
    group = open_group(store, variable, allow=allow)
    shop = GroupStaging(group.store, group.variable, group.folder)
    shop.enter()
    try:
        group = open_group(store, variable, allow=allow)
        table, read, size = _table(group, progress)
        if read:
            _write(group, table, None, shop.root)
        else:
            # What a killed run left.
            _free(Path(group.folder), "" if group.extra is None else group.extra.stamps)
            consolidate(group.source, Path(group.folder), shop.root)
        shop.remove_unless_unfinished()
    except CfaggError:  # some of them are also OSError
        raise
    except OSError as error:
        raise TargetError(f"{group.folder} cannot be written: {reason(error, group.folder)}") from error
    finally:
        shop.abandon_if_useless()
    known = group.objects[: group.source.objects.size, 0]
    note = f"{read:,} of {len(table):,} stored objects were read ({size:,} bytes), and are the same"
    return Report(
        group.store,
        group.variable,
        group.path,
        "adopted" if read else "up to date",
        (),
        group.source.size * group.source.dtype.itemsize,
        int(known[known > 0].sum()),
        0,
        0,
        notes=(note,) if read else (),
    )


def renew(group: Group, neighbours: tuple[Neighbour, ...], aside: Path) -> None:
    """Write what is known of related arrays anew, where the sums are right whatever was done to these."""
    count = group.source.objects.size
    table = np.concatenate([group.objects[:count], table_of(neighbours)])
    for neighbour in neighbours:
        neighbour.unchanged(group.source)
    _write(group, table, neighbours, aside)


def _table(group: Group, progress: Progress | None) -> tuple[Int64, int, int]:
    """Return stamps and checksums as they are now, how many objects were read for that, and their bytes."""
    extra = group.extra
    if extra is None:
        raise NotAccumulatedError(
            f"{group.store}: the accumulation of {group.variable!r} is of another program and keeps no checksums, so "
            "nothing can be adopted; replace it with: cfagg accumulate --overwrite"
        )
    if group.differences:
        raise stale(group, group.differences.problems)
    table = group.objects.copy()
    parts: list[tuple[ZarrArray, str, int]] = [(group.source, "chunk", 0)]
    if group.source.objects is not group.source.grid:
        parts = [(group.source, "shard", 0)]
    place = extra.source.objects
    problems: list[Problem] = []
    for then, neighbour in zip(extra.related, neighbours_of(group.source, extra.related), strict=True):
        problems += differences_of(neighbour, then)
        if neighbour.array is not None:
            parts.append((neighbour.array, f"{then.path!r}, object", place))
        place += then.objects
    if problems:
        raise stale(group, problems)
    looked = [(array, name, place, settled(array)) for array, name, place in parts]
    differing = [
        (array, name, place, now, compare(table[place : place + len(now), :4], now))
        for array, name, place, now in looked
    ]
    total = sum(int(now[which, 0].clip(0).sum()) for *_, now, which in differing)
    done = count = 0
    for array, *_, which in differing:
        if which:
            write_back(array)
    for array, name, place, now, which in differing:
        for i in which:
            held = np.unravel_index(i, array.objects.matrix_shape) if array.objects.ndim else ()
            found = object_checksum(array, [int(h) for h in held])
            old = table[place + i]
            if (found or (-1, 0)) != (int(old[0]), int(old[4])):
                problems.append(Problem(f"{name} {tuple(map(int, held))}", _difference(old, found)))
            done, count = done + (found or (0, 0))[0], count + 1
            if progress is not None:
                progress(done, total)
        if which and compare(now[which], stamps(array, np.array(which))):
            raise StaleError(
                f"{group.store}: {array.path!r} was written while it was compared; run again when it is not being "
                f"written: {adopt_command(group.store, group.variable)}"
            )
        table[place : place + len(now), :4] = now
    if problems:
        rest = [Problem("", f"{len(problems) - _NAMED:,} more")] if len(problems) > _NAMED else []
        raise stale(group, [*problems[:_NAMED], *rest])
    return table, count, done


def _difference(old: Int64, found: tuple[int, int] | None) -> str:
    if found is None:
        return "no longer stored"
    if old[0] < 0:
        return "made since"
    return f"{old[0]:,} bytes before, now {found[0]:,}" if found[0] != old[0] else "has other contents"


def _write(group: Group, table: Int64, neighbours: tuple[Neighbour, ...] | None, aside: Path) -> None:
    """Put a new table of stamps in the place of the old one: a new array first, then attributes that name it."""
    source, extra = group.source, group.extra
    document = read_group(source.store, group.path, source.zarr_format, source.allow)
    if extra is None or document is None or document.identity != group.identity:
        raise StaleError(f"{group.store}: the accumulation of {group.variable!r} was written meanwhile; run again")
    folder = Path(group.folder)
    name = _free(folder, extra.stamps)
    codec = codec_of(next(iter(group.sums.values())).data.document)
    target = Target(folder, codec, source.zarr_format, extra.checks.build)
    chunks = (min(max(len(table), 1), 1 << 14), 5)
    dims = (f"{name}_0", f"{name}_1")
    attributes = {"_ARRAY_DIMENSIONS": list(dims), BUILD: extra.checks.build}
    spec = ArraySpec(name, "stamps", dims, table.shape, chunks, np.dtype("i8"), attributes)
    try:
        target.create(spec)
        target.write_whole(spec, table)
        own: dict[str, Any] = {**document.content["cfagg"], "stamps": name}
        listed = {k: v for k, v in own["checks"]["own"].items() if k != extra.stamps}
        listed[name] = [target.metadata[name], *target.checksums[name].tolist()]
        own["checks"] = {**own["checks"], "own": listed}
        if neighbours is not None:
            own["related"] = [
                {"path": r.path, "use": r.use, "description": dict(r.description), "objects": r.objects}
                for r in (n.record for n in neighbours)
            ]
        sync_tree(folder / name)
        documents = {k: v for k, v in read_documents(folder, source.zarr_format).items() if k not in ("", extra.stamps)}
        put_attributes(source, folder, sealed({**document.content, "cfagg": own}), documents, aside)
    except BaseException:
        with contextlib.suppress(CfaggError, OSError):
            now = read_group(source.store, group.path, source.zarr_format, source.allow)
            # As long as the attributes are those of before, nothing names the new array.
            if now is not None and now.identity == document.identity:
                remove(folder / name)
        raise
    remove(folder / extra.stamps)


def _free(folder: Path, taken: str) -> str:
    """Return a name for the new array, and remove what a killed run left in its place."""
    name = "chunk_stamps" if taken != "chunk_stamps" else "chunk_stamps.2"
    remove(folder / name)
    return name
