"""Windows of three hours in indexes of ten million entries, against the published software or its indexes read here."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import numpy as np

from cfagg.observations.indexes.protocol import checked
from tests.benchmarks.index_cases import CASES, Made
from tests.benchmarks.table import Row

#: Microseconds of a warm look-up.
BAR = 20.0
#: How many times faster than the published software its own table is searched.
BISECT = 3.0


def rows(small: bool) -> list[Row]:
    """Return one look-up, each of many, and the writing of pages, for entries of every case."""
    n, asked = (50_000, 50) if small else (10_000_000, 5000)
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for number, case in enumerate(CASES):
            place = Path(folder) / str(number)
            name = f"{n:,} entries, {case}"
            made = Made(place / "pages", "pages", case, n)
            got = made.ask(asked)
            warm = got["median compiled"] * 1e6
            size = f"{made.bytes * 8 / n:.2f} bits an entry"
            plain = f"{got['median'] * 1e6:.0f} us without a compiler, {size}"
            found.append(Row(f"a window, {name}", warm, BAR, "bar", BAR / warm, 1.0, "us", plain))
            for kind in ("bisect", "btree"):
                table = Made(place / kind, kind, case, n)
                peer = None if small else table.ask_peer(asked // 10)
                against = f"read here from the shipped {kind}" if peer is None else f"shipped {kind}"
                mine = table.ask(asked // 10)
                other = (mine if peer is None else peer)["median"] * 1e6
                found.append(Row(f"a window, {name}", warm, other, against, other / warm, 5.0, "us"))
                if peer is not None:
                    if peer["found"] != mine["found"]:
                        raise SystemExit(f"{kind}: cfagg and the published software find other rows")
                    here, bar = mine["median"] * 1e6, BISECT if kind == "bisect" else None
                    job = f"a window, {name}, {kind} without pages"
                    found.append(Row(job, here, other, against, other / here, bar, "us"))
            many = got["many compiled"] * 1e6
            found.append(Row(f"each of {asked} windows, {name}", many, warm, "one by one", warm / many, None, "us"))
            found.append(_writing(place / "again", case, n))
    return found


def _writing(path: Path, case: str, n: int) -> Row:
    """Return the writing of pages against only checking the entries."""
    entries = [tuple(np.array(column) for column in block) for block in CASES[case](min(n, 2_000_000))]
    count = sum(len(block[0]) for block in entries)
    start = time.process_time()
    for _ in checked(entries, "index"):
        pass
    floor = time.process_time() - start
    CASES["kept"] = lambda _: iter(entries)
    try:
        start = time.process_time()
        Made(path, "pages", "kept", count)
        seconds = time.process_time() - start
    finally:
        del CASES["kept"]
    each, least = seconds / count * 1e9, floor / count * 1e9
    return Row(f"write pages, {case}", each, least, "check of entries", least / each, None, "ns/entry")
