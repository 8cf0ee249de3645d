"""Writing a store: chunks of rows in a work directory, then statistics, index, attributes and metadata."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.cf.instants import epoch_text
from cfagg.errors import ConventionError, TargetError
from cfagg.formats.fastzlib import crc32
from cfagg.formats.zarr.creating import group_documents
from cfagg.kernels.lookup import entries_of_rows
from cfagg.observations.frames import META
from cfagg.observations.indexes.protocol import Joining
from cfagg.observations.layouts import DataLayout, array_files, dumped, write_bytes, zarr_format
from cfagg.observations.merging import RowTable
from cfagg.observations.statistics import Accumulator
from cfagg.runtime.publishing import public_name, read_own, refusals_of, remove
from cfagg.runtime.workplace import Workplace

__all__ = ["VERSION", "ChunkPlan", "ChunkWritten", "EntryFile", "Place", "check_variables", "finish_store", "write_one"]

#: The version of the layout that the published software writes.
VERSION = "0.22"

type Int64 = npt.NDArray[np.int64]


class Place(Workplace):
    """A locked work directory for a store of observations; see `cfagg.runtime.workplace.Workplace`."""

    names = frozenset({"journal", "work"})
    doing = "building"
    unfinished_work = "build of"

    def __init__(self, target: str | os.PathLike[str], *, overwrite: bool, resume: bool = False) -> None:
        super().__init__(target, overwrite=overwrite, resume=resume)
        self.work = self.root / "work"

    @property
    def unfinished(self) -> bool:
        """Whether a build that can be resumed has read a part here, with rows: runs have the number of their part."""
        filled = {path.name.split("-")[1] for path in self.root.glob("work/run-*")}
        read = (path.stem.split("-")[1] for path in self.root.glob("work/part-*.json"))
        return not self.published and self.journal.exists() and not filled.isdisjoint(read)

    def start_anew(self) -> None:
        """Remove the remains of an earlier build."""
        super().start_anew()
        self.work.mkdir()

    def abandon(self) -> None:
        """Remove everything and release the lock; nothing is kept for a later build."""
        if self.published:
            # Its move into place may not be on disk yet, so the store that it replaced is kept.
            self.leave()
        else:
            self.remove()

    @contextmanager
    def new(self) -> Iterator[None]:
        """Build a new store within the block and move it into place; after an error nothing remains."""
        self.enter()
        try:
            self.start_anew()
            yield
            self.publish(uuid.uuid4().hex)
        except BaseException:
            self.abandon()
            with refusals_of(self.target):
                raise


def check_variables(variables: Sequence[str]) -> tuple[str, ...]:
    """Return names of variables, or raise if a store cannot have them."""
    names = tuple(variables)
    wrong = [v for v in names if not v or v.startswith("__")]
    twice = sorted({v for v in names if names.count(v) > 1})
    if wrong or twice:
        raise ConventionError(
            "names of variables must be text without two leading underscores, and unique; found "
            + ", ".join([*(repr(v) for v in wrong), *(f"{v!r} twice" for v in twice)])
        )
    return names


class EntryFile:
    """Entries of an index, kept in a file during the build of a store."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.count = 0
        self._file = path.open("wb")
        self._joining = Joining()

    def put(self, epoch: Int64, start: Int64, length: Int64) -> None:
        """Append entries; the first may extend the last one so far."""
        self._write(self._joining.feed(np.stack([epoch, start, length], axis=1)))

    def close(self) -> None:
        """Write the remaining entries."""
        self._write(self._joining.close())
        self._file.close()

    def blocks(self, size: int = 1 << 18) -> Iterator[tuple[Int64, Int64, Int64]]:
        """Yield all entries in blocks of columns epoch, start and length."""
        with self.path.open("rb") as file:
            while len(block := np.fromfile(file, np.int64, 3 * size)):
                epoch, start, length = block.reshape(-1, 3).T
                yield np.ascontiguousarray(epoch), np.ascontiguousarray(start), np.ascontiguousarray(length)

    @property
    def ends(self) -> tuple[int, int] | None:
        """First and last epoch, or `None` if there are no entries."""
        if not self.count:
            return None
        with self.path.open("rb") as file:
            first = int(np.fromfile(file, np.int64, 1)[0])
            file.seek(-24, os.SEEK_END)
            return first, int(np.fromfile(file, np.int64, 1)[0])

    def _write(self, entries: Int64) -> None:
        self._file.write(np.ascontiguousarray(entries, np.int64).tobytes())
        self.count += len(entries)


def finish_store(
    store: Path,
    layout: DataLayout,
    variables: Sequence[str],
    entries: EntryFile,
    date_indexing: str,
    statistics: Mapping[str, npt.NDArray[Any]],
    attributes: Mapping[str, Any],
) -> None:
    """Write everything except the chunks of rows; the documents that make it a store come last."""
    for name, values in statistics.items():
        if np.shape(values) != (len(variables),):
            raise ConventionError(f"statistic {name!r} has shape {np.shape(values)}, expected ({len(variables)},)")
        _write(store / name, array_files(layout.format, np.asarray(values)))
    _write(store / "data", {name: dumped(document) for name, document in layout.documents().items()})
    _write_index(store, layout.format, date_indexing, entries)
    root = group_documents(
        _attributes(layout, variables, entries, date_indexing, attributes), zarr_format(layout.format)
    )
    _write(store, {name: dumped(document) for name, document in root.items()})
    _write_pages(store, layout, entries)
    for left in (*store.glob(".*.cfagg-new-*"), *store.rglob(".*.part")):
        # It remains from a killed run or a failed removal, and must not become part of the store.
        remove(left)


