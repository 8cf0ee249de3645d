"""Samples of observations, ten million rows of sixteen columns, against the published software, pyarrow and duckdb.

All are asked for the same windows of six hours in random order, far more than their caches hold.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from cfagg.observations.cache import set_cache_size, shared_cache
from cfagg.observations.opening import open_observations
from tests.benchmarks.peers import peer_python
from tests.benchmarks.table import Row
from tests.observations.written import write_rows

ROOT = Path(__file__).parents[2]

#: Milliseconds of processor time that a sample may take, of a store as the published software writes it and of ours.
UNCHANGED, OWN = 1.5, 0.6

#: Rows of one sample, and seconds of its window.
SAMPLE, WINDOW = 12_600, 6 * 3600
#: 2020-01-01 in seconds since 1970.
START = 1577836800

#: The published software reads samples whose numbers are given, and prints one line of JSON.
PEER = """
import json, sys, time
import numpy as np
from anemoi.datasets import open_dataset
asked = json.loads(sys.stdin.read())
ds = open_dataset(sys.argv[1], start=sys.argv[2], end=sys.argv[3], window="(-3,+3]", frequency="6h")
ds[asked[0]]
times, sums = [], []
for i in asked[1:]:
    start = time.process_time()
    x = ds[i]
    times.append(time.process_time() - start)
    sums.append([x.shape[0], float(np.nansum(np.asarray(x), dtype="f8"))])
print(json.dumps({"mean": float(np.mean(times)), "median": float(np.median(times)), "sums": sums}))
"""


def rows(small: bool) -> list[Row]:
    """Return the cost of a sample of each kind of store and of each peer, and of a shuffled epoch."""
    n = 200_000 if small else 10_000_000
    count = 5 if small else 200
    kept = shared_cache.budget
    with tempfile.TemporaryDirectory(dir=_folder()) as folder:
        try:
            return _measure(Path(folder), n, count, peer=not small)
        finally:
            set_cache_size(kept)


def _folder() -> Path | None:
    """Return where stores are written: on the disk of the checkout, where there is room."""
    folder = ROOT / ".bench"
    return folder if folder.is_dir() else None


def _measure(folder: Path, n: int, count: int, *, peer: bool) -> list[Row]:
    table = _table(n)
    names = [f"v{k}" for k in range(table.shape[1] - 4)]
    samples = n // SAMPLE - 2
    asked = [int(i) for i in np.random.default_rng(1).permutation(samples)[:count]]
    dates = [str(np.datetime64(START + i * WINDOW, "s")) for i in (1, samples)]
    stores = {}
    for form, bar in (("zarr2", UNCHANGED), ("cfagg", OWN)):
        stores[form] = folder / f"{form}.zarr", bar
        write_rows(stores[form][0], names, table, format=form)
    epochs = table[:, 0].astype(np.int64) * 86400 + table[:, 1].astype(np.int64)
    size = f"a sample of {SAMPLE:,} of {n:,} rows"
    # Hardly any sample finds in the cache what another has left there; that would be 0.1 ms.
    set_cache_size(2**24)
    found: list[Row] = []
    peers = [_arrow(folder, table, epochs)]
    if find_spec("duckdb") is not None:  # it comes with the extra bench, not with the test suite
        peers.append(_duckdb(table, epochs))
    taken: dict[str, float] = {}
    means: dict[str, float] = {}
    for form, (path, bar) in stores.items():
        ds = open_observations(path, dates[0], dates[1], "(-3,+3]", "6h")
        for i in asked[:64]:
            ds[i]  # windows of all samples are known by now
        times = _times(ds.__getitem__, asked)
        taken[form], means[form] = mine, _ = float(np.median(times)), float(np.mean(times))
        floor = _median(_decoding(ds), asked)
        job = f"{size}, {'unchanged store' if form == 'zarr2' else 'own layout'}"
        found.append(Row(job, mine * 1e3, bar, "the bar itself", bar / (mine * 1e3), 1.0, "ms"))
        found.append(Row(f"{job}, floor", mine * 1e3, floor * 1e3, "unpacking alone", floor / mine, None, "ms"))
    for name, ask in peers:
        other = _median(lambda i, ask=ask: ask(START + i * WINDOW + WINDOW // 2 + 1), asked)
        for form, mine in taken.items():
            found.append(Row(f"{size}, {form}", mine * 1e3, other * 1e3, name, other / mine, 1.0, "ms"))
    if peer:
        found += _published(stores["zarr2"][0], dates, asked, size, means)
    for form, (path, _) in stores.items():
        found += _epoch(path, dates, form)
    return found


def _table(n: int) -> np.ndarray:
    """Return sorted rows: as many in each window, numbers of few and of many digits, some missing."""
    random = np.random.default_rng(0)
    seconds = START + np.sort(random.integers(0, n * WINDOW // SAMPLE, n))
    table = np.empty((n, 16), np.float32)
    table[:, 0], table[:, 1] = seconds // 86400, seconds % 86400
    table[:, 2] = np.round(random.uniform(-90, 90, n), 2)
    table[:, 3] = np.round(random.uniform(0, 359.9, n), 2)
    for k in range(4, 16):
        table[:, k] = np.round(random.normal(280, 10, n), 2) if k % 3 else random.normal(0, 1, n)
    table[random.random(n) < 0.3, 5] = np.nan
    ties = np.flatnonzero(np.diff(seconds) == 0)
    # Rows of one second in the order of a store.
    for a in np.split(ties, np.flatnonzero(np.diff(ties) > 1) + 1) if ties.size else ():
        part = table[a[0] : a[-1] + 2]
        part[:] = part[np.lexsort(part.T[2:4][::-1])]
    return table


def _times(ask: Callable[[int], Any], asked: list[int]) -> np.ndarray:
    """Return seconds of processor time of each sample."""
    times = []
    for i in asked:
        start = time.process_time()
        ask(i)
        times.append(time.process_time() - start)
    return np.array(times)


def _median(ask: Callable[[int], Any], asked: list[int]) -> float:
    return float(np.median(_times(ask, asked)))


def _decoding(ds: Any) -> Callable[[int], Any]:
    """Return what only reads and unpacks the blocks that hold a sample."""
    data = ds.store.data
    row = data.shape[1] * 4

    def ask(i: int) -> list[np.ndarray]:
        found = []
        start, stop = ds.ranges[i].tolist()
        held = data.array.held[0]
        for number in range(start // held, -(-stop // held)):
            obj = data._reader.at(number, 0)
            a, b = (min(max(n - number * held, 0), held) * row for n in (start, stop))
            first, last = a // obj.unit, -(-b // obj.unit)
            starts, stops = obj.starts[first:last].tolist(), obj.stops[first:last].tolist()
            stored = memoryview(data.source.read_range(obj.key, starts[0], stops[-1] - starts[0]))
            for u, x, y in zip(range(first, last), starts, stops, strict=True):
                size = min(obj.unit, obj.total - u * obj.unit)
                found.append(obj.decode(stored[x - starts[0] : y - starts[0]], size))
        return found

    return ask


def _arrow(folder: Path, table: np.ndarray, epochs: np.ndarray) -> tuple[str, Callable[[int], Any]]:
    """Return how pyarrow reads a window: the row groups that it touches, cut."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = folder / "rows.parquet"
    columns = {"epoch": epochs, **{f"c{k}": table[:, k] for k in range(table.shape[1])}}
    pq.write_table(pa.table(columns), path, row_group_size=16_384)
    file = pq.ParquetFile(path)
    groups = [file.metadata.row_group(g).column(0).statistics for g in range(file.num_row_groups)]
    first, last = np.array([g.min for g in groups]), np.array([g.max for g in groups])

    def ask(lo: int) -> np.ndarray:
        hi = lo + WINDOW
        a, b = int(np.searchsorted(last, lo)), int(np.searchsorted(first, hi))
        read = file.read_row_groups(range(a, b), use_threads=False)
        at = np.searchsorted(read["epoch"].to_numpy(), [lo, hi])
        return np.stack([read[k].to_numpy()[at[0] : at[1]] for k in range(1, read.num_columns)], axis=1)

    return "pyarrow, Parquet of 16,384-row groups", ask


