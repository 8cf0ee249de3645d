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
    # Those of both files are at either.
    assert found.age.shape == (2, 3)
    assert found.age.dims[1] not in (*found.tas.dims, *found.tas_1.dims)


def test_arrays_of_single_files_do_not_have_the_dimension_along_which_others_are_joined(tmp_path) -> None:
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


@pytest.mark.parametrize("grown", [False, True])
def test_shared_dimensions_are_shared_in_an_aggregation_file_that_grows_too(tmp_path, grown) -> None:
    names = [nodes(tmp_path / f"{k}.nc", k, [1, 2, 3]) for k in range(3)]
    cfagg.aggregate(names[:2], output=tmp_path / "all.nc", **_OPTIONS)
    if grown:
        cfagg.aggregate(names[2:], output=tmp_path / "all.nc", append=True, **_OPTIONS)
    with cfagg.read(tmp_path / "all.nc") as found:
        assert found.sizes == {"time": 3 if grown else 2, "node": 3}
        assert found.age.values[-1].tolist() == ([2, 3, 4] if grown else [1, 2, 3])


def curvilinear(path: Path, order: Sequence[str], *, first: float = 0, bounds: bool = False, lat: float = 0) -> Path:
    """Write temperatures with two-dimensional latitudes, and flags without, in an order; return the path."""
    with netCDF4.Dataset(path, "w") as file:
        for name, size in (("yc", 2), ("xc", 3), ("nv", 2)):
            file.createDimension(name, size)
        for name in ("yc", "xc"):
            v = file.createVariable(name, "f4", (name,))
            v[:] = np.arange(v.size) + first
            if bounds:
                v.bounds = f"{name}_bnds"
                file.createVariable(v.bounds, "f4", (name, "nv"))[:] = v[:][:, None] + [-0.5, 0.5]
        file.createVariable("lat", "f4", ("yc", "xc"))[:] = np.arange(6).reshape(2, 3) + lat
        file["lat"].setncatts({"units": "degrees_north", "standard_name": "latitude"})
        for name in order:
            v = file.createVariable(name, "f4", ("yc", "xc"))
            v.setncatts({"long_name": name, "units": "1", **({"coordinates": "lat"} if name == "tas" else {})})
            v[:] = np.arange(6).reshape(2, 3) + first
    return path


@pytest.mark.parametrize("bounds", [False, True])
@pytest.mark.parametrize("order", [["tas", "flag"], ["flag", "tas"]])
def test_places_with_two_dimensional_coordinates_share_their_coordinate_variables_with_others(tmp_path, order, bounds):
    found = cfagg.aggregate([curvilinear(tmp_path / "a.nc", order, bounds=bounds)])
    assert found.tas.dims == found.flag.dims == ("yc", "xc")
    assert {n for n in found.variables if found[n].dims[:1] == ("yc",)} == {
        "tas", "flag", "lat", "yc", *(["yc_bnds"] if bounds else [])
    }  # fmt: skip
    assert found.yc.attrs.get("bounds") == ("yc_bnds" if bounds else None)
    assert [list(found.indexes[n]) for n in ("yc", "xc")] == [[0, 1], [0, 1, 2]]


def test_places_in_a_group_share_their_coordinate_variables_with_others(tmp_path) -> None:
    curvilinear(tmp_path / "a.nc", ["tas", "flag"])
    with netCDF4.Dataset(tmp_path / "a.nc") as a, netCDF4.Dataset(tmp_path / "b.nc", "w") as b:
        group = b.createGroup("PRODUCT")
        for name, dim in a.dimensions.items():
            group.createDimension(name, len(dim))
        for name, of in a.variables.items():
            v = group.createVariable(name, of.dtype, of.dimensions)
            v.setncatts(of.__dict__)
            v[:] = of[:]
    found = cfagg.aggregate([tmp_path / "b.nc"])
    assert found.tas.dims == found.flag.dims == ("yc", "xc")
    assert set(found.indexes) == {"yc", "xc"}


