"""Scanning many files: in this thread, in other threads or processes, or on a Dask cluster."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from cfagg.aggregation.files import places
from cfagg.aggregation.headers import FileState, How, Scanned, scan_one
from cfagg.cf.joining import Options, interned
from cfagg.errors import CfaggError, Problem, SourceError
from cfagg.formats.values.locks import LIBRARY
from cfagg.runtime.budget import worker_count
from cfagg.runtime.clusters import answers, cluster_of, threads_of
from cfagg.runtime.processes import Died, run_processes
from cfagg.runtime.threads import run_threads
from cfagg.storage.urls import Url, a_place, is_url

__all__ = ["FileState", "Scanned", "Scanner", "scan"]

#: Number of files scanned here before the time for the rest is estimated, and between later estimates.
_FIRST = 256

#: CPU seconds that justify starting other processes, which takes a third of that.
_WORTH = 3.0

#: Number of files sent to one process at once, and number of concurrent requests to servers.
_BATCH, _WAITING = 64, 16

type Progress = Callable[[int, int], None] | None


@dataclass(frozen=True)
class Scanner:
    """Finds and scans files, all with the same rules and credentials."""

    rules: Options = field(default_factory=Options)
    storage_options: Mapping[str, Any] | None = None
    allow: tuple[str, ...] = ()
    skip_errors: bool = False
    client: Any = None
    workers: int | None = None
    progress: Progress = None

    def meant(self, files: Any, without: Iterable[str] = (), argument: str = "files") -> list[str]:
        """Return the path or the `Url` of each file that a user names."""
        return places(files, storage_options=self.storage_options, allow=self.allow, without=without, argument=argument)

    def named(self, name: str) -> str:
        """Return a path unchanged, and a URL with the options for its server."""
        return a_place(name, self.storage_options, self.allow) if is_url(name) else name

    def scan(self, named: Sequence[str], *, others: bool = False) -> list[Scanned]:
        """Return the content of each file, in order; files that cannot be read are listed in one error unless skipped.

        `others` is whether there are other files that were scanned before.

        Raises
        ------
        SourceError
            Files cannot be read, all of which are listed in its `problems`; with `skip_errors`, only if none can be
            read and there are no others.
        """
        how = How(self.rules, tuple(one for one in self.allow if not is_url(one)))
        named = list(map(self.named, named))
        found: dict[int, Scanned] = {}
        with cluster_of(self.client) as cluster:
            for numbers, scanned in _scans(named, how, cluster, self.workers):
                found.update(zip(numbers, scanned, strict=True))
                if self.progress is not None:
                    self.progress(len(found), len(named))
        ordered = [found[number] for number in range(len(named))]
        bad = [one for one in ordered if one.problem is not None]
        if bad and (not self.skip_errors or (len(bad) == len(ordered) and not others)):
            raise _unread(bad, len(ordered))
        return ordered


def scan(named: Sequence[str], rules: Options | None = None, **how: Any) -> list[Scanned]:
    """Return the content of each file, using a `Scanner` with these options."""
    return Scanner(rules or Options(), **how).scan(named)


#: The numbers of some files, and their contents.
type _Batch = tuple[list[int], list[Scanned]]


def _scans(named: Sequence[str], how: How, cluster: Any, workers: int | None) -> Iterator[_Batch]:
    """Yield the contents of files in batches, in any order."""
    numbers = range(len(named))
    if cluster is not None:
        yield from _on_cluster(named, numbers, how, cluster)
        return
    remote = [n for n in numbers if isinstance(named[n], Url)]
    local = [n for n in numbers if not isinstance(named[n], Url)] if remote else list(numbers)
    if remote:
        # Threads, since they mostly wait for responses.
        waiting = workers or _WAITING
        yield from run_threads(
            lambda n: ([n], [scan_one(named[n], how)]), iter(remote), min(waiting, len(remote)), "scan"
        )
    most = worker_count(workers)
    started = time.thread_time()
    for done, n in enumerate(local, 1):
        if most > 1 and done > _FIRST and not done % _FIRST:
            left = (time.thread_time() - started) / (done - 1) * (len(local) - done + 1)
            if left > _WORTH:
                yield from _in_processes(named, local[done - 1 :], how, most)
                return
        yield [n], [scan_one(named[n], how)]


def _in_processes(named: Sequence[str], numbers: Sequence[int], how: How, most: int) -> Iterator[_Batch]:
    """Yield the contents of files, scanned by several processes; a crash is attributed to the file being scanned."""
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
            yield batch, [_crashed(place)]
        else:
            yield _here(result)


def _on_cluster(named: Sequence[str], numbers: Sequence[int], how: How, cluster: Any) -> Iterator[_Batch]:
    """Yield the contents of files, scanned by the workers of a Dask cluster."""
    from distributed import as_completed
    from distributed.scheduler import KilledWorker

    def submit(batch: Sequence[int], alone: bool = False) -> Any:
        future = cluster.submit(_scan_batch, ([named[n] for n in batch], how, list(batch)), pure=False)
        given[future.key] = batch, alone
        return future

    given: dict[str, tuple[Sequence[int], bool]] = {}
    suspects: list[int] = []
    workers = threads_of(cluster)
    pending = as_completed(map(submit, _batches(numbers, workers)), with_results=True)
    for future, found in answers(cluster, pending, killed=True):
        batch, alone = given.pop(future.key)
        if not isinstance(found, KilledWorker):
            yield _here(found)
        elif alone:
            yield list(batch), [_crashed(named[batch[0]])]
        else:
            suspects += batch
        if suspects and pending.is_empty():  # one at a time, so that no other is blamed
            pending.add(submit([suspects.pop()], alone=True))


def _crashed(place: str) -> Scanned:
    """Return the result for a file on which processes crash."""
    said = f"{place}: the process that scanned it crashed, so the file is most likely damaged"
    return Scanned(place, None, problem=said, error=SourceError)


def _here(batch: _Batch) -> _Batch:
    """Return the result of another process, with equal values replaced by the objects already in use here."""
    numbers, scanned = batch
    described = iter(interned(d for one in scanned for d in one.described))
    return numbers, [replace(one, described=tuple(islice(described, len(one.described)))) for one in scanned]


def _batches(numbers: Sequence[int], workers: int) -> Iterator[list[int]]:
    """Yield files that are scanned together: several batches for each worker, none of them long."""
    size = max(1, min(_BATCH, len(numbers) // (4 * workers)))
    for begin in range(0, len(numbers), size):
        yield list(numbers[begin : begin + size])


@LIBRARY.keeping_files()
def _scan_batch(task: tuple[Sequence[str], How, list[int]]) -> _Batch:
    """Return the contents of some files, in another process."""
    some, how, numbers = task
    return numbers, [scan_one(place, how) for place in some]


def _unread(bad: Sequence[Scanned], count: int) -> CfaggError:
    """Return the error that lists the files that cannot be read."""
    kinds = {one.error or SourceError for one in bad}
    kind = kinds.pop() if len(kinds) == 1 else SourceError
    if count == 1:
        return kind(bad[0].problem or "")
    remedy = "; skip_errors=True leaves them out" if len(bad) < count else ""
    problems = [Problem("", one.problem or "") for one in bad]
    return kind(f"{len(bad):,} of {count:,} files cannot be read{remedy}", problems)