def _duckdb(table: np.ndarray, epochs: np.ndarray) -> tuple[str, Callable[[int], Any]]:
    """Return how duckdb reads a window of a table in memory."""
    import duckdb
    import pyarrow as pa

    data = pa.table({"epoch": epochs, **{f"c{k}": table[:, k] for k in range(table.shape[1])}})
    base = duckdb.connect()
    base.execute("create table rows as select * from data")
    del data

    def ask(lo: int) -> np.ndarray:
        query = "select * exclude epoch from rows where epoch >= ? and epoch < ?"
        got = base.execute(query, [lo, lo + WINDOW]).fetchnumpy()
        return np.stack(list(got.values()), axis=1)

    return "duckdb, its own table", ask


def _published(path: Path, dates: list[str], asked: list[int], size: str, means: dict[str, float]) -> list[Row]:
    """Return what the published software takes for the same samples, where there is a Python that has it."""
    python = peer_python("anemoi", install=True)
    if python is None:
        return []
    # Many, because it keeps whole chunks: most of its samples cost nothing, and those that decode a chunk very much.
    few = asked[:101]
    told = subprocess.run(
        [str(python), "-c", PEER, str(path), *dates], input=json.dumps(few), capture_output=True, check=True, text=True
    )
    peer = json.loads(told.stdout.splitlines()[-1])
    ds = open_observations(path, dates[0], dates[1], "(-3,+3]", "6h")
    mine = [[len(x), float(np.nansum(np.asarray(x), dtype="f8"))] for x in (ds[i] for i in few[1:])]
    note = "the same values" if np.allclose(mine, peer["sums"]) else "OTHER VALUES"
    note += f"; its median is {peer['median'] * 1e3:.2f}"
    cost = peer["mean"]
    return [
        Row(f"{size}, {form}", own * 1e3, cost * 1e3, "anemoi-datasets, mean", cost / own, 1.0, "ms", note)
        for form, own in means.items()
    ]


def _epoch(path: Path, dates: list[str], form: str) -> list[Row]:
    """Return rows a second of a whole shuffled epoch, read ahead, against samples one by one; and cores in use."""
    set_cache_size(2**27)
    ds = open_observations(path, dates[0], dates[1], "(-3,+3]", "6h")
    order = [int(i) for i in np.random.default_rng(2).permutation(len(ds))]
    speeds, cores = [], []
    for ahead in (8, 0):
        shared_cache.clear()
        count = 0
        wall, cpu = time.perf_counter(), time.process_time()
        for k, i in enumerate(order):
            if ahead and k % ahead == 0:
                ds.prefetch(order[k + ahead : k + 2 * ahead])
            count += len(ds[i])
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        speeds.append(count / wall / 1e6)
        cores.append(cpu / wall)
    job = f"shuffled epoch of {len(ds):,} samples, {form}"
    note = f"{cores[0]:.2f} cores in use, {cores[1]:.2f} without reading ahead"
    return [Row(job, speeds[0], speeds[1], "no reading ahead", speeds[0] / speeds[1], None, "M rows/s", note)]
