"""Writing index pages: a group ``index_pages`` of two uncompressed arrays beside the rows of a store.

The array ``pages_`` with eight digits of a checksum contains the pages in sequence (`cfagg.kernels.lookup` describes
them). The array ``directory_`` with eight digits has the first epoch and the byte offset of each page, and the same for
the end of the last one.  Each array is one uncompressed chunk, so that any page can be read alone.  Consecutive pages
whose entries are all equally spaced form one page with any number of entries.

Attributes of the group: ``format``, ``identity`` of the rows it was made from, numbers of ``entries``, ``rows`` and
``pages``, ``first`` and ``last`` epoch, ``name`` of the array of pages, and ``directory_crc32``.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from cfagg.formats.fastzlib import crc32
from cfagg.formats.zarr.creating import NewArray, array_documents, chunk_key, group_documents, write_documents
from cfagg.formats.zarr.written_codecs import Codec
from cfagg.kernels.lookup import pack_page
from cfagg.observations.indexes.protocol import Entries, Int64, checked, together
from cfagg.observations.indexes.table import ZarrFormat, aside

__all__ = ["FORMAT", "NAME", "PAGE", "write_pages"]

#: Name of the group.
NAME = "index_pages"

#: Format of the pages; readers refuse others.
FORMAT = "cfagg index pages 1"

#: Number of entries of a page, except pages of equal steps.
PAGE = 4096

#: Number of pages that are packed together.
_BATCH = 8

#: First epoch, first row, entries, step, length, last epoch and row after the last.
_Run = tuple[int, int, int, int, int, int, int]


def write_pages(
    group: str | os.PathLike[str],
    entries: Iterable[Entries],
    *,
    identity: str,
    rows: int | None = None,
    zarr_format: ZarrFormat = 2,
) -> int:
    """Write index pages into a store, block by block, and return the number of entries.

    If `rows` is given, the entries must cover that many; `identity` shows whether the rows have been rewritten since.

    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> write_pages(folder, [(np.array([60, 120]), np.array([0, 5]), np.array([5, 1]))], identity="a")
    2
    """
    with aside(group, NAME) as folder:
        path = Path(chunk_key(f"{folder}/pages", (0,), zarr_format))
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            pages = _Pages(file)
            for block in _whole(checked(entries, NAME, rows, strict=False), PAGE * _BATCH):
                pages.add(block)
            directory, attributes = pages.finish()
        attributes["identity"] = identity
        # The names depend on the content, so that processes with an earlier file open do not confuse it with this one.
        (folder / "pages").rename(folder / attributes["name"])
        listed = folder / f"directory_{attributes['directory_crc32']:08x}"
        path = Path(chunk_key(str(listed), (0, 0), zarr_format))
        path.parent.mkdir(parents=True)
        path.write_bytes(directory.tobytes())
        _describe(listed, directory.shape, "<i8", ("column", "page"), zarr_format)
        _describe(folder / attributes["name"], (pages.bytes,), "|u1", ("byte",), zarr_format)
        write_documents(folder, group_documents(attributes, zarr_format), published=True)
    return pages.entries


def _describe(path: Path, shape: tuple[int, ...], dtype: str, dims: tuple[str, ...], zarr_format: ZarrFormat) -> None:
    """Write the metadata of an array."""
    new = NewArray(dims, shape, np.dtype(dtype), tuple(max(1, n) for n in shape), 0, Codec("none"), {})
    write_documents(path, array_documents(new, zarr_format), published=True)


class _Pages:
    """A writer of pages to a file."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._crc = 0
        self.entries, self._rows, self.bytes = 0, 0, 0
        self._first: int | None = None
        self._last: int | None = None
        self._epochs: list[int] = []
        self._offsets: list[int] = []
        self._directory: list[Int64] = []
        self._run: _Run | None = None

    def add(self, block: Entries) -> None:
        """Add entries, a whole number of pages except in the last block."""
        epoch, start, length = block
        if self._first is None:
            self._first = int(epoch[0])
        for a, b, equal in _cut(epoch, length):
            if equal:
                self._add_run(epoch[a:b], start[a:b], length[a:b])
                continue
            self._end_run()
            self._put(pack_page(epoch[a:b], start[a:b], length[a:b]))
        self.entries += len(epoch)
        self._rows, self._last = int(start[-1] + length[-1]), int(epoch[-1])

    def _add_run(self, epoch: Int64, start: Int64, length: Int64) -> None:
        """Add entries of equal steps and lengths, appended to the preceding ones if they continue them."""
        n, first, each = len(epoch), int(epoch[0]), int(length[0])
        step = int(epoch[1]) - first if n > 1 else 0
        run: _Run = (first, int(start[0]), n, step, each, int(epoch[-1]), int(start[-1]) + each)
        old = self._run
        if (
            old is not None
            and old[4] == each
            and old[2] > 1
            and (n == 1 or old[3] == step)
            and old[5] + old[3] == first
        ):
            self._run = (*old[:2], old[2] + n, *old[3:5], *run[5:])
            return
        self._end_run()
        self._run = run

    def _end_run(self) -> None:
        """Write the pending entries of equal steps."""
        if self._run is not None:
            first, row, n, step, length, last, end = self._run
            self._put(np.array([0, first, row, n, step, length, 0, last, end], np.int64))
            self._run = None

    def _put(self, page: Int64) -> None:
        """Write a page."""
        raw = page.astype("<i8", copy=False)
        raw[0] = crc32(raw[1:].tobytes())
        self._epochs.append(int(page[1]))
        self._offsets.append(self.bytes)
        self.bytes += raw.nbytes
        self._crc = crc32(raw[:1].tobytes(), self._crc)
        self._file.write(raw.tobytes())
        if len(self._epochs) >= 2**16:
            self._keep()

    def _keep(self) -> None:
        """Convert the directory to an array, which takes a quarter of the memory."""
        self._directory.append(np.array([self._epochs, self._offsets], "<i8"))
        self._epochs, self._offsets = [], []

    def finish(self) -> tuple[Int64, dict[str, Any]]:
        """Write the remaining entries, and return the directory and the attributes of the group."""
        self._end_run()
        self._epochs.append(0 if self._last is None else self._last + 1)
        self._offsets.append(self.bytes)
        self._keep()
        directory = np.ascontiguousarray(np.concatenate(self._directory, axis=1))
        attributes = {
            "format": FORMAT,
            "entries": self.entries,
            "rows": self._rows,
            "pages": directory.shape[1] - 1,
            "first": self._first,
            "last": self._last,
            "directory_crc32": crc32(directory.tobytes()),
            "name": f"pages_{self._crc:08x}",
        }
        return directory, attributes


