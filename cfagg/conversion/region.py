"""Writing into a part of an existing store: whole chunks only, each replaced at once.

Everything is checked before the first chunk is written: that the arrays of the source match those of the store in type,
dimensions and meaning, that the part is on chunk edges, and that arrays crossing its edges already have the same
values. Metadata are never touched, so that other parts of the store may be written at the same time. A killed run
leaves a mixture of old and new chunks, each intact; the same call completes it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from cfagg.conversion.cluster import on_cluster
from cfagg.conversion.dry_run import DryRun, estimate
from cfagg.conversion.journal import Records, sizes_of
from cfagg.conversion.plan import Array, Plan, build_plan
from cfagg.conversion.region_parts import Part, Region, arrays_of, part_of, writable
from cfagg.conversion.report import Report
from cfagg.conversion.request import Request
from cfagg.conversion.run import run
from cfagg.conversion.schedule import direct
from cfagg.conversion.slab_writer import Job
from cfagg.errors import LimitError, OptionError, TargetError
from cfagg.errors.arguments import a_path
from cfagg.formats.zarr.written_codecs import Codec
from cfagg.runtime.files import NewFolder
from cfagg.runtime.object_publishing import Fenced
from cfagg.runtime.publishing import refusals_of
from cfagg.storage.urls import is_url
from cfagg.writing.zarr.local_place import LocalPlace
from cfagg.writing.zarr.place import Place, place_of

__all__ = ["Region", "a_region", "write_region"]

#: Options on how a store is created, which do not apply to an existing one.
_SENSELESS = frozenset({"zarr_format", "chunks", "shards", "codec", "level", "overwrite", "resume"})

#: Seconds to wait for others that check whether the store is being written to.
_PATIENCE = 60.0

#: Prefix of the folders in a store in which chunks are written, so that these appear atomically.
_ASIDE = ".cfagg-region-"


def a_region(given: Any) -> Region:
    """Return a checked `region=`.

    >>> a_region({"time": slice(31, 59)})
    {'time': (31, 59)}
    """
    if not isinstance(given, Mapping) or not given:
        raise OptionError(f"region={given!r} is not a mapping such as {{'time': slice(31, 59)}}")
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
    """Writes objects in place atomically, even if several processes write the same one."""

    place: Place
    aside: Path | Fenced | None = None

    def __call__(self, key: str, encoded: Any) -> int:
        if isinstance(self.aside, Fenced):
            self.aside.put(key, encoded)
        elif self.aside is not None and isinstance(self.place, LocalPlace):
            self.place.put_by_way_of(self.aside, key, encoded)
        else:
            self.place.put(key, encoded)
        return -1


def write_region(request: Request, region: Region) -> Report | DryRun:
    """Write the source into a part of the store at `request.target`."""
    name = a_path(request.target, "target", expected="name an existing Zarr store")
    request.refuse(_SENSELESS, f"{name} exists, and region= writes into a part of it")
    request.refuse(
        frozenset({"verify"}),
        "chunks of a part are replaced one by one, so refusing them after reading them back would be too late",
    )
    place = place_of(request.target, request.target_options)
    same_url = request.source.rstrip("/") == name.rstrip("/")
    if same_url or (not is_url(request.source) and os.path.realpath(request.source) == place.store):
        raise TargetError(f"{place.store} is the source; choose another one")
    with on_cluster(request, place) as served, served.opened() as (source, access):
        # Attributes are not written.
        plan = build_plan(replace(source, unread={}), access, served.options, served.threads)
        there = arrays_of(place, served)
        known = {d for array in plan.arrays for d in array.dims}
        if missing := [d for d in region if d not in known]:
            raise OptionError(
                f"region: no variable of {source.path} has the dimension {missing[0]!r}; they have "
                f"{', '.join(sorted(known)) or 'none'}"
            )
        parts = [part_of(array, plan.arrays, there, region, place) for array in plan.arrays]
        found = [(part, writable(part, region)) for part in parts]
        writing = tuple(w for part, w in found if w is not None and (served.client is None or _is_sent(part, w)))
        same = [a.path for a in plan.arrays if a.path not in {w.path for w in writing}]
        notes = (f"what the store already has was not written again: {', '.join(same)}",) if same else ()
        part = replace(plan, arrays=writing, notes=notes)
        if served.dry_run:
            made = direct(writing, served.memory, served.workers)
            return estimate(place.store, part, made, served.client)
        return _write(part, place, served, region)


def _write(plan: Plan, place: Place, request: Request, region: Region) -> Report:
    """Write chunks; the store is locked if an append could rewrite them."""
    made = direct(plan.arrays, request.memory, request.workers)
    ends = [a for a in plan.arrays if _reaches_the_end(a)]
    with _held(place, hold=bool(ends)), _aside(place, request.client, region) as aside:
        _refuse_changed(ends, place, request)
        job = Job(plan.arrays, made.slabs, _Put(place, aside), Codec("none"), 3)
        written = Records([a.grid.size for a in plan.arrays])
        run(job, written, made.threads, request.progress, request.client)
        place.sync()
        stored, chunks = sizes_of(written.done)
    return plan.report(place.store, stored, chunks, resumed=0, verified=False)


@contextmanager
def _aside(place: Place, client: Any, region: Region) -> Iterator[Path | Fenced | None]:
    """Yield a folder in the store through which chunks are written, or a mark in it for workers, for this run only.

    A worker left over from a run that has ended finds it gone. Remains of killed runs are removed.
    """
    if isinstance(place, LocalPlace):
        with refusals_of(place.store):
            folder = NewFolder(Path(place.store), _ASIDE)
        try:
            yield folder.path
        finally:
            folder.remove(done=False)
        return
    from cfagg.writing.zarr.region_mark import fenced

    with fenced(place.objects, region, workers=client is not None) as mark:  # type: ignore[attr-defined]
        yield mark


def _is_sent(part: Part, array: Array) -> bool:
    """Whether workers write a part; one that ends in a partial chunk must already be in the store, or is refused.

    An append rewrites such a chunk, which a leftover worker could undo.
    """
    if not _reaches_the_end(array):
        return True
    if part.is_there:
        return False
    raise OptionError(
        f"variable {array.path!r}: the part ends in a chunk that is not full, which an append to {part.place.store} "
        "writes again, perhaps before a worker that was lost has written it; write this part without client= (--dask)"
    )


def _reaches_the_end(array: Array) -> bool:
    """Whether the last object along a dimension is written and is partial, so that an append would rewrite it."""
    there: Any = array.stored_as
    pairs = zip(there.array.objects.edges, there.array.shape, array.grid.matrix_shape, there.first, strict=True)
    return any(int(e[-1]) > n and f + m == len(e) - 1 for e, n, m, f in pairs if len(e) > 1)


def _refuse_changed(ends: Sequence[Array], place: Place, request: Request) -> None:
    """Raise an error if arrays have grown since they were looked at, as a last chunk may have been filled."""
    there = arrays_of(place, request) if ends else {}
    for array in ends:
        known: Any = array.stored_as
        found = there.get(array.path)
        if found is None or found.shape != known.array.shape:
            raise TargetError(
                f"{place.store}: array {array.path!r} was meanwhile changed by another process, so nothing was written;"
                " run again"
            )


def _held(place: Place, *, hold: bool) -> ExitStack:
    """Return the lock of the store while it is written to, after checking that no append is running or was interrupted.

    Without `hold`, this is only checked now, so that others may write other parts at the same time.
    """
    end = time.monotonic() + _PATIENCE
    while True:
        stack = ExitStack()
        try:
            claim = stack.enter_context(place.writer("writing into a part of it"))
        except TargetError:
            # Others that write parts hold the lock briefly for the same check.
            if time.monotonic() > end:
                raise
            time.sleep(0.1)
            continue
        if claim.left is not None:
            stack.close()
            raise TargetError(
                f"{place.store}: an append to it was interrupted; append again, which completes or undoes it"
            )
        if not hold:
            stack.close()
        return stack
