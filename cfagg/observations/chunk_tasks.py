"""Writing one chunk of rows, with all that is known once its rows are at hand."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from cfagg.errors import TargetError
from cfagg.formats.fastzlib import crc32
from cfagg.kernels.lookup import entries_of_rows
from cfagg.observations.finishing import META
from cfagg.observations.layouts import DataLayout, write_bytes
from cfagg.observations.spill import RowTable
from cfagg.observations.statistics import Accumulator
from cfagg.runtime.publishing import public_name, read_own, reason

__all__ = ["ChunkPlan", "ChunkWritten", "write_one"]

type Int64 = npt.NDArray[np.int64]


@dataclass(frozen=True)
class ChunkPlan:
    """What is needed to write any chunk."""

    store: Path
    layout: DataLayout
    table: RowTable
    #: Range of the rows that the statistics are of.
    chosen: tuple[int, int]
    #: An older store with the same layout, and how many of its first rows stay as they are.
    former: tuple[Path, int] | None = None


@dataclass(frozen=True)
class ChunkWritten:
    """What is known of a chunk that is written."""

    number: int
    nbytes: int
    #: CRC-32 of its rows.
    checksum: int
    #: Entries of its rows: epoch, start, length.
    entries: tuple[Int64, Int64, Int64]
    statistics: Accumulator


def write_one(plan: ChunkPlan, number: int) -> ChunkWritten:
    """Write a chunk, unless it is there; in a thread that is not the main one (see `DataLayout.encode`)."""
    # What an earlier run left may not have been on disk when the machine went down, so it is compared.
    layout = plan.layout
    start, stop = layout.extent(number)
    rows = plan.table.read(start, stop)
    path = plan.store / "data" / layout.key(number)
    if plan.former is not None and start + layout.chunk <= plan.former[1]:
        _take_over(plan.former[0] / "data" / layout.key(number), path)
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
    """Whether a file is there and holds these bytes."""
    try:
        return path.stat().st_size == memoryview(data).nbytes and read_own(path) == data
    except FileNotFoundError:
        return False
    except OSError as error:
        raise TargetError(f"{public_name(path)} cannot be read: {reason(error, path)}") from error


def _take_over(old: Path, new: Path) -> None:
    """Let a chunk of an older store be one of the new store, too."""
    part = new.with_name(f".{new.name}.{os.getpid()}.part")
    try:
        new.parent.mkdir(parents=True, exist_ok=True)
        new.unlink(missing_ok=True)
        try:
            new.hardlink_to(old)
        except OSError:  # a file system without such links
            shutil.copyfile(old, part)
            part.replace(new)
    except OSError as error:
        raise TargetError(f"{public_name(new)} cannot be written: {reason(error, new)}") from error
