"""Indexes to measure, generated in a stream, and how each is asked: in a process of its own, by cfagg or its peer.

The peer is the published software, see `published`.
``python -m tests.benchmarks.index_cases PATH KIND ROWS FIRST LAST COUNT`` measures one index and
prints JSON.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from cfagg.observations.indexes import open_index, pages, write_bisect, write_btree, write_pages
from cfagg.observations.indexes.protocol import Entries
from tests.benchmarks.peers import peer_python

ROOT = Path(__file__).parents[2]

#: Seconds of a window.
WINDOW = 3 * 3600

WRITERS = {"bisect": write_bisect, "btree": write_btree}

#: The peer's look-up of windows given as FIRST row, one line of JSON.
PEER = """
import json, sys, time
import numpy as np
from anemoi.datasets.compat import zarr_open
from anemoi.datasets.date_indexing.bisect import DateBisect
from anemoi.datasets.date_indexing.btree import DateBTree
path, kind, rows = sys.argv[1], sys.argv[2], int(sys.argv[3])
windows = json.loads(sys.stdin.read())
index = {"bisect": DateBisect, "btree": DateBTree}[kind](zarr_open(path, "r"))
for _ in range(2):
    times, found = [], []
    for lo, hi in windows:
        start = time.perf_counter()
        part = index.range_search(lo, hi - 1, rows)
        times.append(time.perf_counter() - start)
        found.append([int(part.start), int(part.stop)])
print(json.dumps({"median": float(np.median(times)), "found": found}))
"""


def every_second(n: int, length: int = 1) -> Iterator[Entries]:
    """An entry each second, all of the same length, for a century."""
    for a in range(0, n, 2**16):
        number = np.arange(a, min(n, a + 2**16), dtype=np.int64)
        yield number, number * length, np.full(len(number), length)


def passes(n: int) -> Iterator[Entries]:
    """Passes of a satellite: 1 to 20 observations each second for about ten minutes, then nothing for a while."""
    rng = np.random.default_rng(0)
    epoch, row = 0, 0
    for a in range(0, n, 2**16):
        m = min(n - a, 2**16)
        steps = np.ones(m, np.int64)
        ends = rng.integers(0, m, max(1, m // 600))
        steps[ends] = rng.integers(60, 3000, len(ends))
        epochs = epoch + np.cumsum(steps)
        length = rng.integers(1, 21, m)
        stop = row + np.cumsum(length)
        yield epochs, stop - length, length
        epoch, row = int(epochs[-1]), int(stop[-1])


def stations(n: int) -> Iterator[Entries]:
    """Reports at any second, ten seconds apart on average, mostly one at a time."""
    rng = np.random.default_rng(1)
    epoch, row = 0, 0
    for a in range(0, n, 2**16):
        m = min(n - a, 2**16)
        epochs = epoch + np.cumsum(rng.geometric(0.1, m))
        length = rng.geometric(0.8, m)
        stop = row + np.cumsum(length)
        yield epochs, stop - length, length
        epoch, row = int(epochs[-1]), int(stop[-1])


CASES = {"an entry each second": every_second, "passes of a satellite": passes, "reports of stations": stations}


class Made:
    """An index in a directory."""

    def __init__(self, path: Path, kind: str, case: str, n: int) -> None:
        path.mkdir(parents=True)
        (path / ".zgroup").write_text('{"zarr_format": 2}')
        self.path, self.kind = path, kind
        self.rows, self.first, self.last = 0, 0, 0
        start = time.perf_counter()
        if kind == "pages":
            write_pages(path, self._seen(CASES[case](n)), identity="")
        else:
            WRITERS[kind](path, self._seen(CASES[case](n)))
        self.seconds = time.perf_counter() - start
        self.bytes = sum(p.stat().st_size for p in path.rglob("*") if p.is_file())

    def _seen(self, entries: Iterator[Entries]) -> Iterator[Entries]:
        for i, block in enumerate(entries):
            if not i:
                self.first = int(block[0][0])
            self.rows, self.last = int(block[1][-1] + block[2][-1]), int(block[0][-1])
            yield block

    def ask(self, count: int) -> dict[str, Any]:
        """Return what cfagg takes, measured in another process."""
        told = [str(x) for x in (self.path, self.kind, self.rows, self.first, self.last, count)]
        done = subprocess.run(
            [sys.executable, "-m", "tests.benchmarks.index_cases", *told], cwd=ROOT, capture_output=True, check=True
        )
        return json.loads(done.stdout)

    def ask_peer(self, count: int) -> dict[str, Any] | None:
        """Return what the peer takes, `None` where it is not there."""
        python = peer_python("anemoi", install=True)
        if python is None:
            return None
        asked = json.dumps(windows(self.first, self.last, count).tolist())
        told = [str(self.path), self.kind, str(self.rows)]
        done = subprocess.run([python, "-c", PEER, *told], input=asked, capture_output=True, check=True, text=True)
        return json.loads(done.stdout.splitlines()[-1])


def windows(first: int, last: int, count: int) -> np.ndarray:
    """Return random windows of three hours."""
    lo = np.random.default_rng(3).integers(first, max(first + 1, last - WINDOW), count)
    return np.stack([lo, lo + WINDOW], axis=1)


def main() -> None:
    """Measure one index in this process and print JSON; times in seconds, memory in bytes."""
    from cfagg.storage.local import LocalSource

    path, kind = sys.argv[1:3]
    rows, first, last, count = map(int, sys.argv[3:])
    asked = windows(first, last, count).tolist()
    files = [p for p in Path(path).rglob("*") if p.is_file()]
    found: dict[str, Any] = {}
    for compiled in (False, True):
        pages._MANY = 0 if compiled else 10**9
        store = SimpleNamespace(path=path, source=LocalSource(path), rows=rows, identity="")
        before, start = _memory(), time.perf_counter()
        index = open_index(store, kind)
        opening = time.perf_counter() - start
        index.find(*asked[0])
        if kind == "pages":
            cold = []
            for lo, hi in asked[: min(count, 200)]:
                _forget(files)
                index._forget()
                start = time.perf_counter()
                index.find(lo, hi)
                cold.append(time.perf_counter() - start)
            found["cold" if not compiled else "cold compiled"] = float(np.median(cold))
        # Each window once before it is measured: warm is what a second look costs.
        for lo, hi in asked:
            index.find(lo, hi)
        times, rows_found = [], []
        for lo, hi in asked:
            start = time.perf_counter()
            part = index.find(lo, hi)
            times.append(time.perf_counter() - start)
            rows_found.append(part)
        index.find_many(*np.array(asked[:1]).T)
        start = time.perf_counter()
        index.find_many(*np.array(asked).T)
        many = time.perf_counter() - start
        more = " compiled" if compiled else ""
        found |= {f"open{more}": opening, f"median{more}": float(np.median(times)), f"many{more}": many / count}
        if not compiled:
            found |= {"memory": _memory() - before, "found": rows_found}
        if kind != "pages":
            break
    print(json.dumps(found))


def _forget(files: list[Path]) -> None:
    """Ask the system to forget what it keeps of files."""
    for path in files:
        with path.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _memory() -> int:
    """Return the bytes of memory that this process has."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    main()
