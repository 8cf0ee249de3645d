"""Run the benchmarks and print their table: ``python -m tests.benchmarks.run [--small] [name ...]``."""

from __future__ import annotations

import argparse
import importlib
import pathlib

from tests.benchmarks.table import Row, show

NAMES = sorted(p.stem for p in pathlib.Path(__file__).parent.glob("bench_*.py"))


def main() -> None:
    """Run those named, or all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="parts of benchmark names; all by default")
    parser.add_argument("--small", action="store_true", help="sizes of seconds, as in the test suite")
    args = parser.parse_args()
    rows: list[Row] = []
    for name in NAMES:
        if args.names and not any(part in name for part in args.names):
            continue
        print(f"… {name}", flush=True)
        new = importlib.import_module(f"tests.benchmarks.{name}").rows(args.small)
        print(show(new), flush=True)
        rows += new
    print("\n" + show(rows))


if __name__ == "__main__":
    main()
