"""What variables of several arrays refer to: what is equal is shared only where it refers to the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import netCDF4
import numpy as np
import numpy.testing as npt
import pytest
import xarray as xr

import cfagg
from cfagg.cf.joining import describing

TIME = {"standard_name": "time", "units": "days since 2000-01-01"}
LATITUDE = {"standard_name": "latitude", "units": "degrees_north"}
LONGITUDE = {"standard_name": "longitude", "units": "degrees_east"}
NAMES = {"ta": ("air_temperature", "K"), "ua": ("eastward_wind", "m s-1"), "va": ("northward_wind", "m s-1")}


def written(path: Path, sizes: dict[str, int], variables: dict[str, Any], **attributes: Any) -> str:
    """Write a file; each variable has its type, dimensions, values and attributes."""
    with netCDF4.Dataset(path, "w") as file:
        file.setncatts(attributes)
        for name, size in sizes.items():
            file.createDimension(name, size)
        for name, (dtype, dims, values, own) in variables.items():
            made = file.createVariable(name, dtype, dims)
            made.setncatts(own)
            made[...] = values
    return str(path)


def data(name: str, dims: tuple[str, ...], values: Any, **attributes: Any) -> dict[str, Any]:
    standard, units = NAMES[name]
    return {name: ("f4", dims, values, {"standard_name": standard, "units": units, **attributes})}


def on_levels(path: Path, name: str, pressure: float | None, a: float = 1.0) -> str:
    """Write data on hybrid levels over a surface pressure, or without what their formula needs."""
    level = {"standard_name": "atmosphere_hybrid_sigma_pressure_coordinate", "units": "1", "bounds": "lev_bnds"}
    made = data(name, ("time", "lev"), [[1.0, 2.0]]) | {
        "time": ("f8", ("time",), [0.0], TIME),
        "lev": ("f8", ("lev",), [0.1, 0.9], {**level, "formula_terms": "ap: ap b: b ps: ps"}),
        "lev_bnds": ("f8", ("lev", "two"), [[0, 0.5], [0.5, 1]], {"formula_terms": "ap: ap_bnds b: b_bnds ps: ps"}),
    }
    for term, value in (("ap", a), ("b", 0.5)):
        made[term] = ("f8", ("lev",), [value, value], {"units": "1"})
        made[f"{term}_bnds"] = ("f8", ("lev", "two"), np.full((2, 2), value), {"units": "1"})
    if pressure is not None:
        made["ps"] = ("f8", ("time",), [pressure], {"standard_name": "surface_air_pressure", "units": "Pa"})
    return written(path, {"time": 1, "lev": 2, "two": 2}, made)


def terms(found: Any, name: str, of: str = "") -> dict[str, Any]:
    """Return the values of the terms of the level coordinate of an array, or of its bounds."""
    level = found[next(d for d in found[name].dims if d.startswith("lev"))]
    if of:
        level = found[level.attrs["bounds"]]
    words = level.attrs["formula_terms"].replace(":", "").split()
    for term in words[1::2]:
        assert set(found[term].dims) <= {*found[name].dims, "two"} if term in found else True
    return {k: found[v].values.ravel()[0] if v in found else v for k, v in zip(words[::2], words[1::2], strict=True)}


def test_equal_levels_over_other_surface_pressures_have_formula_terms_of_their_own(tmp_path: Path) -> None:
    files = [on_levels(tmp_path / f"{name}.nc", name, ps) for name, ps in zip(NAMES, (1, 2, 2), strict=True)]
    with cfagg.aggregate(files, decode_times=False) as found:
        for name, ps in zip(NAMES, (1, 2, 2), strict=True):
            assert terms(found, name) == terms(found, name, "bounds") == {"ap": 1, "b": 0.5, "ps": ps}
        assert found["ua"].dims == found["va"].dims != found["ta"].dims
    cfagg.aggregate(files, output=tmp_path / "all.nc")
    with cfagg.read(tmp_path / "all.nc", decode_times=False) as read:
        assert [terms(read, name)["ps"] for name in NAMES] == [1, 2, 2]
    tree = cfagg.aggregate(files, as_tree=True, decode_times=False)
    for name, ps in zip(NAMES, (1, 2, 2), strict=True):
        (group,) = (g.to_dataset() for g in tree.subtree if name in g.data_vars)
        assert terms(group, name)["ps"] == ps


def test_levels_with_other_terms_are_shared_by_all_that_have_these(tmp_path: Path) -> None:
    given = ((1.0, 1), (2.0, 2), (2.0, 2))
    files = [on_levels(tmp_path / f"{name}.nc", name, p, a) for name, (a, p) in zip(NAMES, given, strict=True)]
    with cfagg.aggregate(files, decode_times=False) as found:
        assert [terms(found, name) for name in NAMES] == [{"ap": a, "b": 0.5, "ps": p} for a, p in given]
        assert [v for v in found.variables if str(v).startswith("lev")] == ["lev_bnds", "lev_bnds_1", "lev", "lev_1"]


def test_a_term_that_a_file_does_not_have_is_not_that_of_another_file(tmp_path: Path) -> None:
    for order in ((1, None), (None, 1)):
        given = dict(zip(("ta", "ua"), order, strict=True))
        files = [on_levels(tmp_path / f"{name}.nc", name, ps) for name, ps in given.items()]
        with cfagg.aggregate(files, decode_times=False) as found:
            for name, ps in given.items():
                assert terms(found, name)["ps"] == (ps or "ps_1")
            assert "ps_1" not in found


def test_an_ancillary_variable_that_a_file_does_not_have_is_not_that_of_another_file(tmp_path: Path) -> None:
    files = []
    for k, name in enumerate(("ta", "ua")):
        made = data(name, ("time",), [1.0], ancillary_variables="flags", cell_measures="area: cells")
        made["time"] = ("f8", ("time",), [0.0], TIME)
        if not k:
            made["flags"] = ("i1", ("time",), [1], {"standard_name": "status_flag"})
        elif k:
            made["cells"] = ("f8", ("time",), [1], {"standard_name": "cell_area", "units": "m2"})
        files.append(written(tmp_path / f"{k}.nc", {"time": 1}, made, external_variables="cells" if not k else ""))
    with cfagg.aggregate(files, decode_times=False) as found:
        assert found["ta"].attrs["ancillary_variables"] == "flags"
        assert found["ua"].attrs["ancillary_variables"] == "flags_1"
        assert "flags_1" not in found
        # Its file says that it stands in another one, and it has the dimensions of the array.
        assert found["ta"].attrs["cell_measures"] == "area: cells"


@pytest.mark.parametrize("mapping", ["crs", None])
def test_data_that_have_the_name_of_their_grid_mapping_as_an_attribute_are_an_array(
    tmp_path: Path, mapping: str | None
) -> None:
    said = {"grid_mapping_name": "latitude_longitude"}
    own = said | ({} if mapping is None else {"grid_mapping": mapping})
    made = data("ta", ("time", "y", "x"), np.ones((1, 1, 2)), **own)
    made |= {"crs": ("i4", (), 0, said), "time": ("f8", ("time",), [0.0], TIME)}
    path = written(tmp_path / "a.nc", {"time": 1, "y": 1, "x": 2}, made)
    with cfagg.aggregate(path, decode_times=False) as found:
        npt.assert_array_equal(found["ta"].values, np.ones((1, 1, 2)))
        assert ("crs" in found) == (mapping == "crs")


def mesh(path: Path, time: float, *, first: int = 0, east: float = 1.0, names: str = "mesh x y nodes") -> str:
    """Write data on the two triangles of a square."""
    own, x, y, nodes = names.split()
    topology = {"cf_role": "mesh_topology", "topology_dimension": 2}
    made = data("ta", ("time", "face"), [[time, time + 0.5]], mesh=own, location="face") | {
        own: ("i4", (), 0, {**topology, "node_coordinates": f"{x} {y}", "face_node_connectivity": nodes}),
        x: ("f8", ("node",), [0, east, east, 0], LONGITUDE),
        y: ("f8", ("node",), [0, 0, 1, 1], LATITUDE),
        nodes: ("i4", ("face", "three"), np.array([[0, 1, 2], [0, 2, 3]]) + first, {"start_index": np.int32(first)}),
        "time": ("f8", ("time",), [time], TIME),
    }
    return written(path, {"time": 1, "node": 4, "face": 2, "three": 3}, made)


@pytest.mark.parametrize("other", [{}, {"first": 1}, {"names": "M X Y N"}], ids=["alike", "from 1", "other names"])
def test_times_on_one_mesh_are_one_array_with_its_topology(tmp_path: Path, other: Any) -> None:
    files = [mesh(tmp_path / "0.nc", 0), mesh(tmp_path / "1.nc", 1, **other)]
    for order in (files, files[::-1]):
        with cfagg.aggregate(order, decode_times=False) as found:
            npt.assert_array_equal(found["ta"].values, [[0, 0.5], [1, 1.5]])
            topology = found[found["ta"].attrs["mesh"]]
            nodes = found[topology.attrs["face_node_connectivity"]]
            npt.assert_array_equal(nodes.values - nodes.attrs["start_index"], [[0, 1, 2], [0, 2, 3]])
            npt.assert_array_equal(found[topology.attrs["node_coordinates"].split()[0]].values, [0, 1, 1, 0])


@pytest.mark.parametrize("turned", [0, 1])
def test_connectivity_has_the_dimension_first_that_its_mesh_means(tmp_path: Path, turned: int) -> None:
    files = [mesh(tmp_path / f"{k}.nc", 0) for k in (0, 1)]  # of one time, and so apart
    with netCDF4.Dataset(files[turned], "a") as file:
        made = file.createVariable("across", "i4", ("three", "face"))
        made[...] = file["nodes"][...].T
        file["mesh"].setncatts({"face_node_connectivity": "across", "face_dimension": "face"})
    with cfagg.aggregate(files, decode_times=False) as found:
        for name in ("ta", "ta_1"):
            topology = found[found[name].attrs["mesh"]].attrs
            nodes = found[topology["face_node_connectivity"]]
            faces = nodes.transpose(topology.get("face_dimension", nodes.dims[0]), ...)
            assert faces.dims[0] == found[name].dims[-1]
            npt.assert_array_equal(faces.values, [[0, 1, 2], [0, 2, 3]])


def test_meshes_name_the_dimensions_that_their_own_connectivity_has(tmp_path: Path) -> None:
    path = mesh(tmp_path / "0.nc", 0)
    with netCDF4.Dataset(path, "a") as file:
        file.createVariable("across", "i4", ("three", "face"))[...] = file["nodes"][...].T
        file["mesh"].setncatts({"face_node_connectivity": "across", "face_dimension": "face"})
        file.createVariable("ua", "f4", ("time", "node")).setncatts(
            {"standard_name": "eastward_wind", "units": "m s-1", "mesh": "mesh", "location": "node"}
        )
        for name, own in (("fx", LONGITUDE), ("fy", LATITUDE)):  # of the faces, which `ua` does not have
            made = file.createVariable(name, "f8", ("face",))
            made.setncatts(own)
            made[...] = [0.25, 0.75]
        file["ta"].setncatts({"coordinates": "fx fy"})
    with cfagg.aggregate([path], decode_times=False) as found:
        for name in ("ta", "ua"):
            topology = found[found[name].attrs["mesh"]].attrs
            faces = found[topology["face_node_connectivity"]].transpose(topology["face_dimension"], "three")
            npt.assert_array_equal(faces.values, [[0, 1, 2], [0, 2, 3]])


@pytest.mark.parametrize("files", [1, 2])
def test_arrays_at_faces_and_nodes_of_one_mesh_share_it(tmp_path: Path, files: int) -> None:
    paths = [mesh(tmp_path / f"{k}.nc", k) for k in range(files)]
    for path in paths:
        with netCDF4.Dataset(path, "a") as file:
            for name, own in (("fx", LONGITUDE), ("fy", LATITUDE)):
                made = file.createVariable(name, "f8", ("face",))
                made.setncatts(own)
                made[...] = [0.75, 0.25]
            file["mesh"].setncatts({"face_coordinates": "fx fy", "node_dimension": "node", "face_dimension": "face"})
            file["ta"].coordinates = "fx fy"
            made = file.createVariable("ua", "f4", ("time", "node"))
            made.setncatts({"standard_name": "eastward_wind", "units": "m s-1", "mesh": "mesh", "location": "node"})
            made.coordinates = "x y"
    with cfagg.aggregate(paths, decode_times=False) as found:
        assert [name for name in found.variables if str(name).startswith("mesh")] == ["mesh"]
        assert (found["ta"].dims[-1], found["ua"].dims[-1]) == ("face", "node")
        assert found["mesh"].attrs["node_coordinates"] == "x y"
        assert found["mesh"].attrs["face_coordinates"] == "fx fy"
        for name, dim in (("x", "node"), ("fy", "face"), ("nodes", "face")):
            assert found[name].dims[0] == dim


def test_components_along_a_dimension_of_the_connectivity_share_the_mesh_of_others(tmp_path: Path) -> None:
    path = mesh(tmp_path / "0.nc", 0)
    with netCDF4.Dataset(path, "a") as file:
        file.createVariable("wind", "f4", ("time", "node", "three")).setncatts(
            {"standard_name": "wind_speed", "units": "m s-1", "mesh": "mesh", "location": "node"}
        )
    with cfagg.aggregate([path], relaxed_identities=True) as found:
        assert [name for name in found.variables if str(name).startswith("mesh")] == ["mesh"]
        assert found["nodes"].dims == ("face", "three")


def test_an_aggregation_on_a_mesh_grows_to_that_of_all_files_at_once(tmp_path: Path) -> None:
    paths = [mesh(tmp_path / f"{k}.nc", k) for k in range(2)]
    for path in paths:
        with_corners(path)
    made = []
    for place, steps in (("once", [paths]), ("grown", [[path] for path in paths])):
        (tmp_path / place).mkdir()
        for k, files in enumerate(steps):
            cfagg.aggregate(files, output=tmp_path / place / "OUT.nc", append=k > 0)
        made.append((tmp_path / place / "OUT.nc").read_bytes())
    assert made[0] == made[1]


def with_corners(path: str, wide: float = 0.5, *, first: bool = False) -> None:
    """Add coordinates of faces with bounds to a file with a mesh, and winds at its nodes, `first` or last."""
    with netCDF4.Dataset(path, "a") as file:
        for name, own in (("fx", LONGITUDE), ("fy", LATITUDE)):
            file.createVariable(name, "f8", ("face",)).setncatts({**own, "bounds": f"{name}_corners"})
            file.createVariable(f"{name}_corners", "f8", ("face", "three"))[...] = [[0, 0, wide], [1, 1, 1 - wide]]
            file[name][...] = [0.25, 0.75]
        file["mesh"].setncatts({"face_coordinates": "fx fy", "node_dimension": "node", "face_dimension": "face"})
        file["ta"].coordinates = "fx fy"
        said = {"standard_name": "eastward_wind", "units": "m s-1", "mesh": "mesh", "location": "node"}
        file.createVariable("ua", "f4", ("time", "node")).setncatts(said | {"coordinates": "x y"})
        file["ua"][...] = file["time"][0]
    if first:
        with xr.open_dataset(path, decode_cf=False) as file:
            made = file.load()
        made[["ua", *(name for name in made.variables if name != "ua")]].to_netcdf(path)


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("files", [1, 2])
def test_arrays_share_a_mesh_whose_faces_have_bounds(tmp_path: Path, files: int, *, first: bool) -> None:
    paths = [mesh(tmp_path / f"{k}.nc", k) for k in range(files)]
    for path in paths:
        with_corners(path, first=first)
    with cfagg.aggregate(paths, decode_times=False) as found:
        assert " ".join(sorted(map(str, found.variables))) == "fx fx_corners fy fy_corners mesh nodes ta time ua x y"
        assert set(found.sizes) == {"time", "face", "node", "three"}
        assert found["fx"].attrs["bounds"] == "fx_corners"
        npt.assert_array_equal(found["fx_corners"].values, [[0, 0, 0.5], [1, 1, 0.5]])


def test_arrays_at_nodes_have_the_bounds_of_the_faces_of_their_own_mesh(tmp_path: Path) -> None:
    paths = [mesh(tmp_path / f"{k}.nc", k) for k in range(2)]
    for k, path in enumerate(paths):
        with_corners(path, 0.5 + k)
    with cfagg.aggregate(paths, decode_times=False) as found:
        for name, wide in (("ua", 0.5), ("ua_1", 1.5), ("ta", 0.5), ("ta_1", 1.5)):
            faces = found[found[found[name].attrs["mesh"]].attrs["face_coordinates"].split()[0]]
            npt.assert_array_equal(found[faces.attrs["bounds"]].values, [[0, 0, wide], [1, 1, 1 - wide]])


@pytest.mark.parametrize("change", ["nodes", "x"])
def test_meshes_that_differ_have_their_own_nodes(tmp_path: Path, change: str) -> None:
    files = [mesh(tmp_path / "0.nc", 0), mesh(tmp_path / "1.nc", 1)]
    with netCDF4.Dataset(files[1], "a") as file:
        file[change][-1] = [0, 3, 2] if change == "nodes" else 0.25
    with cfagg.aggregate(files, decode_times=False) as found:
        assert found["ta"].dims[-1] != found["ta_1"].dims[-1]
        for path, name in zip(files, ("ta", "ta_1"), strict=True):
            topology = found[found[name].attrs["mesh"]].attrs
            with xr.open_dataset(path) as file:
                for key, own in (("face_node_connectivity", "nodes"), ("node_coordinates", "x")):
                    npt.assert_array_equal(found[topology[key].split()[0]].values, file[own].values)


@pytest.mark.parametrize("names", [("ua", "va"), ("va", "ua")])
@pytest.mark.parametrize("change", [None, "nodes"])
def test_arrays_without_a_mesh_keep_the_coordinates_that_those_on_one_have(
    tmp_path: Path, names: tuple[str, str], change: str | None
) -> None:
    paths = [mesh(tmp_path / f"{k}.nc", k) for k in range(2)]
    for k, path in enumerate(paths):
        with netCDF4.Dataset(path, "a") as file:
            for name in names:  # "va" does not name the mesh
                said = {"mesh": "mesh", "location": "node"} if name == "ua" else {}
                made = file.createVariable(name, "f8", ("time", "node"))
                made.setncatts({"standard_name": NAMES[name][0], "units": "m s-1", "coordinates": "x y", **said})
                made[:] = [[1, 2, 3, 4 + k]]
            if change and k:
                file[change][-1] = [0, 3, 2]
    for several in (paths[:1], paths):
        with cfagg.aggregate(several, decode_times=False) as found:
            for array in (found[n] for n in found.data_vars if str(n)[:2] in names):
                npt.assert_array_equal(array.coords[numbered(array, "x")].values, [0, 1, 1, 0])
                npt.assert_array_equal(array.coords[numbered(array, "y")].values, [0, 0, 1, 1])
            if change and len(several) > 1:  # on meshes that differ
                assert found["ua"].dims[-1] != found["ua_1"].dims[-1]


def numbered(array: xr.DataArray, name: str) -> str:
    """Return the only coordinate of an array that has a name, with a number or without."""
    (found,) = (str(c) for c in array.coords if str(c).partition("_")[0] == name)
    return found


@pytest.mark.parametrize("names", [("ua", "va"), ("va", "ua")])
@pytest.mark.parametrize("last", [[0, 2, 3], [0, 3, 2]])
def test_arrays_without_a_mesh_share_the_places_of_those_on_the_first_one(
    tmp_path: Path, names: tuple[str, str], last: list[int]
) -> None:
    mesh = {"cf_role": "mesh_topology", "topology_dimension": 2, "node_coordinates": "x y"}
    paths = []
    for k, nodes in enumerate(([0, 2, 3], last)):
        made = {
            "mesh": ("i4", (), 0, mesh | {"face_node_connectivity": "nodes"}),
            "nodes": ("i4", ("face", "three"), [[0, 1, 2], nodes], {"start_index": 0}),
            "x": ("f8", ("node",), [0, 1, 1, 0], LONGITUDE),
            "y": ("f8", ("node",), [0, 0, 1, 1], LATITUDE),
            "time": ("f8", ("time",), [k], TIME),
        }
        for name in names:
            said = {"mesh": "mesh", "location": "node"} if name == "ua" else {}
            made |= data(name, ("time", "node"), [[1, 2, 3, 4]], coordinates="x y", **said)
        paths.append(written(tmp_path / f"{k}.nc", {"node": 4, "face": 2, "three": 3, "time": 1}, made))
    with cfagg.aggregate(paths, decode_times=False) as found:
        assert found["ua"].dims[-1] == found["va"].dims[-1] == "node"
        if last == [0, 2, 3]:
            assert sorted(map(str, found.variables)) == ["mesh", "nodes", "time", "ua", "va", "x", "y"]
        else:
            other = found[found["ua_1"].attrs["mesh"]].attrs["node_coordinates"].split()
            assert found["ua_1"].dims[-1:] == found[other[0]].dims == found[other[1]].dims == ("node_1",)


@pytest.mark.parametrize("other", [{}, {"first": 1}, {"names": "M X Y N"}], ids=["alike", "from 1", "other names"])
def test_meshes_that_are_too_large_to_be_kept_are_compared_by_what_they_mean(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, other: Any
) -> None:
    monkeypatch.setattr(describing, "_COMPARED", 3)
    files = [mesh(tmp_path / "0.nc", 0), mesh(tmp_path / "1.nc", 1, **other)]
    with cfagg.aggregate(files, output=tmp_path / "all.nc", decode_times=False) as found:
        npt.assert_array_equal(found["ta"].values, [[0, 0.5], [1, 1.5]])
        nodes = found[found[found["ta"].attrs["mesh"]].attrs["face_node_connectivity"]]
        npt.assert_array_equal(nodes.values - nodes.attrs["start_index"], [[0, 1, 2], [0, 2, 3]])


@pytest.mark.parametrize("change", [{"start_index": np.int32(-1)}, {}, None], ids=["start", "values", "unread"])
def test_other_meshes_that_are_too_large_to_be_kept_stay_apart_and_that_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Any
) -> None:
    monkeypatch.setattr(describing, "_COMPARED", 3)
    files = [mesh(tmp_path / "0.nc", 0), mesh(tmp_path / "1.nc", 1)]
    if change is None:
        monkeypatch.setattr(describing, "_READ", 5)
    else:
        with netCDF4.Dataset(files[1], "a") as file:
            file["nodes"].setncatts(change)
            file["nodes"][1, 1:] = [3, 2] if not change else [2, 3]
    (answer,) = cfagg.aggregate(files).cfagg.report.why(0, 1).answers
    assert (answer.rule, answer.what) == ("part", "face_node_connectivity 0 of the mesh")
    assert answer.one.startswith("6 values")
    assert ("too many to be compared" if change is None else "with the digest") in answer.one


@pytest.mark.full
def test_a_mesh_of_millions_of_faces_is_one_for_all_files_of_it(tmp_path: Path) -> None:
    count, files = 1_500_000, []
    triangles = np.arange(count, dtype="i4")[:, None] + np.arange(3, dtype="i4")
    for k in range(3):
        made = data("ta", ("time", "face"), np.full((1, count), k), mesh="mesh", location="face") | {
            "mesh": ("i4", (), 0, {"cf_role": "mesh_topology", "topology_dimension": 2,
                     "node_coordinates": "x y", "face_node_connectivity": "nodes"}),
            "x": ("f8", ("node",), np.arange(count + 2) / 1e5, LONGITUDE),
            "y": ("f8", ("node",), np.arange(count + 2) / 1e5, LATITUDE),
            "nodes": ("i4", ("face", "three"), triangles + (k == 2), {"start_index": np.int32(k == 2)}),
            "time": ("f8", ("time",), [k], TIME),
        }  # fmt: skip
        files.append(written(tmp_path / f"{k}.nc", {"time": 1, "node": count + 2, "face": count, "three": 3}, made))
    with cfagg.aggregate(files, decode_times=False) as found:
        assert found["ta"].shape == (3, count)
        npt.assert_array_equal(found["ta"][:, -1].values, [0, 1, 2])
        npt.assert_array_equal(found["nodes"][-3:].values, triangles[-3:])


def on_curves(path: Path, time: float, *, latitude: float = 0.0, units: str = "degrees_north") -> str:
    """Write data on a grid of which two-dimensional coordinates alone tell the places."""
    made = data("ta", ("time", "y", "x"), np.full((1, 3, 2), time), coordinates="lat lon")
    made["time"] = ("f8", ("time",), [time], TIME)
    made["lat"] = ("f8", ("y", "x"), np.arange(6).reshape(3, 2) + latitude, LATITUDE | {"units": units})
    made["lon"] = ("f8", ("y", "x"), np.arange(6).reshape(3, 2), LONGITUDE)
    return written(path, {"time": 1, "y": 3, "x": 2}, made)


@pytest.mark.parametrize(("other", "joined"), [({}, 1), ({"latitude": 1e-9}, 2), ({"units": "radian"}, 2)])
def test_two_dimensional_coordinates_that_are_too_large_to_be_kept_are_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, other: Any, joined: int
) -> None:
    monkeypatch.setattr(describing, "_COMPARED", 3)
    files = [on_curves(tmp_path / "0.nc", 0), on_curves(tmp_path / "1.nc", 1, **other)]
    with cfagg.aggregate(files, decode_times=False) as found:
        assert len([n for n in found.variables if str(n).startswith("ta")]) == joined
        npt.assert_array_equal(found["ta"].values[:, 0, 0], [0, 1][: 3 - joined])
        npt.assert_array_equal(found["lat"].values, np.arange(6).reshape(3, 2))


def test_all_blocks_of_a_mesh_are_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(describing, "_COMPARED", 3)
    monkeypatch.setattr(describing, "_AT_ONCE", 3)
    files = [mesh(tmp_path / f"{k}.nc", k) for k in range(3)]
    with netCDF4.Dataset(files[2], "a") as file:
        file["nodes"][1, 1:] = [3, 2]
    with cfagg.aggregate(files, decode_times=False) as found:
        assert [found[name].shape for name in ("ta", "ta_1")] == [(2, 2), (1, 2)]


def test_places_along_reversed_coordinates_are_not_taken_for_equal_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = []
    for k in range(2):
        made = data("ta", ("time", "x", "y"), [[[1, 2], [3, 4]]], coordinates="lat lon")
        made["time"] = ("f8", ("time",), [k], TIME)
        for name, values in (("x", [0, 1]), ("y", [k, 1 - k])):
            made[name] = ("f8", (name,), values, {"units": "m", "standard_name": f"projection_{name}_coordinate"})
        for name, said in (("lat", LATITUDE), ("lon", LONGITUDE)):
            made[name] = ("f8", ("x", "y"), [[0, 1], [2, 3]], said)
        files.append(written(tmp_path / f"{k}.nc", {"time": 1, "y": 2, "x": 2}, made))
    for limit in (1 << 20, 3):
        monkeypatch.setattr(describing, "_COMPARED", limit)
        with cfagg.aggregate(files, decode_times=False) as found:
            assert [found[name].shape for name in ("ta", "ta_1")] == [(1, 2, 2)] * 2


def test_equal_numbers_of_nodes_that_are_counted_from_elsewhere_are_other_meshes(tmp_path: Path) -> None:
    files = [mesh(tmp_path / "0.nc", 0), mesh(tmp_path / "1.nc", 1)]
    with netCDF4.Dataset(files[1], "a") as file:
        file["nodes"].start_index = np.int32(-1)
    report = cfagg.aggregate(files).cfagg.report
    (answer,) = report.why(0, 1).answers
    assert (answer.rule, answer.what, answer.one, answer.other) == (
        "part",
        "face_node_connectivity 0 of the mesh",
        0,
        1,
    )


def test_arrays_on_other_meshes_keep_their_topologies(tmp_path: Path) -> None:
    files = [mesh(tmp_path / "0.nc", 0), mesh(tmp_path / "1.nc", 1, east=2.0)]
    with cfagg.aggregate(files, decode_times=False) as found:
        for name, east in (("ta", 1), ("ta_1", 2)):
            topology = found[found[name].attrs["mesh"]]
            x = found[topology.attrs["node_coordinates"].split()[0]]
            npt.assert_array_equal(x.values, [0, east, east, 0])


def test_geometries_keep_their_containers(tmp_path: Path) -> None:
    files = []
    for k, shift in enumerate((0, 0, 5)):
        made = data("ta", ("instance", "time"), [[k], [k]], geometry="lines", coordinates="lat") | {
            "time": ("f8", ("time",), [float(k)], TIME),
            "lat": ("f8", ("instance",), [30, 50], LATITUDE),
            "lines": ("i4", (), 0, {"geometry_type": "line", "node_count": "count", "node_coordinates": "x"}),
            "count": ("i4", ("instance",), [3, 2], {}),
            "x": ("f8", ("node",), np.arange(5) + shift, {**LONGITUDE, "axis": "X"}),
        }
        files.append(written(tmp_path / f"{k}.nc", {"time": 1, "instance": 2, "node": 5}, made))
    with cfagg.aggregate(files, decode_times=False) as found:
        assert found["ta"].shape == (2, 2)
        for name, first in (("ta", 0), ("ta_1", 5)):
            container = found[found[name].attrs["geometry"]]
            assert found[container.attrs["node_coordinates"]].values[0] == first
            assert container.attrs["node_count"] in found


def test_ragged_arrays_that_stay_apart_say_their_own_dimensions(tmp_path: Path) -> None:
    files = []
    for k, count in enumerate(([2, 3], [1, 3])):
        made = data("ta", ("obs",), np.arange(sum(count)), coordinates="time") | {
            "time": ("f8", ("obs",), np.arange(sum(count)), TIME),
            "station": ("i4", ("station",), [1, 2], {"cf_role": "timeseries_id"}),
            "count": ("i4", ("station",), count, {"sample_dimension": "obs"}),
        }
        files.append(written(tmp_path / f"{k}.nc", {"station": 2, "obs": sum(count)}, made, featureType="timeSeries"))
    with cfagg.aggregate(files, decode_times=False) as found:
        for name, own, count in (("ta", "count", [2, 3]), ("ta_1", "count_1", [1, 3])):
            assert found[own].values.tolist() == count
            assert (found[own].attrs["sample_dimension"],) == found[name].dims


@pytest.mark.parametrize("step", [0, 2])
def test_indices_say_their_own_dimension_that_is_called_otherwise_than_its_variable(tmp_path: Path, step: int) -> None:
    files = []
    for k, counts in enumerate(([2, 3], [1, 4], [3, 2])):
        index = np.repeat([0, 1], counts)
        made = data("ta", ("obs",), index + step * k, coordinates="station") | {
            "time": ("f8", ("obs",), np.arange(5), TIME),
            "station": ("i4", ("station",), np.array([0, 1]) + step * k, {"cf_role": "timeseries_id"}),
            "index": ("i4", ("obs",), index, {"instance_dimension": "station"}),
        }
        files.append(written(tmp_path / f"{k}.nc", {"station": 2, "obs": 5}, made, featureType="timeSeries"))
    with cfagg.aggregate(files, decode_times=False) as found:
        indices = [v for v in found.variables.values() if "instance_dimension" in v.attrs]
        stations = {v.dims[0]: v.values for v in found.variables.values() if v.attrs.get("cf_role") == "timeseries_id"}
        assert len(indices) == len(stations) == (1 if step else 3)
        for one in indices:
            (own,) = (v for v in found.data_vars.values() if str(v.name).startswith("ta") and v.dims == one.dims)
            assert own.size == (15 if step else 5)
            npt.assert_array_equal(stations[one.attrs["instance_dimension"]][one.values], own.values)


@pytest.mark.parametrize("corners", [(1, 2, None), (None, 1, 1)])
def test_equal_coordinates_of_two_dimensions_have_the_bounds_that_their_files_give_them(
    tmp_path: Path, corners: tuple[int | None, ...]
) -> None:
    files = []
    for name, value in zip(NAMES, corners, strict=True):
        made = data(name, ("y", "x"), np.ones((2, 2)), coordinates="lat")
        made["lat"] = ("f8", ("y", "x"), [[0, 1], [2, 3]], LATITUDE | ({} if value is None else {"bounds": "lat_bnds"}))
        if value is not None:
            made["lat_bnds"] = ("f8", ("y", "x", "corner"), np.full((2, 2, 4), value), {})
        files.append(written(tmp_path / f"{name}.nc", {"y": 2, "x": 2, "corner": 4}, made))
    with cfagg.aggregate(files) as found:
        for name, value in zip(NAMES, corners, strict=True):
            latitude = found[found[name].encoding["coordinates"]]
            bounds = latitude.encoding.get("bounds") or latitude.attrs.get("bounds")
            assert (None if bounds is None else found[bounds].values.ravel()[0]) == value


def of_stations(path: Path, time: float, names: list[str], encoding: str) -> str:
    """Write data of stations with names of characters."""
    raw = np.array([name.encode(encoding) for name in names], "S6")
    own = {"long_name": "name", "_Encoding": encoding}
    made = data("ta", ("station", "time"), [[time]] * len(names), coordinates="name lat") | {
        "name": ("S1", ("station", "length"), raw.view("S1").reshape(len(names), 6), own),
        "time": ("f8", ("time",), [time], TIME),
        "lat": ("f8", ("station",), np.arange(len(names)), LATITUDE),
    }
    return written(path, {"station": len(names), "length": 6, "time": 1}, made)


@pytest.mark.parametrize(
    ("encoding", "given"), [("utf-8", "utf-8"), ("latin-1", "latin-1"), ("utf-8", "no-such"), ("utf-8", None)]
)
def test_characters_are_read_by_their_encoding_and_none_is_said_of_the_texts(
    tmp_path: Path, encoding: str, given: str | None
) -> None:
    names = ["Pau", "Sète"]
    files = [of_stations(tmp_path / f"{k}.nc", k, names, encoding) for k in (0, 1)]
    with netCDF4.Dataset(files[0], "a") as file:
        file["name"].delncattr("_Encoding")
        if given is not None:
            file["name"].setncattr("_Encoding", given)
    with cfagg.aggregate(files, output=tmp_path / "out.nc") as found:
        assert found["ta"].shape == (2, 2)
        assert found["name"].values.tolist() == names
    with xr.open_dataset(tmp_path / "out.nc", drop_variables=["ta"]) as plain:
        assert plain["name"].values.tolist() == names


def test_characters_of_no_valid_encoding_are_other_texts_where_they_are_other_bytes(tmp_path: Path) -> None:
    files = [of_stations(tmp_path / f"{k}.nc", k, [name], "latin-1") for k, name in enumerate(["é", "è"])]
    for path in files:
        with netCDF4.Dataset(path, "a") as file:
            file["name"].delncattr("_Encoding")
    with cfagg.aggregate(files) as found:
        assert {found[n].values.tolist()[0] for n in ("name", "name_1")} == {"\\xe9", "\\xe8"}
