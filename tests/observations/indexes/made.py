"""Stores that are nothing but an index."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from cfagg.observations.indexes import write_bisect, write_btree, write_pages
from cfagg.storage.local import LocalSource

#: The identity that rows have unless a test gives another.
IDENTITY = "rows as they are"


class Store:
    """What an index knows of a store."""

    def __init__(self, path, rows: int, identity: str = IDENTITY) -> None:
        self.path, self.rows, self.identity = str(path), rows, identity
        self.source = LocalSource(path)


class Counting(LocalSource):
    """A source that knows how much was read of chunks."""

    def __init__(self, path) -> None:
        super().__init__(path)
        self.count, self.calls = 0, 0

    def read_range(self, key, start, count):
        self.count, self.calls = self.count + count, self.calls + 1
        return super().read_range(key, start, count)

    def read_ranges(self, key, ranges):
        return [self.read_range(key, start, count) for start, count in ranges]


def cut(entries, *places: int):
    """The same entries in blocks."""
    return list(zip(*(np.split(np.asarray(c, np.int64), places) for c in entries), strict=True))


def write(path, kind: str, entries, zarr_format: int = 2, pieces: int = 1, identity: str = IDENTITY) -> Store:
    """Write an index of entries that come in blocks, and return its store."""
    path = Path(path)
    path.mkdir(exist_ok=True, parents=True)
    if zarr_format == 2:
        (path / ".zgroup").write_text('{"zarr_format": 2}')
    else:
        (path / "zarr.json").write_text('{"zarr_format": 3, "node_type": "group", "attributes": {}}')
    blocks = cut(entries, *np.linspace(0, len(entries[0]), pieces + 1, dtype=int)[1:-1])
    if kind == "pages":
        write_pages(path, blocks, identity=identity, zarr_format=zarr_format)
    else:
        {"bisect": write_bisect, "btree": write_btree}[kind](path, blocks, zarr_format=zarr_format)
    return Store(path, int(entries[2].sum()), identity)


def uneven(n: int, seed: int = 0):
    """Entries at random."""
    rng = np.random.default_rng(seed)
    epoch, length = np.cumsum(rng.integers(1, 50, n)), rng.integers(1, 9, n)
    return epoch, np.cumsum(length) - length, length


def even(n: int, step: int = 1, length: int = 1):
    """Entries of equal steps and lengths."""
    number = np.arange(n)
    return number * step, number * length, np.full(n, length)
