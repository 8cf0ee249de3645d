"""A conversion into an object store: chunks are written in place, without staging.

The journal is kept in the store, in parts that are each written once; for each chunk it records the tag given by the
server. A chunk that still has this tag is the one that was written, so that nothing needs to be read back to resume.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cfagg.arrays.source import Source
from cfagg.conversion.absent import with_absent
from cfagg.conversion.journal import Journal, identity_of, sizes_of, ways_of
from cfagg.conversion.metadata import build_metadata
from cfagg.conversion.plan import build_plan
from cfagg.conversion.report import Report
from cfagg.conversion.request import Request
from cfagg.conversion.run import run
from cfagg.conversion.schedule import Ways, schedule
from cfagg.conversion.scratch import FOLDER
from cfagg.conversion.slab_writer import Job
from cfagg.conversion.verify import verify
from cfagg.errors import CfaggError, TargetError, TargetExistsError
from cfagg.formats.metadata.remote_store import KeyStore
from cfagg.formats.zarr.remote import number_of
from cfagg.formats.zarr.written_codecs import Codec
from cfagg.runtime.object_publishing import DOCUMENTS, Fenced, NewStore
from cfagg.storage.access import Access
from cfagg.storage.objects import ObjectStore

__all__ = ["write_objects"]


@dataclass(frozen=True)
class Objects:
    """An object store that one run writes to; a chunk is identified by the tag that the server gives it."""

    fenced: Fenced

    def read(self, key: str) -> bytes | None:
        """Return a written object, or `None` if it does not exist."""
        return self.fenced.objects.read(key)

    def __call__(self, key: str, encoded: Any) -> int:
        """Write a chunk, and return its tag as a number."""
        return number_of(self.fenced.put(key, encoded))


def write_objects(source: Source, access: Access, place: NewStore, request: Request) -> Report:
    """Perform the conversion described in `convert`, into an object store."""
    options, check = request.options, request.verify
    plan = with_absent(build_plan(source, access, options, request.threads), options.zarr_format)
    codec = Codec(options.codec, options.level)
    documents = build_metadata(plan.groups, plan.arrays, codec, options.zarr_format)
    identity = identity_of(source, access, options.identity())
    put, text = Objects(place.fenced), place.journal()
    ways = None if text is None else ways_of(text)
    made = schedule(plan.arrays, request.memory, request.workers, put, options.zarr_format, ways)
    job, there = Job(made.arrays, made.slabs, put, codec, options.zarr_format, check), place.objects
    counts = [a.grid.size for a in made.arrays]
    with (
        tempfile.TemporaryDirectory() as folder,
        closing(_journal(place, text, Path(folder) / "journal", identity, counts, made.ways)) as journal,
    ):
        resumed = _distrust(there, job, journal)
        with _recorded(place, journal):
            run(job, journal, made.threads, request.progress, request.client)
        if check:
            try:
                unpublished = KeyStore(_Unpublished(there, documents))
                verify(job.arrays, job.slabs, journal, unpublished, made.threads)
            except TargetError as error:
                said = f"{there.path}: {error.message.partition('; check the')[0]}"
                raise TargetError(f"{said}; convert again with overwrite=True (--overwrite)") from error
        _distrust(there, job, journal)
        last = [done for a, done in zip(job.arrays, journal.done, strict=True) if a.feeds is None]
        if not all(done.written.all() for done in last):
            raise TargetExistsError(
                f"{there.path}: another run wrote there at the same time; when it has ended, finish with "
                "resume=True (--resume)"
            )
        stored, chunks = sizes_of(last)
    if made.ways:
        there.delete(list(there.listed(FOLDER)))
    place.publish(documents)
    return plan.report(there.path, stored, chunks, resumed=resumed, verified=check)


def _journal(
    place: NewStore, text: bytes | None, path: Path, identity: dict[str, Any], counts: list[int], ways: Ways
) -> Journal:
    """Claim the place, and continue the existing journal or start a new one."""
    if text is None:
        place.begin()
        return Journal.create(path, identity, counts, place.record, ways)
    path.write_bytes(text)
    journal = Journal.resume(path, identity, counts, place.objects.path, place.record)
    try:
        place.take_over()
    except BaseException:
        journal.close()
        raise
    return journal


@contextmanager
def _recorded(place: NewStore, journal: Journal) -> Iterator[None]:
    """Upload the end of the journal even if a run is interrupted."""
    try:
        yield
    except BaseException as error:
        with suppress(CfaggError):
            journal.sync()
        if isinstance(error, KeyboardInterrupt):
            raise KeyboardInterrupt(
                f"interrupted: {place.objects.path} was not written; finished work is kept, finish it with resume=True "
                "(--resume)"
            ) from None
        raise


def _distrust(objects: ObjectStore, job: Job, journal: Journal) -> int:
    """Drop chunks from a journal that are no longer as they were written; return the number of remaining objects."""
    if not any(done.written.any() for done in journal.done):
        return 0
    there = {}
    for key, state in objects.objects(""):
        if not state.tag:
            raise objects.untold(key)
        there[key] = state.size, number_of(state.tag)
    kept = 0
    for array, done in zip(job.arrays, journal.done, strict=True):
        noted = done.written if array.absent is None else done.written & ~array.absent
        for i in np.flatnonzero(noted).tolist():
            key = array.key(array.grid.index(i), job.zarr_format)
            found = there.get(key, (0, 0)) == (done.size[i], done.stored[i])
            done.written[i] = found and not (job.checksums and done.content[i] < 0)
            kept += bool(done.written[i] and done.size[i])
    return kept


class _Unpublished:
    """A store whose documents are not written yet."""

    remote, lists = True, False

    def __init__(self, objects: ObjectStore, documents: Mapping[str, bytes]) -> None:
        self.path, self._objects, self._documents = objects.path, objects, documents

    def read(self, key: str) -> bytes | None:
        """Return a document, or a stored object."""
        found = self._documents.get(key)
        return found if found is not None or key.rpartition("/")[2] in DOCUMENTS else self._objects.read(key)

    def read_range(self, key: str, start: int, count: int) -> bytes:
        """Return part of a stored object."""
        return self._objects.read_range(key, start, count)
