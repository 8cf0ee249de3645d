"""Appending to Zarr stores on this machine: zarr-python and xarray read what is there afterwards."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import cftime
import dask.array as da
import numpy as np
import pytest
import xarray as xr
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st

import cfagg
from cfagg.errors import (
    CalendarError,
    ConformError,
    LossError,
    OptionError,
    SourceError,
    StaleAccumulationWarning,
    StaleError,
    TargetError,
    UnsupportedError,
)
from cfagg.runtime import publishing
from cfagg.runtime.staging import Staging
from cfagg.writing.zarr import appending, local_place, staged
from tests.effort import examples

pytestmark = pytest.mark.filterwarnings(
    "ignore:Consolidated metadata:UserWarning", "ignore:.*rectilinear.*:FutureWarning"
)


def series(start: int, count: int, **attributes: Any) -> xr.Dataset:
    """Return days of a made-up temperature, of which each value tells its place."""
    time = np.datetime64("2000-01-01", "ns") + np.arange(start, start + count) * np.timedelta64(1, "D")
    values = np.arange(start, start + count, dtype="f4")[:, None] * 10 + np.arange(3, dtype="f4")
    tas = xr.Variable(("time", "x"), values, {"units": "K", **attributes})
    return xr.Dataset({"tas": tas}, {"time": time, "x": ("x", [1.0, 2.0, 3.0])})


def write(path: Path, dataset: xr.Dataset, zarr_format: int = 3, chunk: int = 4, **how: Any) -> Path:
    encoding = {"tas": {"chunks": (chunk, 2)}, "time": {"units": "days since 2000-01-01", "dtype": "int64"}}
    dataset.to_zarr(path, zarr_format=zarr_format, encoding=encoding, **how)  # type: ignore[call-overload]
    return path


def rectilinear(path: Path, edges: list[int], **codecs: Any) -> Path:
    """Write a store whose chunks along time have these lengths."""
    whole = series(0, sum(edges))
    group = zarr.create_group(path)
    with zarr.config.set({"array.rectilinear_chunks": True}):
        tas = group.create_array(
            "tas", shape=(sum(edges), 3), chunks=[edges, [2, 1]], dtype="f4", dimension_names=("time", "x"),
            attributes={"units": "K"}, **codecs,
        )  # fmt: skip
        tas[:] = whole.tas.values
        units = {"units": "days since 2000-01-01", "calendar": "standard"}
        time = group.create_array(
            "time", shape=(sum(edges),), chunks=[edges], dtype="i8", dimension_names=("time",), attributes=units
        )
        time[:] = np.arange(sum(edges))
    group.create_array("x", data=np.array([1.0, 2.0, 3.0]), dimension_names=("x",))
    return path


def read(path: Path, **how: Any) -> xr.Dataset:
    with zarr.config.set({"array.rectilinear_chunks": True}), xr.open_zarr(path, **how) as found:
        return found.load()


def same(path: Path, expected: xr.Dataset) -> None:
    """Compare values with what xarray reads by consolidated metadata, and by those of each array."""
    for consolidated in (True, False):
        found = read(path, consolidated=consolidated)
        xr.testing.assert_equal(found, expected)
        assert found.tas.dtype == expected.tas.dtype


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_increments_of_any_length_are_appended_on_a_regular_grid(tmp_path: Path, zarr_format: int) -> None:
    store, at = write(tmp_path / "a.zarr", series(0, 5), zarr_format), 5
    for count in (1, 2, 7, 4, 1):
        report = cfagg.append(store, series(at, count), "time")
        assert (report.start, report.stop, report.variables) == (at, at + count, ("tas", "time"))
        at += count
        same(store, series(0, at))
    assert zarr.open_group(store, mode="r")["tas"].chunks == (4, 2)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.zarr"]
    assert not list(store.rglob("*.part")) + list(store.rglob(".cfagg*"))


def test_each_increment_is_one_edge_of_a_rectilinear_grid(tmp_path: Path) -> None:
    store, at = rectilinear(tmp_path / "a.zarr", [3, 2]), 5
    for count in (4, 1, 1, 1, 2):
        cfagg.append(store, series(at, count), "time")
        at += count
        same(store, series(0, at))
    document = json.loads((store / "tas/zarr.json").read_bytes())
    assert document["chunk_grid"]["configuration"]["chunk_shapes"][0] == [3, 2, 4, [1, 3], 2]
    with zarr.config.set({"array.rectilinear_chunks": True}):
        assert zarr.open_array(store / "tas", mode="r").write_chunk_sizes[0] == (3, 2, 4, 1, 1, 1, 2)


@settings(max_examples=examples(60), deadline=None)
@given(
    counts=st.lists(st.integers(1, 9), min_size=1, max_size=5),
    first=st.integers(0, 9),
    chunk=st.integers(1, 6),
    inner=st.integers(1, 3),
    kind=st.sampled_from(["v2", "v3", "sharded", "big", "F"]),
)
def test_any_increments_to_any_regular_array_are_what_zarr_reads(
    tmp_path_factory: pytest.TempPathFactory, counts: list[int], first: int, chunk: int, inner: int, kind: str
) -> None:
    store = tmp_path_factory.mktemp("any") / "a.zarr"
    zarr_format = 2 if kind in ("v2", "F") else 3
    rng = np.random.default_rng(sum(counts))
    values = rng.integers(-9, 9, (first + sum(counts), 5)).astype(">i2" if kind == "big" else "i2")
    group = zarr.create_group(store, zarr_format=zarr_format)
    how: dict[str, Any] = {"chunks": (chunk, 2)}
    if kind == "sharded":
        how = {"chunks": (inner, 2), "shards": (inner * chunk, 4)}
    if kind == "F":
        how["order"] = "F"
    names = {"dimension_names": ("t", "x")} if zarr_format == 3 else {"attributes": {"_ARRAY_DIMENSIONS": ["t", "x"]}}
    made = group.create_array(
        "v", shape=(first, 5), dtype=values.dtype, fill_value=0 if zarr_format == 2 else 7, **how, **names
    )
    made[:] = values[:first]
    at = first
    for count in counts:
        cfagg.append(store, {"v": values[at : at + count]}, "t")
        at += count
        assert (zarr.open_array(store / "v", mode="r")[:] == values[:at]).all()
        assert zarr.open_consolidated(store)["v"].shape == (at, 5)  # type: ignore[union-attr]


@settings(max_examples=examples(15), deadline=None)
@given(
    counts=st.lists(st.integers(1, 7), min_size=1, max_size=4),
    first=st.integers(0, 9),
    chunk=st.integers(1, 4),
    inner=st.integers(1, 3),
    dtype=st.sampled_from(["any", "<U3"]),
)
def test_text_grows_in_shards_that_are_not_full(
    tmp_path_factory: pytest.TempPathFactory, counts: list[int], first: int, chunk: int, inner: int, dtype: str
) -> None:
    store = tmp_path_factory.mktemp("text") / "a.zarr"
    words = np.array(["", "ü", "ab", "日本", "abc"], object)
    values = words[np.random.default_rng(first).integers(0, 5, (first + sum(counts), 2))]
    kind: Any = str if dtype == "any" else dtype
    made = zarr.create_group(store, zarr_format=3).create_array(
        "s", shape=(first, 2), dtype=kind, chunks=(inner, 1), shards=(inner * chunk, 2), dimension_names=("t", "x")
    )
    made[:] = values[:first].astype(made.dtype)
    at = first
    for count in counts:
        cfagg.append(store, {"s": values[at : at + count]}, "t")
        at += count
        assert zarr.open_array(store / "s", mode="r")[:].tolist() == values[:at].tolist()


def test_what_a_shard_held_is_kept_byte_for_byte(tmp_path: Path) -> None:
    group = zarr.create_group(tmp_path / "a.zarr")
    values = np.arange(40, dtype="i4")
    array = group.create_array(
        "v",
        shape=(10,),
        chunks=(3,),
        shards=(12,),
        dtype="i4",
        dimension_names=("t",),
        compressors=zarr.codecs.ZstdCodec(),
    )
    array[:] = values[:10]
    before = (tmp_path / "a.zarr/v/c/0").read_bytes()
    cfagg.append(tmp_path / "a.zarr", {"v": values[10:20]}, "t")
    after = (tmp_path / "a.zarr/v/c/0").read_bytes()
    at = np.frombuffer(before[-68:-4], "<u8").reshape(-1, 2)
    assert after[: int(at[2].sum())] == before[: int(at[2].sum())]
    assert (zarr.open_array(tmp_path / "a.zarr/v")[:] == values[:20]).all()


def test_a_last_edge_that_overhangs_is_filled_first(tmp_path: Path) -> None:
    store = rectilinear(tmp_path / "a.zarr", [3, 4])
    with zarr.config.set({"array.rectilinear_chunks": True}):
        for name, shape in (("tas", (5, 3)), ("time", (5,))):
            zarr.open_array(store / name).resize(shape)
    cfagg.append(store, series(5, 4), "time")
    same(store, series(0, 9))
    edges = json.loads((store / "tas/zarr.json").read_bytes())["chunk_grid"]["configuration"]["chunk_shapes"][0]
    assert edges == [3, 4, 2]


def test_shards_of_any_length_take_whole_chunks_only(tmp_path: Path) -> None:
    with zarr.config.set({"array.rectilinear_chunks": True}):
        array = zarr.create_group(tmp_path / "a.zarr").create_array(
            "v", shape=(6,), chunks=(2,), shards=[[4, 2]], dtype="i4", dimension_names=("t",)
        )
        array[:] = np.arange(6)
        with pytest.raises(UnsupportedError, match="append a multiple of 2"):
            cfagg.append(tmp_path / "a.zarr", {"v": np.arange(3)}, "t")
        cfagg.append(tmp_path / "a.zarr", {"v": np.arange(6, 12, dtype="i4")}, "t")
        assert zarr.open_array(tmp_path / "a.zarr/v")[:].tolist() == list(range(12))


def test_a_variable_along_the_dimension_may_not_be_left_behind(tmp_path: Path) -> None:
    store = write(tmp_path / "a.zarr", series(0, 5).assign(pr=("time", np.zeros(5))))
    with pytest.raises(OptionError, match=r"'pr' grows along 'time' too"):
        cfagg.append(store, series(5, 1), "time")
    assert read(store).sizes["time"] == 5


def test_other_dimensions_and_variables_must_be_the_same(tmp_path: Path) -> None:
    store = write(tmp_path / "a.zarr", series(0, 5))
    with pytest.raises(ConformError, match=r"'x' does not grow, but has other values"):
        cfagg.append(store, series(5, 1).assign_coords(x=[1.0, 2.0, 4.0]), "time")
    with pytest.raises(ConformError, match=r"2 elements along 'x', expected 3"):
        cfagg.append(store, series(5, 1).isel(x=slice(2)), "time")
    with pytest.raises(OptionError, match="no array has the dimension 'tim'"):
        cfagg.append(store, series(5, 1), "tim")
    assert read(store).sizes["time"] == 5


def test_dimensions_in_another_order_are_turned(tmp_path: Path) -> None:
    store = write(tmp_path / "a.zarr", series(0, 5))
    cfagg.append(store, series(5, 2).transpose("x", "time"), "time")
    same(store, series(0, 7))


@pytest.mark.parametrize("start", [4, 3, 0])
def test_what_overlaps_is_refused_unless_it_is_asked_for(tmp_path: Path, start: int) -> None:
    store = write(tmp_path / "a.zarr", series(0, 5))
    with pytest.raises(ConformError, match=r"coordinate 'time' would go from 4 to . where the appended data begin"):
        cfagg.append(store, series(start, 2), "time")
    cfagg.append(store, series(start, 2), "time", any_order=True)
    same(store, xr.concat([series(0, 5), series(start, 2)], "time"))


@pytest.mark.parametrize("chunk", [1, 100])
def test_the_direction_is_that_from_the_first_value_on(tmp_path: Path, chunk: int) -> None:
    encoding = {"time": {"units": "days since 2000-01-01", "chunks": (chunk,)}}
    series(0, 5).to_zarr(tmp_path / "a.zarr", encoding=encoding)
    cfagg.append(tmp_path / "a.zarr", series(3, 1), "time", any_order=True)
    for start in (2, 9):
        with pytest.raises(ConformError, match="'time' would go from 4 to 3 within the store, but it increases"):
            cfagg.append(tmp_path / "a.zarr", series(start, 1), "time")
    cfagg.append(tmp_path / "a.zarr", series(9, 2), "time", any_order=True)
    assert cfagg.append(tmp_path / "a.zarr", series(11, 1), "time").stop == 9


def test_what_is_out_of_order_in_itself_is_refused(tmp_path: Path) -> None:
    store = write(tmp_path / "a.zarr", series(0, 5))
    with pytest.raises(ConformError, match="within the appended data"):
        cfagg.append(store, series(5, 3).isel(time=[0, 2, 1]), "time")


def test_a_falling_coordinate_goes_on_falling(tmp_path: Path) -> None:
    store = write(tmp_path / "a.zarr", series(5, 5).isel(time=slice(None, None, -1)))
    cfagg.append(store, series(3, 2).isel(time=slice(None, None, -1)), "time")
    with pytest.raises(ConformError, match="but it decreases"):
        cfagg.append(store, series(20, 2), "time")
    assert read(store).time.values[-1] == np.datetime64("2000-01-04")


@pytest.mark.parametrize("edges", [(4,), [[4, 1]]], ids=["regular", "rectilinear"])
def test_a_direction_is_known_where_the_last_chunk_holds_one_value(tmp_path: Path, edges: Any) -> None:
    with zarr.config.set({"array.rectilinear_chunks": True}):
        group = zarr.create_group(tmp_path / "a.zarr")
        group.create_array("z", shape=(5,), chunks=edges, dtype="i4", dimension_names=("z",))[:] = [9, 8, 7, 6, 5]
        with pytest.raises(ConformError, match="but it decreases"):
            cfagg.append(tmp_path / "a.zarr", {"z": np.array([6])}, "z")
        cfagg.append(tmp_path / "a.zarr", {"z": np.array([4])}, "z")
        assert zarr.open_array(tmp_path / "a.zarr/z")[:].tolist() == [9, 8, 7, 6, 5, 4]


@pytest.mark.parametrize(
    ("values", "chunks", "shards"),
    [([9, 8, 7, 6], (1,), (2,)), ([8, 7, 6], [[1, 2]], None)],
    ids=["two shards of single values", "two edges"],
)
def test_a_coordinate_of_two_objects_goes_on(tmp_path: Path, values: list[int], chunks: Any, shards: Any) -> None:
    with zarr.config.set({"array.rectilinear_chunks": True}):
        group, shape = zarr.create_group(tmp_path / "a.zarr"), (len(values),)
        z = group.create_array("z", shape=shape, chunks=chunks, shards=shards, dtype="i4", dimension_names=("z",))
        z[:] = values
        with pytest.raises(ConformError, match="from 6 to 7 where the appended data begin, but it decreases"):
            cfagg.append(tmp_path / "a.zarr", {"z": np.array([7])}, "z")
        cfagg.append(tmp_path / "a.zarr", {"z": np.array([5])}, "z")
        assert zarr.open_array(tmp_path / "a.zarr/z")[:].tolist() == [*values, 5]


@pytest.mark.parametrize("kind", ["f4", "i2"])
def test_variables_that_do_not_grow_are_equal_where_missing_values_are_marked_in_other_ways(tmp_path, kind):
    first = series(0, 3).assign(height=("x", np.array([1, np.nan, 3], "f4")))
    first["height"].encoding = {"dtype": kind, "missing_value": np.array(-9, kind)[()]}
    cfagg.write(first.isel(time=slice(2)), tmp_path / "a.zarr")
    cfagg.append(tmp_path / "a.zarr", first.isel(time=slice(2, None)), "time")
    same(tmp_path / "a.zarr", first)
    other = series(3, 1).assign(height=("x", np.array([1, 2, 3], "f4")))
    with pytest.raises(ConformError, match="'height' does not grow, but has other values"):
        cfagg.append(tmp_path / "a.zarr", other, "time")


def test_months_in_units_of_their_own_are_in_those_of_the_store(tmp_path: Path) -> None:
    store = write(tmp_path / "a.zarr", series(0, 31))
    month = series(31, 29)
    month.time.encoding = {"units": "hours since 2000-02-01", "dtype": "int32"}
    month.to_netcdf(tmp_path / "feb.nc")
    cfagg.append(store, tmp_path / "feb.nc", "time", on_loss="drop")
    same(store, series(0, 60))


def test_times_that_the_units_of_the_store_cannot_say_are_refused(tmp_path: Path) -> None:
    store = write(tmp_path / "a.zarr", series(0, 5))
    late = series(5, 1)
    late["time"] = late.time + np.timedelta64(6, "h")
    with pytest.raises(ConformError, match="cannot be stored exactly"):
        cfagg.append(store, late, "time")
    nanoseconds = late.assign_coords(time=late.time + np.timedelta64(1, "ns"))
    with pytest.raises(ConformError, match=r"cannot be stored exactly|cannot be expressed exactly"):
        cfagg.append(store, nanoseconds, "time")
    late.time.encoding = {"units": "hours since 2000-01-01", "dtype": "int32"}
    late.to_netcdf(tmp_path / "late.nc")
    with pytest.raises(ConformError, match="cannot be stored exactly"):
        cfagg.append(store, tmp_path / "late.nc", "time", on_loss="drop")


@pytest.mark.parametrize("dtype", ["i4", "f8"])
def test_times_in_other_units_are_not_rounded_to_reals_of_4_bytes(dtype: str, tmp_path: Path) -> None:
    def times(values: list[int], units: str, dtype: str) -> xr.Dataset:
        return xr.Dataset(coords={"time": ("time", np.array(values, dtype), {"units": units})})

    store = tmp_path / "a.zarr"
    cfagg.write(times([876576, 876600], "hours since 1900-01-01", "f4"), store)
    cfagg.append(store, times([2880], "minutes since 2000-01-01", dtype), "time", on_loss="drop")
    assert xr.open_zarr(store).time.values[-1] == np.datetime64("2000-01-03")
    with pytest.raises(ConformError, match="cannot be stored exactly"):
        cfagg.append(store, times([2900], "minutes since 2000-01-01", dtype), "time", on_loss="drop")


def test_another_calendar_is_refused(tmp_path: Path) -> None:
    store = write(tmp_path / "a.zarr", series(0, 5))
    other = series(5, 1)
    other["time"] = xr.date_range("2000-01-06", periods=1, calendar="noleap", use_cftime=True)
    with pytest.raises(CalendarError, match="noleap"):
        cfagg.append(store, other, "time")
    stored = series(5, 1).assign_coords(time=("time", [5], {"units": "days since 2000-01-01", "calendar": "noleap"}))
    with pytest.raises(CalendarError, match="noleap"):
        cfagg.append(store, stored, "time")


def packed(start: int, count: int) -> xr.Dataset:
    made = series(start, count).isel(x=slice(2))
    made["tas"] = made.tas * 0.5
    made.tas[0, 1] = np.nan
    made.tas.encoding = {"dtype": "int16", "scale_factor": 0.5, "add_offset": 100.0, "_FillValue": -9}
    return made.drop_vars("x")


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_values_are_packed_where_that_changes_none(tmp_path: Path, zarr_format: int) -> None:
    store = tmp_path / "a.zarr"
    packed(0, 4).to_zarr(store, zarr_format=zarr_format, encoding={"time": {"units": "days since 2000-01-01"}})
    cfagg.append(store, packed(4, 3), "time")
    packed(7, 3).to_netcdf(tmp_path / "more.nc")
    cfagg.append(store, tmp_path / "more.nc", "time")
    expected = xr.concat([packed(0, 4), packed(4, 3), packed(7, 3)], "time")
    assert np.array_equal(read(store).tas.values, expected.tas.values, equal_nan=True)
    odd = packed(10, 1)
    odd["tas"] = odd.tas + 0.1
    with pytest.raises(ConformError, match=r"cannot be stored exactly \(int16 packed with scale_factor 0.5"):
        cfagg.append(store, odd, "time")
    far = packed(10, 1)
    far["tas"] = far.tas + 1e6
    with pytest.raises(ConformError, match="cannot be stored exactly"):
        cfagg.append(store, far, "time")
    clash = packed(10, 1)
    clash["tas"] = clash.tas * 0 + 95.5
    with pytest.raises(ConformError, match="would be read as missing"):
        cfagg.append(store, clash, "time")
    assert read(store).sizes["time"] == 10


def test_a_value_that_another_type_does_not_have_is_refused(tmp_path: Path) -> None:
    store = write(tmp_path / "a.zarr", series(0, 5))
    wide = series(5, 1).astype({"tas": "f8"})
    cfagg.append(store, wide, "time")
    with pytest.raises(ConformError, match=r"0\.1 at \(0, 0\)"):
        cfagg.append(store, {"tas": np.full((1, 3), 0.1), "time": [6]}, "time")
    same(store, series(0, 6))


def test_masked_reals_of_any_size_are_appended_as_nan(tmp_path: Path) -> None:
    xr.Dataset({"v": ("t", [1.0, 2.0])}).to_zarr(tmp_path / "a.zarr")
    cfagg.append(tmp_path / "a.zarr", {"v": np.ma.masked_array([1e20, 6.0], [False, True])}, "t")
    assert xr.open_zarr(tmp_path / "a.zarr").v.values.tolist() == [1, 2, 1e20, pytest.approx(np.nan, nan_ok=True)]
    large = np.ma.masked_array([2**60 + 1, 6], [False, True])
    with pytest.raises(OptionError, match="which has no NaN"):
        cfagg.append(tmp_path / "a.zarr", {"v": large}, "t")


def test_a_packed_scalar_that_does_not_grow_is_compared(tmp_path: Path) -> None:
    whole = xr.Dataset({"v": ("t", [1.0, 2.0]), "height": 2.5})
    whole.to_zarr(tmp_path / "a.zarr", encoding={"height": {"dtype": "i2", "scale_factor": 0.5, "_FillValue": -1}})
    cfagg.append(tmp_path / "a.zarr", whole, "t")
    assert xr.open_zarr(tmp_path / "a.zarr").v.values.tolist() == [1, 2, 1, 2]
    for other in (3.0, np.nan):
        with pytest.raises(ConformError, match="'height' does not grow, but has other values"):
            cfagg.append(tmp_path / "a.zarr", whole.assign(height=other), "t")


def test_missing_values_without_a_fill_value_are_refused(tmp_path: Path) -> None:
    group = zarr.create_group(tmp_path / "a.zarr")
    group.create_array("v", data=np.arange(3), dimension_names=("t",))
    with pytest.raises(ConformError, match="no fill value"):
        cfagg.append(tmp_path / "a.zarr", {"v": np.array([1.0, np.nan])}, "t")
    cfagg.append(tmp_path / "a.zarr", {"v": np.ma.masked_array([5, 6], [False, False])}, "t")
    assert zarr.open_array(tmp_path / "a.zarr/v")[:].tolist() == [0, 1, 2, 5, 6]


def test_other_units_of_values_are_refused_and_other_texts_are_losses(tmp_path: Path) -> None:
    store = write(tmp_path / "a.zarr", series(0, 5))
    with pytest.raises(ConformError, match=r"in 'degC', the store in 'K'"):
        cfagg.append(store, series(5, 1, units="degC"), "time")
    for name, value in {
        "cell_methods": "time: mean", "standard_name": "air_temperature", "positive": "up", "axis": "T",
        "flag_values": [0, 1], "flag_masks": [1, 2], "flag_meanings": "a b",
        "valid_min": 0.0, "valid_max": 9e9, "valid_range": [0.0, 9e9],
        "bounds": "b", "climatology": "b", "formula_terms": "a: b", "grid_mapping": "m",
    }.items():  # fmt: skip
        with pytest.raises(ConformError, match=f"its attribute {name!r} is .*, in the store None"):
            cfagg.append(store, series(5, 1, **{name: value}), "time")
    with pytest.raises(LossError, match="nothing was appended") as caught:
        cfagg.append(store, series(5, 1, comment="new"), "time")
    assert [loss.what for loss in caught.value.losses] == ["attribute 'comment'"]
    report = cfagg.append(store, series(5, 1, comment="new").assign(pr=("time", [1.0])), "time", on_loss="drop")
    assert [(loss.variable, loss.what) for loss in report.losses] == [
        ("tas", "attribute 'comment'"),
        ("pr", "the variable"),
    ]
    assert report.as_dict()["losses"][0]["found"] == "new"
    same(store, series(0, 6))


def test_values_without_units_are_in_those_of_the_store(tmp_path: Path) -> None:
    store = write(tmp_path / "a.zarr", series(0, 5))
    computed = series(5, 1)
    del computed.tas.attrs["units"]
    cfagg.append(store, computed, "time")
    same(store, series(0, 6))


def test_arrays_by_name_may_have_dimensions_and_attributes_which_count(tmp_path: Path) -> None:
    cfagg.write(xr.Dataset({"tas": (("n", "x"), np.ones((2, 3)), {"units": "K"})}), tmp_path / "a.zarr")
    more = np.arange(3.0, 9).reshape(3, 2)
    for form in (
        more.T,
        (("n", "x"), more.T.tolist()),
        (("x", "n"), more, {"units": "K"}),
        xr.DataArray(more, dims=("x", "n"), attrs={"units": "K"}),
    ):
        cfagg.append(tmp_path / "a.zarr", {"tas": form}, "n")
        assert read(tmp_path / "a.zarr").tas.values[-2:].tolist() == more.T.tolist()
    nested = ((1.0, 2.0, 3.0), (4.0, 5.0, 6.0))
    cfagg.append(tmp_path / "a.zarr", {"tas": nested}, "n")
    assert read(tmp_path / "a.zarr").tas.values[-2:].tolist() == [list(row) for row in nested]


@pytest.mark.parametrize("kind", ["tuple", "DataArray"])
def test_arrays_by_name_in_other_units_are_refused(kind: str, tmp_path: Path) -> None:
    cfagg.write(xr.Dataset({"tas": ("n", np.ones(2), {"units": "K"})}), tmp_path / "a.zarr")
    units = {"units": "degC"}
    form = ("n", [1.0], units) if kind == "tuple" else xr.DataArray([1.0], dims="n", attrs=units)
    with pytest.raises(ConformError, match="is in 'degC', the store in 'K'"):
        cfagg.append(tmp_path / "a.zarr", {"tas": form}, "n")


@pytest.mark.parametrize(
    ("form", "error", "text"),
    [
        ([[1.0], [2.0, 3.0]], ConformError, r"data\['x'\] is not an array"),
        (("n", [[1.0], [2.0, 3.0]]), ConformError, r"data\['x'\] is not an array"),
        (("n", np.ones((1, 1))), ConformError, "has 2 dimensions, expected those of the store"),
        (("m", [1.0]), OptionError, "no dimension 'n'"),
        ((("n",), [1.0], "K"), OptionError, "expected attributes by name"),
        (("n", da.unique(da.arange(9, chunks=2))), OptionError, "chunks of unknown lengths"),
    ],
)
def test_arrays_by_name_that_are_none_are_refused(form: Any, error: Any, text: str, tmp_path: Path) -> None:
    cfagg.write(xr.Dataset({"x": ("n", np.ones(2))}), tmp_path / "a.zarr")
    with pytest.raises(error, match=text):
        cfagg.append(tmp_path / "a.zarr", {"x": form}, "n")


def test_two_arrays_of_one_name_are_refused(tmp_path: Path) -> None:
    cfagg.write(xr.Dataset({"3": ("n", np.ones(2))}), tmp_path / "a.zarr")
    with pytest.raises(OptionError, match="two variables have one name"):
        cfagg.append(tmp_path / "a.zarr", {3: [1.0], "3": [2.0]}, "n")


def test_units_in_another_spelling_are_the_same(tmp_path: Path) -> None:
    store = write(tmp_path / "a.zarr", series(0, 5, units="m s-1"))
    cfagg.append(store, series(5, 1, units="m/s"), "time")
    same(store, series(0, 6))
    for units in ("km/s", "no units", "days since 2000-01-01"):
        with pytest.raises(ConformError, match="the store in 'm s-1'"):
            cfagg.append(store, series(6, 1, units=units), "time")


def test_bounds_without_units_have_those_of_their_coordinate(tmp_path: Path) -> None:
    def bounded(start: int, count: int) -> xr.Dataset:
        made = series(start, count)
        made["time_bnds"] = (("time", "n"), made.time.values[:, None] + np.array([0, 86400 * 10**9], "m8[ns]"))
        made.time.attrs["bounds"] = "time_bnds"
        made.time.encoding["units"] = "days since 2000-01-01"
        return made

    store = write(tmp_path / "a.zarr", bounded(0, 5))
    cfagg.append(store, bounded(5, 3), "time")
    # As xarray writes a file, its bounds have no units either: they are in those of the file's own coordinate.
    more = bounded(8, 2)
    more.time.encoding["units"] = "hours since 2000-01-03"
    more.to_netcdf(tmp_path / "b.nc")
    cfagg.append(store, tmp_path / "b.nc", "time")
    for raw in (xr.open_dataset(tmp_path / "b.nc", decode_times=False), xr.open_dataset(tmp_path / "b.nc")):
        cfagg.append(store, raw, "time", any_order=True)
    xr.testing.assert_equal(read(store), xr.concat([bounded(0, 10), bounded(8, 2), bounded(8, 2)], "time"))


def test_bounds_of_a_coordinate_in_other_units_are_converted_with_it(tmp_path: Path) -> None:
    def levels(values: list[float], units: str) -> xr.Dataset:
        z, bounds = np.array(values), np.array(values)[:, None] + [0.0, 1.0]
        return xr.Dataset({"z_bnds": (("z", "n"), bounds)}, {"z": ("z", z, {"units": units, "bounds": "z_bnds"})})

    store = tmp_path / "a.zarr"
    levels([1, 2], "m").to_zarr(store)
    more = levels([3, 4], "km")
    cfagg.append(store, more, "z")
    assert read(store).z_bnds.values.tolist() == [[1, 2], [2, 3], [3000, 4000], [4000, 5000]]


@pytest.mark.parametrize(
    ("ours", "theirs"), [("proleptic_gregorian", "standard"), ("gregorian", "proleptic_gregorian")]
)
@pytest.mark.parametrize("epoch", ["2000-01-01", "0850-01-01"])
def test_calendars_that_are_one_since_1582_are_brought_to_each_other(
    tmp_path: Path, ours: str, theirs: str, epoch: str
) -> None:
    store = tmp_path / "a.zarr"
    series(0, 5).to_zarr(store, encoding={"time": {"units": "hours since 1850-01-01", "calendar": ours}})
    more = series(5, 3)
    more.time.encoding = {"units": f"days since {epoch}", "calendar": theirs}
    more.to_netcdf(tmp_path / "b.nc")
    cfagg.append(store, tmp_path / "b.nc", "time")
    same(store, series(0, 8))


@pytest.mark.parametrize("units", ["days since 1500-01-01", "hours since 1582-10-15"])
def test_dates_before_1582_are_not_brought_to_another_calendar(tmp_path: Path, units: str) -> None:
    store = tmp_path / "a.zarr"
    time = xr.Variable("t", [0, 1], {"units": units, "calendar": "proleptic_gregorian"})
    xr.Dataset({"t": time}).to_zarr(store)
    for value, is_early in ((-1, True), (30227 if "1500" in units else -1, True), (30238, False)):
        given = xr.Dataset({"t": time.copy(data=[value] * 2).isel(t=[0])})
        given.t.attrs["calendar"] = "standard"
        if is_early:
            with pytest.raises(CalendarError, match="before 15 October 1582"):
                cfagg.append(store, given, "t", any_order=True)
        else:
            cfagg.append(store, given, "t")
    with xr.open_zarr(store, decode_times=xr.coders.CFDatetimeCoder(use_cftime=True)) as found:
        date = xr.coding.times.decode_cf_datetime([30238], units, "standard", use_cftime=True)[0]
        assert str(found.t.values[-1]) == str(date)


def test_missing_dates_of_cftime_stay_missing(tmp_path):
    start, day = (cftime.datetime(2000, 1, k, calendar="360_day") for k in (1, 5))
    said = {"units": "days since 2000-01-01", "calendar": "360_day", "dtype": "f8"}
    first, more = (xr.Dataset({"when": ("x", np.array(dates, object))}) for dates in ([start], [np.nan, day]))
    first["when"].encoding = said
    first.to_zarr(tmp_path / "a.zarr", zarr_format=2)
    cfagg.append(tmp_path / "a.zarr", more, "x")
    assert xr.open_zarr(tmp_path / "a.zarr", decode_times=False).when.fillna(-1).values.tolist() == [0, -1, 4]
    found = cfagg.read(tmp_path / "a.zarr")
    cfagg.append(tmp_path / "a.zarr", found, "x")
    assert cfagg.read(tmp_path / "a.zarr").when.isnull().values.tolist() == [False, True, False] * 2


@pytest.mark.parametrize(("ours", "theirs"), [("standard", "proleptic_gregorian"), ("proleptic_gregorian", "standard")])
def test_dates_of_cftime_are_brought_to_a_calendar_that_is_one_since_1582(
    tmp_path: Path, ours: str, theirs: str
) -> None:
    store = tmp_path / "a.zarr"
    first = series(0, 5)
    first["time"] = xr.date_range("1582-10-15", periods=5, calendar=ours, use_cftime=True)
    first.to_zarr(store, encoding={"time": {"units": "hours since 1582-10-15"}})
    more = series(5, 2)
    more["time"] = xr.date_range("1582-10-20", periods=2, calendar=theirs, use_cftime=True)
    cfagg.append(store, more, "time")
    with xr.open_zarr(store, decode_times=xr.coders.CFDatetimeCoder(use_cftime=True)) as found:
        expected = xr.date_range("1582-10-15", periods=7, calendar=ours, use_cftime=True)
        assert found.time.values.tolist() == expected.tolist()
    early = series(5, 1)
    early["time"] = xr.date_range("1500-01-01", periods=1, calendar=theirs, use_cftime=True)
    with pytest.raises(CalendarError, match="before 15 October 1582"):
        cfagg.append(store, early, "time", any_order=True)
    other = series(7, 1)
    other["time"] = xr.date_range("2000-01-06", periods=1, calendar="360_day", use_cftime=True)
    with pytest.raises(CalendarError, match=rf"calendar '360_day', the store has '{ours}'"):
        cfagg.append(store, other, "time")


@pytest.mark.parametrize(
    ("units", "calendar", "day", "count"),
    [
        ("days since 0001-01-01", "proleptic_gregorian", "2010-03-01", 733831),
        ("days since 0001-01-01", "standard", "2010-03-01", 733833),
        ("days since 2000-01-01", "proleptic_gregorian", "1583-01-01", -152306),
    ],
)
def test_dates_are_counted_from_years_that_nanoseconds_do_not_reach(
    tmp_path: Path, units: str, calendar: str, day: str, count: int
) -> None:
    store = tmp_path / "a.zarr"
    first = xr.Dataset({"v": ("time", [0.0])}, {"time": ("time", [-200000], {"units": units, "calendar": calendar})})
    first.to_zarr(store)
    more = xr.Dataset({"v": ("time", [1.0])}, {"time": np.array([day], "datetime64[s]")})
    cfagg.append(store, more, "time")
    assert zarr.open_group(store)["time"][:].tolist() == [-200000, count]


@pytest.mark.parametrize("at", [0, 1, 2])
def test_a_date_that_is_missing_is_refused_wherever_it_stands(tmp_path: Path, at: int) -> None:
    for dtype, message in (("int64", "no fill value"), ("float64", "'time' has missing values; pass any_order=True")):
        store = tmp_path / f"{dtype}.zarr"
        series(0, 5).to_zarr(store, encoding={"time": {"units": "days since 2000-01-01", "dtype": dtype}})
        time = series(5, 3).time.values.copy()
        time[at] = np.datetime64("NaT", "ns")
        with pytest.raises(ConformError, match=message):
            cfagg.append(store, series(5, 3).assign_coords(time=time), "time")
        same(store, series(0, 5))
    numbers = {"tas": series(5, 1).tas.values, "time": np.array([np.nan])}
    with pytest.raises(ConformError, match="missing values"):
        cfagg.append(tmp_path / "float64.zarr", numbers, "time")


@pytest.mark.parametrize("value", [np.inf, -np.inf])
def test_an_infinite_coordinate_continues_in_no_direction(tmp_path: Path, value: float) -> None:
    store = tmp_path / "a.zarr"
    series(0, 5).assign_coords(time=np.arange(5.0) * np.sign(value)).to_zarr(store)
    more = series(5, 1).assign_coords(time=[value])
    with pytest.raises(ConformError, match=f"'time' has the value {value}; pass any_order=True"):
        cfagg.append(store, more, "time")
    assert cfagg.append(store, more, "time", any_order=True).stop == 6
    with pytest.raises(ConformError, match=f"'time' has the value {value}"):
        cfagg.append(store, more.assign_coords(time=[9.0]), "time")


def test_a_value_that_the_store_reads_as_missing_is_refused_whatever_its_own_fill_value(tmp_path: Path) -> None:
    store = tmp_path / "a.zarr"
    packed(0, 4).to_zarr(store, encoding={"time": {"units": "days since 2000-01-01"}})
    more = packed(4, 1)
    more["tas"] = more.tas.fillna(100.0)
    more.tas[0, 1] = -9 * 0.5 + 100.0
    more.tas.encoding = {"dtype": "int16", "scale_factor": 0.5, "add_offset": 100.0, "_FillValue": -1}
    more.to_netcdf(tmp_path / "more.nc")
    with pytest.raises(ConformError, match="would be read as missing"):
        cfagg.append(store, tmp_path / "more.nc", "time", on_loss="drop")
    xr.testing.assert_equal(read(store), packed(0, 4))


def test_one_step_without_the_dimension_is_refused_with_what_gives_it_one(tmp_path: Path) -> None:
    store = write(tmp_path / "a.zarr", series(0, 5))
    step = series(5, 1).isel(time=0)
    with pytest.raises(OptionError, match=r"expand_dims\('time'\)"):
        cfagg.append(store, step, "time")
    cfagg.append(store, step.expand_dims("time"), "time")
    same(store, series(0, 6))


@pytest.mark.full
def test_another_process_reads_whole_appends_by_xarray(tmp_path: Path) -> None:
    store = write(tmp_path / "a.zarr", series(0, 5))
    cfagg.append(store, series(5, 1), "time")  # after which there are consolidated metadata
    script = (
        "import sys, warnings, numpy as np, xarray as xr\n"
        "warnings.simplefilter('ignore')\n"
        "seen = set()\n"
        "print('ready', flush=True)\n"
        "while 26 not in seen:\n"
        "    with xr.open_zarr(sys.argv[1]) as found:\n"
        "        days = (found.time.values - np.datetime64('2000-01-01')) // np.timedelta64(1, 'D')\n"
        "        size = found.sizes['time']\n"
        "        assert days.tolist() == list(range(size)), days\n"
        "        assert (found.tas.values[:, 0] == 10 * days).all(), size\n"
        "    assert size >= max(seen, default=6) and size % 5 == 1, size\n"
        "    seen.add(size)\n"
    )
    with subprocess.Popen([sys.executable, "-c", script, store], stdout=subprocess.PIPE, text=True) as reader:
        assert reader.stdout is not None
        assert reader.stdout.readline() == "ready\n"
        for start in range(6, 26, 5):
            cfagg.append(store, series(start, 5), "time")
        assert reader.wait() == 0


def test_dask_arrays_are_appended_chunk_by_chunk(tmp_path: Path) -> None:
    store = write(tmp_path / "a.zarr", series(0, 5))
    cfagg.append(store, series(5, 30).chunk(time=7), "time")
    same(store, series(0, 35))


def test_a_group_of_a_store_grows_and_its_root_publishes_that(tmp_path: Path) -> None:
    store = tmp_path / "a.zarr"
    xr.Dataset({"y": ("y", [1])}).to_zarr(store)
    write(store, series(0, 5), mode="a", group="sub/tas")
    zarr.consolidate_metadata(store)
    cfagg.append(store, series(5, 2), "time", group="sub/tas")
    for consolidated in (True, False):
        xr.testing.assert_equal(read(store, group="sub/tas", consolidated=consolidated), series(0, 7))
    assert zarr.open_consolidated(store)["sub/tas/tas"].shape == (7, 3)  # type: ignore[union-attr]


def test_arrays_of_groups_below_are_not_left_behind(tmp_path: Path) -> None:
    store = write(tmp_path / "a.zarr", series(0, 5))
    write(store, series(0, 5), mode="a", group="sub")
    zarr.consolidate_metadata(store)
    with pytest.raises(UnsupportedError, match="'sub/tas'"):
        cfagg.append(store, series(5, 1), "time")


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_a_store_without_consolidated_metadata_is_given_them(tmp_path: Path, zarr_format: int) -> None:
    store = write(tmp_path / "a.zarr", series(0, 5), zarr_format, consolidated=False)
    report = cfagg.append(store, series(5, 1), "time")
    assert any("consolidated metadata" in note for note in report.notes)
    same(store, series(0, 6))
    assert cfagg.append(store, series(6, 1), "time").notes == ()


def test_an_array_that_others_wrote_since_is_refused(tmp_path: Path) -> None:
    store = write(tmp_path / "a.zarr", series(0, 5))
    array = zarr.open_array(store / "tas")
    array.append(np.zeros((1, 3), "f4"))
    with pytest.raises(TargetError, match="consolidate them again"):
        cfagg.append(store, series(5, 1), "time")
    assert zarr.open_array(store / "tas").shape == (6, 3)


@pytest.mark.parametrize(
    ("form", "left_out"), [(2, ("dimension_separator", "filters")), (3, ("storage_transformers", "attributes"))]
)
def test_documents_that_leave_out_what_has_a_default_are_those_that_zarr_python_consolidates(
    tmp_path: Path, form: Any, left_out: tuple[str, ...]
) -> None:
    store = tmp_path / "s.zarr"
    named: Any = {"dimension_names": ["t"]} if form == 3 else {"attributes": {"_ARRAY_DIMENSIONS": ["t"]}}
    zarr.open_group(store, mode="w", zarr_format=form).create_array("a", data=np.arange(3), chunks=(2,), **named)
    path = store / "a" / ("zarr.json" if form == 3 else ".zarray")
    document = json.loads(path.read_text())
    path.write_text(json.dumps({k: v for k, v in document.items() if k not in left_out}))
    zarr.consolidate_metadata(store)
    cfagg.append(store, {"a": ("t", np.arange(3, 5))}, "t")
    found: Any = zarr.open_group(store, mode="r")["a"]
    assert found[:].tolist() == [0, 1, 2, 3, 4]


def test_stores_that_are_none_are_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    with pytest.raises(SourceError, match="not a Zarr store"):
        cfagg.append(tmp_path / "a", {"v": np.arange(3)}, "t")
    assert list((tmp_path / "a").iterdir()) == []
    with pytest.raises(OptionError, match="no array"):
        cfagg.append(write(tmp_path / "b.zarr", series(0, 2)), {"v": np.arange(3)}, "time")
    with pytest.raises(OptionError, match="an object of type int"):
        cfagg.append(tmp_path / "b.zarr", 3, "time")
    with pytest.raises(OptionError, match="on_loss"):
        cfagg.append(tmp_path / "b.zarr", series(2, 1), "time", on_loss="x")  # type: ignore[arg-type]


def test_nothing_is_appended_where_there_is_nothing(tmp_path: Path) -> None:
    store = write(tmp_path / "a.zarr", series(0, 5))
    before = (store / "zarr.json").read_bytes()
    assert cfagg.append(store, series(5, 0), "time").chunks == 0
    assert (store / "zarr.json").read_bytes() == before


def test_an_error_in_reading_what_is_appended_leaves_the_store_as_it_was(tmp_path: Path) -> None:
    import dask.array as da

    store = write(tmp_path / "a.zarr", series(0, 5))
    files = sorted(p.relative_to(store) for p in store.rglob("*") if p.is_file())

    def fail(block: Any, block_info: Any = None) -> Any:
        if block_info and block_info[0]["chunk-location"][0] == 2:
            raise RuntimeError("unreadable")
        return block

    more = series(5, 12)
    more["tas"] = (("time", "x"), da.from_array(more.tas.values, chunks=(4, 3)).map_blocks(fail, dtype="f4"))  # type: ignore[no-untyped-call]
    with pytest.raises(RuntimeError, match="unreadable"):
        cfagg.append(store, more, "time")
    assert sorted(p.relative_to(store) for p in store.rglob("*") if p.is_file()) == files
    same(store, series(0, 5))
    cfagg.append(store, series(5, 12), "time")
    same(store, series(0, 17))


def test_what_was_published_is_not_taken_back_where_the_document_was_written_since(tmp_path: Path) -> None:
    store, said = write(tmp_path / "a.zarr", series(0, 5)), []
    (store / ".cfagg-append").mkdir()

    def keep(place: Any, report: appending.Appended) -> None:
        said.append(report)

    def forgotten(claim: Any) -> None:  # as after a loss of power, when the removal of the record was not yet on disk
        claim._done = True

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("cfagg.writing.zarr.local_place._LocalClaim.forget", forgotten)
        patch.setattr("cfagg.writing.zarr.local_place._LocalClaim.leave", lambda claim: None)
        cfagg.append(store, series(5, 3), "time", after=[keep])
    assert (store / ".cfagg-append" / "intent").exists()
    document = json.loads((store / "zarr.json").read_text())
    document["attributes"]["history"] = "set since"
    (store / "zarr.json").write_text(json.dumps(document))
    cfagg.append(store, series(8, 2), "time")
    same(store, series(0, 10))


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_chunks_come_first_then_documents_and_last_what_publishes_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, zarr_format: int
) -> None:
    store, names = write(tmp_path / "a.zarr", series(0, 5), zarr_format), []
    replace, write_new = Path.replace, local_place.write_new

    def renamed(self: Path, target: Any) -> Any:
        names.append(str(Path(target).relative_to(store)))
        return replace(self, target)

    def written(path: str, data: Any) -> None:
        names.append(str(Path(path).relative_to(store)))
        write_new(path, data)

    monkeypatch.setattr(Path, "replace", renamed)
    monkeypatch.setattr(local_place, "write_new", written)
    cfagg.append(store, series(5, 1), "time")
    document, last = ("zarr.json", "zarr.json") if zarr_format == 3 else (".zarray", ".zmetadata")
    assert names[0] == ".cfagg-append/intent"
    assert {n.split("/")[0] for n in names[1:-3]} == {"tas", "time"}
    assert not any(n.endswith(document) for n in names[1:-3])
    assert sorted(names[-3:-1]) == [f"tas/{document}", f"time/{document}"]
    assert names[-1] == last


def kill(patch: pytest.MonkeyPatch, reached: str) -> None:
    """Let a run be killed when it waits for the disk: for all data, then for the names of chunks, and of documents."""
    left = ["data", "names of chunks", "names of documents"].index(reached)

    def killed(*_: Any) -> None:
        nonlocal left
        if not left:
            raise KeyboardInterrupt
        left -= 1

    for name in ("sync_files", "sync_folders"):
        patch.setattr(local_place, name, killed)
    patch.setattr(appending, "take_back", lambda *_: False)


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("reached", ["data", "names of chunks", "names of documents"])
def test_what_a_killed_run_left_is_taken_back_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, zarr_format: int, reached: str
) -> None:
    store = write(tmp_path / "a.zarr", series(0, 5), zarr_format)
    with monkeypatch.context() as patch:
        kill(patch, reached)
        with pytest.raises(KeyboardInterrupt):
            cfagg.append(store, series(5, 10), "time")
    xr.testing.assert_equal(read(store, consolidated=True), series(0, 5))
    report = cfagg.append(store, series(5, 1), "time")
    assert any("was undone" in note for note in report.notes)
    same(store, series(0, 6))
    chunks = {p.relative_to(store / "tas").as_posix() for p in (store / "tas").rglob("*") if p.name[-1].isdigit()}
    assert len([c for c in chunks if (store / "tas" / c).is_file()]) == 4


@pytest.mark.parametrize("shards", [None, (4, 4)])
def test_published_chunks_are_as_they_were_until_all_is_on_disk_and_torn_new_ones_are_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shards: Any
) -> None:
    group, data = zarr.create_group(tmp_path), np.arange(160, dtype="i4").reshape(40, 4)
    how: Any = {"chunks": (2, 2) if shards else (4, 2), "shards": shards, "dimension_names": ("t", "x")}
    group.create_array("v", shape=(5, 4), dtype="i4", **how)[...] = data[:5]
    zarr.consolidate_metadata(tmp_path)
    former = {p: (p.stat().st_ino, p.read_bytes()) for p in (tmp_path / "v" / "c").rglob("*") if p.is_file()}
    with monkeypatch.context() as patch:
        kill(patch, "data")
        with pytest.raises(KeyboardInterrupt):
            cfagg.append(tmp_path, {"v": data[5:40]}, "t")
    assert {p: (p.stat().st_ino, p.read_bytes()) for p in former} == former
    new = [p for p in (tmp_path / "v" / "c").rglob("[0-9]*") if p.is_file() and p not in former]
    assert len(new) == 8 * (1 if shards else 2)
    for n, path in enumerate(new):
        path.write_bytes(path.read_bytes()[: n % 3])
    cfagg.append(tmp_path, {"v": -data[5:14]}, "t")
    np.testing.assert_array_equal(zarr.open_group(tmp_path)["v"][...], np.concatenate([data[:5], -data[5:14]]))


def test_what_others_wrote_after_a_killed_run_is_not_taken_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = write(tmp_path / "a.zarr", series(0, 5))

    with monkeypatch.context() as patch:
        kill(patch, "names of documents")
        with pytest.raises(KeyboardInterrupt):
            cfagg.append(store, series(5, 10), "time")
    zarr.open_array(store / "tas").attrs["comment"] = "of others"
    with pytest.raises(TargetError, match="consolidate them again"):
        cfagg.append(store, series(5, 1), "time")
    assert zarr.open_array(store / "tas").attrs["comment"] == "of others"


def test_attributes_of_a_dataset_that_the_store_does_not_have_are_losses(tmp_path: Path) -> None:
    store = write(tmp_path / "a.zarr", series(0, 5).assign_attrs(title="days", history="one"))
    with pytest.raises(LossError) as caught:
        cfagg.append(store, series(5, 1).assign_attrs(title="other", history="two"), "time")
    assert [(loss.variable, loss.what) for loss in caught.value.losses] == [("/", "attribute 'title'")]
    cfagg.append(store, series(5, 1).assign_attrs(title="days", history="two"), "time")


def test_callables_run_after_all_is_published(tmp_path: Path) -> None:
    store, seen = write(tmp_path / "a.zarr", series(0, 5)), []

    def look(place: Any, report: appending.Appended) -> None:
        seen.append((Path(place) == store, report.start, report.stop, read(store).sizes["time"]))

    cfagg.append(store, series(5, 2), "time", after=[look])
    assert seen == [(True, 5, 7, 7)]


def test_what_an_append_costs_does_not_grow_with_the_store(tmp_path: Path) -> None:
    store = rectilinear(tmp_path / "a.zarr", [1, 1])
    sizes = []
    for at in range(2, 14):
        cfagg.append(store, series(at, 1), "time")
        sizes.append(sum(len(p.read_bytes()) for p in store.rglob("zarr.json")))
    assert max(sizes) - min(sizes) < 20


def test_one_step_waits_for_the_disk_as_often_as_a_power_loss_needs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, synced = write(tmp_path / "a.zarr", series(0, 5)), []
    cfagg.append(store, series(5, 1), "time")  # after which the root has consolidated metadata
    monkeypatch.setattr(publishing, "sync_file", lambda file: synced.append("file"))
    monkeypatch.setattr(staged, "sync_file", lambda file: synced.append("file"))
    monkeypatch.setattr(publishing, "sync_directory", lambda path: synced.append("folder"))
    monkeypatch.setattr(local_place, "sync_directory", lambda path: synced.append("folder"))
    monkeypatch.setattr(staged, "sync_directory", lambda path: synced.append("folder"))
    monkeypatch.setattr(staged, "sync_file_system", lambda path: synced.append("all") or True)
    cfagg.append(store, series(6, 1), "time")
    # The record, two chunks of one array and one of the other, three documents; and folders in which names changed.
    assert (synced.count("file"), synced.count("all")) == (7, 0)
    assert synced.count("folder") <= 10
    cfagg.accumulate(store, "tas")
    for start in (7, 8):
        synced.clear()
        cfagg.append(store, series(start, 1), "time")
    # All data of an accumulation at once.
    assert "all" in synced
    assert len(synced) <= 40
    same(store, series(0, 9))


def test_accumulations_beside_an_array_are_extended_in_the_same_call(tmp_path: Path) -> None:
    store = write(tmp_path / "a.zarr", series(0, 8))
    cfagg.accumulate(store, "tas", dims="time")
    for at, count in ((8, 3), (11, 1), (12, 6)):
        cfagg.append(store, series(at, count), "time")
        mean = cfagg.open_accumulated(store, "tas").mean("time")
        np.testing.assert_allclose(mean, series(0, at + count).tas.mean("time"), rtol=1e-6)
    same(store, series(0, 18))


def test_monthly_files_are_appended_while_xarray_reads(tmp_path: Path) -> None:
    ends, stop, wrong, reads = [31], threading.Event(), [], [0]
    store = write(tmp_path / "a.zarr", series(0, 31), chunk=7)
    for month, count in enumerate((29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31), 2):
        made = series(ends[-1], count)
        made.time.encoding = {"units": f"days since 2000-{month:02}-01"}
        made.to_netcdf(tmp_path / f"{month}.nc")
        ends.append(ends[-1] + count)

    def look() -> None:
        while not stop.is_set():
            with xr.open_zarr(store) as found:
                size = found.sizes["time"]
                if size not in ends or not found.load().equals(series(0, size)):
                    wrong.append(size)
            reads[0] += 1

    reader = threading.Thread(target=look)
    reader.start()
    for month in range(2, 13):
        before = reads[0]
        cfagg.append(store, tmp_path / f"{month}.nc", "time")
        while reads[0] == before and reader.is_alive():
            time.sleep(0.001)
    stop.set()
    reader.join()
    assert not wrong
    assert reads[0] >= 11
    same(store, series(0, 366))


def test_an_accumulation_that_cannot_be_extended_is_told_of_and_refuses(tmp_path: Path) -> None:
    store = write(tmp_path / "a.zarr", series(0, 8))
    cfagg.accumulate(store, "tas", dims="time")
    chunk = store / "tas/c/0/0"
    values = bytearray(chunk.read_bytes())
    chunk.write_bytes(values)  # the same bytes at another time: nobody has looked at them
    zarr.open_array(store / "tas")[0, 0] = 99
    with pytest.warns(
        StaleAccumulationWarning, match="everything was appended, but the accumulation of 'tas' was not extended"
    ):
        report = cfagg.append(store, series(8, 1), "time")
    assert report.stop == 9
    with pytest.raises(StaleError):
        cfagg.open_accumulated(store, "tas").mean("time")


def test_an_accumulation_without_space_names_the_command_that_extends_it_rather_than_another_append(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = write(tmp_path / "a.zarr", series(0, 8))
    cfagg.accumulate(store, "tas", dims="time")

    full = Mock(side_effect=OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
    with monkeypatch.context() as patch:
        patch.setattr(Staging, "put_in_place", full)
        with pytest.warns(StaleAccumulationWarning) as warned:
            cfagg.append(store, series(8, 1), "time")
    said = str(warned[0].message)
    assert f"append nothing again, but extend it with: cfagg accumulate {store} tas --refresh" in said
    assert "same call" not in said
    assert cfagg.accumulate(store, "tas", refresh=True).action == "appended"
    assert list(tmp_path.iterdir()) == [store]


def test_a_store_behind_a_link_grows_where_it_is(tmp_path: Path) -> None:
    store = write(tmp_path / "a.zarr", series(0, 5))
    (tmp_path / "b.zarr").symlink_to(store)
    assert cfagg.append(tmp_path / "b.zarr", series(5, 1), "time").target == str(store)
    same(store, series(0, 6))


def test_nczarr_is_refused(tmp_path: Path) -> None:
    group = zarr.create_group(tmp_path / "a.zarr", zarr_format=2, attributes={"_nczarr_group": {"dims": {"t": 3}}})
    group.create_array("v", data=np.arange(3), attributes={"_ARRAY_DIMENSIONS": ["t"]})
    with pytest.raises(UnsupportedError, match="NCZarr"):
        cfagg.append(tmp_path / "a.zarr", {"v": np.arange(3)}, "t")


def test_a_record_that_is_damaged_is_not_guessed_at(tmp_path: Path) -> None:
    store = write(tmp_path / "a.zarr", series(0, 5))
    (store / ".cfagg-append").mkdir()
    for text in (
        b"{",
        b"[]",
        b'{"publishes": "zarr.json", "published": "", "former": {}, "objects": [["../", "/", [[0, 1]]]]}',
    ):
        (store / ".cfagg-append/intent").write_bytes(text)
        with pytest.raises((TargetError, SourceError)):
            cfagg.append(store, series(5, 1), "time")
        assert read(store).sizes["time"] == 5


def test_a_record_of_endless_objects_is_refused(tmp_path: Path) -> None:
    store = write(tmp_path / "a.zarr", series(0, 5))
    (store / ".cfagg-append").mkdir()
    record = {
        "publishes": "zarr.json",
        "published": "",
        "former": {},
        "objects": [["tas/c/", "/", [[0, 10**9], [0, 10**9]]]],
    }
    (store / ".cfagg-append/intent").write_text(json.dumps(record))
    with pytest.raises(TargetError, match="more objects than a store may have"):
        cfagg.append(store, series(5, 1), "time")


@pytest.mark.parametrize("kind", ["regular", "rectilinear"])
def test_an_empty_dimension_grows(tmp_path: Path, kind: str) -> None:
    store = tmp_path / "a.zarr"
    with zarr.config.set({"array.rectilinear_chunks": True}):
        group = zarr.create_group(store)
        first: Any = [[3]] if kind == "rectilinear" else (3,)
        array = group.create_array(
            "v", shape=(3 if kind == "rectilinear" else 0,), chunks=first, dtype="i4", dimension_names=("t",)
        )
        array.resize((0,))
        cfagg.append(store, {"v": np.arange(0)}, "t")
        cfagg.append(store, {"v": np.arange(2)}, "t")
        cfagg.append(store, {"v": np.arange(2, 7)}, "t")
        assert zarr.open_array(store / "v")[:].tolist() == list(range(7))


def test_spans_of_time_and_dates_of_other_calendars_are_exact(tmp_path: Path) -> None:
    def made(start: int, count: int) -> xr.Dataset:
        days = xr.date_range("2000-02-27", periods=start + count, calendar="noleap", use_cftime=True)[start:]
        span = np.arange(start, start + count).astype("m8[D]").astype("m8[ns]")
        return xr.Dataset({"lag": ("time", span)}, {"time": days})

    store = tmp_path / "a.zarr"
    made(0, 3).to_zarr(store, encoding={"lag": {"units": "hours"}})
    cfagg.append(store, made(3, 2), "time")
    found = read(store, decode_timedelta=True)
    xr.testing.assert_equal(found, made(0, 5))


@pytest.mark.parametrize("form", ["mapping", "array", "dataset"])
def test_a_store_that_is_a_single_array_grows(tmp_path: Path, form: str) -> None:
    array = zarr.create_array(tmp_path / "a.zarr", shape=(3,), chunks=(2,), dtype="i4", dimension_names=("t",))
    array[:] = np.arange(3)
    more = xr.DataArray(np.arange(3, 8, dtype="i4"), dims="t")
    given: Any = {"mapping": {"any": more.values}, "array": more, "dataset": more.to_dataset(name="any")}[form]
    report = cfagg.append(tmp_path / "a.zarr", given, "t")
    assert (report.start, report.stop) == (3, 8)
    assert zarr.open_array(tmp_path / "a.zarr", mode="r")[:].tolist() == list(range(8))
    with pytest.raises(OptionError, match="a single array"):
        cfagg.append(tmp_path / "a.zarr", {"a": more.values, "b": more.values}, "t")


def test_a_coordinate_whose_last_chunk_is_not_stored_has_the_fill_value_there(tmp_path: Path) -> None:
    group = zarr.create_group(tmp_path / "a.zarr")
    group.create_array("t", shape=(3,), chunks=(2,), dtype="i4", fill_value=9, dimension_names=("t",))[:2] = [1, 2]
    with pytest.raises(ConformError, match="would go from 9 to 5"):
        cfagg.append(tmp_path / "a.zarr", {"t": np.array([5])}, "t")
    cfagg.append(tmp_path / "a.zarr", {"t": np.array([10])}, "t")
    assert zarr.open_array(tmp_path / "a.zarr/t")[:].tolist() == [1, 2, 9, 10]


def test_a_shard_that_is_not_full_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    group = zarr.create_group(tmp_path)
    group.create_array("v", shape=(3, 8), chunks=(2, 2), shards=(8, 8), dtype="i4", dimension_names=("t", "x"))[...] = 7
    zarr.consolidate_metadata(tmp_path)
    read, opened = local_place.LocalPlace.read, []
    monkeypatch.setattr(local_place.LocalPlace, "read", lambda place, key: opened.append(key) or read(place, key))
    monkeypatch.setattr("cfagg.formats.zarr.chunks.open_file", lambda *_: pytest.fail("a chunk is read alone"))
    cfagg.append(tmp_path, {"v": np.full((3, 8), 8, "i4")}, "t")
    assert [key for key in opened if key.startswith("v/c/")] == ["v/c/0/0"]
    np.testing.assert_array_equal(zarr.open_group(tmp_path)["v"][...], np.repeat([[7], [8]], 3, 0) + np.zeros((1, 8)))
