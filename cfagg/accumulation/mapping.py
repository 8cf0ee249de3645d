"""The pass over the data by threads or Dask workers, and the journal from which a killed build is finished.

Two files: ``identity``, a JSON object that says what is being built, and ``records``, one record of fixed length per
chunk at the place of its number.  A record is written when all partial sums of its chunk are.  It carries a checksum of
itself, so that a torn one counts as none.
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.accumulation.partials import ChunkSums, Recipe, compute
from cfagg.accumulation.scratch import Scratch
from cfagg.errors import LimitError, TargetError
from cfagg.formats.fastzlib import crc32
from cfagg.runtime.publishing import read_own, write_synced
from cfagg.runtime.threads import run_threads

__all__ = ["Journal", "Pass", "threads_that_fit"]

#: Name of the journal's own form; a change of it makes older journals useless.
FORMAT = "cfagg accumulation 2"


Progress = Callable[[int, int], None]

#: A chunk as stored, decoded, and its partial sums are in memory together; so many times the chunk at most.
_COPIES = 3

#: Bytes of the array in one task of Dask: large enough that the way to the worker does not count.
_BATCH = 64 << 20


class Journal:
    """An open journal of so many chunks, with records by `record_type`."""

    def __init__(self, folder: Path, count: int, dtype: np.dtype[Any]) -> None:
        self.count, self.dtype = count, dtype
        self._path = folder / "records"
        self._file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o666)

    @classmethod
    def create(cls, folder: Path, identity: Mapping[str, Any], count: int, dtype: np.dtype[Any]) -> Journal:
        """Start a journal."""
        (folder / "records").unlink(missing_ok=True)
        document = {"format": FORMAT, "identity": dict(identity), "chunks": count}
        write_synced(folder / "identity", json.dumps(document).encode())
        return cls(folder, count, dtype)

    @classmethod
    def resume(cls, folder: Path, identity: Mapping[str, Any], count: int, dtype: np.dtype[Any]) -> Journal:
        """Continue a journal; refuse one of another build: another array, other options or another version."""
        try:
            found = json.loads(read_own(folder / "identity"))
        except ValueError:
            found = {}
        if not isinstance(found, dict) or found.get("format") != FORMAT:
            raise TargetError(
                "the unfinished accumulation is of another version; run again with overwrite=True (--overwrite) "
                "to start again"
            )
        old = found.get("identity")
        old = old if isinstance(old, dict) else {}
        names = [k for k in identity if old.get(k) != identity[k]]
        if names or found.get("chunks") != count:
            raise TargetError(
                f"the unfinished accumulation was started with different settings ({', '.join(names) or 'chunks'}), so "
                "it cannot be resumed like this; repeat the call with the original options, or start again with "
                "overwrite=True (--overwrite)"
            )
        return cls(folder, count, dtype)

    @staticmethod
    def belongs(folder: Path, identity: Mapping[str, Any], count: int) -> bool:
        """Whether there is a journal of this very build."""
        try:
            found = json.loads(read_own(folder / "identity"))
        except (FileNotFoundError, ValueError):
            return False
        return bool(found == {"format": FORMAT, "identity": dict(identity), "chunks": count})

    def add(self, record: npt.NDArray[Any]) -> None:
        """Write the record of one chunk, whose partial sums are written; its checksum is set here."""
        record["check"] = 0
        record["check"] = crc32(record.tobytes())
        raw = record.tobytes()
        if os.pwrite(self._file, raw, int(record["number"]) * self.dtype.itemsize) != len(raw):
            raise OSError(28, os.strerror(28), str(self._path))

    def read(self) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
        """Return all records, and which of them are whole."""
        records = np.zeros(self.count, self.dtype)
        held = np.fromfile(self._path, self.dtype, count=self.count)
        records[: len(held)] = held
        good = np.zeros(self.count, bool)
        bare = records.copy()
        bare["check"] = 0
        raw, size = memoryview(bare.view(np.uint8)) if self.count else memoryview(b""), self.dtype.itemsize
        # An untouched record is all zeros: its checksum is not that of zeros.
        for i in np.flatnonzero(records["check"]).tolist():
            good[i] = records["number"][i] == i and crc32(raw[i * size : (i + 1) * size]) == records["check"][i]
        return records, good

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


def threads_that_fit(recipe: Recipe, memory: int, workers: int) -> int:
    """Return the number of threads whose chunks fit in memory together; refuse a chunk that does not fit."""
    array, largest = recipe.window.array, recipe.window.array.dtype.itemsize
    for lengths in recipe.window.lengths:
        largest *= int(lengths.max(initial=0))
    need = largest * _COPIES
    if need > memory:
        raise LimitError(
            f"{array.store}: a chunk of array {array.path!r} has {largest:,} bytes and takes some {need:,} to sum, "
            f"more than memory={memory:,}; give more memory (--memory) or make smaller chunks"
        )
    return max(1, min(workers, memory // max(1, need)))


@dataclass(eq=False)
class Pass:
    """Chunks that are read once each, their partial sums kept; `stamps` are of all stored objects as seen before."""

    recipe: Recipe
    #: Numbers of the chunks that are not done yet.
    todo: npt.NDArray[np.int64]
    stamps: npt.NDArray[np.int64]
    scratch: Scratch
    journal: Journal
    #: Called with bytes done and bytes in all.
    progress: Progress | None

    def __post_init__(self) -> None:
        self._sizes = self.recipe.window.sizes(()) * self.recipe.window.array.dtype.itemsize
        self._total = int(self._sizes.sum())
        self._done = self._total - int(self._sizes[self.todo].sum())
        if self.progress is not None:
            self.progress(self._done, self._total)

    def by_threads(self, workers: int) -> None:
        """Read chunks here; the first error of any thread stops the others."""

        def work(number: int) -> int:
            self._keep(compute(self.recipe, number, self._stamp(number)))
            return number

        numbers = self.todo.tolist()
        few = workers == 1 or len(numbers) == 1
        for done in map(work, numbers) if few else run_threads(work, iter(numbers), workers, "accumulate"):
            self._count([done])

    def by_dask(self, client: Any) -> None:
        """Read chunks on the workers of a Dask cluster, which see the store by the same path."""
        from distributed import as_completed

        batches = self._batches()
        # Sent once to every worker, not with every task.
        sent = client.scatter(self.recipe, broadcast=True, hash=False)

        def submit(numbers: list[int]) -> Any:
            return client.submit(_compute_batch, sent, numbers, [self._stamp(n) for n in numbers], pure=False)

        ahead = [submit(b) for b in itertools.islice(batches, 2 * max(1, sum(client.nthreads().values())))]
        pending = as_completed(ahead, with_results=True, raise_errors=True)
        for future, batch in pending:
            for found in batch:
                self._keep(found)
            self._count([int(f.record["number"]) for f in batch])
            future.release()
            following = next(batches, None)
            if following is not None:
                pending.add(submit(following))

    def _batches(self) -> Iterator[list[int]]:
        """Yield numbers of chunks for one task each."""
        window = self.recipe.window
        mean = window.elements * window.array.dtype.itemsize / max(1, window.size)
        length = max(1, int(_BATCH // max(1.0, mean)))
        for i in range(0, len(self.todo), length):
            yield self.todo[i : i + length].tolist()

    def _stamp(self, number: int) -> tuple[int, ...]:
        """Return the stamp of the object that holds a chunk."""
        return tuple(self.stamps[self.recipe.window.objects[number]].tolist())

    def _keep(self, found: ChunkSums) -> None:
        """Write the partial sums of a chunk, then its record."""
        number = int(found.record["number"])
        for field, part in found.parts:
            self.scratch.write(field, number, memoryview(part.reshape(-1).view(np.uint8)))
        self.journal.add(found.record)

    def _count(self, numbers: Sequence[int]) -> None:
        """Count bytes of chunks that are done."""
        if self.progress is not None:
            self._done += int(sum(self._sizes[n] for n in numbers))
            self.progress(self._done, self._total)


def _compute_batch(recipe: Recipe, numbers: Sequence[int], stamps: Sequence[tuple[int, ...]]) -> list[ChunkSums]:
    """Return the partial sums of some chunks; runs on a worker."""
    return [compute(recipe, n, s, look=True) for n, s in zip(numbers, stamps, strict=True)]
