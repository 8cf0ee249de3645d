"""Running conversions in a process that is killed, and looking at what it leaves."""

from __future__ import annotations

import hashlib
import json
import pathlib
import signal
import subprocess
import sys
import time

import numpy as np
import zarr

from tests.conversion.conftest import write_aggregation, write_fragment

SCRIPT = """
import json, sys, time
from cfagg.conversion import convert
def slowly(done, total):
    print(done, flush=True)
    time.sleep(float(sys.argv[4]))
convert(sys.argv[1], sys.argv[2], chunks={"time": 1}, workers=2, memory="300KiB", progress=slowly, verify=True,
        **json.loads(sys.argv[3]))
"""
STEPS, LAT, LON = 40, 60, 90


def source(folder: pathlib.Path) -> tuple[pathlib.Path, np.ndarray]:
    """An aggregation of some forty slabs, and its values."""
    values = np.random.default_rng(3).normal(size=(STEPS, LAT, LON)).astype("f4")
    for i in range(STEPS // 4):
        write_fragment(folder / f"part{i}.nc", values[4 * i : 4 * i + 4], chunks=(1, LAT, LON), lat=LAT, lon=LON)
    return write_aggregation(folder / "a.nca", [4] * (STEPS // 4), lat=LAT, lon=LON), values


def start(path: pathlib.Path, target: pathlib.Path, pause: float, **options: object) -> subprocess.Popen[str]:
    """Start a conversion that waits `pause` seconds after each slab."""
    arguments = [str(path), str(target), json.dumps(options), str(pause)]
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def kill(process: subprocess.Popen[str], slabs: int, seconds: float = 0.0) -> bool:
    """Kill a process after it reported so many slabs and so many seconds more; whether it was still running."""
    for _ in range(slabs + 1):
        if not process.stdout.readline():
            break
    time.sleep(seconds)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=300)
    return process.returncode == -signal.SIGKILL


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
