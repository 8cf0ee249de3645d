"""Converting to Icechunk: all values of the source in one commit, of a new repository or an existing branch.

Nothing is visible before the commit: a killed run leaves the branch as it was. A new repository is built beside its
final path and renamed; in an object store it is empty until its one commit, and the next run may use it.
"""

from __future__ import annotations

import errno
import json
import os
import pickle
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from cfagg.conversion.absent import with_absent
from cfagg.conversion.cluster import on_cluster
from cfagg.conversion.dry_run import DryRun, try_staged
from cfagg.conversion.journal import Records, sizes_of
from cfagg.conversion.metadata import build_metadata
from cfagg.conversion.plan import Plan, build_plan
from cfagg.conversion.report import IcechunkReport
from cfagg.conversion.request import BEGINS_ANEW, Request
from cfagg.conversion.run import run
from cfagg.conversion.slab_writer import Job
from cfagg.conversion.staged import Staged, staged
from cfagg.conversion.verify import verify
from cfagg.errors import LossError, TargetError, TargetExistsError
from cfagg.errors.extras import require
from cfagg.findings.losses import Loss
from cfagg.formats.fastzlib import crc32
from cfagg.formats.icechunk import BRANCH
from cfagg.formats.zarr.attributes import is_strict
from cfagg.formats.zarr.creating import document_bytes
from cfagg.formats.zarr.settings import clear_sync, put_sync
from cfagg.formats.zarr.written_codecs import Codec
from cfagg.runtime.files import NewFolder
from cfagg.runtime.publishing import put, sync_tree
from cfagg.storage.urls import Url, a_place
from cfagg.writing.zarr.local_place import LocalPlace
from cfagg.writing.zarr.repository import Place

__all__ = ["SessionPut", "write_icechunk"]

#: Options that do not apply to a repository, whose single commit is atomic.
_SENSELESS = frozenset({"zarr_format", "region"})


def write_icechunk(request: Request) -> IcechunkReport | DryRun:
    """Write the source of a request to its target."""
    require("Icechunk repositories", "icechunk")
    name = a_place(
        request.target,
        request.target_options,
        name="target",
        expected="name a directory for the repository",
        options_name="target_options",
    )
    request.refuse(_SENSELESS, f"{name} is an Icechunk repository, which is written in one commit of Zarr v3")
    place = Place(name if isinstance(name, Url) else Path(os.path.realpath(name)))
    with place.reporting_errors():
        exists = _check(place, request)
    with on_cluster(request, name) as served, served.opened() as (source, access):
        plan, lost = _strict(with_absent(build_plan(source, access, request.options, request.threads), 3), request)
        if request.resume:
            plan = replace(plan, notes=(*plan.notes, BEGINS_ANEW))
        if request.dry_run:
            return try_staged(str(place), replace(plan, losses=(*plan.losses, *lost)), served)
        with place.reporting_errors():
            stored, chunks = _written(plan, place, served, exists=exists)
    found = plan.report(str(place), stored, chunks, resumed=0, verified=request.verify)
    return IcechunkReport(**{**found.__dict__, "losses": (*found.losses, *lost)})


def _written(plan: Plan, place: Place, request: Request, *, exists: bool) -> tuple[int, int]:
    """Write the repository, or a commit to one; return the bytes of all chunks, and their number."""
    if isinstance(place.where, Url):
        with tempfile.TemporaryDirectory(prefix="cfagg-") as made:
            return _commit(plan, place, request, Path(made), new=not exists)
    if not exists:
        return _beside(plan, place.where, request)
    here = LocalPlace(str(place))
    with here.writer("converting to the same repository"), _room(place.where) as room:
        return _commit(plan, place, request, room, new=False)


def _check(place: Place, request: Request) -> bool:
    """Raise an error if the target cannot or must not be written; return whether there already is a repository."""
    if isinstance(place.where, Url):
        if isinstance(request.source, Url) and request.source.rstrip("/") == place.where.rstrip("/"):
            raise TargetError(f"{place} is the source; choose another target")
    else:
        _check_directory(place, request)
    return place.may_be_written(overwrite=request.overwrite)


def _check_directory(place: Place, request: Request) -> None:
    """Raise an error if a directory cannot or must not be written."""
    path = Path(str(place))
    if not path.parent.is_dir():
        raise TargetError(f"{path} cannot be written: there is no directory {path.parent}")
    if not isinstance(request.source, Url):
        source = Path(os.path.realpath(request.source))
        if source == path or source.is_relative_to(path) or (source.is_dir() and path.is_relative_to(source)):
            raise TargetError(f"{path} is the source, holds it or is within it; choose another target")
    empty = not os.path.lexists(path) or (path.is_dir() and not any(path.iterdir()))
    if not empty and not place.exists():
        raise TargetExistsError(
            f"{path} exists and is not an Icechunk repository, so it is not replaced: give another name"
        )


