"""What describes variables stands in an aggregation file itself, where readers of CF look for its values."""

from pathlib import Path

import netCDF4
import numpy as np
import pytest

import cfagg
from cfagg.runtime.targets import DIALECTS

#: Cases by name: sizes, and (dimensions, attributes) of variables; those whose names begin with "tas" have data.
CASES = {
    "geometry": (
        {"station": 2, "node": 7, "part": 3},
        {
            "tas": (("station",), {"geometry": "shape"}),
            "shape": ((), {
                "geometry_type": "polygon", "node_coordinates": "x y", "node_count": "count",
                "part_node_count": "parts", "interior_ring": "inner",
            }),
            "x": (("node",), {"axis": "X"}), "y": (("node",), {"axis": "Y"}),
            "count": (("station",), {}), "parts": (("part",), {}), "inner": (("part",), {}),
        },
    ),
    "mesh": (
        {"face": 2, "three": 3, "node": 4},
        {
            "tas": (("face",), {"mesh": "mesh", "location": "face"}),
            "mesh": ((), {
                "cf_role": "mesh_topology", "topology_dimension": 2, "node_coordinates": "x y",
                "face_node_connectivity": "nodes", "face_coordinates": "cx cy",
            }),
            "x": (("node",), {}), "y": (("node",), {}), "cx": (("face",), {}), "cy": (("face",), {}),
            "nodes": (("face", "three"), {"start_index": 0}),
        },
    ),
    "features": (
        {"obs": 5, "station": 2},
        {
            "tas": (("obs",), {}), "name": (("station",), {"cf_role": "timeseries_id"}),
            "count": (("station",), {"sample_dimension": "obs"}), "of": (("obs",), {"instance_dimension": "station"}),
        },
    ),
    "points": ({"land": 3}, {"tas": (("land",), {}), "points": (("land",), {"compress": "lat lon"})}),
    "tie points": (
        {"x": 7, "tie": 3},
        {
            "tas": (("x",), {"coordinate_interpolation": "lon: linear"}),
            "linear": ((), {"interpolation_name": "linear", "tie_point_mapping": "x: places tie"}),
            "lon": (("tie",), {"bounds_tie_points": "edges"}), "edges": (("tie",), {}), "places": (("tie",), {}),
        },
    ),
}  # fmt: skip


@pytest.mark.few(8)
@pytest.mark.parametrize("way", ["convert", "write"])
@pytest.mark.parametrize("to", DIALECTS)
@pytest.mark.parametrize("case", CASES)
def test_only_data_become_aggregations(tmp_path: Path, case: str, to: str, way: str) -> None:
    sizes, variables = CASES[case]
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as file:
        for dim, size in sizes.items():
            file.createDimension(dim, size)
        for k, (name, (dims, attributes)) in enumerate(variables.items()):
            made = file.createVariable(name, "i4", dims)
            made.setncatts(attributes)
            made[...] = np.arange(made.size).reshape(made.shape) + 10 * k
    if way == "convert":
        cfagg.convert(tmp_path / "a.nc", tmp_path / "b.nc", to=to)
    else:
        cfagg.write(cfagg.read(tmp_path / "a.nc"), tmp_path / "b.nc", to=to)
    with netCDF4.Dataset(tmp_path / "a.nc") as source, netCDF4.Dataset(tmp_path / "b.nc") as target:
        for name in set(variables) - {"tas"}:
            assert target[name].dimensions == source[name].dimensions
            np.testing.assert_array_equal(target[name][...], source[name][...])
        assert target["tas"].dimensions == ()
        tas = source["tas"][...]
    np.testing.assert_array_equal(cfagg.open_array(tmp_path / "b.nc", "tas")[...], tas)


def test_what_describes_variables_of_another_group_stands_in_the_file(tmp_path: Path) -> None:
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as file:
        file.createDimension("x", 2)
        for name in ("lat", "other"):
            file.createGroup("outer").createVariable(name, "i4", ("x",))[:] = [1, 2]
        file["outer"].createGroup("inner").createVariable("tas", "i4", ("x",)).coordinates = "/outer/lat"
    cfagg.convert(tmp_path / "a.nc", tmp_path / "b.nc", to="CF-1.13")
    with netCDF4.Dataset(tmp_path / "b.nc") as file:
        assert [file[f"outer/{name}"].dimensions for name in ("lat", "other")] == [("x",), ()]
