"""Files that are there whole or not at all, and stores of frames in any order, in bounded memory."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from cfagg.errors import CfaggError, ConventionError, TargetError, TargetExistsError
from cfagg.errors.arguments import a_path
from cfagg.observations.building import Budget, Work, write_store
from cfagg.observations.frames import META, check_frame, check_rows, conform, encode_frame
from cfagg.observations.layouts import full_chunk
from cfagg.observations.merging import Run, sort_unique, write_run
from cfagg.observations.writing import Place, check_variables
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
    *,
    format: str,  # noqa: A002
    date_indexing: str,
    overwrite: bool,
) -> Path:
    """Write a store of the rows of frames, sorted, each distinct row once."""
    if date_indexing not in ("bisect", "btree"):
        raise ConventionError(f"{date_indexing!r} is not an index of a store; choose bisect or btree")
    names = check_variables(variables)
    full_chunk(format, len(META) + len(names), None)
    place = Place(target, overwrite=overwrite)
    with place.new():
        runs = list(_runs(frames, names, place.work, where))
        work = Work(place.work, place.store, Budget(4 * RUN_BYTES, 2))
        write_store(runs, names, (format, None), date_indexing, attributes, work)
    return place.target


def _runs(frames: Iterable[pd.DataFrame], variables: Sequence[str], folder: Path, where: str) -> Iterator[Run]:
    """Sort the rows of many frames at once, as much as memory is given for; yield runs in files."""
    held: list[Rows] = []
    count = 0
    for given in chain(frames, [None]):
        if given is not None:
            frame = check_rows(check_frame(given, where, datetime.min, datetime.max), where)
            rows = np.empty((len(frame), len(META) + len(variables)), np.float32)
            encode_frame(conform(frame, variables, where), variables, rows, where)
            held.append(rows)
        if held and (given is None or sum(rows.nbytes for rows in held) >= RUN_BYTES):
            yield write_run(folder / f"run-{count}", sort_unique(np.concatenate(held)))
            held, count = [], count + 1


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
