"""Vectorized indexing by xarray."""

import asyncio
import threading
from typing import Any

import numpy as np
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st

import cfagg
from cfagg.arrays.reader import Reader
from cfagg.labelled import indexed

SHAPE = {"t": 7, "y": 5, "x": 4}
VALUES = xr.DataArray(np.arange(140).reshape(7, 5, 4), dims=list(SHAPE))


@pytest.fixture(scope="module")
def lazy(tmp_path_factory: pytest.TempPathFactory) -> xr.DataArray:
    made = tmp_path_factory.mktemp("indexed") / "a.nc"
    VALUES.to_dataset(name="v").to_netcdf(made)
    return cfagg.read(made)["v"]


def indexers(size: int) -> st.SearchStrategy[Any]:
    """Slices, and arrays along dimensions that indexers share."""
    places = st.integers(-size, size - 1)
    steps = st.sampled_from([[0, 1, 2], [3, 2, 1], [0, 2, 1], [1, 1, 1]])
    one = st.one_of(st.lists(places, min_size=3, max_size=3), steps)
    arrays = st.tuples(one, st.sampled_from("pq")).map(lambda given: xr.DataArray(given[0], dims=given[1]))
    flat = st.lists(one, min_size=3, max_size=3).map(lambda rows: xr.DataArray(rows, dims=("q", "p")))
    return st.one_of(st.slices(size), arrays, flat, places)


@given(st.fixed_dictionaries({d: indexers(n) for d, n in SHAPE.items()}), st.booleans())
def test_every_selection_is_that_of_an_array_in_memory(lazy: xr.DataArray, chosen: dict[str, Any], twice: bool) -> None:
    found, expected = lazy.isel(chosen), VALUES.isel(chosen)
    if twice and expected.dims:
        again = {expected.dims[-1]: slice(None, None, -1)}
        found, expected = found.isel(again), expected.isel(again)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(indexed, "_FEW", 0)
        patch.setattr(indexed, "_MANY", 0)
        xr.testing.assert_equal(found.compute(), expected)


def test_series_at_several_places_are_read_by_slices(lazy: xr.DataArray, monkeypatch: pytest.MonkeyPatch) -> None:
    points, asked = Reader.points, []
    monkeypatch.setattr(indexed, "_FEW", 1)
    monkeypatch.setattr(indexed, "_MANY", 1)
    monkeypatch.setattr(Reader, "points", lambda self, chosen: asked.append(chosen) or points(self, chosen))
    places = {"y": xr.DataArray([4, 0, 2], dims="p"), "x": xr.DataArray([3, 3, 0], dims="p")}
    found = lazy.isel(places)[::-2]
    xr.testing.assert_equal(found.compute(), VALUES.isel(places)[::-2])
    assert [chosen[0] for chosen in asked] == [slice(6, None, -2)]
    monkeypatch.setattr(indexed, "_MANY", 0)
    table = {"y": xr.DataArray([[4, 0], [2, 1]], dims=("p", "q"))}
    found, expected = (one.isel(table).transpose("x", "q", "p", "t") for one in (lazy, VALUES))
    xr.testing.assert_equal(found.compute(), expected)
    assert all(isinstance(part, slice) for part in (asked[1][0], asked[1][2]))


@pytest.mark.parametrize("step", [1, -2])
def test_values_can_be_awaited(lazy: xr.DataArray, step: int) -> None:
    found = asyncio.run(lazy.isel(t=slice(None, None, step), y=[3, 0]).load_async())
    xr.testing.assert_equal(found, VALUES.isel(t=slice(None, None, step), y=[3, 0]))


def test_variables_that_are_awaited_are_read_at_the_same_time(tmp_path, monkeypatch) -> None:
    xr.Dataset({"u": VALUES, "v": VALUES + 1}).to_netcdf(tmp_path / "a.nc")
    both, read = threading.Barrier(2), Reader.read
    monkeypatch.setattr(Reader, "read", lambda self, chosen: (both.wait(timeout=30), read(self, chosen))[1])
    found = asyncio.run(cfagg.read(tmp_path / "a.nc").load_async())
    xr.testing.assert_equal(found, xr.Dataset({"u": VALUES, "v": VALUES + 1}))
