"""What each of many files holds: the descriptions of its data variables, and the state in which it was scanned."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from cfagg.arrays.datasets import dataset_of, other_than_netcdf, referenced, with_aggregations, with_readers
from cfagg.cf.joining import Described, Options, describe_all, interned
from cfagg.errors import CfaggError, Problem, SourceError
from cfagg.errors.arguments import paths
from cfagg.formats.metadata.stores import LocalStore
from cfagg.formats.metadata.url import file_at, of_handle, store_at
from cfagg.formats.metadata.zarr import ZarrValues, open_store
from cfagg.formats.opening import is_referring
from cfagg.model.dataset import Dataset
from cfagg.runtime.budget import worker_count
from cfagg.runtime.clusters import cluster_of
from cfagg.runtime.processes import Died, run_processes
from cfagg.runtime.threads import run_threads
from cfagg.storage.files import FileKey, open_regular
from cfagg.storage.handles import handles
from cfagg.storage.urls import Url, a_place, is_url

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["FileState", "Scanned", "scan"]

#: Files that are scanned here before it is looked how long the rest will take, and again after so many.
_FIRST = 256

#: Seconds of work that are worth the start of other processes.
_WORTH = 1.5

#: Files that one process is given at once, and requests that wait for answers of servers at the same time.
_BATCH, _WAITING = 64, 16

#: Attributes by which variables refer to others whose values are looked at.
_REFERRING = (
    "ancillary_variables", "bounds", "cell_measures", "climatology", "coordinates", "formula_terms", "grid_mapping",
)  # fmt: skip

type Progress = Callable[[int, int], None] | None


@dataclass(frozen=True, slots=True)
class FileState:
    """What tells one state of a file from another; an object on another machine has a tag and no times."""

    size: int
    mtime_ns: int = 0
    ctime_ns: int = 0
    inode: int = 0
    etag: str | None = None


@dataclass(frozen=True, eq=False, slots=True)
class Scanned:
    """What one file holds; where it could not be read, `problem` says why and there is nothing else."""

    place: str
    state: FileState | None
    format: str = ""
    described: tuple[Described, ...] = ()
    problem: str | None = None
    #: The class of error that `problem` is.
    error: type[CfaggError] | None = None


def scan(
    places: Sequence[str],
    options: Options | None = None,
    *,
    storage_options: Mapping[str, Any] | None = None,
    allow: Iterable[Any] = (),
    skip_errors: bool = False,
    client: Any = None,
    workers: int | None = None,
    progress: Progress = None,
) -> list[Scanned]:
    """Return what each file holds, in order; files that cannot be read are listed in one error unless skipped.

    Raises
    ------
    SourceError
        Files cannot be read, all of which are listed in its `problems`; with `skip_errors` only where none can.
    """
    allowed = paths(allow)
    how = _How(options or Options(), tuple(one for one in allowed if not is_url(one)))
    named = [a_place(place, storage_options, allowed) if is_url(place) else place for place in places]
    found: dict[int, Scanned] = {}
    with cluster_of(client) as cluster:
        for numbers, scanned in _scans(named, how, cluster, workers):
            found.update(zip(numbers, scanned, strict=True))
            if progress is not None:
                progress(len(found), len(named))
    ordered = [found[number] for number in range(len(named))]
    bad = [one for one in ordered if one.problem is not None]
    if bad and (not skip_errors or len(bad) == len(ordered)):
        raise _unread(bad, len(ordered))
    return ordered


class _How(NamedTuple):
    """How files are scanned; it is sent to the processes that do it."""

    options: Options
    #: Where links in Zarr stores may lead to.
    links: tuple[str, ...]


#: Some files by their numbers, and what they hold.
type _Batch = tuple[list[int], list[Scanned]]


def _scans(named: Sequence[str], how: _How, cluster: Any, workers: int | None) -> Iterator[_Batch]:
    """Yield what files hold, some at a time, in any order."""
    numbers = range(len(named))
    if cluster is not None:
        yield from _on_cluster(named, numbers, how, cluster)
        return
    remote = [n for n in numbers if isinstance(named[n], Url)]
    local = [n for n in numbers if not isinstance(named[n], Url)] if remote else list(numbers)
    if remote:
        # Threads: they wait for answers most of the time.
        waiting = workers or _WAITING
        yield from run_threads(
            lambda n: ([n], [_scan_one(named[n], how)]), iter(remote), min(waiting, len(remote)), "scan"
        )
    most = worker_count(workers)
    started = time.monotonic()
    for done, n in enumerate(local, 1):
        if most > 1 and done > _FIRST and not done % _FIRST:
            left = (time.monotonic() - started) / (done - 1) * (len(local) - done + 1)
            if left > _WORTH:
                yield from _in_processes(named, local[done - 1 :], how, most)
                return
        yield [n], [_scan_one(named[n], how)]


def _in_processes(named: Sequence[str], numbers: Sequence[int], how: _How, most: int) -> Iterator[_Batch]:
    """Yield what files hold, scanned by several processes; one that crashes is blamed on the file that it was at."""
    batches = list(_batches(numbers, most))
    suspects: list[list[int]] = []
    tasks = (([named[n] for n in batch], how, batch) for batch in batches)
    for result in run_processes(_scan_batch, tasks, min(most, len(batches))):
        if isinstance(result, Died):
            suspects.append(result.task[2])
        else:
            yield _here(result)
    # One file at a time, so that the others of the batch are not blamed.
    alone = (([named[n]], how, [n]) for batch in suspects for n in batch)
    for result in run_processes(_scan_batch, alone, 1) if suspects else ():
        if isinstance(result, Died):
            (place,), _, batch = result.task
            said = f"{place}: the process that scanned it crashed, so the file is most likely damaged"
            yield batch, [Scanned(place, None, problem=said, error=SourceError)]
        else:
            yield _here(result)


def _on_cluster(named: Sequence[str], numbers: Sequence[int], how: _How, cluster: Any) -> Iterator[_Batch]:
    """Yield what files hold, scanned by the workers of a Dask cluster."""
    from distributed import as_completed

    workers = max(sum(cluster.nthreads().values()), 1)
    tasks = [([named[n] for n in batch], how, batch) for batch in _batches(numbers, workers)]
    futures = cluster.map(_scan_batch, tasks, pure=False)
    try:
        for future in as_completed(futures):
            yield _here(future.result())
            future.release()
    finally:
        cluster.cancel(futures)


def _here(batch: _Batch) -> _Batch:
    """Return what another process has found, in which what is equal is the same object as in all else here."""
    numbers, scanned = batch
    described = iter(interned(d for one in scanned for d in one.described))
    return numbers, [replace(one, described=tuple(islice(described, len(one.described)))) for one in scanned]


def _batches(numbers: Sequence[int], workers: int) -> Iterator[list[int]]:
    """Yield files that are scanned together: several batches for each worker, none of them long."""
    size = max(1, min(_BATCH, len(numbers) // (4 * workers)))
    for begin in range(0, len(numbers), size):
        yield list(numbers[begin : begin + size])


def _scan_batch(task: tuple[Sequence[str], _How, list[int]]) -> _Batch:
    """Return what some files hold, in another process."""
    some, how, numbers = task
    return numbers, [_scan_one(place, how) for place in some]


def _unread(bad: Sequence[Scanned], count: int) -> CfaggError:
    """Return the error that lists the files that cannot be read."""
    kinds = {one.error or SourceError for one in bad}
    kind = kinds.pop() if len(kinds) == 1 else SourceError
    if count == 1:
        return kind(bad[0].problem or "")
    remedy = "; skip_errors=True goes on without them" if len(bad) < count else ""
    problems = [Problem("", one.problem or "") for one in bad]
    return kind(f"{len(bad):,} of {count:,} files cannot be read{remedy}", problems)


def _scan_one(place: str, how: _How) -> Scanned:
    """Return what a file or store holds; one that changes meanwhile is scanned once more."""
    for _ in range(2):
        state: FileState | None = None
        try:
            if isinstance(place, Url):
                return _scan_url(place, how)
            if os.path.isdir(place):  # noqa: PTH112 - Path costs more
                if is_referring(place):
                    return _scan_references(place, how)
                return _scan_store(LocalStore(place, how.links), place, how)
            handle = open_regular(place)
            state = _state(handle.key)
            found = _described(place, state, dataset_of(handle, allow=how.links), how)
        except CfaggError as error:
            found = Scanned(place, state, problem=error.message, error=type(error))
        except OSError as error:
            found = Scanned(place, state, problem=f"{place}: {error.strerror or error}", error=SourceError)
        except Exception as error:  # noqa: BLE001 - one damaged file of thousands must not end the scan of the others
            said = f"{place} cannot be scanned: {type(error).__name__}: {error}"
            found = Scanned(place, state, problem=said, error=SourceError)
        if state is None or state == _now(place):
            return found
    said = f"{place} changes while it is scanned; aggregate it when it is complete"
    return Scanned(place, state, problem=said, error=SourceError)


def _described(place: str, state: FileState, dataset: Dataset, how: _How) -> Scanned:
    """Return what a dataset holds, which is closed."""
    with with_aggregations(dataset):
        if dataset.damage is not None:
            raise SourceError(f"{place}: {dataset.damage}")
        if dataset.format == "cdl":
            raise SourceError(f"{place} is CDL, a text of which ncgen makes netCDF; aggregate that")
        if any(v.dialect is not None for v in dataset.variables):
            _read_aggregated(dataset, place, how.links)
        return Scanned(place, state, dataset.format, tuple(describe_all(dataset, how.options)))


def _read_aggregated(dataset: Dataset, place: str, allow: Sequence[str]) -> None:
    """Let coordinates that are aggregations themselves, and what else others refer to, have the values of these."""
    named = {word for v in dataset.variables for name in _REFERRING for word in v.words(name)}
    for variable in dataset.variables:
        if variable.dialect is not None and (variable.is_coordinate or variable.name in named):
            variable.dialect = variable.stored_dimensions = None
            variable.read = partial(_aggregated, place, variable.path, allow)


def _aggregated(place: str, path: str, allow: Sequence[str], slices: tuple[slice, ...]) -> npt.NDArray[Any]:
    """Return a hyperslab of an aggregation, whose fragments are where its file or `allow` lets them be."""
    from cfagg.arrays.opening import open_any, open_reader

    source = open_any(place, allow)
    return open_reader(source, path, source.access(allow)).read(slices)


def _scan_url(url: Url, how: _How) -> Scanned:
    """Return what a file or store on another machine holds; what is written meanwhile is an error of its readers."""
    handle = file_at(url)
    if handle is None and not url.rstrip("/").endswith(".zarr"):
        handle = handles.renew(url)  # says that it is not there, or why it may not be read
    if handle is None:
        return _scan_store(store_at(url), url, how)
    state = FileState(handle.key.size, etag=handle.data.tag)
    return _described(url, state, other_than_netcdf(handle) or of_handle(handle), how)


def _scan_store(store: Any, place: str, how: _How) -> Scanned:
    """Return what a Zarr store holds, known by its metadata and by the chunks that were read of it."""
    for _ in range(2):
        documents = _Documents(store)
        dataset = open_store(documents)
        for variable in dataset.variables:
            values: Any = variable.read
            if isinstance(values, ZarrValues):
                values.store = store  # our own reader takes it as it is
        found = _described(place, FileState(0), with_readers(dataset), how)
        read = [v.path for v in dataset.variables if getattr(v.read, "reader", None) is not None]
        state = documents.state(read)
        if state is not None:
            return replace(found, state=state)
    raise SourceError(f"{place} changes while it is scanned; aggregate it when it is complete")


def _scan_references(place: str, how: _How) -> Scanned:
    """Return what references in Parquet describe, known by the document of their directory."""
    state = _state(open_regular(f"{place}/.zmetadata").key)
    return _described(place, state, referenced(place, how.links), how)


class _Documents:
    """A Zarr store that notes which metadata were read of it."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self._read: dict[str, bytes] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def read(self, key: str) -> bytes | None:
        """Return a document, `None` where there is none."""
        found: bytes | None = self._store.read(key)
        if found is not None:
            self._read[key] = found
        return found

    def state(self, arrays: Sequence[str]) -> FileState | None:
        """Return the state of the metadata and, in a directory, of the chunks of arrays; `None` if they changed."""
        digest, size = sha256(), 0
        for key, found in self._read.items():
            if not self._store.is_remote and self._store.read(key) != found:
                return None
            size += len(found)
            digest.update(b"%b\0%d\0%b" % (key.encode("utf-8", "surrogatepass"), len(found), found))
        for path in [] if self._store.is_remote else arrays:
            for folder, folders, names in os.walk(f"{self._store.path}/{path.lstrip('/')}"):
                folders.sort()
                for name in sorted(names):
                    status = os.stat(f"{folder}/{name}")  # noqa: PTH116 - Path costs more
                    own = f"{path}\0{name}\0{status.st_size}\0{status.st_mtime_ns}\0{status.st_ino}\n"
                    digest.update(own.encode("utf-8", "surrogatepass"))
        return FileState(size, etag=digest.hexdigest())


def _state(key: FileKey) -> FileState:
    return FileState(key.size, key.modified, key.changed, key.inode)


def _now(place: str) -> FileState | None:
    """Return the state of a file as it is there now, `None` where it is gone."""
    try:
        found = os.stat(place)  # noqa: PTH116 - Path costs more
    except OSError:
        return None
    return FileState(found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino)
