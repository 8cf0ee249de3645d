"""Maps of grids with latitudes and longitudes of two dimensions: every cell where it is, once, across datelines too."""

import matplotlib as mpl
import numpy as np
import pytest
import xarray as xr
from matplotlib.collections import PolyCollection, QuadMesh
from matplotlib.figure import Figure

from cfagg.cf.dimension_kinds import grid, kinds
from cfagg.display import curvilinear, field, field_sections
from cfagg.display.curvilinear import draw

COLOURS = {"cmap": mpl.colormaps["viridis"], "vmin": 0.0, "vmax": 1.0}


def array(lat, lon, **attrs):
    coords = {
        "lat": (("y", "x"), np.asarray(lat, "f8"), {"units": "degrees_north", **attrs}),
        "lon": (("y", "x"), np.asarray(lon, "f8"), {"units": "degrees_east", **attrs}),
    }
    return xr.DataArray(np.linspace(0, 1, np.size(lat)).reshape(np.shape(lat)), coords=coords, dims=("y", "x"))


def places(array):
    return curvilinear.places(array, grid(array))


def regular(lat, lon):
    return array(*np.meshgrid(lat, lon, indexing="ij"))


def covered(found, lat, lon):
    """Return how many drawn cells lie over a place."""
    axes = Figure().add_subplot()
    draw(axes, found, np.ma.array(np.ones(found.known.shape)), COLOURS)
    number = 0
    for shape in axes.collections:
        if isinstance(shape, QuadMesh):
            hidden = np.ma.getmaskarray(shape.get_array()).ravel()
            xy = shape.get_coordinates()
            quads = np.stack([xy[:-1, :-1], xy[:-1, 1:], xy[1:, 1:], xy[1:, :-1]], axis=2).reshape(-1, 4, 2)[~hidden]
        elif isinstance(shape, PolyCollection):
            quads = [p.vertices[:4] for p in shape.get_paths()]
        number += sum(mpl.path.Path(q).contains_point((lon, lat)) for q in quads)
    return number


@pytest.mark.few(1)
@pytest.mark.parametrize("lon", [np.arange(1.0, 360, 5), np.arange(-178.0, 180, 5), np.arange(60.0, 420, 5) % 360])
def test_every_place_of_the_earth_is_under_one_cell(lon):
    found = places(regular(np.arange(-60.0, 61, 6), lon))
    assert (found.west, found.east) == ((-180, 180) if lon.min() < 0 else (0, 360))
    for place in np.array([[10.3, 12.2], [-31.1, 171.2], [2.2, 359.4], [40.4, 0.3], [5.5, 180.3]]):
        east = found.west + (place[1] - found.west) % 360
        assert covered(found, place[0], east) == 1


def test_a_regional_grid_across_the_dateline_is_one_region():
    found = places(
        regular(np.arange(-20.0, 21, 2), np.concatenate([np.arange(161.0, 180, 2), np.arange(-179.0, -160, 2)]))
    )
    assert (found.west, found.east) == (pytest.approx(160, abs=0.1), pytest.approx(200, abs=0.1))
    assert not found.wraps.any()


def test_cells_without_a_place_are_left_out_and_their_neighbours_drawn():
    lat, lon = np.meshgrid(np.arange(0.0, 10), np.arange(20.0, 32), indexing="ij")
    lat[4, 5] = lon[4, 5] = np.nan
    found = places(array(lat, lon))
    assert covered(found, 4.1, 25.05) <= 1
    assert covered(found, 7.1, 28.05) == 1
    assert np.isfinite(found.latitudes).all()


def test_a_rotated_grid_over_the_pole_is_drawn():
    """Cells around the pole as a rotated grid has them: each place beside the pole is under one."""
    y, x = np.meshgrid(np.radians(np.arange(-20.0, 21, 2.5)), np.radians(np.arange(-20.0, 21, 2.5)), indexing="ij")
    point = np.stack([np.cos(y) * np.cos(x), np.cos(y) * np.sin(x), np.sin(y)])
    lat, lon = np.degrees(np.arcsin(point[0])), np.degrees(np.arctan2(point[2], point[1]))
    found = places(array(lat, lon))
    assert found.north > 86
    assert [covered(found, 76.0, east) for east in (-170.0, -60.0, 20.0, 133.0)] == [1, 1, 1, 1]


@pytest.mark.parametrize("attrs", [{"units": "m"}, {"units": "radian"}, {"standard_name": "grid_latitude"}])
def test_what_is_no_degrees_of_the_earth_is_no_map(attrs):
    assert places(array([[1.0, 2], [3, 4]], [[1.0, 2], [3, 4]], **attrs)) is None


def test_maps_of_several_times_have_a_panel_for_each_time(tmp_path):
    one = array(*np.meshgrid(np.arange(3.0), np.arange(2.0), indexing="ij"))
    several = xr.concat([one] * 4, "time").assign_coords(
        time=np.arange("2000-01", "2000-05", dtype="M8[M]").astype("M8[ns]")
    )
    places = grid(several)
    assert places[0].dims == ("y", "x")
    assert field_sections.panel_dim(several, kinds(several), places) == "time"
    field.save(several, tmp_path / "p.png", kinds(several), places)
    assert (tmp_path / "p.png").stat().st_size > 5_000
