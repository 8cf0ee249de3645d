"""Processes that append to an array with an accumulation are killed at random moments: nothing is wrong afterwards."""

import os
import random
import signal
import time
import warnings
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

import cfagg
from cfagg.accumulation.accumulated import open_accumulated
from cfagg.accumulation.accumulating import accumulate
from cfagg.errors import StaleAccumulationWarning, StaleError
from tests.durability.tracing import forked
from tests.killing import ended

VALUES = np.random.default_rng(3).integers(-500, 500, (4000, 2, 3)).astype("i4")


def dataset(start: int, stop: int) -> xr.Dataset:
    return xr.Dataset(
        {"tas": (("time", "lat", "lon"), VALUES[start:stop])}, coords={"time": np.arange(start, stop, dtype="f8")}
    )


def append_for_ever(store: Path) -> None:
    """Append a few steps at a time, from where the store ends."""
    chance = random.Random(time.time_ns())
    while True:
        here = xr.open_zarr(store, consolidated=True).sizes["time"]
        cfagg.append(store, dataset(here, here + chance.randint(1, 3)), "time")


def judge(store: Path) -> bool:
    """Whether the accumulation answers; raise if it is wrong."""
    try:
        acc = open_accumulated(store, "tas")
        n = acc.sizes["time"]
        total, most = acc.sum(isel={"time": slice(1, n)}), acc.max("time", isel={"time": slice(2, n)})
    except StaleError:
        return False
    assert total == VALUES[1:n].sum()
    np.testing.assert_array_equal(most, VALUES[2:n].max(0))
    return True


@pytest.mark.parametrize("kills", [pytest.param(20, marks=pytest.mark.full), pytest.param(200, marks=pytest.mark.soak)])
def test_killed_appends_leave_an_accumulation_that_is_right_or_refused_and_grows_on(tmp_path, kills):
    chance, store = random.Random(kills), tmp_path / "a.zarr"
    encoding = {"tas": {"chunks": (3, 2, 3)}, "time": {"chunks": (64,)}}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # consolidated metadata are no part of Zarr 3
        dataset(0, 5).to_zarr(store, encoding=encoding, consolidated=True)
    accumulate(store, "tas")
    answered = 0
    for _ in range(kills):
        child = forked(lambda: append_for_ever(store))
        time.sleep(0.05 + 0.4 * chance.random())
        os.kill(child, signal.SIGKILL)
        ended(child)
        answered += judge(store)
        here = xr.open_zarr(store, consolidated=True).sizes["time"]
        cfagg.append(store, dataset(here, here + 1), "time")
        assert judge(store)
        if here > len(VALUES) - 500:
            break
    assert answered > 0
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.zarr"]
    assert not any(p.name.startswith(".") for p in store.iterdir())


def test_two_processes_do_not_extend_the_same_accumulation(tmp_path):
    store = tmp_path / "a.zarr"
    dataset(0, 5).to_zarr(store, consolidated=False)
    accumulate(store, "tas")
    from cfagg.accumulation.building import GroupStaging

    shop = GroupStaging(store, "tas", store / "tas_accumulation_group")
    shop.enter()
    try:
        with pytest.warns(StaleAccumulationWarning, match="another process is accumulating"):
            cfagg.append(store, dataset(5, 6), "time")
    finally:
        shop.abandon_if_useless()
    cfagg.append(store, dataset(6, 7), "time")
    assert judge(store)
