"""Indexes of the published software and cfagg's are the same, entry by entry, and each finds windows in the other's.

Runs where there is a Python that has anemoi-datasets; `make soak` makes one.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest
import zarr

from cfagg.observations.indexes import bisect as own_bisect
from cfagg.observations.indexes import btree as own_btree
from cfagg.observations.indexes import build_pages, open_index, write_bisect, write_btree
from tests.benchmarks.peers import peer_python
from tests.observations.indexes.made import Store, cut, uneven
from tests.oracles import rows_between

ROOT = Path(__file__).parents[2]
PEER = peer_python("anemoi", install=False)

pytestmark = [
    pytest.mark.soak,
    pytest.mark.skipif(PEER is None, reason="needs anemoi-datasets, which make soak installs"),
]

WRITE = """
import sys
import numpy as np
from anemoi.datasets.compat import zarr_open
from anemoi.datasets.date_indexing.bisect import DateBisect
from anemoi.datasets.date_indexing.btree import DateBTree, ZarrBTree
path, entries, how = sys.argv[1:]
entries = np.load(entries)
store = zarr_open(path, "w")
if how == "loaded":
    DateBisect(store).bulk_load(entries)
    DateBTree(store).bulk_load(entries)
else:
    tree = ZarrBTree(store, name="date_index_btree", page_size=int(how), mode="w", chunk_sizes=100_000)
    for i in np.random.default_rng(0).permutation(len(entries)):
        tree.set(int(entries[i, 0]), (int(entries[i, 1]), int(entries[i, 2])))
    tree.flush()
"""

FIND = """
import json, sys
import numpy as np
from anemoi.datasets.compat import zarr_open
from anemoi.datasets.date_indexing.bisect import DateBisect
from anemoi.datasets.date_indexing.btree import DateBTree
path, rows = sys.argv[1], int(sys.argv[2])
windows = json.loads(sys.stdin.read())
found = {}
for kind, index in (("bisect", DateBisect), ("btree", DateBTree)):
    index = index(zarr_open(path, "r"))
    parts = [index.range_search(lo, hi, rows) for lo, hi in windows]
    found[kind] = [[int(p.start), int(p.stop)] for p in parts]
print(json.dumps(found))
"""


def run(code: str, *args: object, given: str = "") -> str:
    """What the published software prints."""
    done = subprocess.run([PEER, "-c", code, *map(str, args)], input=given, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def theirs(folder: Path, entries, how: str = "loaded") -> Store:
    """A store with the published software's indexes."""
    np.save(folder / "entries.npy", np.stack(entries, axis=1))
    run(WRITE, folder / "theirs.zarr", folder / "entries.npy", how)
    return Store(folder / "theirs.zarr", int(entries[2].sum()))


def ours(folder: Path, entries) -> Store:
    """A store with cfagg's."""
    path = folder / "ours.zarr"
    path.mkdir()
    (path / ".zgroup").write_text('{"zarr_format": 2}')
    n = len(entries[0])
    for write in (write_bisect, write_btree):
        write(path, cut(entries, n // 3, n // 2))
    return Store(path, int(entries[2].sum()))


def windows(entries, count: int = 300) -> list[list[int]]:
    """Closed intervals of at least two seconds, which the published software takes."""
    rng = np.random.default_rng(0)
    lo = rng.integers(entries[0][0] - 50, entries[0][-1] + 50, count)
    return np.stack([lo, lo + rng.integers(1, 5000, count)], axis=1).tolist()


@pytest.mark.parametrize("n", [1, 255, 256, 257, 65_792, 65_793, 70_000])
def test_tables_and_pages_of_trees_are_identical(tmp_path, n):
    entries = uneven(n)
    made = ours(tmp_path, entries), theirs(tmp_path, entries)
    for name in (own_bisect.NAME, own_btree.NAME):
        mine, other = (zarr.open_array(Path(store.path) / name, mode="r") for store in made)
        for key in ("shape", "chunks", "dtype"):
            assert getattr(mine, key) == getattr(other, key)
        assert (mine[:] == other[:]).all()
        documents = [json.loads((Path(store.path) / name / ".zarray").read_text()) for store in made]
        assert documents[0] == documents[1]
    assert mine.attrs["root_page_id"] == other.attrs["root_page_id"]


@pytest.mark.parametrize("n", [300, 70_000])
def test_theirs_finds_in_ours_what_ours_finds_in_theirs(tmp_path, n):
    entries = uneven(n)
    made, other = ours(tmp_path, entries), theirs(tmp_path, entries)
    asked = windows(entries)
    found = json.loads(run(FIND, made.path, made.rows, given=json.dumps(asked)))
    build_pages(other)
    for kind in ("bisect", "btree", "pages"):
        index = open_index(other, kind)
        mine = [list(index.find(lo, hi + 1)) for lo, hi in asked]
        assert mine == [list(rows_between(*entries, lo, hi + 1)) for lo, hi in asked]
        for theirs_found in found.values():
            # Where there is nothing, only the emptiness is the same.
            assert [part if part[0] < part[1] else 0 for part in theirs_found] == [
                part if part[0] < part[1] else 0 for part in mine
            ]


@pytest.mark.parametrize(("n", "room"), [(300, 4), (3000, 8), (2000, 256)])
def test_trees_that_grew_by_one_entry_after_the_other_are_read(tmp_path, n, room):
    entries = uneven(n)
    index = open_index(theirs(tmp_path, entries, str(room)), "btree")
    asked = windows(entries)
    assert [list(index.find(lo, hi)) for lo, hi in asked] == [list(rows_between(*entries, lo, hi)) for lo, hi in asked]
    assert (index.entries, index.validate(full=True)) == (n, [])
