"""Weights of cells: areas, variables of the store, arrays; and what is not a weight."""

import numpy as np
import pytest
import xarray as xr
import zarr

import cfagg
from cfagg.accumulation.accumulating import accumulate
from cfagg.accumulation.integrity import read_whole
from cfagg.accumulation.opening import open_group
from cfagg.accumulation.source import horizontal_dims
from cfagg.accumulation.weights import find_weights
from cfagg.errors import ConformError, LimitError, SourceError, StaleError, UnsupportedError
from cfagg.formats.zarr import open_array
from tests.accumulation import reference

DIMS = ("time", "lat", "lon")
SHAPE, CHUNKS = (10, 6, 8), (4, 3, 5)
LAT, LON = np.linspace(-75, 75, 6), np.linspace(0, 315, 8)
EDGES = np.linspace(-90, 90, 7)


def field():
    return np.random.default_rng(0).normal(size=SHAPE).astype("f4")


def put(store, name, data, dims, **attributes):
    group = zarr.open_group(store, mode="a")
    group.create_array(
        name, shape=data.shape, dtype=data.dtype, chunks=data.shape, dimension_names=dims, attributes=attributes
    )[...] = data


@pytest.fixture
def store(tmp_path):
    path = tmp_path / "a.zarr"
    reference.write_source(path, "tas", field(), DIMS, CHUNKS, coordinates=False)
    put(path, "lat", LAT, ["lat"], units="degrees_north", bounds="lat_bnds")
    put(path, "lon", LON, ["lon"], units="degrees_east", bounds="lon_bnds")
    return path


def found(store, weights, memory=1 << 20):
    return find_weights(open_array(store, "tas"), weights, memory)


def test_area_is_the_cosine_of_latitude_without_bounds(store):
    weights = found(store, "area")
    assert (weights.kind, weights.name, weights.axes) == ("area", "lat", (1,))
    np.testing.assert_allclose(weights.values, np.cos(np.deg2rad(LAT)))


def test_area_is_the_difference_of_sines_with_bounds(store):
    put(store, "lat_bnds", np.stack([EDGES[:-1], EDGES[1:]], 1), ["lat", "two"])
    np.testing.assert_allclose(found(store, "area").values, np.diff(np.sin(np.deg2rad(EDGES))))


def test_equal_widths_along_longitude_say_nothing_and_unequal_ones_count(store):
    put(store, "lat_bnds", np.stack([EDGES[:-1], EDGES[1:]], 1), ["lat", "two"])
    put(store, "lon_bnds", np.stack([LON - 22.5, LON + 22.5], 1), ["lon", "two"])
    assert found(store, "area").axes == (1,)
    edges = np.array([0, 10, 30, 60, 100, 150, 210, 280, 360.0])
    zarr.open_array(store / "lon_bnds", mode="r+")[:] = np.stack([edges[:-1], edges[1:]], 1)
    weights = found(store, "area")
    assert weights.axes == (1, 2)
    np.testing.assert_allclose(weights.values, np.diff(np.sin(np.deg2rad(EDGES)))[:, None] * np.diff(edges))


@pytest.mark.parametrize("units", ["degrees_east", "radian"])
@pytest.mark.parametrize(
    ("centres", "edges"),
    [
        ([0, 90, 180, 270], [[300, 60], [60, 120], [120, 240], [240, 300]]),
        ([0, 90, 180, -90], [[-60, 60], [60, 120], [120, -120], [-120, -60]]),
        ([360, 90, 180, 270], [[60, -60], [120, 60], [240, 120], [300, 240]]),
    ],
)
def test_a_cell_on_both_sides_of_the_meridian_where_longitudes_begin_is_not_wider(store, centres, edges, units):
    factor = np.pi / 180 if units == "radian" else 1
    put(store, "x", np.array(centres) * factor, ["x"], units=units, standard_name="longitude", bounds="x_bnds")
    put(store, "x_bnds", np.array(edges) * factor, ["x", "two"])
    put(store, "pr", np.ones((6, 4)), ["lat", "x"])
    weights = find_weights(open_array(store, "pr"), "area", 1 << 20)
    np.testing.assert_allclose(weights.values[0] / weights.values[0, 1], [2, 1, 2, 1])