def _strict(plan: Plan, request: Request) -> tuple[Plan, tuple[Loss, ...]]:
    """Return a plan without attributes that are not strict JSON, which Icechunk does not accept, and their losses."""
    why = "Icechunk needs strict JSON, which has neither NaN nor infinities"
    losses: list[Loss] = []

    def kept(attributes: Mapping[str, Any], path: str) -> dict[str, Any]:
        losses.extend(
            Loss(path, None, f"attribute {k!r}", str(v)[:60], why) for k, v in attributes.items() if not is_strict(v)
        )
        return {k: v for k, v in attributes.items() if is_strict(v)}

    groups = {path: kept(attributes, path or "/") for path, attributes in plan.groups.items()}
    arrays = tuple(replace(a, attributes=kept(a.attributes, a.path)) for a in plan.arrays)
    if losses and request.options.on_loss == "error":
        raise LossError(
            f"{request.target} was not written: {len(losses):,} attribute{'s'[: len(losses) != 1]} cannot be "
            "expressed there; on_loss='drop' (--on-loss drop) leaves them out",
            losses,
        )
    return replace(plan, groups=groups, arrays=arrays), tuple(losses)


def _beside(plan: Plan, path: Path, request: Request) -> tuple[int, int]:
    """Build a new repository beside its final path, and rename it."""
    folder = NewFolder(path)
    done = False
    try:
        made = folder.path / "file"
        made.mkdir()
        stored = _commit(plan, Place(made), request, folder.path, new=True)
        sync_tree(made)
        try:
            with suppress(FileNotFoundError, NotADirectoryError):
                path.rmdir()  # an empty directory may be there
            put(made, path, folder.path / "former", create=True)
        except OSError as error:
            if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
                raise
            said = f"{path} was meanwhile written by another process and left as it is; give another name"
            raise TargetExistsError(said) from error
        done = True
    finally:
        folder.remove(done=done)
    return stored


@contextmanager
def _room(path: Path) -> Iterator[Path]:
    """Yield a directory for intermediate data of an existing repository, beside it if possible."""
    try:
        folder = NewFolder(path)
    except OSError:
        with tempfile.TemporaryDirectory(prefix="cfagg-") as made:
            yield Path(made)
        return
    try:
        yield folder.path
    finally:
        folder.remove(done=False)


def _commit(plan: Plan, place: Place, request: Request, room: Path, *, new: bool) -> tuple[int, int]:
    """Write everything into one session and commit it; return the bytes of all chunks, and their number."""
    shared = isinstance(place.where, Path)
    with staged(plan.arrays, request, room / "file.scratch", shared=shared) as made:
        repository = place.create() if new else place.open()
        session = repository.writable_session(BRANCH)
        codec = Codec(request.options.codec, request.options.level)
        write = SessionPut(session)
        if not new:
            write.clear()
        for key, document in _described(build_metadata(plan.groups, plan.arrays, codec, 3)).items():
            write(key, document)
        written = Records([a.grid.size for a in made.arrays])
        job = Job(made.arrays, made.slabs, write, codec, 3, request.verify)
        run(job, written, made.threads, made.progress, request.client)
        if request.verify:
            _verify(made, written, session.store, place)
        stored = sizes_of(written.done)
    # Chunks must be on disk before anything refers to them.
    place.sync()
    session.commit(f"cfagg convert {os.path.basename(os.fspath(request.source))}")  # noqa: PTH119
    place.sync()
    return stored


def _verify(made: Staged, written: Records, store: Any, place: Place) -> None:
    """Read everything back before the commit."""
    try:
        verify(made.arrays, made.slabs, written, store, made.threads)
    except TargetError as error:
        raise TargetError(f"{place}: {error.message.partition('; check the')[0]}; convert again") from error


def _described(documents: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return the documents of a store, parents first, without consolidated metadata, which repositories do without."""
    root = {k: v for k, v in json.loads(documents["zarr.json"]).items() if k != "consolidated_metadata"}
    return {"zarr.json": document_bytes(root), **{k: v for k, v in documents.items() if k != "zarr.json"}}


class SessionPut:
    """Writes objects into a session, from any thread; they are invisible until the session is committed.

    Cluster workers write into forks of it, one per task, which are returned with what was written and merged:
    running a task twice has no further effect.
    """

    def __init__(self, session: Any) -> None:
        self._session, self._forks = session, True

    def __call__(self, key: str, data: Any) -> int:
        """Write an object under its key, and return its checksum."""
        put_sync(self._session.store, key, bytes(data))
        return crc32(data)

    def clear(self) -> None:
        """Remove everything in the session."""
        clear_sync(self._session.store)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for a worker: a fork of the current session."""
        return {"_session": self._session.fork() if self._forks else self._session, "_forks": False}

    def forked(self) -> SessionPut:
        """Return the writer of one task, in a worker."""
        made: SessionPut = pickle.loads(pickle.dumps(self))  # noqa: S301 - what was pickled in this line
        return made

    def merge(self, other: SessionPut) -> None:
        """Merge what a task has written."""
        self._session.merge(other._session)
