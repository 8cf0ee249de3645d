"""The published software opens the stores that cfagg writes, and finds the same rows in every window.

Runs where there is a Python that has anemoi-datasets; `make soak` makes one.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest

import cfagg
from cfagg.demo import sample
from tests.benchmarks.peers import peer_python

ROOT = Path(__file__).parents[2]
PEER = peer_python("anemoi", install=False)

pytestmark = [
    pytest.mark.soak,
    pytest.mark.skipif(PEER is None, reason="needs anemoi-datasets, which make soak installs"),
]

#: Reads all samples but the last, which lies beyond the end.
READ = """
import sys
import numpy as np
from anemoi.datasets import open_dataset
path, start, end, window, frequency, out = sys.argv[1:]
ds = open_dataset(path, start=start, end=end, window=window, frequency=frequency)
samples = [ds[i] for i in range(len(ds) - 1)]
names = ("latitudes", "longitudes", "timedeltas")
columns = {n: np.concatenate([np.asarray(getattr(s, n)) for s in samples]) for n in names}
np.savez(out, counts=[len(s) for s in samples], values=np.concatenate([np.asarray(s) for s in samples]),
         dates=np.array(ds.dates[:-1], "M8[s]").astype("i8"), variables=ds.variables,
         **{f"stat_{k}": v for k, v in ds.statistics.items()}, **columns)
"""


def recipe(index: str) -> dict[str, object]:
    """Return the recipe of a store of the sample's storms."""
    return {
        "dates": {"start": "2003-01-01", "end": "2006-12-31", "frequency": "1d"},
        "input": {"netcdf": {"path": str(sample("storms.nc"))}},
        "output": {"layout": "tabular", "date_indexing": index},
    }


def peer(store: Path, start: str, end: str, window: str, frequency: str) -> dict[str, np.ndarray]:
    """Return what the published software reads."""
    out = store.with_suffix(".npz")
    done = subprocess.run(
        [PEER, "-c", READ, store, start, end, window, frequency, out], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return dict(np.load(out))


@pytest.mark.parametrize("index", ["bisect", "btree"])
@pytest.mark.parametrize(
    ("start", "end", "window", "frequency"),
    [
        ("2005-08-01", "2005-10-31", "(-3,+3]", "6h"),
        ("2003-01-01", "2006-12-31", "(-5d,+5d]", "10d"),
        ("2004-09-01T01:00:00", "2004-09-20T01:00:00", "[-1,+5)", "3h"),
    ],
)
def test_samples_of_our_stores_are_ours(
    tmp_path: Path, index: str, start: str, end: str, window: str, frequency: str
) -> None:
    store = tmp_path / "storms.zarr"
    cfagg.create_observations(recipe(index), store)
    theirs = peer(store, start, end, window, frequency)
    ds = cfagg.open_observations(store, start, end, window, frequency)
    count = len(theirs["dates"])
    np.testing.assert_array_equal(ds.dates[:count].astype("i8"), theirs["dates"])
    samples = [ds[i] for i in range(count)]
    assert [len(s) for s in samples] == theirs["counts"].tolist()
    assert sum(theirs["counts"]) > 50
    np.testing.assert_array_equal(np.concatenate(samples), theirs["values"])
    for name in ("latitudes", "longitudes", "timedeltas"):
        np.testing.assert_array_equal(np.concatenate([getattr(s, name) for s in samples]), theirs[name])
    assert list(ds.variables) == theirs["variables"].tolist()
    for name in ("mean", "minimum", "maximum", "stdev"):
        np.testing.assert_array_equal(ds.statistics[name], theirs[f"stat_{name}"])


def test_a_store_that_was_imported_opens_there_too(tmp_path: Path) -> None:
    from cfagg.observations.exchange import import_netcdf

    store = import_netcdf(sample("profiles.nc"), tmp_path / "profiles.zarr")
    ds = cfagg.open_observations(store, frequency="1d", window="[0,24h)")
    day = str(ds.dates[0])[:10]
    theirs = peer(store, day, str(np.datetime64(day) + np.timedelta64(2, "D")), "[-1,+23)", "24h")
    assert theirs["counts"].sum() == 1887
    np.testing.assert_array_equal(theirs["values"][: theirs["counts"][0]], np.asarray(ds[0]))
