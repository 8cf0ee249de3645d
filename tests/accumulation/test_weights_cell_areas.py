"""Areas of cells by their corners: exact for great circles, and those of regular grids where they are regular."""

import math

import numpy as np
import pytest
import zarr
from hypothesis import example, given
from hypothesis import strategies as st

import cfagg
from cfagg.accumulation.weights import find_weights, polygon_areas
from cfagg.errors import ConformError, LimitError, SourceError, StaleError
from cfagg.formats.zarr import open_array
from tests.accumulation.test_accumulate_weights import put

LAT, LON = np.linspace(-90, 90, 10), np.linspace(0, 360, 13)


def corners(lat, lon):
    """Return the corners of the cells between edges of two dimensions, around each cell."""
    return [np.stack([e[:-1, :-1], e[:-1, 1:], e[1:, 1:], e[1:, :-1]], axis=-1) for e in (lat, lon)]


def turned(points, axis, angle):
    """Rotate points of the sphere, shape (..., 3), about an axis (Rodrigues)."""
    axis = np.asarray(axis) / np.linalg.norm(axis)
    return (
        points * math.cos(angle)
        + np.cross(axis, points) * math.sin(angle)
        + axis * (points @ axis)[..., None] * (1 - math.cos(angle))
    )


def rotated(lat, lon, axis=(1, 2, 0.5), angle=0.7):
    phi, lam = np.radians(lat), np.radians(lon)
    points = np.stack([np.cos(phi) * np.cos(lam), np.cos(phi) * np.sin(lam), np.sin(phi)], axis=-1)
    x, y, z = np.moveaxis(turned(points, axis, angle), -1, 0)
    return np.degrees(np.arcsin(np.clip(z, -1, 1))), np.degrees(np.arctan2(y, x))


@pytest.mark.parametrize("start", range(4))
@pytest.mark.parametrize("way", [1, -1])
def test_an_octant_is_an_eighth_of_the_sphere_from_any_corner_either_way(start, way):
    order = np.roll(np.arange(4), start)[::way]
    lat, lon = np.radians([[0.0, 0, 90, 90]])[:, order], np.radians([[10.0, 100, 100, 10]])[:, order]
    assert polygon_areas(lat, lon)[0] == pytest.approx(math.pi / 2, rel=1e-14)


def test_a_triangle_of_right_angles_is_an_octant_too():
    assert polygon_areas(np.radians([[0.0, 0, 90]]), np.radians([[0.0, 90, 0]]))[0] == pytest.approx(math.pi / 2)


def test_cells_of_a_regular_grid_have_its_areas():
    lat, lon = corners(*np.meshgrid(LAT, LON, indexing="ij"))
    expected = np.diff(np.sin(np.radians(LAT)))[:, None] * np.diff(np.radians(LON))
    np.testing.assert_allclose(polygon_areas(np.radians(lat), np.radians(lon)), expected, rtol=1e-13)
    assert polygon_areas(np.radians(lat), np.radians((lon + 200) % 360)).sum() == pytest.approx(4 * math.pi, rel=1e-13)


@pytest.mark.parametrize("equator", [(0, 1e-14), (-1e-14, 0)])
def test_rounding_at_the_equator_and_the_prime_meridian_does_not_bend_a_cell(equator):
    lat, lon = np.radians([[*equator, 5, 5]]), np.radians([[0, 10, 10, 1e-14]])
    expected = math.radians(10) * math.sin(math.radians(5))
    assert polygon_areas(lat, lon)[0] == pytest.approx(expected, rel=1e-12)


def test_cells_of_a_rotated_grid_cover_the_sphere_once():
    lat, lon = corners(*rotated(*np.meshgrid(LAT, LON, indexing="ij")))
    assert polygon_areas(np.radians(lat), np.radians(lon)).sum() == pytest.approx(4 * math.pi, rel=1e-12)


@example(axis=(1.0, 1.0, 1.0), angle=5.6875, size=1e-3)  # nearly along parallels and meridians
@given(
    axis=st.tuples(*[st.floats(-1, 1)] * 3).filter(lambda a: np.linalg.norm(a) > 0.1),
    angle=st.floats(0.1, 6.2),
    size=st.sampled_from([1e-3, 0.1, 5.0, 40.0]),
)
def test_the_area_of_great_circles_does_not_depend_on_the_place(axis, angle, size):
    """A square about the north pole, moved: of each quarter two sides and the angle between them are known."""
    lat, lon = np.full((1, 4), 90 - size), np.array([[10.0, 100, 190, 280]])
    a = math.radians(size)
    # The excess E of a triangle: tan(E/2) = tan(a/2)^2 sin(C) / (1 + tan(a/2)^2 cos(C)); four with C = 90 degrees.
    exact = 4 * 2 * math.atan(math.tan(a / 2) ** 2)
    found = polygon_areas(*(np.radians(v) for v in rotated(lat, lon, axis, angle)))[0]
    assert found == pytest.approx(exact, rel=1e-11 / math.radians(size))


