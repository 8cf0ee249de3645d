"""The accessor of DataArray: the accumulation where it is proved to be of these values, else xarray, and which."""

import shutil
import subprocess
import sys
import warnings

import hypothesis.strategies as st
import numpy as np
import pytest
import xarray as xr
import zarr
from hypothesis import given, settings

import cfagg.api.accessor
from cfagg.accumulation.accumulating import accumulate
from cfagg.errors import NotAccumulatedError, SelectionError, StaleAccumulationWarning, StaleError
from tests.effort import examples

FROM = "from the accumulation"
STATISTICS = ("mean", "sum", "count", "min", "max", "std", "var")


def values(shape=(50, 6, 8), missing=True):
    rng = np.random.default_rng(7)
    out = rng.normal(280, 10, shape)
    if missing:
        out[rng.random(shape) < 0.1] = np.nan
        out[3:20, 1, 2] = np.nan
    return out


def write(path, data=None, dtype="f8", accumulated=True, **encoding):
    data = values() if data is None else data
    time = xr.date_range("2000-01-01", periods=data.shape[0], freq="10D")
    array = xr.DataArray(
        data,
        dims=("time", "lat", "lon"),
        coords={"time": time, "lat": np.arange(6.0), "lon": np.arange(8.0), "area": (("lat", "lon"), np.ones((6, 8)))},
        attrs={"units": "K", "long_name": "temperature"},
        name="tas",
    )
    store = array.to_dataset().astype({"tas": dtype}) if not encoding else array.to_dataset()
    store.to_zarr(path, encoding={"tas": {"chunks": (12, 4, 8), **encoding}}, consolidated=False)
    if accumulated:
        accumulate(path, "tas", dims=["time", "lat", "lon", ("lat", "lon")])
    return path


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return write(tmp_path_factory.mktemp("accessor") / "a.zarr")


def opened(path, dask=False):
    return xr.open_zarr(path, consolidated=False, chunks={} if dask else None).tas


def same(result, expected, rtol=1e-12):
    """Compare values, dimensions, coordinates and the name."""
    assert result.dims == expected.dims
    assert result.name == expected.name
    assert set(result.coords) == set(expected.coords)
    for name, coordinate in expected.coords.items():
        assert result.coords[name].equals(coordinate)
    np.testing.assert_allclose(result.values, expected.values, rtol=rtol)


@pytest.mark.few(5)
@pytest.mark.parametrize("dask", [False, True])
@pytest.mark.parametrize("statistic", STATISTICS)
@pytest.mark.parametrize("dim", ["time", ("lat", "lon"), None, ...])
def test_answers_are_those_of_xarray_and_come_from_the_accumulation(store, dask, statistic, dim):
    array = opened(store, dask)
    result = getattr(array.cfagg, statistic)(dim)
    assert result.encoding["cfagg"] == FROM
    same(result, getattr(opened(store), statistic)(dim), rtol=1e-9)


SLICES = st.tuples(*(st.one_of(st.slices(n), st.integers(0, n - 1)) for n in (50, 6, 8)))


