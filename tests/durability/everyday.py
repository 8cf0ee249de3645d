"""What is tried of the writers every day, by one process that imports all that they need once.

Run as a program: ``python -m tests.durability.everyday FOLDER``.  It prints a JSON object.
"""

from __future__ import annotations

import json
import pathlib
import random
import sys
from typing import Any

from tests.durability import faults, places, tracing
from tests.durability.writers import WRITERS

#: Writers that stand for the others: a directory, two files of which one is of use with the other, and a file.
SHORT = ("convert --overwrite", "aggregate --append", "report")

#: Of each of them so many kills, errors and moments of power loss.
FEW = (1, 1, 2)

#: What a faulty writer would leave out, and the harness has to find.
FORGOTTEN = {"data": frozenset({b"syncfs"}), "names": frozenset({b"fsync"})}


def forgetful(home: pathlib.Path) -> dict[str, str]:
    """Return what the harness finds of writers that do not force data, or names, to disk."""
    home.mkdir()
    stand = faults.Stand(WRITERS["convert --overwrite"], home, loaded=True)
    disk = stand.record()
    return {
        what: next(filter(None, stand.lose_power(disk, random.Random(0), 0, calls)), "")
        for what, calls in FORGOTTEN.items()
    }


def on_a_network(home: pathlib.Path) -> list[str]:
    """Kill a writer before and between the two renames where directories cannot be exchanged; return what is wrong."""
    home.mkdir()
    stand = faults.Stand(WRITERS["convert --overwrite on a network"], home, loaded=True)
    stand.record()
    last = stand.points()["rename"]
    return [said for n in (last - 1, last) if (said := stand.kill("rename", n))]


def everything(home: pathlib.Path) -> dict[str, Any]:
    """Do it."""
    if sys.platform != "linux":
        return {"places": [], "skipped": "only Linux has strace, capabilities and such mounts"}
    names = tuple(dict.fromkeys((*SHORT, *(name for kind in places.RUNS for name in places.RUNS[kind]))))
    (home / "once").mkdir()
    tracing.load_what_is_needed(lambda: places.once(home / "once", names))
    found: dict[str, Any] = {"places": list(places.outcomes(home / "places", places.RUNS))}
    if reason := tracing.works():
        return {**found, "skipped": reason}
    tallies = {}
    for name in SHORT:
        (home / name).mkdir()
        tally = faults.torment(WRITERS[name], home / name, *FEW, loaded=True)
        tallies[name] = [tally.kills, tally.errors, tally.losses, tally.finds]
    return {
        **found,
        "faults": tallies,
        "forgetful": forgetful(home / "forgetful"),
        "network": on_a_network(home / "network"),
    }


if __name__ == "__main__":
    print("\neveryday", json.dumps(everything(pathlib.Path(sys.argv[1]))))