@pytest.mark.parametrize(("centre", "edges"), [(180, [0, 360]), (200, [-180, 180]), (0, [-130, 130]), (100, [0, 260])])
def test_wide_cells_keep_their_widths(store, centre, edges):
    put(store, "x", np.array([centre, 30.0]), ["x"], units="degrees_east", bounds="x_bnds")
    put(store, "x_bnds", np.array([edges, [25, 35.0]]), ["x", "two"])
    put(store, "pr", np.ones((6, 2)), ["lat", "x"])
    weights = find_weights(open_array(store, "pr"), "area", 1 << 20)
    np.testing.assert_allclose(weights.values[0, 0] / weights.values[0, 1], np.diff(edges)[0] / 10)


def test_an_array_without_longitudes_has_areas_by_latitude(tmp_path):
    lon = xr.DataArray(np.zeros(0), dims="lon", attrs={"units": "degrees_east", "bounds": "lon_bnds"})
    fields = xr.Dataset({"tas": (("lat", "lon"), np.zeros((2, 0))), "lon_bnds": (("lon", "two"), np.zeros((0, 2)))})
    lat = ("lat", [-60.0, 0.0], {"units": "degrees_north"})
    fields.assign_coords(lat=lat, lon=lon).to_zarr(tmp_path / "a.zarr")
    np.testing.assert_allclose(found(tmp_path / "a.zarr", "area").values, [0.5, 1])


@pytest.mark.parametrize(("name", "values"), [("areacella", np.ones((6, 8))), ("lat_bnds", np.ones((6, 2)))])
@pytest.mark.parametrize("content", ["{", None])
def test_areas_are_not_replaced_by_others_if_what_they_are_made_from_cannot_be_read(store, name, values, content):
    zarr.open_array(store / "tas", mode="r+").attrs["cell_measures"] = "area: areacella"
    put(store, name, values.astype("f8" if content else "c16"), ["lat", "two" if name == "lat_bnds" else "lon"])
    if content:
        (store / name / "zarr.json").write_text(content)
    with pytest.raises((SourceError, UnsupportedError), match=name):
        found(store, "area")


@pytest.mark.parametrize("name", ["lat", "lon"])
def test_bounds_in_other_units_or_of_another_shape_are_refused(store, name):
    n = SHAPE[DIMS.index(name)]
    put(store, f"{name}_bnds", np.zeros((n, 2)), [name, "two"], units="radians")
    with pytest.raises(ConformError, match=f"'{name}_bnds' is in 'radians', but its coordinate '{name}' in 'degrees_"):
        found(store, "area")
    del zarr.open_group(store)[f"{name}_bnds"]
    put(store, f"{name}_bnds", np.zeros((n, 3)), [name, "three"])
    with pytest.raises(ConformError, match=rf"'{name}_bnds' of '{name}' have shape \({n}, 3\), expected \({n}, 2\)"):
        found(store, "area")


def test_bounds_may_name_the_units_of_their_coordinate_in_another_spelling(store):
    put(store, "lat_bnds", np.stack([EDGES[:-1], EDGES[1:]], 1), ["lat", "two"], units="degrees")
    np.testing.assert_allclose(found(store, "area").values, np.diff(np.sin(np.deg2rad(EDGES))))


def test_area_is_the_variable_of_cell_measures_where_it_is_there(store):
    tas = zarr.open_array(store / "tas", mode="r+")
    tas.attrs["cell_measures"] = "volume: v area: areacella"
    assert found(store, "area").name == "lat"
    area = np.random.default_rng(1).random((8, 6)) + 1
    put(store, "areacella", area, ["lon", "lat"], units="m2")
    weights = found(store, "area")
    assert (weights.kind, weights.name, weights.axes) == ("area", "areacella", (1, 2))
    np.testing.assert_array_equal(weights.values, area.T)


