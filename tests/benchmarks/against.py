"""Compare the benchmarks with those of another checkout: ``python -m tests.benchmarks.against PATH [name ...]``.

Each benchmark runs in turn here and there, in processes of its own, so that a machine that becomes slower slows both.
The other checkout needs its own ``.venv``.  The status is 1 where a row takes more than a tenth longer than there.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path

from tests.benchmarks.run import NAMES

HERE = Path(__file__).parents[2]

#: More is slower.
LIMIT = 1.10

CODE = """
import contextlib, importlib, json, sys
with contextlib.redirect_stdout(sys.stderr):
    rows = importlib.import_module("tests.benchmarks." + sys.argv[1]).rows(sys.argv[2] == "True")
print(json.dumps([(row.job, row.unit, row.ours) for row in rows]))
"""


def figures(checkout: Path, name: str, small: bool) -> dict[str, float]:
    """Return what each row of a benchmark takes there; of rates, what an element takes."""
    command = [str(checkout / ".venv/bin/python"), "-c", CODE, name, str(small)]
    done = subprocess.run(command, cwd=checkout, capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"{name} fails in {checkout}: {done.stderr.strip().splitlines()[-1]}", file=sys.stderr)
        return {}
    rows = json.loads(done.stdout.splitlines()[-1])
    return {job: 1 / ours if "/s" in unit else ours for job, unit, ours in rows if ours}


def main() -> int:
    """Print each row's median ratio to the other checkout."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("other", type=Path)
    parser.add_argument("names", nargs="*", help="parts of benchmark names; all by default")
    parser.add_argument("--pairs", type=int, default=9)
    parser.add_argument("--small", action="store_true", help="sizes of seconds, as in the test suite")
    args = parser.parse_args()
    slower = 0
    for name in NAMES:
        if args.names and not any(part in name for part in args.names):
            continue
        if not (args.other / f"tests/benchmarks/{name}.py").exists():
            print(f"{name} is not in {args.other}", file=sys.stderr)
            continue
        ratios: dict[str, list[float]] = {}
        for _ in range(args.pairs):
            there, here = (figures(path, name, args.small) for path in (args.other.resolve(), HERE))
            for job in there.keys() & here.keys():
                ratios.setdefault(job, []).append(here[job] / there[job])
        for job, found in sorted(ratios.items()):
            median = statistics.median(found)
            slower += median > LIMIT
            verdict = "SLOWER" if median > LIMIT else ""
            print(f"{job:70} {median:6.3f}  {min(found):6.3f} .. {max(found):6.3f}  {verdict}", flush=True)
    return int(slower > 0)


if __name__ == "__main__":
    sys.exit(main())
