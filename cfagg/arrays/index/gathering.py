"""Reading a few elements of each of thousands of fragments, located by an index.

Partitions with the same header, layout and selection form a *pattern*: the bytes to read, their decoding and the places
of elements are determined once, and a tight loop handles them all.  Anything unusual is left to the general method.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.arrays.blocks import THREAD_BYTES, Work, run
from cfagg.arrays.index.digests import DIGEST
from cfagg.arrays.index.lookup import IndexLookup, OpenedIndex
from cfagg.arrays.index.patterns import MOST, Pattern, Request, codes_of, pattern_of
from cfagg.arrays.index.rows import FileState
from cfagg.arrays.index.sites import Conforming, Sites
from cfagg.arrays.index.table import Index
from cfagg.arrays.plan import Plan
from cfagg.cf import conform
from cfagg.cf.gather_numpy import fill_missing
from cfagg.errors import AccessError, CfaggError, LimitError
from cfagg.formats.codecs import stored_most
from cfagg.formats.values import filters
from cfagg.model.chunks import Encoding
from cfagg.storage import counters
from cfagg.storage.access import NamedAccess
from cfagg.storage.directory import Directory, RemoteDirectory, State
from cfagg.storage.urls import Url

__all__ = ["gather_small"]

Int64 = npt.NDArray[np.int64]

#: Puts the elements from the bytes of a chunk into an array.
type _Put = Callable[[bytes, npt.NDArray[Any]], object]

#: Fewer partitions, or those of more patterns, are read by the general method.
_FEWEST, _PATTERNS = 4, 256

#: Decoded bytes of a chunk from which threads decode in parallel; partitions and elements of one batch.
_SHARED, _BATCH, _ELEMENTS = 2**15, 64, 2**18

#: Partitions of one remote batch, and concurrent batches.
_FAR, _WAITING = 4, 16

#: Number of contiguous elements that is worth a separate call.
_ROW = 512


def gather_small(
    reader: Conforming, lookup: IndexLookup, sites: Sites, made: Plan, out: npt.NDArray[Any]
) -> tuple[Work | None, Sequence[int]]:
    """Return the work of filling `out` as far as an index allows, and the remaining cells of the plan."""
    count = len(made)
    everything = range(count)
    opened = lookup.opened
    index = opened.index
    if (
        index is None
        or count < _FEWEST
        or out.size > MOST * count
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
    code = codes_of(reader, index, made, rows, cell, row)
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
        pattern = pattern_of(reader, index, sites, made, int(k), steps)
        if pattern is None:
            continue
        members = np.flatnonzero(inverse == n)
        members = members[np.lexsort((sites.name[cell[members]], sites.directory[cell[members]]))]
        is_done[members] = True
        is_far = bool((np.isin(sites.directory[cell[members]], far)).any())
        waits |= is_far
        nbytes = math.prod(pattern.shape) * pattern.encoding.dtype.itemsize if not pattern.encoding.is_plain else 0
        heavy += nbytes * len(pattern.requests) * len(members) if nbytes >= _SHARED else 0
        slow = partial(reader.fill_cells, made, out)
        batch = _FAR if is_far else batch_of(pattern)
        read = _Batch(opened, sites, pattern, index, is_scanned=isinstance(reader.access, NamedAccess))
        works += [partial(read, members[a : a + batch], cell, base, out, slow) for a in range(0, len(members), batch)]
    if not works:
        return None, everything
    if waits:
        # Threads that wait for responses use no processor.
        return partial(run, iter(works), THREAD_BYTES, _WAITING), np.flatnonzero(~is_done).tolist()
    # One after the other, unless there is enough to decode that threads are worth while.
    return partial(run, iter(works), heavy, reader.workers if heavy else 1, 1), np.flatnonzero(~is_done).tolist()


def batch_of(pattern: Pattern) -> int:
    """Return the number of partitions that are read together; scattered elements are kept until then."""
    return _BATCH if pattern.is_row and pattern.size >= _ROW else max(min(_BATCH, _ELEMENTS // pattern.size), 1)


class _Batch:
    """Reads a pattern of some partitions, and passes those that cannot be read this way to `slow`.

    If files were scanned, `slow` judges those in another state than that in the index: their coordinates may differ.
    """

    def __init__(
        self, opened: OpenedIndex, sites: Sites, pattern: Pattern, index: Index, *, is_scanned: bool = False
    ) -> None:
        self.opened, self.sites, self.pattern, self.index, self.is_scanned = opened, sites, pattern, index, is_scanned
        self._puts = [_put_of(one, pattern.encoding, pattern.shape) for one in pattern.requests]
        self._blocks = [one.block for one in pattern.requests]

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
        """Fill a run of the output for each partition; return the indices of those that could not be read this way."""
        pattern, size = self.pattern, self.pattern.size
        places = [flat[a : a + size] for a in starts.tolist()]
        is_copied, recipe = pattern.is_copied, pattern.recipe
        # Memory that is reused for decoding stays in the processor's cache.
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
                    failed.append(n)  # the general method reports the value and the partition
        return failed

    def _scattered(self, partitions: Int64, starts: Int64, flat: npt.NDArray[Any]) -> list[int]:
        """Put the elements of each partition in their places, all at once; return the same as `_rows`."""
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
        """Yield the bytes read of each partition, or `None` if it does not match the index.

        Elements that need no decoding or reordering are read into `rows` directly.
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
                if directory is None or ranges is None:
                    yield None
                    continue
                if isinstance(directory, RemoteDirectory):
                    yield directory.read(name, (state[0], index.etag[i]), ranges, row if is_plain else None)
                    continue
                doubt = _never if self.is_scanned else partial(_doubt, opened, index, i)
                yield directory.read(name, state, ranges, doubt, row if is_plain else None)
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
            if not pattern.encoding.is_plain:
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
            # A chunk that did not pass all codecs is left to the general method.
            for n in np.flatnonzero(index.mask.counts[row]).tolist():
                found[n] = None
        return found

    def _decode(self, data: list[bytes], block: npt.NDArray[Any]) -> bool:
        """Put the elements of one partition in their places; return whether that was possible."""
        if self.pattern.is_plain:
            return True
        try:
            for put, where, stored in zip(self._puts, self._blocks, data, strict=True):
                if isinstance(where, slice):
                    put(stored, block[where])
                    continue
                found = np.empty(len(where), block.dtype)
                put(stored, found)
                block[where] = found
        except (filters.DamagedError, LimitError):
            return False
        return True