def test_places_of_other_files_with_other_coordinate_variables_have_dimensions_of_their_own(tmp_path) -> None:
    names = [curvilinear(tmp_path / f"{k}.nc", ["tas", "flag"], first=4 * k, lat=k) for k in (0, 1)]
    found = cfagg.aggregate(names)
    for one, flag in (("tas", "flag"), ("tas_1", "flag_1")):
        assert found[one].dims == found[flag].dims
        assert found[found[one].dims[0]].values.tolist() == [found[one].values.min(), found[one].values.min() + 1]


def test_places_without_coordinate_variables_are_those_of_the_first_file_with_such_dimensions(tmp_path) -> None:
    names = [curvilinear(tmp_path / f"{k}.nc", ["tas"], first=4 * k, lat=k) for k in (0, 1)]
    with netCDF4.Dataset(tmp_path / "grid.nc", "w") as file:
        for name, size in (("yc", 2), ("xc", 3)):
            file.createDimension(name, size)
        file.createVariable("area", "f4", ("yc", "xc"))[:] = 1
    found = cfagg.aggregate([*names, tmp_path / "grid.nc"])
    assert found.area.dims == found.tas.dims == ("yc", "xc")


def labelled(path: Path, order: Sequence[str], lat: float = 0) -> Path:
    """Write an array with latitudes along a dimension of labels, and one without; return the path."""
    with netCDF4.Dataset(path, "w") as file:
        file.createDimension("place", 3)
        file.createVariable("place", "i4", ("place",))[:] = [1, 2, 3]
        file.createVariable("lat", "f4", ("place",))[:] = np.arange(3) + lat
        file["lat"].setncatts({"units": "degrees_north", "standard_name": "latitude"})
        for name in order:
            v = file.createVariable(name, "f4", ("place",))
            v.setncatts({"long_name": name, "units": "1", **({"coordinates": "lat"} if name == "pr" else {})})
            v[:] = np.arange(3) + lat
    return path


@pytest.mark.parametrize("order", [["pr", "tas"], ["tas", "pr"]])
def test_arrays_with_labels_share_the_dimension_of_those_with_other_coordinates_there(tmp_path, order) -> None:
    found = cfagg.aggregate([labelled(tmp_path / "a.nc", order)])
    assert found.sizes == {"place": 3}
    assert set(found.variables) == {"place", "lat", "pr", "tas"}
    assert found.indexes["place"].tolist() == [1, 2, 3]


@pytest.mark.parametrize("order", [["pr", "tas"], ["tas", "pr"]])
def test_equal_labels_of_other_places_do_not_get_the_coordinates_of_these(tmp_path, order) -> None:
    found = cfagg.aggregate([labelled(tmp_path / "a.nc", order), labelled(tmp_path / "b.nc", order, lat=7)])
    for name in ("pr", "tas", "pr_1", "tas_1"):
        of = [c for c in found[name].coords if c.startswith("lat")]
        assert len(of) == 1
        assert found[of[0]].values.tolist() == found[name].values.tolist()
    np.testing.assert_array_equal(found.pr.dims, found.tas.dims)


def test_arrays_whose_labels_say_something_else_than_those_of_another_file_have_a_dimension_of_their_own(
    tmp_path,
) -> None:
    names = [nodes(tmp_path / f"{k}.nc", k, [1, 2, 3]) for k in (0, 1)]
    for k, name in enumerate(names):
        with netCDF4.Dataset(name, "a") as file:
            file.createVariable("node", "i4", ("node",))[:] = [4, 5, 6]
            file["node"].setncatts({"comment": f"run {k}", "units": "1"})
    found = cfagg.aggregate(names)
    assert [found[found[n].dims[0]].comment for n in ("area", "area_1")] == ["run 0", "run 1"]


