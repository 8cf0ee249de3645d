"""Datasets in the workers of a loader: forked, spawned, and forked after reading."""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import pytest

from cfagg.observations.opening import open_observations
from tests.observations.loaders import digest, sample
from tests.observations.small_stores import hourly


@pytest.mark.few(1)
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded")
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers_read_the_samples_that_the_parent_reads(method, tmp_path) -> None:
    path, _ = hourly(tmp_path / "a.zarr")
    ds = open_observations(path, 2020, "2020-01-03", "(-3,3]", "6h", area=(90, -170, -50, 170), sample="deltatime")
    here = [digest((ds, i)) for i in range(len(ds))]
    # Reads of the parent are under way while the workers start.
    ds.prefetch(slice(None))
    context = multiprocessing.get_context(method)
    with ProcessPoolExecutor(2, mp_context=context) as pool:
        there = list(pool.map(digest, [(ds, i) for i in range(len(ds))]))
        returned = pool.submit(sample, (ds, 5)).result()
    assert there == here
    assert np.array_equal(returned, ds[5])
    assert np.array_equal(returned.latitudes, ds[5].latitudes)
    assert np.array_equal(returned.dates, ds[5].dates)
