"""Processes that append to arrays with accumulations are killed at random moments: nothing is wrong afterwards."""

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
from cfagg.formats.zarr import open_array
from cfagg.writing.zarr import local_place
from tests.durability.tracing import forked
from tests.killing import ended

#: Of both variables, more steps than are ever appended.
VALUES = {
    name: np.random.default_rng(seed).integers(-500, 500, (40_000, 2, 3)).astype("i4")
    for name, seed in (("pr", 3), ("tas", 4))
}


def dataset(start: int, stop: int) -> xr.Dataset:
    return xr.Dataset(
        {name: (("time", "lat", "lon"), values[start:stop]) for name, values in VALUES.items()},
        coords={"time": np.arange(start, stop, dtype="f8")},
    )


def append_for_ever(store: Path) -> None:
    """Append a few steps at a time, from where the store ends."""
    chance = random.Random(time.time_ns())
    while True:
        here = xr.open_zarr(store, consolidated=True).sizes["time"]
        cfagg.append(store, dataset(here, here + chance.randint(1, 3)), "time")


def judge(store: Path, length: int | None = None) -> int:
    """Return how many accumulations answer; raise if one is wrong, or is not of so many steps."""
    answered = 0
    for name, values in VALUES.items():
        try:
            acc = open_accumulated(store, name)
            n = acc.sizes["time"]
            total, most = acc.sum(isel={"time": slice(1, n)}), acc.max("time", isel={"time": slice(2, n)})
        except StaleError:
            continue
        assert length in (None, n)
        assert total == values[1:n].sum()
        np.testing.assert_array_equal(most, values[2:n].max(0))
        answered += 1
    return answered


@pytest.mark.parametrize("kills", [pytest.param(20, marks=pytest.mark.full), pytest.param(200, marks=pytest.mark.soak)])
def test_killed_appends_leave_accumulations_that_are_right_or_refused_and_grow_on(tmp_path, kills):
    chance, store = random.Random(kills), tmp_path / "a.zarr"
    encoding = {name: {"chunks": (3, 2, 3)} for name in VALUES} | {"time": {"chunks": (64,)}}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # consolidated metadata are no part of Zarr 3
        dataset(0, 5).to_zarr(store, encoding=encoding, consolidated=True)
    for name in VALUES:
        accumulate(store, name)
    answered = 0
    for _ in range(kills):
        child = forked(lambda: append_for_ever(store))
        time.sleep(0.05 + 0.4 * chance.random())
        os.kill(child, signal.SIGKILL)
        ended(child)
        answered += judge(store)
        here = xr.open_zarr(store, consolidated=True).sizes["time"]
        # One more call finishes whatever was begun, of both variables.
        cfagg.append(store, dataset(here, here + 1), "time")
        assert judge(store, here + 1) == len(VALUES)
    assert answered > 0
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.zarr"]
    assert not any(p.name.startswith(".") for p in store.iterdir())


def test_a_refresh_undoes_first_what_a_killed_append_did_not_publish(tmp_path, monkeypatch):
    store = tmp_path / "a.zarr"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # consolidated metadata are no part of Zarr 3
        dataset(0, 6).to_zarr(store, encoding={name: {"chunks": (3, 2, 3)} for name in VALUES}, consolidated=True)
    for name in VALUES:
        accumulate(store, name)

    def killed(folders, root):
        if open_array(store, "tas").shape[0] > 6:
            os.kill(os.getpid(), signal.SIGKILL)

    with monkeypatch.context() as patch:
        patch.setattr(local_place, "sync_folders", killed)
        ended(forked(lambda: cfagg.append(store, dataset(6, 9), "time")))
    assert (store / ".cfagg-append").exists()
    assert accumulate(store, "tas", refresh=True).action == "up to date"
    assert not (store / ".cfagg-append").exists()
    assert judge(store, xr.open_zarr(store, consolidated=True).sizes["time"]) == len(VALUES)
    cfagg.append(store, dataset(6, 9), "time")
    assert judge(store, 9) == len(VALUES)


def test_two_processes_do_not_extend_the_same_accumulation(tmp_path):
    store = tmp_path / "a.zarr"
    dataset(0, 5).to_zarr(store, consolidated=False)
    for name in VALUES:
        accumulate(store, name)
    from cfagg.accumulation.building import GroupStaging

    shop = GroupStaging(store, "tas", store / "tas_accumulation_group")
    shop.enter()
    try:
        with pytest.warns(StaleAccumulationWarning, match="another process is accumulating"):
            cfagg.append(store, dataset(5, 6), "time")
    finally:
        shop.abandon_if_useless()
    cfagg.append(store, dataset(6, 7), "time")
    assert judge(store, 7) == len(VALUES)
