"""Stores of labelled fields with accumulations, and the comparison of results with xarray's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from cfagg.accumulation.accumulated import Accumulated, open_accumulated
from cfagg.accumulation.accumulating import accumulate

DIMS = ("time", "lat", "lon")


def dataset(calendar: str = "standard", *, steps: int = 500, freq: str = "3D", missing: float = 0.05) -> xr.Dataset:
    """Return a field with coordinates of every kind: dates, labels, two-dimensional, scalar, along time."""
    rng = np.random.default_rng(11)
    time = xr.date_range("1999-11-15", periods=steps, freq=freq, calendar=calendar, use_cftime=calendar != "standard")
    values = rng.normal(285, 9, (steps, 6, 8)).astype("f4")
    values[rng.random(values.shape) < missing] = np.nan
    coords = {
        "time": ("time", time, {"standard_name": "time", "axis": "T"}),
        "lat": ("lat", np.linspace(-50, 50, 6), {"units": "degrees_north"}),
        "lon": ("lon", np.arange(8) * 45.0, {"units": "degrees_east"}),
        "area": (("lat", "lon"), rng.random((6, 8)), {"units": "m2"}),
        "height": ((), 2.0, {"units": "m"}),
        "phase": ("time", np.arange(steps) % 5),
        "region": ("lat", np.array(["south", "south", "tropics", "tropics", "north", "north"])),
    }
    attrs = {"units": "K", "standard_name": "air_temperature", "cell_methods": "area: mean"}
    return xr.Dataset({"tas": (DIMS, values, attrs)}, coords=coords)


def stored(
    store: Path, fields: xr.Dataset, chunks: tuple[int, ...] = (40, 3, 4), encoding: Any = None, **options: Any
) -> tuple[Accumulated, xr.DataArray]:
    """Return the accumulation of a field, and the field as xarray reads it, in float64."""
    encoding = {"tas": {"chunks": chunks, **(encoding or {})}}
    form = options.pop("zarr_format", 3)
    fields.to_zarr(store, consolidated=False, encoding=encoding, zarr_format=form)
    accumulate(store, "tas", **options)
    # Loaded, for xarray takes empty slices that run backwards wrongly from lazy coordinates.
    array = xr.open_zarr(store, chunks=None, consolidated=False)["tas"].load()
    return open_accumulated(store, "tas"), array.astype("f8")


def assert_same(found: xr.DataArray, wanted: xr.DataArray, *, rtol: float = 1e-9, atol: float = 1e-9) -> None:
    """Compare dimensions, coordinates and values; attributes of coordinates too."""
    assert found.name == wanted.name
    assert found.dims == wanted.dims
    assert set(found.coords) == set(wanted.coords)
    for name, coordinate in found.coords.items():
        xr.testing.assert_identical(coordinate.variable.to_base_variable(), wanted[name].variable.to_base_variable())
        assert (name in found.xindexes) == (name in wanted.xindexes)
    np.testing.assert_allclose(found.values, wanted.values, rtol=rtol, atol=atol)
