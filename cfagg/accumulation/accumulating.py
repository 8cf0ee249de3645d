"""Building the accumulation of an array, from beginning to end."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg import __version__
from cfagg.accumulation.arrays import read_whole
from cfagg.accumulation.documents import codec_of, renew_consolidated
from cfagg.accumulation.exchange import Workshop
from cfagg.accumulation.finish import describe, finish, kept_missing, write_attributes
from cfagg.accumulation.freshness import changes
from cfagg.accumulation.group import Group, command, group_path, open_group
from cfagg.accumulation.growth import find_kept
from cfagg.accumulation.horizontal import horizontal_dims
from cfagg.accumulation.journal import Journal
from cfagg.accumulation.layout import Layout, build_layout
from cfagg.accumulation.mapping import map_by_dask, map_by_threads, threads_that_fit
from cfagg.accumulation.mask import Meaning, read_meaning
from cfagg.accumulation.options import Settings, check_dims, check_statistics, check_stride, differing
from cfagg.accumulation.partials import Recipe
from cfagg.accumulation.report import ArrayReport, Report
from cfagg.accumulation.scratch import Scratch
from cfagg.accumulation.summing import Partly
from cfagg.accumulation.weights import Weights, find_weights
from cfagg.accumulation.window import Window
from cfagg.accumulation.writing import Kept, Target
from cfagg.conversion.options import parse_size, worker_count
from cfagg.conversion.workplace import reason
from cfagg.errors import (
    CfaggError,
    ConventionError,
    LimitError,
    NotAccumulatedError,
    StaleError,
    TargetError,
    TargetExistsError,
    UnsupportedError,
)
from cfagg.fastzlib import crc32
from cfagg.zarrs import ZarrArray, compare, open_array, stamps
from cfagg.zarrs.documents import node_folder
from cfagg.zarrs.metadata import current_signature

__all__ = ["Report", "accumulate"]

#: Bytes of data in flight by default.
DEFAULT_MEMORY = "256MiB"

#: Bytes that one thread takes to sum the sums.
_PER_THREAD = 64 << 20

#: A file may be written twice within one tick of the system's clock and look the same; seconds until that is over.
_TICK, _COARSE_TICK = 0.02, 2.1


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
    dry_run: bool = False,
    workers: int | None = None,
    memory: int | str = DEFAULT_MEMORY,
    client: Any = None,
    progress: Callable[[int, int], None] | None = None,
) -> Report:
    """Store cumulative sums of an array at the edges of its chunks, from which means over any range follow at once.

    They are a Zarr group beside the array (ZEP 5), built in one pass over the data beside the store and put in place
    when it is complete.  Readers see the old group or the new one, never a part.

    Parameters
    ----------
    store : path
        Directory of the Zarr store, version 2 or 3.
    variable : str
        Path of the array within it.
    dims : sequence of str and sequences of str, optional
        Combinations of dimensions to sum along: ``["time", ("lat", "lon")]``.  By default every single dimension, and
        the pair of horizontal ones where attributes of coordinates tell them.
    stride : int or mapping
        Chunks from one sum to the next, for all dimensions or by name.  Larger is smaller and slower.
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
        Replace an existing accumulation; give up an unfinished build.
    resume : bool
        Finish what a killed or failed build with the same options left.  Appending and refreshing do so by themselves.
    dry_run : bool
        Write nothing and read no data; report what would be written.
    workers : int, optional
        Threads; by default one per processor.
    memory : int or str
        Bytes that chunks may take while they are summed, such as ``"1GiB"``.
    client : distributed.Client or str, optional
        A Dask cluster, or the address of its scheduler, whose workers see the store by the same path.  They read and
        sum the chunks; everything is written from here.
    progress : callable, optional
        Called as ``progress(done, total)`` with bytes of data.

    Returns
    -------
    Report
        What was written, array by array.

    Raises
    ------
    SourceError, FragmentReadError
        The store or one of its chunks cannot be read.
    UnsupportedError, SelectionError, LimitError, ConformError
        What is asked for cannot be done: a dimension that the array does not have, a stride below 1, weights that do
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
    Seed: "Zarr-based Chunk-level Accumulation in Reduced Dimensions" 1.0 (ZEP 5).

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
    if sum(map(bool, (append, refresh, overwrite))) > 1:
        raise UnsupportedError("append, refresh and overwrite exclude each other; choose one")
    threads, budget = worker_count(workers), parse_size(memory)
    order = _Order(
        os.fspath(store), variable, dims, stride, weights, statistics, precision, codec, append, refresh, overwrite,
        resume, budget,
    )  # fmt: skip
    plan = _plan(order)
    if dry_run or plan.done:
        return _report(plan, "up to date" if plan.done else "dry run")
    fitting = threads_that_fit(plan.recipe, budget, threads)
    shop = Workshop(plan.array.store, plan.array.path, plan.folder)
    with _working(shop, plan):
        if _existing(plan.array) != plan.existing:
            # Another process, or the end of a build that was killed, has put a group in place meanwhile.
            plan = _plan(order)
            if plan.done:
                return _report(plan, "up to date")
        return _build(plan, order, shop, fitting, min(threads, max(1, budget // _PER_THREAD)), client, progress)


@dataclass(frozen=True, eq=False)
class _Order:
    """What was asked for."""

    store: str
    variable: str
    dims: Any
    stride: Any
    weights: Any
    statistics: Any
    precision: str
    codec: str | None
    append: bool
    refresh: bool
    overwrite: bool
    resume: bool
    memory: int


@dataclass(frozen=True, eq=False)
class _Plan:
    """What is going to be done."""

    array: ZarrArray
    folder: Path
    existing: tuple[int, int] | None
    settings: Settings
    weights: Weights | None
    recipe: Recipe
    layout: Layout
    kept: Kept | None
    action: str
    done: bool = False
    notes: tuple[str, ...] = ()

    def identity(self) -> dict[str, Any]:
        """Return what must be the same for a build to be finished by another run."""
        array, meaning = self.array, self.recipe.meaning
        grid = [list(map(int, np.diff(e))) if isinstance(e, np.ndarray) else e.chunk for e in array.grid.axes]
        return {
            "version": __version__,
            "array": [array.path, list(array.dims), list(array.shape), grid, array.dtype.name],
            "meaning": repr((meaning.mask, meaning.packing)),
            "options": self.settings.identity(),
            "weights": None if self.weights is None else self.weights.digest(),
            "accumulation to extend": None
            if self.kept is None
            else [list(self.kept.group.identity), self.kept.axis, self.kept.chunk],
        }


def _plan(order: _Order) -> _Plan:
    """Return what is going to be done, without reading data."""
    array = open_array(order.store, order.variable)
    where = f"{array.store}: array {array.path!r}"
    if not array.path:
        raise UnsupportedError(f"{array.store} is itself an array; an accumulation stands beside an array in a group")
    meaning = read_meaning(array)
    existing = _existing(array)
    if order.append or order.refresh:
        return _plan_again(order, array, meaning, existing, where)
    integer = meaning.dtype.kind in "iu" and order.weights is None
    default = [(d,) for d in array.dims]
    if order.dims is None and (pair := horizontal_dims(array)):
        default.append(pair)  # type: ignore[arg-type]
    settings = Settings.build(
        where,
        array.dims,
        dims=order.dims,
        default=default,
        stride=order.stride,
        statistics=order.statistics,
        precision=order.precision,
        codec=order.codec,
        integer=integer,
    )
    weights = find_weights(array, order.weights, order.memory)
    plan = _assemble(array, meaning, existing, settings, weights, None, "rebuilt" if existing else "built")
    if existing and not order.overwrite:
        if order.resume and _is_that(plan):
            return replace(plan, done=True)
        raise TargetExistsError(
            f"{where} has an accumulation; extend it with append=True (--append), bring it up to date with "
            "refresh=True (--refresh), or replace it with overwrite=True (--overwrite)"
        )
    return plan


def _plan_again(
    order: _Order, array: ZarrArray, meaning: Meaning, existing: tuple[int, int] | None, where: str
) -> _Plan:
    """Return what is going to be done to an existing accumulation."""
    group = open_group(array.store, array.path, check=False)
    extra = group.extra
    if extra is None:
        raise NotAccumulatedError(
            f"{where} has an accumulation by another program, which cannot be brought up to date; replace it with: "
            f"{command(array.store, array.path, '--overwrite')}"
        )
    if extra.source.dims != array.dims:
        raise StaleError(
            f"{where} has the dimensions {list(array.dims)}, its accumulation {list(extra.source.dims)}; build it anew "
            f"with: {command(array.store, array.path, '--overwrite')}"
        )
    first = next(iter(group.sums.values())).data
    settings = Settings.of(extra, group.sums, codec_of(first.document))
    _same_options(order, settings, extra, where)
    found = changes(group)
    given: Any = order.weights
    if extra.weights is not None and given is None:
        kind, name = extra.weights.kind, extra.weights.name
        given = {"area": "area", "variable": name}.get(kind)
        if given is None and group.weights is not None:
            given = Weights("array", name, read_whole(group.weights.stored), group.weights.axes)
    weights = find_weights(array, given, order.memory)
    integer = meaning.dtype.kind in "iu" and weights is None
    if (settings.sums == "int64") != integer and (settings.sums == "int64" or array.dtype.name != extra.source.dtype):
        settings = replace(settings, sums="int64" if integer else "float64")
    kept = None
    if found:
        try:
            kept = find_kept(group, array, settings.stride, found)
            _same_weights(kept, group, weights, where)
        except StaleError:
            if order.append:
                raise
            kept = None
    plan = _assemble(array, meaning, existing, settings, weights, kept, "rebuilt" if kept is None else "appended")
    return replace(plan, done=not found and _weights_stay(group, weights))


def _same_options(order: _Order, settings: Settings, extra: Any, where: str) -> None:
    """Refuse options that contradict those of the existing accumulation; what was left out agrees."""
    given: dict[str, Any] = {}
    if order.dims is not None:
        given["dims"] = sorted(check_dims(order.dims, extra.source.dims, where))
    if order.stride != 1:
        given["stride"] = check_stride(order.stride, settings.dims, extra.source.dims, where)
    statistics = check_statistics(order.statistics)
    if statistics != ("chunks",):
        given["statistics"] = statistics
    if order.precision != "auto":
        given["precision"] = order.precision
    if order.weights is not None:
        given["weights"] = order.weights if isinstance(order.weights, str) else "array"
    known = extra.weights
    existing = {
        "dims": sorted(settings.dims),
        "stride": settings.stride,
        "statistics": settings.statistics,
        "precision": settings.sums,
        "weights": None if known is None else known.kind if known.kind != "variable" else known.name,
    }
    error = differing(given, existing, where)
    if error is not None:
        raise error


def _weights_stay(group: Group, weights: Weights | None) -> bool:
    """Whether the weights are those with which an accumulation was built."""
    if group.weights is None or weights is None:
        return group.weights is None and weights is None
    return group.weights.axes == weights.axes and np.array_equal(read_whole(group.weights.stored), weights.values)


def _same_weights(kept: Kept | None, group: Group, weights: Weights | None, where: str) -> None:
    """Refuse to extend sums of other weights."""
    same = (group.weights is None) == (weights is None)
    if same and kept is not None and group.weights is not None and weights is not None:
        same = group.weights.axes == weights.axes
        if same:
            cut = tuple(slice(0, kept.position) if a == kept.axis else slice(None) for a in group.weights.axes)
            same = np.array_equal(read_whole(group.weights.stored)[cut], weights.values[cut])
    if not same:
        raise StaleError(
            f"{where}: the weights have changed since its accumulation was built, so nothing can be appended; build it "
            "anew with refresh=True (--refresh)"
        )


def _assemble(
    array: ZarrArray,
    meaning: Meaning,
    existing: tuple[int, int] | None,
    settings: Settings,
    weights: Weights | None,
    kept: Kept | None,
    action: str,
) -> _Plan:
    """Return a plan with its window, recipe and layout."""
    window = Window(array) if kept is None else Window(array, kept.axis, kept.chunk)
    every = tuple(range(array.ndim))
    combinations = [tuple(array.dims.index(d) for d in c) for c in settings.dims]
    statistics = [every] if settings.statistics else []
    if len(settings.statistics) > 1:
        statistics += [c for c in combinations if c != every]
    sets = tuple(dict.fromkeys([*combinations, *statistics]))
    recipe = Recipe(
        window,
        meaning,
        sets,
        tuple(statistics),
        settings.sums,
        None if weights is None else weights.values,
        () if weights is None else weights.axes,
    )
    previous: dict[str, tuple[int, ...]] = {}
    if kept is not None:
        for a in _arrays_of(kept.group):
            previous[a.name] = tuple(axis.chunk for axis in a.grid.axes if hasattr(axis, "chunk"))
    layout = build_layout(array, meaning, settings, None if weights is None else weights.axes, previous)
    folder = Path(node_folder(array.store, group_path(array.path)))
    notes = []
    if recipe.meaning.mask.valid_min is not None or recipe.meaning.mask.valid_max is not None:
        notes.append("values outside the valid range that the attributes give count as missing; xarray keeps them")
    return _Plan(array, folder, existing, settings, weights, recipe, layout, kept, action, notes=tuple(notes))


def _arrays_of(group: Group) -> Iterator[ZarrArray]:
    """Yield the arrays of sums and statistics of a group."""
    for s in group.sums.values():
        yield from (a for a in (s.data, s.low, s.weights, s.weights_low, s.counts) if a is not None)
    for levels in group.statistics.values():
        for level in levels:
            yield from level.arrays.values()


def _existing(array: ZarrArray) -> tuple[int, int] | None:
    """Return what tells the directory of the existing group from others, None where there is none."""
    folder = node_folder(array.store, group_path(array.path))
    if not os.path.lexists(folder):
        return None
    status = os.lstat(folder)
    return status.st_ino, status.st_mtime_ns


def _is_that(plan: _Plan) -> bool:
    """Whether the existing group is fresh and what would be built."""
    try:
        group = open_group(plan.array.store, plan.array.path)
    except (ConventionError, NotAccumulatedError, StaleError):
        return False
    if group.extra is None or changes(group) or not _weights_stay(group, plan.weights):
        return False
    codec = codec_of(next(iter(group.sums.values())).data.document)
    return Settings.of(group.extra, group.sums, codec).identity() == plan.settings.identity()


def _build(
    plan: _Plan,
    order: _Order,
    shop: Workshop,
    threads: int,
    summers: int,
    client: Any,
    progress: Callable[[int, int], None] | None,
) -> Report:
    """Build the group in a work directory that is held, and put it in place."""
    recipe, array = plan.recipe, plan.array
    identity, count = plan.identity(), recipe.window.size
    goes_on = _goes_on(plan, order, shop, identity, count)
    if not goes_on:
        shop.start_anew()
    seen = _settled(array)
    with (
        closing(
            Journal.resume(shop.root, identity, count, recipe.record_type)
            if goes_on
            else Journal.create(shop.root, identity, count, recipe.record_type)
        ) as journal,
        closing(Scratch(shop.scratch, recipe.window, recipe.fields)) as scratch,
    ):
        done = _trusted(recipe, journal, scratch, seen) if goes_on else np.zeros(count, bool)
        todo = np.flatnonzero(~done)
        if client is None:
            map_by_threads(recipe, todo, seen, scratch, journal, threads, progress)
        else:
            map_by_dask(recipe, todo, seen, scratch, journal, client, progress)
        _unchanged(array, seen)
        records, good = journal.read()
        if not good.all():
            raise TargetError(f"{shop.root}/records was changed by another program; run again")
        missing, nonfinite = _excluded(plan, records)
        shop.start_group()
        target = Target(shop.group, plan.settings.codec, array.zarr_format)
        partly = Partly(recipe, scratch, records, plan.layout, plan.kept, missing > 0)
        finish(partly, target, plan.weights, seen, summers)
        write_attributes(target, describe(plan.layout, recipe, plan.settings, plan.weights, seen, missing, nonfinite))
    _unchanged(array, seen)
    shop.publish()
    _renew(array, target)
    report = _report(
        plan,
        plan.action,
        counts=missing > 0,
        missing=missing,
        nonfinite=nonfinite,
        resumed=int(done.sum()),
        written=True,
    )
    shop.clear()
    return report


def _goes_on(plan: _Plan, order: _Order, shop: Workshop, identity: dict[str, Any], count: int) -> bool:
    """Whether an unfinished build is finished; refuse to throw one away unasked."""
    if not shop.unfinished:
        return False
    if Journal.belongs(shop.root, identity, count) and (order.resume or order.append or order.refresh):
        return True
    if order.append or order.refresh or order.overwrite:
        return False
    if order.resume:
        # It says what is different.
        Journal.resume(shop.root, identity, count, plan.recipe.record_type).close()
        return True
    raise TargetExistsError(
        f"an unfinished accumulation of array {plan.array.path!r} is there ({shop.root}); finish it with resume=True "
        "(--resume) or start anew with overwrite=True (--overwrite)"
    )


def _settled(array: ZarrArray) -> npt.NDArray[np.int64]:
    """Return the stamps of all objects once none of them may be written again within the same tick of the clock."""
    for _ in range(100):
        now = time.time_ns()
        found = stamps(array)
        times = found[found[:, 0] >= 0, 1]
        tick = _TICK if not len(times) or (times % 10**9).any() else _COARSE_TICK
        age = (now - int(times.max(initial=0))) / 1e9
        if abs(age) >= tick:
            break
        time.sleep(min(tick, abs(tick - age)) + 0.001)
    return found


def _unchanged(array: ZarrArray, seen: npt.NDArray[np.int64]) -> None:
    """Refuse an array that was written since its stamps were taken."""
    where = f"{array.store}: array {array.path!r}"
    remedy = "run again with resume=True (--resume) when it is not being written"
    if current_signature(array) != array.signature:
        raise StaleError(f"the metadata of {where} were written while it was accumulated; {remedy}")
    changed = compare(seen, stamps(array))
    if changed:
        first = np.unravel_index(changed[0], array.objects.matrix_shape)
        raise StaleError(
            f"{where}: {len(changed):,} of its stored chunks were written while it was accumulated, the first being "
            f"{tuple(map(int, first))}; {remedy}"
        )


def _trusted(recipe: Recipe, journal: Journal, scratch: Scratch, seen: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Return which chunks an earlier run has done: whole records, unchanged objects, undamaged partial sums."""
    records, good = journal.read()
    now = seen[recipe.window.objects]
    good &= (records["size"] == now[:, 0]) & (records["time"] == now[:, 1])
    weighted = recipe.weights is not None
    for number in np.flatnonzero(good).tolist():
        check = 0
        for field in recipe.fields:
            if field.kind == "excluded" and not records["missing"][number]:
                continue
            if field.kind in ("weights", "weights_low") and not weighted:
                continue
            check = crc32(scratch.piece(field, number), check)
        good[number] = check == records["pieces"][number]
    return good


def _excluded(plan: _Plan, records: npt.NDArray[Any]) -> tuple[int, int]:
    """Return how many elements of the whole array are missing, and how many of them are infinite."""
    missing, nonfinite = int(records["missing"].sum()), int(records["nonfinite"].sum())
    kept = plan.kept
    if kept is not None and kept.group.extra is not None:
        missing += kept_missing(kept, plan.layout)
        # Which of them stay is not known; those of chunks that are read again may count twice, but never too few.
        nonfinite = min(missing, nonfinite + kept.group.extra.nonfinite)
    return missing, nonfinite


def _renew(array: ZarrArray, target: Target) -> None:
    """Put the new group into consolidated metadata, of the store and of groups above the array, where there are any."""
    parts = group_path(array.path).split("/")
    for depth in range(len(parts)):
        above = Path(node_folder(array.store, "/".join(parts[:depth])))
        renew_consolidated(above, "/".join(parts[depth:]), target.documents, array.zarr_format)


@contextmanager
def _working(shop: Workshop, plan: _Plan) -> Iterator[None]:
    """Hold the work directory; say in one sentence what the system refused, and leave nothing useless behind."""
    shop.enter()
    kept = "; what is done is kept, finish it with resume=True (--resume)"
    try:
        yield
    except KeyboardInterrupt:
        rest = kept if shop.unfinished else ""
        raise TargetError(f"interrupted: {plan.folder} was not written{rest}") from None
    except LimitError:
        # The same data will not do better next time.
        shop.clear()
        raise
    except CfaggError:
        raise
    except OSError as error:
        rest = kept if shop.unfinished else ""
        raise TargetError(f"{plan.folder} was not written: {reason(error)}{rest}") from error
    finally:
        shop.leave(tidy=True)


def _report(
    plan: _Plan,
    action: str,
    *,
    counts: bool = False,
    missing: int = 0,
    nonfinite: int = 0,
    resumed: int = 0,
    written: bool = False,
) -> Report:
    """Return the report of a plan, with sizes on disk if it was carried out."""
    array, recipe = plan.array, plan.recipe
    notes = list(plan.notes)
    if not written and not plan.done and plan.weights is not None:
        notes.append("counts are stored besides where values are missing")
    arrays = tuple(
        ArrayReport(
            s.name, s.role, s.shape, s.chunks, s.nbytes, _stored(plan.folder / s.name) if written or plan.done else None
        )
        for s in plan.layout.arrays(counts=counts)
    )
    sizes = stamps(array)[:, 0]
    itemsizes = [(f, np.dtype(f.dtype).itemsize) for f in recipe.fields if f.kind != "excluded"]
    scratch = sum(int(recipe.window.sizes(f.axes).sum()) * size for f, size in itemsizes)
    return Report(
        array.store,
        array.path,
        group_path(array.path),
        action,
        arrays,
        math.prod(array.shape) * array.dtype.itemsize,
        int(sizes[sizes > 0].sum()),
        0 if plan.done else scratch + recipe.window.size * recipe.record_type.itemsize,
        0 if plan.done else recipe.window.size,
        resumed,
        missing,
        nonfinite,
        tuple(notes),
    )


def _stored(folder: Path) -> int:
    """Return the bytes of the chunks of an array."""
    total = 0
    for path, _, files in os.walk(folder):
        total += sum(
            os.stat(os.path.join(path, f)).st_size  # noqa: PTH116, PTH118
            for f in files
            if f not in ("zarr.json", ".zarray", ".zattrs")
        )
    return total
