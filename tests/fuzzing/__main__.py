"""Fuzzing by hand.

python -m tests.fuzzing                                  the parsers
python -m tests.fuzzing run NAME… [--count N] [--seed S] [--start N]  what N changed inputs bring, like ones once
python -m tests.fuzzing input NAME SEED:NUMBER > file    one changed input, to keep in tests/damaged/
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter

from tests.fuzzing.running import Process
from tests.fuzzing.target import dump, table


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzzing")
    parser.add_argument("verb", nargs="?", choices=("list", "run", "input"), default="list")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--start", type=int, default=0)
    args = parser.parse_args()
    known = table()
    if args.verb == "list":
        print("\n".join(known))
        return 0
    if args.verb == "input":
        name, place = args.names
        seed, number = map(int, place.split(":"))
        sys.stdout.buffer.write(dump(known[name].input(seed, number)))
        return 0
    found = 0
    with Process() as process:
        for name in args.names or [name for name, one in known.items() if not one.trial]:
            start, spent = time.monotonic(), process.spent
            finds = process.fuzz(name, args.count, args.seed, args.start)
            took = f"{time.monotonic() - start:.0f} s, {process.spent - spent:.1f} s of processor time"
            print(f"{name}: {args.count:,} inputs, {len(finds):,} finds, {took}", flush=True)
            alike = Counter((f.kind, f.where) for f in finds)
            for find in finds:
                if (find.kind, find.where) in alike:
                    print(f"  {alike.pop((find.kind, find.where))} × {find}", flush=True)
            found += len(finds)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