@settings(max_examples=examples(40))
@given(
    dask=st.booleans(),
    key=SLICES,
    statistic=st.sampled_from(["mean", "sum", "count"]),
    dims=st.sets(st.sampled_from(["time", "lat", "lon"])),
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_selections_are_answered_as_by_xarray(store, dask, key, statistic, dims):
    chosen = dict(zip(("time", "lat", "lon"), key, strict=True))
    array = opened(store, dask).isel(chosen)
    dim = [d for d in array.dims if d in dims]
    result = getattr(array.cfagg, statistic)(dim)
    assert result.encoding["cfagg"] == FROM or not array.size
    same(result, getattr(opened(store).load().isel(chosen), statistic)(dim), rtol=1e-9)


def test_an_accumulation_that_was_built_anew_is_opened_anew(tmp_path):
    path = write(tmp_path / "a.zarr")
    array = opened(path)
    assert array.cfagg.sum("time").encoding["cfagg"] == FROM
    zarr.open_array(path, path="tas", mode="r+")[3, 2, 1] = 1e6
    accumulate(path, "tas", refresh=True)
    result = array.cfagg.sum("time")
    assert result.encoding["cfagg"] == FROM
    assert result.values[2, 1] > 1e6


def test_an_accumulation_that_is_gone_is_not_remembered(tmp_path):
    path = write(tmp_path / "a.zarr")
    array = opened(path)
    assert array.cfagg.sum("time").encoding["cfagg"] == FROM
    shutil.rmtree(path / "tas_accumulation_group")
    assert "has no accumulation" in array.cfagg.sum("time").encoding["cfagg"]


def test_another_store_at_the_same_place_is_not_mistaken(tmp_path):
    path = write(tmp_path / "a.zarr")
    assert opened(path).cfagg.sum("time").encoding["cfagg"] == FROM
    shutil.rmtree(path)
    write(path, np.ones((50, 6, 8)))
    result = opened(path).cfagg.sum("time")
    assert result.encoding["cfagg"] == FROM
    assert (result == 50).all()


def test_selections_by_label_lists_and_dates_are_answered(store):
    for chosen in (
        opened(store).sel(time="2000"),
        opened(store, dask=True).sel(time=slice("2000-03", "2001-02"), lat=slice(1, 3)),
        opened(store).isel(time=[3, 4, 4, 17], lon=slice(None, None, -2)),
        opened(store).sel(time=opened(store).time.dt.month == 1),
    ):
        result = chosen.cfagg.mean("time")
        assert result.encoding["cfagg"] == FROM
        same(result, chosen.mean("time"))


@pytest.mark.few(4)
@pytest.mark.parametrize("dask", [False, True])
@pytest.mark.parametrize("key", ["time.month", "time.season", "time.year", "lat"])
def test_groups_are_answered_as_by_xarray(store, dask, key):
    chosen = opened(store, dask).isel(time=slice(2, 45))
    result = chosen.cfagg.groupby(key).mean()
    assert result.encoding["cfagg"] == FROM
    # Whether xarray keeps coordinates along a dimension that it groups by depends on the library that does it.
    expected = opened(store).isel(time=slice(2, 45)).load().groupby(key).mean().drop_vars("area", errors="ignore")
    same(result.drop_vars("area", errors="ignore"), expected.transpose(*result.dims))
    assert chosen.cfagg.groupby(key).mean(explain=True).accumulated


def test_labels_of_the_array_at_hand_count(store):
    def shifted():
        times = opened(store).time + np.timedelta64(20, "D")
        return opened(store).assign_coords(time=times, lat=np.arange(6.0) * 2).rename(lon="x").rename("other")

    for result, expected in (
        (shifted().cfagg.mean("x"), shifted().mean("x")),
        (shifted().cfagg.groupby("time.month").mean("time"), shifted().load().groupby("time.month").mean("time")),
    ):
        assert result.encoding["cfagg"] == FROM
        same(result, expected.transpose(*result.dims))


def test_attributes_of_the_array_at_hand_are_kept_with_a_cell_method(store):
    array = opened(store).assign_attrs(units="kelvin")
    result = array.cfagg.mean("time")
    assert result.attrs == {"units": "kelvin", "long_name": "temperature", "cell_methods": "time: mean"}
    assert array.cfagg.mean("time", keep_attrs=False).attrs == {}


@pytest.mark.few(3)
@pytest.mark.parametrize("dask", [False, True])
@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda a: a + 0, ""),
        (lambda a: a.where(a > 280), ""),
        (lambda a: a.load(), "in memory"),
        (lambda a: a.astype("f4"), ""),
        (lambda a: a.fillna(0), ""),
        (lambda a: a.copy(data=a.values * 2), "in memory"),
    ],
)
def test_changed_arrays_are_computed_by_xarray(store, dask, change, reason):
    array = change(opened(store, dask))
    array.encoding = opened(store).encoding
    result = array.cfagg.mean("time")
    assert result.encoding["cfagg"].startswith("by xarray: ")
    assert reason in result.encoding["cfagg"]
    np.testing.assert_array_equal(result.values, array.mean("time").values)
    assert result.attrs["cell_methods"] == "time: mean"