def test_area_in_radians_and_south_pole_rounding(store):
    put(
        store, "y", np.array([-np.pi / 2 * (1 + 1e-7), 0.0, np.pi / 2]), ["y"], units="radian", standard_name="latitude"
    )
    put(store, "pr", np.ones((3, 2)), ["y", "x"])
    weights = find_weights(open_array(store, "pr"), "area", 1 << 20)
    np.testing.assert_allclose(weights.values, [0, 1, 0], atol=1e-9)
    assert (weights.values >= 0).all()


def test_area_of_a_grid_without_latitude_is_refused(store):
    put(store, "u", np.ones((3, 2)), ["y", "x"])
    with pytest.raises(SourceError, match="needs a variable that cell_measures names, a latitude coordinate"):
        find_weights(open_array(store, "u"), "area", 1 << 20)
    put(store, "rlat", np.linspace(-20, 20, 3), ["rlat"], units="degrees", standard_name="grid_latitude")
    put(store, "v", np.ones((3, 2)), ["rlat", "x"])
    with pytest.raises(SourceError, match="latitude"):
        find_weights(open_array(store, "v"), "area", 1 << 20)


def test_latitudes_beyond_the_poles_are_refused(store):
    zarr.open_array(store / "lat", mode="r+")[0] = -91
    with pytest.raises(ConformError, match="beyond 90 degrees"):
        accumulate(store, "tas", weights="area")


def test_bounds_beyond_the_pole_are_clipped(store):
    lat = np.linspace(-90, 90, 97)
    edges = np.append(lat - 0.947, 90.947)
    edges[1:-1] = lat[:-1] + 0.9375
    put(store, "y", lat, ["y"], units="degrees_north", standard_name="latitude", bounds="y_bnds")
    put(store, "y_bnds", np.stack([edges[:-1], edges[1:]], 1), ["y", "two"])
    put(store, "pr", np.ones((97, 2)), ["y", "x"])
    weights = find_weights(open_array(store, "pr"), "area", 1 << 20)
    clipped = np.sin(np.deg2rad(np.clip(edges, -90, 90)))
    np.testing.assert_allclose(weights.values, np.diff(clipped), rtol=1e-12)
    assert weights.values.sum() == pytest.approx(2.0)


def test_a_cell_that_lies_beyond_the_pole_is_refused(store):
    put(store, "y", np.array([-45.0, 45.0]), ["y"], units="degrees_north", standard_name="latitude", bounds="y_bnds")
    put(store, "y_bnds", np.array([[-91.0, -95.0], [0.0, 90.0]]), ["y", "two"])
    put(store, "pr", np.ones((2, 2)), ["y", "x"])
    with pytest.raises(ConformError, match="beyond 90 degrees"):
        find_weights(open_array(store, "pr"), "area", 1 << 20)


def test_a_variable_is_matched_by_its_dimensions_and_unpacked(store):
    put(store, "w", np.arange(48, dtype="i2").reshape(8, 6), ["lon", "lat"], scale_factor=0.5)
    weights = found(store, "w")
    assert (weights.kind, weights.name, weights.axes) == ("variable", "w", (1, 2))
    np.testing.assert_array_equal(weights.values, np.arange(48).reshape(8, 6).T / 2)


def test_an_array_broadcasts_as_numpy_does_and_a_labelled_one_by_names(store):
    values = np.arange(6.0)
    assert found(store, values[:, None]).axes == (1,)
    assert found(store, values[None, :, None]).axes == (1,)
    assert found(store, np.ones((6, 8))).axes == (1, 2)
    labelled = xr.DataArray(np.arange(48.0).reshape(8, 6), dims=("lon", "lat"), name="w")
    weights = found(store, labelled)
    assert (weights.kind, weights.axes) == ("array", (1, 2))
    np.testing.assert_array_equal(weights.values, labelled.values.T)
    assert found(store, 2.0).values.tolist() == [2.0] * 8
    assert found(store, None) is None


