"""Variables that several arrays share, and their names."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np
import pytest

import cfagg
from cfagg.aggregation.names import content_key

LEVEL = {
    "standard_name": "ocean_s_coordinate_g2",
    "units": "1",
    "positive": "up",
    "formula_terms": "s: s_rho C: C eta: zeta depth: h depth_c: hc",
}
HEIGHT = {"standard_name": "sea_surface_height_above_geoid", "units": "m", "coordinates": "lon_rho lat_rho"}


def staggered(path: Path, time: float, order: tuple[str, ...], depth: float = 50.0) -> str:
    """Write one time of an ocean model: variables on three grids and levels over the surface and bottom of one."""
    with netCDF4.Dataset(path, "w") as made:
        for name, size in (("time", 1), ("s_rho", 2), ("y_rho", 3), ("x_rho", 4), ("y_u", 3), ("x_u", 3)):
            made.createDimension(name, size)

        def add(name: str, dims: str, values: Any, **attributes: str) -> None:
            made.createVariable(name, "f8", dims.split())[...] = values
            made[name].setncatts(attributes)

        add("time", "time", time, standard_name="time", units="days since 2000-01-01")
        add("s_rho", "s_rho", [-0.8, -0.2], **LEVEL)
        add("C", "s_rho", [-0.7, -0.1], units="1")
        add("hc", "", 20.0, units="m")
        for grid in ("rho", "u"):
            shape = [made.dimensions[f"{axis}_{grid}"].size for axis in "yx"]
            for name, units in (("lat", "degrees_north"), ("lon", "degrees_east")):
                add(f"{name}_{grid}", f"y_{grid} x_{grid}", np.arange(np.prod(shape)).reshape(shape), units=units)
        add("h", "y_rho x_rho", depth, units="m", coordinates="lon_rho lat_rho")
        for name in order:
            if name == "zeta":
                add("zeta", "time y_rho x_rho", time + np.arange(12.0).reshape(3, 4), **HEIGHT)
                continue
            grid = {"temp": "rho", "u": "u"}[name]
            known = {"temp": "sea_water_temperature", "u": "sea_water_x_velocity"}[name]
            add(
                name, f"time s_rho y_{grid} x_{grid}", time,
                standard_name=known, units="1", coordinates=f"lon_{grid} lat_{grid}",
            )  # fmt: skip
    return str(path)


@pytest.mark.parametrize("order", list(permutations(("zeta", "temp", "u"))))
def test_levels_over_one_surface_are_shared_by_arrays_on_all_grids(tmp_path, order) -> None:
    found = cfagg.aggregate([staggered(tmp_path / f"{k}.nc", float(k), order) for k in range(2)])
    assert set(found.data_vars) == {"C", "hc", "h", "zeta", "temp", "u"}
    assert found.temp.dims[1] == found.u.dims[1] == "s_rho"
    assert found.zeta.encoding["coordinates"] == found.h.encoding["coordinates"] == "lon_rho lat_rho"
    np.testing.assert_array_equal(found.zeta.values[:, 0, 1], [1.0, 2.0])


def test_levels_over_other_bottoms_are_not_shared(tmp_path) -> None:
    files = [
        staggered(tmp_path / "a.nc", 0.0, ("zeta", "temp")),
        staggered(tmp_path / "b.nc", 1.0, ("zeta", "u"), depth=60.0),
    ]
    found = cfagg.aggregate(files)
    assert {found.temp.dims[1], found.u.dims[1]} == {"s_rho", "s_rho_1"}
    assert (found.h.values == 50).all()
    assert (found.h_1.values == 60).all()


@pytest.mark.parametrize("to", ["CF-1.13", "NCA-0.1"])
def test_a_coordinate_that_spans_the_dimension_of_its_name_with_others_keeps_it(tmp_path, to) -> None:
    paths = [str(tmp_path / f"{k}.nc") for k in range(2)]
    for k, path in enumerate(paths):
        with netCDF4.Dataset(path, "w") as made:  # as FVCOM writes its levels
            for name, size in (("time", 1), ("siglay", 2), ("node", 3)):
                made.createDimension(name, size)
            for name, dims, values, said in (
                ("time", "time", k, {"standard_name": "time", "units": "days since 2000-01-01"}),
                ("lat", "node", [1, 2, 4], {"standard_name": "latitude", "units": "degrees_north"}),
                ("siglay", "siglay node", np.arange(6).reshape(2, 3), {"standard_name": "ocean_sigma_coordinate"}),
                ("temp", "time siglay node", k, {"standard_name": "sea_water_temperature", "units": "K"}),
            ):
                made.createVariable(name, "f8", dims.split())[...] = values
                made[name].setncatts(said)
            made["temp"].coordinates = "time siglay lat"
    cfagg.aggregate(paths, output=tmp_path / "all.nc", to=to)
    for found in (cfagg.aggregate(paths), cfagg.read(tmp_path / "all.nc")):
        assert found["temp"].shape == (2, 2, 3)
        assert found["temp"].coords["siglay"].dims == ("siglay", "node")
        assert found["siglay"].values.tolist() == [[0, 1, 2], [3, 4, 5]]


def test_times_along_steps_keep_their_name_in_files_whose_members_stay_apart(tmp_path) -> None:
    paths = [str(tmp_path / f"{k}.nc") for k in range(4)]
    for k, path in enumerate(paths):
        start = 365.0 * (k // 2)
        with netCDF4.Dataset(path, "w") as made:  # as in decadal predictions
            made.createDimension("time", 2)
            for name, dims, values, said in (
                ("time", "time", start + np.array([15, 45]), {"standard_name": "time", "units": "days since 1960-1-1"}),
                ("lead", "time", [15, 45], {"standard_name": "forecast_period", "units": "days"}),
                ("start", "", start, {"standard_name": "forecast_reference_time", "units": "days since 1960-1-1"}),
                ("tas", "time", k, {"standard_name": "air_temperature", "units": "K", "coordinates": "lead start"}),
            ):
                made.createVariable(name, "f8", dims.split())[...] = values
                made[name].setncatts(said)
            made.setncatts({"variant_label": f"r{k % 2 + 1}i1p1f1", "sub_experiment_id": f"s{1960 + k // 2}"})
    with cfagg.aggregate(paths) as found:
        assert "lead_1" not in found.variables
        assert [name for name in found.coords if str(name).startswith("time")] == ["time", "time_1"]


@pytest.mark.parametrize(("time", "bounds"), [("f4", "i4"), ("i8", "f8"), ("i2", "i2")])
def test_equal_coordinates_of_other_types_are_one(tmp_path, time: str, bounds: str) -> None:
    paths = []
    for name, types in (("sea_surface_temperature", ("f8", "f4")), ("sea_water_temperature", (time, bounds))):
        paths.append(str(tmp_path / f"{name}.nc"))
        with netCDF4.Dataset(paths[-1], "w") as made:
            made.createDimension("time", 2)
            made.createDimension("nv", 2)
            made.createVariable("time", types[0], ("time",))[:] = [15, 45]
            made["time"].setncatts({"standard_name": "time", "units": "days since 1870-1-1", "bounds": "time_bnds"})
            made.createVariable("time_bnds", types[1], ("time", "nv"))[:] = [[0, 31], [31, 59]]
            made.createVariable(name, "f4", ("time",))[:] = [1, 2]
            made[name].setncatts({"standard_name": name, "units": "K"})
    with cfagg.aggregate(paths, decode_times=False) as found:
        assert set(found.sizes) == {"time", "nv"}
        assert found["time"].values.tolist() == [15, 45]
        assert found["time_bnds"].values.tolist() == [[0, 31], [31, 59]]


@pytest.mark.parametrize("types", [("i8", "u8"), ("i8", "f8")])
def test_integers_that_reals_would_round_are_equal_only_to_those_of_their_type(types: tuple[str, str]) -> None:
    one, other = (np.array([2**53 + 1], dtype) for dtype in types)
    assert content_key(one) != content_key(other)
    assert content_key(one - 1) == content_key(np.array([2**53], types[1]))