def test_values_set_in_place_are_used(store):
    array = opened(store)
    array[0, 0, 0] = 1e6
    assert float(array.cfagg.max()) == 1e6
    loaded = opened(store).load()
    loaded.values[1, 1, 1] = 1e7
    assert float(loaded.cfagg.max()) == 1e7


def test_without_an_accumulation_xarray_computes_and_nothing_is_warned(tmp_path):
    array = opened(write(tmp_path / "a.zarr", accumulated=False))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = array.cfagg.std("time", ddof=1)
    assert "has no accumulation" in result.encoding["cfagg"]
    same(result, array.std("time", ddof=1))
    assert not array.cfagg.mean(explain=True).accumulated


def test_one_changed_value_is_noticed_and_warned_of(tmp_path):
    path = write(tmp_path / "a.zarr")
    array = opened(path)
    zarr.open_array(path, path="tas", mode="r+")[3, 2, 1] = 1e6
    with pytest.warns(StaleAccumulationWarning, match=r"chunk .* cfagg accumulate|cfagg accumulate .* --refresh"):
        result = array.cfagg.max("time")
    assert result.encoding["cfagg"].startswith("by xarray: ")
    assert float(result.max()) == 1e6
    with pytest.warns(StaleAccumulationWarning):
        assert not opened(path).cfagg.mean("time", explain=True).accumulated


def test_a_store_that_grew_since_it_was_opened_is_not_mistaken(tmp_path):
    path = write(tmp_path / "a.zarr")
    array = opened(path)
    more = xr.open_zarr(path, consolidated=False).isel(time=slice(0, 12)).load().drop_vars(("lat", "lon", "area"))
    more.drop_encoding().to_zarr(path, append_dim="time", consolidated=False)
    accumulate(path, "tas", refresh=True)
    result = array.cfagg.sum("time")
    assert "the shape or type of the stored array has changed" in result.encoding["cfagg"]
    same(result, array.sum("time"))
    assert opened(path).cfagg.sum("time").encoding["cfagg"] == FROM


def test_a_damaged_accumulation_is_warned_of(tmp_path):
    path = write(tmp_path / "a.zarr")
    (path / "tas_accumulation_group" / "acc_time" / "zarr.json").unlink()
    with pytest.warns(StaleAccumulationWarning, match="acc_time"):
        result = opened(path).cfagg.mean("time")
    same(result, opened(path).mean("time"))


PACKED = {"dtype": "i2", "scale_factor": 0.01, "add_offset": 280.0, "_FillValue": -9999}


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_packed_values_are_answered_decoded_only(tmp_path, zarr_format):
    path = tmp_path / "p.zarr"
    write(path, accumulated=False, **PACKED) if zarr_format == 3 else _write_v2(path)
    accumulate(path, "tas", dims=["time"])
    decoded = opened(path)
    result = decoded.cfagg.mean("time")
    assert result.encoding["cfagg"] == FROM
    np.testing.assert_allclose(result.values, decoded.mean("time", dtype="f8").values, rtol=1e-6)
    raw = xr.open_zarr(path, consolidated=False, chunks=None, mask_and_scale=False).tas
    result = raw.cfagg.mean("time")
    assert "decoded differently" in result.encoding["cfagg"]
    same(result, raw.mean("time"))