def test_labelled_weights_have_the_labels_of_the_array(tmp_path):
    lat, lon = [80.1, 40.0, 0.0], np.array([10, 20])
    array = xr.DataArray(np.arange(6.0).reshape(3, 2), {"lat": lat, "lon": lon}, ("lat", "lon"), name="tas")
    array.to_dataset().to_zarr(tmp_path / "a.zarr")
    right = xr.DataArray([1.0, 2.0, 3.0], {"lat": lat}, "lat")
    for weights in (right, right.assign_coords(lat=np.float32(lat)), right.drop_vars("lat")):
        assert found(tmp_path / "a.zarr", weights).values.tolist() == [1, 2, 3]
    assert found(tmp_path / "a.zarr", xr.DataArray([1.0, 2.0], {"lon": lon.astype("f4")}, "lon")).axes == (1,)
    # A single label does not stand for all, as a length of 1 without labels does.
    single = (right * xr.DataArray([1.0, 2.0], {"lon": lon}, "lon"))[1:2]
    assert found(tmp_path / "a.zarr", single.drop_vars("lat")).values.tolist() == [2, 4]
    for weights in (right.sortby("lat"), right.assign_coords(lat=[80.1, 40.0, 0.5]), single):
        with pytest.raises(ConformError, match="other labels along 'lat' than the array"):
            found(tmp_path / "a.zarr", weights)


def test_labels_of_another_kind_are_those_of_the_array_only_if_they_say_the_same(tmp_path):
    time = xr.date_range("2000-02-28", periods=3, freq="D")
    array = xr.DataArray(np.arange(3.0), {"time": time}, "time", name="tas")
    array.to_dataset().to_zarr(tmp_path / "a.zarr")
    right = xr.DataArray([1.0, 2.0, 3.0], {"time": time}, "time")
    same = xr.date_range("2000-02-28", periods=3, freq="D", use_cftime=True)
    for labels in (time, same, time.as_unit("s")):
        assert found(tmp_path / "a.zarr", right.assign_coords(time=labels)).values.tolist() == [1, 2, 3]
    for labels in (same[::-1], xr.date_range("1850", periods=3, use_cftime=True), [0, 1, 2], list("abc")):
        with pytest.raises(ConformError, match="other labels along 'time' than the array"):
            found(tmp_path / "a.zarr", right.assign_coords(time=labels))


def test_a_cell_of_weight_0_is_not_missing(tmp_path):
    array = xr.DataArray([3.0, 5.0], dims="x", name="tas")
    array.to_dataset().to_zarr(tmp_path / "a.zarr")
    accumulate(tmp_path / "a.zarr", "tas", weights=np.array([0.0, 2.0]))
    assert cfagg.open_accumulated(tmp_path / "a.zarr", "tas").sum([]).values.tolist() == [0, 10]


