"""A process that appends without pause, killed at random moments, while another one reads; NumPy says what is right.

Run as a program: ``python -m tests.writing.zarr.killing FOLDER SEED KILLS [KIND]``.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import zarr

import cfagg
from tests.durability.tracing import forked
from tests.killing import Reader, ended

#: Values of x.
WIDTH = 5


def values(start: int, stop: int) -> np.ndarray[Any, Any]:
    return np.arange(start, stop, dtype="f4")[:, None] * 10 + np.arange(WIDTH, dtype="f4")


def count_at(at: int) -> int:
    """Return how many steps are appended where so many are there: whole appends end at known places."""
    return random.Random(at).choice([1, 1, 2, 3, 7])


def ends(stop: int) -> set[int]:
    """Return where whole appends end, up to a place."""
    found, at = {3}, 3
    while at < stop:
        at += count_at(at)
        found.add(at)
    return found


def make(store: Path, kind: str) -> None:
    """Write a store of three steps."""
    group = zarr.create_group(store, zarr_format=2 if kind == "v2" else 3)
    for name, shape, data in (("tas", (3, WIDTH), values(0, 3)), ("time", (3,), np.arange(3))):
        names = ["time", "x"][: len(shape)]
        how: dict[str, Any] = {"compressors": None, "dtype": data.dtype, "shape": shape}
        how |= {"attributes": {"_ARRAY_DIMENSIONS": names}} if kind == "v2" else {"dimension_names": names}
        rest = [[2, 3]] if kind == "rectilinear" else [2]
        first: Any = [2, 1] if kind == "rectilinear" else 4
        group.create_array(name, chunks=[first, *rest][: len(shape)], **how)[:] = data
    zarr.consolidate_metadata(store)


def seen(store: Path) -> tuple[int, np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return what readers by consolidated metadata see."""
    opened = zarr.open_consolidated(store, mode="r")
    tas, time_ = opened["tas"], opened["time"]
    assert tas.shape[0] == time_.shape[0], (tas.shape, time_.shape)  # type: ignore[union-attr]
    return tas.shape[0], tas[:], time_[:]  # type: ignore[union-attr, index]


def is_right(store: Path) -> bool:
    """Whether what is seen is a whole number of appends, and every value is right."""
    size, tas, time_ = seen(store)
    return size in ends(size) and np.array_equal(tas, values(0, size)) and np.array_equal(time_, np.arange(size))


def append(store: Path, at: int) -> int:
    count = count_at(at)
    cfagg.append(store, {"tas": values(at, at + count), "time": np.arange(at, at + count)}, "time", workers=1)
    return at + count


def _go_on(store: Path) -> None:
    # Its size is asked of the metadata alone: zarr-python has threads, which do not survive a fork.
    name = "zarr.json" if (store / "zarr.json").exists() else ".zmetadata"
    document = json.loads((store / name).read_bytes())
    held = document["consolidated_metadata"]["metadata"] if name == "zarr.json" else document["metadata"]
    at = held["tas" if name == "zarr.json" else "tas/.zarray"]["shape"][0]
    while True:
        at = append(store, at)


def main(folder: Path, seed: int, kills: int, kind: str) -> str:
    """Kill an appending process so often; return what happened."""
    os.environ["ZARR_ARRAY__RECTILINEAR_CHUNKS"] = "1"
    zarr.config.refresh()
    rng, store = random.Random(seed), folder / "a.zarr"
    make(store, kind)
    warm = folder / "warm.zarr"
    make(warm, kind)
    append(warm, 3)
    child = forked(lambda: _status(warm))
    assert os.waitpid(child, 0)[1] == 0
    with Reader(store, lambda: is_right(store)) as reader:
        for number in range(kills):
            child = forked(lambda: _go_on(store))
            time.sleep(rng.uniform(0.005, 0.12))
            os.kill(child, signal.SIGKILL)
            ended(child)
            reader.well()
            check = forked(lambda: _status(store))
            assert os.waitpid(check, 0)[1] == 0, f"after {number + 1} kills the store is wrong"
        reader.asked(20)
    # The next append completes, and nothing is left of those that did not.
    append(store, seen(store)[0])
    assert is_right(store)
    size = seen(store)[0]
    for name in ("tas", "time"):
        assert zarr.open_array(store / name, mode="r").shape[0] == size
    left = [p for p in store.rglob("*") if p.name.startswith(".cfagg") or p.name.endswith(".part")]
    assert not left, left
    return f"{kills} kills, {size} steps, {reader.answers} answers, {reader.refusals} refusals"


def _status(store: Path) -> int:
    return 0 if is_right(store) else 4


if __name__ == "__main__":
    print(main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4] if len(sys.argv) > 4 else "regular"))
