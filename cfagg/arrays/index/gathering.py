"""A few elements of each of thousands of fragments, as an index tells where they stand.

Partitions that are alike, of one header, layout and selection, form a *pattern*: what is read of each, decoded and put
where is found out once, and a tight loop does it for all of them.  Whatever is unusual is left to the general way.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from cfagg.arrays.blocks import THREAD_BYTES, Work, run
from cfagg.arrays.index.addresses import addresses_of
from cfagg.arrays.index.lookup import IndexLookup, OpenedIndex
from cfagg.arrays.index.table import FileState, Index
from cfagg.arrays.plan import AxisPlan, Plan
from cfagg.cf import conform
from cfagg.cf.gather_numpy import fill_missing
from cfagg.conventions import limits
from cfagg.errors import AccessError, CfaggError
from cfagg.formats.codecs import stored_most
from cfagg.formats.values import filters
from cfagg.formats.values.storage import Contiguous, StoredVariable
from cfagg.model.chunks import ChunkTable, Encoding
from cfagg.storage import counters
from cfagg.storage.directory import Directory, RemoteDirectory, State
from cfagg.storage.files import FileKey
from cfagg.storage.urls import Url

if TYPE_CHECKING:
    from cfagg.arrays.subarray import Indices
    from cfagg.model import Aggregation, Grid
    from cfagg.storage.access import Access

__all__ = ["Sites", "gather_small"]

Int64 = npt.NDArray[np.int64]

#: Fewer partitions are read as usual; more elements of each are, too.
_FEWEST, _MOST = 4, 2**16

#: The most chunks of one fragment, and the most kinds of partitions, that are read so.
_CHUNKS, _PATTERNS = 16, 256

#: Bytes of a gap between elements that are rather read than skipped.
_GAP = 2**13

#: Bytes in memory of a chunk from which on threads decode at the same time; partitions and elements of one batch.
_SHARED, _BATCH, _ELEMENTS = 2**15, 64, 2**18

#: Partitions of one batch on other machines, and batches that wait for answers at the same time.
_FAR, _WAITING = 4, 16

#: So many elements one behind the other are worth a call of their own.
_ROW = 512


class Conforming(Protocol):
    """What this needs of the reader of an aggregation."""

    aggregation: Aggregation
    access: Access
    grid: Grid
    dtype: np.dtype[Any]
    workers: int | None
    word_size: int | None

    def prepared(
        self, i: int, located: StoredVariable, source: Sequence[Any]
    ) -> tuple[conform.Recipe, list[Indices], list[tuple[int, bool]], StoredVariable] | None:
        """Return how a selection of a partition is read and conformed."""

    def fill_cells(self, made: Plan, out: npt.NDArray[Any], cells: Sequence[int]) -> None:
        """Fill the places of some cells of a plan."""


class Sites(NamedTuple):
    """Where the fragment of each partition is: its directory, its name there, and its file and row in the index."""

    directories: list[str | Url]  # of those on another machine a URL in them
    names: list[str]
    #: For each partition: codes of directory and name, number of file and of variable; -1 where it is not so.
    directory: Int64
    name: Int64
    file: Int64
    row: Int64


class _Request(NamedTuple):
    """What is read of one chunk of each fragment of a pattern, and which elements come of it."""

    #: The number of the chunk, or -1 for a block of bytes.
    chunk: int
    #: Of a chunk without codecs: bytes from its begin, and how many.
    begin: int
    length: int
    #: Places of elements: in bytes of what is read, or in elements of the chunk; and in the block.
    source: Int64
    block: Int64 | slice
    #: Whether these are all elements that are read, in their order.
    is_whole: bool = False


@dataclass(frozen=True)
class _Pattern:
    """What is done for each of some partitions."""

    encoding: Encoding
    shape: tuple[int, ...]  # of a chunk; empty for a block of bytes
    requests: list[_Request]
    size: int  # elements of each
    recipe: conform.Recipe
    offsets: Int64  # where each element goes, from the first place of the partition
    is_row: bool  # whether these are one behind the other
    is_plain: bool  # whether what is read is the elements of a partition, one behind the other
    is_copied: bool  # whether they are those of the output, but for missing ones


def sites_of(reader: Conforming, index: Index) -> Sites:
    """Return where the fragments of an aggregation are, by the policy for its references."""
    partitions, access = reader.aggregation.partitions, reader.access
    wanted, number = addresses_of(reader.aggregation, reader.word_size)
    folders: dict[str, tuple[int, bool]] = {}
    directories: list[str | Url] = []
    names: list[str] = []
    table = np.full((len(wanted) + 1, 4), -1)
    home = os.path.dirname(access.parent)  # noqa: PTH120
    is_remote = isinstance(access.parent, Url)
    for n, (file, address) in enumerate(wanted):
        reference = partitions.files[file]
        folder, slash, name = reference.rpartition("/")
        path: str
        if is_remote or ":" in reference:
            url = _url(access, reference)
            if url is None:
                continue
            (folder, name), path, is_allowed = url.place, str(url), True
            if folder not in folders:
                folders[folder] = len(directories), True
                directories.append(url)
            place = folders[folder][0]
        else:
            if access.is_linked or name in ("", ".", ".."):
                continue
            if folder not in folders:
                real = os.path.realpath(os.path.join(home, folder or slash))  # noqa: PTH118
                folders[folder] = len(directories), access.is_within(real)
                directories.append(real)
            place, is_allowed = folders[folder]
            path = f"{directories[place].rstrip('/')}/{name}"
        i = index.files.get(path)
        k = -1 if i is None else index.row(i, address)
        if i is not None and k >= 0 and (is_allowed or _may_read(access, path, reference)):
            table[n] = place, len(names), i, k
            names.append(name)
    columns = table[number]
    return Sites(directories, names, *np.ascontiguousarray(columns.T))


def _url(access: Access, reference: str) -> Url | None:
    """Return the URL that a reference means, `None` where it means none, or one that may not be read."""
    try:
        found = access.resolve(reference)
    except CfaggError:
        return None
    return found if isinstance(found, Url) else None


def _may_read(access: Access, path: str, reference: str) -> bool:
    """Return whether the policy allows a file; it is not opened where it is a link."""
    try:
        access.judge(path, reference)
    except AccessError:
        return False
    return True


def gather_small(
    reader: Conforming, lookup: IndexLookup, sites: Sites, made: Plan, out: npt.NDArray[Any]
) -> tuple[Work | None, Sequence[int]]:
    """Return the work of filling what an index allows of `out`, and the cells of the plan that are left."""
    count = len(made)
    everything = range(count)
    opened = lookup.opened
    index = opened.index
    if (
        index is None
        or count < _FEWEST
        or out.size > _MOST * count
        or not out.flags.c_contiguous
        or out.dtype.kind not in "iuf"
        or not out.dtype.isnative
    ):
        return None, everything
    rows = np.unravel_index(np.arange(count), made.counts)
    cell = made.cell
    row = sites.row[cell]
    there = row >= 0
    if not there.any():
        return None, everything
    code = _codes(reader, index, made, rows, cell, row)
    code[~there] = -1
    distinct, first, inverse = np.unique(code, return_index=True, return_inverse=True)
    if len(distinct) > _PATTERNS:
        return None, everything
    steps = np.array(out.strides, np.int64) // out.itemsize
    base = np.zeros(count, np.int64)
    for axis, chosen, step in zip(made.axes, rows, steps.tolist(), strict=True):
        base += axis.out[chosen] * step
    far = [n for n, one in enumerate(sites.directories) if isinstance(one, Url)]
    works: list[Work] = []
    waits = False
    is_done = np.zeros(count, np.bool_)
    heavy = 0
    for n, (kind, k) in enumerate(zip(distinct.tolist(), first.tolist(), strict=True)):
        if kind < 0:
            continue
        pattern = _pattern(reader, index, sites, made, int(k), steps)
        if pattern is None:
            continue
        members = np.flatnonzero(inverse == n)
        members = members[np.lexsort((sites.name[cell[members]], sites.directory[cell[members]]))]
        is_done[members] = True
        is_far = bool((np.isin(sites.directory[cell[members]], far)).any())
        waits |= is_far
        nbytes = math.prod(pattern.shape) * pattern.encoding.dtype.itemsize if pattern.encoding.codecs else 0
        heavy += nbytes * len(pattern.requests) * len(members) if nbytes >= _SHARED else 0
        slow = partial(reader.fill_cells, made, out)
        batch, read = _FAR if is_far else _batch(pattern), _Batch(opened, sites, pattern, index)
        works += [partial(read, members[a : a + batch], cell, base, out, slow) for a in range(0, len(members), batch)]
    if not works:
        return None, everything
    if waits:
        # Threads that wait for answers take no processor.
        return partial(run, iter(works), THREAD_BYTES, _WAITING), np.flatnonzero(~is_done).tolist()
    # One after the other, unless what is decoded makes it worth while to wait for other threads.
    return partial(run, iter(works), heavy, reader.workers if heavy else 1, 1), np.flatnonzero(~is_done).tolist()


def _batch(pattern: _Pattern) -> int:
    """Return how many partitions are read together; elements that are scattered are held until then."""
    return _BATCH if pattern.is_row and pattern.size >= _ROW else max(min(_BATCH, _ELEMENTS // pattern.size), 1)


def _codes(reader: Conforming, index: Index, made: Plan, rows: Sequence[Int64], cell: Int64, row: Int64) -> Int64:
    """Return a number for each cell of a plan, the same for those that are read alike."""
    partitions = reader.aggregation.partitions
    code = index.kinds[row]
    code = _joined(code, partitions.layout[cell].astype(np.int64))
    code = _joined(code, partitions.part[cell].astype(np.int64) + 1)
    for axis, chosen, edges, sizes in zip(made.axes, rows, reader.grid.axes, reader.grid.matrix_shape, strict=True):
        if len(axis) > 1:
            code = _joined(code, _alike(axis, edges, sizes)[chosen])
    return code


def _alike(axis: AxisPlan, edges: Any, count: int) -> Int64:
    """Return a number for each row of an axis, the same for those with the same place in cells of one length."""
    if axis.index is not None:
        every: Int64 = np.arange(len(axis))
        return every
    code = _joined(axis.start - axis.start.min(), axis.count)
    if isinstance(edges, np.ndarray):
        return _joined(code, np.diff(edges)[axis.cell])
    return _joined(code, (axis.cell == count - 1).astype(np.int64))


def _joined(one: Int64, other: Int64) -> Int64:
    """Return a number for each pair of numbers."""
    if other.size and (other == other[0]).all():
        return one
    codes = np.unique(other, return_inverse=True)[1]
    pairs = np.unique(one, return_inverse=True)[1] * len(other) + codes
    joined: Int64 = np.unique(pairs, return_inverse=True)[1].astype(np.int64)
    return joined


def _pattern(reader: Conforming, index: Index, sites: Sites, made: Plan, k: int, steps: Int64) -> _Pattern | None:
    """Return what is done for all partitions that are read as the one of cell `k` of the plan."""
    i = int(made.cell[k])
    file, row = int(sites.file[i]), int(sites.row[i])
    key = FileKey(
        index.where(file), 0, *(int(c[file]) for c in (index.inode, index.size, index.mtime_ns, index.ctime_ns))
    )
    stored = index.stored(row, key, index.address[row])
    if stored is None or stored.header.dtype.kind not in "iuf":
        return None
    if reader.aggregation.bounds_of is not None and "units" not in stored.header.attributes:
        return None
    try:
        found = reader.prepared(i, stored, made.source(k))
    except CfaggError:
        return None  # said by the general way
    if found is None:
        return None
    recipe, indices, feeds, stored = found
    if recipe.dates is not None or any(a < 0 and n > 1 for a, n in zip(recipe.axes, _lengths(made, k), strict=True)):
        return None
    sizes = [len(one) for one in indices]
    size = math.prod(sizes)
    if size > _MOST or not size:
        return None
    requests = _requests(stored, [np.asarray(one, np.int64) for one in indices])
    if requests is None:
        return None
    chunk = stored.chunks or ()
    encoding = stored.storage.encoding  # type: ignore[union-attr]
    plain = replace(recipe, axes=(0,), flips=(False,), extra=())
    offsets = _offsets(made, k, sizes, feeds, steps)
    is_row = bool((offsets == np.arange(size)).all())
    simple = [_simple(one, chunk, encoding) for one in requests]
    is_plain = not encoding.codecs and len(simple) == 1 and simple[0].is_whole and simple[0].block == slice(0, size)
    return _Pattern(
        encoding, chunk, simple, size, plain, offsets, is_row, is_plain, _is_copied(recipe, encoding, reader.dtype)
    )


def _is_copied(recipe: conform.Recipe, encoding: Encoding, dtype: np.dtype[Any]) -> bool:
    """Return whether values go into the output as they are, but for missing ones."""
    plain = recipe.dates is None and not recipe.whole and recipe.clash is None and recipe.rule.light
    return encoding.dtype == dtype and (recipe.identity or plain)


def _simple(request: _Request, chunk: tuple[int, ...], encoding: Encoding) -> _Request:
    """Return a request that says whether its elements are as they come."""
    step = 1 if encoding.codecs else encoding.dtype.itemsize
    count = math.prod(chunk) if encoding.codecs else request.length // step
    whole = len(request.source) == count and bool((request.source == np.arange(count) * step).all())
    block = request.block
    if isinstance(block, np.ndarray) and (np.diff(block) == 1).all():
        block = slice(int(block[0]), int(block[-1]) + 1)
    return request._replace(block=block, is_whole=whole)


def _lengths(made: Plan, k: int) -> list[int]:
    return [int(axis.count[row]) for axis, row in zip(made.axes, made.rows(k), strict=True)]


def _offsets(made: Plan, k: int, sizes: Sequence[int], feeds: Sequence[tuple[int, bool]], steps: Int64) -> Int64:
    """Return where in the output each element of a block goes, from the place of its partition."""
    offsets = np.zeros(sizes, np.int64)
    for axis, (d, flip) in enumerate(feeds):
        if d < 0:
            continue
        row = made.rows(k)[d]
        target = made.axes[d].target(row)
        if isinstance(target, slice):
            target = np.arange(made.axes[d].size)[target]
        places = (target - made.axes[d].out[row]) * steps[d]
        shape = [1] * len(sizes)
        shape[axis] = -1
        offsets += (places[::-1] if flip else places).reshape(shape)
    return offsets.reshape(-1)


def _requests(stored: StoredVariable, indices: list[Int64]) -> list[_Request] | None:
    """Return what is read of a fragment for some elements along each of its dimensions."""
    storage, shape = stored.storage, stored.header.shape
    itemsize = stored.header.dtype.itemsize
    if isinstance(storage, Contiguous):
        steps = [itemsize * math.prod(shape[d + 1 :]) for d in range(len(shape))]
        if storage.record and steps:
            steps[0] = storage.record
        return _spans(-1, _flat(indices, steps), itemsize)
    chunk = stored.chunks
    if not isinstance(storage, ChunkTable) or chunk is None or storage.cell.size != storage.grid.size:
        return None
    nbytes = math.prod(chunk) * itemsize
    if nbytes > limits.MAX_CHUNK or storage.encoding.decode is not None:
        return None
    counts = storage.grid.matrix_shape
    cells = _flat(
        [one // c for one, c in zip(indices, chunk, strict=True)],
        [math.prod(counts[d + 1 :]) for d in range(len(counts))],
    )
    within = _flat(
        [one % c for one, c in zip(indices, chunk, strict=True)],
        [math.prod(chunk[d + 1 :]) for d in range(len(chunk))],
    )
    touched, inverse = np.unique(cells, return_inverse=True)
    if len(touched) > _CHUNKS:
        return None
    found: list[_Request] = []
    for n, cell in enumerate(touched.tolist()):
        block = np.flatnonzero(inverse == n)
        if storage.encoding.codecs:
            found.append(_Request(cell, 0, 0, within[block], block))
            continue
        spans = _spans(cell, within[block] * itemsize, itemsize)
        if spans is None:
            return None
        found += [one._replace(block=block[one.block]) for one in spans]
    return found if len(found) <= _CHUNKS else None


def _flat(indices: Sequence[Int64], steps: Sequence[int]) -> Int64:
    """Return the place of each element of a block, in C order."""
    places = np.zeros((), np.int64)
    for one, step in zip(indices, steps, strict=True):
        places = np.add.outer(places, one * step)
    return places.reshape(-1)


def _spans(chunk: int, places: Int64, itemsize: int) -> list[_Request] | None:
    """Return reads of elements at some bytes: neighbours come together."""
    order = np.argsort(places, kind="stable")
    ascending = places[order]
    cuts = np.flatnonzero(np.diff(ascending) > _GAP) + 1
    if len(cuts) >= _CHUNKS:
        return None
    found = []
    for part in np.split(order, cuts):
        begin, end = int(places[part[0]]), int(places[part[-1]]) + itemsize
        found.append(_Request(chunk, begin, end - begin, places[part] - begin, part))
    return found


class _Batch:
    """Reads a pattern of some partitions, and gives those that cannot be read so to `slow`."""

    def __init__(self, opened: OpenedIndex, sites: Sites, pattern: _Pattern, index: Index) -> None:
        self.opened, self.sites, self.pattern, self.index = opened, sites, pattern, index

    def __call__(
        self,
        members: Int64,
        cell: Int64,
        base: Int64,
        out: npt.NDArray[Any],
        slow: Callable[[Sequence[int]], None],
    ) -> None:
        """Fill the places of the `members` of a plan, whose partitions are `cell`, in the output."""
        pattern, flat = self.pattern, out.reshape(-1)
        starts = base[members]
        if pattern.is_row and pattern.size >= _ROW:
            failed = self._rows(cell[members], starts, flat)
        else:
            failed = self._scattered(cell[members], starts, flat)
        counters.add(files=len(members) - len(failed))
        if failed:
            slow(members[failed].tolist())

    def _rows(self, partitions: Int64, starts: Int64, flat: npt.NDArray[Any]) -> list[int]:
        """Fill a run of the output for each partition; return the numbers of those that could not be read so."""
        pattern, size = self.pattern, self.pattern.size
        places = [flat[a : a + size] for a in starts.tolist()]
        is_copied, recipe = pattern.is_copied, pattern.recipe
        # What is decoded into the same memory again stays in the processor's cache.
        rows = places if is_copied else [np.empty(size, pattern.encoding.dtype)] * len(places)
        failed = []
        for n, data in enumerate(self._data(partitions, rows)):
            if data is None or not self._decode(data, rows[n]):
                failed.append(n)
            elif is_copied:
                if not (recipe.identity or fill_missing(rows[n].view(recipe.target), recipe.rule)):
                    failed.append(n)
            else:
                try:
                    conform.apply(recipe, rows[n], places[n], where="")
                except CfaggError:
                    failed.append(n)  # the general way says which value of which partition it is
        return failed

    def _scattered(self, partitions: Int64, starts: Int64, flat: npt.NDArray[Any]) -> list[int]:
        """Put the elements of each partition in their places, all at once; return as `_rows`."""
        pattern = self.pattern
        block = np.empty((len(partitions), pattern.size), pattern.encoding.dtype)
        good = np.zeros(len(partitions), np.bool_)
        for n, data in enumerate(self._data(partitions, block)):
            good[n] = data is not None and self._decode(data, block[n])
        if not good.all():
            block, starts = block[good], starts[good]
        values = np.empty(block.size, flat.dtype)
        try:
            conform.apply(pattern.recipe, block.reshape(-1), values, where="")
        except CfaggError:
            return list(range(len(partitions)))
        flat[starts[:, None] + pattern.offsets] = values.reshape(block.shape)
        failed: list[int] = np.flatnonzero(~good).tolist()
        return failed

    def _data(self, partitions: Int64, rows: Any) -> Iterator[list[bytes] | None]:
        """Yield what is read of each partition, `None` where it is not as the index says.

        Elements that come as they are wanted are read into `rows` at once.
        """
        sites, index = self.sites, self.index
        opened = self.opened
        file = sites.file[partitions]
        states = self._states(file)
        wanted = self._wanted(sites.row[partitions])
        names = [sites.names[k] for k in sites.name[partitions].tolist()]
        here, is_plain = -1, self.pattern.is_plain
        directory: Directory | RemoteDirectory | None = None
        try:
            for i, place, name, state, ranges, row in zip(
                file.tolist(), sites.directory[partitions].tolist(), names, states, wanted, rows, strict=True
            ):
                if place != here:
                    if directory is not None:
                        directory.close()
                    here, directory = place, _opened(sites.directories[place])
                known = opened.states.get(i)
                if directory is None or ranges is None:
                    yield None
                    continue
                if isinstance(directory, RemoteDirectory):
                    yield directory.read(name, (state[0], index.etag[i]), ranges, row if is_plain else None)
                    continue
                doubt = partial(_doubt, opened, index, i)
                yield directory.read(name, known[:4] if known else state, ranges, doubt, row if is_plain else None)
        finally:
            if directory is not None:
                directory.close()

    def _states(self, file: Int64) -> list[State]:
        index = self.index
        columns = (index.size, index.mtime_ns, index.ctime_ns, index.inode)
        return list(zip(*(column[file].tolist() for column in columns), strict=True))

    def _wanted(self, row: Int64) -> list[list[tuple[int, int]] | None]:
        """Return the ranges (length, offset) of each variable."""
        index, pattern = self.index, self.pattern
        first = index.offset.bounds[:-1][row]
        most = stored_most(math.prod(pattern.shape) * pattern.encoding.dtype.itemsize)
        found: list[list[tuple[int, int]] | None] = [[] for _ in row]
        for request in pattern.requests:
            at = first + max(request.chunk, 0)
            offset, stored = index.offset.values[at], index.length.values[at]
            if pattern.encoding.codecs:
                length, fits = stored, stored <= most
            else:
                offset, length = offset + request.begin, np.full(len(row), request.length)
                fits = request.begin + length <= stored
            for own, one in zip(found, zip(length.tolist(), offset.tolist(), strict=True), strict=True):
                if own is not None:
                    own.append(one)
            for n in np.flatnonzero(~fits).tolist():
                found[n] = None
        if index.mask.values.size and (index.mask.counts[row] != 0).any():
            # A chunk that did not pass all codecs is decoded by the general way.
            for n in np.flatnonzero(index.mask.counts[row]).tolist():
                found[n] = None
        return found

    def _decode(self, data: list[bytes], block: npt.NDArray[Any]) -> bool:
        """Put the elements of one partition in their places; return whether that was possible."""
        encoding, shape = self.pattern.encoding, self.pattern.shape
        dtype = encoding.dtype
        if self.pattern.is_plain:
            return True
        try:
            for request, stored in zip(self.pattern.requests, data, strict=True):
                if encoding.codecs:
                    places = None if request.is_whole else request.source
                    own = block[request.block] if request.is_whole and isinstance(request.block, slice) else None
                    found = filters.elements(stored, encoding, shape, places, own)
                    if found is own:
                        continue
                elif request.is_whole:
                    found = np.frombuffer(stored, dtype)
                else:
                    source = request.source[:, None] + np.arange(dtype.itemsize)
                    found = np.frombuffer(stored, np.uint8)[source].view(dtype)[:, 0]
                block[request.block] = found
        except filters.DamagedError:
            return False
        return True


def _opened(path: str | Url) -> Directory | RemoteDirectory | None:
    if isinstance(path, Url):
        return RemoteDirectory(path)
    try:
        return Directory(path)
    except AccessError:
        return None


def _doubt(opened: OpenedIndex, index: Index, i: int, fd: int, state: State) -> bool:
    """Return whether what describes the variables of an open file in another state is what it was."""
    import hashlib

    from cfagg.arrays.index.building import DIGEST

    if index.digest[i] is None or index.etag[i] is not None:
        return False
    digest = hashlib.blake2b(digest_size=DIGEST)
    ranges = index.ranges[i].tolist()
    for a, b in zip(ranges[::2], ranges[1::2], strict=True):
        part = os.pread(fd, b - a, a)
        if len(part) != b - a:
            return False
        digest.update(part)
    if digest.digest() != index.digest[i]:
        return False
    opened.states[i] = FileState(*state)
    return True
