"""Attributes get another order and stay as they are otherwise, byte by byte."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import netCDF4
import numpy as np
import pytest

from cfagg.formats.hdf5.reordering import reorder

LONG = "é" * 70_000

#: Attributes that the netCDF library keeps for itself.
HIDDEN = {"DIMENSION_LIST", "REFERENCE_LIST", "CLASS", "NAME", "_Netcdf4Dimid", "_Netcdf4Coordinates"}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "a.nc"
    with netCDF4.Dataset(path, "w") as file:
        file.createDimension("x", 2)
        inner = file.createGroup("g")
        v = inner.createVariable("x", "i2", ("x",), fill_value=-9)
        v.first = "1"
        v.empty = ""
        v.reals = np.array([0.1, np.nan], "f4")
        v.big = np.uint64(2**64 - 1)
        v.setncattr_string("texts", ["é", "b"])
        v.setncattr_string("ascii", "c")
        v.long = LONG
        v.last = np.arange(3, dtype=">i4")
        v[:] = [1, 2]
    with h5py.File(path, "a") as file:
        file["kinds"] = h5py.enum_dtype({"a": 1, "b": 2}, "u1")
        file["g/x"].attrs.create("kind", 2, dtype=file["kinds"])
        file["g/x"].attrs["both"] = np.array([(1.5, 7)], [("r", ">f4"), ("i", "<i8")])
    return path


def stored(path: Path) -> dict[str, Any]:
    """Return type, shape and bytes of the attributes of the variable."""
    found = {}
    with h5py.File(path) as file:
        owner = file["g/x"]
        for name in set(owner.attrs) - HIDDEN:
            attribute = h5py.h5a.open(owner.id, name.encode())
            kind = attribute.get_type()
            value = owner.attrs[name] if attribute.shape is not None else None
            plain = value.tolist() if isinstance(value, np.ndarray) and value.dtype.kind == "O" else value
            raw = np.asarray(plain).tobytes()
            found[name] = (kind.encode(), attribute.shape, raw)
    return found


def names(path: Path) -> list[str]:
    """Return the attributes of the variable in the order of their creation, without those that netCDF hides."""
    found: list[bytes] = []
    with h5py.File(path) as file:
        h5py.h5a.iterate(file["g/x"].id, found.append, index_type=h5py.h5.INDEX_CRT_ORDER)
    return [name.decode() for name in found if name.decode() not in HIDDEN]


def test_attributes_of_all_types_get_the_order_and_keep_their_bytes(path: Path) -> None:
    before, wanted = stored(path), names(path)[::-1]
    reorder(str(path), {"/g/x": wanted})
    assert names(path) == wanted
    assert stored(path) == before
    with h5py.File(path) as file:
        assert np.ravel(file["g/x"].attrs["long"])[0] == LONG
        assert file["g/x"][:].tolist() == [1, 2]


def test_an_empty_string_which_may_be_an_absent_one_does_not_move(path: Path) -> None:
    with netCDF4.Dataset(path, "a") as file:
        file["g/x"].setncattr_string("none", "")
        file["g/x"].final = 1
    before = names(path)
    reorder(str(path), {"/g/x": [*before[:-2], "final", "none"]})
    assert names(path) == before
    reorder(str(path), {"/g/x": ["none", *(n for n in before if n != "none")]})
    assert names(path) == before


def test_attributes_in_front_of_those_that_move_may_be_of_any_type(path: Path) -> None:
    with netCDF4.Dataset(path, "a") as file:
        file["g/x"].setncattr_string("none", "")
        file["g/x"].final, file["g/x"].more = 1, 2
    wanted = [*names(path)[:-2], "more", "final"]
    reorder(str(path), {"/g/x": wanted})
    assert names(path) == wanted


def test_where_an_attribute_cannot_be_copied_exactly_all_stay(path: Path) -> None:
    with h5py.File(path, "a") as file:
        file["g/x"].attrs.create("ragged", np.array([np.arange(2), np.arange(3)], object), dtype=h5py.vlen_dtype("i4"))
    before = names(path)
    reorder(str(path), {"/g/x": before[::-1]})
    assert names(path) == before


def test_places_that_the_file_lacks_are_ignored(path: Path) -> None:
    before = path.read_bytes()
    reorder(str(path), {"/nowhere/y": ["a"], "/g/x": ["nothing"], "/": []})
    assert stored(path)
    assert len(path.read_bytes()) == len(before)
