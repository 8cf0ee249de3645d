"""Files that nothing replaces."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
import zarr

import cfagg
from cfagg.errors import TargetError


def written(source: Path, target: Path, **how: Any) -> None:
    """Write what is read."""
    cfagg.write(cfagg.read(source), target, **how)


@pytest.mark.parametrize(
    ("verb", "to"), [(cfagg.convert, "netcdf"), (cfagg.convert, "CF-1.13"), (written, "CFA-0.6.2")]
)
@pytest.mark.parametrize("key", ["v/c/0", "v/zarr.json"])
def test_no_file_replaces_a_part_of_a_zarr_store(tmp_path: Path, key: str, verb: Any, to: str) -> None:
    store, values = tmp_path / "a.zarr", np.arange(600.0)
    zarr.create_array(store, name="v", data=values, dimension_names=["x"])
    xr.Dataset({"v": ("x", values)}).to_netcdf(tmp_path / "b.nc")
    for source in (store, tmp_path / "b.nc"):
        with pytest.raises(TargetError, match=r"is part of the Zarr store|is the source or within it"):
            verb(source, store / key, to=to, overwrite=True)
    assert np.array_equal(cfagg.open_array(store, "v")[...], values)
    cfagg.convert(tmp_path / "b.nc", store / "b.nc", to="netcdf")
    cfagg.convert(tmp_path / "b.nc", store / "b.nc", to="netcdf", overwrite=True)  # it is no part of the store
