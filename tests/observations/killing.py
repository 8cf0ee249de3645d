"""Builds that are killed at random moments, while a reader opens the store without pause.

Run as a program: ``python -m tests.observations.killing FOLDER SEED KILLS``.  It prints what it did and ends with
status 0 if the store was whole, or not there, at every moment.
"""

from __future__ import annotations

import os
import pathlib
import random
import signal
import sys
import time
import warnings
from functools import partial

import numpy as np

import cfagg
from cfagg.errors import CfaggError, SourceError, TargetError
from cfagg.observations.store import open_store
from tests.durability.tracing import forked
from tests.killing import Reader, ended
from tests.observations import builds

#: Last days of the recipes, the rows of which a reader may find.
ENDS = (4, 7, 10)


def rows_until(day: int) -> np.ndarray:
    """Return the rows of the first days."""
    return builds.expected(
        builds.reports(np.datetime64("2020-01-01"), np.datetime64("2020-01-01") + np.timedelta64(day, "D"))
    )


def made(end: int, form: str) -> dict:
    """Return a recipe up to a day."""
    return builds.recipe(builds.small_frames, end=f"2020-01-{end:02}", format=form, rows_per_chunk=150)


def build(store: pathlib.Path, form: str, chance: random.Random) -> None:
    """Build, resume and append for ever."""
    while True:
        end = chance.choice(ENDS)
        options = chance.choice([{"overwrite": True}, {"append": True}]) | chance.choice([{}, {"resume": True}])
        try:
            cfagg.create_observations(made(end, form), store, workers=chance.choice([1, 2]), **options)
        except CfaggError as error:
            # Another unfinished build, a store that is there, none that could grow: all are said so.
            if isinstance(error, SourceError):
                raise


def rows_of(store: pathlib.Path) -> bytes:
    """Return all rows of a store, opened anew, if it is the same before and after."""
    opened = open_store(store)
    rows = opened.data.read(0, opened.rows)
    if open_store(store).identity != opened.identity:
        raise SourceError("replaced")
    return rows.tobytes()


def judge(store: pathlib.Path, wanted: list[bytes]) -> bool:
    """Whether there is a store; raise if it is not whole."""
    if not store.exists():
        return False
    opened = open_store(store)
    assert opened.data.read(0, opened.rows).tobytes() in wanted
    index = opened.index()
    assert index.kind == "pages"
    for found in (index, opened.index("bisect")):
        assert not found.validate(full=True), found.validate(full=True)
    return True


def finish(store: pathlib.Path, form: str, wanted: list[bytes]) -> int:
    """Finish what was killed, or build anew; return how many parts were there already."""
    for end in ENDS:
        try:
            report = cfagg.create_observations(made(end, form), store, resume=True, overwrite=True)
        except TargetError:
            # What is there was started with a different last day, or to append.
            continue
        break
    else:
        report = cfagg.create_observations(made(ENDS[-1], form), store, overwrite=True)
    # A build that is let finish is right, whatever was killed before.
    assert judge(store, wanted)
    return report.resumed


def main(folder: str, seed: int, kills: int) -> None:
    """Kill builders again and again, and look at what they leave."""
    warnings.simplefilter("ignore", DeprecationWarning)
    chance = random.Random(seed)
    store = pathlib.Path(folder) / "a.zarr"
    form = ("zarr2", "cfagg")[seed % 2]
    # Kernels are loaded before processes are started, so that none is killed while it loads them.
    wanted = [rows_until(day).tobytes() for day in ENDS]
    cfagg.create_observations(made(ENDS[0], form), store)
    there = resumed = 0
    # A store that is not there yet, or is replaced while it is read, is refused by an error that says so.
    with Reader(store, lambda: rows_of(store) in wanted) as reader:
        for _ in range(kills):
            builder = forked(partial(build, store, form, random.Random(chance.random())))
            time.sleep(chance.choice([0.02, 0.1, 0.5]) * chance.random())
            os.kill(builder, signal.SIGKILL)
            ended(builder)
            there += judge(store, wanted)
            if chance.random() < 0.1:
                resumed += finish(store, form, wanted)
            reader.well()
    cfagg.create_observations(made(ENDS[-1], form), store, overwrite=True)
    once = store.with_name("once.zarr")
    cfagg.create_observations(made(ENDS[-1], form), once)
    assert builds.contents(store) == builds.contents(once)
    left = sorted(p.name for p in store.parent.iterdir())
    assert left == ["a.zarr", "once.zarr"], left
    assert reader.answers > 0
    print(
        f"{kills} kills, {there} times a whole store afterwards, {resumed} parts taken up; "
        f"{reader.answers} readings, {reader.refusals} refused"
    )


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