@pytest.mark.few(6)
@pytest.mark.parametrize(
    ("weights", "error", "message"),
    [
        (np.ones(5), ConformError, r"weights of shape \(5,\) do not broadcast to its shape \(10, 6, 8\)"),
        (np.ones((2, 10, 6, 8)), ConformError, "do not broadcast"),
        (
            np.array([1, 2, -3, 4, 5, -6.0])[:, None],
            ConformError,
            r"2 of the 6 weights are negative, the first at \(2,\)",
        ),
        (np.array([1, np.nan, 1, 1, 1, 1])[:, None], ConformError, "1 of the 6 weights is missing"),
        (np.ma.masked_equal(np.arange(6), 3)[:, None], ConformError, "1 of the 6 weights is missing"),
        (np.array([1, np.inf, 1, 1, 1, 1])[:, None], ConformError, "infinite"),
        (["a", "b"], ConformError, "not an array of numbers"),
        (np.ones((10, 6, 8)) + 1j, ConformError, "not an array of numbers: its type is complex128"),
        (np.ones(8, "m8[s]"), ConformError, r"not an array of numbers: its type is timedelta64\[s\]"),
        (xr.DataArray(["a"] * 6, dims="lat"), ConformError, "not an array of numbers"),
        (xr.DataArray(np.ones(6) + 1j, dims="lat"), ConformError, "not an array of numbers"),
        (xr.Dataset({"w": ("lat", np.ones(6))}), ConformError, "not an array of numbers"),
        ("nothing", SourceError, "has no Zarr array 'nothing'"),
        (xr.DataArray(np.ones(3), dims="depth"), ConformError, "the weights have the dimensions"),
        (xr.DataArray(np.ones(3), dims="lat"), ConformError, r"the weights have shape \(3,\)"),
    ],
)
def test_what_is_no_weight_is_refused(store, weights, error, message):
    with pytest.raises(error, match=message):
        accumulate(store, "tas", weights=weights)
    assert [p.name for p in store.parent.iterdir()] == ["a.zarr"]


def test_weights_with_missing_values_or_too_large_are_refused(store):
    put(store, "w", np.array([1, 2, 3, 4, 5, -9.0]), ["lat"], missing_value=-9.0)
    with pytest.raises(ConformError, match="1 of the 6 weights of 'w' is missing"):
        found(store, "w")
    with pytest.raises(LimitError, match="the weights 'w' take 48 bytes"):
        found(store, "w", memory=40)
    with pytest.raises(LimitError, match="the weights take 48 bytes"):
        found(store, np.ones((6, 1)), memory=40)


def test_the_horizontal_pair_needs_both_of_its_coordinates(store):
    assert horizontal_dims(open_array(store, "tas")) == ("lat", "lon")
    zarr.open_array(store / "lon", mode="r+").attrs.clear()
    assert horizontal_dims(open_array(store, "tas")) == ()
    zarr.open_array(store / "lon", mode="r+").attrs["axis"] = "X"
    assert horizontal_dims(open_array(store, "tas")) == ("lat", "lon")


def curvilinear(path, **changes):
    """Write an array on a grid whose latitudes and longitudes have two dimensions."""
    y, x = np.mgrid[0:6, 0:8].astype(float)
    put(path, "nav_lat", 40 + y + 0.1 * x, ["y", "x"], units=changes.pop("units", "degrees_north"))
    put(path, "nav_lon", 10 + x - 0.1 * y, changes.pop("dims", ["y", "x"]), units="degrees_east")
    put(path, "tas", field(), ["time", "y", "x"], coordinates=changes.pop("coordinates", "nav_lat nav_lon"))
    return open_array(path, "tas")


def test_the_dimensions_of_a_curvilinear_grid_are_a_horizontal_pair(tmp_path):
    store = tmp_path / "a.zarr"
    assert horizontal_dims(curvilinear(store)) == ("y", "x")
    accumulate(store, "tas")
    found = cfagg.open_accumulated(store, "tas").mean(("y", "x"), explain=True)
    assert {s.array for s in found.steps} == {"tas_accumulation_group/acc_y_x"}


@pytest.mark.parametrize(
    "changes", [{"units": "degrees"}, {"coordinates": "nav_lat"}, {"coordinates": "nav_lat nav_lon gone"}]
)
def test_without_both_places_there_is_no_horizontal_pair(tmp_path, changes):
    expected = ("y", "x") if "gone" in changes.get("coordinates", "") else ()
    assert horizontal_dims(curvilinear(tmp_path / "a.zarr", **changes)) == expected


def grow(store, steps=3):
    array = zarr.open_array(store / "tas", mode="r+")
    n = array.shape[0]
    array.resize((n + steps, *array.shape[1:]))
    array[n:] = 1.0


