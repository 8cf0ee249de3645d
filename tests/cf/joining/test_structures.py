"""What belongs to variables besides their dimensions: what has to be equal, what may vary, and what reasons say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from cfagg.cf.joining import Described, Options, describe_all, join, members_of
from cfagg.model.dataset import Dataset, Dimension, Group
from tests.cf.joining.datasets import LATITUDE, LONGITUDE, TAS, TIME, add, boxes_of, described, reason


def count(*members: Described) -> int:
    return len(boxes_of(*members)[1])


def along_time(time: float, extra: Any, dims: tuple[str, ...] = ("time", "lat"), **attributes: Any) -> Described:
    """Return the description of a variable at one time; `extra` adds to its dataset."""
    root = Group()
    add(root, "time", ("time",), [time], **TIME)
    add(root, "lat", ("lat",), [10.0, 20.0], **LATITUDE)
    extra(root)
    add(root, "tas", dims, np.zeros([root.dimensions[d].size for d in dims], "f4"), **TAS, **attributes)
    return described(root)


def test_a_cell_measure_in_another_file_is_known_by_its_name() -> None:
    def measured(time: float, name: str, external: str) -> Described:
        def extra(root: Group) -> None:
            root.attributes["external_variables"] = external

        return along_time(time, extra, cell_measures=f"area: {name}")

    assert count(measured(0, "areacella", "areacella"), measured(1, "areacella", "areacella")) == 1
    found = reason(measured(0, "areacella", "areacella"), measured(1, "areacellr", "areacellr"))
    assert (found.rule, found.what, found.a, found.b) == (
        "signature",
        "cell measures",
        "area (areacella in another file)",
        "area (areacellr in another file)",
    )


def hybrid(time: float, b: list[float], pressure: float, times: tuple[str, ...] = ("time", "lat")) -> Described:
    def extra(root: Group) -> None:
        name = "atmosphere_hybrid_sigma_pressure_coordinate"
        terms = "a: a b: b ps: ps p0: p0"
        add(root, "lev", ("lev",), [0.9, 0.5], standard_name=name, units="1", formula_terms=terms, positive="down")
        add(root, "a", ("lev",), [0.0, 0.1], units="1")
        add(root, "b", ("lev",), b, units="1")
        add(root, "p0", (), 1e5, units="Pa")
        shape = [root.dimensions[d].size for d in times]
        add(root, "ps", times, np.full(shape, pressure), standard_name="surface_air_pressure", units="Pa")

    return along_time(time, extra, ("time", "lev", "lat"))


def test_terms_of_vertical_coordinates_vary_along_the_axes_that_they_span_and_no_others() -> None:
    assert count(hybrid(0, [1.0, 0.4], 1e5), hybrid(1, [1.0, 0.4], 9e4)) == 1
    found = reason(hybrid(0, [1.0, 0.4], 1e5), hybrid(1, [1.0, 0.5], 1e5))
    assert (found.rule, found.a, found.b) == ("part", 0.4, 0.5)
    assert found.what == "term b of atmosphere_hybrid_sigma_pressure_coordinate"
    found = reason(hybrid(0, [1.0, 0.4], 1e5, ("lat",)), hybrid(1, [1.0, 0.4], 9e4, ("lat",)))
    assert (found.rule, found.a, found.b) == ("part", 1e5, 9e4)
    assert found.what == "term ps of atmosphere_hybrid_sigma_pressure_coordinate"


def test_terms_of_levels_that_no_variable_has_are_data_but_those_of_these_levels_alone() -> None:
    root = Group()
    add(root, "time", ("time",), [0.0], **TIME)
    add(root, "lat", ("lat",), [10.0, 20.0], **LATITUDE)
    terms = "a: a b: b ps: ps p0: p0"
    name = "atmosphere_hybrid_sigma_pressure_coordinate"
    add(root, "lev", ("lev",), [0.9, 0.5], standard_name=name, units="1", formula_terms=terms)
    add(root, "a", ("lev",), [0.0, 0.1], units="1")
    add(root, "b", ("lev",), [1.0, 0.4], units="1")
    add(root, "p0", (), 1e5, units="Pa")
    add(root, "ps", ("time", "lat"), [[1e5, 9e4]], standard_name="surface_air_pressure", units="Pa")
    add(root, "tas", ("time", "lat"), [[270.0, 280.0]], **TAS)
    found = describe_all(Dataset("a.nc", "netcdf", root))
    assert [one.stated.name for one in found] == ["ps", "tas"]


def test_variables_that_call_each_other_ancillary_are_data() -> None:
    root = Group()
    add(root, "lat", ("lat",), [10.0, 20.0], **LATITUDE)
    add(root, "tas", ("lat",), [270.0, 280.0], **TAS, ancillary_variables="error")
    add(root, "error", ("lat",), [1.0, 2.0], standard_name="air_temperature standard_error", ancillary_variables="tas")
    (found,) = describe_all(Dataset("a.nc", "netcdf", root))
    assert [found.stated.name, *(part.stated.name for part in found.parts.values())] == ["tas", "error"]


def test_coordinates_of_a_grid_mapping_belong_to_it() -> None:
    def mapped(time: float, text: str) -> Described:
        def extra(root: Group) -> None:
            add(root, "crs", (), 0, grid_mapping_name="latitude_longitude", long_name=f"{time}")

        return along_time(time, extra, grid_mapping=text)

    assert count(mapped(0, "crs"), mapped(1, "crs")) == 1
    assert count(mapped(0, "crs: lat"), mapped(1, "crs: lat")) == 1
    found = reason(mapped(0, "crs: lat"), mapped(1, "crs: time"))
    assert (found.what, found.a, found.b) == ("grid mapping", "latitude", "time")


def curvilinear(time: float, columns: range, *, shift: float = 0.0, vertices: bool = False) -> Described:
    def extra(root: Group) -> None:
        y, x = np.arange(2.0), np.array(columns, float)
        more = {"bounds": "lat_v"} if vertices else {}
        add(root, "x", ("x",), x, standard_name="projection_x_coordinate", units="m")
        add(root, "y", ("y",), y, standard_name="projection_y_coordinate", units="m")
        add(root, "nav_lat", ("y", "x"), np.add.outer(y, x / 10) + shift, **LATITUDE, **more)
        add(root, "nav_lon", ("y", "x"), np.add.outer(y / 10, x), **LONGITUDE)
        if vertices:
            corners = np.add.outer(np.add.outer(y, x / 10), np.arange(4.0)) * (1 + shift)
            add(root, "lat_v", ("y", "x", "v"), corners)

    def only_time(root: Group) -> None:
        extra(root)
        del root.variables["lat"]

    return along_time(time, only_time, ("time", "y", "x"), coordinates="nav_lat nav_lon")


def test_coordinates_of_two_dimensions_are_joined_with_them_however_they_are_cut() -> None:
    halves = [curvilinear(0, range(2)), curvilinear(0, range(2, 4))]
    whole = curvilinear(1, range(4))
    assert count(*halves, whole) == 1
    assert count(*halves, curvilinear(1, range(4), shift=1e-3)) == 2
    found = reason(curvilinear(0, range(4)), curvilinear(1, range(4), shift=0.5))
    assert (found.rule, found.what, found.a, found.b) == ("part", "latitude", 0.0, 0.5)


def test_corners_of_cells_of_two_dimensions_are_compared() -> None:
    def corners(time: float, shift: float) -> Described:
        return curvilinear(time, range(3), vertices=True, shift=shift)

    assert count(corners(0, 0.0), corners(1, 0.0)) == 1
    assert count(corners(0, 0.0), corners(1, 1e-6)) == 2


def indexed(time: float, latitude: float) -> Described:
    def extra(root: Group) -> None:
        add(root, "j", ("j",), [1, 2], units="1", long_name="cell index")
        add(root, "i", ("i",), [1, 2], units="1", long_name="cell index")
        add(root, "latitude", ("j", "i"), np.full((2, 2), latitude), **LATITUDE)

    return along_time(time, extra, ("time", "j", "i"), coordinates="latitude")


def test_dimensions_without_an_identity_are_known_by_coordinates_of_several_dimensions() -> None:
    assert count(indexed(0, 1.0), indexed(1, 1.0)) == 1
    found = reason(indexed(0, 1.0), indexed(1, 2.0))
    assert (found.rule, found.what, found.a, found.b) == ("part", "latitude", 1.0, 2.0)
    # Nothing is joined along such a dimension.
    assert count(indexed(0, 1.0), indexed(0, 2.0)) == 2


def region(time: float, *names: str) -> Described:
    def extra(root: Group) -> None:
        add(root, "basin", ("basin",), np.array(names, object), standard_name="region")

    return along_time(time, extra, ("time", "basin"), coordinates="basin")


def test_no_more_files_are_asked_for_where_swaths_have_other_numbers_of_lines() -> None:
    def swath(time: float, lines: int) -> Described:
        root = Group()
        add(root, "time", ("time",), [time], **TIME)
        add(root, "place", ("line", "pixel"), np.arange(2.0 * lines).reshape(lines, 2), **LATITUDE)
        add(root, "tas", ("time", "line", "pixel"), np.zeros((1, lines, 2), "f4"), **TAS, coordinates="place")
        return described(root)

    found = reason(swath(0, 3), swath(1, 4))
    assert (found.rule, found.what) == ("axes", "time, index 0 of latitude")
    assert found.remedy.startswith("nothing is joined along index 0 of latitude, whose places are only counted: give")


def test_labels_are_an_axis_in_the_order_in_which_they_are_met() -> None:
    boxes = boxes_of(region(0, "indian", "atlantic"), region(0, "pacific"))[1]
    assert (boxes.extent.tolist(), boxes.start[:, 1].tolist()) == ([[1, 3]], [0, 2])
    members, boxes = boxes_of(region(0, "b", "a", "c"), region(1, "c", "a", "b"))
    assert (len(boxes), boxes.flipped[:, 1].tolist()) == (1, [False, True])
    boxes = boxes_of(region(0, "b", "a", "c"), region(1, "a", "c", "b"))[1]
    assert (len(boxes), boxes.flipped[:, 1].tolist()) == (1, [False, False])
    assert boxes.scattered[1, 1].tolist() == [1, 2, 0]
    found = reason(region(0, "a"), region(1, "b"))
    assert (found.rule, found.what, found.a, found.b) == ("axes", "time, region", [0.0, "a"], [1.0, "b"])
    assert members.axes[1].name == "region"


def test_a_label_of_one_value_is_an_axis() -> None:
    def typed(kind: str) -> Described:
        def extra(root: Group) -> None:
            add(root, "type", (), kind, standard_name="area_type")

        return along_time(0, extra, coordinates="type")

    assert boxes_of(typed("sea"), typed("land"))[1].extent.tolist() == [[1, 2, 2]]


def station(feature: str, name: str, times: list[float], latitude: float) -> Described:
    root = Group(attributes={"featureType": feature})
    role = {"timeSeries": "timeseries_id"}.get(feature, f"{feature}_id")
    add(root, "time", ("obs",), times, **TIME)
    add(root, "name", (), name, cf_role=role)
    add(root, "lat", (), latitude, **LATITUDE)
    named = "time lat name" if feature == "timeSeries" else "time"
    add(root, "tas", ("obs",), np.zeros(len(times), "f4"), **TAS, coordinates=named)
    return described(root)


def test_stations_with_the_same_times_are_one_array_by_their_names() -> None:
    members, boxes = boxes_of(station("timeSeries", "Bonn", [0, 1], 50.0), station("timeSeries", "Oslo", [0, 1], 60.0))
    assert [a.name for a in members.axes] == ["time", "timeseries_id"]
    assert boxes.extent.tolist() == [[2, 2]]
    assert count(station("timeSeries", "Bonn", [0, 1], 50.0), station("timeSeries", "Bonn", [2, 3], 50.0)) == 1
    found = reason(station("timeSeries", "Bonn", [0, 1], 50.0), station("timeSeries", "Bonn", [2], 51.0))
    assert (found.rule, found.what, found.a, found.b) == ("part", "latitude", 50.0, 51.0)


def test_trajectories_stand_apart_by_their_names_and_each_is_joined_along_time() -> None:
    made = [station("trajectory", n, t, 0.0) for n, t in (("a", [0, 1]), ("b", [2, 3]), ("a", [4, 5]), ("b", [0, 1]))]
    assert boxes_of(*made)[1].box.tolist() == [0, 1, 0, 1]
    found = reason(made[0], made[1])
    assert (found.rule, found.what, found.a, found.b) == ("part", "trajectory_id", "a", "b")


def test_ragged_arrays_are_joined_with_nothing() -> None:
    def ragged(time: float) -> Described:
        root = Group(attributes={"featureType": "timeSeries"})
        add(root, "time", ("obs",), [time, time + 1], **TIME)
        add(root, "rows", ("station",), [2], sample_dimension="obs")
        add(root, "tas", ("obs",), np.zeros(2, "f4"), **TAS, coordinates="time")
        return described(root)

    assert "'obs' is that of a ragged array" in str(reason(ragged(0), ragged(5)))


def meshed(time: float, faces: list[list[int]], name: str = "mesh") -> Described:
    root = Group()
    add(root, "time", ("time",), [time], **TIME)
    add(root, "node_x", ("node",), np.arange(4.0), **LONGITUDE)
    add(root, "node_y", ("node",), np.arange(4.0), **LATITUDE)
    add(root, "nodes", ("face", "three"), np.array(faces), cf_role="face_node_connectivity", start_index=np.array([0]))
    topology = {"cf_role": "mesh_topology", "topology_dimension": np.array([2]), "node_coordinates": "node_x node_y"}
    add(root, name, (), 0, **topology, face_node_connectivity="nodes")
    add(root, "tas", ("time", "face"), np.zeros((1, len(faces)), "f4"), **TAS, mesh=name, location="face")
    return described(root)


def test_meshes_are_compared_by_their_topology() -> None:
    faces = [[0, 1, 2], [1, 2, 3]]
    assert count(meshed(0, faces), meshed(1, faces, "grid")) == 1
    found = reason(meshed(0, faces), meshed(1, [[0, 1, 2], [0, 2, 3]]))
    assert (found.rule, found.a, found.b) == ("part", 1, 0)
    assert found.what == "face_node_connectivity 0 of the mesh"


@pytest.mark.parametrize("location", ["node", "face"])
def test_meshes_are_equal_whichever_dimension_of_their_connectivity_is_that_of_the_elements(location: str) -> None:
    def one(time: float, faces: list[list[int]], *, turned: bool) -> Described:
        root = Group()
        add(root, "time", ("time",), [time], **TIME)
        add(root, "x", ("node",), np.arange(5.0), **LONGITUDE)
        add(root, "y", ("node",), np.arange(5.0), **LATITUDE)
        stored = np.array(faces).T if turned else np.array(faces)
        add(root, "nodes", ("three", "face") if turned else ("face", "three"), stored)
        said = {"face_node_connectivity": "nodes", "node_coordinates": "x y", "face_dimension": "face"}
        add(root, "mesh", (), 0, cf_role="mesh_topology", topology_dimension=np.array([2]), **said)
        shape = (1, root.dimensions[location].size)
        add(root, "tas", ("time", location), np.zeros(shape, "f4"), **TAS, mesh="mesh", location=location)
        return described(root)

    faces = [[0, 1, 2], [1, 3, 2], [3, 4, 2]]
    for turned in [(False, True), (True, False), (True, True)]:
        first, second = (one(k, faces, turned=of) for k, of in enumerate(turned))
        assert count(first, second) == 1
    (part,) = (p for p in second.parts.values() if p.stated.name == "nodes")
    assert part.stated.dims == ("face", "three")
    assert part.values is not None
    assert part.values.tolist() == faces
    assert count(one(0, faces, turned=False), one(1, np.array(faces).T.tolist(), turned=True)) == 2


def test_places_that_are_only_counted_take_no_memory_each() -> None:
    def along_faces(time: float, size: int) -> Described:
        root = Group()
        add(root, "time", ("time",), [time], **TIME)
        add(root, "point", ("point",), np.arange(size), compress="lat lon")
        add(root, "tas", ("time", "point"), np.zeros((1, size), "f4"), **TAS)
        return described(root)

    size = 100_000
    members = members_of([along_faces(0, size), along_faces(1, size), along_faces(2, size + 1)])
    (axis,) = (a for a in members.axes if a.counted)
    assert axis.points is not None
    assert axis.points.point.size == axis.points.value.size == 2
    boxes = join(members)
    k = members.axes.index(axis)
    assert boxes.box.tolist() == [0, 0, 1]
    assert (boxes.extent[:, k].tolist(), boxes.count[:, k].tolist()) == ([size, size + 1], [size, size, size + 1])


def gathered(time: float, latitudes: Sequence[float] = (10.0, 20.0), longitudes: int = 3) -> Described:
    root = Group()
    add(root, "time", ("time",), [time], **TIME)
    add(root, "y", ("y",), np.array(latitudes), **LATITUDE)
    add(root, "x", ("x",), np.arange(float(longitudes)), **LONGITUDE)
    add(root, "land", ("land",), [0, 2, 3], compress="y x")
    add(root, "tas", ("time", "land"), np.zeros((1, 3), "f4"), **TAS)
    return described(root)


def test_gathered_points_are_compared_with_the_coordinates_of_the_dimensions_that_they_are_in() -> None:
    assert count(gathered(0), gathered(1)) == 1
    found = reason(gathered(0), gathered(1, (10.0, 30.0)))
    assert (found.rule, found.what, found.a, found.b) == ("part", "latitude", 20.0, 30.0)
    assert count(gathered(0), gathered(1, longitudes=4)) == 2


def test_gathered_points_in_a_dimension_that_no_variable_has_are_not_joined() -> None:
    root = Group()
    add(root, "time", ("time",), [0.0], **TIME)
    add(root, "land", ("land",), [0, 2, 3], compress="y x")
    root.dimensions["y"] = Dimension("y", 2)
    add(root, "tas", ("time", "land"), np.zeros((1, 3), "f4"), **TAS)
    assert described(root).problem == "its points 'land' are in the dimension 'y', which no variable has"


def outlined(time: float, longitude: float) -> Described:
    root = Group()
    add(root, "time", ("time",), [time], **TIME)
    add(root, "name", ("instance",), np.array(["a", "b"], object), cf_role="timeseries_id")
    add(root, "count", ("instance",), [3, 3])
    add(root, "x", ("node",), np.arange(6.0) + longitude, units="degrees_east", axis="X")
    add(root, "y", ("node",), np.arange(6.0), units="degrees_north", axis="Y")
    add(root, "outline", (), 0, geometry_type="polygon", node_count="count", node_coordinates="x y")
    root.attributes["featureType"] = "timeSeries"
    add(root, "tas", ("time", "instance"), np.zeros((1, 2), "f4"), **TAS, geometry="outline", coordinates="name")
    return described(root)


def test_geometries_are_compared_by_their_nodes() -> None:
    assert count(outlined(0, 0.0), outlined(1, 0.0)) == 1
    found = reason(outlined(0, 0.0), outlined(1, 1.0))
    assert (found.rule, found.what, found.a, found.b) == ("part", "nodes of longitude", 0.0, 1.0)


def climatology(year: int, name: str = "climatology") -> Described:
    root = Group()
    add(root, "time", ("time",), [15.0 + 31 * year], **TIME, **{name: "bounds"})
    add(root, "bounds", ("time", "two"), [[31.0 * year, 365.0 * 30 + 31 * year]])
    add(root, "tas", ("time",), np.zeros(1, "f4"), **TAS)
    return described(root)


def test_bounds_of_climatologies_are_no_bounds_of_cells() -> None:
    assert count(climatology(0), climatology(1)) == 1
    found = reason(climatology(0), climatology(1, "bounds"))
    assert (found.rule, found.what) == ("signature", "axes")


@pytest.mark.parametrize("own", [{}, {"units": "days since 2000-01-01"}])
def test_bounds_may_have_units_or_none(own: dict[str, str]) -> None:
    def bounded(time: float, **attributes: Any) -> Described:
        root = Group()
        add(root, "time", ("time",), [time], **TIME, bounds="bounds")
        add(root, "bounds", ("time", "two"), [[time - 0.5, time + 0.5]], **attributes)
        add(root, "tas", ("time",), np.zeros(1, "f4"), **TAS)
        return described(root)

    assert count(bounded(0), bounded(1, **own)) == 1


@pytest.mark.parametrize(
    ("name", "one", "other", "values"),
    [
        ("latitude", "degrees_north", "radian", [0.5, 1.0]),
        ("longitude", "degrees_east", "degree", [0.5, 1.0]),
        ("air_pressure", "hPa", "Pa", [1000.0, 850.0]),
        ("height", "m", "km", [2.0, 10.0]),
    ],
)
def test_coordinates_in_other_units_are_equal(name: str, one: str, other: str, values: list[float]) -> None:
    factor = {"radian": np.pi / 180, "Pa": 100.0, "km": 1e-3}.get(other, 1.0)

    def made(time: float, units: str, scale: float) -> Described:
        root = Group()
        add(root, "time", ("time",), [time], **TIME)
        add(root, "z", ("z",), np.array(values) * scale, standard_name=name, units=units)
        add(root, "tas", ("time", "z"), np.zeros((1, 2), "f4"), **TAS)
        return described(root)

    assert count(made(0, one, 1.0), made(1, other, factor)) == 1
    assert count(made(0, one, 1.0), made(1, other, factor * 1.001)) == 2


@pytest.mark.parametrize(("calendar", "joined"), [("gregorian", 1), ("proleptic_gregorian", 2), ("noleap", 2)])
def test_calendars_are_equal_or_not(calendar: str, joined: int) -> None:
    def at(time: float, calendar: str) -> Described:
        root = Group()
        add(root, "time", ("time",), [time], **{**TIME, "calendar": calendar})
        add(root, "tas", ("time",), np.zeros(1, "f4"), **TAS)
        return described(root)

    assert count(at(0, "standard"), at(1, calendar)) == joined
    if joined == 2:
        assert calendar in str(reason(at(0, "standard"), at(1, calendar)))


def test_times_near_the_origin_of_others_are_equal_but_for_rounding() -> None:
    def at(time: float, units: str, latitude: float) -> Described:
        root = Group()
        add(root, "time", ("time",), [time], **{**TIME, "units": units})
        add(root, "lat", ("lat",), [latitude], **LATITUDE)
        add(root, "tas", ("time", "lat"), np.zeros((1, 1), "f4"), **TAS)
        return described(root)

    tenth = 0.1
    boxes = boxes_of(at(tenth, "days since 2000-01-01", 1.0), at(730119.0 + tenth, "days since 0001-01-03", 2.0))[1]
    late = boxes_of(at(36524.1 * 24, "hours since 1900-01-01", 2.0), at(tenth, "days since 2000-01-01", 1.0))[1]
    assert (len(boxes), boxes.extent.tolist()) in ((1, [[1, 2]]), (2, [[1, 1], [1, 1]]))
    assert (len(late), late.extent.tolist()) == (1, [[1, 2]])


def test_coordinates_without_a_standard_name_are_known_by_units_that_say_what_they_are() -> None:
    def at(time: float, **named: str) -> Described:
        root = Group()
        add(root, "time", ("time",), [time], units=TIME["units"])
        add(root, "lat", ("lat",), [1.0], units="degrees_north", **named)
        add(root, "tas", ("time", "lat"), np.zeros((1, 1), "f4"), **TAS)
        return described(root)

    assert count(at(0), at(1, standard_name="latitude")) == 1


def test_reversed_latitudes_with_bounds_are_equal() -> None:
    def at(time: float, sign: int) -> Described:
        root = Group()
        lat = np.array([10.0, 20.0, 30.0])[::sign]
        add(root, "time", ("time",), [time], **TIME)
        add(root, "lat", ("lat",), lat, **LATITUDE, bounds="lat_bnds")
        add(root, "lat_bnds", ("lat", "two"), np.stack([lat - 5 * sign, lat + 5 * sign], axis=1))
        add(root, "tas", ("time", "lat"), np.zeros((1, 3), "f4"), **TAS)
        return described(root)

    boxes = boxes_of(at(0, 1), at(1, -1))[1]
    assert (len(boxes), boxes.flipped.tolist()) == (1, [[False, False], [False, True]])


def test_packed_coordinates_are_compared_by_what_they_mean() -> None:
    def at(time: float, packed: bool) -> Described:
        root = Group()
        add(root, "time", ("time",), [time], **TIME)
        values: Any = np.array([10, 20], "i2") if packed else [1.0, 2.0]
        packing = {"scale_factor": np.array([0.1])} if packed else {}
        add(root, "lat", ("lat",), values, **LATITUDE, **packing)
        add(root, "tas", ("time", "lat"), np.zeros((1, 2), "f4"), **TAS)
        return described(root)

    assert count(at(0, packed=True), at(1, packed=False)) == 1


def test_large_companions_along_time_are_told_apart_without_being_kept() -> None:
    def extra(root: Group) -> None:
        add(root, "x", ("x",), np.arange(10000.0), **LONGITUDE)
        values = np.zeros((1, 2, 10000)) + root.variables["time"].values()[0] // 10
        add(root, "ps", ("time", "lat", "x"), values, standard_name="surface_air_pressure", units="Pa")

    def made(time: float) -> Described:
        return along_time(time, extra, ("time", "lat", "x"), ancillary_variables="ps")

    one = made(0)
    assert one.parts["surface_air_pressure"].values is None
    assert one.parts["surface_air_pressure"] is made(1).parts["surface_air_pressure"]
    assert count(one, made(1), made(20)) == 1


def test_what_an_option_says_of_files_is_not_remembered_for_others() -> None:
    root = Group()
    add(root, "time", ("time",), [0.0], **TIME)
    add(root, "tas", ("time",), np.zeros(1, "f4"), long_name="t")
    assert described(root).problem
    assert described(root, Options(relaxed_identities=True, relaxed_units=True)).problem is None


def test_a_time_that_a_variable_has_twice_is_there_twice() -> None:
    def at(*times: float) -> Described:
        root = Group()
        add(root, "time", ("time",), np.array(times), **TIME)
        add(root, "tas", ("time",), np.zeros(len(times), "f4"), **TAS)
        return described(root)

    boxes = boxes_of(at(2.0, 2.0), at(0.0, 1.0, 1.0))[1]
    assert (boxes.extent.tolist(), boxes.start.tolist(), boxes.count.tolist()) == ([[5]], [[3], [0]], [[2], [3]])
    assert not boxes.scattered


def test_bounds_that_are_a_term_of_themselves_are_there_once() -> None:
    root = Group()
    height = {"standard_name": "atmosphere_hybrid_height_coordinate", "units": "m", "bounds": "a_bnds"}
    add(root, "a", ("a",), [1.0, 2.0], **height, formula_terms="a: a b: b orog: orog")
    add(root, "a_bnds", ("a", "two"), [[0.5, 1.5], [1.5, 2.5]], formula_terms="a: a_bnds b: b_bnds orog: orog")
    add(root, "b", ("a",), [0.1, 0.2], bounds="b_bnds")
    add(root, "b_bnds", ("a", "two"), [[0.0, 0.15], [0.15, 0.3]])
    add(root, "orog", (), 10.0, units="m")
    found = described(add(root, "tas", ("a",), [1.0, 2.0], **TAS).group)
    assert [name for name in found.parts if found.parts[name].stated.name == "a_bnds"] == []
    assert [name for name in found.parts if found.parts[name].stated.name == "b_bnds"] != []
