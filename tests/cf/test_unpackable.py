"""Scales and offsets that are not numbers, of netCDF and Zarr."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import netCDF4
import numpy as np
import pytest
import zarr

import cfagg
from cfagg.cf.unpackable import real_packing
from cfagg.errors import ConventionError


def _netcdf(path: Path, key: str, value: Any) -> str:
    with netCDF4.Dataset(path / "a.nc", "w") as dataset:
        dataset.createDimension("x", 3)
        variable = dataset.createVariable("a", "i2", ("x",))
        variable.set_auto_maskandscale(False)
        variable[:] = [1, 2, 3]
        variable.setncattr(key, value)
        dataset.createVariable("b", "i2", ("x",))[:] = [4, 5, 6]
    return str(path / "a.nc")


def _zarr(path: Path, key: str, value: Any) -> str:
    group = zarr.open_group(str(path / "a.zarr"), mode="w", zarr_format=3)
    for name, values in (("a", [1, 2, 3]), ("b", [4, 5, 6])):
        array = group.create_array(name, shape=(3,), dtype="i2", dimension_names=("x",), fill_value=-1)
        array[:] = np.array(values, "i2")
        if name == "a":
            array.attrs[key] = value.tolist() if isinstance(value, np.ndarray) else value
    return str(path / "a.zarr")


@pytest.mark.parametrize("made", [_netcdf, _zarr])
@pytest.mark.parametrize("key", ["scale_factor", "add_offset"])
@pytest.mark.parametrize("value", ["0.5 K", np.array([1.0, 2.0])], ids=["text", "two"])
def test_reading_refuses_a_packing_that_is_not_one_number(tmp_path: Path, made: Any, key: str, value: Any) -> None:
    path = made(tmp_path, key, value)
    with pytest.raises(
        ConventionError, match=f"variable 'a' has {key} = .*expected one number; correct.*mask_and_scale=False"
    ):
        cfagg.read(path)
    with cfagg.read(path, mask_and_scale=False) as dataset:
        assert dataset.a.values.tolist() == [1, 2, 3]
    with cfagg.read(path, drop_variables="a") as dataset:
        assert dataset.b.values.tolist() == [4, 5, 6]


@pytest.mark.parametrize("made", [_netcdf, _zarr])
@pytest.mark.parametrize("value", [0.5, np.array([0.5])], ids=["number", "array of one"])
def test_a_packing_of_one_number_is_applied(tmp_path: Path, made: Any, value: Any) -> None:
    with cfagg.read(made(tmp_path, "scale_factor", value)) as dataset:
        assert dataset.a.values.tolist() == [0.5, 1.0, 1.5]


@pytest.mark.parametrize("kind", ["S1", str])
def test_texts_that_are_said_to_be_packed_are_refused(tmp_path: Path, kind: Any) -> None:
    path = tmp_path / "a.nc"
    with netCDF4.Dataset(path, "w") as dataset:
        dataset.createDimension("x", 2)
        variable = dataset.createVariable("a", kind, ("x",))
        variable[:] = np.array(["p", "q"], "S1" if kind == "S1" else object)
        variable.setncattr("scale_factor", 0.5)
    with pytest.raises(ConventionError, match=r"variable 'a' has scale_factor = .*but its values are texts"):
        cfagg.read(path)
    with cfagg.read(path, mask_and_scale=False) as dataset:
        # xarray joins characters.
        assert "".join(dataset.a.values.astype(str).reshape(-1)) == "pq"


def test_texts_of_zarr_that_are_said_to_be_packed_are_refused(tmp_path: Path) -> None:
    group = zarr.open_group(str(tmp_path / "a.zarr"), mode="w", zarr_format=2)
    array = group.create_array("a", data=np.array([b"p", b"q"]))
    array.attrs.update({"_ARRAY_DIMENSIONS": ["x"], "add_offset": 2})
    with pytest.raises(ConventionError, match=r"variable 'a' has add_offset = .*but its values are texts"):
        cfagg.read(tmp_path / "a.zarr")


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("value", [np.nan, 1e20, 0.5])
def test_a_missing_value_that_no_integer_equals_is_ignored_without_a_warning(value: float) -> None:
    given = {"_Unsigned": "true", "missing_value": value}
    assert real_packing(given, np.dtype("i1")) == given
    assert real_packing({**given, "missing_value": -1.0}, np.dtype("i1"))["_FillValue"] == np.int8(-1)