def test_arrays_some_of_whose_files_lack_coordinate_variables_are_read(tmp_path) -> None:
    whole = curvilinear(tmp_path / "a.nc", ["tas", "flag"])
    with netCDF4.Dataset(whole) as a, netCDF4.Dataset(tmp_path / "bare.nc", "w") as b:
        for name, dim in a.dimensions.items():
            b.createDimension(name, len(dim))
        for name in ("lat", "tas"):
            v = b.createVariable(name, "f4", a[name].dimensions)
            v.setncatts(a[name].__dict__)
            v[:] = a[name][:]
    found = cfagg.aggregate([whole, tmp_path / "bare.nc"], on_overlap="equal")
    assert list(found.data_vars) == ["tas", "flag", "tas_1"]
    for name in ("tas", "tas_1"):
        np.testing.assert_array_equal(found[name], np.arange(6).reshape(2, 3))


def test_terms_with_dimensions_that_their_array_lacks_have_those_of_other_arrays(tmp_path) -> None:
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as file:
        for name, size in (("lev", 2), ("lat", 3), ("bnds", 2)):
            file.createDimension(name, size)
        for name, dims in (("lev", ("lev",)), ("b", ("lev",)), ("lat", ("lat",)), ("ps", ("lat",))):
            v = file.createVariable(name, "f8", dims)
            v[:] = np.arange(v.size)
        file["lat"].setncatts({"units": "degrees_north", "standard_name": "latitude"})
        file["lev"].bounds, file["b"].bounds = "lev_bnds", "b_bnds"
        for name in ("lev_bnds", "b_bnds"):
            file.createVariable(name, "f8", ("lev", "bnds"))[:] = np.arange(4).reshape(2, 2)
        file["lev_bnds"].standard_name = "atmosphere_sigma_coordinate"
        file["lev_bnds"].formula_terms = "sigma: b_bnds ps: ps ptop: ptop"
        file.createVariable("ptop", "f8", ())[...] = 3
        v = file.createVariable("cl", "f4", ("lev", "lat"))
        v.setncatts({"standard_name": "cloud_area_fraction", "units": "1"})
        v[:] = 0
    found = cfagg.aggregate([tmp_path / "a.nc"])
    assert found.cl.dims == ("lev", "lat")
    assert found.ps.dims == ("lat",)
    assert "lat" in found.indexes


def test_arrays_that_do_not_name_a_mesh_have_its_dimensions_in_their_files(tmp_path) -> None:
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as file:
        for name, size in (("node", 4), ("face", 2), ("three", 3)):
            file.createDimension(name, size)
        mesh = file.createVariable("mesh", "i4", ())
        mesh.setncatts({
            "cf_role": "mesh_topology", "topology_dimension": 2, "node_coordinates": "lon lat",
            "face_node_connectivity": "nv",
        })  # fmt: skip
        file.createVariable("nv", "i4", ("face", "three"))[:] = [[0, 1, 2], [1, 2, 3]]
        for name, units in (("lon", "degrees_east"), ("lat", "degrees_north")):
            file.createVariable(name, "f4", ("node",))[:] = np.arange(4)
            file[name].units = units
        for name, dims in (("x", ("node",)), ("h", ("node",)), ("w", ("face",)), ("u", ("face",))):
            v = file.createVariable(name, "f4", dims)
            v.setncatts({"long_name": name, "units": "m"})
            if name in "hu":
                v.setncatts({"mesh": "mesh", "location": dims[0]})
            if name == "h":
                v.coordinates = "lon lat"
            v[:] = np.arange(v.size)
    found = cfagg.aggregate([tmp_path / "a.nc"])
    assert [found[n].dims for n in ("x", "h", "w", "u")] == [("node",), ("node",), ("face",), ("face",)]


