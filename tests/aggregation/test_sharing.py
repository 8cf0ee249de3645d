"""Arrays without coordinates along a dimension share it with arrays of the same files that have some."""

from collections.abc import Sequence
from pathlib import Path

import netCDF4
import numpy as np
import pytest

import cfagg

_OPTIONS = {"relaxed_identities": True, "on_overlap": "equal"}


def nodes(path: Path, day: float, places: Sequence[float]) -> Path:
    """Write temperatures at nodes with latitudes, and depths, areas and ages without; return the path."""
    with netCDF4.Dataset(path, "w") as file:
        file.createDimension("time", None)
        file.createDimension("node", len(places))
        time = file.createVariable("time", "f8", ("time",))
        time.setncatts({"units": "days since 2000-01-01", "standard_name": "time"})
        time[:] = [day]
        lat = file.createVariable("lat", "f4", ("node",))
        lat.setncatts({"units": "degrees_north", "standard_name": "latitude"})
        lat[:] = places
        for name, dims in (("tas", ("time", "node")), ("age", ("time", "node")), ("area", ("node",))):
            v = file.createVariable(name, "f4", dims)
            v.setncatts({"units": "K", "long_name": name})
            v[0 if len(dims) == 2 else slice(None)] = np.arange(len(places)) + (day if len(dims) == 2 else places[0])
            if name == "tas":
                v.coordinates = "lat"
    return path


def test_arrays_without_coordinates_have_the_dimension_of_those_of_their_files_that_have_some(tmp_path) -> None:
    found = cfagg.aggregate([nodes(tmp_path / f"{k}.nc", k, [1, 2, 3]) for k in (0, 1)], **_OPTIONS)
    assert found.sizes == {"time": 2, "node": 3}
    assert [found[n].dims for n in ("tas", "age", "area")] == [("time", "node"), ("time", "node"), ("node",)]
    assert found.age.values.tolist() == [[0, 1, 2], [1, 2, 3]]


def test_dimensions_are_those_of_the_array_with_coordinates_whichever_comes_first(tmp_path) -> None:
    nodes(tmp_path / "a.nc", 0, [1, 2, 3])
    with netCDF4.Dataset(tmp_path / "a.nc") as a, netCDF4.Dataset(tmp_path / "b.nc", "w") as b:
        for name, dim in a.dimensions.items():
            b.createDimension(name, len(dim))
        for name in ("time", "lat", "area", "age", "tas"):
            v = b.createVariable(name, a[name].dtype, a[name].dimensions)
            v.setncatts(a[name].__dict__)
            v[:] = a[name][:]
    assert cfagg.aggregate([tmp_path / "b.nc"]).sizes == {"time": 1, "node": 3}


def test_arrays_of_files_with_other_places_have_dimensions_of_their_own(tmp_path) -> None:
    names = [nodes(tmp_path / f"{k}.nc", k, at) for k, at in enumerate([[1, 2, 3], [6, 5, 3]])]
    found = cfagg.aggregate(names, relaxed_identities=True)
    assert [list(found[n].coords) for n in ("area", "area_1")] == [["lat"], ["lat_1"]]
    assert [found[n].values.tolist() for n in ("lat", "lat_1")] == [[1, 2, 3], [6, 5, 3]]
    assert found.area.dims == found.tas.dims[1:] != found.tas_1.dims[1:] == found.area_1.dims


def test_arrays_of_single_files_have_not_the_dimension_along_which_others_are_joined(tmp_path) -> None:
    names = [nodes(tmp_path / f"{k}.nc", 0, at) for k, at in enumerate([[1, 2, 3], [4, 5, 6]])]
    found = cfagg.aggregate(names, relaxed_identities=True)
    assert found.tas.sizes == {"time": 1, "node": 6}
    assert [found[n].dims != ("node",) for n in ("area", "area_1")] == [True, True]
    assert [found[n].values.tolist() for n in ("area", "area_1")] == [[1, 2, 3], [4, 5, 6]]


def test_arrays_whose_files_are_turned_for_those_with_coordinates_have_dimensions_of_their_own(tmp_path) -> None:
    names = [nodes(tmp_path / f"{k}.nc", k, at) for k, at in enumerate([[1, 2, 3], [3, 2, 1]])]
    found = cfagg.aggregate(names, relaxed_identities=True)
    assert found.tas.values.tolist() == [[0, 1, 2], [3, 2, 1]]
    assert found.age.values.tolist() == [[0, 1, 2], [1, 2, 3]]
    assert found.age.dims[1] != found.tas.dims[1]


def test_variables_of_one_file_stay_two_if_their_values_are_equal(tmp_path) -> None:
    names = []
    for k in (0, 1):
        names.append(nodes(tmp_path / f"{k}.nc", k, [1, 2, 3]))
        with netCDF4.Dataset(names[-1], "a") as file:
            for name in ("mean", "peak"):
                v = file.createVariable(name, "f4", ("time", "node"))
                v.setncatts({"standard_name": "sea_surface_wave_from_direction", "units": "degree"})
                v.coordinates = "lat"
                v[0] = np.zeros(3)
    found = cfagg.aggregate(names, on_overlap="equal")
    assert [found[n].shape for n in ("mean", "peak")] == [(2, 3), (2, 3)]


@pytest.mark.parametrize("output", [False, True])
def test_shared_dimensions_are_shared_in_an_aggregation_file_that_grows_too(tmp_path, output) -> None:
    names = [nodes(tmp_path / f"{k}.nc", k, [1, 2, 3]) for k in range(3)]
    cfagg.aggregate(names[:2], output=tmp_path / "all.nc", **_OPTIONS)
    if output:
        cfagg.aggregate(names[2:], output=tmp_path / "all.nc", append=True, **_OPTIONS)
    with cfagg.read(tmp_path / "all.nc") as found:
        assert found.sizes == {"time": 3 if output else 2, "node": 3}
        assert found.age.values[-1].tolist() == [2, 3, 4] if output else [1, 2, 3]
