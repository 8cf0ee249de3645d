"""References across groups by paths: in an aggregation they name the variables where they are then."""

from __future__ import annotations

from pathlib import Path

import netCDF4
import numpy as np
import pytest

import cfagg


def grouped(path: Path, to: str, begin: float = 0) -> Path:
    """Write temperatures in an inner group, and what they refer to, by names that begin with `to`, in an outer one."""
    with netCDF4.Dataset(path, "w") as file:
        for dim, size, own in (
            ("time", 2, {"standard_name": "time", "units": "days since 2000-01-01"}),
            ("y", 3, {"standard_name": "projection_y_coordinate", "units": "m"}),
            ("x", 2, {"standard_name": "projection_x_coordinate", "units": "m"}),
        ):
            file.createDimension(dim, size)
            made = file.createVariable(dim, "f8", (dim,))
            made.setncatts(own)
            made[:] = np.arange(size) + (begin if dim == "time" else 0)
        outer = file.createGroup("outer")
        outer.createVariable("crs", "i4").setncatts({"grid_mapping_name": "transverse_mercator"})
        for name, own in (
            ("lat", {"standard_name": "latitude", "units": "degrees_north"}),
            ("area", {"standard_name": "cell_area", "units": "m2"}),
            ("error", {"standard_name": "air_temperature standard_error", "units": "K"}),
        ):
            made = outer.createVariable(name, "f8", ("y", "x"))
            made.setncatts(own)
            made[:] = np.arange(6).reshape(3, 2)
        tas = outer.createGroup("inner").createVariable("tas", "f4", ("time", "y", "x"))
        tas.setncatts({
            "standard_name": "air_temperature", "units": "K", "grid_mapping": f"{to}crs: x y",
            "coordinates": f"{to}lat", "cell_measures": f"area: {to}area", "ancillary_variables": f"{to}error",
        })  # fmt: skip
        tas[:] = np.arange(12).reshape(2, 3, 2) + begin
    return path


@pytest.mark.parametrize("to", ["/outer/", "../", ""])
def test_references_name_variables_of_the_aggregation(tmp_path: Path, to: str) -> None:
    files = [grouped(tmp_path / f"{k}.nc", to, 2 * k) for k in range(2)]
    cfagg.aggregate(files, output=tmp_path / "all.nc")
    with netCDF4.Dataset(tmp_path / "all.nc") as file:
        found = {k: file["tas"].getncattr(k) for k in ("grid_mapping", "coordinates", "cell_measures")}
        assert found == {"grid_mapping": "crs: x y", "coordinates": "lat", "cell_measures": "area: area"}
        assert file["tas"].ancillary_variables == "error"
        assert {"crs", "lat", "area", "error"} <= set(file.variables)


def test_grid_mappings_of_one_name_in_two_groups_are_both_kept(tmp_path: Path) -> None:
    path = grouped(tmp_path / "a.nc", "/outer/")
    with netCDF4.Dataset(path, "a") as file:
        file.createVariable("crs", "i4").setncatts({"grid_mapping_name": "latitude_longitude"})
        file["outer/inner/tas"].grid_mapping = "/outer/crs: x y /crs: /outer/lat"
    cfagg.aggregate([path], output=tmp_path / "all.nc")
    with netCDF4.Dataset(tmp_path / "all.nc") as file:
        first, *_, second, last = file["tas"].grid_mapping.replace(":", "").split()
        assert file[first].grid_mapping_name == "transverse_mercator"
        assert (file[second].grid_mapping_name, last) == ("latitude_longitude", "lat")


def test_coordinates_in_a_group_keep_their_dimensions_under_other_names(tmp_path: Path) -> None:
    place = {"latitude": "degrees_north", "longitude": "degrees_east"}
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as file:  # as Sentinel-5P has it
        group = file.createGroup("PRODUCT")
        for name, size in {"time": 1, "scanline": 3, "pixel": 2}.items():
            group.createDimension(name, size)
            group.createVariable(name, "i4", (name,))[:] = np.arange(size)
        group["time"].setncatts({"standard_name": "time", "units": "days since 2000-01-01"})
        group.createVariable("delta", "i4", ("time", "scanline"))[:] = [[1, 2, 3]]
        for name, units in place.items():
            group.createVariable(name, "f4", ("time", "scanline", "pixel"))[:] = np.arange(6).reshape(1, 3, 2)
            group[name].setncatts({"standard_name": name, "units": units})
        group.createVariable("no2", "f4", ("time", "scanline", "pixel"))[:] = np.ones((1, 3, 2))
        group["no2"].coordinates = "longitude latitude"
    with cfagg.aggregate(tmp_path / "a.nc") as found:
        for name in ("delta", "no2"):
            dimension = found[name].dims[1]
            assert found[name].coords[dimension].values.tolist() == [0, 1, 2]
            assert dimension in found.indexes


def test_coordinates_in_a_group_keep_bounds_that_are_in_another(tmp_path: Path) -> None:
    names = []
    for day in (0, 1):
        names.append(tmp_path / f"{day}.nc")
        with netCDF4.Dataset(names[-1], "w") as file:  # as Sentinel-5P has it
            group = file.createGroup("PRODUCT")
            for name, size in {"time": 1, "pixel": 2, "corner": 4}.items():
                group.createDimension(name, size)
            group.createVariable("time", "i4", ("time",))[:] = day
            group["time"].setncatts({"standard_name": "time", "units": "days since 2000-01-01"})
            group.createVariable("latitude", "f4", ("time", "pixel"))[:] = [[day, day + 1]]
            cells = {"bounds": "/PRODUCT/support/latitude_bounds"}
            group["latitude"].setncatts({"standard_name": "latitude", "units": "degrees_north", **cells})
            inner = group.createGroup("support")
            inner.createVariable("latitude_bounds", "f4", ("time", "pixel", "corner"))[:] = np.full((1, 2, 4), day)
            group.createVariable("no2", "f4", ("time", "pixel"))[:] = np.ones((1, 2))
            group["no2"].setncatts({"standard_name": "air_temperature", "units": "K", "coordinates": "latitude"})
    with cfagg.aggregate(names) as found:
        assert found["no2"].sizes["time"] == 2
        bounds = found[found["latitude"].attrs["bounds"]]
        assert bounds[:, 0, 0].values.tolist() == [0, 1]
