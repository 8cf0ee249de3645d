"""Parsing and writing NCA 0.1: CPU time and memory, against `json.loads` of the same text."""

from __future__ import annotations

import json
import time

from cfagg.conventions import nca, nca_write
from cfagg.model import Aggregation
from tests.benchmarks.table import Row, clock


def text_of(n: int) -> str:
    """Return the ``nca_array`` of `n` partitions in time, each a file of its own."""
    records = ", ".join(
        f'{{"index": [{i}], "location": [[{12 * i}, {12 * i + 12}], [0, 64], [0, 128]], "format": "netCDF", '
        f'"data": {{"shape": [12, 64, 128], "file": "archive/tas_{i:07d}.nc", "ncvar": "tas"}}}}'
        for i in range(n)
    )
    directions = '{"time": true, "lat": false, "lon": true}'
    return f'{{"directions": {directions}, "pdimensions": ["time"], "pshape": [{n}], "Partitions": [{records}]}}'


def rows(small: bool) -> list[Row]:
    """Return time and memory of a million partitions (small: ten thousand), and how time grows with their number."""
    n = 10_000 if small else 1_000_000
    text = text_of(n)
    part = text_of(n // 4)
    sizes = {"time": 12 * n, "lat": 64, "lon": 128}

    def parse(t: str, count: int) -> Aggregation:
        return nca.parse("tas", {"nca_dimensions": "time lat lon", "nca_array": t}, "f4", {**sizes, "time": 12 * count})

    aggregation = parse(text, n)
    runs = 5 if small else 3
    ours, peer, quarter, written = clock(
        lambda: parse(text, n),
        lambda: json.loads(text),
        lambda: parse(part, n // 4),
        lambda: nca_write.write(aggregation),
        runs=runs,
        warm=0,
    )
    held = aggregation.partitions.nbytes / n
    start = time.process_time()
    nca.parse("tas", nca_write.write(parse(text_of(2), 2)), "f4", {**sizes, "time": 24})
    tiny = max(time.process_time() - start, 1e-9)
    return [
        Row(f"NCA: parse {n} partitions", ours, 12.0 * n / 1e6, "12 s a million", 12.0 * n / 1e6 / ours, 1.0),
        Row(f"NCA: parse {n} partitions", ours, peer, "json.loads alone", peer / ours, None),
        Row("NCA: memory a partition", held, 64.0, "64 bytes", 64.0 / held, 1.0, "bytes"),
        Row("NCA: parse 4 times as many", ours, 4 * quarter, "4 times a quarter (linear)", 4 * quarter / ours, 0.8),
        Row(f"NCA: write {n} partitions", written, ours, "parse", ours / written, None),
        Row("NCA: parse, write, parse 2 partitions", tiny, 0.01, "0.01 s", 0.01 / tiny, None),
    ]