def _attributes(
    layout: DataLayout, variables: Sequence[str], entries: EntryFile, date_indexing: str, given: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the root attributes."""
    ends = entries.ends
    dates = {}
    if ends is not None:
        first, last = (epoch_text(e) for e in ends)
        dates = {
            "start_date": first,
            "end_date": last,
            "last_date": last,
            "index_start_date": first,
            "index_end_date": last,
            "statistics_start_date": first,
            "statistics_end_date": last,
        }
    return {
        "_tabular_finalise_complete": True,
        "attribution": None,
        "chunks": [layout.chunk, layout.columns],
        "constant_fields": [],
        "date_indexing": date_indexing,
        "description": None,
        "dimensions": ["dates", "variables"],
        "dtype": "float32",
        **dates,
        "index_length": entries.count,
        "layout": "tabular",
        "licence": None,
        "meta_variables": list(META),
        "shape": [layout.rows, layout.columns],
        "uuid": str(uuid.uuid4()),
        "variables": list(variables),
        "variables_metadata": {},
        "version": VERSION,
        **given,
    }


def _write_index(store: Path, format: str, date_indexing: str, entries: EntryFile) -> None:  # noqa: A002
    """Write the index that the published software reads."""
    from cfagg.observations.indexes.bisect import write_bisect
    from cfagg.observations.indexes.btree import write_btree

    write = {"bisect": write_bisect, "btree": write_btree}[date_indexing]
    write(store, entries.blocks(), zarr_format=zarr_format(format))


def _write_pages(store: Path, layout: DataLayout, entries: EntryFile) -> None:
    """Write cfagg's own index, which identifies the rows it was built from."""
    from cfagg.observations.indexes import write_pages
    from cfagg.observations.store import open_store

    identity = open_store(store).identity
    version = zarr_format(layout.format)
    write_pages(store, entries.blocks(), identity=identity, rows=layout.rows, zarr_format=version)


def _write(folder: Path, files: Mapping[str, bytes]) -> None:
    for name, data in files.items():
        write_bytes(folder / name, data)


@dataclass(frozen=True)
class ChunkPlan:
    """Everything needed to write any chunk."""

    store: Path
    layout: DataLayout
    table: RowTable
    #: Range of the rows that the statistics cover.
    chosen: tuple[int, int]
    #: An older store with the same layout, and the number of its first rows that stay unchanged.
    former: tuple[Path, int] | None = None


@dataclass(frozen=True)
class ChunkWritten:
    """Checksum and index entries of a written chunk."""

    number: int
    nbytes: int
    #: CRC-32 of its rows.
    checksum: int
    #: Entries of its rows: epoch, start, length.
    entries: tuple[Int64, Int64, Int64]
    statistics: Accumulator


def write_one(plan: ChunkPlan, number: int) -> ChunkWritten:
    """Write a chunk unless it exists; in a thread that is not the main one (see `DataLayout.encode`)."""
    # A chunk of an earlier run may not have reached the disk before the machine went down, so it is compared.
    layout = plan.layout
    start, stop = layout.extent(number)
    rows = plan.table.read(start, stop)
    path = plan.store / layout.key(number)
    if plan.former is not None and start + layout.chunk <= plan.former[1]:
        _take_over(plan.former[0] / layout.key(number), path)
    else:
        encoded = layout.encode(rows)
        if not _holds(path, encoded):
            write_bytes(path, encoded)
    statistics = Accumulator(layout.columns - len(META))
    a, b = max(start, plan.chosen[0]), min(stop, plan.chosen[1])
    if a < b:
        statistics.accumulate(rows[a - start : b - start, len(META) :])
    return ChunkWritten(
        number,
        path.stat().st_size,
        crc32(memoryview(rows.reshape(-1).view(np.uint8))),
        entries_of_rows(rows, start),
        statistics,
    )


def _holds(path: Path, data: bytes | memoryview) -> bool:
    """Return whether a file exists and has exactly these bytes."""
    try:
        return path.stat().st_size == memoryview(data).nbytes and read_own(path) == data
    except FileNotFoundError:
        return False
    except OSError as error:
        raise TargetError(f"{public_name(path)} cannot be read: {error.strerror or error}") from error


def _take_over(old: Path, new: Path) -> None:
    """Make a chunk of an older store also a chunk of the new store."""
    part = new.with_name(f".{new.name}.{os.getpid()}.part")
    with refusals_of(new):
        new.parent.mkdir(parents=True, exist_ok=True)
        new.unlink(missing_ok=True)
        try:
            new.hardlink_to(old)
        except OSError:  # a file system without such links
            shutil.copyfile(old, part)
            part.replace(new)