def _write_v2(path):
    data = xr.DataArray(values(), dims=("time", "lat", "lon"), name="tas").to_dataset()
    data.to_zarr(path, encoding={"tas": {"chunks": (12, 4, 8), **PACKED}}, consolidated=False, zarr_format=2)


def test_infinite_values_are_left_to_xarray(tmp_path):
    data = values(missing=False)
    data[5, 1, 1] = np.inf
    array = opened(write(tmp_path / "a.zarr", data))
    result = array.cfagg.mean("time")
    assert "infinite" in result.encoding["cfagg"]
    assert np.isinf(result.values[1, 1])


def test_values_out_of_a_valid_range_are_left_to_xarray(tmp_path):
    path = write(tmp_path / "a.zarr", accumulated=False)
    zarr.open_array(path, path="tas", mode="r+").update_attributes({"valid_max": 290.0})
    accumulate(path, "tas", dims=["time"])
    result = opened(path).cfagg.max()
    assert "missing" in result.encoding["cfagg"]
    assert float(result) > 290


def test_booleans_are_left_to_xarray_for_their_types(tmp_path):
    array = xr.DataArray(np.arange(12) % 3 == 0, dims="time", name="wet")
    array.to_dataset().chunk(time=4).to_zarr(tmp_path / "a.zarr")
    cfagg.accumulate(tmp_path / "a.zarr", "wet")
    with xr.open_zarr(tmp_path / "a.zarr") as opened:
        result = opened["wet"].cfagg.max("time")
    assert result.dtype == bool
    assert result.encoding["cfagg"].startswith("by xarray: its values are booleans"), result.encoding["cfagg"]


def test_a_fill_value_that_the_accumulation_does_not_know_is_left_to_xarray(tmp_path):
    path = write(tmp_path / "a.zarr", values(missing=False))
    # Without a trace in the files: only the accumulation would not know of it.
    array = xr.decode_cf(
        xr.open_zarr(path, consolidated=False, chunks=None, mask_and_scale=False).assign(
            tas=lambda d: d.tas.assign_attrs(missing_value=values(missing=False)[0, 0, 0])
        )
    ).tas
    result = array.cfagg.count("time")
    assert "missing" in result.encoding["cfagg"]
    assert result.values[0, 0] == 49


@pytest.fixture(scope="module")
def weighted(tmp_path_factory):
    path = write(tmp_path_factory.mktemp("weighted") / "w.zarr", accumulated=False)
    accumulate(path, "tas", dims=["time", ("lat", "lon")], weights=np.arange(1.0, 7.0)[:, None])
    return path


def test_weights_count_where_they_are_asked_for(weighted):
    array = opened(weighted).isel(lat=slice(1, 5))
    result = array.cfagg.mean(("lat", "lon"), weights="stored")
    assert result.encoding["cfagg"] == FROM
    expected = array.weighted(xr.DataArray(np.arange(2.0, 6.0), dims="lat")).mean(("lat", "lon"))
    np.testing.assert_allclose(result.values, expected.values, rtol=1e-12)


@pytest.mark.few(7)
@pytest.mark.parametrize("statistic", STATISTICS)
@pytest.mark.parametrize("dim", ["time", "lat", ("lat", "lon")])
def test_values_weigh_alike_where_weights_are_not_asked_for(weighted, statistic, dim):
    array = opened(weighted)
    result = getattr(array.cfagg, statistic)(dim)
    same(result, getattr(array, statistic)(dim), rtol=1e-9)
    free = statistic in ("count", "min", "max") or (dim == "time" and statistic != "sum")
    assert (result.encoding["cfagg"] == FROM) == free


