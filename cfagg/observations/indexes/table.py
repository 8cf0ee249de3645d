"""Tables of 64-bit integers in a Zarr store, read a few rows at a time, searched by blocks and written by chunks."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from cfagg.errors import AccessError, CfaggError, ConventionError, Problem, SourceError
from cfagg.formats.zarr.creating import NewArray, array_documents, chunk_key, write_documents
from cfagg.formats.zarr.written_codecs import Codec
from cfagg.observations.arrays import open_stored, read_json
from cfagg.observations.indexes.protocol import Entries, Int64, as_interval, as_intervals, checked, columns_of
from cfagg.observations.rows import Rows
from cfagg.runtime.files import NewFolder
from cfagg.runtime.publishing import put, refusals_of, sync_tree

if TYPE_CHECKING:
    from cfagg.storage.store import Source

__all__ = ["Searched", "Table", "TableIndex", "TableWriter", "ZarrFormat", "aside", "is_there", "new_table"]

#: Largest number of columns of a table, since a search reads whole rows.
_WIDEST = 1 << 20


def is_there(source: Source, key: str) -> bool:
    """Return whether a store has an object."""
    try:
        return source.size(key) is not None
    except AccessError:
        # Object stores also answer this for absent objects if the user may not list the store.
        return False


class Table:
    """An array of int64 with two dimensions."""

    def __init__(self, source: Source, name: str) -> None:
        self.where = f"{source.path}: array {name!r}"
        array = open_stored(source, name)
        if array is None:
            raise SourceError(f"{source.path} has no array {name!r}")
        if array.dtype != np.int64 or len(array.shape) != 2:
            raise SourceError(f"{self.where} is {array.dtype} of shape {array.shape}, expected a table of int64")
        if array.shape[1] > _WIDEST:
            raise SourceError(f"{self.where} has {array.shape[1]:,} columns, expected at most {_WIDEST:,}")
        self.shape = (array.shape[0], array.shape[1])
        if array.zarr_format == 3:
            found = array.document.get("attributes")
        else:
            read = read_json(source, f"{name}/.zattrs")
            found = None if read is None else read[0]
        self.attributes: dict[str, Any] = found if isinstance(found, dict) else {}
        self._rows = Rows(source, array)

    def read(self, start: int, stop: int) -> Int64:
        """Return rows."""
        return self._rows.read(start, stop)


ZarrFormat = Literal[2, 3]


@contextmanager
def aside(group: str | os.PathLike[str], name: str) -> Iterator[Path]:
    """Yield a new directory that gets its name, replacing an existing one, when the block succeeds."""
    target = Path(group) / name
    with refusals_of(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        folder = NewFolder(target)
        try:
            path = folder.path / "file"
            path.mkdir()
            yield path
            sync_tree(path)
            # Another process may do the same concurrently.
            for left in reversed(range(100)):
                try:
                    put(path, target, folder.path / "former")
                    break
                except (FileExistsError, FileNotFoundError):
                    if not left or not path.is_dir():
                        raise
            folder.remove(done=True)
        finally:
            folder.remove(done=False)


@contextmanager
def new_table(
    group: str | os.PathLike[str],
    name: str,
    columns: int,
    chunk_rows: int,
    dims: tuple[str, str],
    zarr_format: ZarrFormat,
) -> Iterator[TableWriter]:
    """Yield a writer of a new two-dimensional int64 table, as a Zarr array that grows by rows."""
    # Outside the main thread, Blosc uses only that thread, so the same rows always give the same bytes.
    with ThreadPoolExecutor(1, "cfagg-index") as thread, aside(group, name) as path:
        yield TableWriter(path, thread, (chunk_rows, columns), dims, zarr_format)


class TableWriter:
    """Writes a table in chunks of a given shape."""

    def __init__(
        self, path: Path, thread: ThreadPoolExecutor, chunk: tuple[int, int], dims: tuple[str, str], form: ZarrFormat
    ) -> None:
        self._path, self._thread, self._dims, self._format = path, thread, dims, form
        self._codec = Codec("blosc", inner="lz4")
        self._encode = self._codec.encoder()
        self._buffer = np.zeros(chunk, "<i8")
        self._used = 0
        #: Number of rows so far.
        self.rows = 0

    def append(self, table: Int64) -> None:
        """Add rows."""
        done, size = 0, len(self._buffer)
        while done < len(table):
            n = min(len(table) - done, size - self._used)
            self._buffer[self._used : self._used + n] = table[done : done + n]
            done, self._used, self.rows = done + n, self._used + n, self.rows + n
            if self._used == size:
                self._write(self.rows // size - 1)

    def finish(self, attributes: Mapping[str, Any], least_rows: int = 0) -> None:
        """Write the remaining rows and the metadata, with zeros up to `least_rows` rows."""
        size, columns = self._buffer.shape
        if self._used:
            self._write(self.rows // size)
        shape = (max(self.rows, least_rows), columns)
        new = NewArray(self._dims, shape, self._buffer.dtype, (size, columns), 0, self._codec, attributes)
        write_documents(self._path, array_documents(new, self._format), published=True)

    def _write(self, number: int) -> None:
        """Write the buffer as a chunk and empty it."""
        path = Path(chunk_key(str(self._path), (number, 0), self._format))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(self._thread.submit(self._encode, self._buffer).result())
        self._buffer[:] = 0
        self._used = 0


#: Bytes of cached blocks, some eight million entries, and the overhead of each block.
_CACHED, _EACH = 2**26, 2**10

#: Approximate number of entries that are yielded together.
_TOGETHER = 2**16


class Searched(ABC):
    """An index that finds the first rows not before given epochs (see `Index` for the methods)."""

    #: Name of the array or group.
    name: str

    def find_many(self, lo: npt.ArrayLike, hi: npt.ArrayLike) -> Int64:
        """Return ranges of rows for many intervals, shape (m, 2)."""
        wanted, back = np.unique(np.concatenate(as_intervals(lo, hi)), return_inverse=True)
        found = self._rows(wanted)[back.reshape(2, -1)]
        return np.stack([found[0], np.maximum(found[0], found[1])], axis=1)

    def validate(self, full: bool = False) -> list[Problem]:
        """Return the problems of some entries, or of all."""
        try:
            self._check(full)
        except CfaggError as error:
            return [Problem(self.name, error.message)]
        return []

    @abstractmethod
    def _rows(self, wanted: Int64) -> Int64:
        """Return for increasing epochs the first rows that are not before them."""

    @abstractmethod
    def _check(self, full: bool) -> None:
        """Raise if some entries are wrong, checking a sample or all."""


class TableIndex(Searched):
    """An index of table blocks; a block is read with the entry after it, checked, and cached in a third of its size.

    Subclasses locate the block of an epoch and read its entries; each search checks that these agree.
    """

    def __init__(self, table: Table, rows: int, ends: tuple[Int64, Int64] | None) -> None:
        self._table, self.rows = table, rows
        self.first: int | None = None
        self.last: int | None = None
        self._forget()
        if ends is not None:
            first, last = ends
            if first[1] != 0 or last[2] < 1 or last[1] + last[2] != rows or first[0] > last[0]:
                raise ConventionError(
                    f"{table.where}: its first entry is {first.tolist()} and its last {last.tolist()}, which do not "
                    f"cover {rows:,} rows; build the index again"
                )
            self.first, self.last = int(first[0]), int(last[0])
        elif rows:
            raise ConventionError(f"{table.where} has no entries for {rows:,} rows; build the index again")

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._table.where}: dates of {self.rows:,} rows>"

    def _forget(self) -> None:
        """Empty the caches."""
        self._cached: dict[int, Block] = {}
        self._room = _CACHED

    def __getstate__(self) -> dict[str, Any]:
        return {name: self.__dict__[name] for name in ("_table", "rows", "first", "last")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._forget()

    @abstractmethod
    def _before(self, epoch: int) -> int:
        """Return the last block that begins before an epoch."""

    @abstractmethod
    def _part(self, block: int) -> tuple[Int64, bool]:
        """Return the entries of a block and the one after it, shape (n, 3), and whether the last is the last of all."""

    @abstractmethod
    def _tables(self, epoch: int | None = None) -> Iterator[Int64]:
        """Yield all entries, or those from shortly before an epoch on, in tables of shape (n, 3)."""

    def find(self, lo: int, hi: int) -> tuple[int, int]:
        """Return the first row, and the row after the last, with ``lo <= epoch < hi``."""
        lo, hi = as_interval(lo, hi)
        start = self._row(lo)
        return start, start if hi <= lo else self._row(hi)

    def entries_between(self, lo: int, hi: int) -> Entries:
        """Return the entries with ``lo <= epoch < hi``."""
        lo, hi = as_interval(lo, hi)
        found = [np.empty((0, 3), np.int64)]
        for table in self._tables(lo) if lo < hi else ():
            found.append(table[(table[:, 0] >= lo) & (table[:, 0] < hi)])
            if table[-1, 0] >= hi:
                break
        return columns_of(np.concatenate(found))

    def blocks(self) -> Iterator[Entries]:
        """Yield all entries in blocks."""
        waiting: list[Int64] = []
        for table in self._tables():
            waiting.append(table)
            if sum(map(len, waiting)) >= _TOGETHER:
                yield columns_of(np.concatenate(waiting))
                waiting = []
        if waiting:
            yield columns_of(np.concatenate(waiting))

    def _check(self, full: bool) -> None:
        if full:
            for epoch, _, _ in checked(self.blocks(), self._table.where, self.rows, strict=False):
                self._rows(self._probes_of(epoch))
        elif self.first is not None and self.last is not None:
            self._rows(np.unique(np.linspace(self.first, self.last, 16, dtype=np.int64)))

    def _probes_of(self, epoch: Int64) -> Int64:
        """Return the epochs that are searched for when all entries are checked."""
        return epoch[:0]

    def _row(self, epoch: int) -> int:
        """Return the first row that is not before an epoch."""
        if self.first is None or epoch <= self.first:
            return 0
        return self._block(epoch).row_of(epoch)

    def _rows(self, wanted: Int64) -> Int64:
        out = np.zeros(len(wanted), np.int64)
        done = len(wanted) if self.first is None else int(wanted.searchsorted(self.first, side="right"))
        while done < len(wanted):
            block = self._block(int(wanted[done]))
            if wanted[done] > block.last:
                out[done:] = block.end
                break
            stop = int(wanted.searchsorted(block.last, side="right"))
            part = wanted[done:stop] - block.first
            ranks = block.epochs.searchsorted(part.astype(block.epochs.dtype))
            out[done:stop] = block.starts[ranks].astype(np.int64) + block.row
            done = stop
        return out

    def _block(self, epoch: int) -> Block:
        """Return the block with the first entry that is not before an epoch, or the last block if there is none."""
        number = self._before(epoch)
        block = self._cached.get(number) or self._load(number)
        # An epoch may precede the entries only of the first block, and follow the entries only of the last.
        if (epoch <= block.first and block.row) or (epoch > block.last and block.end != self.rows):
            raise ConventionError(
                f"{self._table.where}: the entries of rows {block.row:,} to {block.end - 1:,} do not agree with where "
                f"epoch {epoch} is looked for: epochs do not rise, or the index was changed; build the index again"
            )
        return block

    def _load(self, number: int) -> Block:
        """Read a block, check it, and cache it."""
        table, is_last = self._part(number)
        start = int(table[0, 1]) if len(table) else -1
        where = f"{self._table.where}, counted from the entry of row {start:,}"
        if not 0 <= start < self.rows or (number == 0 and start):  # pages of a tree are counted from 1
            raise ConventionError(f"{where} of {self.rows:,}: entries do not agree; build the index again")
        columns = (table[:, 0], table[:, 1] - start, table[:, 2])
        for _ in checked([columns], where, strict=False):
            pass
        end = start + int(columns[1][-1]) + int(columns[2][-1])
        if end > self.rows or is_last != (end == self.rows):
            raise ConventionError(
                f"{where}: its entries end at row {end:,} of {self.rows:,} and do not agree with others; build the "
                "index again"
            )
        block = Block(columns[0], columns[1], start, end)
        self._room -= block.nbytes
        if self._room < 0:
            # A new dictionary, since other threads may be reading the old one.
            self._cached, self._room = {}, _CACHED - block.nbytes
        self._cached[number] = block
        return block


class Block:
    """Consecutive entries, with starts relative to the first; `row` and `end` are the range of their rows."""

    __slots__ = ("end", "epochs", "first", "last", "row", "starts")

    def __init__(self, epoch: Int64, start: Int64, row: int, end: int) -> None:
        self.row, self.end = row, end
        self.first, self.last = int(epoch[0]), int(epoch[-1])
        self.epochs, self.starts = _narrow(epoch - self.first), _narrow(start)

    @property
    def nbytes(self) -> int:
        """Memory that it takes in the cache, in bytes."""
        return self.epochs.nbytes + self.starts.nbytes + _EACH

    def row_of(self, epoch: int) -> int:
        """Return the first row that is not before an epoch; the epoch must not precede the block."""
        if epoch > self.last:
            return self.end
        return self.row + int(self.starts[self.epochs.searchsorted(self.epochs.dtype.type(max(epoch - self.first, 0)))])


def _narrow(rising: Int64) -> npt.NDArray[Any]:
    """Return increasing numbers from 0 on in the smallest type that can represent them."""
    return rising.astype(np.uint16 if rising[-1] < 2**16 else np.uint32 if rising[-1] < 2**32 else np.int64)
