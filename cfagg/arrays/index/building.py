"""Building an index: each file is opened, its variables' metadata are parsed, and their chunk tables are listed."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from cfagg.arrays.identity import Identity, is_square
from cfagg.arrays.index.digests import NotedBytes, digest_of, is_still, state_of
from cfagg.arrays.index.headers import StoredHeader, write_header
from cfagg.arrays.index.rows import FileRow, VariableRow
from cfagg.arrays.index.schema import FIELD
from cfagg.arrays.index.table import Collected, Index
from cfagg.arrays.index.tables import chunks_of
from cfagg.errors import CfaggError
from cfagg.formats.metadata.aggregation import MARKS
from cfagg.formats.opening import built_in
from cfagg.formats.values import find
from cfagg.formats.values.storage import Chunked, Contiguous, StoredVariable
from cfagg.model.chunks import ChunkTable
from cfagg.runtime.budget import worker_count
from cfagg.runtime.clusters import answers, cluster_of
from cfagg.runtime.processes import Died, run_processes
from cfagg.runtime.threads import run_threads
from cfagg.storage.files import Borrowed, Context, Handle
from cfagg.storage.handles import handles
from cfagg.storage.urls import Url

__all__ = ["build_index", "index_files", "is_text", "row_of"]

#: Most chunks of one variable in an index.
_CHUNKS = 2**22

#: Files after which the remaining time is estimated, seconds of work that are worth starting other processes, files
#: passed to a process at once, and concurrent requests to servers.
_FIRST, _WORTH, _TOGETHER, _WAITING = 256, 1.5, 64, 16

#: A file, and the name or path of a variable in it.
Place = tuple[str, str]


def build_index(
    fragments: Iterable[Place],
    base: str = "",
    *,
    previous: Index | None = None,
    client: Any = None,
    workers: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Index:
    """Return the index of fragments, files and addresses, in the order of their files; paths are absolute or URLs.

    Files unchanged since `previous` was built are not parsed again.  Variables that an index cannot represent have no
    row in it, nor have files that cannot be opened: reading reports why.
    """
    wanted: dict[str, dict[str, None]] = {}
    for path, address in fragments:
        wanted.setdefault(path, {})[address] = None
    files = {path: tuple(addresses) for path, addresses in wanted.items()}
    return index_files(files, base, previous=previous, client=client, workers=workers, progress=progress)[0]


def index_files(
    wanted: Mapping[str, tuple[str, ...] | None],
    base: str = "",
    *,
    listing: Callable[[str], Iterable[str]] = lambda _: (),
    previous: Index | None = None,
    client: Any = None,
    workers: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[Index, list[Place]]:
    """Return the index of files and the addresses in each, and those that are not in it.

    `None` means all variables of a file.  They are listed while it is parsed, or by `listing` if that is not possible.
    Everything else is as for `build_index`.
    """
    names = dict(wanted)
    for path, addresses in wanted.items():
        if addresses is None and previous is not None and path in previous.files:
            names[path] = tuple(listing(path))
    paths = list(names)
    rows, todo = Collected(), []
    for n, (path, addresses) in enumerate(names.items()):
        row = None if addresses is None else _known(path, addresses, previous)
        if row is None:
            todo.append(n)
        else:
            rows.add(row, n)
    lacking: dict[int, tuple[str, ...]] = {}
    done = len(paths) - len(todo)
    with cluster_of(client) as cluster:
        while todo:
            unlisted: list[int] = []
            for found in _made([(n, paths[n], names[paths[n]]) for n in todo], cluster, workers):
                for n, row, missing in found:
                    if missing is None:
                        unlisted.append(n)
                        continue
                    if row is not None:
                        rows.add(row, n)
                    if missing:
                        lacking[n] = missing
                    done += 1
                if progress is not None:
                    progress(done, len(paths))
            todo = []
            for n in sorted(unlisted):
                names[paths[n]] = listed = tuple(listing(paths[n]))
                todo += [n] * bool(listed)
            done += len(unlisted) - len(todo)  # the others have no variables
            if unlisted and not todo and progress is not None:
                progress(done, len(paths))
    return rows.index(base), [(paths[n], address) for n in sorted(lacking) for address in lacking[n]]


class _IndexedFile(NamedTuple):
    """Result for a file by its index: its row, and addresses missing from it, `None` if they were not listed."""

    number: int
    row: FileRow | None
    missing: tuple[str, ...] | None


#: Files by index.
type _Task = list[tuple[int, str, tuple[str, ...] | None]]


def _made(todo: _Task, cluster: Any, workers: int | None) -> Iterator[list[_IndexedFile]]:
    """Yield the results for files, some at a time, in any order."""
    if cluster is not None:
        yield from _on_cluster(todo, cluster)
        return
    remote = [one for one in todo if isinstance(one[1], Url)]
    if remote:
        # Threads, since they mostly wait for responses.
        yield from run_threads(lambda one: _make([one]), iter(remote), min(_WAITING, len(remote)), "index")
        todo = [one for one in todo if not isinstance(one[1], Url)]
    most, started = worker_count(workers), time.monotonic()
    for k, one in enumerate(todo):
        if most > 1 and k and not k % _FIRST and (time.monotonic() - started) / k * (len(todo) - k) > _WORTH:
            batches = itertools.batched(todo[k:], _TOGETHER)
            for result in run_processes(_make, map(list, batches), most):
                # A file that crashes a process has no row.
                yield [_IndexedFile(n, None, a) for n, _, a in result.task] if isinstance(result, Died) else result
            return
        yield _make([one])


def _on_cluster(todo: _Task, cluster: Any) -> Iterator[list[_IndexedFile]]:
    """Yield the results for files from the workers of a Dask cluster."""
    from distributed import as_completed

    futures = cluster.map(_make, list(map(list, itertools.batched(todo, _TOGETHER))), pure=False)
    for _, made in answers(cluster, as_completed(futures, with_results=True)):
        yield made


def _make(task: _Task) -> list[_IndexedFile]:
    """Return the results for files, perhaps in another process."""
    return [_IndexedFile(n, *_looked_into(path, addresses)) for n, path, addresses in task]


def _known(path: str, addresses: Iterable[str], previous: Index | None) -> FileRow | None:
    """Return the row of an unchanged file from an index, if it has all these variables."""
    i = None if previous is None else previous.files.get(path)
    if i is None or previous is None:
        return None
    try:
        state = state_of(handles.apart(path))
    except CfaggError:
        return None
    row = previous.rows(i)
    there = {v.address for v in row.variables}
    return row._replace(path=path) if state == row.state and there.issuperset(addresses) else None


def is_text(path: str) -> bool:
    """Return whether the name of a file can be stored in Parquet, which needs UTF-8."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def row_of(path: str, addresses: Sequence[str]) -> FileRow | None:
    """Return the row of a file with some of its variables, or `None` if it cannot be opened."""
    return _looked_into(path, addresses)[0]


