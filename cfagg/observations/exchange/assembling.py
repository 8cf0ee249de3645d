"""Frames in any order become a store: encoded, sorted through files, merged and written in bounded memory."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from cfagg.observations.frames import conform, encode_frame
from cfagg.observations.merging import sort_unique
from cfagg.observations.spill import Run, write_run
from cfagg.observations.writing import META, StoreWriter

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["assemble"]

type Rows = npt.NDArray[np.float32]

#: Bytes of rows that are sorted at once.
RUN_BYTES = 128 << 20


def assemble(
    frames: Iterable[pd.DataFrame],
    variables: Sequence[str],
    target: str | os.PathLike[str],
    where: str,
    attributes: Mapping[str, Any],
    **options: Any,
) -> Path:
    """Write a store of the rows of frames, sorted, each distinct row once."""
    with StoreWriter(target, variables, **options) as writer:
        runs = list(_runs(frames, variables, writer.scratch, where))
        for rows in _merged(runs, writer.scratch, RUN_BYTES // (4 * (len(META) + len(variables)))):
            writer.append(rows)
        return writer.finish(attributes)


def _runs(frames: Iterable[pd.DataFrame], variables: Sequence[str], folder: Path, where: str) -> Iterator[Run]:
    """Sort the rows of many frames at once, as much as memory is given for; yield runs in files."""
    held: list[Rows] = []
    size = count = 0
    for frame in frames:
        rows = np.empty((len(frame), len(META) + len(variables)), np.float32)
        encode_frame(conform(frame, variables, where), variables, rows, where)
        held.append(rows)
        size += rows.nbytes
        if size >= RUN_BYTES:
            yield write_run(folder / f"run-{count}", sort_unique(np.concatenate(held)))
            held, size, count = [], 0, count + 1
    if size:
        yield write_run(folder / f"run-{count}", sort_unique(np.concatenate(held)))


def _merged(runs: Sequence[Run], folder: Path, most: int) -> Iterator[Rows]:
    """Give all rows in order, in blocks, each distinct row once."""
    from cfagg.observations.merging import merge_portion, plan_merge

    for portion in plan_merge(runs, most):
        if len(portion.ranges) == 1:
            (span,) = portion.ranges
            source, start, stop = span.source, span.start, span.stop
        else:
            source = merge_portion(portion, folder / "merged")
            start, stop = 0, source.rows
        for first in range(start, stop, max(1, most // 8)):
            last = min(first + max(1, most // 8), stop)
            rows = np.empty((last - first, runs[0].columns), np.float32)
            source.read(first, last, rows)
            yield rows