def _cut(epoch: Int64, length: Int64) -> Iterator[tuple[int, int, bool]]:
    """Yield the range of each page of entries, and whether it has equal steps and lengths."""
    n = len(epoch)
    whole = n // PAGE
    steps = np.diff(epoch, append=epoch[-1])[: whole * PAGE].reshape(whole, PAGE)
    lengths = length[: whole * PAGE].reshape(whole, PAGE)
    # The last step of each page leads to the next page.
    equal = (steps[:, :-1] == steps[:, :1]).all(axis=1) & (lengths == lengths[:, :1]).all(axis=1)
    for k, is_equal in enumerate(equal.tolist()):
        yield k * PAGE, (k + 1) * PAGE, is_equal
    if whole * PAGE < n:
        last = np.diff(epoch[whole * PAGE :])
        rest = length[whole * PAGE :]
        yield whole * PAGE, n, bool((last == last[:1]).all() and (rest == rest[0]).all())


def _whole(entries: Iterable[Entries], size: int) -> Iterator[Entries]:
    """Yield the same entries in blocks of one size, except the last."""
    held: list[Entries] = []
    count = 0
    for block in entries:
        held.append(block)
        count += len(block[0])
        if count < size:
            continue
        epoch, start, length = together(held)
        whole = count // size * size
        for a in range(0, whole, size):
            yield epoch[a : a + size], start[a : a + size], length[a : a + size]
        held, count = [(epoch[whole:], start[whole:], length[whole:])], count - whole
    if count:
        yield together(held)