def test_weights_are_never_made_up(weighted, store, tmp_path):
    with pytest.raises(NotAccumulatedError, match="in memory"):
        opened(weighted).load().cfagg.mean("lat", weights="stored")
    with pytest.raises(SelectionError, match="has no weights"):
        opened(store).cfagg.mean("lat", weights="stored")
    with pytest.raises(NotAccumulatedError, match="cfagg accumulate"):
        opened(write(tmp_path / "a.zarr", accumulated=False)).cfagg.mean("lat", weights="stored")
    path = write(tmp_path / "b.zarr", accumulated=False)
    accumulate(path, "tas", dims=["time"], weights=np.ones((6, 1)))
    array = opened(path)
    zarr.open_array(path, path="tas", mode="r+")[0] = 1
    with pytest.raises(StaleError, match="--refresh"):
        array.cfagg.mean("lat", weights="stored")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda a: a.cfagg.mean("height"), "no dimension 'height'"),
        (lambda a: a.cfagg.mean("time", weights="area"), "weights='area'"),
        (lambda a: a.cfagg.std("time", ddof=1, weights="stored"), "ddof"),
        (lambda a: a.cfagg.groupby("when.month").mean(), "no coordinate 'when'"),
        (lambda a: a.cfagg.groupby("time.fortnight").mean(), "fortnight"),
    ],
)
@pytest.mark.parametrize("loaded", [False, True])
def test_what_is_not_there_is_one_clear_error(store, call, message, loaded):
    array = opened(store).load() if loaded else opened(store)
    with pytest.raises((SelectionError, AttributeError), match=message):
        call(array)


def test_how_tells_the_plan_and_reads_nothing(store):
    how = opened(store).cfagg.mean("time", explain=True)
    assert how.accumulated
    assert "acc_time" in str(how)
    assert how.as_dict()["plan"]["statistic"] == "mean"
    how = opened(store).load().cfagg.mean("time", explain=True)
    assert str(how) == "by xarray, from all values: its values are in memory"
    assert how.as_dict() == {"accumulated": False, "reason": "its values are in memory", "plan": None}


def test_results_can_be_written(store, tmp_path):
    result = opened(store).cfagg.mean("time")
    result.to_netcdf(tmp_path / "m.nc")
    result.to_dataset().to_zarr(tmp_path / "m.zarr", consolidated=False)
    np.testing.assert_array_equal(xr.open_dataset(tmp_path / "m.nc").tas.values, result.values)


def test_an_array_without_a_name_is_answered(store):
    array = opened(store).rename(None)
    result = array.cfagg.mean("time")
    assert (result.encoding["cfagg"], result.name) == (FROM, None)


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "how",
    [
        "import cfagg.api.accessor, xarray; a = xarray.open_zarr(STORE, consolidated=False).tas",
        "import cfagg; a = cfagg.read(STORE).tas",
        "import xarray, cfagg; a = xarray.open_zarr(STORE, consolidated=False).tas",
        "import xarray; xarray.backends.list_engines(); a = xarray.open_zarr(STORE, consolidated=False).tas",
    ],
)
def test_the_accessor_is_there(store, how):
    code = f"{how.replace('STORE', repr(str(store)))}; print(a.cfagg)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.startswith("<Statistics of 'tas'"), done.stderr


def test_cfagg_read_gives_arrays_with_an_accumulation(store):
    assert cfagg.read(store).tas.cfagg.mean("time").encoding["cfagg"] == FROM


@pytest.mark.filterwarnings("ignore::cfagg.errors.StaleAccumulationWarning")
def test_an_accumulation_that_was_opened_with_permission_is_not_used_without_it(tmp_path):
    store, elsewhere = tmp_path / "a.zarr", tmp_path / "elsewhere"
    write(store)
    elsewhere.mkdir()
    for file in list((store / "tas_accumulation_group").rglob("c.*")):
        moved = elsewhere / f"{file.parent.name} {file.name}"
        file.rename(moved)
        file.symlink_to(moved)
    sources = [
        cfagg.read(store, allow=allow).tas.cfagg.mean("time").encoding["cfagg"]
        for allow in ([elsewhere], [], [elsewhere])
    ]
    assert sources[0] == sources[2] == FROM
    assert "lies outside the store" in sources[1]
