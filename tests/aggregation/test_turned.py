"""What belongs to data in another order of dimensions in each file: joined as if it were stored in the first's."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import numpy.testing as npt
import pytest
import xarray as xr

import cfagg
from cfagg.cf.joining import describing

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


def test_values_that_differ_in_another_order_of_dimensions_keep_apart(tmp_path: Path) -> None:
    names, _ = files(tmp_path, [("time", "lev", "lat", "lon"), ("lon", "lat", "lev", "time")], same=False)
    (answer,) = (a for a in cfagg.aggregate(names).cfagg.report.why(0, 1).answers if a.a == "tas")
    assert (answer.rule, answer.what, answer.one, answer.other) == ("part", "cell_area", 0.0, 1.0)


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


@pytest.mark.parametrize(("mirrored", "joined"), [(True, 2), (False, 1)])
def test_coordinates_that_are_their_own_mirror_image_keep_swapped_dimensions_apart(
    tmp_path: Path, mirrored: bool, joined: int
) -> None:
    first = np.arange(9.0).reshape(3, 3)
    names = []
    for k, dims in enumerate([("y", "x"), ("x", "y")]):
        made = xr.Dataset(
            {"tas": (("time", *dims), np.arange(9.0).reshape(1, 3, 3), {"standard_name": "air_temperature"})}
        )
        made.tas.attrs |= {"units": "K", "coordinates": "lat lon"}
        made["time"] = ("time", [float(k)], {"standard_name": "time", "units": "days since 2000-01-01"})
        for name, standard, units in (("lat", "latitude", "degrees_north"), ("lon", "longitude", "degrees_east")):
            values = first + first.T if mirrored else first if k == 0 else first.T
            made[name] = (dims, values, {"standard_name": standard, "units": units})
        names.append(str(tmp_path / f"{k}.nc"))
        made.to_netcdf(names[-1])
    found = cfagg.aggregate(names)
    assert len([n for n, v in found.data_vars.items() if v.attrs.get("standard_name") == "air_temperature"]) == joined
    assert ("mirror image" in str(found.cfagg.report.why(*names))) == mirrored
