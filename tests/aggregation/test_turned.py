"""What belongs to data in another order of dimensions in each file: joined as if it were stored in the first's."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np
import numpy.testing as npt
import pytest
import xarray as xr

import cfagg
from cfagg.cf.joining import describing
from cfagg.errors import LossError

Values = np.ndarray[Any, Any]

LAT, LON, LEVEL = np.arange(2.0), np.arange(3.0) * 10, np.arange(4.0)
SIZES = {"time": 2, "lev": 4, "lat": 2, "lon": 3}


def numbers(dims: tuple[str, ...], shift: float = 0.0) -> xr.DataArray:
    return xr.DataArray(
        np.arange(float(np.prod([SIZES[d] for d in dims]))).reshape([SIZES[d] for d in dims]) + shift, dims=dims
    )


def files(folder: Path, turns: list[tuple[str, ...]], *, same: bool = True) -> tuple[list[str], xr.Dataset]:
    """Write files of two times each; `turns` are the orders in which dimensions are stored. What they are as one."""
    names, parts = [], []
    for k, turn in enumerate(turns):
        area = numbers(("lat", "lon"), 0.0 if same else k)
        area.attrs = {"standard_name": "cell_area", "units": "m2"}
        flags = numbers(("time", "lat", "lon"), 100.0 * k)
        flags.attrs = {"standard_name": "status_flag", "units": "1"}
        place = numbers(("lat", "lon"), 0.5)
        place.attrs = {"standard_name": "projection_x_coordinate", "units": "m", "bounds": "place_bnds"}
        corners = xr.concat([place - 1, place + 1], "two").transpose("lat", "lon", "two").drop_attrs()
        ps = numbers(("time", "lat", "lon"), 7.0 + k)
        ps.attrs = {"standard_name": "surface_air_pressure", "units": "Pa"}
        tas = numbers(("time", "lev", "lat", "lon"), 1000.0 * k)
        tas.attrs = {"standard_name": "air_temperature", "units": "K", "cell_measures": "area: area"}
        tas.attrs["ancillary_variables"] = "flags"
        tas.attrs["coordinates"] = "place"
        made = xr.Dataset({"tas": tas, "area": area, "flags": flags, "place": place, "place_bnds": corners, "ps": ps})
        made["time"] = ("time", [2.0 * k, 2.0 * k + 1], {"standard_name": "time", "units": "days since 2000-01-01"})
        made["lat"] = ("lat", LAT, {"standard_name": "latitude", "units": "degrees_north"})
        made["lon"] = ("lon", LON, {"standard_name": "longitude", "units": "degrees_east"})
        sigma = {
            "standard_name": "atmosphere_sigma_coordinate",
            "units": "1",
            "formula_terms": "sigma: lev ps: ps ptop: ptop",
        }
        made["lev"] = ("lev", LEVEL, sigma)
        made["ptop"] = ((), 0.0, {"units": "Pa"})
        parts.append(made)
        stored = made.copy()
        for name, own in made.variables.items():
            stored[name] = own.transpose(*[d for d in (*turn, "two") if d in own.dims])
        for v in stored.variables.values():
            v.encoding["_FillValue"] = None
        names.append(str(folder / f"{k}.nc"))
        stored.to_netcdf(names[-1])
    return names, xr.concat(parts, "time", data_vars="minimal", coords="minimal", compat="override", join="exact")


@pytest.mark.few(2)
@pytest.mark.parametrize("turn", list(permutations(("time", "lev", "lat", "lon")))[1::9])
@pytest.mark.parametrize("kept", [True, False], ids=["in memory", "too large"])
def test_what_belongs_to_data_is_joined_in_any_order_of_dimensions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, turn: tuple[str, ...], kept: bool
) -> None:
    if not kept:
        monkeypatch.setattr(describing, "_KEPT", 4)
    names, whole = files(tmp_path, [("time", "lev", "lat", "lon"), turn, ("lon", "lat", "lev", "time")])
    for order in (names, names[::-1]):
        found = cfagg.aggregate(order, decode_times=False)
        assert [n for n in found.variables if str(n).endswith("_1")] == []
        for name in ("tas", "area", "flags", "place", "place_bnds", "ps"):
            npt.assert_array_equal(found[name].transpose(*whole[name].dims).values, whole[name].values)
    cfagg.aggregate(names, output=tmp_path / "all.nca", to="NCA-0.1")
    written = cfagg.read(tmp_path / "all.nca", decode_times=False)
    for name in ("tas", "area", "flags", "ps"):
        npt.assert_array_equal(written[name].transpose(*whole[name].dims).values, whole[name].values)


@pytest.mark.parametrize("other", [{"scale_factor": 2.0}, {"units": "km"}, {"_FillValue": 5}], ids=str)
def test_many_equal_numbers_that_mean_something_else_keep_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, other: dict[str, Any]
) -> None:
    monkeypatch.setattr(describing, "_KEPT", 4)
    names = []
    for k, own in enumerate(({}, {}, other)):
        made = xr.Dataset(
            {"tas": (("time", "x"), np.zeros((2, 3)), {"standard_name": "air_temperature", "units": "K"})},
            {
                "time": ("time", np.arange(2.0), {"standard_name": "time", "units": "days since 2000-01-01"}),
                "x": ("x", np.arange(3.0), {"standard_name": "projection_x_coordinate", "units": "m"}),
                "level": ((), float(k), {"standard_name": "height", "units": "m"}),
                "z": (("time", "x"), np.arange(6).reshape(2, 3), {"standard_name": "altitude", "units": "m", **own}),
            },
        )
        names.append(str(tmp_path / f"{k}.nc"))
        made.to_netcdf(names[-1], encoding={v: {"_FillValue": None} for v in ("tas", "time", "x", "level")})
    found = cfagg.aggregate(names)
    assert (found.tas.shape, found.tas_1.shape) == ((2, 2, 3), (2, 3))
    assert found.z_1.attrs.get("units") == other.get("units", "m")


def test_values_that_differ_in_another_order_of_dimensions_keep_apart(tmp_path: Path) -> None:
    names, _ = files(tmp_path, [("time", "lev", "lat", "lon"), ("lon", "lat", "lev", "time")], same=False)
    (answer,) = (a for a in cfagg.aggregate(names).cfagg.report.why(0, 1).answers if a.a == "tas")
    assert (answer.rule, answer.what, answer.one, answer.other) == ("part", "cell_area", 0.0, 1.0)


@pytest.mark.few(4)
@pytest.mark.parametrize("shape", [(2, 3), (3, 3)])
@pytest.mark.parametrize(("place", "data"), [("yx", "tyx"), ("yx", "txy"), ("xy", "tyx"), ("xy", "txy"), ("xy", "xyt")])
def test_coordinates_of_two_dimensions_are_joined_in_any_order(
    tmp_path: Path, shape: tuple[int, int], place: str, data: str
) -> None:
    names = []
    for k, (own, turn) in enumerate((("yx", "tyx"), (place, data))):
        latitude = np.arange(float(np.prod(shape))).reshape(shape)
        made = xr.Dataset(
            {
                "t": ("t", [float(k)], {"standard_name": "time", "units": "days since 2000-01-01"}),
                "lat": (("y", "x"), latitude, {"standard_name": "latitude", "units": "degrees_north"}),
                "lon": (("y", "x"), latitude * 2, {"standard_name": "longitude", "units": "degrees_east"}),
                "tas": (("t", "y", "x"), latitude[None] + 100 * k, {"standard_name": "air_temperature", "units": "K"}),
            }
        )
        made.tas.attrs["coordinates"] = "lat lon"
        names.append(str(tmp_path / f"{k}.nc"))
        made.map(lambda v, o=own, t=turn: v.transpose(*[d for d in (t if v.ndim == 3 else o) if d in v.dims])).assign(
            {n: made[n].transpose(*own) for n in ("lat", "lon")}
        ).to_netcdf(names[-1])
    found = cfagg.aggregate(names, decode_times=False)
    assert set(found.data_vars) == {"tas"}
    npt.assert_array_equal(found.tas.transpose("t", "y", "x").values, np.stack([latitude, latitude + 100]))
    npt.assert_array_equal(found.lat.transpose("y", "x").values, latitude)
    npt.assert_array_equal(found.lon.transpose("y", "x").values, latitude * 2)


def test_large_values_of_two_arrays_with_equal_coordinates_stay_those_of_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(describing, "_COMPARED", 4)
    paths: list[Any] = []
    for k in range(2):
        names, _ = files(tmp_path, [("time", "lev", "lat", "lon")])
        with xr.open_dataset(names[0], decode_times=False) as made:
            paths.append(tmp_path / f"m{k}.nc")
            (made.load() + 0).assign_attrs(source_id=str(k)).assign(flags=made.flags + 50 * k).to_netcdf(paths[-1])
    found = cfagg.aggregate(paths, equal="source_id", decode_times=False)
    assert {"tas", "tas_1"} <= set(found.data_vars)
    npt.assert_array_equal(found["flags_1"].values, found["flags"].values + 50)


def curvilinear(
    path: Path, k: int, latitude: Values, longitude: Values, order: str, names: dict[str, str], coordinates: str
) -> Values:
    """Write a file on a grid of two-dimensional coordinates that calls and orders its dimensions as is said."""
    values = np.random.default_rng(k).normal(size=(1, *latitude.shape))
    made = xr.Dataset({"tas": (("time", "y", "x"), values, {"standard_name": "air_temperature", "units": "K"})})
    made["flag"] = (("time", "y", "x"), values * 2, {"standard_name": "status_flag", "units": "1"})
    made["area"] = (("y", "x"), latitude + 3 * longitude, {"standard_name": "cell_area", "units": "m2"})
    made.tas.attrs |= {"coordinates": coordinates, "ancillary_variables": "flag", "cell_measures": "area: area"}
    made["time"] = ("time", [float(k)], {"standard_name": "time", "units": "days since 2000-01-01"})
    for name, own, standard in (("lat", latitude, "latitude"), ("lon", longitude, "longitude")):
        made[name] = (("y", "x"), own, {"standard_name": standard, "units": "degrees", "bounds": f"{name}_v"})
        made[f"{name}_v"] = (("y", "x", "four"), own[..., None] + [0, 0.25, 0.5, 0.75])
    for name, v in made.variables.items():
        made[name] = v.transpose(*[d for d in (*order, "time", "four") if d in v.dims])
    made = made.rename(names)
    if path.suffix == ".zarr":
        made.to_zarr(path, zarr_format=2)
    else:
        made.to_netcdf(path)
    return values


SQUARE, OBLONG = np.arange(9.0).reshape(3, 3), np.arange(6.0).reshape(2, 3)


@pytest.mark.parametrize(
    ("latitude", "longitude", "order", "to"),
    [
        (OBLONG, OBLONG * 2, "yx", "NCA-0.1"),
        (OBLONG, OBLONG * 2, "xy", "CF-1.13"),
        (SQUARE, SQUARE * 2, "xy", "CFA-0.4"),
        (SQUARE + SQUARE.T, SQUARE, "yx", "CFA-0.6.2"),
        (SQUARE, SQUARE.T, "yx", "CF-1.13"),
        (SQUARE, SQUARE.T, "xy", None),
    ],
    ids=["oblong", "oblong, turned", "square", "one mirrored", "mirrors", "mirrors, turned, Zarr"],
)
def test_files_that_call_two_dimensions_the_other_way_round_are_joined_as_they_stand(
    tmp_path: Path, latitude: Values, longitude: Values, order: str, to: str | None
) -> None:
    names = [tmp_path / "0.nc", tmp_path / "1.nc", tmp_path / ("2.nc" if to else "2.zarr")]
    called: list[dict[str, str]] = [{}, {"y": "x", "x": "y"}, {"y": "x", "x": "nlon"}]
    said = zip(names, ("yx", order, order), called, ("lat lon", "lon lat", "lat lon"), strict=True)
    made = [curvilinear(path, k, latitude, longitude, *one) for k, (path, *one) in enumerate(said)]
    found = [cfagg.aggregate(names, decode_times=False)]
    if to:
        cfagg.aggregate(names, output=tmp_path / "all.nc", to=to, on_loss="materialise")
        found.append(cfagg.read(tmp_path / "all.nc", decode_times=False))
    for own in found:
        assert [n for n in own.variables if str(n).endswith("_1") and own[n].ndim > 1] == []
        upright = own.lat.dims if np.array_equal(own.lat.values, latitude) else own.lat.dims[::-1]
        npt.assert_array_equal(own.tas.transpose("time", *upright).values, np.concatenate(made))
        npt.assert_array_equal(own.flag.transpose("time", *upright).values, 2 * np.concatenate(made))
        npt.assert_array_equal(own.lat.transpose(*upright).values, latitude)
        npt.assert_array_equal(own.lon.transpose(*upright).values, longitude)
        npt.assert_array_equal(own.area.transpose(*upright).values, latitude + 3 * longitude)
        npt.assert_array_equal(own.lon_v.transpose(*upright, "four").values[..., 1], longitude + 0.25)


@pytest.mark.parametrize("called", [{"y": "x", "x": "y"}, {"y": "x", "x": "nlon"}])
@pytest.mark.parametrize("kind", ["float64", "float32"])
def test_swapped_dimensions_of_coordinates_that_are_all_their_own_mirror_images_keep_files_apart(
    tmp_path: Path, called: dict[str, str], kind: str
) -> None:
    mirrored = SQUARE + SQUARE.T
    for k in range(3):
        own = mirrored.astype(kind if k else "float64")
        curvilinear(tmp_path / f"{k}.nc", k, own, own * 2, "yx", called if k else {}, "lat lon")
    found = cfagg.aggregate(tmp_path, decode_times=False)
    assert sorted(v.sizes["time" if n == "tas" else "time_1"] for n, v in found.items() if "tas" in str(n)) == [1, 2]
    (answer,) = (a for a in found.cfagg.report.why(0, 1).answers if a.a == "tas")
    assert "mirror image" in answer.what
    assert answer.remedy == "write both files with the same order of dimensions"


def test_dimensions_with_coordinates_of_their_own_may_be_called_the_other_way_round(tmp_path: Path) -> None:
    for k, (y, x) in enumerate((("y", "x"), ("x", "y"))):
        made = xr.Dataset({"tas": (("t", y, x), SQUARE[None] + k, {"standard_name": "air_temperature", "units": "K"})})
        made["t"] = ("t", [float(k)], {"standard_name": "time", "units": "days since 2000-01-01"})
        for name, letter in ((y, "y"), (x, "x")):
            made[name] = (name, np.arange(3.0), {"standard_name": f"projection_{letter}_coordinate", "units": "m"})
        made.to_netcdf(tmp_path / f"{k}.nc")
    found = cfagg.aggregate(tmp_path, output=tmp_path / "all.nc", decode_times=False)
    for own in (found, cfagg.read(tmp_path / "all.nc", decode_times=False)):
        (name,) = own.data_vars
        npt.assert_array_equal(own[name].values, np.stack([SQUARE, SQUARE + 1]))
        upright = [own[d].attrs["standard_name"] for d in own[name].dims]
        assert upright == ["time", "projection_y_coordinate", "projection_x_coordinate"]


def test_a_number_behind_the_name_of_a_dimension_makes_it_no_other_one_of_the_file(tmp_path: Path) -> None:
    for k, (name, sizes) in enumerate((("tas", {"x": 2}), ("pr", {"x": 4, "x_1": 3}), ("pr", {"x": 4, "x_1": 3}))):
        own = xr.DataArray(np.full(list(sizes.values()), float(k)), dims=list(sizes)).expand_dims(t=[float(k)])
        own.attrs = {"standard_name": f"{name}_of_test", "units": "1"}
        own["t"].attrs = {"standard_name": "time", "units": "days since 2000-01-01"}
        own.to_dataset(name=name).to_netcdf(tmp_path / f"{k}.nc")
    found = cfagg.aggregate(tmp_path, relaxed_identities=True, decode_times=False)
    npt.assert_array_equal(found.pr.values[:, 0, 0], [1.0, 2.0])


@pytest.mark.parametrize("to", ["CFA-0.6.2", "CF-1.13"])
def test_an_order_of_dimensions_that_a_dialect_cannot_say_is_a_listed_loss_with_a_remedy(
    tmp_path: Path, to: str
) -> None:
    names, whole = files(tmp_path, [("time", "lev", "lat", "lon"), ("lon", "lat", "lev", "time")])
    with pytest.raises(LossError, match=r"order of dimensions .* is lost") as caught:
        cfagg.aggregate(names, output=tmp_path / "all.nc", to=to)
    assert "on_loss='materialise'" in str(caught.value)
    assert "'tas', partition [1, 0, 0, 0]" in str(caught.value)
    assert not (tmp_path / "all.nc").exists()
    cfagg.aggregate(names, output=tmp_path / "all.nc", to=to, on_loss="materialise")
    npt.assert_array_equal(cfagg.read(tmp_path / "all.nc", decode_times=False).tas.values, whole.tas.values)


def test_what_the_first_file_says_of_its_dimensions_is_not_said_of_those_that_others_call_so(tmp_path: Path) -> None:
    axes = {"time": "days since 2000-01-01", "latitude": "degrees_north", "longitude": "degrees_east"}
    values = np.random.default_rng(1).normal(size=(2, 3, 3, 3))
    for k, called in enumerate((("a", "b", "c"), ("c", "a", "b"))):
        own = xr.DataArray(values[k], dims=called, attrs={"standard_name": "air_temperature", "units": "K"})
        own.attrs["cell_methods"] = "{}: mean {}: maximum".format(*called[1:])
        for d, (name, units) in zip(called, axes.items(), strict=True):
            own[d] = (d, np.arange(3.0) + 3 * k * (name == "time"), {"standard_name": name, "units": units})
        own.to_dataset(name="tas").to_netcdf(tmp_path / f"{k}.nc")
    for order in ([0, 1], [1, 0]):
        names = [tmp_path / f"{k}.nc" for k in order]
        cfagg.aggregate(names, output=tmp_path / "all.nc", overwrite=True)
        for found in (cfagg.aggregate(names), cfagg.read(tmp_path / "all.nc")):
            assert list(found.data_vars) == ["tas"]
            _, latitude, longitude = found.tas.dims
            assert [found.indexes[d].size for d in found.tas.dims] == [6, 3, 3]
            assert [found[d].attrs["standard_name"] for d in found.tas.dims] == list(axes)
            assert found.tas.attrs["cell_methods"] == f"{latitude}: mean {longitude}: maximum"
            npt.assert_array_equal(found.tas.values, values.reshape(6, 3, 3))


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_flags_that_span_an_axis_in_one_file_have_to_be_equal_in_the_others_where_they_do_not(
    tmp_path: Path, order: tuple[int, ...]
) -> None:
    for k in range(3):
        own = xr.Dataset({"tas": (("y", "x"), OBLONG + k, {"standard_name": "air_temperature", "units": "K"})})
        own["flag"] = (("y", "x"), OBLONG + 10 * k, {"standard_name": "status_flag", "units": "1"})
        own.tas.attrs |= {"ancillary_variables": "flag", "coordinates": "member"}
        for name, letter in zip(("latitude", "longitude"), "yx", strict=True):
            own[letter] = (letter, np.arange(float(own.sizes[letter])), {"standard_name": name, "units": "degrees"})
        own["member"] = ((), float(k), {"standard_name": "realization", "units": "1"})
        if k == 2:
            own = own.expand_dims("member")
            del own.tas.attrs["coordinates"]
        own.to_netcdf(tmp_path / f"{k}.nc")
    found = cfagg.aggregate([tmp_path / f"{k}.nc" for k in order])
    for name in ("tas", "tas_1", "tas_2"):
        (k,) = np.unique(found[name].values - OBLONG)
        npt.assert_array_equal(found[found[name].attrs["ancillary_variables"]].values.squeeze() - OBLONG, 10 * k)
    (answer,) = (a for a in found.cfagg.report.why("0.nc", "1.nc").answers if a.a.startswith("tas"))
    assert (answer.rule, answer.what) == ("part", "status_flag")


def images(folder: Path, flags: list[Values], naming: tuple[bool, ...] = (True, True, True)) -> list[Path]:
    """Write files of one time, which the data name, and their flags if `naming`; the last is stored transposed."""
    for k, flag in enumerate(flags):
        own = xr.Dataset({"tas": (("y", "x"), OBLONG + k, {"standard_name": "air_temperature", "units": "K"})})
        own["flag"] = (("y", "x"), flag, {"standard_name": "status_flag", "units": "1"})
        for name, letter in zip(("latitude", "longitude"), "yx", strict=True):
            own[letter] = (letter, np.arange(float(own.sizes[letter])), {"standard_name": name, "units": "degrees"})
        own["time"] = ((), float(k), {"standard_name": "time", "units": "days since 2000-01-01"})
        own.tas.attrs |= {"ancillary_variables": "flag", "coordinates": "time"}
        if naming[k]:
            own.flag.attrs["coordinates"] = "time"
        (own.transpose("x", "y") if k == 2 else own).to_netcdf(folder / f"{k}.nc")
    return [folder / f"{k}.nc" for k in range(len(flags))]


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (1, 2, 0)])
def test_flags_that_name_the_time_of_their_file_are_joined_along_time(
    tmp_path: Path, order: tuple[int, ...], monkeypatch: pytest.MonkeyPatch, *, large: bool
) -> None:
    if large:
        monkeypatch.setattr(describing, "_KEPT", 1)
    names = images(tmp_path, [OBLONG + 10 * k for k in range(3)])
    found = cfagg.aggregate([names[k] for k in order])
    assert list(found.data_vars) == ["flag", "tas"]
    for name, step in (("tas", 1), ("flag", 10)):
        values = found[name].transpose("time", "y", "x").values
        npt.assert_array_equal(values, [OBLONG, OBLONG + step, OBLONG + 2 * step])


@pytest.mark.parametrize("large", [False, True])
def test_equal_flags_are_one_even_if_they_name_the_time_of_their_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, large: bool
) -> None:
    if large:
        monkeypatch.setattr(describing, "_KEPT", 1)
    found = cfagg.aggregate(images(tmp_path, [OBLONG, OBLONG, OBLONG]))
    assert found.tas.dims == ("time", "y", "x")
    assert found.flag.dims == ("y", "x")
    npt.assert_array_equal(found.flag.values, OBLONG)


def test_flags_that_are_too_many_to_be_compared_are_joined_along_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(describing, "_COMPARED", 3)
    found = cfagg.aggregate(images(tmp_path, [OBLONG, OBLONG + 10]))
    npt.assert_array_equal(found.flag.transpose("time", "y", "x").values, [OBLONG, OBLONG + 10])


@pytest.mark.parametrize(("name", "values"), [("scale_factor", (1.0, 2.0)), ("units", ("1", "2"))])
def test_equal_numbers_that_are_packed_otherwise_or_in_other_units_are_no_equal_flags(
    tmp_path: Path, name: str, values: tuple[Any, Any]
) -> None:
    names = images(tmp_path, [OBLONG, OBLONG])
    for path, value in zip(names, values, strict=True):
        with netCDF4.Dataset(path, "a") as file:
            file["flag"].setncattr(name, value)
    found = cfagg.aggregate(names)
    npt.assert_array_equal(found.flag.transpose("time", "y", "x").values, [OBLONG, 2 * OBLONG])


def test_equal_numbers_in_the_other_direction_are_no_equal_flags(tmp_path: Path) -> None:
    names = images(tmp_path, [OBLONG, OBLONG])
    with netCDF4.Dataset(names[1], "a") as file:
        file["y"][:] = file["y"][:][::-1]
    found = cfagg.aggregate(names)
    for name, step in (("tas", 1), ("flag", 0)):
        npt.assert_array_equal(found[name].transpose("time", "y", "x").values, [OBLONG, OBLONG[::-1] + step])


def test_equal_numbers_of_a_transposed_file_are_no_equal_flags(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(describing, "_KEPT", 1)
    names, square = [], np.arange(9.0).reshape(3, 3)
    for k, dims in enumerate(["yx", "xy"]):
        stored = square if dims == "yx" else square.T
        own = xr.Dataset({"tas": (tuple(dims), stored, {"standard_name": "air_temperature", "units": "K"})})
        own["lat"] = (tuple(dims), stored, {"standard_name": "latitude", "units": "degrees_north"})
        own["time"] = ((), float(k), {"standard_name": "time", "units": "days since 2000-01-01"})
        own["flag"] = (tuple(dims), square, {"standard_name": "status_flag", "units": "1", "coordinates": "time"})
        own.tas.attrs |= {"ancillary_variables": "flag", "coordinates": "time lat"}
        names.append(tmp_path / f"{k}.nc")
        own.to_netcdf(names[-1])
    found = cfagg.aggregate(names)
    npt.assert_array_equal(found.flag.transpose("time", "y", "x").values, [square, square.T])


@pytest.mark.parametrize("dims", ["y", "yx"])
@pytest.mark.parametrize("naming", [False, True])
@pytest.mark.parametrize(
    ("other", "same"),
    [("bad good", False), ("good  bad", True), (None, True), ("bad good", True)],
)
def test_equal_numbers_of_flags_with_another_meaning_are_no_equal_flags(
    tmp_path: Path, other: str | None, dims: str, *, naming: bool, same: bool
) -> None:
    names = images(tmp_path, [OBLONG, OBLONG], (naming, naming))
    for k, name in enumerate(names):
        with netCDF4.Dataset(name, "a") as file:
            file.renameVariable("flag", "former")
            flag = file.createVariable("flag", "i1", tuple(dims))
            flag[:] = 1
            flag.setncatts({"standard_name": "status_flag", **({"coordinates": "time"} if naming else {})})
            text = other if k else "good bad"
            if text is not None:
                values = [1, 0] if k and same and text == "bad good" else [0, 1]
                flag.setncatts({"flag_values": np.int8(values), "flag_meanings": text})
    found = cfagg.aggregate(names)
    if same:
        assert (found.flag.dims, found.flag.attrs["flag_meanings"]) == (tuple(dims), "good bad")
    elif naming:
        assert found.flag.dims == ("time", *dims)
        assert "flag_meanings" not in found.flag.attrs
    else:
        assert [found[n].attrs["flag_meanings"] for n in ("flag", "flag_1")] == ["good bad", "bad good"]
        (answer,) = found.cfagg.report.why(0, 1, "tas").answers
        assert answer.what == "status_flag"
        assert answer.text.endswith("good bad and bad good")


@pytest.mark.parametrize("named", [("time height", "height time"), ("height time", "time height")])
def test_flags_may_name_several_scalar_coordinates_in_any_order(tmp_path: Path, named: tuple[str, str]) -> None:
    names = images(tmp_path, [OBLONG, OBLONG + 10])
    for name, text in zip(names, named, strict=True):
        with netCDF4.Dataset(name, "a") as file:
            height = file.createVariable("height", "f8", ())
            height.setncatts({"standard_name": "height", "units": "m"})
            height[...] = 2.0
            file["tas"].coordinates = file["flag"].coordinates = text
    found = cfagg.aggregate(names)
    npt.assert_array_equal(found.flag.transpose("time", "y", "x").values, [OBLONG, OBLONG + 10])


@pytest.mark.parametrize("step", [0, 10])
def test_flags_of_which_some_do_not_name_the_time_of_their_file_have_to_be_equal(tmp_path: Path, step: int) -> None:
    names = images(tmp_path, [OBLONG + step * k for k in range(3)], (True, False, True))
    found = cfagg.aggregate(names)
    assert [name for name in found.data_vars if name.startswith("tas")] == ["tas", "tas_1", "tas_2"][: 3 if step else 1]
    if not step:
        assert found.flag.dims == ("y", "x")


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (2, 1, 0)])
def test_cell_areas_are_compared_in_the_direction_of_the_coordinates_whatever_other_arrays_store(
    tmp_path: Path, order: tuple[int, ...]
) -> None:
    for k, turn in enumerate(("yx", "yx", "xy")):
        made = xr.Dataset({"tas": (("y", "x"), OBLONG, {"standard_name": "air_temperature", "units": "K"})})
        made["area"] = (("y", "x"), OBLONG + 5, {"standard_name": "cell_area", "units": "m2"})
        made.tas.attrs |= {
            "cell_measures": "area: area",
            "coordinates": "time",
            "cell_methods": "area: mean" if k < 2 else "",
        }
        for name, letter in zip(("latitude", "longitude"), "yx", strict=True):
            made[letter] = (letter, np.arange(float(made.sizes[letter])), {"standard_name": name, "units": "degrees"})
        made["time"] = ((), float(k), {"standard_name": "time", "units": "days since 2000-01-01"})
        made["area"] = made.area.transpose(*turn)
        (made.isel(y=slice(None, None, -1)) if k else made).to_netcdf(tmp_path / f"{k}.nc")
    found = cfagg.aggregate([tmp_path / f"{k}.nc" for k in order], decode_times=False)
    assert sorted(v.size // OBLONG.size for n, v in found.items() if str(n).startswith("tas")) == [1, 2]


def test_formula_terms_refer_to_coordinates_by_the_names_that_these_get(tmp_path: Path) -> None:
    for k, called in enumerate(({"time": "time"}, {"time": "lev", "lev": "lat", "lat": "time"})):
        names, _ = files(tmp_path, [("time", "lev", "lat", "lon")] * (k + 1))
        with xr.open_dataset(names[k], decode_times=False) as made:
            own = made.load().rename(called)
        level = called.get("lev", "lev")
        own[level].attrs["formula_terms"] = f"sigma: {level} ps: ps ptop: ptop"
        own.to_netcdf(tmp_path / f"own{k}.nc")
    for order in ([0, 1], [1, 0]):
        found = cfagg.aggregate([tmp_path / f"own{k}.nc" for k in order], decode_times=False)
        (level,) = (v for v in found.variables.values() if "formula_terms" in v.attrs)
        assert level.attrs["formula_terms"] == f"sigma: {level.dims[0]} ps: ps ptop: ptop"
        assert level.dims[0] in found.tas.dims


@pytest.mark.parametrize("option", ["variable_identities", "allow_no_identity"])
def test_a_dimension_may_have_coordinates_in_one_file_and_be_only_counted_in_another(
    tmp_path: Path, option: str
) -> None:
    xr.Dataset({"a": ("x", [4.0, 5.0])}, coords={"x": [0, 1]}).to_netcdf(tmp_path / "0.nc")
    xr.Dataset({"b": ("x", [2.0, 3.0, 1.0])}).to_netcdf(tmp_path / "1.nc")
    found = cfagg.aggregate([tmp_path / "0.nc", tmp_path / "1.nc"], **{option: True})
    assert found["a"].values.tolist() == [4.0, 5.0]
    assert found["b"].values.tolist() == [2.0, 3.0, 1.0]
    assert "x" not in found["b"].coords


def test_times_of_forecasts_have_a_dimension_for_their_starts(tmp_path) -> None:
    names = []
    for run in range(2):
        own = xr.Dataset(
            {"tas": (("step",), [run + 0.1, run + 0.2], {"standard_name": "air_temperature", "units": "K"})}
        )
        day = {"standard_name": "forecast_reference_time", "units": "days since 2000-01-01"}
        own.coords["start"] = ((), 31.0 * run, day)
        own.coords["step"] = ("step", [1.0, 2.0], {"standard_name": "forecast_period", "units": "days"})
        own.coords["time"] = ("step", 31.0 * run + np.array([1.0, 2.0]), {**day, "standard_name": "time"})
        names.append(tmp_path / f"{run}.nc")
        own.to_netcdf(names[-1])
    found = cfagg.aggregate(names, decode_times=False)
    assert found.tas.dims == found.time.dims == ("start", "step")
    assert found.time.values.tolist() == [[1, 2], [32, 33]]
    assert found.tas.values.tolist() == [[0.1, 0.2], [1.1, 1.2]]


def forecast_file(path: Path, start: float, steps: Sequence[float]) -> str:
    """Write steps of a forecast along times, or one as scalar coordinates, as iris and the Met Office write them."""
    along = ("time",) if len(steps) > 1 else ()
    steps = np.array(steps if along else steps[0], "f8")
    hours = {"units": f"hours since 2000-01-01 {start:02.0f}:00"}
    values = 100 * start + steps
    own = xr.Dataset(
        {"tas": (along, values, {"standard_name": "air_temperature", "units": "K", "cell_methods": "time: mean"})}
    )
    own.coords["time"] = (along, steps, {**hours, "standard_name": "time", "bounds": "time_bnds"})
    own.coords["forecast_period"] = (along, steps, {"standard_name": "forecast_period", "units": "hours"})
    own.coords["start"] = ((), 0.0, {**hours, "standard_name": "forecast_reference_time"})
    own["time_bnds"] = ((*along, "bnds"), steps[..., None] + [-6, 0])
    own.to_netcdf(path)
    return str(path)


@pytest.mark.parametrize("steps", [[[6, 12, 18]], [[6], [12], [18]], [[6, 12], [18]], [[6], [12, 18]]])
def test_forecasts_of_overlapping_times_are_an_array_along_starts_and_steps(
    tmp_path: Path, steps: list[list[float]]
) -> None:
    files = [forecast_file(tmp_path / f"{start}_{own[0]}.nc", start, own) for start in (6, 18) for own in steps]
    made = cfagg.aggregate(files, output=tmp_path / "out.nc", decode_times=False)
    for found in (made, cfagg.read(tmp_path / "out.nc", decode_times=False)):
        assert found.tas.dims == found.time.dims == ("start", "forecast_period")
        assert found.forecast_period.dims == ("forecast_period",)
        assert found.tas.values.tolist() == [[606, 612, 618], [1806, 1812, 1818]]
        assert found.time.values.tolist() == [[6, 12, 18], [18, 24, 30]]
        assert found[found.time.attrs["bounds"]].values[1].tolist() == [[12, 18], [18, 24], [24, 30]]


def test_forecasts_at_the_same_steps_before_each_time_are_an_array_along_times_and_steps(tmp_path: Path) -> None:
    cases = [(time - step, step) for time in (20, 21, 22, 23) for step in (1, 2)]
    files = [forecast_file(tmp_path / f"{start}_{step}.nc", start, [step]) for start, step in cases]
    found = cfagg.aggregate(files, decode_times=False)
    assert found.tas.dims == found.start.dims == ("forecast_period", "time")
    assert (found.start.values - found.start.values[0, 0]).tolist() == [[0, 1, 2, 3], [-1, 0, 1, 2]]


@pytest.mark.parametrize("steps", [[[6, 12], [18]], [[6], [12, 18]]])
def test_a_single_time_of_a_forecast_continues_several_ones(tmp_path: Path, steps: list[list[float]]) -> None:
    files = [forecast_file(tmp_path / f"{own[0]}.nc", 0, own) for own in steps]
    found = cfagg.aggregate(files, decode_times=False)
    assert found.tas.dims == found.time.dims == found.forecast_period.dims == ("time",)
    assert found.tas.values.tolist() == found.forecast_period.values.tolist() == [6, 12, 18]


def test_coordinates_of_a_single_time_stay_scalar_beside_forecasts_of_several_that_it_does_not_continue(
    tmp_path: Path,
) -> None:
    files = [
        forecast_file(tmp_path / "0.nc", 0, [6, 12]),
        forecast_file(tmp_path / "1.nc", 6, [18]),
    ]
    found = cfagg.aggregate(files, decode_times=False)
    assert found.tas.dims == ("time",)
    assert found.tas_1.dims == ()
    assert found.sizes == {"time": 2, "bnds": 2}


def test_bounds_of_times_end_with_their_vertices_though_another_file_has_a_single_start(tmp_path: Path) -> None:
    start = {"standard_name": "forecast_reference_time", "units": "hours since 2000-01-01"}
    files = []
    for name, along, starts, steps in (("0.nc", (), np.array(0.0), [6, 12]), ("1.nc", ("start",), [24, 48], [12, 18])):
        time = np.array(starts)[..., None] + steps
        own = xr.Dataset({"tas": ((*along, "step"), time, {"standard_name": "air_temperature", "units": "K"})})
        own.coords["start"] = (along, starts, start)
        own.coords["step"] = ("step", steps, {"standard_name": "forecast_period", "units": "hours"})
        own.coords["time"] = ((*along, "step"), time, {**start, "standard_name": "time", "bounds": "time_bnds"})
        own["time_bnds"] = ((*along, "step", "bnds"), time[..., None] + [-6, 0])
        own.to_netcdf(tmp_path / name)
        files.append(tmp_path / name)
    found = cfagg.aggregate(files, decode_times=False)
    assert found.tas_1.shape == (2, 2)
    bounds = found[found.time_1.attrs["bounds"]]
    assert bounds.dims == (*found.time_1.dims, "bnds")
    assert np.array_equal(bounds.values[..., 1], found.tas_1.values)
