"""A conversion into a local directory: the store is built beside the target and renamed into place."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from cfagg.arrays.source import Source
from cfagg.conversion.absent import with_absent
from cfagg.conversion.journal import Journal, digest_of, identity_of, sizes_of, ways_of
from cfagg.conversion.metadata import build_metadata, forget_metadata, write_metadata
from cfagg.conversion.places import Files
from cfagg.conversion.plan import Array, build_plan
from cfagg.conversion.report import Report
from cfagg.conversion.request import Request
from cfagg.conversion.run import run
from cfagg.conversion.schedule import schedule
from cfagg.conversion.scratch import FOLDER
from cfagg.conversion.slab_writer import Job
from cfagg.conversion.verify import distrust, verify
from cfagg.errors import AccessError, CfaggError, TargetError, TargetExistsError
from cfagg.formats.zarr.written_codecs import Codec
from cfagg.runtime.publishing import read_own, reason
from cfagg.runtime.staging import is_known
from cfagg.runtime.workplace import Workplace
from cfagg.storage.access import Access

__all__ = ["working", "write_local"]


@contextmanager
def working(place: Workplace, *, resume: bool, overwrite: bool) -> Iterator[None]:
    """Hold the work directory; report system errors in one sentence, and leave nothing useless behind."""
    place.enter()
    try:
        if not (resume or overwrite):
            place.check_unfinished()
        if not (resume and (place.unfinished or place.finished)):
            place.start_anew()
        yield
    except KeyboardInterrupt:
        what = f"{place.target} is complete" if is_known(lambda: place.finished) else f"{place.target} was not written"
        raise KeyboardInterrupt(f"interrupted: {what}{_tidy(place)}") from None
    except TargetExistsError:
        _tidy(place)
        raise
    except AccessError:
        # The source is refused until more directories are allowed, which makes it a different run.
        place.take_back()
        _tidy(place)
        raise
    except CfaggError:
        _tidy(place)
        raise
    except OSError as error:
        what = "may not outlive a power loss" if is_known(lambda: place.finished) else "was not written"
        raise TargetError(f"{place.target} {what}: {reason(error, place.target)}{_tidy(place)}") from error
    except BaseException:
        _tidy(place)
        raise
    finally:
        place.leave()


def _tidy(place: Workplace) -> str:
    """Remove a work directory without finished work; return a message about what remains."""
    if is_known(lambda: place.finished):
        return "; finish with resume=True (--resume)"
    if is_known(lambda: place.unfinished):
        return f"; finished work is kept, {place.remedy}"
    place.abandon_if_useless()
    return ""


def write_local(source: Source, access: Access, place: Workplace, request: Request) -> Report:
    """Perform the conversion described in `convert`, in a work directory that is held."""
    options, check = request.options, request.verify
    plan = with_absent(build_plan(source, access, options, request.threads), options.zarr_format)
    codec = Codec(options.codec, options.level)
    documents = build_metadata(plan.groups, plan.arrays, codec, options.zarr_format)
    place.check_names(documents)
    identity = identity_of(source, access, options.identity())
    build = digest_of(identity)
    if place.is_built(build):
        place.remove()
        sizes = [n for a in plan.arrays for n in _sizes(a, place.target, options.zarr_format)]
        return plan.report(str(place.target), sum(sizes), len(sizes), resumed=len(sizes), verified=False)
    there = place.journal.exists()
    ways = ways_of(read_own(place.journal)) if there else None
    with _aside(place.root / "aside", request.client) as aside:
        files = Files(place.store, aside)
        made = schedule(plan.arrays, request.memory, request.workers, files, options.zarr_format, ways)
        arrays, counts = made.arrays, [a.grid.size for a in made.arrays]
        resumed = 0
        if there:
            journal = Journal.resume(place.journal, identity, counts)
            if place.finished and journal.committed:
                resumed = sizes_of(journal.done)[1]
            else:
                forget_metadata(documents, place.store)
                resumed = distrust(arrays, journal, place.store, options.zarr_format, request.threads, check)
        else:
            journal = Journal.create(place.journal, identity, counts, ways=made.ways)
        with closing(journal):
            if place.finished:
                place.settle()
                place.remove_after()
            else:
                job = Job(arrays, made.slabs, files, codec, options.zarr_format, check)
                run(job, journal, made.threads, request.progress, request.client)
                write_metadata(documents, place.store)
                if check:
                    verify(arrays, made.slabs, journal, place.store, request.threads)
                journal.commit()
                if made.ways:
                    shutil.rmtree(place.store / FOLDER, ignore_errors=False)
                place.publish(build)
    stored, chunks = sizes_of(d for a, d in zip(arrays, journal.done, strict=True) if a.feeds is None)
    return plan.report(str(place.target), stored, chunks, resumed=resumed, verified=check)


@contextmanager
def _aside(folder: Path, client: Any) -> Iterator[Path | None]:
    """Yield a directory of this run in which cluster workers write chunks, so that these appear atomically."""
    if client is None:
        yield None
        return
    # A worker left over from an earlier run may still be writing where that run had its directory.
    shutil.rmtree(folder, ignore_errors=True)
    made = folder / uuid.uuid4().hex
    made.mkdir(parents=True)
    try:
        yield made
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _sizes(array: Array, root: Path, zarr_format: int) -> Iterator[int]:
    """Yield the size in bytes of each stored chunk of an array that is in place."""
    numbers = range(array.grid.size) if array.absent is None else np.flatnonzero(~array.absent).tolist()
    for i in numbers:
        with suppress(FileNotFoundError):
            yield (root / array.key(array.grid.index(i), zarr_format)).stat().st_size
