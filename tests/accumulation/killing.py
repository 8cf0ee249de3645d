"""Builders of accumulations that are killed at random moments while a reader asks without pause.

Run as a program: ``python -m tests.accumulation.killing FOLDER SEED KILLS``.  It prints what it did and ends with
status 0 if every answer was right or refused.
"""

from __future__ import annotations

import os
import pathlib
import random
import signal
import sys
import time
import warnings
from collections.abc import Callable
from functools import partial

import numpy as np
import zarr

from cfagg.accumulation import accumulating, freshness
from cfagg.accumulation.integrity import read_whole
from cfagg.accumulation.opening import open_group
from cfagg.accumulation.ranges import Request, Runs
from cfagg.accumulation.sums import sums
from cfagg.errors import CfaggError, NotAccumulatedError, StaleError
from tests.durability.tracing import forked
from tests.killing import Reader, ended

DIMS = ("time", "lat", "lon")
SHAPE, CHUNKS = (60, 4, 6), (4, 2, 3)
COMBINATIONS = [("time",), ("lat",), ("lat", "lon"), ("time", "lon")]
VERSIONS = 3


def values(version: int) -> np.ndarray:
    """The array, whole; versions differ in one chunk along time."""
    out = np.random.default_rng(0).integers(-500, 500, SHAPE).astype("i2")
    out[8:12] += np.int16(version)
    return out


def create(store: pathlib.Path, length: int) -> None:
    """Write the first steps of the array."""
    array = zarr.open_group(store, mode="w").create_array(
        "tas", shape=(length, *SHAPE[1:]), chunks=CHUNKS, dtype="i2", dimension_names=DIMS, compressors=None
    )
    array[:] = values(0)[:length]


def change(store: pathlib.Path, version: int, length: int, longer: int) -> None:
    """Let the array grow, or write a chunk again."""
    array = zarr.open_group(store, mode="r+")["tas"]
    if longer > length:
        array.resize((longer, *SHAPE[1:]))
        array[length:] = values(version)[length:longer]
    else:
        array[8:12] = values(version)[8:12]


def build(store: pathlib.Path, chance: random.Random, worked: float) -> None:
    """Build, append and refresh until this process has worked so many seconds, which ends it at once; 0: for ever."""
    # The signal's default ends a process as SIGKILL does, without a word of Python.
    signal.setitimer(signal.ITIMER_PROF, worked)
    while True:
        options = chance.choice(
            [{"overwrite": True}, {"append": True}, {"refresh": True}, {"resume": True}, {"overwrite": True}]
        )
        if "append" not in options and "refresh" not in options:
            options |= {"dims": COMBINATIONS, "stride": chance.choice([1, 2]), "statistics": "chunks"}
        try:
            accumulating.accumulate(store, "tas", workers=chance.choice([1, 2]), **options)
        except (CfaggError, FileNotFoundError) as error:
            # Nothing to append to, or what another builder was killed at: both are said so.
            if not isinstance(error, CfaggError):
                raise


def asking(store: pathlib.Path, chance: random.Random) -> Callable[[], bool]:
    """Return a question about a random range of the array, and whether the answer is right."""
    whole = [values(v).astype("i8") for v in range(VERSIONS)]

    def ask() -> bool:
        group = open_group(store, "tas").asked()
        n = group.source.shape[0]
        a, b = sorted((chance.randint(0, n), chance.randint(0, n)))
        request = Request({0: Runs.whole(b) if a == 0 else runs(a, b)}, {1: slice(None), 2: slice(1, 5)})
        total, weight = sums(group, request)
        freshness.check(group, request.resolve(group.source.shape))
        return any(np.array_equal(total, w[a:b, :, 1:5].sum(0)) for w in whole) and bool((weight == b - a).all())

    return ask


def runs(a: int, b: int) -> Runs:
    """One range."""
    return Runs(np.array([a]), np.array([b]), np.array([0]), 1)


def judge(store: pathlib.Path, version: int, length: int) -> bool:
    """Whether there is an accumulation that says it is fresh; raise if it is wrong."""
    try:
        group = open_group(store, "tas")
        everything = Request({a: Runs.whole(m) for a, m in enumerate(group.source.shape)})
        freshness.check(group, everything.resolve(group.source.shape))
    except (NotAccumulatedError, StaleError):
        return False
    raw = values(version)[:length].astype("i8")
    assert group.source.shape == raw.shape
    for dims, arrays in group.sums.items():
        expected = raw
        for axis in (DIMS.index(d) for d in dims):
            samples = group.samples[dims][axis]
            expected = np.take(np.cumsum(expected, axis), samples - 1, axis)
        assert np.array_equal(read_whole(arrays.data), expected), dims
    for level in group.statistics[DIMS][:1]:
        count, total = (read_whole(level.arrays[k]) for k in ("count", "sum"))
        assert (count.sum(), total.sum()) == (raw.size, raw.sum())
    return True


def main(folder: str, seed: int, kills: int) -> None:
    """Kill builders again and again, and look at what they leave."""
    warnings.simplefilter("ignore", DeprecationWarning)
    chance = random.Random(seed)
    store = pathlib.Path(folder) / "a.zarr"
    version, length = 0, 10
    create(store, length)
    fresh = finished = 0
    with Reader(store, asking(store, random.Random(seed + 1))) as reader:
        # However slow the machine is, the first question finds no accumulation.
        reader.asked(1)
        for _ in range(kills):
            move = chance.random()
            if move < 0.3 and length < SHAPE[0]:
                longer = min(SHAPE[0], length + chance.randint(1, 7))
                change(store, version, length, longer)
                length = longer
            elif move < 0.4:
                version = (version + 1) % VERSIONS
                change(store, version, length, length)
            elif move < 0.45:
                finished += 1
                # A build that is let finish is right, whatever was killed before.
                accumulating.accumulate(store, "tas", COMBINATIONS, overwrite=True)
                assert judge(store, version, length)
            seconds = chance.choice([0.02, 0.1, 0.5]) * chance.random()
            # By the time that it has worked a builder gets as far on a busy machine as on an idle one; by the clock it
            # is also killed while it waits.
            by_work = chance.random() < 0.5
            worked, draws = seconds if by_work else 0.0, random.Random(chance.random())
            builder = forked(partial(build, store, draws, worked))
            if not by_work:
                time.sleep(seconds)
                os.kill(builder, signal.SIGKILL)
            ended(builder)
            fresh += judge(store, version, length)
            reader.well()
        # On a busy machine no build may have come to its end before it was killed.
        accumulating.accumulate(store, "tas", COMBINATIONS, overwrite=True)
        counted = reader.counted()
        # The question that is being asked may have begun before; the next one finds nobody at work, and is answered.
        reader.asked(sum(counted) + 2)
        assert reader.counted()[0] > counted[0], "not answered although nothing is being built"
    report = accumulating.accumulate(store, "tas", COMBINATIONS, overwrite=True)
    assert judge(store, version, length), report
    left = sorted(p.name for p in store.parent.iterdir())
    assert left == ["a.zarr"], left
    assert min(reader.answers, reader.refusals) > 0
    print(
        f"{kills} kills, {fresh} times fresh afterwards, {finished} builds let finish, {length} steps; "
        f"{reader.answers} answers and {reader.refusals} refusals meanwhile"
    )


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
