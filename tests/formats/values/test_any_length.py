"""Texts and lists of numbers of any length in netCDF files, also in those that others have open."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import h5py
import netCDF4
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cfagg
from cfagg.errors import CfaggError

SHAPE = (5, 3)

#: Run in a process of its own, as the netCDF library would end the process.
SCRIPT = """
import sys, netCDF4, xarray, cfagg
path, name, way = sys.argv[1:]
held = netCDF4.Dataset(path) if way == "netCDF4" else xarray.open_dataset(path, engine="netcdf4")
for _ in range(4):
    cfagg.open_array(path, name)[...]
    cfagg.read(path, variables=[name]).load().close()
print("still here")
"""


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("any_length") / "a.nc"
    with netCDF4.Dataset(made, "w") as file:
        file.createDimension("t", None)
        file.createDimension("x", SHAPE[1])
        texts = file.createVariable("texts", str, ("t", "x"))
        lists = file.createVariable("lists", file.createVLType("i2", "lists_of_i2"), ("t", "x"))
        for i, j in np.ndindex(4, 3):
            texts[i, j] = "é" * (i * j)
            lists[i, j] = np.arange(i + j, dtype="i2")
        file.createVariable("longer", "f4", ("t",))[:] = np.arange(SHAPE[0])  # the others have 4 records
        file.createVariable("text", str, ())[...] = "one"
        file.createVariable("list", file.createVLType("f8", "lists_of_f8"), ())[...] = np.array([1.5, 2.5])
    return made


def same(one: Any, other: Any) -> bool:
    """Return whether two arrays of objects have equal elements of equal types."""
    one, other = np.asarray(one, object), np.asarray(other, object)
    pairs = list(zip(one.ravel(), other.ravel(), strict=True))
    return one.shape == other.shape and all(
        type(a) is type(b) and np.array_equal(a, b) and np.asarray(a).dtype == np.asarray(b).dtype for a, b in pairs
    )


@pytest.mark.parametrize("way", ["netCDF4", "xarray"])
@pytest.mark.parametrize("name", ["texts", "lists"])
def test_a_file_that_someone_has_open_is_read_again_and_again(path: Path, name: str, way: str) -> None:
    if (name, way) == ("lists", "xarray"):
        pytest.skip("xarray opens no lists")
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(path), name, way], capture_output=True, text=True, check=False
    )
    assert (run.returncode, run.stdout) == (0, "still here\n"), run.stderr


@given(name=st.sampled_from(["texts", "lists"]), data=st.data())
def test_selections_are_those_of_the_netcdf_library(path: Path, name: str, data: st.DataObject) -> None:
    key = tuple(data.draw(st.slices(n)) for n in SHAPE)
    with netCDF4.Dataset(path) as file:
        expected = file[name][:]
    assert same(cfagg.open_array(path, name)[key], expected[key])


@pytest.mark.parametrize("name", ["text", "list"])
def test_single_values_are_those_of_the_netcdf_library(path: Path, name: str) -> None:
    with netCDF4.Dataset(path) as file:
        expected = file[name][...]
    found = cfagg.open_array(path, name)[...]
    assert np.array_equal(found.item() if isinstance(found, np.ndarray) else found, expected)


@pytest.mark.parametrize("fill", [None, "none"])
def test_texts_of_chunks_that_were_never_written_are_those_of_the_netcdf_library(tmp_path: Path, fill: Any) -> None:
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as file:
        file.createDimension("t", None)
        file.createDimension("x", 4)
        made = file.createVariable("texts", str, ("t", "x"), chunksizes=(2, 2), fill_value=fill)
        made[0, 0], made[3, 1] = "a", "b"
    with netCDF4.Dataset(tmp_path / "a.nc") as file:
        file.set_auto_mask(False)
        expected = file["texts"][:]
    assert same(cfagg.open_array(tmp_path / "a.nc", "texts")[:], expected)
    assert expected[0, 0] == "a"
    assert expected[2, 3] == (fill or "")


def test_big_endian_lists_are_those_of_the_netcdf_library(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.nc", "w") as file:
        made = file.create_dataset("lists", (2,), h5py.vlen_dtype(">i4"))
        made[0] = np.array([1, -2], ">i4")
    with netCDF4.Dataset(tmp_path / "a.nc") as file:
        expected = file["lists"][:]
    assert same(cfagg.open_array(tmp_path / "a.nc", "lists")[:], expected)


def test_texts_that_are_not_utf_8_are_refused_by_name(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.nc", "w") as file:
        file.create_dataset("texts", data=[b"ok", b"\xff\xfe"], dtype=h5py.string_dtype("ascii"))
    with pytest.raises(CfaggError, match=r"'/texts' of .*a.nc cannot be read"):
        cfagg.open_array(tmp_path / "a.nc", "texts")[:]
