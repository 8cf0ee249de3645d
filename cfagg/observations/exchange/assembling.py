"""Files that are there whole or not at all, and stores of frames in any order, in bounded memory."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from cfagg.errors import CfaggError, TargetError, TargetExistsError
from cfagg.errors.arguments import a_path
from cfagg.observations.frames import conform, encode_frame
from cfagg.observations.merging import Run, sort_unique, write_run
from cfagg.observations.writing import META, StoreWriter
from cfagg.runtime import files
from cfagg.runtime.publishing import reason
from cfagg.storage.urls import refuse_url

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["assemble", "written_aside"]

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


@contextlib.contextmanager
def written_aside(path: str | os.PathLike[str], *, overwrite: bool) -> Iterator[Path]:
    """Give the name of a new file that takes the place of another when the block ends well."""
    name = a_path(path, expected="name the file to write")
    target = Path(name)
    refuse_url(name, "written")
    if os.path.isdir(target):  # noqa: PTH112 - Path raises where it may not be looked for
        raise TargetError(f"{target} is a directory; give the name of a file")
    if os.path.lexists(target) and not overwrite:
        raise TargetExistsError(f"{target} exists; choose another name or replace it with overwrite=True")
    made = target
    try:
        with files.written_aside(target.resolve()) as made:
            yield made
    except CfaggError:  # some of them are also OSError
        raise
    except OSError as error:
        raise TargetError(f"{path} cannot be written: {reason(error, path).replace(str(made), str(path))}") from error
    except RuntimeError as error:  # netCDF4 says so where HDF5 fails
        raise TargetError(f"{path} cannot be written: {str(error).replace(str(made), str(path))}") from error
