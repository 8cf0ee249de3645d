"""Files that have times in common, one of them in the middle of another and stored backwards."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np
import pytest
import xarray as xr

import cfagg
from cfagg.cf.joining import describing
from cfagg.errors import OptionError

PARTS = ((0, 10, 1), (3, 6, -1), (8, 12, -1))
TIME = {"standard_name": "time", "units": "days since 2000-01-01", "bounds": "time_bnds"}


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """Return files whose values say of which file and time they are."""
    names = []
    for k, (start, stop, step) in enumerate(PARTS):
        names.append(str(tmp_path / f"{k}.nc"))
        time = np.arange(start, stop, dtype="f8")[::step]
        marked = np.stack([time + 100 * k] * 2, axis=1)
        with netCDF4.Dataset(names[-1], "w") as made:
            for dim, size in (("time", time.size), ("lat", 2), ("two", 2)):
                made.createDimension(dim, size)
            named: dict[str, tuple[tuple[str, ...], Any, dict[str, str]]] = {
                "time": (("time",), time, TIME),
                "time_bnds": (("time", "two"), np.stack([time - 0.5, time + 0.5], axis=1), {}),
                "lat": (("lat",), [1.0, 2.0], {"standard_name": "latitude", "units": "degrees_north"}),
                "height": (("time",), time * 10, {"standard_name": "height", "units": "m"}),
                "ps": (("time", "lat"), marked, {"standard_name": "surface_air_pressure", "units": "Pa"}),
                "tas": (("time", "lat"), marked, {"standard_name": "air_temperature", "units": "K"}),
            }
            for name, (dims, values, attributes) in named.items():
                made.createVariable(name, "f8", dims).setncatts(attributes)
                made[name][...] = values
            made["tas"].setncatts({"coordinates": "height", "ancillary_variables": "ps"})
    return names


@pytest.mark.parametrize("choice", ["first", "last"])
def test_the_report_and_its_page_say_how_many_variables_others_replaced(files, choice) -> None:
    twin = shutil.copy(files[0], f"{files[0]}.copy.nc")
    report = cfagg.aggregate([files[0], twin], on_overlap=choice).cfagg.report
    for text in (str(report), report._repr_html_()):
        assert "1 variable with the same coordinates left out (on_overlap)" in text


@pytest.mark.parametrize("choice", ["first", "last"])
def test_of_files_that_overlap_the_first_or_the_last_gives_all_that_belongs_to_a_time(files, choice) -> None:
    owner = np.empty(12, int)
    for k, (start, stop, _) in list(enumerate(PARTS))[:: -1 if choice == "first" else 1]:
        owner[start:stop] = k
    found = cfagg.aggregate(files, on_overlap=choice)
    expected = np.arange(12) + 100.0 * owner
    for name in ("tas", "ps"):
        np.testing.assert_array_equal(found[name].values, np.stack([expected] * 2, axis=1))
    np.testing.assert_array_equal(found["height"].values, np.arange(12) * 10.0)
    days = (found["time"].values - np.datetime64("2000-01-01")) / np.timedelta64(1, "D")
    np.testing.assert_array_equal(days, np.arange(12.0))
    edges = (found["time_bnds"].values - np.datetime64("2000-01-01")) / np.timedelta64(1, "D")
    np.testing.assert_array_equal(np.sort(edges, axis=1), np.stack([days - 0.5, days + 0.5], axis=1))


def test_files_of_equal_coordinates_whose_surface_pressures_differ_are_joined_as_the_remedy_says(files) -> None:
    twin = shutil.copy(files[0], f"{files[0]}.twin.nc")
    with netCDF4.Dataset(twin, "a") as made:
        made["ps"][...] += 1000.0
    (answer,) = (a for a in cfagg.aggregate([files[0], twin]).cfagg.report.why(files[0], twin).answers if a.a == "tas")
    assert (answer.rule, answer.what, answer.one, answer.other) == ("part", "surface_air_pressure", 0.0, 1000.0)
    assert answer.text.startswith("they have the same coordinates along all axes, but different surface_air_pressure: ")
    assert answer.remedy.startswith("on_overlap='first' or on_overlap='last' takes one of them")
    for choice, base in (("first", 0.0), ("last", 1000.0)):
        found = cfagg.aggregate([files[0], twin], on_overlap=choice)
        np.testing.assert_array_equal(found["ps"][:, 0].values, base + np.arange(10.0))


def test_files_that_overlap_are_named_where_that_is_an_error(files) -> None:
    said = r"'tas' of '.*0\.nc' and 'tas' of '.*2\.nc' have 2 coordinates along time in common"
    with pytest.raises(OptionError, match=said):
        cfagg.aggregate(files, on_overlap="error")
    assert len([n for n in cfagg.aggregate(files).data_vars if str(n).startswith("tas")]) == 3


def constants(folder: Path, values: list[Any], **attributes: Any) -> list[Path]:
    """Write files of one time each with a constant, and a text that is the same in all."""
    names = []
    for k, own in enumerate(values):
        lat = xr.Variable("lat", [1.0, 2.0], {"standard_name": "latitude", "units": "degrees_north"})
        made = xr.Dataset({"orog": ("lat", own, {"standard_name": "surface_altitude", "units": "m"} | attributes)})
        made["region"] = ((), "Ostsee", {"standard_name": "region"})
        made["tas"] = (("time", "lat"), [[k, k + 0.5]], {"standard_name": "air_temperature", "units": "K"})
        made["time"], made["lat"] = ("time", [float(k)], TIME | {"bounds": ""}), lat
        names.append(folder / f"{k}.nc")
        made.to_netcdf(names[-1])
    return names


def test_constants_that_each_file_repeats_are_one_if_that_is_asked_for(tmp_path) -> None:
    names = constants(tmp_path, [[3.0, 4.0]] * 3)
    assert len(cfagg.aggregate(names).data_vars) == 7
    found = cfagg.aggregate(names, on_overlap="equal")
    assert set(found.data_vars) == {"orog", "region", "tas"}
    assert found.orog.values.tolist() == [3.0, 4.0]
    assert found.region.item() == "Ostsee"
    assert found.tas.values.tolist() == [[0, 0.5], [1, 1.5], [2, 2.5]]
    assert found.cfagg.report.why(names[0], names[2]).joined


def test_constants_that_differ_stay_apart_although_equal_ones_are_one(tmp_path) -> None:
    names = constants(tmp_path, [[3.0, 4.0], [3.0, np.nan], [3.0, 4.0], [3.0, np.nan]])
    found = cfagg.aggregate(names, on_overlap="equal")
    assert set(found.data_vars) == {"orog", "orog_1", "region", "tas"}
    np.testing.assert_array_equal([found.orog.values, found.orog_1.values], [[3.0, 4.0], [3.0, np.nan]])
    (answer,) = (a for a in found.cfagg.report.why(names[0], names[1]).answers if a.a.startswith("orog"))
    assert (answer.rule, answer.remedy.partition(":")[0]) == (
        "equal",
        "their values differ, or are too many to be compared",
    )


def test_equal_numbers_with_another_meaning_are_no_equal_constants(tmp_path) -> None:
    (tmp_path / "other").mkdir()
    one = constants(tmp_path, [[3.0, 4.0]] * 2)
    other = constants(tmp_path / "other", [[3.0, 4.0]] * 4, units="km")[2:]
    found = cfagg.aggregate([*one, *other], on_overlap="equal")
    assert {found[name].attrs["units"] for name in ("orog", "orog_1")} == {"m", "km"}
    assert "orog_2" not in found


def test_equal_numbers_in_the_other_direction_are_no_equal_constants(tmp_path) -> None:
    names = constants(tmp_path, [[3.0, 4.0]] * 3)
    with netCDF4.Dataset(names[1], "a") as made:
        made["lat"][:] = [2.0, 1.0]
    found = cfagg.aggregate(names, on_overlap="equal")
    assert [dict(zip(a.values, found[a.dims[0]].values, strict=True)) for a in (found.orog, found.orog_1)] == [
        {3.0: 1.0, 4.0: 2.0},
        {3.0: 2.0, 4.0: 1.0},
    ]
    assert "orog_2" not in found


def test_equal_numbers_of_a_transposed_file_are_no_equal_constants(tmp_path) -> None:
    names, square = [], np.arange(9.0).reshape(3, 3)
    for k, dims in enumerate(["yx", "xy"]):
        made = xr.Dataset({"orog": (tuple(dims), square, {"standard_name": "surface_altitude", "units": "m"})})
        lat = square if dims == "yx" else square.T
        made.coords["lat"] = (tuple(dims), lat, {"standard_name": "latitude", "units": "degrees_north"})
        names.append(tmp_path / f"{k}.nc")
        made.to_netcdf(names[-1])
    found = cfagg.aggregate(names, on_overlap="equal")
    orog = [found[name].transpose("y", "x").values for name in ("orog", "orog_1")]
    np.testing.assert_array_equal(orog, [square, square.T])


@pytest.mark.parametrize("limit", ["_COMPARED", "_KEPT"])
def test_values_that_are_too_many_to_be_compared_stay_apart(tmp_path, monkeypatch, limit) -> None:
    monkeypatch.setattr(describing, limit, 1)
    names = constants(tmp_path, [[3.0, 4.0]] * 2)
    twin = shutil.copy(names[0], tmp_path / "twin.nc")
    found = cfagg.aggregate([*names, twin], on_overlap="equal")
    assert ("orog_1" in found) is (limit == "_COMPARED")
    assert ("tas_1" in found) is (limit == "_KEPT")


def test_values_that_are_few_and_equal_along_time_are_one(tmp_path) -> None:
    names = constants(tmp_path, [[3.0, 4.0]] * 2)
    found = cfagg.aggregate([*names, shutil.copy(names[0], tmp_path / "twin.nc")], on_overlap="equal")
    assert set(found.data_vars) == {"orog", "region", "tas"}
    assert found.tas.values.tolist() == [[0, 0.5], [1, 1.5]]


def test_equal_constants_of_two_simulations_are_one(tmp_path) -> None:
    (tmp_path / "b").mkdir()
    both = [constants(tmp_path / "b", [[3.0, 4.0]] * 2), constants(tmp_path, [[3.0, 4.0]] * 2)]
    for folder, called in zip(both, ("a", "b"), strict=True):
        for name in folder:
            with netCDF4.Dataset(name, "a") as made:
                made.source_id = called
                made["tas"][:] += 100 * (called == "b")
    found = cfagg.aggregate([*both[0], *both[1]], on_overlap="equal")
    assert set(found.data_vars) == {"orog", "region", "tas", "tas_1"}
    assert found.tas_1.values.tolist() == [[100, 100.5], [101, 101.5]]


def test_equal_constants_of_two_simulations_are_joined_with_those_elsewhere(tmp_path) -> None:
    names = constants(tmp_path, [[3.0, 4.0], [3.0, 4.0], [5.0, 6.0]])
    for k, name in enumerate(names):
        with netCDF4.Dataset(name, "a") as made:
            made.source_id = "ab"[k % 2]
            made["lat"][:] += 2 * (k == 2)
    found = cfagg.aggregate(names, on_overlap="equal")
    assert found.orog.values.tolist() == [3.0, 4.0, 5.0, 6.0]
    assert "orog_1" not in found


@pytest.mark.parametrize("step", [0, 1])
def test_equal_values_are_one_only_if_what_belongs_to_them_is_equal(tmp_path, step) -> None:
    names = []
    for k in range(2):
        made = xr.Dataset(
            {"tas": (("lat", "lon"), np.ones((2, 2)), {"standard_name": "air_temperature", "units": "K"})}
        )
        made.coords["lat"] = ("lat", [1.0, 2.0], {"standard_name": "latitude", "units": "degrees_north"})
        made.coords["lon"] = ("lon", [1.0, 2.0], {"standard_name": "longitude", "units": "degrees_east"})
        made["flag"] = (("lat", "lon"), np.full((2, 2), step * k), {"standard_name": "status_flag", "units": "1"})
        made.tas.attrs["ancillary_variables"] = "flag"
        names.append(tmp_path / f"{k}.nc")
        made.to_netcdf(names[-1])
    found = cfagg.aggregate(names, on_overlap="equal")
    assert set(found.data_vars) == ({"tas", "flag", "tas_1", "flag_1"} if step else {"tas", "flag"})


def test_constants_of_an_aggregation_file_are_not_compared(tmp_path) -> None:
    names = constants(tmp_path, [[3.0, 4.0]] * 3)
    cfagg.aggregate(names[:2], output=tmp_path / "both.nc", on_overlap="equal")
    found = cfagg.aggregate([tmp_path / "both.nc", names[2]], on_overlap="equal")
    assert {"orog", "orog_1", "tas"} <= set(found.data_vars)
    assert found.tas.sizes["time"] == 3


def test_constants_of_two_aggregation_files_are_not_taken_for_equal(tmp_path) -> None:
    names = constants(tmp_path, [[3.0, 4.0], [5.0, 6.0]])
    for k, name in enumerate(names):
        cfagg.aggregate([name], output=tmp_path / f"own{k}.nc", to="CF-1.13")
    found = cfagg.aggregate([tmp_path / "own0.nc", tmp_path / "own1.nc"], on_overlap="equal")
    assert [found[name].values.tolist() for name in ("orog", "orog_1")] == [[3.0, 4.0], [5.0, 6.0]]


def test_constants_are_equal_in_whichever_order_their_dimensions_are_stored(tmp_path) -> None:
    names, oblong = [], np.arange(6.0).reshape(2, 3)
    for k, dims in enumerate([("lat", "lon"), ("lon", "lat")]):
        orog = xr.Variable(("lat", "lon"), oblong, {"standard_name": "surface_altitude", "units": "m"})
        made = xr.Dataset({"orog": orog.transpose(*dims)})
        made.coords["lat"] = ("lat", [1.0, 2.0], {"standard_name": "latitude", "units": "degrees_north"})
        made.coords["lon"] = ("lon", [1.0, 2.0, 3.0], {"standard_name": "longitude", "units": "degrees_east"})
        names.append(tmp_path / f"{k}.nc")
        made.to_netcdf(names[-1])
    found = cfagg.aggregate(names, on_overlap="equal")
    assert set(found.data_vars) == {"orog"}
    np.testing.assert_array_equal(found.orog.transpose("lat", "lon"), oblong)


def test_places_on_a_curvilinear_grid_are_the_same_although_a_dimension_can_grow(tmp_path) -> None:
    names = []
    for k in range(2):
        made = xr.Dataset({"tas": (("y", "x"), np.full((2, 2), k), {"standard_name": "air_temperature", "units": "K"})})
        lat = {"standard_name": "latitude", "units": "degrees_north"}
        made.coords["lat"] = (("y", "x"), [[1.0, 2.0], [3.0, 4.0]], lat)
        names.append(tmp_path / f"{k}.nc")
        made.to_netcdf(names[-1], unlimited_dims=["y"])
    assert set(cfagg.aggregate(names, on_overlap="last").data_vars) == {"tas"}
    assert cfagg.aggregate(names, on_overlap="last").tas.values.tolist() == [[1, 1], [1, 1]]


def test_an_aggregation_in_which_equal_constants_are_one_grows_as_if_written_at_once(tmp_path) -> None:
    names = constants(tmp_path, [[3.0, 4.0], [3.0, 5.0], [3.0, 4.0], [3.0, 5.0]])
    cfagg.aggregate(names, output=tmp_path / "whole.nc", on_overlap="equal")
    cfagg.aggregate(names[:1], output=tmp_path / "grown.nc", on_overlap="equal")
    cfagg.aggregate(names[1:], output=tmp_path / "grown.nc", on_overlap="equal", append=True)
    assert (tmp_path / "grown.nc").read_bytes() == (tmp_path / "whole.nc").read_bytes()


@pytest.mark.parametrize("choice", ["first", "last"])
def test_records_without_coordinates_are_not_taken_for_those_of_another_file(tmp_path: Path, choice: str) -> None:
    files = []
    for k in range(2):
        files.append(str(tmp_path / f"{k}.nc"))
        with netCDF4.Dataset(files[-1], "w") as made:
            made.createDimension("Time", None)
            made.createDimension("cell", 3)
            made.createVariable("u", "f4", ("Time", "cell"))[:] = np.arange(6.0).reshape(2, 3) + 10 * k
            made.createVariable("area", "f4", ("cell",))[:] = [1.0, 2.0, 3.0]
    names: Any = {"relaxed_identities": True, "relaxed_units": True}
    found = cfagg.aggregate(files, on_overlap=choice, **names)
    assert [found[name].values[0, 0] for name in ("u", "u_1")] == [0, 10]
    assert "area_1" not in found
    (answer,) = found.cfagg.report.why(0, 1, "u").answers
    assert answer.text == "they have the same coordinates, and none along Time, cell that would tell their places apart"
    assert "on_overlap='first'" not in answer.remedy
    (answer,) = cfagg.aggregate(files, **names).cfagg.report.why(0, 1, "area").answers
    assert answer.remedy.startswith("on_overlap='equal' takes one of them")


@pytest.mark.parametrize("choice", ["apart", "first", "last"])
def test_records_without_coordinates_are_joined_along_other_axes(tmp_path: Path, choice: str) -> None:
    files = []
    for k in range(2):
        files.append(str(tmp_path / f"{k}.nc"))
        with netCDF4.Dataset(files[-1], "w") as made:
            made.createDimension("Time", None)
            made.createDimension("lat", 2)
            made.createVariable("lat", "f8", ("lat",))[:] = [2 * k, 2 * k + 1]
            made.createVariable("u", "f4", ("Time", "lat"))[:] = np.arange(6.0).reshape(3, 2) + 10 * k
    names: Any = {"relaxed_identities": True, "relaxed_units": True}
    found = cfagg.aggregate(files, on_overlap=choice, **names)
    assert found.u.values.tolist() == [[0, 1, 10, 11], [2, 3, 12, 13], [4, 5, 14, 15]]
