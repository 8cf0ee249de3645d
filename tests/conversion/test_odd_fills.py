"""Fill values that the type of their variable lacks: read as no missing value, and a loss in what is written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import netCDF4
import numpy as np
import pytest
import xarray as xr
import zarr

import cfagg
from cfagg.errors import LossError


def write(path: Path, dtype: str, fill: Any, name: str = "_FillValue") -> Path:
    with h5py.File(path, "w") as file:
        file["x"] = np.arange(3000.0)
        file["x"].make_scale()
        file["v"] = np.tile(np.array([1, -5, 3]).astype(dtype), 1000)
        file["v"].dims[0].attach_scale(file["x"])
        file["v"].attrs[name] = fill
    return path


@pytest.mark.parametrize("target", ["b.zarr", "b.nc", "b.nca", "b.json"])
@pytest.mark.parametrize(("dtype", "fill"), [("i2", 1e37), ("i2", "-5"), ("f4", 1e300)])
def test_a_fill_value_that_the_type_lacks_is_a_loss_and_makes_no_value_missing(
    tmp_path: Path, target: str, dtype: str, fill: Any
) -> None:
    path = write(tmp_path / "a.nc", dtype, fill)

    def made(on_loss: str) -> Any:
        if target == "b.json":
            return cfagg.index(path, to="kerchunk", output=tmp_path / target, on_loss=on_loss)
        return cfagg.convert(path, tmp_path / target, on_loss=on_loss)

    with pytest.raises(LossError, match=r"on_loss='drop'[^\n]*\n.*'v': attribute '_FillValue' \(.*\) is lost"):
        made("error")
    assert [(loss.variable, loss.what, loss.found) for loss in made("drop").losses] == [
        ("v", "attribute '_FillValue'", str(fill))
    ]
    if not (target == "b.nca" and isinstance(fill, str)):  # its file still has the text, which is refused there
        assert cfagg.read(tmp_path / target).v[:3].values.tolist() == [1, -5, 3]


@pytest.mark.parametrize("target", ["b.zarr", "b.nc", "b.nca", "b.json"])
def test_several_fill_values_are_a_loss_and_their_values_stay_missing(tmp_path: Path, target: str) -> None:
    path = write(tmp_path / "a.nc", "i2", np.array([1, 3], "i2"))

    def made(on_loss: str) -> Any:
        if target == "b.json":
            return cfagg.index(path, to="kerchunk", output=tmp_path / target, on_loss=on_loss)
        return cfagg.convert(path, tmp_path / target, on_loss=on_loss)

    with pytest.raises(LossError, match=r"'v': attribute '_FillValue' \(\[1 3\]\) is lost"):
        made("error")
    (loss,) = made("drop").losses
    assert (loss.what, loss.found, "missing_value" in loss.why) == ("attribute '_FillValue'", "[1 3]", True)
    assert np.array_equal(cfagg.read(tmp_path / target).v[:3].values, [np.nan, -5, np.nan], equal_nan=True)


def test_several_fill_values_join_those_of_missing_value(tmp_path: Path) -> None:
    path = write(tmp_path / "a.nc", "i2", np.array([1, 3], "i2"))
    with h5py.File(path, "a") as file:
        file["v"].attrs["missing_value"] = np.int16(-5)
    cfagg.convert(path, tmp_path / "b.nc", on_loss="drop")
    with netCDF4.Dataset(tmp_path / "b.nc") as nc:
        assert nc["v"].missing_value.tolist() == [-5, 1, 3]


@pytest.mark.parametrize("name", ["_FillValue", "missing_value"])
def test_the_text_nan_is_not_a_number_in_an_aggregation_either(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / "a.nc", "f4", "NaN", name)
    assert cfagg.aggregate([path]).v[:3].values.tolist() == [1, -5, 3]
    assert cfagg.convert(path, tmp_path / "b.nca").losses == ()
    assert cfagg.read(tmp_path / "b.nca").v[:3].values.tolist() == [1, -5, 3]


@pytest.mark.parametrize("fill", [1e37, np.nan])
def test_a_missing_value_that_no_element_of_an_aggregation_equals_is_none(tmp_path: Path, fill: float) -> None:
    path = write(tmp_path / "a.nc", "i2", fill, "missing_value")
    assert cfagg.aggregate([path]).v[:3].values.tolist() == [1, -5, 3]


def test_the_fill_value_of_unsigned_bytes_that_mean_signed_ones_is_read_from_a_store(tmp_path: Path) -> None:
    path = write(tmp_path / "a.nc", "u1", np.uint8(255))
    with h5py.File(path, "a") as file:
        file["v"][0] = 255
        file["v"].attrs["_Unsigned"] = "false"
    cfagg.convert(path, tmp_path / "b.zarr")
    cfagg.convert(tmp_path / "b.zarr", tmp_path / "c.nc")
    for name in ("a.nc", "b.zarr", "c.nc"):
        np.testing.assert_array_equal(cfagg.read(tmp_path / name).v[:3], [np.nan, -5, 3])


@pytest.mark.parametrize("target", ["v2", "v3", "nc"])
@pytest.mark.parametrize("fill", [True, False])
def test_booleans_equal_to_the_fill_value_of_zarr_stay_missing(tmp_path: Path, fill: bool, target: str) -> None:
    made = zarr.create_array(
        tmp_path / "a.zarr", name="v", shape=3, chunks=2, dtype="bool", fill_value=fill, zarr_format=2,
        attributes={"_ARRAY_DIMENSIONS": ["x"]},
    )  # fmt: skip
    made[:2] = [True, False]
    source = xr.open_zarr(tmp_path / "a.zarr", consolidated=False).v
    path = tmp_path / ("b.nc" if target == "nc" else "b.zarr")
    cfagg.convert(tmp_path / "a.zarr", path, zarr_format=int(target[1]) if target != "nc" else 3)
    for engine in ("netcdf4" if target == "nc" else "zarr", "cfagg"):
        with xr.open_dataset(path, engine=engine) as found:
            assert found.v.isnull().values.tolist() == source.isnull().values.tolist() == [fill, not fill, True]
            assert found.v.fillna(fill).values.tolist() == [True, False, fill]


@pytest.mark.parametrize("dtype", ["<U4", str])
@pytest.mark.parametrize("fill", ["", "none"])
def test_texts_equal_to_the_fill_value_of_zarr_stay_missing_where_readers_have_such(
    tmp_path: Path, dtype: Any, fill: str
) -> None:
    made = zarr.create_array(
        tmp_path / "a.zarr", name="v", shape=3, chunks=2, dtype=dtype, fill_value=fill, zarr_format=2,
        attributes={"_ARRAY_DIMENSIONS": ["x"]},
    )  # fmt: skip
    made[:2] = np.array(["ab", fill], object if dtype is str else dtype)
    for name, more in (("b.zarr", {"zarr_format": 2}), ("b.nc", {})):
        cfagg.convert(tmp_path / "a.zarr", tmp_path / name, **more)
        with xr.open_dataset(tmp_path / name, engine="zarr" if name == "b.zarr" else "netcdf4") as found:
            assert found.v.isnull().values.tolist() == [False, True, True]
    report = cfagg.convert(tmp_path / "a.zarr", tmp_path / "c.zarr", zarr_format=3)
    assert any("xarray masks text by them in v2 only" in note for note in report.notes)


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_fill_values_of_characters_and_strings_come_back_from_zarr(tmp_path: Path, zarr_format: Any) -> None:
    fills: dict[str, Any] = {"c": b" ", "d": b"\xff", "s": "none"}
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as file:
        file.createDimension("n", 2)
        for name, fill in fills.items():
            file.createVariable(name, str if name == "s" else "S1", ("n",), fill_value=fill)
            file[name][:] = np.array(["x", fill] if name == "s" else [b"x", fill], object if name == "s" else "S1")
        file.createVariable("plain", "S1", ("n",))
        file.createVariable("strings", str, ("n",))
    cfagg.convert(tmp_path / "a.nc", tmp_path / "b.zarr", zarr_format=zarr_format)
    cfagg.convert(tmp_path / "b.zarr", tmp_path / "c.zarr")
    cfagg.convert(tmp_path / "c.zarr", tmp_path / "d.nc")
    with netCDF4.Dataset(tmp_path / "d.nc") as file:
        assert {n: v.getncattr("_FillValue") for n, v in file.variables.items() if "_FillValue" in v.ncattrs()} == fills