def _looked_into(path: str, addresses: Sequence[str] | None) -> tuple[FileRow | None, tuple[str, ...] | None]:
    """Return the row of a file with some or all of its variables, and those missing from it."""
    context = Context(path)
    none = None, None if addresses is None else tuple(addresses)
    if not is_text(path):
        return none
    try:
        handle = handles.apart(path)
    except CfaggError:
        return none
    if handle.data is None and handle.real != path and handle.real != os.path.realpath(path):
        return none  # it was replaced meanwhile
    noted = NotedBytes(handle)
    # One for all variables, so that shared parts, such as a header, are noted once.
    lent = Borrowed(handle.key.path, noted)
    variables, is_proven = [], True
    together = _located(lent, handle, addresses, context) if addresses is None or len(addresses) > 1 else {}
    if addresses is None:
        addresses = tuple(together)
        if not addresses:
            return none
    for address in addresses:
        row = _by_parser(lent, address, context, together.get(address))
        if row is None:
            row = _by_library(handle, address, context, together.get(address)) if handle.data is None else None
            is_proven &= row is None
        if row is not None:
            variables.append(row)
    state = state_of(handle, to_keep=True)
    ranges = noted.ranges() if is_proven and variables else None
    # Mostly of the bytes that were parsed.  Whether the file is unchanged is only checked afterwards: otherwise this
    # might be the digest of another state.
    digest = None if ranges is None else digest_of(lent, ranges, context)
    if not is_still(handle) if handle.data is None else not state.etag:
        # Nothing could later identify this state.
        return FileRow(path, state, None, (), ()), tuple(addresses)
    there = {v.address for v in variables}
    return FileRow(path, state, digest, ranges or (), tuple(variables)), tuple(a for a in addresses if a not in there)


