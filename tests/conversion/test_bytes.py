"""Texts as bytes of fixed length, as xarray makes of characters: unchanged in stores, characters in netCDF."""

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

pytestmark = pytest.mark.filterwarnings("ignore:.*Zarr V3", "ignore:.*Zarr format 3")

TEXTS = np.array([[b"abc", b"d", b""], [b"\xe9", b"zz", b"q"]])


def store(path: Path, zarr_format: int, **encoding: Any) -> Path:
    dataset = xr.Dataset({"name": (("y", "x"), TEXTS), "height": ("x", [1.0, 2.0, 3.0])})
    dataset.to_zarr(path, zarr_format=zarr_format, encoding={"name": {"chunks": (1, 2), **encoding}})
    return path


def raw(path: Path, name: str) -> netCDF4.Variable:
    variable = netCDF4.Dataset(path)[name]
    variable.set_auto_mask(False)
    variable.set_auto_chartostring(False)
    return variable


@pytest.mark.parametrize("given", [2, 3])
@pytest.mark.parametrize("options", [{"zarr_format": 2}, {"chunks": {"x": 1}}, {"shards": {"x": 2}}])
def test_they_stay_as_they_are_from_store_to_store(tmp_path: Path, given: int, options: dict[str, Any]) -> None:
    source = store(tmp_path / "a.zarr", given)
    assert not cfagg.convert(source, tmp_path / "b.zarr", **options).losses
    found = zarr.open_group(tmp_path / "b.zarr")["name"]
    assert found.dtype == "S3"
    assert found[:].tolist() == TEXTS.tolist()


@pytest.mark.parametrize("given", [2, 3])
def test_they_become_characters_in_netcdf_as_xarray_writes_them(tmp_path: Path, given: int) -> None:
    source = store(tmp_path / "a.zarr", given)
    with xr.open_zarr(source) as dataset:
        dataset.to_netcdf(tmp_path / "expected.nc")
    assert not cfagg.convert(source, tmp_path / "b.nc").losses
    expected, found = (raw(tmp_path / name, "name") for name in ("expected.nc", "b.nc"))
    assert found.dimensions == expected.dimensions == ("y", "x", "string3")
    assert found[:].tolist() == expected[:].tolist()
    assert found.chunking() == [1, 2, 3]


@pytest.mark.parametrize("to", ["CF-1.13", "CFA-0.6.2", "NCA-0.1"])
def test_they_become_characters_in_aggregation_files(tmp_path: Path, to: str) -> None:
    cfagg.convert(store(tmp_path / "a.zarr", 2), tmp_path / "b.nc", to=to)
    with cfagg.read(tmp_path / "b.nc") as found:
        assert found["name"].dims == ("y", "x")
        assert found["name"].values.tolist() == TEXTS.tolist()


@pytest.mark.parametrize("to", ["netcdf", "CF-1.13"])
def test_their_dimension_is_no_coordinate(tmp_path: Path, to: str) -> None:
    names = {"name": ("x", TEXTS[0]), "string3": ("string3", [1, 2, 3])}
    xr.Dataset(names).to_zarr(tmp_path / "a.zarr", zarr_format=2)
    cfagg.convert(tmp_path / "a.zarr", tmp_path / "b.nc", to=to)
    with cfagg.read(tmp_path / "b.nc") as found:
        assert found["name"].values.tolist() == TEXTS[0].tolist()
        assert found["string3"].values.tolist() == [1, 2, 3]


@pytest.mark.parametrize("to", ["netcdf", "CF-1.13"])
def test_their_fill_value_is_a_loss_in_netcdf(tmp_path: Path, to: str) -> None:
    source = store(tmp_path / "a.zarr", 2, _FillValue=b"zz")
    lost = r"'name': attribute '_FillValue' .* is lost: the fill value of an array of characters is a single character"
    with pytest.raises(LossError, match=lost):
        cfagg.convert(source, tmp_path / "b.nc", to=to)
    cfagg.convert(source, tmp_path / "b.nc", to=to, on_loss="drop")
    with cfagg.read(tmp_path / "b.nc") as found:
        assert found["name"].values.tolist() == TEXTS.tolist()


@pytest.mark.parametrize("fill", [b"x", b"\xff"])
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_the_fill_value_of_characters_keeps_its_byte(tmp_path: Path, fill: bytes, zarr_format: int) -> None:
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as file:
        file.createDimension("x", 3)
        variable = file.createVariable("letter", "S1", ("x",), fill_value=fill)
        variable.set_auto_chartostring(False)
        variable[:] = np.array([b"a", fill, b"\xef"])
    cfagg.convert(tmp_path / "a.nc", tmp_path / "b.zarr", zarr_format=zarr_format)
    assert zarr.open_group(tmp_path / "b.zarr")["letter"].fill_value == fill
    cfagg.convert(tmp_path / "a.nc", tmp_path / "c.nc")
    assert raw(tmp_path / "c.nc", "letter").getncattr("_FillValue") == fill
    if zarr_format == 2:
        cfagg.convert(tmp_path / "b.zarr", tmp_path / "d.nc")
        assert raw(tmp_path / "d.nc", "letter").getncattr("_FillValue") == fill


@pytest.mark.parametrize("length", [1, 3])
def test_a_fill_value_that_xarray_writes_in_base_64_is_decoded(tmp_path: Path, length: int) -> None:
    name = ("x", np.array([b"a", b"z", b""], f"S{length}"), {}, {"_FillValue": b"z"})
    xr.Dataset({"name": name}).to_zarr(tmp_path / "a.zarr", zarr_format=3)
    cfagg.convert(tmp_path / "a.zarr", tmp_path / "b.zarr", zarr_format=2)
    assert zarr.open_group(tmp_path / "b.zarr")["name"].fill_value == b"z"


def test_a_fill_value_that_is_longer_than_characters_is_a_loss(tmp_path: Path) -> None:
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as file:
        file.createDimension("x", 2)
        file.createVariable("letter", "S1", ("x",))[:] = np.array([b"a", b"\xc3"])
    with h5py.File(tmp_path / "a.nc", "a") as file:
        file["letter"].attrs["_FillValue"] = "\xc3\xa9"
    with pytest.raises(LossError, match=r"'letter': attribute '_FillValue' .* is lost"):
        cfagg.convert(tmp_path / "a.nc", tmp_path / "b.zarr")
