"""The process that tries the mutants of one group, in a copy of the tree."""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.mutation.bench import Bench
from tests.mutation.changes import Mutant, mutants
from tests.mutation.equivalents import explained
from tests.mutation.groups import GROUPS
from tests.mutation.log import Log

#: Slow to import and never mutated.
_SHARED = ("numpy", "netCDF4", "h5py", "numba", "zarr", "cftime", "cf_units", "xarray", "pandas", "pyarrow")


def choose(paths: list[str], seed: int, count: int, *, guards: bool = False) -> tuple[list[Mutant], int]:
    """Return the first mutants in the order of a seed, without those that are explained, and how many there are."""
    every = [one for path in paths for one in mutants(path, Path(path).read_text())]
    every = [one for one in every if explained(one.path, one.text, one.before, one.after) is None]
    every = [one for one in every if one.is_guard or not guards]
    every.sort(key=lambda one: one.rank(seed))
    return every[:count], len(every)


def run(args: argparse.Namespace) -> int:
    """Try the mutants of a group that are not in the log yet; return how many live."""
    group = GROUPS[args.group]
    paths = [path for path in group.modules if re.search(args.only, path)]
    chosen, total = choose(paths, args.seed, args.count, guards=args.guards)
    log = Log(Path(args.log))
    waiting = [
        one for one in chosen if (args.again and log.results.get(one.key) != "killed") or one.key not in log.results
    ]
    out = os.fdopen(os.dup(1), "w", buffering=1)
    print(f"{args.group}: {len(chosen)} of {total} mutants, {len(waiting)} to be tried", file=out)

    def use(bench: Bench) -> None:
        seconds = sum(seen.seconds for seen in bench.seen.values())
        print(f"{len(bench.seen)} tests, {seconds:.0f} s of processor", file=out)
        for nodeid in bench.failing:
            print(f"  left out, since it fails without a change or runs too long: {nodeid}", file=out)
        start = time.monotonic()
        for k, mutant in enumerate(waiting):
            result = bench.attempt(mutant)
            log.add(mutant, result)
            if result != "killed":
                print(f"  {result}: {mutant}", file=out)
            if k % 20 == 19:
                print(f"  {k + 1} of {len(waiting)} after {time.monotonic() - start:.0f} s", file=out)

    if waiting:
        # What pytest itself writes is of interest only where it ends early.
        aside = Path("pytest")
        with aside.open("wb") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
        options = ["-q", "-p", "no:cacheprovider", f"--basetemp={Path.cwd() / 'temporary'}"]
        status = pytest.main(
            [*options, *(args.tests or group.tests)], plugins=[Bench(paths, use, args.budget, shared=_SHARED)]
        )
        if status not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
            print(f"{args.group}: pytest ended with {status!r}\n{aside.read_text()[-5000:]}", file=out)
            return 1
    results = Counter(log.results[one.key] for one in chosen)
    print(
        f"{args.group}, seed {args.seed}: " + ", ".join(f"{n} {result}" for result, n in sorted(results.items())),
        file=out,
    )
    return results["survived"] + results["not run"]


def main() -> int:
    """Try the mutants that the command names."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutation.trial", allow_abbrev=False)
    parser.add_argument("group", choices=list(GROUPS))
    parser.add_argument("log")
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--only", required=True)
    parser.add_argument("--budget", type=float, required=True)
    parser.add_argument("--tests", nargs="+", default=[])
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--guards", action="store_true")
    return 1 if run(parser.parse_args()) else 0


if __name__ == "__main__":
    sys.exit(main())
