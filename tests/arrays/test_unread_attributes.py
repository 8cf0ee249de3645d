"""Attributes whose HDF5 types netCDF lacks: the netCDF library leaves them out silently, cfagg lists them as lost."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import netCDF4
import numpy as np
import pytest

import cfagg
from cfagg.errors import CfaggWarning, LossError


def bits(there: Any) -> None:
    h5py.h5a.create(there.id, b"odd", h5py.h5t.STD_B8LE, h5py.h5s.create(h5py.h5s.SCALAR))


def put(value: Callable[[Any], Any]) -> Callable[[Any], None]:
    return lambda there: there.attrs.__setitem__("odd", value(there.file))


TYPES: dict[str, Callable[[Any], None]] = {
    "opaque": put(lambda file: np.void(b"abcd")),
    "references": put(lambda file: file["t"].ref),
    "a compound": put(lambda file: np.array((1, file["t"].ref), [("p", "i4"), ("q", h5py.ref_dtype)])),
    "16-bit reals": put(lambda file: np.float16(1.5)),
    "enumeration": put(lambda file: np.True_),
    "bit fields": bits,
    "values along several dimensions": put(lambda file: np.ones((2, 2))),
}


def write(path: Path, kind: str, where: str) -> Path:
    """Write two variables, one of them in a group, and an attribute of a type at one place."""
    with netCDF4.Dataset(path, "w") as file:
        file.createDimension("x", 3)
        file.createVariable("t", "f4", ("x",))[:] = np.arange(3)
        file.createGroup("g").createVariable("u", "f4", ("x",))[:] = np.arange(3)
        file["t"].units = "K"
    with h5py.File(path, "a") as file:
        TYPES[kind](file[where])
    return path


@pytest.mark.parametrize("kind", TYPES)
def test_conversion_refuses_to_lose_an_attribute_of_each_type_and_lists_it(tmp_path: Path, kind: str) -> None:
    path = write(tmp_path / "a.nc", kind, "t")
    with pytest.raises(LossError, match=rf"a\.nc: 1 attribute cannot be read; .*\n.* 't': attribute 'odd' \({kind}\)"):
        cfagg.convert(path, tmp_path / "b.zarr")
    report = cfagg.convert(path, tmp_path / "b.zarr", on_loss="drop")
    assert [(loss.variable, loss.what, loss.found) for loss in report.losses] == [("t", "attribute 'odd'", kind)]
    assert cfagg.read(tmp_path / "b.zarr").t.attrs == {"units": "K"}


@pytest.mark.parametrize("kind", ["opaque", "values along several dimensions"])
@pytest.mark.parametrize("where", ["/", "g", "g/u"])
@pytest.mark.parametrize("target", ["b.nc", "b.nca", "b.json"])
def test_every_target_lists_it_wherever_it_is(tmp_path: Path, target: str, where: str, kind: str) -> None:
    path = write(tmp_path / "a.nc", kind, where)

    def made(on_loss: str) -> Any:
        if target == "b.json":
            return cfagg.index(path, to="kerchunk", output=tmp_path / target, on_loss=on_loss)
        return cfagg.convert(path, tmp_path / target, on_loss=on_loss)

    with pytest.raises(LossError, match=rf"'{where}': attribute 'odd' \({kind}\) is lost: .* write it as numbers"):
        made("error")
    assert [(loss.variable, loss.what) for loss in made("drop").losses] == [(where, "attribute 'odd'")]


def test_what_is_not_chosen_loses_nothing(tmp_path: Path) -> None:
    path = write(tmp_path / "a.nc", "opaque", "g/u")
    assert cfagg.convert(path, tmp_path / "b.zarr", variables=["t"]).losses == ()


def test_a_part_of_a_store_gets_no_attributes_and_loses_none(tmp_path: Path) -> None:
    path = write(tmp_path / "a.nc", "opaque", "t")
    cfagg.convert(path, tmp_path / "b.zarr", variables=["t"], on_loss="drop")
    assert cfagg.convert(path, tmp_path / "b.zarr", variables=["t"], region={"x": slice(0, 3)}).losses == ()


def test_an_unusual_number_does_not_make_a_file_damaged(tmp_path: Path) -> None:
    path = write(tmp_path / "a.nc", "16-bit reals", "t")
    with h5py.File(path, "a") as file:
        file["t"].attrs["comment"] = "a text of variable length"
    found = cfagg.aggregate([path]).t.attrs
    assert (found["odd"], found["comment"]) == (1.5, "a text of variable length")


def test_a_file_with_an_attribute_of_several_dimensions_is_read_without_it_though_the_netcdf_library_fails(
    tmp_path: Path,
) -> None:
    path = write(tmp_path / "a.nc", "values along several dimensions", "t")
    with pytest.raises(RuntimeError):
        netCDF4.Dataset(path)
    found = cfagg.read(path).t
    assert (found.attrs, found.values.tolist()) == ({"units": "K"}, [0, 1, 2])
    joined = cfagg.aggregate([path])
    with pytest.raises(LossError, match=r"'t': attribute 'odd' \(values along several dimensions\) is lost"):
        cfagg.write(joined, tmp_path / "b.nca")


@pytest.mark.parametrize("name", ["scale_factor", "_FillValue", "units"])
def test_a_variable_whose_values_depend_on_an_attribute_of_several_dimensions_is_not_read(
    tmp_path: Path, name: str
) -> None:
    path = write(tmp_path / "a.nc", "values along several dimensions", "g")
    with h5py.File(path, "a") as file:
        file["t"].attrs[name] = np.ones((2, 2), "f4")
    with pytest.warns(CfaggWarning, match="variable 't' cannot be read: .* left out"):
        assert list(cfagg.read(path)) == []
