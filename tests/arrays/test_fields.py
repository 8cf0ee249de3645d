"""Partitions that are fields of PP files, by their addresses: values, conforming, and what is refused."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import warnings
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np
import pytest
import zarr

import cfagg
from cfagg.arrays.opening import open_reader
from cfagg.cli.main import main
from cfagg.errors import (
    AccessError,
    CfaggError,
    FragmentMismatchError,
    FragmentNotFoundError,
    FragmentReadError,
    OptionError,
    RepairWarning,
    UnsupportedError,
)
from cfagg.storage.access import Access
from cfagg.storage.handles import handles
from tests import nca_files
from tests.formats.pp.making import field, fields_file
from tests.systems import needs_proc

PP = Path(__file__).parents[2] / "sample_data" / "pp"
SIX = np.arange(6.0).reshape(2, 3)
ONE = 296  # bytes of a field of six values of 4 bytes
DIMS = ["t", "y", "x"]


def aggregated(
    folder: Path, data: list[dict[str, Any]], *, dtype: str = "f4", attributes: Any = None, **more: Any
) -> Path:
    """Write an NCA file of as many times as there are partitions, each one field of 2 x 3 values."""
    edges = [list(range(len(data) + 1)), [0, 2], [0, 3]]
    said = {"dimensions": ["y", "x"], "format": "PP", **more}
    content = nca_files.array(DIMS, edges, lambda i, box: {**said, "data": {"shape": [2, 3], **data[i[0]]}})
    sizes = {"t": len(data), "y": 2, "x": 3}
    return nca_files.aggregation(folder / "agg.nca", "tas", dtype, sizes, content, attributes)


def values(path: Path, **options: Any) -> np.ndarray:
    reader = open_reader(path, "tas", **options)
    return reader.read([slice(None)] * 3)


@pytest.mark.parametrize("unit", [1, 4, 8])
@pytest.mark.parametrize("begin", [0, 268])
def test_fields_are_read_by_the_address_of_header_or_data_in_any_unit(tmp_path: Path, unit: int, begin: int) -> None:
    size, one = (4, ONE) if unit < 8 else (8, 592)
    begin = begin if unit < 8 else begin and 536
    (tmp_path / "a.pp").write_bytes(b"".join(field(SIX + 10 * n, size) for n in range(3)))
    path = aggregated(tmp_path, [{"file": "a.pp", "file_offset": (n * one + begin) // unit} for n in (2, 0, 1)])
    assert values(path, word_size=unit).tolist() == [(SIX + 10 * n).tolist() for n in (2, 0, 1)]
    if unit == 1:
        assert values(path).tolist() == [(SIX + 10 * n).tolist() for n in (2, 0, 1)]
    with pytest.raises(OptionError, match="word_size=3"):
        values(path, word_size=3)


def test_the_user_decides_the_unit_of_addresses(tmp_path: Path) -> None:
    (tmp_path / "a.pp").write_bytes(b"".join(field(SIX + 10 * n) for n in range(4)))
    path = aggregated(tmp_path, [{"file": "a.pp", "file_offset": 74}])
    assert values(path)[0, 0, 0] == 10
    assert values(path, word_size=8)[0, 0, 0] == 20
    with cfagg.read(path, word_size=8) as ds:
        assert ds.tas.values[0, 0, 0] == 20
    with pytest.raises(
        FragmentNotFoundError, match=r"partition \(0, 0, 0\): no field of .*a\.pp begins at the address 74"
    ):
        values(path, word_size=1)


def test_conversion_takes_the_unit_of_addresses_from_the_user(tmp_path: Path) -> None:
    (tmp_path / "a.pp").write_bytes(b"".join(field(SIX + 10 * n) for n in range(4)))
    path = aggregated(tmp_path, [{"file": "a.pp", "file_offset": 74}])
    cfagg.convert(path, tmp_path / "a.zarr", word_size=8)
    assert main(["convert", str(path), str(tmp_path / "b.zarr"), "--word-size", "8", "-q"]) == 0
    for name in ("a.zarr", "b.zarr"):
        assert zarr.open_group(tmp_path / name, mode="r")["tas"][0, 0, 0] == 20
    with pytest.raises(OptionError, match="word_size=3 is not known"):
        cfagg.convert(path, tmp_path / "c.zarr", word_size=3)


def test_fragments_of_a_translation_take_the_unit_of_addresses_from_the_user(tmp_path: Path) -> None:
    (tmp_path / "a.pp").write_bytes(b"".join(field(SIX + 10 * n) for n in range(4)))
    path = aggregated(tmp_path, [{"file": "a.pp", "file_offset": 74}])
    for unit, first in ((None, 10), (8, 20)):
        cfagg.convert(path, tmp_path / "a.nc", to="CF-1.13", on_loss="materialise", word_size=unit, overwrite=True)
        assert cfagg.read(tmp_path / "a.nc").tas.values[0, 0, 0] == first


def test_a_check_takes_the_unit_of_addresses_from_the_user(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.pp").write_bytes(b"".join(field(SIX + 10 * n) for n in range(4)))
    path = aggregated(tmp_path, [{"file": "a.pp", "file_offset": 74}])
    assert "REF004" not in {f.code for f in cfagg.check(path, references=True, word_size=8).findings}
    (found,) = [f for f in cfagg.check(path, references=True, word_size=1).findings if f.code == "REF004"]
    assert "no field of" in found.message
    main(["check", str(path), "--references", "--word-size", "1"])
    assert "REF004" in capsys.readouterr().out
    with pytest.raises(OptionError, match="word_size=3 is not known"):
        cfagg.check(path, word_size=3)


def test_how_an_address_was_understood_is_told(tmp_path: Path) -> None:
    (tmp_path / "a.pp").write_bytes(field(SIX) * 2)
    reader: Any = open_reader(aggregated(tmp_path, [{"file": "a.pp", "file_offset": 74}]), "tas")
    assert reader.header(0).variable == "field at 74 (address of the record of its header in words of 4 bytes)"


def test_missing_values_and_packing_of_the_header_are_conformed_and_selections_pushed_down(tmp_path: Path) -> None:
    (tmp_path / "a.pp").write_bytes(field([-9, 1, 2, 3, 4, 5], BMDI=-9, BMKS=2, BDATUM=100) + field(SIX, LBUSER1=1))
    data = [{"file": "a.pp", "file_offset": 0}, {"file": "a.pp", "file_offset": ONE}]
    path = aggregated(tmp_path, data, attributes={"missing_value": np.float32(-1)})
    assert values(path).tolist() == [[[-1, 102, 104], [106, 108, 110]], SIX.tolist()]
    with cfagg.read(path) as ds:
        assert np.isnan(ds.tas.values[0, 0, 0])
    reader = open_reader(path, "tas")
    assert reader.read([slice(0, 1), slice(1, None, -1), [2, 0]]).tolist() == [[[110, 106], [104, -1]]]
    again = pickle.loads(pickle.dumps(reader))
    assert again.read([0, 1, slice(None)]).tolist() == [106, 108, 110]


def test_what_the_aggregation_says_of_packing_and_units_is_heeded(tmp_path: Path) -> None:
    (tmp_path / "a.pp").write_bytes(field(SIX))
    said = {"file": "a.pp", "file_offset": 0, "scale_factor": 0.5, "add_offset": 1.0, "lbpack": 0, "dtype": "float"}
    path = aggregated(tmp_path, [said], units="degC", attributes={"units": "K"}, dtype="f8")
    assert np.allclose(values(path)[0], SIX * 0.5 + 1 + 273.15)
    (tmp_path / "a.pp").write_bytes(field(SIX, BMKS=4))
    with pytest.raises(FragmentMismatchError, match=r"partition \(0, 0, 0\).*packed with scale_factor 4\.0"):
        values(path)


def test_reversed_and_transposed_fields_and_parts_of_them(tmp_path: Path) -> None:
    big = np.arange(20.0).reshape(4, 5)
    (tmp_path / "a.pp").write_bytes(field(big, LBROW=4, LBNPT=5))
    content = {
        "directions": {"t": True, "y": True, "x": True}, "pdimensions": [], "pshape": [],
        "Partitions": [{
            "index": [], "location": [[0, 1], [0, 2], [0, 3]], "format": "PP", "dimensions": ["x", "t", "y"],
            "directions": {"t": True, "y": False, "x": True}, "part": "[(1, 4, 1), [0], [0, 3]]",
            "data": {"shape": [4, 1, 5], "file": "a.pp", "file_offset": 0},
        }],
    }  # fmt: skip
    path = nca_files.aggregation(tmp_path / "agg.nca", "tas", "f4", {"t": 1, "y": 2, "x": 3}, content)
    expected = big[1:4][:, [0, 3]].T[::-1]
    assert values(path)[0].tolist() == expected.tolist()


@pytest.mark.parametrize("name", ["PP", "pp", "UM", "ff"])
def test_fields_files_and_names_of_formats(tmp_path: Path, name: str) -> None:
    raw = [(SIX + 10 * n).astype(">f8").tobytes() for n in range(2)]
    data = fields_file([({}, r) for r in raw])
    (tmp_path / "a.ff").write_bytes(data)
    places = [2048, 2048 + 512]
    path = aggregated(tmp_path, [{"file": "a.ff", "file_offset": p} for p in places], format=name, dtype="f8")
    assert values(path).tolist() == [SIX.tolist(), (SIX + 10).tolist()]


def test_land_points_are_put_by_the_mask_of_their_grid_and_model(tmp_path: Path) -> None:
    mask = np.array([[1, 0, 1], [0, 0, 1]])
    masks = [(1 - mask, {"LBUSER7": 2}), (1 - mask, {"BZX": 15.0}), (mask, {})]
    stored = [field(m.astype(">i4").tobytes(), LBUSER1=3, LBUSER4=30, **w) for m, w in masks]
    (tmp_path / "a.pp").write_bytes(b"".join(stored) + field([7, 8, 9], LBPACK=120, BMDI=-9))
    data = [{"file": "a.pp", "file_offset": 3 * ONE}]
    path = aggregated(tmp_path, data, attributes={"missing_value": np.float32(-9)})
    assert values(path)[0].tolist() == [[7, -9, 8], [-9, -9, 9]]


def test_land_points_are_put_by_the_mask_of_their_file(tmp_path: Path) -> None:
    mask = np.array([[1, 0, 1], [0, 0, 1]], ">i4").tobytes()
    land = field([7, 8, 9], LBPACK=120, LBROW=0, LBNPT=0, BMDI=-9)
    (tmp_path / "a.pp").write_bytes(field(mask, LBUSER1=3, LBUSER4=30) + land)
    path = aggregated(tmp_path, [{"file": "a.pp", "file_offset": ONE}], attributes={"missing_value": np.float32(-9)})
    assert values(path)[0].tolist() == [[7, -9, 8], [-9, -9, 9]]
    (tmp_path / "a.pp").write_bytes(field(mask, LBUSER1=3, LBUSER4=31) + land)
    with pytest.raises(FragmentNotFoundError, match=r"partition \(0, 0, 0\): .*holds land points only"):
        values(path)


def test_the_only_field_of_a_file_needs_no_address(tmp_path: Path) -> None:
    (tmp_path / "a.pp").write_bytes(field(SIX))
    path = aggregated(tmp_path, [{"file": "a.pp"}])
    assert values(path)[0].tolist() == SIX.tolist()
    (tmp_path / "a.pp").write_bytes(field(SIX) * 2)
    with pytest.raises(
        FragmentNotFoundError, match=r"partition \(0, 0, 0\): .*a\.pp has 2 fields, but the partition names none"
    ):
        values(path)


@pytest.mark.parametrize(
    ("data", "said", "error", "text"),
    [
        (field(SIX), {"file_offset": 5}, FragmentNotFoundError, "no field of .* begins at the address 5"),
        (field(SIX), {"file_offset": 0, "lbpack": 1}, FragmentMismatchError, "LBPACK = 0, but the aggregation says 1"),
        (
            field(SIX),
            {"ncvar": "tas"},
            FragmentNotFoundError,
            "'tas' is not the address of a field: .*a.pp has no variable 'tas'",
        ),
        (
            field(SIX, LBROW=3, LBNPT=2),
            {"file_offset": 0},
            FragmentMismatchError,
            "gives 3 elements along 'y', expected 2",
        ),
        (field(SIX, LBPACK=3), {"file_offset": 0}, UnsupportedError, "LBPACK = 3, cannot be read|LBPACK = 3 cannot"),
        (field(SIX, LBPACK=4, LBROW=9), {"file_offset": 0}, CfaggError, ""),
        (field(SIX, LBPACK=1), {"file_offset": 0}, FragmentReadError, "do not begin as WGDOS packing"),
        (field(SIX)[:-1], {"file_offset": 0}, FragmentNotFoundError, "no field of .* begins at the address 0"),
        (b"no PP at all" * 100, {"file_offset": 0}, FragmentNotFoundError, "no field of .* begins at the address 0"),
        (b"no PP at all" * 100, {}, CfaggError, "is not a PP file"),
        (field(SIX), {"file_offset": 0, "dtype": "double"}, FragmentMismatchError, "has type float32"),
    ],
)
def test_what_cannot_be_is_refused_by_partition(
    tmp_path: Path, data: bytes, said: dict[str, Any], error: type[Exception], text: str
) -> None:
    (tmp_path / "a.pp").write_bytes(data)
    path = aggregated(tmp_path, [{"file": "a.pp", **said}])
    with pytest.raises(error, match=rf"variable 'tas', partition \(0, 0, 0\).*({text})"):
        values(path)


def test_fields_outside_the_allowed_places_are_refused_and_named(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "a.pp").write_bytes(field(SIX))
    path = aggregated(tmp_path / "home", [{"file": "../a.pp", "file_offset": 0}])
    with pytest.raises(AccessError, match=r"a\.pp.*allow"):
        values(path)
    assert values(path, access=Access(path, [tmp_path / "a.pp"]))[0].tolist() == SIX.tolist()
    (tmp_path / "home" / "b.pp").symlink_to(tmp_path / "a.pp")
    path.unlink()
    path = aggregated(tmp_path / "home", [{"file": "b.pp", "file_offset": 0}])
    with pytest.raises(AccessError, match=r"b\.pp|a\.pp"):
        values(path)


def test_a_file_that_changed_since_it_was_opened_is_read_anew(tmp_path: Path) -> None:
    (tmp_path / "a.pp").write_bytes(field(SIX))
    reader = open_reader(aggregated(tmp_path, [{"file": "a.pp", "file_offset": 0}]), "tas")
    assert reader.read([0, 0, 1]) == 1
    (tmp_path / "a.pp").write_bytes(field(SIX + 5))
    assert reader.read([0, 0, 1]) == 6


@pytest.mark.parametrize("order", [["y", "x"], ["x", "y"], ["x", "t", "y"]])
def test_a_square_field_that_is_taken_the_wrong_way_round_is_refused(tmp_path: Path, order: list[str]) -> None:
    square = np.arange(9.0).reshape(3, 3)
    (tmp_path / "a.pp").write_bytes(field(square, LBROW=3, LBNPT=3))
    shape = [1 if d == "t" else 3 for d in order]
    content = nca_files.array(
        DIMS,
        [[0, 1], [0, 3], [0, 3]],
        lambda *_: {"format": "PP", "dimensions": order, "data": {"shape": shape, "file": "a.pp", "file_offset": 0}},
    )
    axes = {
        "y": (["y"], np.arange(3.0), {"units": "degrees_north"}),
        "x": (["x"], np.arange(3.0), {"units": "degrees_east"}),
    }
    sizes = {"t": 1, "y": 3, "x": 3}
    path = nca_files.aggregation(tmp_path / "agg.nca", "tas", "f4", sizes, content, coordinates=axes)
    if order == ["y", "x"]:
        assert values(path)[0].tolist() == square.tolist()
    else:
        with pytest.raises(FragmentMismatchError, match=r"partition \(0, 0, 0\).*has the coordinates of 'y'"):
            values(path)


ROTATED = {"LBCODE": 101, "BPLAT": 37.5, "BPLON": 177.5}
GRIDS = {
    "rotated": (ROTATED, {"standard_name": "grid_latitude"}, {"standard_name": "grid_longitude"}),
    "rotated by the pole alone": ({**ROTATED, "LBCODE": 1}, {"standard_name": "grid_latitude"}, {"axis": "X"}),
    "cells": ({"LBCODE": 2}, {"standard_name": "latitude"}, {"standard_name": "longitude"}),
    "section": ({"LBCODE": 11001}, {"standard_name": "air_pressure"}, {"units": "degrees_north"}),
}


@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize("order", [["y", "x"], ["x", "y"]])
def test_square_fields_of_any_grid_are_compared_with_the_coordinates(
    tmp_path: Path, grid: str, order: list[str]
) -> None:
    words, rows, columns = GRIDS[grid]
    square = np.arange(9.0).reshape(3, 3)
    (tmp_path / "a.pp").write_bytes(field(square, LBROW=3, LBNPT=3, **words))
    said = {"format": "PP", "dimensions": order, "data": {"shape": [3, 3], "file": "a.pp", "file_offset": 0}}
    content = nca_files.array(["y", "x"], [[0, 3], [0, 3]], lambda *_: said)
    axes = {"y": (["y"], np.arange(3.0), rows), "x": (["x"], np.arange(3.0), columns)}
    path = nca_files.aggregation(tmp_path / "agg.nca", "tas", "f4", {"y": 3, "x": 3}, content, coordinates=axes)
    if order == ["y", "x"]:
        assert values_of(path).tolist() == square.tolist()
    else:
        with pytest.raises(FragmentMismatchError, match=r"partition \(0, 0\).*has the coordinates of '[xy]'"):
            values_of(path)


def test_a_rotated_square_field_joined_with_netcdf_is_as_its_neighbour_or_refused(tmp_path: Path) -> None:
    square = np.arange(9.0, dtype="f4").reshape(3, 3)
    (tmp_path / "a.pp").write_bytes(field(square, LBROW=3, LBNPT=3, **ROTATED))
    axes = {
        "rlat": (["rlat"], np.arange(3.0), {"standard_name": "grid_latitude", "units": "degrees"}),
        "rlon": (["rlon"], np.arange(3.0), {"standard_name": "grid_longitude", "units": "degrees"}),
    }
    nca_files.fragment(tmp_path / "b.nc", "tas", square.T[None], ["t", "rlon", "rlat"], coordinates=axes)
    for dims in (["rlat", "rlon"], ["rlon", "rlat"]):
        data = [
            {"format": "PP", "dimensions": dims, "data": {"shape": [3, 3], "file": "a.pp", "file_offset": 0}},
            {"dimensions": ["t", "rlon", "rlat"], "data": {"shape": [1, 3, 3], "file": "b.nc", "ncvar": "tas"}},
        ]
        content = nca_files.array(["t", "rlat", "rlon"], [[0, 1, 2], [0, 3], [0, 3]], lambda i, _, d=data: d[i[0]])
        sizes = {"t": 2, "rlat": 3, "rlon": 3}
        path = nca_files.aggregation(tmp_path / f"{dims[0]}.nca", "tas", "f4", sizes, content, coordinates=axes)
        if dims[0] == "rlat":
            assert values_of(path).tolist() == [square.tolist()] * 2
        else:
            with pytest.raises(FragmentMismatchError, match="has the coordinates of"):
                values_of(path)


def test_netcdf_is_no_pp_whatever_the_aggregation_says(tmp_path: Path) -> None:
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as file:
        file.createDimension("x", 3)
        file.createVariable("tas", "f4", ("x",))
    path = aggregated(tmp_path, [{"file": "a.nc", "file_offset": 0}])
    with pytest.raises(FragmentNotFoundError, match="no field of"):
        values(path)


def test_fields_as_cf_python_3_refers_to_them(tmp_path: Path) -> None:
    (tmp_path / "a.pp").write_bytes(b"".join(field(SIX + 10 * n) for n in range(2)))
    partitions = [
        {
            "index": [n],
            "location": [[n, n], [0, 1], [0, 2]],
            "subarray": {
                "filename": "a.pp", "header_offset": 4 + ONE * n, "data_offset": 268 + ONE * n, "disk_length": 24,
                "format": "UM", "shape": [1, 2, 3], "dtype": "float32",
            },
        }
        for n in range(2)
    ]  # fmt: skip
    with netCDF4.Dataset(tmp_path / "agg.nc", "w") as file:
        file.Conventions = "CF-1.7 CFA-0.4"
        for name, n in zip(DIMS, (2, 2, 3), strict=True):
            file.createDimension(name, n)
        made = file.createVariable("tas", "f4", ())
        made.cf_role, made.cfa_dimensions = "cfa_variable", "t y x"
        made.cfa_array = json.dumps({"pmdimensions": ["t"], "pmshape": [2], "Partitions": partitions})
    with warnings.catch_warnings(action="ignore", category=RepairWarning):  # about its keys
        found = values(tmp_path / "agg.nc")
    assert found.tolist() == [SIX.tolist(), (SIX + 10).tolist()]


@pytest.mark.parametrize(
    ("addresses", "text"), [(["0", "296"], None), (["0", "x"], "'x' is not the address of a field")]
)
def test_addresses_of_cfa_0_6_2_are_texts(tmp_path: Path, addresses: list[str], text: str | None) -> None:
    (tmp_path / "a.pp").write_bytes(b"".join(field(SIX + 10 * n) for n in range(2)))
    with netCDF4.Dataset(tmp_path / "agg.nc", "w") as file:
        file.Conventions = "CF-1.10 CFA-0.6.2"
        for name, n in zip((*DIMS, "i", "j", "ft", "fy", "fx"), (2, 2, 3, 3, 2, 2, 1, 1), strict=True):
            file.createDimension(name, n)
        made = file.createVariable("tas", "f4", ())
        made.aggregated_dimensions = "t y x"
        made.aggregated_data = "location: loc file: f format: form address: a"
        loc = file.createVariable("loc", "i4", ("i", "j"), fill_value=-1)
        loc[:] = np.ma.masked_equal([[1, 1], [2, -1], [3, -1]], -1)
        file.createVariable("f", str, ("ft", "fy", "fx"))[:] = np.array(["a.pp"] * 2, object).reshape(2, 1, 1)
        file.createVariable("a", str, ("ft", "fy", "fx"))[:] = np.array(addresses, object).reshape(2, 1, 1)
        file.createVariable("form", str, ())[...] = "pp"
    if text is None:
        assert values(tmp_path / "agg.nc").tolist() == [SIX.tolist(), (SIX + 10).tolist()]
    else:
        with pytest.raises(FragmentNotFoundError, match=rf"partition \(1, 0, 0\): {text}"):
            values(tmp_path / "agg.nc")


def named(folder: Path, file: str, name: str, shape: tuple[int, ...], units: str = "K") -> Path:
    """Write a CF-1.13 file of one aggregation of one fragment, given by its name."""
    path = folder / f"{file}-{name}.nc"
    with netCDF4.Dataset(path, "w") as nc:
        nc.Conventions = "CF-1.13"
        dims = [f"d{k}" for k in range(len(shape))]
        for dim, size in zip(dims, shape, strict=True):
            nc.createDimension(dim, size)
        tas = nc.createVariable("tas", "f8", ())
        tas.units, tas.missing_value = units, np.float64(-1e30)
        tas.aggregated_dimensions = " ".join(dims)
        tas.aggregated_data = "map: m uris: u identifiers: i"
        ones = [f"f{k}" for k in range(len(shape))]
        for dim in ones:
            nc.createDimension(dim, 1)
        nc.createDimension("rank", len(shape))
        nc.createVariable("m", "i4", ("rank", "f0"))[:] = np.array(shape)[:, None]
        for variable, text in (("u", file), ("i", name)):
            nc.createVariable(variable, str, ones)[...] = np.full((1,) * len(shape), text, object)
    return path


@pytest.mark.few(1)
@pytest.mark.parametrize("name", ["umfile.pp", "wgdos_73x96_le.pp", "air_temp.pp"])
def test_a_fragment_may_be_a_variable_of_a_pp_file_by_its_name(tmp_path: Path, name: str) -> None:
    shutil.copy(PP / name, tmp_path)
    with cfagg.read(tmp_path / name, decode_cf=False) as ds:
        variable = max(ds.variables.values(), key=lambda v: v.size)
        wanted = {k: v for k, v in ds.variables.items() if v is variable or k == "latitude"}
        for identifier, found in wanted.items():
            path = named(tmp_path, name, str(identifier), found.shape, found.attrs["units"])
            np.testing.assert_array_equal(values_of(path), np.where(found.values < -1e29, -1e30, found.values))
            assert [f for f in cfagg.check(path, references=True).findings if f.severity == "error"] == []


def values_of(path: Path) -> np.ndarray:
    reader = open_reader(path, "tas")
    return reader.read([slice(None)] * len(reader.shape))


def test_a_name_that_no_variable_of_a_pp_file_has_is_refused_with_those_that_it_has(tmp_path: Path) -> None:
    (tmp_path / "a.pp").write_bytes(field(SIX, LBUSER4=24, LBUSER7=1))
    with pytest.raises(FragmentNotFoundError, match=r"a\.pp has no variable 'tas'; its variables are: .*surface"):
        values_of(named(tmp_path, "a.pp", "tas", (2, 3)))


def test_names_of_an_older_convention_are_those_of_variables_too(tmp_path: Path) -> None:
    (tmp_path / "a.pp").write_bytes(field(SIX, LBUSER4=24, LBUSER7=1))
    path = aggregated(tmp_path, [{"file": "a.pp", "ncvar": "surface_temperature"}], attributes={"units": "K"})
    assert values(path)[0].tolist() == SIX.tolist()


def test_boundary_conditions_by_name_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.pp").write_bytes(field(SIX, LBUSER4=24, LBUSER7=1, LBHEM=99))
    with pytest.raises(UnsupportedError, match=r"partition \(0, 0\): .*lateral boundary conditions"):
        values_of(named(tmp_path, "a.pp", "surface_temperature", (2, 3)))


@needs_proc
def test_no_file_stays_open_for_variables_of_pp_files(tmp_path: Path) -> None:
    limit = handles.limit
    try:
        handles.limit = 4
        for n in range(9):
            (tmp_path / f"{n}.pp").write_bytes(field(SIX + n, LBUSER4=24, LBUSER7=1, BDATUM=1.0))
            path = named(tmp_path, f"{n}.pp", "surface_temperature", (2, 3))
            assert values_of(path)[0, 0] == n + 1
        opened = [os.path.realpath(fd) for fd in Path("/proc/self/fd").iterdir()]
        assert sum(name.startswith(str(tmp_path)) and name.endswith(".pp") for name in opened) <= 4
    finally:
        handles.limit = limit