def test_small_cells_keep_their_digits():
    """A cell of ten metres is flat, to within the square of its size."""
    lat, lon = np.radians(np.array([[0.0, 0, 1e-4, 1e-4]]) + 1e-9 * np.arange(4)), np.radians([[0.0, 1e-4, 1e-4, 0]])
    assert polygon_areas(lat, lon)[0] == pytest.approx(math.radians(1e-4) ** 2, rel=1e-4)


def test_corners_that_stand_twice_change_nothing():
    lat, lon = np.radians([[0.0, 0, 50, 50, 50]]), np.radians([[0.0, 50, 30, 30, 30]])
    assert polygon_areas(lat, lon)[0] == pytest.approx(polygon_areas(lat[:, :3], lon[:, :3])[0], rel=1e-14)


@pytest.fixture
def store(tmp_path):
    """Return a store with an array on a rotated grid, chunks smaller than the grid."""
    path = tmp_path / "a.zarr"
    lat, lon = rotated(*np.meshgrid(np.linspace(-30, 30, 7), np.linspace(-40, 40, 9), indexing="ij"))
    north, east = corners(lat, lon)
    data = np.random.default_rng(0).normal(280, 10, (10, 6, 8)).astype("f4")
    put(path, "tas", data, ["time", "y", "x"], coordinates="lat lon")
    put(path, "lat", north.mean(-1), ["y", "x"], units="degrees_north", bounds="lat_bnds")
    put(path, "lon", east.mean(-1), ["y", "x"], units="degrees_east", bounds="lon_bnds")
    put(path, "lat_bnds", north, ["y", "x", "corner"])
    put(path, "lon_bnds", east, ["y", "x", "corner"])
    return path


def areas(store):
    north, east = (zarr.open_array(store / name)[...] for name in ("lat_bnds", "lon_bnds"))
    return polygon_areas(np.radians(north), np.radians(east))


def test_weights_of_a_curvilinear_grid_are_the_areas_of_its_cells(store):
    weights = find_weights(open_array(str(store), "tas"), "area", 1 << 20)
    assert (weights.kind, weights.name, weights.axes) == ("area", "lat", (1, 2))
    np.testing.assert_array_equal(weights.values, areas(store))


def test_an_area_mean_of_a_curvilinear_grid_is_that_of_its_cells(store):
    cfagg.accumulate(store, "tas", [("y", "x")], weights="area")
    with cfagg.open_accumulated(store, "tas") as opened:
        found = opened.mean(("y", "x"), isel={"y": slice(1, 5), "x": slice(2, 8)}).values
    box = zarr.open_array(store / "tas")[...].astype("f8")[:, 1:5, 2:8]
    weights = areas(store)[1:5, 2:8]
    np.testing.assert_allclose(found, (box * weights).sum((1, 2)) / weights.sum(), rtol=1e-6)


def test_rewritten_corners_make_an_accumulation_stale(store):
    cfagg.accumulate(store, "tas", [("y", "x")], weights="area")
    zarr.open_array(store / "lat_bnds", mode="r+")[0, 0, 0] += 0.5
    with pytest.raises(StaleError), cfagg.open_accumulated(store, "tas") as opened:
        opened.mean(("y", "x"))


@pytest.mark.parametrize("gone", ["lon_bnds", "lon", "lat_bnds"])
def test_without_all_corners_there_are_no_areas(store, gone):
    del zarr.open_group(store)[gone]
    with pytest.raises(SourceError, match="bounds hold the corners"):
        find_weights(open_array(str(store), "tas"), "area", 1 << 20)


@pytest.mark.parametrize("name", ["lat_bnds", "lon_bnds"])
def test_corners_in_other_units_than_their_coordinate_are_refused(store, name):
    zarr.open_array(store / name, mode="r+").attrs["units"] = "radian"
    with pytest.raises(ConformError, match=f"'{name}' is in 'radian', but its coordinate"):
        find_weights(open_array(str(store), "tas"), "area", 1 << 20)


def test_corners_beyond_memory_and_beyond_the_pole_are_refused(store):
    with pytest.raises(LimitError, match="corners"):
        find_weights(open_array(str(store), "tas"), "area", 1000)
    zarr.open_array(store / "lat_bnds", mode="r+")[2, 2, 2] = 91
    with pytest.raises(ConformError, match="beyond 90 degrees"):
        find_weights(open_array(str(store), "tas"), "area", 1 << 20)
