"""Writing index pages: a group ``index_pages`` of two plain arrays of bytes and integers beside the rows of a store.

``pages_`` and eight digits of a checksum holds the pages one after the other (`cfagg.kernels.lookup` describes them).
``directory_`` and eight more has for each page its first epoch and where it begins, in bytes, and the same for what
would follow the last.  Neither is compressed, and each is one chunk, so that any page can be read alone.  Consecutive
pages whose entries all follow each other in the same steps are one page, however many entries that has.

Attributes of the group: ``format``, ``identity`` of the rows it was made of, numbers of ``entries``, ``rows`` and
``pages``, ``first`` and ``last`` epoch, ``name`` of the array of pages, and ``directory_crc32``.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Self

import numpy as np

from cfagg.errors import TargetError
from cfagg.formats.fastzlib import crc32
from cfagg.formats.zarr.creating import NewArray, array_documents, group_documents
from cfagg.formats.zarr.written_codecs import Codec
from cfagg.kernels.lookup import pack_page
from cfagg.observations.indexes.protocol import Entries, Int64, checked
from cfagg.observations.indexes.table import Aside, ZarrFormat, describe
from cfagg.runtime.publishing import public_name, reason

__all__ = ["FORMAT", "NAME", "PAGE", "write_pages"]

#: Name of the group.
NAME = "index_pages"

#: Form of the pages; a reader refuses others.
FORMAT = "cfagg index pages 1"

#: Entries of a page, other than of equal steps.
PAGE = 4096

#: Pages that are packed together.
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
    """Write index pages into a store.

    Parameters
    ----------
    group : path
        Directory of the store.
    entries : iterable of (epoch, start, length)
        Columns of int64 of consecutive entries, which are never in memory together.
    identity : str
        What tells that the rows were written since, ``ObservationStore.identity``.
    rows : int, optional
        Number of rows that the entries have to cover.
    zarr_format : {2, 3}
        Form of the metadata; the format of the store.

    Returns
    -------
    int
        Number of entries.

    Raises
    ------
    ConventionError
        Epochs fall, lengths are below one, or an entry does not start where the one before it ends.
    TargetError
        The pages cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> write_pages(folder, [(np.array([60, 120]), np.array([0, 5]), np.array([5, 1]))], identity="a")
    2
    """
    with _PagesWriter(group, zarr_format) as pages:
        for block in _whole(checked(entries, NAME, rows, strict=False), PAGE * _BATCH):
            pages.add(block)
        return pages.finish(identity)


class _PagesWriter:
    """Pages on their way to a file."""

    def __init__(self, group: str | os.PathLike[str], zarr_format: ZarrFormat) -> None:
        self._format: ZarrFormat = zarr_format
        self._aside = Aside(group, NAME)
        chunk = "0" if zarr_format == 2 else "c/0"
        self._path = self._aside.path / "pages" / chunk
        self._crc = 0
        self._entries, self._rows, self._bytes = 0, 0, 0
        self._first: int | None = None
        self._last: int | None = None
        self._epochs: list[int] = []
        self._offsets: list[int] = []
        self._directory: list[Int64] = []
        self._run: _Run | None = None
        try:
            self._path.parent.mkdir(parents=True)
            self._file = self._path.open("wb")
        except OSError as error:
            self._aside.discard()
            raise self._failed(error) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._file.close()
        except OSError:
            # A disk that is full says so again; the first error is on its way.
            if kind is None:
                raise
        finally:
            self._aside.discard()

    def add(self, block: Entries) -> None:
        """Add entries, a whole number of pages but for the last block."""
        epoch, start, length = block
        if self._first is None:
            self._first = int(epoch[0])
        for a, b, equal in _cut(epoch, length):
            if equal:
                self._add_run(epoch[a:b], start[a:b], length[a:b])
                continue
            self._end_run()
            self._put(pack_page(epoch[a:b], start[a:b], length[a:b]))
        self._entries += len(epoch)
        self._rows, self._last = int(start[-1] + length[-1]), int(epoch[-1])

    def _add_run(self, epoch: Int64, start: Int64, length: Int64) -> None:
        """Add entries of equal steps and lengths, to those before if they go on."""
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
        """Write the entries of equal steps that wait for more."""
        if self._run is not None:
            first, row, n, step, length, last, end = self._run
            self._put(np.array([0, first, row, n, step, length, 0, last, end], np.int64))
            self._run = None

    def _put(self, page: Int64) -> None:
        """Write a page."""
        raw = page.astype("<i8", copy=False)
        raw[0] = crc32(raw[1:].tobytes())
        self._epochs.append(int(page[1]))
        self._offsets.append(self._bytes)
        self._bytes += raw.nbytes
        self._crc = crc32(raw[:1].tobytes(), self._crc)
        try:
            self._file.write(raw.tobytes())
        except OSError as error:
            raise self._failed(error) from error
        if len(self._epochs) >= 2**16:
            self._keep()

    def _keep(self) -> None:
        """Keep the directory as an array, which takes a quarter of the memory."""
        self._directory.append(np.array([self._epochs, self._offsets], "<i8"))
        self._epochs, self._offsets = [], []

    def finish(self, identity: str) -> int:
        """Write the directory and the metadata, and give the group its name."""
        self._end_run()
        self._epochs.append(0 if self._last is None else self._last + 1)
        self._offsets.append(self._bytes)
        self._keep()
        directory = np.ascontiguousarray(np.concatenate(self._directory, axis=1))
        attributes = {
            "format": FORMAT,
            "identity": identity,
            "entries": self._entries,
            "rows": self._rows,
            "pages": directory.shape[1] - 1,
            "first": self._first,
            "last": self._last,
            "directory_crc32": crc32(directory.tobytes()),
        }
        folder = self._aside.path
        # Named for their content: who has a file open that was there before does not take it for this one.
        name, listed = f"pages_{self._crc:08x}", f"directory_{attributes['directory_crc32']:08x}"
        attributes["name"] = name
        try:
            self._file.close()
            (folder / "pages").rename(folder / name)
            path = folder / listed / ("0.0" if self._format == 2 else "c/0/0")
            path.parent.mkdir(parents=True)
            path.write_bytes(directory.tobytes())
        except OSError as error:
            raise self._failed(error) from error
        self._describe(listed, directory.shape, "<i8", ("column", "page"))
        self._describe(name, (self._bytes,), "|u1", ("byte",))
        describe(folder, group_documents(attributes, self._format))
        self._aside.commit()
        return self._entries

    def _describe(self, name: str, shape: tuple[int, ...], dtype: str, dims: tuple[str, ...]) -> None:
        """Write the metadata of an array."""
        chunks = tuple(max(1, n) for n in shape)
        new = NewArray(dims, shape, np.dtype(dtype), chunks, 0, Codec("none"), {})
        describe(self._aside.path / name, array_documents(new, self._format))

    def _failed(self, error: OSError) -> TargetError:
        return TargetError(f"{public_name(self._aside.target)} cannot be written: {reason(error, self._aside.target)}")


def _cut(epoch: Int64, length: Int64) -> Iterator[tuple[int, int, bool]]:
    """Return the pages of entries, and whether a page has equal steps and lengths."""
    n = len(epoch)
    whole = n // PAGE
    steps = np.diff(epoch, append=epoch[-1])[: whole * PAGE].reshape(whole, PAGE)
    lengths = length[: whole * PAGE].reshape(whole, PAGE)
    # The last step of each leads to the next page.
    equal = (steps[:, :-1] == steps[:, :1]).all(axis=1) & (lengths == lengths[:, :1]).all(axis=1)
    for k, is_equal in enumerate(equal.tolist()):
        yield k * PAGE, (k + 1) * PAGE, is_equal
    if whole * PAGE < n:
        last = np.diff(epoch[whole * PAGE :])
        rest = length[whole * PAGE :]
        yield whole * PAGE, n, bool((last == last[:1]).all() and (rest == rest[0]).all())


def _whole(entries: Iterable[Entries], size: int) -> Iterator[Entries]:
    """Return the same entries in blocks of one size, the last cut short."""
    held: list[Entries] = []
    count = 0
    for block in entries:
        held.append(block)
        count += len(block[0])
        if count < size:
            continue
        epoch, start, length = _join(held)
        whole = count // size * size
        for a in range(0, whole, size):
            yield epoch[a : a + size], start[a : a + size], length[a : a + size]
        held, count = [(epoch[whole:], start[whole:], length[whole:])], count - whole
    if count:
        yield _join(held)


def _join(blocks: list[Entries]) -> Entries:
    if len(blocks) == 1:
        return blocks[0]
    epoch, start, length = (np.concatenate([block[i] for block in blocks]) for i in range(3))
    return epoch, start, length
