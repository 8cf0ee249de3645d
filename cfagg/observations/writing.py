"""Writing a store of observations from sorted rows, chunk by chunk."""

from __future__ import annotations

import os
import threading
import uuid
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from cfagg.errors import CfaggError, ConventionError, TargetError, TargetExistsError
from cfagg.kernels.lookup import entries_of_rows
from cfagg.observations.finishing import finish_store
from cfagg.observations.frames import META
from cfagg.observations.layouts import DataLayout, full_chunk, write_bytes
from cfagg.observations.statistics import Accumulator
from cfagg.runtime.publishing import reason
from cfagg.runtime.workplace import Workplace

__all__ = ["META", "EntryFile", "Place", "StoreWriter", "check_variables"]

type Rows = npt.NDArray[np.float32]
type Int64 = npt.NDArray[np.int64]


class StoreWriter:
    """Writes a store of sorted rows, chunk by chunk; use it as a context."""

    # The store appears under its name when `finish` is done; after an error nothing is there.

    def __init__(
        self,
        path: str | os.PathLike[str],
        variables: Sequence[str],
        *,
        format: str = "zarr2",  # noqa: A002
        rows_per_chunk: int | None = None,
        date_indexing: str = "bisect",
        sidecar: bool = True,
        overwrite: bool = False,
        threads: int = 2,
    ) -> None:
        self.variables = check_variables(variables)
        if date_indexing not in ("bisect", "btree"):
            raise ConventionError(f"{date_indexing!r} is not an index of a store; choose bisect or btree")
        self.format, self.date_indexing, self.rows_per_chunk = format, date_indexing, rows_per_chunk
        self.rows = 0
        self._sidecar = sidecar
        self._columns = len(META) + len(self.variables)
        self._chunk = full_chunk(format, self._columns, rows_per_chunk)
        self._place = Place(path, overwrite=overwrite)
        self._place.enter()
        try:
            self._place.start_anew()
            self._entries = EntryFile(self._place.work / "entries")
        except OSError as error:
            self._place.leave()
            raise TargetError(f"{self._place.target} cannot be written: {reason(error, self._place.target)}") from error
        self._statistics = Accumulator(len(self.variables))
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="cfagg-pack")
        self._free = threading.Semaphore(threads + 1)
        self._packing: list[Future[None]] = []
        self._open = self._fresh()
        self._filled = 0
        self._last: Rows | None = None
        self._done = False

    @property
    def scratch(self) -> Path:
        """A directory for whatever is needed until the store is finished."""
        return self._place.work

    def append(self, rows: Rows) -> None:
        """Add rows, float32 (n, 4 + variables), sorted by all columns, none twice, none before those added already."""
        rows = self._checked(rows)
        self._entries.add(rows, self.rows)
        self._statistics.accumulate(rows[:, len(META) :])
        at = 0
        while at < len(rows):
            n = min(len(rows) - at, self._chunk - self._filled)
            self._open[self._filled : self._filled + n] = rows[at : at + n]
            self._filled += n
            at += n
            self.rows += n
            if self._filled == self._chunk:
                layout = DataLayout.choose(self.format, self.rows, self._columns, self.rows_per_chunk)
                self._pack(layout, self._open, self.rows // self._chunk - 1)
                self._open, self._filled = self._fresh(), 0
        if len(rows):
            self._last = rows[-1:].copy()

    def finish(
        self,
        attributes: Mapping[str, Any] | None = None,
        statistics: Mapping[str, npt.NDArray[Any]] | None = None,
    ) -> Path:
        """Write index, statistics (of all rows by default) and attributes, and put the store in its place."""
        layout = DataLayout.choose(self.format, self.rows, self._columns, self.rows_per_chunk)
        try:
            if self._filled:
                self._pack(layout, self._open[: self._filled], layout.count - 1)
            for future in self._packing:
                future.result()
            self._entries.close()
            # In a thread, where Blosc gives the same bytes each time.
            self._pool.submit(
                finish_store,
                self._place.store,
                layout,
                self.variables,
                self._entries,
                self.date_indexing,
                self._statistics.result() if statistics is None else statistics,
                attributes or {},
                sidecar=self._sidecar,
            ).result()
            self._pool.shutdown()
            self._place.publish(uuid.uuid4().hex)
        except OSError as error:
            if isinstance(error, CfaggError):
                raise
            raise TargetError(f"{self._place.target} cannot be written: {reason(error, self._place.target)}") from error
        self._done = True
        return self._place.target

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Throw away what was written, unless it was finished."""
        self._pool.shutdown(cancel_futures=True)
        if not self._done:
            self._entries.close()
            self._place.abandon()
            self._done = True

    def _checked(self, rows: Rows) -> Rows:
        if rows.dtype != np.float32 or rows.ndim != 2 or rows.shape[1] != self._columns:
            raise ConventionError(
                f"rows for {self._place.target} are {rows.dtype} of shape {rows.shape}; expected float32 and "
                f"(rows, {self._columns}): {', '.join((*META, *self.variables))}"
            )
        from cfagg.observations.merging import disorder

        rows = np.ascontiguousarray(rows, np.float32)
        wrong = disorder(rows, self._last)
        if wrong is not None:
            raise ConventionError(
                f"row {self.rows + wrong:,} for {self._place.target} is not after the row before it; rows must be "
                "sorted by all columns and differ"
            )
        return rows

    def _fresh(self) -> Rows:
        return np.empty((self._chunk, self._columns), np.float32)

    def _pack(self, layout: DataLayout, rows: Rows, number: int) -> None:
        self._free.acquire()
        future = self._pool.submit(write_chunk, self._place.store, layout, rows, number)
        future.add_done_callback(lambda _: self._free.release())
        self._packing = [f for f in self._packing if not f.done() or f.exception() is not None]
        self._packing.append(future)
        failed = next((f for f in self._packing if f.done()), None)
        if failed is not None:
            failed.result()


def write_chunk(store: Path, layout: DataLayout, rows: Rows, number: int) -> None:
    """Pack the rows of a stored object and write it; see `DataLayout.encode` for the thread to do it in."""
    write_bytes(store / "data" / layout.key(number), layout.encode(rows))


class EntryFile:
    """Entries of an index, kept in a file while a store is being built."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.count = 0
        self._file = path.open("wb")
        self._open: list[int] | None = None

    def add(self, rows: Rows, start: int) -> None:
        """Add the entries of sorted rows that follow those added before."""
        self.put(*entries_of_rows(rows, start))

    def put(self, epoch: Int64, start: Int64, length: Int64) -> None:
        """Add entries that follow those added before; the first may go on with the second of the last."""
        if not len(epoch):
            return
        entries = np.stack([epoch, start, length], axis=1)
        if self._open is not None:
            if self._open[0] == entries[0, 0]:
                entries[0, 1] = self._open[1]
                entries[0, 2] += self._open[2]
            else:
                self._write(np.array([self._open], np.int64))
        self._write(entries[:-1])
        self._open = entries[-1].tolist()

    def close(self) -> None:
        """Write what is left."""
        if not self._file.closed:
            if self._open is not None:
                self._write(np.array([self._open], np.int64))
                self._open = None
            self._file.close()

    def blocks(self, size: int = 1 << 18) -> Iterator[tuple[Int64, Int64, Int64]]:
        """Return all entries in blocks of columns epoch, start and length."""
        with self.path.open("rb") as file:
            while len(block := np.fromfile(file, np.int64, 3 * size)):
                epoch, start, length = block.reshape(-1, 3).T
                yield np.ascontiguousarray(epoch), np.ascontiguousarray(start), np.ascontiguousarray(length)

    @property
    def ends(self) -> tuple[int, int] | None:
        """First and last epoch, `None` where there is no entry."""
        if not self.count:
            return None
        with self.path.open("rb") as file:
            first = int(np.fromfile(file, np.int64, 1)[0])
            file.seek(-24, os.SEEK_END)
            return first, int(np.fromfile(file, np.int64, 1)[0])

    def _write(self, entries: Int64) -> None:
        self._file.write(np.ascontiguousarray(entries, np.int64).tobytes())
        self.count += len(entries)


def check_variables(variables: Sequence[str]) -> tuple[str, ...]:
    """Return names of variables, or raise where a store cannot have them."""
    names = tuple(variables)
    wrong = [v for v in names if not v or v.startswith("__")]
    twice = sorted({v for v in names if names.count(v) > 1})
    if wrong or twice:
        raise ConventionError(
            "names of variables are text without two leading underscores, each once; found "
            + ", ".join([*(repr(v) for v in wrong), *(f"{v!r} twice" for v in twice)])
        )
    return names


class Place(Workplace):
    """A locked work directory for a store of observations; see `cfagg.runtime.workplace.Workplace`."""

    names = frozenset({"journal", "work"})
    doing = "building the same store"

    def __init__(self, target: str | os.PathLike[str], *, overwrite: bool, resume: bool = False) -> None:
        super().__init__(target, overwrite=overwrite, resume=resume)
        self.work = self.root / "work"

    @property
    def unfinished(self) -> bool:
        """Whether a part was read here by a build that can be finished."""
        return not self.published and self.journal.exists() and any(self.root.glob("work/part-*.json"))

    def check_unfinished(self) -> None:
        """Refuse to throw away what an earlier build has achieved."""
        if self.unfinished:
            raise TargetExistsError(
                f"an unfinished build of {self.target} is there; finish it with resume=True (--resume) or start again "
                "with overwrite=True (--overwrite)"
            )

    def start_anew(self) -> None:
        """Remove what an earlier build left."""
        super().start_anew()
        self.work.mkdir()

    def abandon(self) -> None:
        """Remove everything and let go of the lock; nothing is kept for a later build."""
        if self.published:
            # It may not be on disk that it is in its place; what it replaced stays.
            self.leave()
        else:
            self.remove()