def _put_of(request: Request, encoding: Encoding, shape: tuple[int, ...]) -> _Put:
    """Return a function that puts the elements from bytes that were read into an array."""
    if encoding.decode is not None:
        decode, places = encoding.decode, slice(None) if request.is_whole else request.source

        def put_field(data: bytes, out: npt.NDArray[Any]) -> None:
            out[:] = decode(np.frombuffer(data, np.uint8), 0).reshape(-1)[places]

        return put_field
    if encoding.codecs:
        return filters.placing(encoding, shape, None if request.is_whole else request.source)

    def put(data: bytes, out: npt.NDArray[Any]) -> None:
        memory = out.view(np.uint8)
        if request.is_whole:
            memory[:] = np.frombuffer(data, np.uint8)
        else:
            source = request.source[:, None] + np.arange(out.itemsize)
            memory[:] = np.frombuffer(data, np.uint8)[source.reshape(-1)]

    return put


def _opened(path: str | Url) -> Directory | RemoteDirectory | None:
    if isinstance(path, Url):
        return RemoteDirectory(path)
    try:
        return Directory(path)
    except AccessError:
        return None


def _never(_: int, __: State) -> bool:
    return False


def _doubt(opened: OpenedIndex, index: Index, i: int, fd: int, state: State) -> bool:
    """Return whether the metadata of the variables of an open file are unchanged although its state differs."""
    import hashlib

    known = opened.states.get(i)
    if known is not None and known[:4] == state:
        return True
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
