"""Indexes of coordinates are those that xarray makes, in time that grows with their number."""

from __future__ import annotations

from cProfile import Profile
from pathlib import Path
from pstats import Stats
from typing import Any

import numpy as np
import pytest
import xarray as xr

import cfagg
from cfagg.labelled.indexes import with_indexes


@pytest.fixture
def path(tmp_path: Path) -> Path:
    ds = xr.Dataset(
        {"v": (("time", "name", "x", "y"), np.arange(16.0).reshape(2, 2, 2, 2))},
        {
            "time": xr.date_range("2000-02-29", periods=2, calendar="360_day", use_cftime=True),
            "name": ["a", "b"],
            "x": [1, 2],
            "late": ("time", [1.0, 2.0]),
        },
    )
    ds.to_netcdf(tmp_path / "a.nc", encoding={"x": {"_FillValue": -1}})
    return tmp_path / "a.nc"


@pytest.mark.few(3)
@pytest.mark.parametrize("chunks", [None, {}, {"x": 2}])
@pytest.mark.parametrize("several", [False, True])
def test_indexes_are_those_of_xarray(path: Path, chunks: Any, several: bool) -> None:
    found = cfagg.aggregate(path, chunks=chunks) if several else cfagg.read(path, chunks=chunks)
    wanted = xr.open_dataset(path, engine="cfagg", chunks=chunks)
    xr.testing.assert_identical(found.compute(), wanted.compute())
    assert set(found.xindexes) == {"time", "name", "x"}
    assert isinstance(found.indexes["time"], xr.CFTimeIndex)
    for name in found.variables:
        assert type(found[name].variable) is type(wanted[name].variable)
        assert found[name].chunks == wanted[name].chunks
        assert several or repr(found[name].encoding) == repr(wanted[name].encoding)


@pytest.mark.parametrize("made", [False, True])
def test_indexes_are_left_out_where_that_is_asked_for(path: Path, made: bool) -> None:
    assert bool(cfagg.read(path, create_default_indexes=made).xindexes) is made


def calls(count: int) -> int:
    """Return how many functions are called to index so many coordinates."""
    coords = xr.Coordinates({f"x{k}": xr.Variable(f"x{k}", [0.0, 1.0]) for k in range(count)}, indexes={})
    ds = xr.Dataset({f"v{k}": ((f"x{k}",), np.zeros(2)) for k in range(count)}, coords)
    with Profile() as profile:
        with_indexes(ds)
    stats: Any = Stats(profile)
    return int(stats.total_calls)


def test_the_work_grows_with_the_number_of_coordinates() -> None:
    calls(2)
    few, many = calls(50), calls(200)
    assert many < 4.6 * few
