"""Index pages: a lookup searches a directory in memory and reads one or two pages.

The stored form is described in `cfagg.observations.indexes.pages_writing`.
"""

from __future__ import annotations

import re
import struct
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from cfagg.errors import FragmentReadError, SourceError, StaleError
from cfagg.formats.fastzlib import crc32
from cfagg.kernels import lookup
from cfagg.kernels.lookup import HEAD, PART, page_words, unpack_page
from cfagg.observations.arrays import read_json
from cfagg.observations.indexes.pages_writing import FORMAT, NAME, PAGE
from cfagg.observations.indexes.protocol import Entries, Int64, Store, as_interval, checked, columns_of, together
from cfagg.observations.indexes.table import Block, Searched, is_there

if TYPE_CHECKING:
    from cfagg.storage.store import Source

__all__ = ["Directory", "PagesIndex", "attributes_of", "damaged", "has_pages", "stored_attributes"]

#: Number of searches in packed pages after which the search is compiled: if the compiler must be loaded first, which
#: takes as long as these searches, and if it is already loaded.
_MANY, _SOME = 20_000, 500
#: Bytes of pages that are searched together, and the largest gap between pages that is read rather than skipped.
_TOGETHER, _GAP = 2**20, 2**14
#: Bytes of cached pages, enough for some ten million irregular dates, and the overhead of each page.
_CACHED, _EACH = 2**25, 2**10
#: The header of a page.
_HEAD = struct.Struct(f"<{HEAD}q")
#: Approximate number of entries of a block.
_BLOCK = 2**17

#: A cached page: its header, and its words unless it only has a header.
_Page = tuple[list[int], Int64 | None]


