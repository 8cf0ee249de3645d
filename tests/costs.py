"""What tests cost: `make test` leaves to `make test-all` what takes longest, as `make costs` has measured it.

A line of ``costs.txt`` holds the processor seconds of one set of parameters of a test, and its name.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

__all__ = ["affordable", "measured"]

COSTS = Path(__file__).with_name("costs.txt")

#: Processor seconds that one test, with all its parameters, may take in `make test`.
DAILY = 0.07

#: Tests that take less with all their parameters are not listed.
_LEAST = 0.1

#: Names the directory into which costs are written, if they are measured.
_VARIABLE = "CFAGG_TEST_COSTS"

#: What had been used before a test.
_BEFORE = pytest.StashKey[float]()


def measured() -> dict[str, float]:
    """Return the cost of one set of parameters of each test that is listed; of none while costs are measured."""
    if _VARIABLE in os.environ:
        return {}
    lines = COSTS.read_text(encoding="utf-8").splitlines()
    return {name: float(cost) for cost, _, name in (line.partition(" ") for line in lines)}


def affordable(cost: float, number: int) -> int:
    """Return how many of `number` sets of parameters of this cost `make test` tries."""
    return min(number, int(DAILY / cost)) if cost else number


def _used() -> float:
    """Return the processor seconds of this process and of those that it has waited for."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in usages)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    """Note what had been used before a test and its fixtures."""
    item.stash[_BEFORE] = _used()
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Write what a test took, to a file for each process; what ends with the last of several tests does not count."""
    try:
        return (yield)
    finally:
        with Path(os.environ[_VARIABLE], str(os.getpid())).open("a", encoding="utf-8") as file:
            file.write(f"{_used() - item.stash[_BEFORE]:.6f} {item.nodeid}\n")


def listing(lines: Iterable[str]) -> str:
    """Return the text of the list, by what was noted of each set of parameters."""
    costs = defaultdict(list)
    for line in lines:
        cost, _, name = line.partition(" ")
        costs[name.partition("[")[0]].append(float(cost))
    means = {name: sum(each) / len(each) for name, each in costs.items() if sum(each) >= _LEAST}
    return "".join(f"{mean:.3f} {name}\n" for name, mean in sorted(means.items()))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pytest", "-p", "tests.costs", *sys.argv[1:]]
        status = subprocess.run(command, env={**os.environ, _VARIABLE: folder}, check=False).returncode
        noted = [line for path in Path(folder).iterdir() for line in path.read_text(encoding="utf-8").splitlines()]
    if not status:
        COSTS.write_text(listing(noted), encoding="utf-8")
    sys.exit(status)