def _located(
    lent: Handle, handle: Handle, addresses: Sequence[str] | None, context: Context
) -> Mapping[str, StoredVariable]:
    """Return the variables that a format finds together, since they share most of their metadata.

    With `None` these are all, or none if it cannot list them or if some describe an aggregation.
    """
    try:
        start = lent.some(find.HEAD, 0, context)
        own = built_in(lent, context, start)
        if addresses is None:
            every = getattr(own, "locate_every", None)
            listed: Mapping[str, StoredVariable] = {} if every is None else every(lent, start, handle) or {}
            return listed if all(MARKS.isdisjoint(v.header.attributes) for v in listed.values()) else {}
        locate_all = getattr(own, "locate_all", None)
        found: Mapping[str, StoredVariable] = {} if locate_all is None else locate_all(lent, start, addresses)
    except (CfaggError, OSError, ValueError):
        return {}
    return found


def _by_parser(lent: Handle, address: str, context: Context, found: StoredVariable | None) -> VariableRow | None:
    """Return a variable that is found without a library; all bytes on which it depends are noted."""
    if address.startswith(FIELD):
        return _field(lent, address, context)

    def find_one(name: str) -> StoredVariable | None:
        start = lent.some(find.HEAD, 0, context)
        locate = getattr(built_in(lent, context, start), "locate", None)
        found: StoredVariable | None = None if locate is None else locate(lent, start, name, "/", context)
        return found

    try:
        found = found or find_one(address)
        if found is None or (isinstance(found.storage, Chunked) and found.storage.tree is None):
            return None
        return _row(found, lent, address, find_one, context)
    except (CfaggError, OSError, ValueError):
        return None


def _field(lent: Handle, address: str, context: Context) -> VariableRow | None:
    """Return a field of a PP file by its address, if its bytes alone determine its values."""
    from cfagg.arrays.fields import stored_field

    try:
        found = stored_field(lent, int(address.removeprefix(FIELD)), context)
    except (CfaggError, OSError, ValueError):
        return None
    if found is None:
        return None
    located, header = found
    text, shape, storage = write_header(header), located.header.shape, located.storage
    if text is not None and isinstance(storage, ChunkTable):
        inside = int(storage.offset[0] + storage.length[0]) <= lent.key.size
        return (
            VariableRow(address, text, shape, shape, 0, None, storage.offset, storage.length, None) if inside else None
        )
    made = chunks_of(located, lent, context, _CHUNKS)
    if made is None or text is None:
        return None
    return VariableRow(address, text, shape, (), 0, None, made.offset, made.length, None)


def _by_library(
    handle: Handle, address: str, context: Context, found: StoredVariable | None = None
) -> VariableRow | None:
    """Return a variable in a local file whose chunks, or all of its metadata, the HDF5 library finds."""
    if address.startswith(FIELD):
        return None

    def find_one(name: str) -> StoredVariable:
        return find.located(handle, name, context)

    try:
        return _row(found or find_one(address), handle, address, find_one, context)
    except (CfaggError, OSError, ValueError):
        return None


def _row(
    found: StoredVariable,
    handle: Handle,
    address: str,
    find_one: Callable[[str], StoredVariable | None],
    context: Context,
) -> VariableRow | None:
    """Return the row of a variable, or `None` if an index cannot represent it."""
    storage, shape = found.storage, found.header.shape
    if found.references is None or len(found.references):
        return None
    if not isinstance(storage, Chunked | Contiguous | ChunkTable):
        return None
    made = chunks_of(found, handle, context, _CHUNKS)
    if made is None:
        return None
    header = StoredHeader(
        found.path, found.header.dims, made.encoding, found.header.attributes, _identities(found, address, find_one)
    )
    text = write_header(header)
    if text is None:
        return None
    return VariableRow(address, text, shape, made.chunks, made.record, made.cell, made.offset, made.length, made.mask)


def _identities(
    found: StoredVariable, address: str, find_one: Callable[[str], StoredVariable | None]
) -> Mapping[str, Identity] | None:
    """Return the identity of each dimension's coordinates, if two dimensions could be interchanged unnoticed."""
    if not is_square(found.header.shape):
        return None
    where = address.rpartition("/")[0]
    identities = {}
    for dim in found.header.dims:
        try:
            one = find_one(f"{where}/{dim}" if where else dim)
        except CfaggError:
            one = None
        identities[dim] = Identity() if one is None else Identity.of(one.header.attributes)
    return identities
