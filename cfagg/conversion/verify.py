"""Checking that the data on disk are as they were written."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from cfagg.conversion.journal import ChunkRecords, Journal, Records
from cfagg.conversion.plan import Array
from cfagg.conversion.slabs import Slabs
from cfagg.errors import TargetError
from cfagg.formats.fastzlib import crc32
from cfagg.formats.zarr.settings import unequal_chunks
from cfagg.formats.zarr.written_codecs import content_checksum
from cfagg.runtime.publishing import read_own
from cfagg.runtime.threads import run_threads

__all__ = ["distrust", "verify"]


def distrust(arrays: Sequence[Array], journal: Journal, root: Path, zarr_format: int, workers: int, check: bool) -> int:
    """Drop chunks from a journal whose files are no longer as they were written; return the number of remaining files.

    A machine that went down may have lost the end of recently written files. If the values will be verified (`check`),
    chunks without a checksum of their values are dropped as well.
    """
    kept = 0
    for array, done in zip(arrays, journal.done, strict=True):

        def intact(i: int, array: Array = array, done: ChunkRecords = done) -> tuple[int, bool]:
            if check and done.content[i] < 0:
                return i, False
            path = root / array.key(array.grid.index(i), zarr_format)
            try:
                data = read_own(path)
            except FileNotFoundError:
                return i, int(done.size[i]) == 0
            return i, len(data) == int(done.size[i]) and crc32(data) == int(done.stored[i])

        numbers = map(int, np.flatnonzero(done.written))
        with closing(run_threads(intact, numbers, workers, "check")) as results:
            for i, good in results:
                done.written[i] = good
                kept += good and int(done.size[i]) > 0
    return kept


def verify(arrays: Sequence[Array], slabs: Sequence[Slabs], journal: Records, root: Any, workers: int) -> None:
    """Read the finished store with zarr-python and compare the checksum of every chunk's values."""
    import zarr

    with unequal_chunks():
        group: Any = zarr.open_group(root, mode="r")
        for array, cuts, done in zip(arrays, slabs, journal.done, strict=True):
            if array.feeds is not None:
                continue
            opened = group[array.path]

            def check(
                k: int, array: Array = array, cuts: Slabs = cuts, done: ChunkRecords = done, opened: Any = opened
            ) -> None:
                origin = [e.start for e in cuts.extent(k)]
                for index, box in cuts.walk(cuts.chunks(k)):
                    number = int(np.ravel_multi_index(index, array.grid.matrix_shape)) if index else 0
                    if array.absent is not None and array.absent[number]:
                        continue
                    at = tuple(slice(b.start + o, b.stop + o) for b, o in zip(box, origin, strict=True))
                    try:
                        found = content_checksum(np.asarray(opened[at]))
                    except (OSError, RuntimeError, ValueError) as error:
                        raise TargetError(
                            f"variable {array.path!r}, chunk {index}: what was written cannot be read back ({error}); "
                            "check the disk, then finish with resume=True (--resume)"
                        ) from error
                    if found != done.content[number]:
                        raise TargetError(
                            f"variable {array.path!r}, chunk {index}: checksum {found:#010x} was read back, but "
                            f"{int(done.content[number]):#010x} was written; check the disk and finish with "
                            "resume=True (--resume)"
                        )

            looked = range(len(cuts)) if array.absent is None else cuts.holding(~array.absent).tolist()
            with closing(run_threads(check, iter(looked), workers, "verify")) as results:
                for _ in results:
                    pass
