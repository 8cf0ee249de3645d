"""Writing into a part of a store that is there: whole chunks alone, each of which is replaced at once.

Everything is checked before the first chunk is written: that the arrays of the source are those of the store, in type,
dimensions and meaning, that the part is on edges of chunks, and that what lies across it is the same already.  Metadata
are never touched, so that other parts of the store may be written at the same time.  A run that is killed leaves old
chunks and new ones, each whole; the same call again completes it.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from cfagg.arrays.chunked import ZarrReader
from cfagg.arrays.opening import open_any
from cfagg.arrays.reader import Reader
from cfagg.conversion.journal import Journal
from cfagg.conversion.options import Options
from cfagg.conversion.plan import Array, Plan, build_plan
from cfagg.conversion.report import Report
from cfagg.conversion.request import Request
from cfagg.conversion.run import run
from cfagg.conversion.schedule import cut
from cfagg.conversion.slab_writer import Job
from cfagg.conversion.stored_as import StoredAs
from cfagg.errors import ConformError, LimitError, OptionError, TargetError, UnsupportedError
from cfagg.errors.arguments import a_path
from cfagg.formats.zarr.encoding import encoder
from cfagg.formats.zarr.metadata import ZarrArray
from cfagg.formats.zarr.written_codecs import Codec
from cfagg.model import Grid, Regular
from cfagg.storage.access import Access
from cfagg.writing.zarr.place import Place, place_of

__all__ = ["Region", "a_region", "write_region"]

#: First and last-but-one place by dimension.
Region = Mapping[str, tuple[int, int | None]]

#: Options that say how a store is made, which is there already.
_SENSELESS = frozenset({"zarr_format", "chunks", "shards", "codec", "level", "overwrite", "resume", "verify"})

#: Attributes that say what numbers mean: they have to be equal, for those of the store are what readers see.
_MEANING = (
    "units", "calendar", "scale_factor", "add_offset", "missing_value", "valid_min", "valid_max", "valid_range",
    "_Unsigned", "standard_name", "flag_values", "flag_masks", "flag_meanings",
)  # fmt: skip

#: Bytes that are compared at a time, and seconds to wait for others who look whether the store is written to.
_AT_ONCE, _PATIENCE = 1 << 24, 20.0


def a_region(given: Any) -> Region:
    """Return a checked `region=`.

    >>> a_region({"time": slice(31, 59)})
    {'time': (31, 59)}
    """
    if not isinstance(given, Mapping) or not given:
        raise OptionError(f"region={given!r} is no mapping such as {{'time': slice(31, 59)}}")
    found = {}
    for dim, part in given.items():
        if not isinstance(part, slice) or part.step not in (None, 1):
            raise OptionError(f"region={{{dim!r}: {part!r}}}: expected a slice without a step, such as slice(31, 59)")
        start, stop = (0 if part.start is None else part.start), part.stop
        for n in (start, 0 if stop is None else stop):
            if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 0:
                raise LimitError(f"region={{{dim!r}: {part!r}}}: positions are counted from 0 on, found {n!r}")
        if stop is not None and stop <= start:
            raise LimitError(f"region={{{dim!r}: {part!r}}} holds nothing")
        found[str(dim)] = int(start), None if stop is None else int(stop)
    return found


@dataclass(frozen=True, eq=False)
class _Put:
    """Writes objects in their places, each whole or not at all."""

    place: Place

    def __call__(self, key: str, encoded: Any) -> int:
        self.place.put(key, encoded)
        return -1


@dataclass(frozen=True, eq=False)
class _Part:
    """One array of the source, and the box of an array of the store that it is."""

    array: Array
    there: Array
    box: tuple[slice, ...]


def write_region(request: Request, region: Region) -> Report:
    """Write the source into a part of the store at `request.target`."""
    name = a_path(request.target, "target", expected="name a Zarr store that is there")
    request.refuse(_SENSELESS, f"{name} is there already, and region= writes into a part of it")
    request.refuse(frozenset({"client", "dry_run"}), "region= is written by this process")
    place = place_of(request.target, request.target_options)
    if os.path.realpath(request.source) == place.store:
        raise TargetError(f"{place.store} is the source; choose another one")
    with request.opened() as (source, access):
        plan = build_plan(source, access, request.options, request.threads)
        there = _target(place, request)
        parts = [_part(array, there, region, place.store) for array in plan.arrays]
        known = {d for part in parts for d in part.array.dims}
        if missing := [d for d in region if d not in known]:
            raise OptionError(f"region: no variable of {source.path} has the dimension {missing[0]!r}")
        writing = [w for part in parts if (w := _writable(part, region, place.store)) is not None]
        return _write(plan, writing, place, request)


def _target(place: Place, request: Request) -> dict[str, Array]:
    """Return the arrays of the store by path."""
    name: Any = request.target if not place.remote else place.store
    if place.remote:
        from cfagg.storage.urls import a_place

        name = a_place(request.target, request.target_options, name="target", options_name="target_options")
    source = open_any(name if place.remote else place.store)
    options = Options.build(
        variables=None, zarr_format=3, chunks="auto", packing="keep", codec="zstd", level=None, missing="error"
    )
    return {a.path: a for a in build_plan(source, Access(source.path), options, 1).arrays}


def _part(array: Array, there: Mapping[str, Array], region: Region, store: str) -> _Part:
    """Return which part of the store an array is; refuse one that is another kind of array."""
    where = f"variable {array.path!r}"
    found = there.get(array.path)
    if found is None:
        raise ConformError(f"{store} has no array {array.path!r}; name the variables to write with variables=")
    if array.dims != found.dims:
        raise ConformError(f"{where} has the dimensions {array.dims}, and {found.dims} in {store}")
    if array.dtype != found.dtype:
        raise ConformError(
            f"{where} is of type {array.dtype}, and of {found.dtype} in {store}; values are not changed on the way"
        )
    for key in _MEANING:
        ours, theirs = array.attributes.get(key), found.attributes.get(key)
        if not _is_same(ours, theirs):
            raise ConformError(
                f"{where}: {key} is {ours!r}, and {theirs!r} in {store}; write values that mean the same"
            )
    if not _is_same(_marked(array.fill), _marked(found.fill)):
        raise ConformError(f"{where}: the fill value is {array.fill!r}, and {found.fill!r} in {store}")
    box = []
    for dim, n, whole in zip(array.dims, array.shape, found.shape, strict=True):
        start, stop = region.get(dim, (0, whole))
        stop = whole if stop is None else stop
        if stop > whole:
            raise LimitError(
                f"{where}: the region ends at {stop:,} along {dim!r}, which has {whole:,} places in {store}"
            )
        if stop - start != n:
            what = f"the region has {stop - start:,}" if dim in region else f"{store} has {whole:,}"
            raise ConformError(f"{where} has {n:,} places along {dim!r}, and {what}")
        box.append(slice(start, stop))
    return _Part(array, found, tuple(box))


def _is_same(ours: Any, theirs: Any) -> bool:
    """Whether two values of an attribute are equal, as numbers where they are numbers."""
    if ours is None or theirs is None:
        return ours is theirs
    try:
        a, b = np.asarray(ours), np.asarray(theirs)
        return bool(np.array_equal(a, b, equal_nan=a.dtype.kind == b.dtype.kind == "f"))
    except (TypeError, ValueError):
        return bool(ours == theirs)


def _marked(fill: Any) -> Any:
    """Return a fill value that says more than that NaN is missing, which it is anyway."""
    return None if isinstance(fill, float | np.floating) and np.isnan(fill) else fill


def _writable(part: _Part, region: Region, store: str) -> Array | None:
    """Return what is written of a part: `None` where the store has the very values already.

    That is looked at where the part crosses chunks, and of arrays that the region does not touch, as some coordinates.
    """
    array, found = part.array, part.there
    crossing = next((d for d, why in enumerate(_crossings(part)) if why), None)
    touched = not set(region).isdisjoint(array.dims)
    if crossing is None and touched and isinstance(found.reader, ZarrReader):
        there = found.reader.array
        encoder(there)  # refused at once where chunks cannot be encoded
        return _region_of(array, there, part.box)
    if _equal(array, found.reader, part.box):
        return None
    where = f"variable {array.path!r}"
    if crossing is None and touched:
        raise UnsupportedError(f"{store}: {where} is not decoded here, so nothing is written into a part of it")
    if crossing is None:
        raise ConformError(
            f"{where} has no dimension of the region, and other values than in {store}; leave it out with variables="
        )
    dim, at = array.dims[crossing], part.box[crossing]
    edges = _edges(found, crossing)
    low = edges[max(0, int(np.searchsorted(edges, at.start, "right")) - 1)]
    high = edges[min(len(edges) - 1, int(np.searchsorted(edges, at.stop, "left")))]
    raise ConformError(
        f"{where}: the region {at.start}:{at.stop} along {dim!r} is not on whole chunks of {store}; the next ones are "
        f"{low}:{min(high, found.shape[crossing])}"
    )


def _edges(found: Array, d: int) -> Any:
    """Return the edges of stored objects along a dimension."""
    reader = found.reader
    return (reader.array.objects if isinstance(reader, ZarrReader) else reader.grid).edges[d]


def _crossings(part: _Part) -> Iterator[bool]:
    """Yield for each dimension whether the part begins or ends within a stored object."""
    for d, (at, n) in enumerate(zip(part.box, part.there.shape, strict=True)):
        edges = _edges(part.there, d)
        yield not (np.isin(at.start, edges) and (at.stop == n or np.isin(at.stop, edges)))


def _equal(array: Array, there: Reader, box: Sequence[slice]) -> bool:
    """Whether an array has the values that are stored in a box."""
    if 0 in array.shape:
        return True
    slabs = cut([array], _AT_ONCE, 1)[0][0]
    for k in range(len(slabs)):
        extent = slabs.extent(k)
        ours = _values(array, extent)
        shifted = tuple(slice(e.start + b.start, e.stop + b.start) for e, b in zip(extent, box, strict=True))
        theirs = there.read(shifted)
        if ours.dtype.kind in "OSU":
            same = bool((ours == theirs).all())
        else:
            same = np.array_equal(ours, np.asarray(theirs), equal_nan=ours.dtype.kind == "f")
        if not same:
            return False
    return True


def _values(array: Array, extent: tuple[slice, ...]) -> Any:
    """Return values of an array as they are written."""
    stored = array.reader.read(extent)
    if array.unpack is None:
        return stored
    out = np.empty(stored.shape, array.dtype)
    array.unpack(stored, out)
    return out


def _region_of(array: Array, there: ZarrArray, box: Sequence[slice]) -> Array:
    """Return an array whose chunks are those of a box of another one."""
    axes: list[Any] = []
    first, regular = [], True
    for axis, edges, at, n in zip(there.objects.axes, there.objects.edges, box, there.shape, strict=True):
        low = int(np.searchsorted(edges, at.start))
        high = int(np.searchsorted(edges, at.stop)) if at.stop < n else len(edges) - 1
        first.append(low)
        if isinstance(axis, Regular):
            axes.append(Regular(at.stop - at.start, axis.chunk))
        else:
            regular = False
            axes.append(np.minimum(np.asarray(edges[low : high + 1]), at.stop) - at.start)
    grid = Grid(axes, array.shape)
    return replace(
        array, path=there.path, grid=grid, rectilinear=not regular, stored_as=StoredAs(there, tuple(first)), inner=None
    )


def _write(plan: Plan, arrays: Sequence[Array], place: Place, request: Request) -> Report:
    """Write chunks; the store is held where an append could rewrite them."""
    slabs, threads = cut(arrays, request.memory, request.workers)
    codec = Codec("none")
    job = Job(arrays, slabs, _Put(place), codec, 3)
    hold = any(_reaches_the_end(a) for a in arrays)
    with tempfile.TemporaryDirectory() as folder, _held(place, hold=hold):
        counts = [a.grid.size for a in arrays]
        with closing(Journal.create(Path(folder) / "journal", {}, counts)) as journal:
            run(job, journal, threads, request.progress)
            place.sync()
            stored = sum(int(done.size.sum()) for done in journal.done)
    written = {a.path for a in arrays}
    same = [a.path for a in plan.arrays if a.path not in written]
    notes = (f"what the store has already was not written again: {', '.join(same)}",) if same else ()
    report = plan.report(place.store, stored, resumed=0, verified=False)
    return replace(
        report,
        variables=tuple(a.path for a in arrays),
        bytes=sum(a.nbytes for a in arrays),
        chunks=sum(counts),
        notes=notes,
    )


def _reaches_the_end(array: Array) -> bool:
    """Whether the last object along a dimension is written that is not full, which an append would write again."""
    there: Any = array.stored_as
    pairs = zip(there.array.objects.edges, there.array.shape, array.grid.matrix_shape, there.first, strict=True)
    return any(int(e[-1]) > n and f + m == len(e) - 1 for e, n, m, f in pairs if len(e) > 1)


def _held(place: Place, *, hold: bool) -> ExitStack:
    """Return what holds the store while it is written to, once no append is under way or was cut short.

    Without `hold` that is looked at only now: others may write other parts at the same time.
    """
    end = time.monotonic() + _PATIENCE
    while True:
        stack = ExitStack()
        try:
            claim = stack.enter_context(place.writer("writing into a part of it"))
        except TargetError:
            # Others that write parts hold the store for the moment in which they look, as here.
            if time.monotonic() > end:
                raise
            time.sleep(0.1)
            continue
        if claim.left is not None:
            stack.close()
            raise TargetError(
                f"{place.store}: an append was cut short there; append again, which completes or undoes it"
            )
        if not hold:
            stack.close()
        return stack
