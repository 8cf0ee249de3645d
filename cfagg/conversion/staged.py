"""Arrays of a target other than Zarr, with intermediate chunks if much would be read repeatedly."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from cfagg.conversion.journal import Records
from cfagg.conversion.places import Files
from cfagg.conversion.plan import Array
from cfagg.conversion.request import Request
from cfagg.conversion.run import run
from cfagg.conversion.schedule import schedule
from cfagg.conversion.slab_writer import Job
from cfagg.conversion.slabs import Slabs
from cfagg.formats.zarr.written_codecs import Codec

__all__ = ["Staged", "staged"]


@dataclass(frozen=True, eq=False)
class Staged:
    """The remaining arrays to write, in the given order, and the recipient of progress."""

    arrays: tuple[Array, ...]
    slabs: tuple[Slabs, ...]
    threads: int
    progress: Callable[[int, int], None] | None


@contextmanager
def staged(arrays: Sequence[Array], request: Request, folder: Path, *, shared: bool = True) -> Iterator[Staged]:
    """Write intermediate chunks into a folder, which is removed when the block ends.

    If the folder is not `shared`, cluster workers cannot see it, so they read the source directly, repeatedly if
    necessary.
    """
    aside = None if request.client is None else folder / "aside"
    files = Files(folder, aside)
    alone = request.client is not None and not shared
    made = schedule(arrays, request.memory, request.workers, files, 3, {} if alone else None)
    pairs = list(zip(made.arrays, made.slabs, strict=True))
    before = [(a, s) for a, s in pairs if a.feeds is not None]
    last = [(a, s) for a, s in pairs if a.feeds is None]
    total = made.scratch + sum(a.nbytes for a, _ in last)

    def progress_from(start: int) -> Callable[[int, int], None] | None:
        progress = request.progress
        return None if progress is None else lambda done, _: progress(start + done, total)

    try:
        if before:
            (aside or folder).mkdir(parents=True)
            job = Job([a for a, _ in before], [s for _, s in before], files, Codec("none", None), 3)
            run(job, Records([a.grid.size for a, _ in before]), made.threads, progress_from(0), request.client)
        yield Staged(tuple(a for a, _ in last), tuple(s for _, s in last), made.threads, progress_from(made.scratch))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
