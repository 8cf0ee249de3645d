"""Running conversions in a process that is killed, and looking at what it leaves."""

from __future__ import annotations

import hashlib
import os
import pathlib
import signal
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import zarr

from cfagg.conversion import convert
from tests.conversion.conftest import write_aggregation, write_fragment
from tests.durability.tracing import forked

STEPS, LAT, LON = 40, 60, 90


def source(folder: pathlib.Path) -> tuple[pathlib.Path, np.ndarray]:
    """An aggregation of some forty slabs, and its values."""
    values = np.random.default_rng(3).normal(size=(STEPS, LAT, LON)).astype("f4")
    for i in range(STEPS // 4):
        write_fragment(folder / f"part{i}.nc", values[4 * i : 4 * i + 4], chunks=(1, LAT, LON), lat=LAT, lon=LON)
    return write_aggregation(folder / "a.nca", [4] * (STEPS // 4), lat=LAT, lon=LON), values


@dataclass
class Run:
    """A conversion in a process of its own; it says when a slab is done."""

    process: int
    said: int

    def wait(self, slabs: int) -> None:
        """Wait until so many slabs are done, or the process has ended."""
        for _ in range(slabs):
            if not os.read(self.said, 1):
                break

    def end(self, number: int = signal.SIGKILL) -> int:
        """Send the process a signal and return its exit code."""
        os.kill(self.process, number)
        os.close(self.said)
        return os.waitstatus_to_exitcode(os.waitpid(self.process, 0)[1])


def start(path: pathlib.Path, target: pathlib.Path, pause: float = 0.02, *, last: int = -1, **options: Any) -> Run:
    """Start a conversion that waits `pause` seconds after each slab, and after the last one until it is killed."""
    said, say = os.pipe()
    left = [last]

    def slowly(_done: int, _total: int) -> None:
        os.write(say, b".")
        left[0] -= 1
        time.sleep(600 if left[0] == -1 else pause)

    def work() -> None:
        given = {"verify": True, **options}
        convert(path, target, chunks={"time": 1}, workers=2, memory="300KiB", progress=slowly, **given)

    process = forked(work)
    os.close(say)
    return Run(process, said)


def killed(path: pathlib.Path, target: pathlib.Path, slabs: int, **options: Any) -> bool:
    """Kill a conversion after so many slabs; whether it was still running."""
    run = start(path, target, last=slabs, **options)
    run.wait(slabs + 1)
    return run.end() == -signal.SIGKILL


def opens(path: pathlib.Path) -> bool:
    """Whether zarr-python takes a directory, or one in it, for a store."""
    try:
        zarr.open_group(path, mode="r")
    except (FileNotFoundError, ValueError):
        return False
    return True


def contents(store: pathlib.Path) -> dict[str, str]:
    """Digest of every file of a store."""
    return {
        str(p.relative_to(store)): hashlib.sha256(p.read_bytes()).hexdigest() for p in store.rglob("*") if p.is_file()
    }