def test_refreshing_keeps_the_kind_of_weights(store):
    put(store, "w", np.arange(6.0), ["lat"])
    for weights in ("area", "w", np.arange(6.0)[:, None]):
        accumulate(store, "tas", weights=weights, overwrite=True)
        kind = open_group(store, "tas").extra.weights
        grow(store)
        assert accumulate(store, "tas", refresh=True).action == "appended"
        assert open_group(store, "tas").extra.weights == kind


def test_weights_that_changed_are_not_appended_to_and_make_a_refresh_build_anew(store):
    put(store, "w", np.arange(6.0), ["lat"])
    accumulate(store, "tas", ["time"], weights="w")
    assert accumulate(store, "tas", refresh=True).action == "up to date"
    zarr.open_array(store / "w", mode="r+")[0] = 9
    grow(store)
    with pytest.raises(StaleError, match="the weights have changed"):
        accumulate(store, "tas", append=True)
    assert accumulate(store, "tas", refresh=True).action == "rebuilt"
    assert read_whole(open_group(store, "tas").weights.stored)[0] == 9
    zarr.open_array(store / "w", mode="r+")[0] = 8
    with pytest.raises(StaleError, match=r"the weights have changed since .* rebuild it with refresh=True"):
        accumulate(store, "tas", append=True)  # nothing has grown
    assert accumulate(store, "tas", refresh=True).action == "rebuilt"
    assert read_whole(open_group(store, "tas").weights.stored)[0] == 8


def test_weights_along_the_dimension_that_grows(store):
    put(store, "w", np.arange(10.0), ["time"])
    accumulate(store, "tas", ["time"], weights="w")
    grow(store, 2)
    with pytest.raises(ConformError, match=r"the weights have shape \(10,\)"):
        accumulate(store, "tas", append=True)
    w = zarr.open_array(store / "w", mode="r+")
    w.resize((12,))
    w[10:] = [3, 4]
    assert accumulate(store, "tas", append=True).action == "appended"
    group = open_group(store, "tas")
    raw = zarr.open_array(store / "tas")[:]
    np.testing.assert_allclose(
        read_whole(group.sums["time",].data)[-1], np.einsum("t,tyx->yx", w[:], raw.astype("f8")), rtol=1e-12
    )


def test_a_single_weight_is_stored_along_an_axis_that_does_not_grow_so_that_appends_extend_the_sums(store):
    accumulate(store, "tas", ["time"], weights=2.0)
    weights = open_group(store, "tas").weights
    assert (weights.axes, weights.array.tolist()) == ((2,), [2.0] * 8)
    grow(store)
    assert accumulate(store, "tas", append=True).action == "appended"
    data = zarr.open_array(store / "tas")[...]
    assert cfagg.open_accumulated(store, "tas").mean("time").values == pytest.approx(data.mean(0, "f8"))


def test_a_single_weight_is_not_stored_along_a_last_axis_of_times(tmp_path):
    reference.write_source(tmp_path / "a.zarr", "tas", field().transpose(1, 2, 0), ("lat", "lon", "time"), (3, 5, 4))
    zarr.open_array(tmp_path / "a.zarr" / "time", mode="r+").attrs["units"] = "days since 2000-01-01"
    assert found(tmp_path / "a.zarr", 2.0).axes == (1,)


@pytest.mark.parametrize("name", ["lat", "lon"])
def test_bounds_that_are_made_after_a_build_with_cosines_make_the_sums_stale(store, name):
    accumulate(store, "tas", [DIMS], weights="area")
    assert cfagg.open_accumulated(store, "tas").mean(DIMS).values
    edges = EDGES if name == "lat" else np.arange(9) * 45.0
    put(store, f"{name}_bnds", np.stack([edges[:-1], edges[1:]], 1), [name, "two"])
    with pytest.raises(StaleError, match=f"weights from '{name}_bnds': created since; weights would be taken from it"):
        cfagg.open_accumulated(store, "tas").mean(DIMS)