@pytest.mark.parametrize("order", ["hu", "uh"])
def test_nodes_of_faces_may_be_stored_node_by_node(tmp_path, order) -> None:
    names = []
    for k in (0, 1):
        names.append(tmp_path / f"{k}.nc")
        with netCDF4.Dataset(names[-1], "w") as file:
            for name, size in (("time", 1), ("node", 5), ("face", 2), ("three", 3)):
                file.createDimension(name, size)
            file.createVariable("time", "f8", ("time",))[:] = k
            file["time"].setncatts({"units": "days since 2000-01-01", "standard_name": "time"})
            mesh = file.createVariable("mesh", "i4", ())
            mesh.setncatts({
                "cf_role": "mesh_topology", "topology_dimension": 2, "node_coordinates": "lon lat",
                "face_coordinates": "lonc latc", "face_node_connectivity": "nv",
            })  # fmt: skip
            file.createVariable("nv", "i4", ("three", "face"))[:] = [[0, 1], [1, 2], [2, 3]]
            for name in ("lon", "lat", "lonc", "latc"):
                v = file.createVariable(name, "f4", ("face" if name[-1] == "c" else "node",))
                v[:] = np.arange(v.size)
                v.units = "degrees_east" if "lon" in name else "degrees_north"
            for name in order:
                v = file.createVariable(name, "f4", ("time", "node" if name == "h" else "face"))
                v.setncatts({"long_name": name, "units": "m", "mesh": "mesh"})
                v.coordinates = "time lat lon" if name == "h" else "time latc lonc"
                v[:] = np.arange(v.size) + k
    found = cfagg.aggregate(names, relaxed_identities=True)
    assert set(found.variables) == {"time", "mesh", "nv", "lon", "lat", "lonc", "latc", "h", "u"}
    assert found.sizes == {"time": 2, "node": 5, "face": 2, "three": 3}
    nodes_of = found.nv.transpose("three", "face").values
    assert nodes_of.tolist() == [[0, 1], [1, 2], [2, 3]]


def test_nodes_of_files_with_a_coordinate_variable_are_not_those_of_files_without_on_an_equal_mesh(tmp_path) -> None:
    for k, variables in enumerate([("tas",), ("tas", "area")]):
        with netCDF4.Dataset(tmp_path / f"{k}.nc", "w") as file:
            for name, size in (("node", 3), ("face", 1)):
                file.createDimension(name, size)
            mesh = file.createVariable("mesh", "i4")
            mesh.setncatts({"cf_role": "mesh_topology", "topology_dimension": np.int32(2)})
            mesh.setncatts({"node_coordinates": "lat", "face_node_connectivity": "nv"})
            file.createVariable("nv", "i4", ("face", "node"))[:] = [[0, 1, 2]]
            file.createVariable("lat", "f4", ("node",))[:] = [1, 2, 3]
            file["lat"].setncatts({"units": "degrees_north", "standard_name": "latitude"})
            if k:
                file.createVariable("node", "f4", ("node",))[:] = [10, 20, 30]
                file["node"].setncatts({"units": "m", "standard_name": "altitude"})
            for name in variables:
                v = file.createVariable(name, "f4", ("node",))
                v.setncatts({"units": "K", "long_name": name})
                v[:] = np.arange(3) + 10 * k
                if name == "tas":
                    v.setncatts({"mesh": "mesh", "location": "node"})
    found = cfagg.aggregate([tmp_path / "0.nc", tmp_path / "1.nc"])
    assert [list(found[n].coords) for n in ("tas", "tas_1")] == [[], list(found.area.coords)]
    assert found.area.dims == found.tas_1.dims


def test_equal_coordinates_along_coordinate_variables_that_differ_have_dimensions_of_their_own(tmp_path) -> None:
    for k in (0, 1):
        nodes(tmp_path / f"{k}.nc", k, [1, 2, 3])
        with netCDF4.Dataset(tmp_path / f"{k}.nc", "a") as file:
            file.createVariable("node", "i4", ("node",))[:] = np.arange(3) + 10 * k
    found = cfagg.aggregate([tmp_path / "0.nc", tmp_path / "1.nc"])
    arrays = [v for n, v in found.data_vars.items() if n.startswith("tas")]
    assert [[v[c].values.tolist() for c in v.coords if c.startswith("node")] for v in arrays] == [
        [[0, 1, 2]],
        [[10, 11, 12]],
    ]
