"""Indexes of a hundred years with an entry each second: ``python -m tests.benchmarks.large_index [--entries N]``.

All three kinds are written in a stream and asked for random windows of three hours; the published software is asked
beside, where there is a Python that has it.  Everything is removed again; it takes up to 8 GB of disk and some minutes.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
from pathlib import Path

from tests.benchmarks.index_cases import CASES, Made
from tests.benchmarks.table import Row, show

#: Entries of one hundred years of 365.25 days, each second.
ENTRIES = 3_155_760_000

#: Bars: milliseconds cold, microseconds warm, MB of memory and of disk.
COLD, WARM, MEMORY, DISK = 0.5, 20.0, 16.0, 394.0


def main() -> None:
    """Write, ask and remove one index after another."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--entries", type=int, default=ENTRIES)
    parser.add_argument("--folder", default=".bench", help="where the indexes are written")
    parser.add_argument("--only", default="", help="part of the names of cases")
    parser.add_argument("--no-tables", action="store_true", help="without the indexes of the published software")
    args = parser.parse_args()
    Path(args.folder).mkdir(exist_ok=True)
    for number, case in enumerate(CASES):
        if args.only in case:
            with tempfile.TemporaryDirectory(dir=args.folder) as folder:
                rows = measure(Path(folder), case, args.entries, number == 0, number == 0 and not args.no_tables)
            print(show(rows), flush=True)


def measure(folder: Path, case: str, n: int, seed: bool, tables: bool) -> list[Row]:
    """Return rows on the pages of one case and, if asked, on the other kinds of index."""
    made = Made(folder / "pages", "pages", case, n)
    os.sync()
    got = made.ask(2000)
    name = f"{n:,} entries, {case}"
    unpacked, bits = got["median"] * 1e6, made.bytes * 8 / n
    rows = [
        _bar(f"{name}: open", got["open"] * 1e3, None, "ms"),
        _bar(f"{name}: cold", got["cold compiled"] * 1e3, COLD, "ms", f"{got['cold'] * 1e3:.2f} without a compiler"),
        _bar(f"{name}: warm", got["median compiled"] * 1e6, WARM, "us", f"{unpacked:.1f} without a compiler"),
        _bar(f"{name}: each of many", got["many compiled"] * 1e6, None, "us"),
        _bar(f"{name}: memory", got["memory"] / 1e6, MEMORY, "MB"),
        _bar(f"{name}: disk", made.bytes / 1e6, DISK if seed else None, "MB", f"{bits:.2f} bits an entry"),
        _bar(f"{name}: write", n / made.seconds / 1e6, None, "M/s"),
    ]
    shutil.rmtree(made.path)
    for kind in ("bisect", "btree") if tables else ():
        table = Made(folder / kind, kind, case, n)
        mine, peer = table.ask(200), table.ask_peer(30)
        rows.append(_bar(f"{name}: {kind}, disk", table.bytes / 1e6, None, "MB", f"written in {table.seconds:.0f} s"))
        rows.append(_bar(f"{name}: {kind}", mine["median"] * 1e3, None, "ms", f"each of many {mine['many'] * 1e3:.2f}"))
        if peer is not None:
            if peer["found"] != [list(pair) for pair in mine["found"][: len(peer["found"])]]:
                raise SystemExit(f"{kind}: cfagg and the published software find other rows")
            job, theirs = f"{name}: pages, against the shipped {kind}", peer["median"] * 1e3
            ours = got["median compiled"] * 1e3
            rows.append(Row(job, ours, theirs, f"shipped {kind}", theirs / ours, None, "ms"))
        shutil.rmtree(table.path)
    return rows


def _bar(job: str, value: float, bar: float | None, unit: str, note: str = "") -> Row:
    """Return a row whose ratio is how many times below its bar a figure is."""
    if bar is None:
        return Row(job, value, value, "-", 1.0, None, unit, note)
    return Row(job, value, bar, "bar", bar / value if value else float("inf"), 1.0, unit, note)


if __name__ == "__main__":
    main()