class PagesIndex(Searched):
    """Pages of packed entries (see `Index` for the methods)."""

    kind, name = "pages", NAME

    def __init__(self, store: Store) -> None:
        self._source, self._where = store.source, store.path
        self._found = attributes_of(store)
        if self._found["identity"] != store.identity or self._found["rows"] != store.rows:
            raise StaleError(
                f"{store.path}: its {NAME} were built from {self._found['rows']:,} rows, but the store has changed; "
                "rebuild them with build_pages (cfagg obs index)"
            )
        self.entries: int = self._found["entries"]
        self.rows: int = self._found["rows"]
        self.first: int | None = self._found["first"]
        self.last: int | None = self._found["last"]
        self._load()

    def __repr__(self) -> str:
        return f"<PagesIndex of {self._where}: {self.entries:,} dates of {self.rows:,} rows>"

    def _load(self) -> None:
        """Read the directory."""
        self._forget()
        self._searched = 0
        self._directory = Directory(self._source, self._found)
        self._key, self._firsts = self._directory.key, self._directory.firsts

    def _forget(self, taken: int = 0) -> None:
        """Empty the caches, using new dictionaries as threads may be reading the old; `taken` bytes are reserved."""
        self._cached: dict[int, _Page] = {}
        self._parts: dict[tuple[int, int], Block] = {}
        self._room = _CACHED - taken

    def __getstate__(self) -> dict[str, Any]:
        # The directory takes megabytes, so it is read again after unpickling.
        names = ("_source", "_where", "_found", "entries", "rows", "first", "last")
        return {name: self.__dict__[name] for name in names}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if stored_attributes(self._source) != self._found:
            raise StaleError(f"{self._where}: its {NAME} have been rewritten since it was opened; open it again")
        self._load()

    def find(self, lo: int, hi: int) -> tuple[int, int]:
        """Return the first row, and the row after the last, with ``lo <= epoch < hi``."""
        lo, hi = as_interval(lo, hi)
        page = self._held(lo)
        if hi <= lo:
            start = self._row(lo, page)
            return start, start
        last = self._held(hi)
        if last == page + 1 and page >= 0 and page not in self._cached and last not in self._cached:
            self._read_pages(page, 2)
        start, stop = self._row(lo, page), self._row(hi, last)
        if not 0 <= start <= stop <= self.rows:
            raise self._damaged(f"it gives rows {start:,} to {stop:,} of {self.rows:,}")
        return start, stop

    def find_many(self, lo: npt.ArrayLike, hi: npt.ArrayLike) -> Int64:
        """Return ranges of rows for many intervals, shape (m, 2)."""
        found = super().find_many(lo, hi)
        if found.size and not 0 <= found.min() <= found.max() <= self.rows:
            raise self._damaged(f"it gives rows {found.min():,} to {found.max():,} of {self.rows:,}")
        return found

    def entries_between(self, lo: int, hi: int) -> Entries:
        """Return the entries with ``lo <= epoch < hi``."""
        lo, hi = as_interval(lo, hi)
        # Entries of one epoch may be in several pages.
        first = max(0, int(self._firsts.searchsorted(lo)) - 1)
        stop = int(self._firsts.searchsorted(hi))
        blocks = list(self._between(first, stop, lo, hi)) if lo < hi else []
        return together(blocks) if blocks else columns_of(np.empty((0, 3), np.int64))

    def blocks(self) -> Iterator[Entries]:
        """Yield all entries in blocks."""
        if self.last is not None and self.first is not None:
            yield from self._between(0, len(self._firsts), self.first, self.last + 1)

    def _check(self, full: bool) -> None:
        if full:
            found = checked(self.blocks(), f"{self._where}: {NAME}", self.rows, strict=False)
            count = sum(len(epoch) for epoch, _, _ in found)
            if count != self.entries:
                raise self._damaged(f"it has {count:,} entries, not {self.entries:,}")
            return
        pages = len(self._firsts)
        for page in np.unique(np.linspace(0, pages, 17, dtype=np.int64))[:-1].tolist():
            head = self._page(page)[0]
            after = self._page(page + 1)[0] if page + 1 < pages else [0, 0, self.rows]
            if head[8] != after[2]:
                raise self._damaged(f"page {page:,} ends at row {head[8]:,}, but the next begins at {after[2]:,}")

    def _held(self, epoch: int) -> int:
        """Return the last page that begins before an epoch, where rows of the epoch may start, or -1."""
        return int(self._firsts.searchsorted(epoch)) - 1

    def _row(self, epoch: int, page: int) -> int:
        """Return the first row that is not before an epoch, given the page of `_held`."""
        if page < 0:
            return 0
        head, words = self._page(page)
        if epoch > head[7]:
            return head[8]
        if words is None:
            return head[2] + (epoch - head[1] + head[4] - 1) // head[4] * head[5]
        self._searched += 1
        kernels = _kernels(self._searched)
        if kernels is not lookup:
            return int(kernels.row_in_page(words, epoch))
        part = int(words[HEAD : HEAD + (head[3] - 1) // PART].searchsorted(epoch))
        return (self._parts.get((page, part)) or self._unpack(page, words, part)).row_of(epoch)

    def _unpack(self, page: int, words: Int64, part: int) -> Block:
        """Return unpacked entries of a page, and cache them for repeated or nearby searches."""
        epoch, start = unpack_page(words, part)
        block = Block(epoch, start[:-1] - start[0], int(start[0]), int(start[-1]))
        self._take(block.nbytes)
        self._parts[page, part] = block
        return block

    def _take(self, nbytes: int) -> None:
        """Reserve space in the caches."""
        self._room -= nbytes
        if self._room < 0:
            self._forget(nbytes)

    def _page(self, page: int) -> _Page:
        """Return a page."""
        return self._cached.get(page) or self._read_pages(page, 1)

    def _read_pages(self, page: int, count: int) -> _Page:
        """Read consecutive pages, cache them, and return the first."""
        first, *ends = self._directory.bytes_of(page, count)
        raw = self._source.read_range(self._key, first, ends[-1] - first)
        if len(raw) != ends[-1] - first:
            raise self._damaged(f"page {page:,} is missing")
        view, at = memoryview(raw), 0
        read: dict[int, _Page] = {}
        for number, end in enumerate(ends, page):
            size = end - first - at
            head = list(_HEAD.unpack_from(raw, at))
            right = page_words(head) * 8 == size and head[1] == self._firsts[number]
            if not right or head[0] != crc32(view[at + 8 : at + size]):
                raise self._damaged(f"page {number:,} does not have the bytes that were written")
            read[number] = (head, np.frombuffer(raw, "<i8", size // 8, at) if head[6] else None)
            at += size
        self._take(len(raw) + count * _EACH)
        self._cached.update(read)
        return read[page]

    def _rows(self, wanted: Int64) -> Int64:
        """Return for increasing epochs the first rows that are not before them."""
        out = np.zeros(len(wanted), np.int64)
        held = self._firsts.searchsorted(wanted) - 1
        begin = int(held.searchsorted(0))
        pages, first = np.unique(held[begin:], return_index=True)
        bounds = np.append(first, len(wanted) - begin) + begin
        offsets, sizes = self._directory.places(pages)
        self._searched += int(np.count_nonzero(sizes > 8 * HEAD))
        search = _kernels(self._searched).rows_in_pages
        for a, b in _batches(sizes):
            words, starts = self._read(offsets[a:b], sizes[a:b], pages[a:b])
            search(words, starts, bounds[a : b + 1], wanted, out)
        return out

    def _read(self, offsets: Int64, sizes: Int64, pages: Int64) -> tuple[Int64, Int64]:
        """Return the words of pages in sequence, and the start of each page."""
        ends = offsets + sizes
        new = np.ones(len(offsets), bool)
        # Small gaps between pages are read along with them.
        new[1:] = offsets[1:] - ends[:-1] > _GAP
        first = np.flatnonzero(new)
        begin = offsets[first]
        length = ends[np.append(first[1:], len(offsets)) - 1] - begin
        raw = b"".join(self._source.read_ranges(self._key, list(zip(begin.tolist(), length.tolist(), strict=True))))
        if len(raw) != length.sum():
            raise self._damaged(f"page {pages[0]:,} or one after it is missing")
        span = np.cumsum(new) - 1
        starts = (offsets - begin[span] + (np.cumsum(length) - length)[span]) // 8
        words = np.frombuffer(raw, "<i8")
        heads = [words[starts + i] for i in range(HEAD)]
        view = memoryview(raw)
        places = zip((starts * 8).tolist(), sizes.tolist(), strict=True)
        found = [crc32(view[at + 8 : at + size]) for at, size in places]
        wrong = (page_words(heads) * 8 != sizes) | (heads[1] != self._firsts[pages]) | (heads[0] != found)
        if wrong.any():
            raise self._damaged(f"page {pages[0]:,} or one after it does not have the bytes that were written")
        return words, starts

    def _between(self, first: int, stop: int, lo: int, hi: int) -> Iterator[Entries]:
        """Yield the entries of some pages with ``lo <= epoch < hi``."""
        held: list[Entries] = []
        for page in range(first, stop):
            head, words = self._page(page)
            if words is None:
                yield from _flush(held)
                yield from _of_run(head, lo, hi)
                continue
            epoch, start = unpack_page(words)
            a, b = np.searchsorted(epoch, (lo, hi)).tolist()
            if a < b:
                held.append((epoch[a:b], start[a:b], np.diff(start[a : b + 1])))
            if len(held) * PAGE >= _BLOCK:
                yield from _flush(held)
        yield from _flush(held)

    def _damaged(self, problem: str) -> FragmentReadError:
        return damaged(self._where, problem)


_compiled: ModuleType | None = None


def _kernels(searches: int) -> ModuleType:
    """Return the module that searches pages, the compiled one after many searches."""
    global _compiled  # noqa: PLW0603
    if _compiled is None and searches > (_SOME if "numba" in sys.modules else _MANY):
        from cfagg.kernels import lookup_compiled

        _compiled = lookup_compiled
    return lookup if _compiled is None else _compiled


def _batches(sizes: Int64) -> Iterator[tuple[int, int]]:
    """Yield the ranges of pages that are searched together."""
    batch = np.cumsum(sizes + _GAP) // _TOGETHER
    ends = np.append(np.flatnonzero(np.diff(batch)) + 1, len(sizes))
    start = 0
    for end in ends.tolist():
        if end > start:
            yield start, end
        start = end


def _flush(held: list[Entries]) -> Iterator[Entries]:
    """Yield collected entries as one block."""
    if held:
        entries = together(held)
        held.clear()
        yield entries


def _of_run(head: list[int], lo: int, hi: int) -> Iterator[Entries]:
    """Yield the entries of a page of equal steps with ``lo <= epoch < hi``, in blocks."""
    first, row, count, step, length = head[1:6]
    if step:
        a, b = (min(max(-((first - epoch) // step), 0), count) for epoch in (lo, hi))
    else:
        a, b = (0, count) if lo <= first < hi else (0, 0)
    for i in range(a, b, _BLOCK):
        number = np.arange(i, min(b, i + _BLOCK), dtype=np.int64)
        yield first + number * step, row + number * length, np.full(len(number), length)


#: Number of pages that are checked together.
_SLAB = 2**16


class Directory:
    """The locations of pages; `firsts` are their first epochs."""

    def __init__(self, source: Source, found: dict[str, Any]) -> None:
        v3 = is_there(source, f"{NAME}/zarr.json")
        self.key = f"{NAME}/{found['name']}/{'c/0' if v3 else '0'}"
        stored = f"{NAME}/directory_{found['directory_crc32']:08x}/{'c/0/0' if v3 else '0.0'}"
        n = found["pages"] + 1
        if source.size(stored) != 16 * n:
            raise damaged(source.path, f"its directory does not have the {16 * n:,} bytes of {n - 1:,} pages")
        firsts = source.read_range(stored, 0, 8 * n)
        offsets = source.read_range(stored, 8 * n, 8 * n)
        if len(firsts) != len(offsets) or crc32(offsets, crc32(firsts)) != found["directory_crc32"]:
            raise damaged(source.path, "its directory has a checksum that differs from its bytes")
        self.firsts: Int64 = np.frombuffer(firsts, "<i8", n - 1)
        places: Int64 = np.frombuffer(offsets, "<i8")
        right = places[0] == 0
        # Slab by slab, since large temporary arrays fragment the memory.
        for a in range(0, n, _SLAB):
            sizes = np.diff(places[a : a + _SLAB + 1])
            right = right and not ((sizes < 8 * HEAD) | (sizes % 8 != 0)).any()
            right = right and not (np.diff(self.firsts[a : a + _SLAB + 1]) < 0).any()
        if not right:
            raise damaged(source.path, "its directory is not in order")
        end = int(places[-1])
        if source.size(self.key) != end:
            raise damaged(source.path, f"its pages do not have the {end:,} bytes that the directory gives")
        # In words of eight bytes, 32 bits are enough for 32 GiB.
        kind = np.uint32 if end // 8 < 2**32 else np.int64
        self._words: npt.NDArray[Any] = np.empty(n, kind)
        for a in range(0, n, _SLAB):
            self._words[a : a + _SLAB] = places[a : a + _SLAB] // 8

    def __len__(self) -> int:
        return len(self.firsts)

    def bytes_of(self, page: int, count: int) -> list[int]:
        """Return the byte offsets of consecutive pages, and the end of the last one."""
        return [8 * word for word in self._words[page : page + count + 1].tolist()]

    def places(self, pages: Int64) -> tuple[Int64, Int64]:
        """Return the byte offsets and sizes of pages."""
        begin, end = (self._words[p].astype(np.int64) * 8 for p in (pages, pages + 1))
        return begin, end - begin


def damaged(where: str, problem: str) -> FragmentReadError:
    """Return the error for pages that differ from those written."""
    return FragmentReadError(f"{where}: {NAME} is damaged: {problem}; rebuild it with build_pages (cfagg obs index)")


def has_pages(store: Store) -> bool:
    """Return whether a store has index pages, valid or not."""
    return any(is_there(store.source, f"{NAME}/{document}") for document in (".zattrs", "zarr.json"))


def stored_attributes(source: Source) -> dict[str, Any] | None:
    """Return the attributes of the pages of a store, or `None` if it has none."""
    for document in (".zattrs", "zarr.json"):
        found = read_json(source, f"{NAME}/{document}") if is_there(source, f"{NAME}/{document}") else None
        if found is not None:
            attributes = found[0] if document == ".zattrs" else found[0].get("attributes")
            return attributes if isinstance(attributes, dict) else {}
    return None


def attributes_of(store: Store) -> dict[str, Any]:
    """Return the attributes of the pages of a store after checking their types."""
    found = stored_attributes(store.source)
    if found is None:
        raise SourceError(f"{store.path} has no {NAME}; build them with build_pages (cfagg obs index)")
    counts = [found.get(name) for name in ("entries", "rows", "pages", "directory_crc32")]
    right = found.get("format") == FORMAT and isinstance(found.get("identity"), str)
    right = right and all(type(n) is int and 0 <= n < 2**62 for n in counts)
    right = right and re.fullmatch("pages_[0-9a-f]{8}", str(found.get("name"))) is not None
    ends = [found.get("first"), found.get("last")]
    right = right and (ends == [None, None] if not counts[0] else all(type(e) is int and abs(e) < 2**62 for e in ends))
    if not right or (found["pages"] == 0) != (found["entries"] == 0):
        raise SourceError(
            f"{store.path}: {NAME} are of the form {found.get('format')!r}, expected {FORMAT!r}; rebuild them with "
            "build_pages (cfagg obs index)"
        )
    return found
