"""Zarr stores as datasets: scalars of the netCDF library, and what is said where xarray makes no dataset of a store."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np
import pytest
import xarray as xr
import zarr

import cfagg
import cfagg.labelled.zarr  # which decides what of it is told
from cfagg.errors import CfaggError, SourceError, UnsupportedError


@pytest.mark.parametrize("chunks", [None, {}])
@pytest.mark.parametrize("mode", ["nczarr", "zarr"])
def test_scalars_of_the_netcdf_library_are_scalars(tmp_path: Path, mode: str, chunks: Any) -> None:
    url = f"file://{tmp_path}/a.zarr#mode={mode},file"
    with netCDF4.Dataset(url, "w") as file:
        file.createVariable("height", "f8", ())[...] = 2.5
        file["height"].units = "m"
    ds = cfagg.read(tmp_path / "a.zarr", chunks=chunks)
    with netCDF4.Dataset(url) as file:
        # Without its notes, the library itself does not know any more that it wrote a scalar.
        assert file["height"].shape == (() if mode == "nczarr" else (1,))
    assert ds.height.shape == ()
    assert (float(ds.height), ds.height.units, dict(ds.sizes)) == (2.5, "m", {})
    ds.to_zarr(tmp_path / "b.zarr", zarr_format=2)
    assert float(xr.open_zarr(tmp_path / "b.zarr").height) == 2.5


@pytest.mark.parametrize("fill", [1e20, -1])
def test_fill_values_that_are_plain_numbers_in_version_3_are_read(tmp_path: Path, fill: float) -> None:
    made = zarr.create_array(tmp_path, name="v", data=np.array([0, 1e20, -1], "f4"), dimension_names=["x"])
    made.attrs["_FillValue"] = fill
    found = cfagg.read(tmp_path).v
    np.testing.assert_array_equal(np.isnan(found), [False, fill > 0, fill < 0])
    found.to_netcdf(tmp_path / "a.nc")
    with netCDF4.Dataset(tmp_path / "a.nc") as file:
        assert file["v"]._FillValue == np.float32(fill)


def test_attributes_of_the_netcdf_library_have_their_types(tmp_path: Path) -> None:
    with netCDF4.Dataset(f"file://{tmp_path}/a.zarr#mode=nczarr,file", "w") as file:
        file.createDimension("x", 2)
        file.createVariable("v", "f4", ("x",))[:] = [1, 2]
        file["v"].setncatts({"missing_value": np.float32("nan"), "level": np.int16(3), "units": "1"})
    for ds in (cfagg.read(tmp_path / "a.zarr"), xr.open_dataset(tmp_path / "a.zarr", engine="cfagg")):
        found = {**ds["v"].encoding, **ds["v"].attrs}
        assert np.isnan(found["missing_value"])
        assert (found["missing_value"].dtype, found["level"].dtype, found["units"]) == ("f4", "i2", "1")


@pytest.mark.parametrize("form", [2, 3])
def test_an_array_without_names_of_dimensions_is_named(tmp_path: Path, form: Any) -> None:
    group = zarr.create_group(str(tmp_path), zarr_format=form)
    names = {"dimension_names": ["x"]} if form == 3 else {"attributes": {"_ARRAY_DIMENSIONS": ["x"]}}
    group.create_array("a", data=np.array(["p", "q"]), **names)  # text is nothing wrong
    group.create_array("b", data=np.arange(2))
    key = "dimension_names in zarr.json" if form == 3 else "the attribute _ARRAY_DIMENSIONS"
    with pytest.raises(SourceError, match=rf"array 'b' has no names of dimensions.*write them \({key}\)"):
        cfagg.read(tmp_path)
    assert cfagg.open_array(tmp_path, "b")[:].tolist() == [0, 1]


@pytest.mark.parametrize("form", [2, 3])
def test_a_codec_that_is_not_there_is_named_and_nothing_called_damaged(tmp_path: Path, form: Any) -> None:
    ds = xr.Dataset({"v": ("x", np.arange(3.0))})
    ds.to_zarr(tmp_path, zarr_format=form, consolidated=False)
    document = tmp_path / "v" / ("zarr.json" if form == 3 else ".zarray")
    found = json.loads(document.read_text())
    if form == 3:
        found["codecs"][-1] = {"name": "no_such_codec", "configuration": {}}
    else:
        found["compressor"] = {"id": "no_such_codec"}
    document.write_text(json.dumps(found))
    for read in (lambda: cfagg.open_array(tmp_path, "v")[:], lambda: cfagg.read(tmp_path).load()):
        with pytest.raises(CfaggError, match="'no_such_codec'") as raised:
            read()
        assert "damaged" not in str(raised.value)
        assert "violate" not in str(raised.value)


def test_a_type_that_zarr_python_does_not_know_is_what_is_named(tmp_path: Path) -> None:
    group = zarr.create_group(str(tmp_path))
    group.create_array("a", data=np.array(["p", "q"]), dimension_names=["x"])
    group.create_array("b", data=np.arange(2), dimension_names=["x"])
    document = tmp_path / "b" / "zarr.json"
    document.write_text(document.read_text().replace('"int64"', '"no_such_type"'))
    with pytest.raises(UnsupportedError, match="array 'b' has the data type 'no_such_type'"):
        cfagg.read(tmp_path)


def test_grids_by_their_older_name_are_read(tmp_path: Path) -> None:
    with zarr.config.set({"array.rectilinear_chunks": True}):
        zarr.create_array(str(tmp_path), name="v", data=np.arange(7), chunks=[[2, 4, 1]], dimension_names=["x"])
    document = tmp_path / "v/zarr.json"
    found = json.loads(document.read_text())
    lengths = found["chunk_grid"]["configuration"]["chunk_shapes"]
    found["chunk_grid"] = {"name": "rectangular", "configuration": {"chunk_shape": lengths}}
    document.write_text(json.dumps(found))
    ds = cfagg.read(tmp_path, chunks={})
    assert (ds.v.values.tolist(), ds.v.chunks) == ([0, 1, 2, 3, 4, 5, 6], ((2, 4, 1),))


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("dtype", ["<U8", ">U8"])
def test_texts_of_a_fixed_width_keep_it_and_stay_lazy(tmp_path, zarr_format, dtype):
    named = {"dimension_names": ["x"]} if zarr_format == 3 else {"attributes": {"_ARRAY_DIMENSIONS": ["x"]}}
    array = zarr.create_array(
        tmp_path / "a.zarr", name="v", shape=3, chunks=2, dtype=dtype, zarr_format=zarr_format,
        fill_value="" if zarr_format == 3 else None, **named,
    )  # fmt: skip
    array[:] = np.array(["é", "", "abcd"], dtype)
    with xr.open_dataset(tmp_path / "a.zarr", engine="cfagg") as found:
        assert not found.v.variable._in_memory
        assert (found.v.dtype, found.v[:1].values.dtype) == (np.dtype("<U8"),) * 2
        assert found.v.values.tolist() == ["é", "", "abcd"]


@pytest.mark.parametrize("consolidated", [False, True])
@pytest.mark.parametrize("form", [2, 3])
def test_variables_that_are_asked_for_are_read_whatever_is_wrong_with_others(
    tmp_path: Path, form: Any, consolidated: bool
) -> None:
    root = zarr.open_group(tmp_path / "s.zarr", mode="w", zarr_format=form)
    group = root.create_group("g")
    for name, size in (("a", 2), ("cut", 2), ("outside", 2), ("longer", 3), ("other", 2)):
        named: Any = {"dimension_names": ["x"]} if form == 3 else {"attributes": {"_ARRAY_DIMENSIONS": ["x"]}}
        group.create_array(name, data=np.arange(1, size + 1), **named)
    if consolidated:
        zarr.consolidate_metadata(tmp_path / "s.zarr")
    folder = tmp_path / "s.zarr" / "g"
    (folder / "cut" / (".zarray" if form == 2 else "zarr.json")).write_text("{")
    (folder / "outside").rename(tmp_path / "elsewhere")
    (folder / "outside").symlink_to(tmp_path / "elsewhere")
    found = cfagg.read(tmp_path / "s.zarr", group="g", variables=["a", "other"])
    assert (found["a"].values.tolist(), found["other"].values.tolist()) == ([1, 2], [1, 2])
    with pytest.raises(cfagg.CfaggError, match=r"s\.zarr.*outside"):
        cfagg.read(tmp_path / "s.zarr", group="g", variables=["a", "outside"], drop_variables="cut")


@pytest.mark.parametrize("form", [2, 3])
def test_only_the_error_that_is_raised_is_told_if_many_arrays_are_damaged(tmp_path: Path, form: Any) -> None:
    group = zarr.open_group(tmp_path / "s.zarr", mode="w", zarr_format=form)
    for name in "abcd":
        group.create_array(name, data=np.arange(2))
        (tmp_path / "s.zarr" / name / (".zarray" if form == 2 else "zarr.json")).write_text("{")
    code = "import sys, cfagg\ntry: cfagg.read(sys.argv[1])\nexcept cfagg.CfaggError as error: print(error)"
    done = subprocess.run([sys.executable, "-c", code, tmp_path / "s.zarr"], capture_output=True, text=True, check=True)
    assert (done.stdout.count("is not JSON"), done.stderr) == (1, "")


@pytest.mark.parametrize(("coroutine", "told"), [("_getitem_semaphore() done", 0), ("work() done", 1)])
def test_tasks_of_zarr_python_that_an_early_end_leaves_are_not_told(caplog: Any, coroutine: str, told: int) -> None:
    said = (
        f"Task was destroyed but it is pending!\ntask: <Task pending name='a' coro=<{coroutine}, defined at group.py>>"
    )
    logging.getLogger("asyncio").error(said)
    assert len(caplog.records) == told


def test_a_coordinate_with_times_that_are_not_decoded_is_never_left_out(tmp_path: Path) -> None:
    time = ("t", [0.0, 1.0], {"units": "furlongs since 2000-01-01"})
    xr.Dataset({"a": ("t", [1.0, 2.0])}, {"t": time}).to_zarr(tmp_path / "s.zarr")
    with pytest.raises(cfagg.CfaggError, match=r"'t'.*decode_times=False"):
        cfagg.read(tmp_path / "s.zarr", variables=["a"])
