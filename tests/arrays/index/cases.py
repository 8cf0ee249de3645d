"""Files of several kinds for tests of the index, written by netCDF4, h5py and scipy-free hands."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import netCDF4
import numpy as np
import numpy.typing as npt
import pytest

from cfagg.arrays.aggregated import AggregationReader

DIMS = ("time", "lat", "lon")


def write(path: Path, values: npt.NDArray[Any], name: str = "tas", format: str = "NETCDF4", **how: Any) -> Path:  # noqa: A002
    """Write one variable of (time, lat, lon); `attributes` and what `createVariable` takes are in `how`."""
    attributes = how.pop("attributes", {"units": "K"})
    unlimited = how.pop("unlimited", False)
    with netCDF4.Dataset(path, "w", format=format) as ds:
        for dim, n in zip(DIMS, values.shape, strict=True):
            ds.createDimension(dim, None if unlimited and dim == "time" else n)
        made = ds.createVariable(name, how.pop("dtype", values.dtype), DIMS, **how)
        made.set_auto_maskandscale(False)
        made.setncatts(attributes)
        made[:] = values
    return path


def numbers(*shape: int, dtype: str = "f4", seed: int = 0) -> npt.NDArray[Any]:
    """Return numbers that compress a little."""
    return np.random.default_rng(seed).integers(0, 2000, shape).astype(dtype)


def slow_calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list of the partitions that the general way opens from now on."""
    opened: list[int] = []
    before = AggregationReader._open
    monkeypatch.setattr(
        AggregationReader, "_open", lambda self, i, **how: (opened.append(i), before(self, i, **how))[1]
    )
    return opened
